//! chdir and fchdir: after a change into a guarded directory relative names are names in it. A hint, without a system call.

use std::ffi::{c_char, c_int};

use redhook::{hook, real};

use shmguard_core::syscall6;

use super::path;
use crate::{errno, life, next};

/// Resolves redhook's functions.
pub fn resolve() {
    if next::CHDIR.is_known() {
        let _ = real!(chdir);
    }
    if next::FCHDIR.is_known() {
        let _ = real!(fchdir);
    }
}

hook! {
    unsafe fn chdir(path_: *const c_char) -> c_int => shmguard_chdir {
        let result = if next::CHDIR.is_known() {
            // SAFETY: the program's own call.
            unsafe { real!(chdir)(path_) }
        } else {
            // SAFETY: as above.
            errno::from_raw(unsafe { syscall6(libc::SYS_chdir, path_ as usize, 0, 0, 0, 0, 0) }) as c_int
        };
        if let (0, Some(engine)) = (result, life::engine()) {
            // SAFETY: the program's own string, which the call has just accepted.
            let to_guard = unsafe { path(path_) }.is_some_and(|path| engine.is_guard(path).is_some());
            engine.changed_directory(to_guard);
        }
        result
    }
}

hook! {
    unsafe fn fchdir(fd: c_int) -> c_int => shmguard_fchdir {
        let result = if next::FCHDIR.is_known() {
            // SAFETY: the program's own call.
            unsafe { real!(fchdir)(fd) }
        } else {
            // SAFETY: as above.
            errno::from_raw(unsafe { syscall6(libc::SYS_fchdir, fd as isize as usize, 0, 0, 0, 0, 0) }) as c_int
        };
        if let (0, Some(engine)) = (result, life::engine()) {
            engine.changed_directory(engine.has_opened_directory());
        }
        result
    }
}
