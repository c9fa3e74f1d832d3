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
