//! statfs and its relatives, only with SHMGUARD_ADVERTISE: the room of the targets is added to that of a guarded directory, for
//! programs that look first and size afterwards (Open MPI, CPython's heap, Arrow). Not to that of a directory below it, where
//! nothing is moved. The type stays that of a tmpfs.

use std::ffi::{c_char, c_int};

use redhook::{hook, real};

use shmguard_core::syscall6;

use super::path;
use crate::{errno, life, next};

/// Resolves redhook's functions.
pub fn resolve() {
    if next::STATFS.is_known() {
        let _ = real!(statfs);
    }
    if next::STATFS64.is_known() {
        let _ = real!(statfs64);
    }
    if next::FSTATFS.is_known() {
        let _ = real!(fstatfs);
    }
    if next::FSTATFS64.is_known() {
        let _ = real!(fstatfs64);
    }
    if next::STATVFS.is_known() {
        let _ = real!(statvfs);
    }
    if next::STATVFS64.is_known() {
        let _ = real!(statvfs64);
    }
    if next::FSTATVFS.is_known() {
        let _ = real!(fstatvfs);
    }
    if next::FSTATVFS64.is_known() {
        let _ = real!(fstatvfs64);
    }
}

/// Bytes to add to what the kernel said about `path`; 0 when it is none of our business.
///
/// # Safety
/// The program's own string.
#[inline]
unsafe fn more_at(result: c_int, pointer: *const c_char) -> u64 {
    match life::engine() {
        Some(engine) if result == 0 && engine.config.advertise.is_some() => {
            // SAFETY: the caller's.
            let path = unsafe { path(pointer) }.filter(|path| engine.at_or_below(path).is_some());
            path.map_or(0, |path| {
                life::shielded(0, || engine.advertises_at(path).map_or(0, |guard| engine.advertised(guard)))
            })
        }
        _ => 0,
    }
}

/// The same for a descriptor.
#[inline]
fn more_of(result: c_int, fd: c_int) -> u64 {
    match life::engine() {
        Some(engine) if result == 0 && engine.config.advertise.is_some() => {
            life::shielded(0, || engine.advertises_of(fd).map_or(0, |guard| engine.advertised(guard)))
        }
        _ => 0,
    }
}

/// Adds `$more` bytes to the blocks of what the real call wrote. An unlimited tmpfs (0 blocks) stays unlimited.
macro_rules! add {
    ($buffer:expr, $more:expr, $unit:ident) => {{
        let more = $more;
        // SAFETY: the real call succeeded, so the program's buffer has been filled in.
        if let Some(answer) = unsafe { $buffer.as_mut() }.filter(|answer| more > 0 && answer.f_blocks > 0) {
            let blocks = more / (answer.$unit as u64).max(1);
            answer.f_blocks = answer.f_blocks.saturating_add(blocks);
            answer.f_bfree = answer.f_bfree.saturating_add(blocks);
            answer.f_bavail = answer.f_bavail.saturating_add(blocks);
        }
    }};
}

#[cold]
unsafe fn raw(number: i64, first: usize, buffer: usize) -> c_int {
    // SAFETY: the program's own arguments; statfs and statfs64 are one structure on 64-bit machines.
    errno::from_raw(unsafe { syscall6(number, first, buffer, 0, 0, 0, 0) }) as c_int
}

