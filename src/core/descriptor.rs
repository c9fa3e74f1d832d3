//! Small facts about descriptors of this process.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};
use rustix::io;

use crate::borrowed::borrow;
use crate::segment::Identity;
use crate::text::Text;

/// The lowest free number for `fd`, as the call that we stand in for would have returned: our own work may have held lower
/// ones for a moment.
pub fn lowest(fd: OwnedFd) -> OwnedFd {
    match io::fcntl_dupfd_cloexec(&fd, 0) {
        Ok(lower) if lower.as_raw_fd() < fd.as_raw_fd() => lower,
        _ => fd,
    }
}

/// Why a descriptor's file may not be exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// /proc cannot be read: nothing is known, so nothing is moved.
    NoProc,
    /// Another descriptor of this process has the same file.
    SecondDescriptor,
    /// A lock (fcntl, OFD or flock) is held through the descriptor; an exchange would lose it.
    Locked,
    /// A child process has the file open.
    Inherited,
}

/// Is `fd` the only descriptor that this process has for the file, without locks?
///
/// # Errors
/// [`Unfit`] says why not.
pub fn only_one(fd: BorrowedFd<'_>, identity: Identity) -> Result<(), Unfit> {
    let number = fd.as_raw_fd();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = fs::openat(fs::CWD, c"/proc/self/fd", flags, Mode::empty()).map_err(|_| Unfit::NoProc)?;
    let mut seen_own = false;
    for entry in Dir::read_from(&listing).map_err(|_| Unfit::NoProc)? {
        let entry = entry.map_err(|_| Unfit::NoProc)?;
        let Some(other) = number_of(entry.file_name().to_bytes()) else { continue };
        if other == number {
            seen_own = true;
            continue;
        }
        if let Some(stat) = borrow(other).and_then(|other| fs::fstat(other).ok()) {
            if Identity::of(&stat) == identity {
                return Err(Unfit::SecondDescriptor);
            }
        }
    }
    if !seen_own {
        return Err(Unfit::NoProc);
    }
    if has_lock(number)? {
        Err(Unfit::Locked)
    } else {
        Ok(())
    }
}

/// Does a child that is younger than the file have it open? Handlers of pthread_atfork do not run for posix_spawn, vfork and
/// raw clones, and a descriptor without close-on-exec lives on in what they start.
///
/// `created_ms` is CLOCK_BOOTTIME at the file's creation; older children cannot have it. Without CONFIG_PROC_CHILDREN nothing
/// is found.
///
/// # Errors
/// [`Unfit::Inherited`], also when such a child cannot be looked at.
pub fn no_child_has(identity: Identity, created_ms: u64) -> Result<(), Unfit> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(tasks) = fs::openat(fs::CWD, c"/proc/self/task", flags, Mode::empty()) else { return Ok(()) };
    let mut text = vec![0u8; 8192];
    for task in Dir::read_from(&tasks).map_err(|_| Unfit::NoProc)?.flatten() {
        let mut path = Text::<64>::new();
        path.add(format_args!("/proc/self/task/"));
        path.add_bytes(task.file_name().to_bytes());
        path.add(format_args!("/children"));
        let Ok(length) = crate::process::read_start(path.bytes(), &mut text) else { continue };
        for child in text.get(..length).unwrap_or(&[]).split(|byte| *byte == b' ').filter_map(number_of) {
            // Start times have a resolution of 10 ms (USER_HZ is 100 everywhere).
            let young =
                crate::process::start_of(child).is_some_and(|ticks| ticks.saturating_mul(10) + 20 >= created_ms);
            if young && has_open(child, identity) {
                return Err(Unfit::Inherited);
            }
        }
    }
    Ok(())
}

fn has_open(pid: i32, identity: Identity) -> bool {
    let mut path = Text::<40>::new();
    path.add(format_args!("/proc/{pid}/fd"));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = match fs::openat(fs::CWD, path.bytes(), flags, Mode::empty()) {
        Ok(listing) => listing,
        Err(io::Errno::NOENT | io::Errno::SRCH) => return false,
        Err(_) => return true,
    };
    let Ok(entries) = Dir::read_from(&listing) else { return true };
    entries.flatten().any(|entry| {
        fs::statat(&listing, entry.file_name(), AtFlags::empty()).is_ok_and(|stat| Identity::of(&stat) == identity)
    })
}

fn has_lock(number: RawFd) -> Result<bool, Unfit> {
    let mut path = Text::<48>::new();
    path.add(format_args!("/proc/self/fdinfo/{number}"));
    let file = fs::openat(fs::CWD, path.bytes(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|_| Unfit::NoProc)?;
    let mut text = [0u8; 512];
    let mut length = 0;
    while let Some(rest) = text.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match io::read(&file, rest) {
            Ok(0) => break,
            Ok(got) => length += got,
            Err(io::Errno::INTR) => continue,
            Err(_) => return Err(Unfit::NoProc),
        }
    }
    let known = text.get(..length).unwrap_or(&[]);
    // A file without locks has four short lines; a full buffer means many locks.
    Ok(length == text.len() || known.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"lock:")))
}

/// A descriptor number written in decimal.
pub fn number_of(text: &[u8]) -> Option<RawFd> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The identity of the file that `name` below `directory` is, without following a link.
pub fn identity_at(directory: BorrowedFd<'_>, name: &[u8]) -> Option<Identity> {
    fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| Identity::of(&stat))
}
