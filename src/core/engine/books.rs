//! What is remembered of the run: this process's record in the ledger, peaks, live bytes of the targets.

use rustix::time::{clock_gettime, ClockId};

use super::{now_ms, patiently, wall_ms, Engine};
use crate::config::Mode;
use crate::garbage;
use crate::guard::Guard;
use crate::ledger::{Ledger, Process, SegmentRecord, SEGMENTS};
use crate::live::{self, Scope};
use crate::names;
use crate::process::Owner;
use crate::segment::{Identity, Place, Segment};
use crate::target::{Directory, Medium};

/// The ledger is written at most so often unless something was redirected, refused or warned of, in milliseconds.
const WRITE_MS: u64 = 100;
const URGENT_MS: u64 = 10;
const FIRST_WRITES: u32 = 16;
/// Mappings are looked through at most so often, in milliseconds, and live bytes for at most a twentieth of the time, unless a
/// new peak seems to be reached.
const LIVE_MS: u64 = 250;
const LIVE_SHARE: u64 = 20;
const FIRST_LOOKS: u32 = 16;

/// This process's own books.
#[derive(Default)]
pub(super) struct Books {
    me: Option<Owner>,
    ledger: Option<Ledger>,
    pub(super) record: Process,
    waiting: Vec<(usize, SegmentRecord)>,
    written_ms: u64,
    writes: u32,
    urgent: bool,
    others_promised: u64,
    others_read_ms: u64,
    swept_ms: u64,
}

impl Books {
    /// In a forked child: another process, with books of its own.
    pub(super) fn start_anew(&mut self) {
        *self = Books::default();
    }
}

/// Live bytes of the targets as last measured, and what this process added since.
#[derive(Default)]
pub(super) struct Live {
    measured_ms: u64,
    cost_us: u64,
    looks: u32,
    mapped_ms: u64,
    /// Bytes held by mappings alone.
    mapped: live::Bytes,
    bytes: live::Bytes,
    added: [u64; 8],
}

impl Live {
    /// Measures; with the mappings every 250 ms and where a new peak would rest on what was only mapped when last looked at.
    fn measure(&mut self, targets: &[crate::config::TargetSpec], scope: Scope, pids: &[i32], peak: u64) {
        let total = |bytes: &live::Bytes| bytes.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let began = clock_gettime(ClockId::Monotonic);
        let mut bytes = live::measure(targets, scope, pids, false);
        let ended = clock_gettime(ClockId::Monotonic);
        let nanoseconds = (ended.tv_sec - began.tv_sec).saturating_mul(1_000_000_000) + (ended.tv_nsec - began.tv_nsec);
        self.cost_us = (nanoseconds.max(0) / 1000) as u64;
        let carried = total(&self.mapped);
        let old = self.mapped_ms == 0 || now_ms().saturating_sub(self.mapped_ms) >= LIVE_MS;
        // The first looks of a process are whole ones; so is one whose result would be a peak that rests on old mappings.
        if old || self.looks <= FIRST_LOOKS || (carried > 0 && total(&bytes).saturating_add(carried) > peak) {
            let all = live::measure(targets, scope, pids, true);
            self.mapped = all.iter().zip(&bytes).map(|(all, held)| all.saturating_sub(*held)).collect();
            self.mapped_ms = now_ms().max(1);
            bytes = all;
        } else {
            for (bytes, mapped) in bytes.iter_mut().zip(&self.mapped) {
                *bytes = bytes.saturating_add(*mapped);
            }
        }
        self.bytes = bytes;
        self.added = [0; 8];
        self.measured_ms = now_ms().max(1);
    }

    /// As measured, and what this process has added since.
    fn estimate(&self) -> live::Bytes {
        let mut sum = self.bytes.clone();
        for (index, added) in self.added.iter().enumerate() {
            if index == sum.len() {
                sum.push(0);
            }
            if let Some(bytes) = sum.get_mut(index) {
                *bytes = bytes.saturating_add(*added);
            }
        }
        sum
    }
}

impl Engine {
    /// This process, as the kernel knows it.
    pub(super) fn me(&self) -> Owner {
        match patiently(&self.books) {
            Some(mut books) => *books.me.get_or_insert_with(Owner::current),
            None => Owner::current(),
        }
    }

