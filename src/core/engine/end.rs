//! The end of this process, and of a run: who is last clears up.

use parking_lot::{Mutex, MutexGuard};
use rustix::thread::nanosleep;
use rustix::time::Timespec;

use super::books::{command, Books};
use super::{now_ms, patiently, Engine};
use crate::ledger::{Ledger, Process, Turn};
use crate::process::{self, Owner};
use crate::text::Text;

impl Engine {
    /// This process ends.
    pub fn end(&self) {
        if !self.is_touched() || !self.is_here() {
            return;
        }
        // A process that only received segments has opened no ledger yet.
        let opened = last_patience(&self.books).is_some_and(|books| books.ledger.is_some());
        let Some(guard) = self.open_guard(0).filter(|guard| guard.is_ram) else { return };
        if !opened {
            let me = self.me();
            if let Some(ledger) = Ledger::open(self.state(), guard.identity, me) {
                if let Some(mut books) = last_patience(&self.books) {
                    books.ledger = Some(ledger);
                    books.record = Process { processes: 1, command: command(), ..Process::default() };
                }
            }
        } else {
            self.account(&guard, 0, 0);
        }
        let (ledger, record) = {
            let Some(mut books) = last_patience(&self.books) else { return };
            self.tally.put_into(&mut books.record);
            let Some(ledger) = books.ledger.take() else { return };
            (ledger, books.record.clone())
        };
        let sum = ledger.leave(opened.then_some(&record), |ledger| match guard.space.capacity {
            // Under `shmguard run` the command reads the sums and clears up.
            _ if self.config.run.is_some() => {}
            // A job that leaks one segment a run fills it up as well.
            Some(capacity) if guard.space.used > capacity / 16 => ledger.clear_but_trend(),
            _ => ledger.clear(),
        });
        self.log_end();
        if let Some(sum) = sum {
            self.tell_farewell(&sum);
        }
    }
}

impl Engine {
    /// Adds up the records of killed processes, so that the ledger does not grow: by one of those that begin, once a second.
    pub(super) fn sweep_the_dead(&self) {
        let Some(books) = patiently(&self.books) else { return };
        let Some(ledger) = &books.ledger else { return };
        let mut what = Text::<48>::new();
        what.add(format_args!("sweep.{:x}.{:x}", books.record.namespace, process::start_of(1).unwrap_or(0)));
        if let Turn::Mine { .. } = ledger.take_turn(what.as_str(), now_ms()) {
            let _ = ledger.sweep();
            ledger.end_turn(what.as_str(), now_ms().saturating_add(SWEEP_MS), 0);
        }
    }
}

/// How often the dead are added up, in milliseconds.
const SWEEP_MS: u64 = 1000;

/// The books at the end, when there is time: a thread that has them may be waiting for its turn to begin.
fn last_patience(books: &Mutex<Books>) -> Option<MutexGuard<'_, Books>> {
    let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    (0..300).find_map(|_| {
        let held = patiently(books);
        if held.is_none() {
            let _ = nanosleep(&pause);
        }
        held
    })
}

/// Are all that took part in what the ledger remembers gone? The dead are swept on the way.
///
/// A DataLoader's workers come and go with each epoch while their parent, which creates nothing and so has no record, goes
/// on: a living parent that runs the same program as this process is the same run.
pub(super) fn is_over(ledger: &Ledger, me: &Owner) -> bool {
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
        let mut path = Text::<40>::new();
        path.add(format_args!("/proc/{parent}/exe"));
        *namespace == me.namespace
            && *parent > 0
            && process::start_of(*parent) == Some(*start)
            && own.is_some()
            && executable(path.as_str()) == own
    })
}

fn executable(path: &str) -> Option<(u64, u64)> {
    rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino))
}
