//! Coming into the ledger and leaving it, one process at a time: so that exactly one of those that leave is the last.
//!
//! The turn is a flock on the ledger's directory. The kernel ends it when its holder dies.

use std::os::fd::OwnedFd;

use rustix::fs::{self, AtFlags, FlockOperation, Mode};
use rustix::io::Errno;
use rustix::thread::nanosleep;
use rustix::time::Timespec;

use super::directory::Ledger;
use super::record::{Process, Totals};

/// How long a process waits for its turn to come in, in looks a millisecond apart; a turn takes microseconds.
const BEGIN_LOOKS: u32 = 200;

/// The same for who leaves: the program has done its work, and hundreds may leave at once.
const LEAVE_LOOKS: u32 = 2000;

/// The turn to come or to leave, as long as it lives.
pub struct Door {
    directory: OwnedFd,
    /// False: it did not come in time, or this file system knows no flock. Then one goes through without.
    locked: bool,
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.locked {
            // Closing would not do: a child forked meanwhile by another thread has the descriptor too (flock(2)).
            let _ = fs::flock(&self.directory, FlockOperation::Unlock);
        }
    }
}

impl Ledger {
    /// The first record of this process. Then, if nobody else is here, and `is_over` says that what is remembered has passed,
    /// everything may be said again.
    ///
    /// The others wait before they say anything: their markers must not be taken away, and what the caller says before it
    /// drops the door comes first. `None`: the ledger cannot be opened.
    pub fn begin(&self, record: &Process, is_over: impl FnOnce() -> bool) -> Option<Door> {
        let door = self.door(BEGIN_LOOKS, true);
        let _ = self.write(record, &[]);
        // Hundreds may begin at once: who is not alone goes through at once, and need not ask the others one by one.
        if door.as_ref().is_some_and(|door| door.locked) && !self.is_another_here() && is_over() {
            self.remove_all(&[b"once.", b"ended.", b"c-"]);
        }
        door
    }

    /// This process ends: its `record`, if it has one here, goes into the sums and its file away. `clear` is called when nobody
    /// is left.
    ///
    /// Returns the sums if nobody is left. Of several that leave at the same moment one gets them, and they are whole: nobody
    /// else adds to them or looks who is left before `clear` has returned. (Should somebody hold the door for two seconds, who
    /// was stopped in it, it is done without: rather twice than not at all.)
    pub fn leave(&self, record: Option<&Process>, clear: impl FnOnce(&Ledger)) -> Option<Totals> {
        let door = self.door(LEAVE_LOOKS, false)?;
        if let Some(record) = record {
            self.end(&door.directory, record);
        }
        if self.is_anybody_left() {
            return None;
        }
        let sum = self.ended();
        clear(self);
        Some(sum)
    }

    /// Waits for its turn: `looks` milliseconds, on a loaded machine longer. `make`: the directory, should it be gone.
    fn door(&self, looks: u32, make: bool) -> Option<Door> {
        let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let mut opened = None;
        for _ in 0..looks {
            let directory = match opened.take() {
                Some(directory) => directory,
                None => match self.directory() {
                    Ok(directory) => directory,
                    Err(Errno::NOENT) if make => {
                        let _ = fs::mkdirat(fs::CWD, self.path(), Mode::RWXU);
                        self.directory().ok()?
                    }
                    Err(_) => return None,
                },
            };
            match fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.is_at_its_place(&directory) => return Some(Door { directory, locked: true }),
                // Who was the last has taken it away meanwhile: the next look finds the new one, or none.
                Ok(()) => {}
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    opened = Some(directory);
                    let _ = nanosleep(&pause);
                }
                Err(_) => return Some(Door { directory, locked: false }),
            }
        }
        let directory = opened.or_else(|| self.directory().ok())?;
        Some(Door { directory, locked: false })
    }

    fn is_at_its_place(&self, directory: &OwnedFd) -> bool {
        let Ok(opened) = fs::fstat(directory) else { return false };
        let found = fs::statat(fs::CWD, self.path(), AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::sync::Barrier;

    use super::super::{Ledger, Process, State};
    use crate::process::Owner;
    use crate::segment::Identity;

    /// Processes in pid namespaces of their own: whether they live is not asked of their numbers, only of their files.
    fn member(place: &tempfile::TempDir, number: u64) -> (Ledger, Process) {
        let state = CString::new(place.path().to_str().expect("utf-8")).expect("no nul");
        let me = Owner { pid: 100 + number as i32, start: 1, namespace: number + 1, ..Owner::current() };
        let ledger = Ledger::open(State::Run(&state), Identity { dev: 1, ino: 2 }, me).expect("a ledger");
        let record = Process {
            pid: me.pid as u64,
            start: me.start,
            namespace: me.namespace,
            created: 1,
            processes: 1,
            ..Process::default()
        };
        (ledger, record)
    }

    #[test]
    fn of_those_that_leave_at_once_one_is_the_last() {
        const MEMBERS: u64 = 12;
        let place = tempfile::tempdir().expect("a directory");
        for round in 0..100 {
            let ready = Barrier::new(MEMBERS as usize);
            let sums: Vec<_> = std::thread::scope(|scope| {
                let work = |number| {
                    let (ledger, record) = member(&place, number);
                    drop(ledger.begin(&record, || false));
                    ready.wait();
                    ledger.leave(Some(&record), Ledger::clear)
                };
                let threads: Vec<_> = (0..MEMBERS).map(|number| scope.spawn(move || work(number))).collect();
                threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
            });
            let counts: Vec<_> = sums.iter().map(|sum| (sum.processes, sum.created)).collect();
            assert_eq!(counts, [(MEMBERS, MEMBERS)], "round {round}");
        }
    }

    #[test]
    fn who_comes_while_the_last_one_leaves_is_written_down() {
        let place = tempfile::tempdir().expect("a directory");
        for round in 0..200 {
            let (old, record) = member(&place, 0);
            drop(old.begin(&record, || false));
            let ready = Barrier::new(2);
            let (fresh, record_of_fresh) = member(&place, 1);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    ready.wait();
                    old.leave(Some(&record), Ledger::clear);
                });
                ready.wait();
                drop(fresh.begin(&record_of_fresh, || false));
            });
            assert_eq!(fresh.processes(), std::slice::from_ref(&record_of_fresh), "round {round}");
            assert!(fresh.leave(Some(&record_of_fresh), Ledger::clear).is_some(), "round {round}");
        }
    }

    #[test]
    fn the_door_is_held_until_it_is_dropped() {
        let place = tempfile::tempdir().expect("a directory");
        let (first, record) = member(&place, 0);
        let (second, _) = member(&place, 1);
        let door = first.begin(&record, || false).expect("a door");
        assert!(door.locked);
        let other = second.door(3, false).expect("a ledger");
        assert!(!other.locked, "it did not come in time");
        drop(other);
        assert!(!second.door(1, false).expect("a ledger").locked, "who has not got it does not open it");
        drop(door);
        assert!(second.door(1, false).expect("a ledger").locked);
    }
}
