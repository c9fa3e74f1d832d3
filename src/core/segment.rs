//! What is remembered of a segment that this process created, and the small table of them.
//!
//! Only the process whose hook saw an inode being created may move it; so the table is the licence to act. It is a ring:
//! when it is full the oldest segment that has been sized is forgotten (it then grows without our help).

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrayvec::ArrayVec;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::Stat;
use rustix::thread::{nanosleep, sched_yield};
use rustix::time::Timespec;

/// (st_dev, st_ino): what a file is. Asked at the moment of use, for a descriptor number proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// st_dev of the file.
    pub dev: u64,
    /// st_ino of the file.
    pub ino: u64,
}

impl Identity {
    /// The identity that fstat reports.
    pub fn of(stat: &Stat) -> Identity {
        Identity { dev: stat.st_dev, ino: stat.st_ino }
    }
}

/// The name of a segment below its guard: at most NAME_MAX (255) bytes, no slash; empty for a nameless one.
pub type Name = ArrayVec<u8, 255>;

/// Which call created the segment; it decides who may attach and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// shm_open with O_CREAT and O_EXCL.
    ShmOpen,
    /// shm_open with O_CREAT but without O_EXCL: a meeting place, never moved (peers without the library would get ELOOP).
    Rendezvous,
    /// open, openat or creat.
    Open,
    /// The mkstemp family.
    Mkstemp,
    /// O_TMPFILE with O_EXCL: can never get a name.
    Tmpfile,
    /// O_TMPFILE without O_EXCL: linkat may give it a name later, so it is not moved.
    LinkableTmpfile,
}

impl Origin {
    /// The word used in the log.
    pub fn word(self) -> &'static str {
        match self {
            Origin::ShmOpen => "shm_open",
            Origin::Rendezvous => "shm_open without O_EXCL",
            Origin::Open => "open",
            Origin::Mkstemp => "mkstemp",
            Origin::Tmpfile | Origin::LinkableTmpfile => "O_TMPFILE",
        }
    }
}

/// Where the segment's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the guarded directory.
    Guard,
    /// In target number n of the configuration.
    Target(u8),
}

/// One segment that this process created.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The inode that holds it now.
    pub identity: Identity,
    /// Its name when it was created; may have been unlinked or renamed since.
    pub name: Name,
    /// Name of its file in the target directory; empty while it is in the guard.
    pub target_name: crate::target::TargetName,
    /// How it was created.
    pub origin: Origin,
    /// Which guard it belongs to.
    pub guard: u8,
    /// Where its bytes are.
    pub place: Place,
    /// The size it was promised, in bytes; 0 = not sized yet.
    pub promised: u64,
    /// Bytes that we reserved for it from offset 0.
    pub reserved: u64,
    /// A shared mapping of it exists or has existed here: it cannot be moved any more.
    pub mapped: bool,
    /// It has been counted among those that did not fit and stayed.
    pub unsaved: bool,
    /// Its descriptor was passed to another process before it was sized.
    pub passed: bool,
    /// The process's fork count when it was created: another value now means that a child may hold the descriptor.
    pub forks: u32,
    /// The descriptor that the creating call returned. A hint only.
    pub descriptor: RawFd,
    /// CLOCK_BOOTTIME at creation, in milliseconds.
    pub created_ms: u64,
}

/// Slots in the table. 128 segments created and not yet sized at once is far above what any client does (a DataLoader
/// worker has one); the rest serve growth.
const SLOTS: usize = 128;

struct Slot {
    /// Inode number of the segment in here, 0 = free: lets a look-up pass by without taking the lock.
    ino: AtomicU64,
    segment: Mutex<Option<Segment>>,
}

/// The segments that this process created. Every lock is taken by try only; a busy slot is passed over.
pub struct Table {
    slots: [Slot; SLOTS],
    next: AtomicU32,
    used: AtomicU32,
}

/// A segment held for the duration of one hook; other threads pass it by meanwhile.
pub struct Held<'a> {
    slot: &'a Slot,
    segment: MutexGuard<'a, Option<Segment>>,
}

