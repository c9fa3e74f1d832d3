//! waitpid and its relatives: a parent learns here which signal ended its child. The result is looked at after the real call;
//! SIGBUS and SIGKILL go into the log, for they may have to do with shared memory. They are cancellation points; see `open`.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use libc::{id_t, idtype_t, pid_t, rusage, siginfo_t};
use shmguard_core::syscall6;

use crate::{errno, life, next};

/// Notes the end of child `pid`.
#[inline]
fn ended(pid: pid_t, signal: c_int) {
    if pid > 0 && matches!(signal, libc::SIGBUS | libc::SIGKILL) {
        if let Some(engine) = life::engine() {
            life::shielded((), || engine.log_child(pid, signal));
        }
    }
}

/// # Safety
/// `status` is null or what the real call has just filled in.
#[inline]
unsafe fn look(pid: pid_t, status: *const c_int) -> pid_t {
    if pid > 0 {
        // SAFETY: the caller's.
        if let Some(status) = unsafe { status.as_ref() }.filter(|status| libc::WIFSIGNALED(**status)) {
            ended(pid, libc::WTERMSIG(*status));
        }
    }
    pid
}

#[cold]
unsafe fn raw_wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    // SAFETY: the program's own arguments.
    let answer = unsafe {
        syscall6(libc::SYS_wait4, pid as isize as usize, status as usize, options as usize, usage as usize, 0, 0)
    };
    errno::from_raw(answer) as pid_t
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn wait(status: *mut c_int) -> pid_t {
    type Real = unsafe extern "C-unwind" fn(*mut c_int) -> pid_t;
    // SAFETY: the address is that of the function; the arguments are the program's.
    unsafe {
        let pid = match next::WAIT.is_known() {
            true => transmute::<*mut c_void, Real>(next::WAIT.address())(status),
            false => raw_wait4(-1, status, 0, std::ptr::null_mut()),
        };
        look(pid, status)
    }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    type Real = unsafe extern "C-unwind" fn(pid_t, *mut c_int, c_int) -> pid_t;
    // SAFETY: as above.
    unsafe {
        let pid = match next::WAITPID.is_known() {
            true => transmute::<*mut c_void, Real>(next::WAITPID.address())(pid, status, options),
            false => raw_wait4(pid, status, options, std::ptr::null_mut()),
        };
        look(pid, status)
    }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    type Real = unsafe extern "C-unwind" fn(*mut c_int, c_int, *mut rusage) -> pid_t;
    // SAFETY: as above.
    unsafe {
        let pid = match next::WAIT3.is_known() {
            true => transmute::<*mut c_void, Real>(next::WAIT3.address())(status, options, usage),
            false => raw_wait4(-1, status, options, usage),
        };
        look(pid, status)
    }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
    type Real = unsafe extern "C-unwind" fn(pid_t, *mut c_int, c_int, *mut rusage) -> pid_t;
    // SAFETY: as above.
    unsafe {
        let pid = match next::WAIT4.is_known() {
            true => transmute::<*mut c_void, Real>(next::WAIT4.address())(pid, status, options, usage),
            false => raw_wait4(pid, status, options, usage),
        };
        look(pid, status)
    }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int {
    type Real = unsafe extern "C-unwind" fn(idtype_t, id_t, *mut siginfo_t, c_int) -> c_int;
    // SAFETY: as above; the info has been filled in by a call that succeeded.
    unsafe {
        let result = match next::WAITID.is_known() {
            true => transmute::<*mut c_void, Real>(next::WAITID.address())(kind, id, info, options),
            false => {
                let answer =
                    syscall6(libc::SYS_waitid, kind as usize, id as usize, info as usize, options as usize, 0, 0);
                errno::from_raw(answer) as c_int
            }
        };
        if result == 0 {
            if let Some(info) = info.as_ref().filter(|info| matches!(info.si_code, libc::CLD_KILLED | libc::CLD_DUMPED))
            {
                ended(info.si_pid(), info.si_status());
            }
        }
        result
    }
}
