//! What is remembered of the run: this process's record in the ledger, its counters and peaks.

use std::ffi::CStr;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::end::is_over;
use super::{now_ms, patiently, wall_ms, Engine};
use crate::config::Mode;
use crate::guard::Guard;
use crate::ledger::{Ledger, Process, SegmentRecord, State, SEGMENTS};
use crate::process::Owner;
use crate::segment::{Place, Segment};
use crate::target::{Directory, Medium, Unusable};
use crate::trend::Trend;

/// The ledger is written at most so often unless something was redirected, refused or warned of, in milliseconds.
const WRITE_MS: u64 = 100;
const URGENT_MS: u64 = 10;
const FIRST_WRITES: u32 = 16;

/// This process's own books.
#[derive(Default)]
pub(super) struct Books {
    me: Option<Owner>,
    pub(super) ledger: Option<Ledger>,
    pub(super) record: Process,
    waiting: Vec<(usize, SegmentRecord)>,
    /// The largest segment sized, and its name.
    largest: u64,
    pub(super) largest_name: arrayvec::ArrayVec<u8, 96>,
    written_ms: u64,
    writes: u32,
    pub(super) others_promised: u64,
    pub(super) others_read_ms: u64,
    /// Garbage is not looked for before this time, and how often in a row something had to be left.
    pub(super) collect_at_ms: u64,
    pub(super) collect_tries: u32,
    /// When the trend had its last sample of this process.
    pub(super) trend_ms: u64,
    /// The trend, where there is no ledger.
    pub(super) trend: Trend,
}

impl Books {
    /// In a forked child: another process, with books of its own.
    pub(super) fn start_anew(&mut self) {
        *self = Books::default();
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

    /// Has this process begun its books?
    pub(super) fn takes_part(&self) -> bool {
        self.takes_part.load(Ordering::Relaxed)
    }

    /// The first time that this process creates or opens a segment, it begins its books; by one of its threads, for which the
    /// others do not wait.
    pub(super) fn take_part(&self, guard: &Guard, index: usize) {
        if self.takes_part() || self.takes_part.swap(true, Ordering::AcqRel) {
            return;
        }
        self.touched.store(true, Ordering::Relaxed);
        let me = self.me();
        let logged = self.logs_ends() && self.log_start(guard, index);
        let door;
        let mut unusable = arrayvec::ArrayVec::<(usize, Unusable), 8>::new();
        {
            let Some(mut books) = patiently(&self.books) else {
                // The next time, then.
                self.takes_part.store(false, Ordering::Relaxed);
                return;
            };
            let capacity = guard.space.capacity.unwrap_or(0);
            let mut ram = 0u64;
            for (index, spec) in self.config.targets.iter().take(8).enumerate() {
                match Directory::open(&spec.path, guard.identity) {
                    Ok(directory) => ram |= u64::from(directory.medium == Medium::Ram) << index,
                    // No descriptor is left to look at it: that says nothing of the target.
                    Err(Unusable::Cannot(Errno::MFILE | Errno::NFILE)) => {}
                    Err(error) => unusable.push((index, error)),
                }
            }
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
            books.ledger = Ledger::open(self.state(), guard.identity, me);
            door = books.ledger.as_ref().and_then(|ledger| {
                let keeps = self.config.run.is_some();
                ledger.begin(&books.record, || !keeps && is_over(ledger, &me))
            });
            self.make_urgent();
        }
        // Nobody else of this ledger gets as far as saying something before the door is open again, nor a thread of this
        // process before it has begun.
        self.greet(guard, index);
        drop(door);
        self.sweep_the_dead();
        self.has_begun.store(true, Ordering::Release);
        self.tell_start(logged);
        for (index, error) in unusable {
            self.tell_unusable(index, error);
        }
        self.account(guard, index, 0);
    }

    pub(super) fn state(&self) -> State<'_> {
        match (self.config.run.as_deref(), self.config.state.as_deref()) {
            (Some(run), _) => State::Run(run),
            (None, Some(named)) => State::Named(named),
            (None, None) => State::Usual,
        }
    }

    /// SHMGUARD_STATE, if the ledger could not be kept there, and where it is instead; empty: nowhere.
    pub(super) fn misplaced(&self) -> Option<(&CStr, Box<[u8]>)> {
        let State::Named(named) = self.state() else { return None };
        let books = patiently(&self.books)?;
        match &books.ledger {
            Some(ledger) if ledger.lies_in(named) => None,
            Some(ledger) => Some((named, ledger.place().into())),
            None => Some((named, Box::default())),
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
        self.tally.sized(record.promised);
        if record.place > 0 {
            self.make_urgent();
        }
        if let Some(mut books) = patiently(&self.books) {
            let slot = books.record.next_segment as usize % SEGMENTS;
            books.record.next_segment = books.record.next_segment.wrapping_add(1);
            if record.promised > books.largest {
                books.largest = record.promised;
                books.largest_name = record.name.clone();
            }
            if books.waiting.len() >= SEGMENTS {
                books.waiting.clear();
            }
            books.waiting.push((slot, record));
        }
    }

    /// Looks at how full things are, notes peaks, writes the record when it is time.
    ///
    /// `coming`: bytes promised by the call that is about to be made, beyond what the file's size tells yet.
    pub(super) fn account(&self, guard: &Guard, index: usize, coming: u64) {
        let mut guard_now = guard.space;
        if let Ok(space) = crate::room::space(guard.fd()) {
            guard_now = space;
        }
        let promised = self.promised().saturating_add(coming);
        let redirected = self.measure_live(guard.identity);
        let fill = guard_now.used.saturating_add(promised);
        if let Some(mut books) = patiently(&self.books) {
            let others = books.others_promised;
            let total: u64 = redirected.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            let demand = fill.saturating_add(total);
            let record = &mut books.record;
            // What is counted from here on makes it urgent again.
            let urgent = self.urgent.swap(false, Ordering::AcqRel);
            self.tally.put_into(record);
            record.promised = promised.saturating_sub(others);
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
            let pause = if urgent { URGENT_MS } else { WRITE_MS };
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
            } else if urgent {
                self.make_urgent();
            }
        }
        self.pass_levels(fill, guard_now.capacity, index);
        self.foretell(index, fill, guard_now.capacity);
    }

    /// What this thread has counted is to be written soon. Who takes the flag must see the counts: relaxed, an aarch64 processor may
    /// show the flag before them, and it would be taken for an account without them.
    pub(super) fn make_urgent(&self) {
        self.urgent.store(true, Ordering::Release);
    }

    /// Most bytes wanted at once as far as this process has seen.
    pub(super) fn demand_peak(&self) -> u64 {
        patiently(&self.books).map_or(0, |books| books.record.demand_peak)
    }

    /// Is this something that nobody of the ledger has said yet? `None`: it could not be asked now; nothing was noted.
    pub(super) fn once(&self, what: &str) -> Option<bool> {
        // Another thread is about to begin the books, and to greet.
        if self.takes_part() && !self.has_begun.load(Ordering::Acquire) {
            return None;
        }
        let books = patiently(&self.books)?;
        Some(books.ledger.as_ref().is_none_or(|ledger| ledger.once(what)))
    }
}

/// The process's command as the kernel has it.
pub(super) fn command() -> arrayvec::ArrayVec<u8, 64> {
    let mut text = [0u8; 64];
    let length = crate::process::read_start(b"/proc/self/comm", &mut text).unwrap_or(0);
    text.iter().copied().take(length).take_while(|byte| *byte != b'\n').collect()
}
