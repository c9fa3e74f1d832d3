//! mmap: the last moment before a touch can fault.

use std::ffi::{c_int, c_void};

use libc::{off64_t, off_t, size_t};
use redhook::{hook, real};

use shmguard_core::syscall6;

use crate::{errno, life, next};

/// Resolves redhook's functions.
pub fn resolve() {
    if next::MMAP.is_known() {
        let _ = real!(mmap);
    }
    if next::MMAP64.is_known() {
        let _ = real!(mmap64);
    }
}

/// Has another library put a jump to its own function over the beginning of our mmap? It may have done so before our
/// constructor (UCX does, in its own), so that there is nothing older to compare with; but no compiler begins a function that
/// has a frame, as a hook's has, with a jump.
pub fn is_overwritten() -> bool {
    let address = mmap::mmap as *const () as *const [u8; 4];
    // SAFETY: functions are longer than 4 bytes and their pages can be read; volatile, for somebody may write there.
    begins_with_jump(unsafe { address.read_volatile() })
}

/// The jumps that hooking libraries write: direct, through a literal behind it, or through a register that is loaded first.
fn begins_with_jump(code: [u8; 4]) -> bool {
    if cfg!(target_arch = "x86_64") {
        matches!(code, [0xe9 | 0xeb, ..] | [0xff, 0x25, ..] | [0x48, 0xb8, ..] | [0x49, 0xba | 0xbb, ..])
    } else if cfg!(target_arch = "aarch64") {
        let word = u32::from_le_bytes(code);
        // b, ldr (literal) and movz, each of 64 bits.
        word >> 26 == 0b000101 || word >> 24 == 0x58 || word >> 23 == 0b1_1010_0101
    } else {
        false
    }
}

/// MAP_SHARED or MAP_SHARED_VALIDATE of a file: everything else leaves at once, allocators call us under their locks.
#[inline(always)]
fn concerns(flags: c_int, fd: c_int) -> bool {
    const MAP_TYPE: c_int = 0x0f;
    flags & MAP_TYPE != libc::MAP_PRIVATE && flags & libc::MAP_ANONYMOUS == 0 && fd >= 0
}

#[cold]
fn before(fd: c_int) -> bool {
    match life::engine() {
        Some(engine) => life::lightly(false, || engine.mapping(fd)),
        None => false,
    }
}

/// Was it the number of mappings? errno stays as it is.
#[cold]
fn failed(fd: c_int) {
    let error = errno::get();
    if error == libc::ENOMEM {
        if let Some(engine) = life::engine() {
            life::shielded((), || engine.mapping_failed(fd));
            errno::set(error);
        }
    }
}

/// Huge pages for a mapping of a segment on a disk. Advice only: the answer does not matter, and errno is not touched.
#[cold]
fn advise(address: *mut c_void, length: size_t) {
    if address != libc::MAP_FAILED {
        // SAFETY: advice about a mapping that was just made; it changes no contents.
        unsafe { syscall6(libc::SYS_madvise, address as usize, length, libc::MADV_HUGEPAGE as usize, 0, 0, 0) };
    }
}

/// The system call itself, for the time before the constructor.
#[cold]
fn raw(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
    // SAFETY: the program's own arguments.
    let answer = unsafe {
        syscall6(
            libc::SYS_mmap,
            address as usize,
            length,
            protection as usize,
            flags as usize,
            fd as isize as usize,
            offset as usize,
        )
    };
    errno::from_raw(answer) as *mut c_void
}

hook! {
    unsafe fn mmap(
        address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t
    ) -> *mut c_void => shmguard_mmap {
        if !next::MMAP.is_known() {
            return raw(address, length, protection, flags, fd, offset);
        }
        if !concerns(flags, fd) {
            // SAFETY: the program's own call.
            return unsafe { real!(mmap)(address, length, protection, flags, fd, offset) };
        }
        let on_disk = before(fd);
        // SAFETY: the program's own call.
        let mapping = unsafe { real!(mmap)(address, length, protection, flags, fd, offset) };
        if on_disk {
            advise(mapping, length);
        }
        if mapping == libc::MAP_FAILED {
            failed(fd);
        }
        mapping
    }
}

hook! {
    unsafe fn mmap64(
        address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off64_t
    ) -> *mut c_void => shmguard_mmap64 {
        if !next::MMAP64.is_known() {
            return raw(address, length, protection, flags, fd, offset);
        }
        if !concerns(flags, fd) {
            // SAFETY: the program's own call.
            return unsafe { real!(mmap64)(address, length, protection, flags, fd, offset) };
        }
        let on_disk = before(fd);
        // SAFETY: the program's own call.
        let mapping = unsafe { real!(mmap64)(address, length, protection, flags, fd, offset) };
        if on_disk {
            advise(mapping, length);
        }
        if mapping == libc::MAP_FAILED {
            failed(fd);
        }
        mapping
    }
}