    pub(super) fn command(&self) -> arrayvec::ArrayVec<u8, 64> {
        match patiently(&self.books) {
            Some(books) if !books.record.command.is_empty() => books.record.command.clone(),
            _ => command(),
        }
    }

    /// The first time that this process has to do with the guarded directory.
    pub(super) fn first_touch(&self, guard: &Guard, index: usize) {
        self.touched.store(true, std::sync::atomic::Ordering::Relaxed);
        let me = self.me();
        {
            let Some(mut books) = patiently(&self.books) else { return };
            let capacity = guard.space.capacity.unwrap_or(0);
            let media = self.config.targets.iter().take(8).map(|spec| Directory::open(&spec.path, guard.identity));
            let ram = media.enumerate().fold(0u64, |bits, (index, directory)| {
                bits | (u64::from(directory.is_ok_and(|directory| directory.medium == Medium::Ram)) << index)
            });
            books.record = Process {
                pid: me.pid as u64,
                parent: me.parent as u64,
                parent_start: crate::process::start_of(me.parent).unwrap_or(0),
                start: me.start,
                namespace: me.namespace,
                uid: rustix::process::getuid().as_raw().into(),
                began_ms: wall_ms(),
                capacity,
                budget: guard.space.capacity.map_or(0, |capacity| self.config.budget_bytes(capacity)),
                mode: match self.config.mode {
                    Mode::Redirect => 0,
                    Mode::Observe => 1,
                    Mode::Refuse => 2,
                    Mode::Off => 3,
                },
                processes: 1,
                ram_targets: ram,
                targets: self.config.targets.len() as u64,
                command: command(),
                ..Process::default()
            };
            let state = self.config.run.as_deref().or(self.config.state.as_deref());
            books.ledger = Ledger::open(state, guard.identity, me);
            if let Some(ledger) = &books.ledger {
                let keeps = self.config.run.is_some();
                ledger.begin(&books.record, || !keeps && is_over(ledger, &me));
            }
            books.urgent = true;
        }
        self.tell_start(guard, index);
        self.account(guard, index);
    }

    /// Changes this process's counters.
    pub(super) fn count(&self, change: impl FnOnce(&mut Process)) {
        if let Some(mut books) = patiently(&self.books) {
            change(&mut books.record);
        }
    }

    /// Puts a segment into the ring of the record.
    pub(super) fn record_segment(&self, segment: &Segment) {
        let record = SegmentRecord {
            dev: segment.identity.dev,
            ino: segment.identity.ino,
            promised: segment.promised,
            reserved: segment.reserved,
            created_ms: wall_ms().saturating_sub(now_ms().saturating_sub(segment.created_ms)),
            place: match segment.place {
                Place::Guard => 0,
                Place::Target(index) => u64::from(index) + 1,
            },
            name: segment.name.iter().copied().take(96).collect(),
        };
        if let Some(mut books) = patiently(&self.books) {
            let slot = books.record.next_segment as usize % SEGMENTS;
            books.record.next_segment = books.record.next_segment.wrapping_add(1);
            books.record.bytes_created = books.record.bytes_created.saturating_add(record.promised);
            books.record.largest = books.record.largest.max(record.promised);
            if books.waiting.len() >= SEGMENTS {
                books.waiting.clear();
            }
            books.urgent |= record.place > 0;
            books.waiting.push((slot, record));
        }
    }