impl Held<'_> {
    /// The segment.
    pub fn get(&mut self) -> Option<&mut Segment> {
        self.segment.as_mut()
    }

    /// Notes that the segment's bytes live in another inode now.
    pub fn moved_to(&mut self, identity: Identity) {
        if let Some(segment) = self.segment.as_mut() {
            segment.identity = identity;
            self.slot.ino.store(identity.ino, Ordering::Release);
        }
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    /// An empty table.
    pub const fn new() -> Table {
        Table {
            slots: [const { Slot { ino: AtomicU64::new(0), segment: Mutex::new(None) } }; SLOTS],
            next: AtomicU32::new(0),
            used: AtomicU32::new(0),
        }
    }

    /// Nothing was created here: no hook needs to look any further.
    pub fn is_empty(&self) -> bool {
        self.used.load(Ordering::Acquire) == 0
    }

    /// Remembers a segment. A free slot first, then one whose segment has been sized, oldest first; if every slot is busy
    /// the segment is not remembered and so never moved.
    pub fn insert(&self, segment: Segment) {
        // Disks give the inode number of a removed file to the next one at once: what is remembered under it is over.
        while let Some(old) = self.find(segment.identity) {
            self.forget(old);
        }
        let start = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        for want_free in [true, false] {
            for step in 0..SLOTS {
                let Some(slot) = self.slots.get((start + step) % SLOTS) else { continue };
                let Some(mut held) = slot.segment.try_lock() else { continue };
                let take = match held.as_ref() {
                    None => true,
                    Some(old) => !want_free && (old.promised > 0 || step == SLOTS - 1),
                };
                if take {
                    let ino = segment.identity.ino;
                    *held = Some(segment);
                    slot.ino.store(ino, Ordering::Release);
                    self.used.fetch_add(1, Ordering::Release);
                    return;
                }
            }
        }
    }

    /// May a segment with this identity be in the table? Reads only, takes no lock: a signal handler may leave it by a jump.
    pub fn may_hold(&self, identity: Identity) -> bool {
        !self.is_empty() && self.slots.iter().any(|slot| slot.ino.load(Ordering::Acquire) == identity.ino)
    }

    /// The segment with this identity, if this process created it. One that another thread is busy with is waited for, as
    /// [`wait_for`] says.
    pub fn find(&self, identity: Identity) -> Option<Held<'_>> {
        if self.is_empty() {
            return None;
        }
        for slot in &self.slots {
            if slot.ino.load(Ordering::Acquire) != identity.ino {
                continue;
            }
            // Passed by, a segment would be neither reserved nor moved: whoever looks at the slot is waited for.
            let Some(held) = wait_for(&slot.segment) else { continue };
            if held.as_ref().is_some_and(|segment| segment.identity == identity) {
                return Some(Held { slot, segment: held });
            }
        }
        None
    }

    /// Forgets a segment: another file now has its identity, or it is known to be gone.
    pub fn forget(&self, mut held: Held<'_>) {
        held.slot.ino.store(0, Ordering::Release);
        *held.segment = None;
    }

    /// Calls `each` for every segment that no other thread is busy with.
    pub fn for_each(&self, mut each: impl FnMut(&Segment)) {
        for slot in &self.slots {
            if slot.ino.load(Ordering::Acquire) == 0 {
                continue;
            }
            // A copy, so that nobody waits for what `each` does.
            let copy = slot.segment.try_lock().and_then(|held| held.clone());
            if let Some(segment) = copy {
                each(&segment);
            }
        }
    }

    /// Notes that descriptor `number` was passed to another process: a segment that is not sized yet and was created with
    /// that descriptor is shared from now on.
    pub fn passed(&self, number: RawFd) {
        for slot in &self.slots {
            if slot.ino.load(Ordering::Acquire) == 0 {
                continue;
            }
            if let Some(segment) = slot.segment.try_lock().as_mut().and_then(|held| held.as_mut()) {
                segment.passed |= segment.promised == 0 && segment.descriptor == number;
            }
        }
    }

    /// In the child of a fork, where it is the only thread: a fresh table (the child created nothing), whatever other
    /// threads of the parent were doing with it.
    pub fn reset_after_fork(&self) {
        for slot in &self.slots {
            slot.ino.store(0, Ordering::Relaxed);
            crate::unlock::free_after_fork(&slot.segment);
            if let Some(mut held) = slot.segment.try_lock() {
                *held = None;
            }
        }
        self.used.store(0, Ordering::Release);
    }
}

