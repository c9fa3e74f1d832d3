//! Standard error, used like a guest: one write, only where it is still what it was, only when it takes the line now.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fstat, FileType};
use rustix::io::write;

use shmguard_core::borrow;
use shmguard_core::engine::Outlet;
use shmguard_core::quiet::quietly;

use crate::log;

/// Standard error and the log directory.
pub struct Standard;

/// (st_dev, st_ino) of descriptor 2 when the library was loaded; zero = it was closed.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// Remembers what descriptor 2 is.
pub fn remember() {
    if let Some(stat) = borrow(2).and_then(|fd| fstat(fd).ok()) {
        DEVICE.store(stat.st_dev, Ordering::Relaxed);
        INODE.store(stat.st_ino, Ordering::Relaxed);
    }
}

/// Is descriptor 2 still the file it was, or a terminal, pipe or socket? Programs close it and the number is used again: a
/// line of ours must never land in somebody's data file.
fn is_standard_error() -> bool {
    let Some(stat) = borrow(2).and_then(|fd| fstat(fd).ok()) else { return false };
    let same = (stat.st_dev, stat.st_ino) == (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => same,
        FileType::CharacterDevice => same || borrow(2).is_some_and(rustix::termios::isatty),
        FileType::Fifo => true,
        FileType::Socket => same,
        _ => false,
    }
}

impl Outlet for Standard {
    fn say(&self, line: &[u8]) -> bool {
        let Some(fd) = borrow(2) else { return false };
        if !is_standard_error() {
            return false;
        }
        let mut ready = [PollFd::new(&fd, PollFlags::OUT)];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        let takes = poll(&mut ready, Some(&no_wait)).is_ok_and(|count| count > 0)
            && ready.first().is_some_and(|fd| fd.revents().contains(PollFlags::OUT));
        if !takes {
            return false;
        }
        // A pipe without reader must not end the program.
        quietly(|| write(fd, line).is_ok_and(|written| written == line.len()))
    }

    fn log(&self, line: &str) -> bool {
        log::write(line)
    }
}