    /// Looks at how full things are, notes peaks, writes the record when it is time.
    pub(super) fn account(&self, guard: &Guard, index: usize) {
        let mut guard_now = guard.space;
        if let Ok(space) = crate::room::space(guard.fd()) {
            guard_now = space;
        }
        let promised = self.promised();
        let redirected = self.measure_live(guard.identity);
        let fill = guard_now.used.saturating_add(promised);
        if let Some(mut books) = patiently(&self.books) {
            let total: u64 = redirected.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            let demand = fill.saturating_add(total);
            let record = &mut books.record;
            record.promised = promised;
            record.capacity = guard_now.capacity.unwrap_or(0);
            record.tmpfs_peak = record.tmpfs_peak.max(guard_now.used);
            record.redirected_peak = record.redirected_peak.max(total);
            for (peak, bytes) in record.target_peaks.iter_mut().zip(&redirected) {
                *peak = (*peak).max(*bytes);
            }
            if demand > record.demand_peak {
                record.demand_peak = demand;
                record.demand_peak_ms = wall_ms();
            }
            let now = now_ms();
            let pause = if books.urgent { URGENT_MS } else { WRITE_MS };
            // The first segments are written at once: many a process creates one and then only waits.
            let first = books.writes < FIRST_WRITES && !books.waiting.is_empty();
            if first || books.written_ms == 0 || now.saturating_sub(books.written_ms) >= pause {
                books.writes = books.writes.saturating_add(1);
                books.record.written_ms = wall_ms();
                let waiting = std::mem::take(&mut books.waiting);
                if let Some(ledger) = &books.ledger {
                    let _ = ledger.write(&books.record, &waiting);
                }
                books.written_ms = now;
                books.urgent = false;
            }
        }
        self.pass_levels(fill, guard_now.capacity, index);
    }

    pub(super) fn make_urgent(&self) {
        if let Some(mut books) = patiently(&self.books) {
            books.urgent = true;
        }
    }

    /// Most bytes wanted at once as far as this process has seen.
    pub(super) fn demand_peak(&self) -> u64 {
        patiently(&self.books).map_or(0, |books| books.record.demand_peak)
    }

    /// What this process, and the others of the ledger, were promised in the guard beyond what they hold.
    pub(super) fn promised(&self) -> u64 {
        let mut own = 0u64;
        self.table.for_each(|segment| {
            let open = segment.place == Place::Guard && segment.promised > segment.reserved;
            if open && names::kind(&segment.name) == names::Kind::Plain && !self.config.keeps(&segment.name) {
                own = own.saturating_add(self.unheld(segment));
            }
        });
        own.saturating_add(self.others_promised())
    }

    /// What a segment that is not reserved still lacks, as long as it is there: by its name, or by the descriptor that it was
    /// created with.
    fn unheld(&self, segment: &Segment) -> u64 {
        use rustix::fs;
        let by_descriptor = crate::borrow(segment.descriptor).and_then(|fd| fs::fstat(fd).ok());
        let stat = by_descriptor.filter(|stat| Identity::of(stat) == segment.identity).or_else(|| {
            let path = self.config.guards.get(segment.guard as usize)?;
            let path = [path.to_bytes(), b"/", segment.name.as_slice()].concat();
            let stat = fs::statat(fs::CWD, path.as_slice(), fs::AtFlags::SYMLINK_NOFOLLOW).ok()?;
            (Identity::of(&stat) == segment.identity).then_some(stat)
        });
        let Some(stat) = stat else { return 0 };
        (stat.st_size as u64).saturating_sub((stat.st_blocks as u64).saturating_mul(512))
    }

    fn others_promised(&self) -> u64 {
        let Some(mut books) = patiently(&self.books) else { return 0 };
        let now = now_ms();
        if books.ledger.is_some() && now.saturating_sub(books.others_read_ms) > 1000 {
            let (pid, start) = (books.record.pid, books.record.start);
            let others = books.ledger.as_ref().map(Ledger::processes).unwrap_or_default();
            books.others_promised = others
                .iter()
                .filter(|other| (other.pid, other.start) != (pid, start))
                .filter(|other| crate::process::is_alive(other.pid as i32, other.start))
                .fold(0, |sum, other| sum.saturating_add(other.promised));
            books.others_read_ms = now;
        }
        books.others_promised
    }

