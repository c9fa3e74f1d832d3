//! Leads one hooked call from facts to verdict to effect.
//!
//! One [`Engine`] a process, shared by its threads. Every lock is taken by try only: a hook that finds one busy (another
//! thread, or itself below a signal handler) does without what the lock guards. Nothing here is called on a path that does not
//! concern a guarded directory.

mod attach;
mod books;
mod collect;
mod copy;
mod create;
mod end;
mod foretell;
mod growth;
mod levels;
mod live_bytes;
mod log;
mod mappings;
mod owner;
mod promises;
mod redirect;
mod size;
mod tally;
mod tell;
mod words;

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::{self, Mode as FileMode, OFlags};

use crate::config::{Advertise, Config, Mode};
use crate::guard::{self, Guard};
use crate::policy::Situation;
use crate::raw;
use crate::room;
use crate::segment::Table;
use crate::text::Text;

pub use attach::{Followed, Unlinking};
pub use create::{Before, Creation, Plan};

use books::Books;
use live_bytes::Live;
use tally::Tally;

/// Where words go. The library writes to standard error and the log directory; tests collect.
pub trait Outlet: Sync {
    /// One whole line for the user. True when it was written.
    fn say(&self, line: &[u8]) -> bool;
    /// One event, a JSON object without a newline. True when it was written.
    fn log(&self, line: &str) -> bool;
}

/// Memory bounds that were read a moment ago.
#[derive(Clone, Copy, Default)]
struct Memory {
    read_ms: u64,
    bound: Option<u64>,
}

/// How old the memory bounds may be, in milliseconds.
const MEMORY_MS: u64 = 200;

/// The state of the library in one process.
pub struct Engine {
    /// What the user asked for.
    pub config: Config,
    outlet: &'static dyn Outlet,
    table: &'static Table,
    pid: AtomicI32,
    forks: AtomicU32,
    /// Held while a name is exchanged; fork waits for it.
    exchanging: Mutex<()>,
    memory: Mutex<Memory>,
    books: Mutex<Books>,
    live: Mutex<Live>,
    /// The last sizes that this process asked for; the largest foretells the next.
    recent: [AtomicU64; 4],
    next_recent: AtomicU32,
    /// This process has to do with shared memory: at its end it looks after the ledger.
    touched: AtomicBool,
    /// It has created or opened a segment, and so has begun its books.
    takes_part: AtomicBool,
    /// Its books have been begun: from now on it may say something.
    has_begun: AtomicBool,
    /// What it has counted.
    tally: Tally,
    /// The record should be written soon.
    urgent: AtomicBool,
    /// Device number of the guarded directory as last seen; 0 = never.
    guard_dev: AtomicU64,
    /// Things said by this process, a bit for each.
    said: AtomicU64,
    /// This process has opened a guarded directory itself: a directory descriptor may be one of it.
    directory_opened: AtomicBool,
    /// The working directory may be a guarded one.
    inside: AtomicBool,
    /// A device that pins memory: 0 not looked yet, 1 no, 2 yes.
    device: AtomicU32,
}

impl Engine {
    /// The state of a process that has done nothing yet. Makes no system call.
    pub fn new(config: Config, outlet: &'static dyn Outlet, table: &'static Table) -> Engine {
        Engine {
            config,
            outlet,
            table,
            pid: AtomicI32::new(0),
            forks: AtomicU32::new(0),
            exchanging: Mutex::new(()),
            memory: Mutex::new(Memory::default()),
            books: Mutex::new(Books::default()),
            live: Mutex::new(Live::default()),
            recent: [const { AtomicU64::new(0) }; 4],
            next_recent: AtomicU32::new(0),
            touched: AtomicBool::new(false),
            takes_part: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            tally: Tally::default(),
            urgent: AtomicBool::new(false),
            guard_dev: AtomicU64::new(0),
            said: AtomicU64::new(0),
            directory_opened: AtomicBool::new(false),
            inside: AtomicBool::new(false),
            device: AtomicU32::new(0),
        }
    }

