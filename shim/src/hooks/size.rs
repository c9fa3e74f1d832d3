//! The calls that give a file its size, in both off_t widths (on 64-bit machines the two are the same).

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;

use libc::{off64_t, off_t};
use redhook::{hook, real};

use shmguard_core::syscall6;

use super::path;
use crate::next::{self, Next};
use crate::{errno, life};

/// Resolves redhook's functions.
pub fn resolve() {
    if next::FTRUNCATE.is_known() {
        let _ = real!(ftruncate);
    }
    if next::FTRUNCATE64.is_known() {
        let _ = real!(ftruncate64);
    }
    if next::TRUNCATE.is_known() {
        let _ = real!(truncate);
    }
    if next::TRUNCATE64.is_known() {
        let _ = real!(truncate64);
    }
    if next::POSIX_FALLOCATE.is_known() {
        let _ = real!(posix_fallocate);
    }
    if next::POSIX_FALLOCATE64.is_known() {
        let _ = real!(posix_fallocate64);
    }
}

/// Before the real call: an errno when the call is not to be made.
#[inline]
fn before(fd: c_int, end: i64, call: &'static str) -> Option<c_int> {
    let engine = life::engine()?;
    if engine.is_idle() || end <= 0 {
        return None;
    }
    life::lightly(None, || engine.sizing(fd, end as u64, call).err().map(|error| error.raw_os_error()))
}

fn fail(error: c_int) -> c_int {
    errno::set(error);
    -1
}

/// # Safety
/// The program's own string.
#[inline]
unsafe fn before_path(pointer: *const c_char, length: i64) -> Option<c_int> {
    let engine = life::engine()?;
    if engine.is_idle() || length <= 0 {
        return None;
    }
    // SAFETY: the caller's.
    let (guard, name) = engine.child_at(libc::AT_FDCWD, unsafe { path(pointer) }?)?;
    life::shielded(None, || engine.sizing_path(guard, name, length as u64).err().map(|error| error.raw_os_error()))
}

#[cold]
fn raw_ftruncate(fd: c_int, length: i64) -> c_int {
    // SAFETY: plain numbers.
    errno::from_raw(unsafe { syscall6(libc::SYS_ftruncate, fd as isize as usize, length as usize, 0, 0, 0, 0) })
        as c_int
}

#[cold]
unsafe fn raw_truncate(path: *const c_char, length: i64) -> c_int {
    // SAFETY: the program's own arguments.
    errno::from_raw(unsafe { syscall6(libc::SYS_truncate, path as usize, length as usize, 0, 0, 0, 0) }) as c_int
}

#[cold]
fn raw_fallocate(fd: c_int, mode: c_int, offset: i64, length: i64) -> isize {
    // SAFETY: plain numbers.
    unsafe {
        syscall6(libc::SYS_fallocate, fd as isize as usize, mode as usize, offset as usize, length as usize, 0, 0)
    }
}

hook! {
    unsafe fn ftruncate(fd: c_int, length: off_t) -> c_int => shmguard_ftruncate {
        if let Some(error) = before(fd, length, "ftruncate") {
            return fail(error);
        }
        if !next::FTRUNCATE.is_known() {
            return raw_ftruncate(fd, length);
        }
        // SAFETY: the program's own call.
        unsafe { real!(ftruncate)(fd, length) }
    }
}

hook! {
    unsafe fn ftruncate64(fd: c_int, length: off64_t) -> c_int => shmguard_ftruncate64 {
        if let Some(error) = before(fd, length, "ftruncate") {
            return fail(error);
        }
        if !next::FTRUNCATE64.is_known() {
            return raw_ftruncate(fd, length);
        }
        // SAFETY: the program's own call.
        unsafe { real!(ftruncate64)(fd, length) }
    }
}

hook! {
    unsafe fn truncate(path: *const c_char, length: off_t) -> c_int => shmguard_truncate {
        // SAFETY: the program's own string.
        if let Some(error) = unsafe { before_path(path, length) } {
            return fail(error);
        }
        if !next::TRUNCATE.is_known() {
            // SAFETY: the program's own call.
            return unsafe { raw_truncate(path, length) };
        }
        // SAFETY: the program's own call.
        unsafe { real!(truncate)(path, length) }
    }
}

hook! {
    unsafe fn truncate64(path: *const c_char, length: off64_t) -> c_int => shmguard_truncate64 {
        // SAFETY: the program's own string.
        if let Some(error) = unsafe { before_path(path, length) } {
            return fail(error);
        }
        if !next::TRUNCATE64.is_known() {
            // SAFETY: the program's own call.
            return unsafe { raw_truncate(path, length) };
        }
        // SAFETY: the program's own call.
        unsafe { real!(truncate64)(path, length) }
    }
}

/// posix_fallocate returns its error and leaves errno alone; PyTorch's first releases with it read errno all the same
/// (pytorch issue 176069), so the code is put there too.
fn told(error: c_int) -> c_int {
    if error != 0 {
        errno::set(error);
    }
    error
}

hook! {
    unsafe fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int => shmguard_posix_fallocate {
        if let Some(error) = before(fd, offset.saturating_add(length), "posix_fallocate") {
            return told(error);
        }
        if !next::POSIX_FALLOCATE.is_known() {
            return told(-(raw_fallocate(fd, 0, offset, length).min(0)) as c_int);
        }
        // SAFETY: the program's own call.
        told(unsafe { real!(posix_fallocate)(fd, offset, length) })
    }
}

hook! {
    unsafe fn posix_fallocate64(fd: c_int, offset: off64_t, length: off64_t) -> c_int => shmguard_posix_fallocate64 {
        if let Some(error) = before(fd, offset.saturating_add(length), "posix_fallocate") {
            return told(error);
        }
        if !next::POSIX_FALLOCATE64.is_known() {
            return told(-(raw_fallocate(fd, 0, offset, length).min(0)) as c_int);
        }
        // SAFETY: the program's own call.
        told(unsafe { real!(posix_fallocate64)(fd, offset, length) })
    }
}

/// fallocate(2) is a cancellation point; see `open`.
///
/// # Safety
/// The program's own arguments.
unsafe fn fallocate_any(real: &'static Next, fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int {
    type Fallocate = unsafe extern "C-unwind" fn(c_int, c_int, off64_t, off64_t) -> c_int;
    const FALLOC_FL_KEEP_SIZE: c_int = 1;
    if mode & !FALLOC_FL_KEEP_SIZE == 0 && offset >= 0 && length > 0 {
        if let Some(error) = before(fd, offset.saturating_add(length), "fallocate") {
            return fail(error);
        }
    }
    if !real.is_known() {
        return errno::from_raw(raw_fallocate(fd, mode, offset, length)) as c_int;
    }
    // SAFETY: the address is fallocate's; the arguments are the program's.
    unsafe { transmute::<*mut c_void, Fallocate>(real.address())(fd, mode, offset, length) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { fallocate_any(&next::FALLOCATE, fd, mode, offset, length) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn fallocate64(fd: c_int, mode: c_int, offset: off64_t, length: off64_t) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { fallocate_any(&next::FALLOCATE64, fd, mode, offset, length) }
}