    /// Bytes that redirected segments hold, by target; measured when it is time, else as it was.
    fn measure_live(&self, guard: Identity) -> live::Bytes {
        let redirected = patiently(&self.books).is_some_and(|books| books.record.redirected > 0);
        if !redirected {
            return live::Bytes::new();
        }
        let peak = patiently(&self.books).map_or(0, |books| books.record.redirected_peak);
        let Some(mut live) = patiently(&self.live) else { return live::Bytes::new() };
        let age = now_ms().saturating_sub(live.measured_ms);
        let estimate: u64 = live.estimate().iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        // A new peak is measured, not guessed: most of what was added may have gone again. What others have added meanwhile is
        // not in the estimate, so it is looked at as often as a twentieth of the time allows.
        let share = if estimate > peak { 2 } else { LIVE_SHARE };
        let due = age.saturating_mul(1000) >= live.cost_us.saturating_mul(share).max(1000);
        // The first redirects of a process are always followed by a look: of several that fill up together and then hold what
        // they have, the last one sees it all.
        if live.looks < FIRST_LOOKS || live.measured_ms == 0 || due {
            live.looks = live.looks.saturating_add(1);
            let pids = self.pids();
            live.measure(&self.config.targets, Scope { guard: Some(guard) }, &pids, peak);
            return live.bytes.clone();
        }
        let mut bytes = live.bytes.clone();
        let since = live.measured_ms;
        drop(live);
        self.add_held_since(since, &mut bytes);
        bytes
    }

    /// Adds what this process redirected since the last measurement and still holds by the descriptor that it was created with.
    fn add_held_since(&self, measured_ms: u64, bytes: &mut live::Bytes) {
        self.table.for_each(|segment| {
            let Place::Target(index) = segment.place else { return };
            if segment.created_ms < measured_ms || segment.promised == 0 {
                return;
            }
            let stat = crate::borrow(segment.descriptor).and_then(|fd| rustix::fs::fstat(fd).ok());
            if stat.is_some_and(|stat| Identity::of(&stat) == segment.identity) {
                if let Some(sum) = bytes.get_mut(index as usize) {
                    *sum = sum.saturating_add(segment.promised);
                }
            }
        });
    }

    /// Bytes in all targets, as last measured and added to.
    pub(super) fn redirected_now(&self) -> u64 {
        let live = patiently(&self.live).map(|live| live.estimate()).unwrap_or_default();
        live.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }

    /// The processes that may hold segments: those of the ledger and their parents (a DataLoader's main process creates
    /// nothing, it only receives).
    fn pids(&self) -> Vec<i32> {
        let Some(books) = patiently(&self.books) else { return Vec::new() };
        let mut pids = vec![books.record.pid as i32, books.record.parent as i32];
        for process in books.ledger.as_ref().map(Ledger::processes).unwrap_or_default() {
            pids.push(process.pid as i32);
            pids.push(process.parent as i32);
        }
        drop(books);
        pids.retain(|pid| *pid > 0);
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    pub(super) fn added_to_target(&self, index: usize, bytes: u64) {
        if let Some(mut live) = patiently(&self.live) {
            if let Some(added) = live.added.get_mut(index) {
                *added = added.saturating_add(bytes);
            }
        }
    }

    /// Would `need` more bytes in target `index` exceed its cap?
    pub(super) fn over_cap(&self, index: usize, need: u64) -> bool {
        let Some(cap) = self.config.targets.get(index).and_then(|spec| spec.cap) else { return false };
        if need > cap {
            return true;
        }
        let pids = self.pids();
        let Some(mut live) = patiently(&self.live) else { return false };
        let total = |live: &Live| live.estimate().get(index).copied().unwrap_or(0).saturating_add(need);
        let age = now_ms().saturating_sub(live.measured_ms);
        // Near the cap, or after a while, the estimate is not good enough.
        let doubtful = total(&live) > cap && age >= (live.cost_us.saturating_mul(4) / 1000).max(2);
        if live.measured_ms == 0 || age >= LIVE_MS || doubtful {
            live.measure(&self.config.targets, Scope { guard: None }, &pids, u64::MAX);
        }
        total(&live) > cap
    }

    /// Removes targets whose link is gone, at most once a minute for all processes of the ledger.
    pub(super) fn collect_garbage(&self, guard: &Guard) {
        let now = clock_gettime(ClockId::Realtime).tv_sec;
        let me = self.me();
        let first = match patiently(&self.books) {
            Some(books) if books.swept_ms > 0 && now_ms().saturating_sub(books.swept_ms) < 60_000 => false,
            Some(mut books) => {
                books.swept_ms = now_ms().max(1);
                let mut what = crate::text::Text::<40>::new();
                what.add(format_args!("garbage.{:x}", me.namespace));
                books.ledger.as_ref().is_none_or(|ledger| ledger.first_in(what.as_str(), 60, now))
            }
            None => false,
        };
        if first {
            for orphan in garbage::find(guard, &self.config.targets, &me, garbage::YOUNG_SECONDS) {
                garbage::remove(guard, &self.config.targets, &orphan);
            }
        }
    }

    /// Something is to be said that nobody of the ledger has said yet.
    pub(super) fn once(&self, what: &str) -> bool {
        match patiently(&self.books) {
            Some(books) => books.ledger.as_ref().is_none_or(|ledger| ledger.once(what)),
            None => false,
        }
    }

    /// A fill level has been left behind and may be announced again; not in a run that redirects, which passes it with every
    /// batch and has been told what happens.
    pub(super) fn forget_level(&self, what: &str) {
        if let Some(books) = patiently(&self.books) {
            if let Some(ledger) = books.ledger.as_ref().filter(|ledger| !ledger.has_said("redirect")) {
                ledger.forget(what);
            }
        }
    }

    /// This process ends.
    pub fn end(&self) {
        if !self.is_touched() || !self.is_here() {
            return;
        }
        // A process that only received segments has opened no ledger yet.
        let opened = patiently(&self.books).is_some_and(|books| books.ledger.is_some());
        let Some(guard) = self.open_guard(0).filter(|guard| guard.is_ram) else { return };
        if !opened {
            let state = self.config.run.as_deref().or(self.config.state.as_deref());
            let me = self.me();
            if let Some(ledger) = Ledger::open(state, guard.identity, me) {
                if let Some(mut books) = patiently(&self.books) {
                    books.ledger = Some(ledger);
                    books.record = Process { processes: 1, command: command(), ..Process::default() };
                }
            }
        } else {
            self.account(&guard, 0);
        }
        let sum = {
            let Some(mut books) = patiently(&self.books) else { return };
            let record = books.record.clone();
            let Some(ledger) = books.ledger.take() else { return };
            if opened {
                ledger.end(&record);
            }
            let alive = ledger.sweep();
            if !alive.is_empty() {
                None
            } else {
                let sum = ledger.ended();
                // Under `shmguard run` the command reads the sums and clears up.
                if self.config.run.is_none() {
                    ledger.clear();
                }
                Some(sum)
            }
        };
        self.log_end();
        if let Some(sum) = sum {
            self.tell_farewell(&sum);
        }
    }
}

/// Are all that took part in what the ledger remembers gone? The dead are swept on the way.
///
/// A DataLoader's workers come and go with each epoch while their parent, which creates nothing and so has no record, goes
/// on: a living parent that runs the same program as this process is the same run.
fn is_over(ledger: &Ledger, me: &Owner) -> bool {
    let parents = |record: &Process| (record.parent as i32, record.parent_start, record.namespace);
    let other = |record: &Process| (record.pid as i32, record.start) != (me.pid, me.start);
    let mut known: Vec<_> = ledger.processes().iter().filter(|record| other(record)).map(parents).collect();
    if ledger.sweep().iter().any(other) {
        return false;
    }
    let ended = ledger.ended();
    if ended.processes > 0 {
        known.push(parents(&ended));
    }
    let own = executable("/proc/self/exe");
    !known.iter().any(|(parent, start, namespace)| {
        let mut path = crate::text::Text::<40>::new();
        path.add(format_args!("/proc/{parent}/exe"));
        *namespace == me.namespace
            && *parent > 0
            && crate::process::start_of(*parent) == Some(*start)
            && own.is_some()
            && executable(path.as_str()) == own
    })
}

fn executable(path: &str) -> Option<(u64, u64)> {
    rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// The process's command as the kernel has it.
fn command() -> arrayvec::ArrayVec<u8, 64> {
    let mut text = [0u8; 64];
    let length = crate::process::read_start(b"/proc/self/comm", &mut text).unwrap_or(0);
    text.iter().copied().take(length).take_while(|byte| *byte != b'\n').collect()
}
