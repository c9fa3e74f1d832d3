//! symlink and symlinkat: a copy of a link of ours (`mv`, `cp -a`, shutil.move) becomes a copy of the segment.

use std::ffi::{c_char, c_int};

use redhook::{hook, real};

use shmguard_core::syscall6;

use super::path;
use crate::{errno, life, next};

/// Resolves redhook's functions.
pub fn resolve() {
    if next::SYMLINK.is_known() {
        let _ = real!(symlink);
    }
    if next::SYMLINKAT.is_known() {
        let _ = real!(symlinkat);
    }
}

/// The result of a copy that was made instead of the link; `None`: the link is to be made.
///
/// # Safety
/// The program's own strings.
#[inline]
unsafe fn copied(text: *const c_char, directory: c_int, place: *const c_char) -> Option<c_int> {
    let engine = life::engine()?;
    // SAFETY: the caller's.
    let text = unsafe { path(text) }.filter(|text| engine.is_link_text(text))?;
    // SAFETY: as above.
    let place = unsafe { path(place) }?;
    match life::shielded(None, || engine.copy_of(text, directory, place))? {
        Ok(()) => Some(0),
        Err(error) => {
            errno::set(error.raw_os_error());
            Some(-1)
        }
    }
}

#[cold]
unsafe fn raw(text: *const c_char, directory: c_int, place: *const c_char) -> c_int {
    // SAFETY: the program's own arguments.
    let answer =
        unsafe { syscall6(libc::SYS_symlinkat, text as usize, directory as isize as usize, place as usize, 0, 0, 0) };
    errno::from_raw(answer) as c_int
}

hook! {
    unsafe fn symlink(text: *const c_char, place: *const c_char) -> c_int => shmguard_symlink {
        // SAFETY: the program's own strings, here and below.
        if let Some(result) = unsafe { copied(text, libc::AT_FDCWD, place) } {
            return result;
        }
        if next::SYMLINK.is_known() {
            // SAFETY: the program's own call.
            return unsafe { real!(symlink)(text, place) };
        }
        // SAFETY: as above.
        unsafe { raw(text, libc::AT_FDCWD, place) }
    }
}

hook! {
    unsafe fn symlinkat(text: *const c_char, directory: c_int, place: *const c_char) -> c_int => shmguard_symlinkat {
        // SAFETY: the program's own strings.
        if let Some(result) = unsafe { copied(text, directory, place) } {
            return result;
        }
        if next::SYMLINKAT.is_known() {
            // SAFETY: the program's own call.
            return unsafe { real!(symlinkat)(text, directory, place) };
        }
        // SAFETY: as above.
        unsafe { raw(text, directory, place) }
    }
}
