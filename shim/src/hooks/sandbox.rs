//! prctl and syscall: a process that enters a seccomp sandbox makes from then on the system calls that it always made and no
//! other, for any other may kill it; also when it ends.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::mem::transmute;

use shmguard_core::syscall6;

use crate::{errno, life, next};

/// Hook. The C function takes one to five arguments; reading those that were not passed does no harm.
#[no_mangle]
unsafe extern "C-unwind" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, ...) -> c_int;
    // SAFETY: the address is that of the function; the arguments are the program's.
    let result = unsafe {
        match next::PRCTL.is_known() {
            true => transmute::<*mut c_void, Real>(next::PRCTL.address())(option, a, b, c, d),
            false => errno::from_raw(syscall6(
                libc::SYS_prctl,
                option as isize as usize,
                a as usize,
                b as usize,
                c as usize,
                d as usize,
                0,
            )) as c_int,
        }
    };
    if option == libc::PR_SET_SECCOMP && result == 0 {
        life::sandboxed();
    }
    result
}

/// Hook: seccomp(2) has no function of its own in libc, libseccomp comes this way.
#[no_mangle]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    type Real = unsafe extern "C-unwind" fn(c_long, ...) -> c_long;
    // SAFETY: as above.
    let result = unsafe {
        match next::SYSCALL.is_known() {
            true => transmute::<*mut c_void, Real>(next::SYSCALL.address())(number, a, b, c, d, e, f),
            false => errno::from_raw(syscall6(
                number, a as usize, b as usize, c as usize, d as usize, e as usize, f as usize,
            )) as c_long,
        }
    };
    // SECCOMP_SET_MODE_STRICT and SECCOMP_SET_MODE_FILTER; the other operations only ask. With SECCOMP_FILTER_FLAG_NEW_LISTENER
    // the answer is a descriptor.
    if number == libc::SYS_seccomp && matches!(a, 0 | 1) && result >= 0 {
        life::sandboxed();
    }
    result
}