    /// Which guard `path` is a direct child of, and the name there. Lexical; no system call.
    #[inline]
    pub fn child<'p>(&self, path: &'p [u8]) -> Option<(usize, &'p [u8])> {
        if path.first() != Some(&b'/') {
            return None;
        }
        self.config
            .guards
            .iter()
            .enumerate()
            .find_map(|(index, guard)| guard::child(guard.to_bytes(), path).map(|name| (index, name)))
    }

    /// As [`Engine::child`], with a directory descriptor for relative paths. Only where this process has opened a guarded
    /// directory (or works in one) is the directory looked at, by one system call.
    pub fn child_at<'p>(&self, directory: i32, path: &'p [u8]) -> Option<(usize, &'p [u8])> {
        if path.first() == Some(&b'/') {
            return self.child(path);
        }
        let plain = !path.is_empty() && path.len() <= 255 && path != b"." && path != b".." && !path.contains(&b'/');
        if !plain {
            return None;
        }
        let stat = if directory == libc::AT_FDCWD && self.inside.load(Ordering::Relaxed) {
            fs::stat(c".").ok()?
        } else if directory >= 0 && self.directory_opened.load(Ordering::Relaxed) {
            fs::fstat(crate::borrow(directory)?).ok()?
        } else {
            return None;
        };
        let guard = self.config.guards.iter().position(|guard| {
            fs::stat(guard.as_c_str()).is_ok_and(|own| (own.st_dev, own.st_ino) == (stat.st_dev, stat.st_ino))
        })?;
        Some((guard, path))
    }

    /// Has this process opened a guarded directory itself?
    pub fn has_opened_directory(&self) -> bool {
        self.directory_opened.load(Ordering::Relaxed)
    }

    /// This process opened a guarded directory itself.
    pub fn opened_directory(&self) {
        self.directory_opened.store(true, Ordering::Relaxed);
    }

    /// Which guard `path` is, spelt however.
    #[inline]
    pub fn is_guard(&self, path: &[u8]) -> Option<usize> {
        self.config.guards.iter().position(|guard| guard::below(guard.to_bytes(), path) == Some(b""))
    }

    /// Which guard `path` is or lies below.
    pub fn at_or_below(&self, path: &[u8]) -> Option<usize> {
        self.config.guards.iter().position(|guard| guard::below(guard.to_bytes(), path).is_some())
    }

    /// Which guard is `/dev/shm`, where shm_open looks (compiled into glibc).
    pub fn posix_guard(&self) -> Option<usize> {
        self.config.guards.iter().position(|guard| guard.to_bytes() == b"/dev/shm")
    }

    fn guard_path(&self, index: usize) -> &CStr {
        self.config.guards.get(index).map_or(c"", |guard| guard.as_c_str())
    }

    fn guard_is_there(&self, index: usize) -> bool {
        fs::stat(self.guard_path(index))
            .is_ok_and(|stat| fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Directory)
    }

    fn open_guard(&self, index: usize) -> Option<Guard> {
        let guard = Guard::open(self.config.guards.get(index)?)?;
        self.guard_dev.store(guard.identity.dev, Ordering::Relaxed);
        Some(guard)
    }

    /// A descriptor is being passed to another process (SCM_RIGHTS). No system call.
    pub fn passing(&self, fd: i32) {
        self.table.passed(fd);
    }

    /// This process changes its working directory: relative names may be ours from now on. A hint only, checked at use.
    pub fn changed_directory(&self, to_guard: bool) {
        self.inside.store(to_guard, Ordering::Relaxed);
    }

    /// Nothing was created here that is still remembered: sizing and mapping calls need not look.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.table.is_empty()
    }

    /// Does this process have to do with shared memory?
    #[inline]
    pub fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Is this the process that the state belongs to? Not in a vfork child, nor after a raw clone: nothing may be touched
    /// there. The first answer fixes the process.
    fn is_here(&self) -> bool {
        let now = raw::getpid();
        match self.pid.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(owner) => owner == now,
        }
    }

    /// Fixes the process when the library is loaded.
    pub fn begin(&self, pid: i32) {
        self.pid.store(pid, Ordering::Release);
    }

    /// Before fork: waits (not for ever) until no name is being exchanged.
    pub fn fork_prepare(&self) {
        self.forks.fetch_add(1, Ordering::AcqRel);
        for _ in 0..10_000 {
            if let Some(lock) = self.exchanging.try_lock() {
                std::mem::forget(lock);
                return;
            }
            rustix::thread::sched_yield();
        }
    }

    /// After fork, in the parent.
    pub fn fork_parent(&self) {
        crate::unlock::free_after_fork(&self.exchanging);
    }

    /// After fork, in the child, where only this thread is left.
    pub fn fork_child(&self) {
        crate::unlock::free_after_fork(&self.exchanging);
        crate::unlock::free_after_fork(&self.memory);
        crate::unlock::free_after_fork(&self.books);
        crate::unlock::free_after_fork(&self.live);
        self.table.reset_after_fork();
        if let Some(mut books) = self.books.try_lock() {
            books.start_anew();
        }
        if let Some(mut live) = self.live.try_lock() {
            *live = Live::default();
        }
        self.touched.store(false, Ordering::Relaxed);
        self.takes_part.store(false, Ordering::Relaxed);
        self.has_begun.store(false, Ordering::Relaxed);
        self.tally.reset();
        self.urgent.store(false, Ordering::Relaxed);
        self.pid.store(raw::getpid(), Ordering::Release);
    }

    fn has_forked_since(&self, count: u32) -> bool {
        self.forks.load(Ordering::Acquire) != count
    }

    fn asked_lately(&self) -> u64 {
        self.recent.iter().map(|size| size.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    fn remember_size(&self, bytes: u64) {
        let place = self.next_recent.fetch_add(1, Ordering::Relaxed) as usize % self.recent.len();
        if let Some(place) = self.recent.get(place) {
            place.store(bytes, Ordering::Relaxed);
        }
    }

    /// What machine and memory cgroups still have, at most [`MEMORY_MS`] old.
    fn memory_bound(&self) -> Option<u64> {
        let now = now_ms();
        let mut memory = self.memory.try_lock()?;
        if memory.read_ms == 0 || now.saturating_sub(memory.read_ms) > MEMORY_MS {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let bound = fs::openat(fs::CWD, c"/", flags, FileMode::empty())
                .ok()
                .and_then(|root| room::memory(std::os::fd::AsFd::as_fd(&root)).bound());
            *memory = Memory { read_ms: now.max(1), bound };
        }
        memory.bound
    }

    fn has_device(&self) -> bool {
        match self.device.load(Ordering::Relaxed) {
            0 => {
                let there = |path: &CStr| fs::access(path, fs::Access::EXISTS).is_ok();
                let found = there(c"/dev/nvidiactl") || there(c"/dev/kfd");
                self.device.store(1 + u32::from(found), Ordering::Relaxed);
                found
            }
            known => known == 2,
        }
    }

    fn situation(&self, guard: &Guard) -> Situation {
        let capacity = guard.space.capacity;
        Situation {
            mode: self.config.mode,
            capacity,
            free: guard.space.free,
            used: guard.space.used,
            promised: self.promised(),
            budget: capacity.map_or(u64::MAX, |capacity| self.config.budget_bytes(capacity)),
            memory: self.memory_bound(),
            device: self.has_device(),
        }
    }

    /// The guarded directory that `path` is, or in which it is a file. `None`: elsewhere, or a directory below one: what is
    /// made there is never moved.
    pub fn advertises_at(&self, path: &[u8]) -> Option<usize> {
        if let Some(guard) = self.is_guard(path) {
            return Some(guard);
        }
        let (guard, _) = self.child(path)?;
        let is_directory = fs::stat(path).is_ok_and(|stat| fs::FileType::from_raw_mode(stat.st_mode).is_dir());
        (!is_directory).then_some(guard)
    }

    /// The same for a descriptor.
    pub fn advertises_of(&self, fd: i32) -> Option<usize> {
        let stat = fs::fstat(crate::borrow(fd)?).ok()?;
        let guards = self.config.guards.iter().enumerate();
        let same = guards.filter_map(|(index, guard)| Some((index, fs::stat(guard.as_c_str()).ok()?)));
        let (guard, own) =
            same.filter(|(_, own)| own.st_dev == stat.st_dev).map(|(index, own)| (index, own.st_ino)).next()?;
        if fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
            return (own == stat.st_ino).then_some(guard);
        }
        // Which directory a file lies in only its name tells.
        let mut link = Text::<40>::new();
        link.add(format_args!("/proc/self/fd/{fd}"));
        let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 1024];
        let (path, _) = fs::readlinkat_raw(fs::CWD, link.bytes(), &mut buffer).ok()?;
        let path: &[u8] = path;
        // " (deleted)" behind a name that may be 255 bytes long.
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        self.child(path).map(|(guard, _)| guard)
    }

    /// What SHMGUARD_ADVERTISE adds to the room of a guarded directory, in bytes: what its targets would take now.
    pub fn advertised(&self, guard: usize) -> u64 {
        let Some(advertise) = self.config.advertise else { return 0 };
        if !self.is_here() || !self.redirects() {
            return 0;
        }
        let Some(guard) = self.open_guard(guard).filter(|guard| guard.is_ram && !guard.nosymfollow) else { return 0 };
        let mut devices: Vec<u64> = Vec::new();
        let mut sum = 0u64;
        for (index, spec) in self.config.targets.iter().enumerate() {
            let Ok(directory) = crate::target::Directory::open(&spec.path, guard.identity) else { continue };
            let device = fs::fstat(directory.fd()).map_or(0, |stat| stat.st_dev);
            // Two directories on one file system share its room.
            if devices.contains(&device) || (directory.space.noexec && !guard.space.noexec) {
                continue;
            }
            devices.push(device);
            let mut room = directory.room();
            if directory.medium == crate::target::Medium::Ram {
                room = room.min(self.memory_bound().map_or(u64::MAX, |left| left - left / 8));
            }
            if let Some(cap) = spec.cap {
                room = room.min(cap);
                if self.over_cap(index, room) {
                    continue;
                }
            }
            sum = sum.saturating_add(room);
        }
        // No file system is larger than this; programs add to what they are told.
        let most = match advertise {
            Advertise::Usual => most_advertised(guard.space.free),
            Advertise::UpTo(bytes) => bytes.saturating_sub(guard.space.free),
        };
        sum.min(1 << 50).min(most)
    }

    fn redirects(&self) -> bool {
        self.config.mode == Mode::Redirect && !self.config.targets.is_empty()
    }
}

