//! write, for processes in which mmap no longer reaches us.
//!
//! UCX (below MPICH and Open MPI) overwrites the first instructions of the `mmap` that it finds, ours, with a jump to its own,
//! which makes the system call itself ("bistro" hooks, openucx/ucx src/ucm/bistro). What grows by lseek and write, as
//! MPICH's segments do, is looked at after the write there. Everybody else pays a comparison.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use libc::{size_t, ssize_t};

use shmguard_core::syscall6;

use super::map;
use crate::{errno, life, next};

/// Hook. A cancellation point; see `open`.
#[no_mangle]
unsafe extern "C-unwind" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    type Write = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t) -> ssize_t;
    let written = if next::WRITE.is_known() {
        // SAFETY: the address is write's; the arguments are the program's.
        unsafe { transmute::<*mut c_void, Write>(next::WRITE.address())(fd, bytes, count) }
    } else {
        // SAFETY: the program's own arguments.
        errno::from_raw(unsafe { syscall6(libc::SYS_write, fd as isize as usize, bytes as usize, count, 0, 0, 0) })
    };
    match life::engine() {
        Some(engine) if written > 0 && !engine.is_idle() && map::is_overwritten() => {
            life::lightly((), || engine.written(fd))
        }
        _ => {}
    }
    written
}