/// statvfs made of statfs as glibc does (sysdeps/unix/sysv/linux/internal_statvfs.c), for the time before the constructor.
#[cold]
unsafe fn raw_statvfs(number: i64, first: usize, buffer: usize) -> c_int {
    /// The kernel's flag for "f_flags is filled in"; not for statvfs.
    const ST_VALID: u64 = 0x20;
    // The kernel's struct statfs on 64-bit machines is fifteen words: type, bsize, blocks, bfree, bavail, files, ffree, fsid,
    // namelen, frsize, flags and four spare ones.
    let mut words = [0u64; 15];
    // SAFETY: the caller's, with a buffer of the size that the kernel fills.
    let result = unsafe { raw(number, first, words.as_mut_ptr() as usize) };
    if result == 0 {
        let [_, bsize, blocks, bfree, bavail, files, ffree, fsid, namelen, frsize, flags, ..] = words;
        // SAFETY: the program's own buffer; statvfs and statvfs64 are one structure on 64-bit machines, zero is valid for it.
        unsafe {
            let answer = buffer as *mut libc::statvfs;
            answer.write(std::mem::zeroed());
            (*answer).f_bsize = bsize;
            (*answer).f_frsize = if frsize == 0 { bsize } else { frsize };
            (*answer).f_blocks = blocks;
            (*answer).f_bfree = bfree;
            (*answer).f_bavail = bavail;
            (*answer).f_files = files;
            (*answer).f_ffree = ffree;
            (*answer).f_favail = ffree;
            (*answer).f_fsid = fsid;
            (*answer).f_namemax = namelen;
            (*answer).f_flag = flags & !ST_VALID;
        }
    }
    result
}

macro_rules! by_path {
    ($($name:ident, $hook:ident, $next:ident, $type:ident, $unit:ident, $early:expr;)*) => {$(
        hook! {
            unsafe fn $name(path: *const c_char, buffer: *mut libc::$type) -> c_int => $hook {
                if !next::$next.is_known() {
                    let early: unsafe fn(usize, usize) -> c_int = $early;
                    // SAFETY: the program's own arguments.
                    return unsafe { early(path as usize, buffer as usize) };
                }
                // SAFETY: the program's own call.
                let result = unsafe { real!($name)(path, buffer) };
                // SAFETY: the program's own string.
                add!(buffer, unsafe { more_at(result, path) }, $unit);
                result
            }
        }
    )*};
}

macro_rules! by_descriptor {
    ($($name:ident, $hook:ident, $next:ident, $type:ident, $unit:ident, $early:expr;)*) => {$(
        hook! {
            unsafe fn $name(fd: c_int, buffer: *mut libc::$type) -> c_int => $hook {
                if !next::$next.is_known() {
                    let early: unsafe fn(usize, usize) -> c_int = $early;
                    // SAFETY: the program's own arguments.
                    return unsafe { early(fd as isize as usize, buffer as usize) };
                }
                // SAFETY: the program's own call.
                let result = unsafe { real!($name)(fd, buffer) };
                add!(buffer, more_of(result, fd), $unit);
                result
            }
        }
    )*};
}

unsafe fn early_statfs(path: usize, buffer: usize) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { raw(libc::SYS_statfs, path, buffer) }
}

unsafe fn early_fstatfs(fd: usize, buffer: usize) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { raw(libc::SYS_fstatfs, fd, buffer) }
}

unsafe fn early_statvfs(path: usize, buffer: usize) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { raw_statvfs(libc::SYS_statfs, path, buffer) }
}

unsafe fn early_fstatvfs(fd: usize, buffer: usize) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { raw_statvfs(libc::SYS_fstatfs, fd, buffer) }
}

by_path! {
    statfs, shmguard_statfs, STATFS, statfs, f_bsize, early_statfs;
    statfs64, shmguard_statfs64, STATFS64, statfs64, f_bsize, early_statfs;
    statvfs, shmguard_statvfs, STATVFS, statvfs, f_frsize, early_statvfs;
    statvfs64, shmguard_statvfs64, STATVFS64, statvfs64, f_frsize, early_statvfs;
}

by_descriptor! {
    fstatfs, shmguard_fstatfs, FSTATFS, statfs, f_bsize, early_fstatfs;
    fstatfs64, shmguard_fstatfs64, FSTATFS64, statfs64, f_bsize, early_fstatfs;
    fstatvfs, shmguard_fstatvfs, FSTATVFS, statvfs, f_frsize, early_fstatvfs;
    fstatvfs64, shmguard_fstatvfs64, FSTATVFS64, statvfs64, f_frsize, early_fstatvfs;
}
