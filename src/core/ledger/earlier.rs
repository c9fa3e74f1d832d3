//! Ledgers of tmpfs that are gone: a container that is killed again and again leaves one behind each time.

use std::ffi::CStr;

use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};

use super::directory::owner_in;
use crate::process::{self, Owner};

/// How many ledgers are looked at, at most: the rest is left to the next process that makes one.
const MOST: usize = 64;

/// Removes the ledgers below `top`, other than `own`, all of whose processes are gone. Of the same user, whose directory it is.
///
/// Gone is: of another boot; or of this pid namespace and dead; or of another one and older than our process 1 (an earlier life
/// of this container). A ledger is a memory: should it be taken away too early, its owner goes on without.
pub(super) fn remove(top: &CStr, own: &[u8], me: &Owner) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(directory) = fs::openat(fs::CWD, top, flags, Mode::empty()) else { return };
    let Ok(entries) = Dir::read_from(&directory) else { return };
    let init_start = process::start_of(1).unwrap_or(0);
    for entry in entries.flatten().take(MOST) {
        let name = entry.file_name().to_bytes();
        let boot = name.get(..8).and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(boot) = boot.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else { continue };
        if name == own || name.get(8) != Some(&b'-') {
            continue;
        }
        let Ok(ledger) = fs::openat(&directory, name, flags, Mode::empty()) else { continue };
        let Ok(files) = Dir::read_from(&ledger) else { continue };
        let files: Vec<Vec<u8>> = files.flatten().map(|file| file.file_name().to_bytes().to_vec()).collect();
        let gone = |owner: Owner| {
            if owner.namespace == me.namespace {
                !process::is_alive(owner.pid, owner.start)
            } else {
                owner.start < init_start
            }
        };
        // Only markers and sums: somebody is between two of its processes, or they are all that is left.
        let empty = !files.iter().any(|file| file.starts_with(b"p-"));
        let all_gone = boot != me.boot
            || (!empty && files.iter().filter_map(|file| owner_in(file, me)).all(gone))
            || (empty && is_old(&ledger));
        if !all_gone {
            continue;
        }
        for file in files {
            let _ = fs::unlinkat(&ledger, file.as_slice(), AtFlags::empty());
        }
        let _ = fs::unlinkat(&directory, name, AtFlags::REMOVEDIR);
    }
}

/// Nothing has changed in it for an hour.
fn is_old(ledger: &std::os::fd::OwnedFd) -> bool {
    let now = crate::raw::clock(libc::CLOCK_REALTIME).tv_sec;
    fs::fstat(ledger).is_ok_and(|stat| now.saturating_sub(stat.st_mtime) > 3600)
}