/// The lock, waited for briefly. A holder is in the middle of some microseconds of work; where it is this very thread below a
/// signal handler, or a thread that never runs, the caller does without.
fn patiently<T>(lock: &Mutex<T>) -> Option<parking_lot::MutexGuard<'_, T>> {
    for _ in 0..500 {
        if let Some(held) = lock.try_lock() {
            return Some(held);
        }
        rustix::thread::sched_yield();
    }
    None
}

/// The most that may be added to a guarded directory with `free` bytes, in bytes.
///
/// From 2 000 000 000 free bytes on joblib keeps its files there (joblib `_memmapping_reducer.py`,
/// SYSTEM_SHARED_MEM_FS_MIN_SIZE), in a directory below and by write, so that they cannot be moved: a program that went
/// elsewhere by itself would die of ENOSPC. Where that much is free in truth nothing depends on what is added.
fn most_advertised(free: u64) -> u64 {
    const JOBLIB_STAYS: u64 = 2_000_000_000;
    // Whole blocks of any size up to 1 MiB stay below.
    const BELOW: u64 = JOBLIB_STAYS - (1 << 20);
    if free >= JOBLIB_STAYS {
        u64::MAX
    } else {
        BELOW.saturating_sub(free)
    }
}

/// CLOCK_BOOTTIME in milliseconds: the clock of start times in /proc.
pub fn now_ms() -> u64 {
    let now = raw::clock(libc::CLOCK_BOOTTIME);
    (now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000)
}

/// CLOCK_REALTIME in milliseconds since 1970.
fn wall_ms() -> u64 {
    let now = raw::clock(libc::CLOCK_REALTIME);
    (now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000)
}

/// 64 bits that nobody can guess; where the kernel has none to give, the time and the process.
fn random() -> u64 {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => {
            let now = raw::clock(libc::CLOCK_MONOTONIC);
            (now.tv_nsec as u64).rotate_left(32) ^ (now.tv_sec as u64) ^ ((raw::gettid() as u64) << 17)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::most_advertised;

    #[test]
    fn nobody_is_told_of_joblibs_two_gigabytes_unless_they_are_there() {
        for free in [0, 64 << 20, 1_999_999_999] {
            assert!(free + most_advertised(free) < 2_000_000_000 || most_advertised(free) == 0, "{free}");
        }
        assert!(most_advertised(64 << 20) > 1 << 30);
        assert_eq!(most_advertised(2_000_000_000), u64::MAX);
    }
}
