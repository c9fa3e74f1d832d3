//! System calls that rustix does not offer (leases, owners of SIGIO, signal masks), and the raw form of the hooked calls
//! for the time before libc's own functions are known.
//!
//! Unsafe room: everything here is a thin, typed wrapper around one system call. Nothing touches errno.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::time::Timespec;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
/// One system call with six arguments; the kernel's answer as it is (an error is a value in -4095..=-1).
///
/// # Safety
/// The arguments must be what system call `nr` expects; pointers among them must be valid for its use of them.
pub unsafe fn syscall6(nr: i64, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let answer: isize;
    // SAFETY: the x86-64 kernel ABI clobbers rcx and r11 only; the caller vouches for the arguments.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") nr as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    answer
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
/// One system call with six arguments; the kernel's answer as it is (an error is a value in -4095..=-1).
///
/// # Safety
/// The arguments must be what system call `nr` expects; pointers among them must be valid for its use of them.
pub unsafe fn syscall6(nr: i64, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let answer: isize;
    // SAFETY: the aarch64 kernel ABI keeps every register but x0; the caller vouches for the arguments.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") nr,
            inlateout("x0") a as isize => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    answer
}

/// The time of a clock (`libc::CLOCK_*`), by a system call.
///
/// rustix reads it from the vDSO, which valgrind unmaps without taking it out of the auxiliary vector (the first segment of a
/// program under valgrind ended in SIGSEGV); libc's function is replaced by libraries that fake the time, and whether a child was
/// born before a segment is decided by this clock.
pub fn clock(id: i32) -> Timespec {
    let mut now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which lives here and has the kernel's layout.
    let _ = unsafe { syscall6(libc::SYS_clock_gettime, id as usize, &raw mut now as usize, 0, 0, 0, 0) };
    now
}

fn checked(answer: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&answer) {
        Err(Errno::from_raw_os_error(-answer as i32))
    } else {
        Ok(answer as usize)
    }
}

fn fcntl(fd: BorrowedFd<'_>, command: i32, argument: usize) -> Result<usize, Errno> {
    // SAFETY: callers in this file pass a plain number, or the address of a live local of the type that `command` takes.
    checked(unsafe { syscall6(libc::SYS_fcntl, fd.as_raw_fd() as usize, command as usize, argument, 0, 0, 0) })
}

/// A set of signals as the kernel counts them (64 bits, signal n is bit n-1).
pub type SignalSet = u64;

/// The set with every signal that can be blocked.
pub const ALL_SIGNALS: SignalSet = !0;

/// The set that holds `signal` alone.
pub const fn only(signal: i32) -> SignalSet {
    1u64 << (signal as u32 - 1)
}

/// Replaces this thread's signal mask and returns the old one (sigprocmask(2)).
pub fn set_signal_mask(set: SignalSet) -> Result<SignalSet, Errno> {
    mask(libc::SIG_SETMASK, set)
}

/// Adds `set` to this thread's signal mask and returns the old mask.
pub fn block_signals(set: SignalSet) -> Result<SignalSet, Errno> {
    mask(libc::SIG_BLOCK, set)
}

fn mask(how: i32, set: SignalSet) -> Result<SignalSet, Errno> {
    let mut old: SignalSet = 0;
    // SAFETY: both sets are live locals of eight bytes, the size given.
    checked(unsafe {
        syscall6(libc::SYS_rt_sigprocmask, how as usize, &raw const set as usize, &raw mut old as usize, 8, 0, 0)
    })?;
    Ok(old)
}

/// The signals that are pending for this thread or its process.
pub fn pending_signals() -> SignalSet {
    let mut set: SignalSet = 0;
    // SAFETY: `set` is a live local of eight bytes, the size given.
    match checked(unsafe { syscall6(libc::SYS_rt_sigpending, &raw mut set as usize, 8, 0, 0, 0, 0) }) {
        Ok(_) => set,
        Err(_) => 0,
    }
}

/// Takes one pending signal of `set`, if there is one, without waiting. The signals must be blocked.
pub fn drain_signal(set: SignalSet) -> bool {
    let no_wait = [0i64; 2];
    // SAFETY: the set and the time are live locals; no siginfo is asked for.
    checked(unsafe {
        syscall6(libc::SYS_rt_sigtimedwait, &raw const set as usize, 0, &raw const no_wait as usize, 8, 0, 0)
    })
    .is_ok()
}

/// Asks for (`F_WRLCK`) or gives back (`F_UNLCK`) a lease on the open file of `fd` (fcntl(2), F_SETLEASE).
pub fn set_lease(fd: BorrowedFd<'_>, kind: i32) -> Result<(), Errno> {
    fcntl(fd, libc::F_SETLEASE, kind as usize).map(drop)
}

/// The lease that is held on the open file of `fd`; the target type while somebody is breaking it.
pub fn lease(fd: BorrowedFd<'_>) -> Result<i32, Errno> {
    fcntl(fd, libc::F_GETLEASE, 0).map(|kind| kind as i32)
}

#[repr(C)]
#[derive(Clone, Copy)]
struct OwnerEx {
    kind: i32,
    pid: i32,
}

/// Who is told by which signal of an open file (fcntl(2), F_SETOWN_EX and F_SETSIG).
#[derive(Clone, Copy)]
pub struct Told {
    owner: OwnerEx,
    /// 0 = SIGIO.
    signal: usize,
}

impl Told {
    /// Thread `tid` alone, by SIGIO; 0 = nobody.
    pub fn thread(tid: i32) -> Told {
        const F_OWNER_TID: i32 = 0;
        Told { owner: OwnerEx { kind: F_OWNER_TID, pid: tid }, signal: 0 }
    }
}

const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: i32 = 16;
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;

/// Who is told of the open file of `fd`.
///
/// # Errors
/// The kernel's.
pub fn told(fd: BorrowedFd<'_>) -> Result<Told, Errno> {
    let mut told = Told::thread(0);
    fcntl(fd, F_GETOWN_EX, &raw mut told.owner as usize)?;
    told.signal = fcntl(fd, F_GETSIG, 0)?;
    Ok(told)
}

/// Makes `told` the one who is told of the open file of `fd`.
///
/// # Errors
/// The kernel's: ESRCH for an owner that is gone.
pub fn tell(fd: BorrowedFd<'_>, told: Told) -> Result<(), Errno> {
    fcntl(fd, F_SETSIG, told.signal)?;
    fcntl(fd, F_SETOWN_EX, &raw const told.owner as usize).map(drop)
}

/// The process id as the kernel knows it now: never cached, right in a vfork child and after a raw clone.
pub fn getpid() -> i32 {
    // SAFETY: getpid takes no argument and cannot fail.
    unsafe { syscall6(libc::SYS_getpid, 0, 0, 0, 0, 0, 0) as i32 }
}

/// This thread's id.
pub fn gettid() -> i32 {
    // SAFETY: gettid takes no argument and cannot fail.
    unsafe { syscall6(libc::SYS_gettid, 0, 0, 0, 0, 0, 0) as i32 }
}