/// The lock, waited for up to 20 ms: on a loaded machine its holder may not be running. `None`: it is held for longer, by this
/// very thread below a signal handler perhaps.
pub fn wait_for<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..200 {
        if let Some(held) = lock.try_lock() {
            return Some(held);
        }
        sched_yield();
    }
    for _ in 0..100 {
        if let Some(held) = lock.try_lock() {
            return Some(held);
        }
        let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: 200_000 });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(ino: u64, promised: u64) -> Segment {
        Segment {
            identity: Identity { dev: 7, ino },
            name: Name::new(),
            target_name: ArrayVec::new(),
            origin: Origin::ShmOpen,
            guard: 0,
            place: Place::Guard,
            promised,
            reserved: 0,
            mapped: false,
            unsaved: false,
            passed: false,
            forks: 0,
            descriptor: 3,
            created_ms: 0,
        }
    }

    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        let table = Table::new();
        assert!(table.is_empty());
        table.insert(segment(5, 0));
        assert!(table.find(Identity { dev: 7, ino: 5 }).is_some());
        assert!(table.find(Identity { dev: 8, ino: 5 }).is_none());
        assert!(table.find(Identity { dev: 7, ino: 6 }).is_none());
    }

    #[test]
    fn a_held_segment_is_passed_by() {
        let table = Table::new();
        table.insert(segment(5, 0));
        let held = table.find(Identity { dev: 7, ino: 5 });
        assert!(held.is_some());
        assert!(table.find(Identity { dev: 7, ino: 5 }).is_none());
        drop(held);
        assert!(table.find(Identity { dev: 7, ino: 5 }).is_some());
    }

    #[test]
    fn a_segment_that_is_looked_at_is_found_all_the_same() {
        let table = Table::new();
        table.insert(segment(5, 0));
        let mut found = false;
        table.for_each(|_| found = table.find(Identity { dev: 7, ino: 5 }).is_some());
        assert!(found);
    }

    #[test]
    fn a_full_table_forgets_sized_segments_first() {
        let table = Table::new();
        table.insert(segment(1, 0));
        for ino in 2..=(SLOTS as u64 + 40) {
            table.insert(segment(ino, 4096));
        }
        assert!(table.find(Identity { dev: 7, ino: 1 }).is_some(), "the unsized one stays");
        assert!(table.find(Identity { dev: 7, ino: SLOTS as u64 + 40 }).is_some());
    }

    #[test]
    fn a_new_file_ends_what_was_remembered_of_an_old_one_with_its_number() {
        let table = Table::new();
        table.insert(segment(5, 4096));
        table.insert(segment(5, 0));
        let promised =
            table.find(Identity { dev: 7, ino: 5 }).and_then(|mut held| held.get().map(|found| found.promised));
        assert_eq!(promised, Some(0));
    }

    #[test]
    fn moving_changes_the_identity() {
        let table = Table::new();
        table.insert(segment(5, 0));
        if let Some(mut held) = table.find(Identity { dev: 7, ino: 5 }) {
            held.moved_to(Identity { dev: 9, ino: 77 });
        }
        assert!(table.find(Identity { dev: 7, ino: 5 }).is_none());
        assert!(table.find(Identity { dev: 9, ino: 77 }).is_some());
    }

    #[test]
    fn a_child_starts_with_nothing() {
        let table = Table::new();
        table.insert(segment(5, 0));
        std::mem::forget(table.find(Identity { dev: 7, ino: 5 }));
        table.reset_after_fork();
        assert!(table.is_empty());
        table.insert(segment(6, 0));
        assert!(table.find(Identity { dev: 7, ino: 6 }).is_some());
    }
}
