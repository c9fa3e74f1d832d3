//! Taking the pages of a segment now, so that no later touch can fault.
//!
//! fallocate(2) on a tmpfs is not atomic: a request that fails has first taken every free page, and a bystander that touches
//! one meanwhile dies of SIGBUS. So never more is asked for than statvfs shows, in small pieces with a look before each, and
//! everything is given back as soon as less than the margin would be left.

use std::os::fd::BorrowedFd;

use rustix::fs::{fallocate, FallocateFlags};
use rustix::io::Errno;

use crate::room;

/// Why a reservation was not made; nothing of it is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Less than the margin would have been left free.
    Room,
    /// This file system cannot reserve (EOPNOTSUPP): it is no target.
    Unsupported,
    /// The kernel said something else.
    Other(Errno),
}

/// How many times one piece is asked again after EINTR before we give up (a profiling timer may fire faster than a slow
/// kernel fills a piece; PostgreSQL and NCCL have met it on kernels before 6.x).
const INTERRUPTIONS: u32 = 1000;

/// Reserves bytes `from..to` of the file on a tmpfs, leaving its size alone and at least `margin` bytes of the file system
/// free. All or nothing.
///
/// # Errors
/// [`Shortage`]; whatever had been taken has been given back by punching it out, so the range must have been a hole.
pub fn reserve_in_ram(fd: BorrowedFd<'_>, from: u64, to: u64, margin: u64) -> Result<(), Shortage> {
    // Where the file system has no limit there is no margin to defend; 64 MiB pieces keep one call short.
    let piece = if margin == 0 { 64 << 20 } else { (margin / 8).max(64 << 10) };
    let mut at = from;
    while at < to {
        let length = piece.min(to - at);
        let free = room::space(fd).map_err(Shortage::Other)?.free;
        let result = if free < length.saturating_add(margin) { Err(Shortage::Room) } else { allocate(fd, at, length) };
        if let Err(shortage) = result {
            give_back(fd, from, at);
            return Err(shortage);
        }
        at += length;
    }
    Ok(())
}

/// As [`reserve_in_ram`] from 0, for a file that holds data somewhere: what was taken is not given back.
///
/// # Errors
/// As [`reserve_in_ram`]; a part may stay reserved.
pub fn reserve_around_data(fd: BorrowedFd<'_>, to: u64, margin: u64) -> Result<(), Shortage> {
    let piece = if margin == 0 { 64 << 20 } else { (margin / 8).max(64 << 10) };
    let mut at = 0;
    while at < to {
        let length = piece.min(to - at);
        if room::space(fd).map_err(Shortage::Other)?.free < length.saturating_add(margin) {
            return Err(Shortage::Room);
        }
        allocate(fd, at, length)?;
        at += length;
    }
    Ok(())
}

/// Reserves bytes `from..to` of the file on a disk, leaving its size alone. The caller has looked at the free space.
///
/// # Errors
/// [`Shortage`]; what had been taken has been given back.
pub fn reserve_on_disk(fd: BorrowedFd<'_>, from: u64, to: u64) -> Result<(), Shortage> {
    if from >= to {
        return Ok(());
    }
    allocate(fd, from, to - from).inspect_err(|_| give_back(fd, from, to))
}

fn allocate(fd: BorrowedFd<'_>, from: u64, length: u64) -> Result<(), Shortage> {
    for _ in 0..INTERRUPTIONS {
        match fallocate(fd, FallocateFlags::KEEP_SIZE, from, length) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => continue,
            Err(Errno::NOSPC | Errno::DQUOT | Errno::NOMEM) => return Err(Shortage::Room),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Err(Shortage::Unsupported),
            Err(other) => return Err(Shortage::Other(other)),
        }
    }
    Err(Shortage::Other(Errno::INTR))
}

/// Gives back what was reserved in `from..to`; the range must hold no data.
pub fn give_back(fd: BorrowedFd<'_>, from: u64, to: u64) {
    if from < to {
        let _ = fallocate(fd, FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE, from, to - from);
    }
}
