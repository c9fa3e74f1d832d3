//! open and its relatives. They are cancellation points: no value with a Drop and no catch_unwind is alive while the real call
//! runs, or pthread_cancel would end the program ("exception not rethrown").

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::transmute;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::time::Timespec;

use shmguard_core::engine::{Before, Creation, Engine, Followed, Plan};
use shmguard_core::segment::Origin;
use shmguard_core::syscall6;

use super::path;
use crate::next::{self, Next};
use crate::{errno, life};

/// How often an attacher opens again: because the file was exchanged under its hands (once is enough in practice), or because its
/// creator is in the middle of the exchange (which takes microseconds, or as long as the creator is without a processor).
pub struct Patience(u32);

impl Patience {
    /// As long as all waits together are about 1.5 s.
    const MOST_TRIES: u32 = 200;

    /// Nothing tried yet.
    pub fn new() -> Patience {
        Patience(0)
    }

    /// May it be tried again?
    pub fn again(&mut self) -> bool {
        self.0 += 1;
        self.0 <= Patience::MOST_TRIES
    }

    /// As [`Patience::again`], after a wait of 0.1 ms at first and at most 10 ms.
    fn wait(&mut self) -> bool {
        let _ = rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: 100_000 * i64::from(self.0.clamp(1, 100)) });
        self.again()
    }
}

/// Which real function stands behind a hook of this family.
#[derive(Clone, Copy)]
enum Real {
    /// open(path, flags, mode)
    Open(&'static Next),
    /// openat(directory, path, flags, mode)
    OpenAt(&'static Next, c_int),
    /// __open_2(path, flags): the fortified form, which takes no mode.
    Open2(&'static Next),
    /// __openat_2(directory, path, flags)
    OpenAt2(&'static Next, c_int),
    /// creat(path, mode)
    Creat(&'static Next),
}

impl Real {
    fn directory(self) -> c_int {
        match self {
            Real::OpenAt(_, directory) | Real::OpenAt2(_, directory) => directory,
            Real::Open(_) | Real::Open2(_) | Real::Creat(_) => libc::AT_FDCWD,
        }
    }

    /// Makes the program's call, with these flags.
    ///
    /// # Safety
    /// The program's own arguments, or `flags` changed by O_EXCL alone.
    #[inline(always)]
    unsafe fn call(self, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
        type Open = unsafe extern "C-unwind" fn(*const c_char, c_int, ...) -> c_int;
        type OpenAt = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int, ...) -> c_int;
        type Open2 = unsafe extern "C-unwind" fn(*const c_char, c_int) -> c_int;
        type OpenAt2 = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int) -> c_int;
        type Creat = unsafe extern "C-unwind" fn(*const c_char, c_uint) -> c_int;
        // SAFETY: each address is that of the function named, whose type is written here; arguments are the program's.
        unsafe {
            match self {
                Real::Open(next) if next.is_known() => {
                    transmute::<*mut c_void, Open>(next.address())(path, flags, mode)
                }
                Real::OpenAt(next, directory) if next.is_known() => {
                    transmute::<*mut c_void, OpenAt>(next.address())(directory, path, flags, mode)
                }
                // With O_CREAT or O_TMPFILE glibc aborts the fortified form; the program passed neither, and O_EXCL is only
                // ever added to O_CREAT.
                Real::Open2(next) if next.is_known() => transmute::<*mut c_void, Open2>(next.address())(path, flags),
                Real::OpenAt2(next, directory) if next.is_known() => {
                    transmute::<*mut c_void, OpenAt2>(next.address())(directory, path, flags)
                }
                Real::Creat(next) if next.is_known() && flags & libc::O_EXCL == 0 => {
                    transmute::<*mut c_void, Creat>(next.address())(path, mode)
                }
                Real::Creat(_) if next::OPEN.is_known() => {
                    transmute::<*mut c_void, Open>(next::OPEN.address())(path, flags, mode)
                }
                _ => raw(self.directory(), path, flags, mode),
            }
        }
    }
}

/// The system call itself, for the time before the constructor.
#[cold]
unsafe fn raw(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the program's own arguments.
    let answer = unsafe {
        syscall6(libc::SYS_openat, directory as isize as usize, path as usize, flags as usize, mode as usize, 0, 0)
    };
    errno::from_raw(answer) as c_int
}

/// One call of the family.
#[derive(Clone, Copy)]
struct Call<'a> {
    real: Real,
    pointer: *const c_char,
    flags: c_int,
    mode: c_uint,
    guard: usize,
    name: &'a [u8],
}

/// # Safety
/// The program's own arguments.
#[inline]
unsafe fn open_any(real: Real, pointer: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: a path that the program passed.
    let concerns = match (life::engine(), unsafe { path(pointer) }) {
        (Some(engine), Some(bytes)) => concern(engine, real.directory(), bytes, flags),
        _ => None,
    };
    match concerns {
        // SAFETY: the program's own call.
        None => unsafe { real.call(pointer, flags, mode) },
        // SAFETY: as above.
        Some((engine, guard, name)) => unsafe {
            open_guarded(engine, Call { real, pointer, flags, mode, guard, name })
        },
    }
}

/// Does the call concern a guarded directory? With an empty name: the directory itself.
#[inline]
fn concern<'p>(
    engine: &'static Engine,
    directory: c_int,
    path: &'p [u8],
    flags: c_int,
) -> Option<(&'static Engine, usize, &'p [u8])> {
    if flags & libc::O_PATH != 0 {
        if let Some(guard) = engine.is_guard(path) {
            engine.opened_directory();
            let _ = guard;
        }
        return None;
    }
    if let Some((guard, name)) = engine.child_at(directory, path) {
        return Some((engine, guard, name));
    }
    engine.is_guard(path).map(|guard| (engine, guard, &b""[..]))
}

/// # Safety
/// The program's own arguments.
unsafe fn open_guarded(engine: &'static Engine, call: Call<'_>) -> c_int {
    let tmpfile = call.flags & libc::O_TMPFILE == libc::O_TMPFILE;
    if call.name.is_empty() {
        if !tmpfile {
            engine.opened_directory();
            // SAFETY: the program's own call.
            return unsafe { call.real.call(call.pointer, call.flags, call.mode) };
        }
        let origin = if call.flags & libc::O_EXCL != 0 { Origin::Tmpfile } else { Origin::LinkableTmpfile };
        // SAFETY: as above.
        return unsafe { create(engine, call, origin) };
    }
    if tmpfile || call.flags & libc::O_CREAT == 0 {
        // SAFETY: as above.
        return unsafe { attach(engine, call) };
    }
    // SAFETY: as above.
    unsafe { create(engine, call, Origin::Open) }
}

/// Opens what should exist; follows a link of ours where the kernel does not.
///
/// # Safety
/// The program's own arguments.
unsafe fn attach(engine: &'static Engine, call: Call<'_>) -> c_int {
    let before = errno::get();
    let mut patience = Patience::new();
    loop {
        // SAFETY: the program's own call; nothing with a Drop is alive.
        let fd = unsafe { call.real.call(call.pointer, call.flags, call.mode) };
        if fd < 0 {
            match followed(engine, call.guard, call.name, call.flags, before, &mut patience) {
                None => continue,
                Some(fd) => return fd,
            }
        }
        if !life::shielded(false, || engine.opened(call.guard, fd)) || !patience.again() {
            return fd;
        }
        close(fd);
    }
}

/// After a failed open of a name in a guard: the target's descriptor if the name is a link of ours, else -1 with the errno of
/// the failure. `None`: the name has changed meanwhile, or was being exchanged, and is to be opened again.
pub fn followed(
    engine: &'static Engine,
    guard: usize,
    name: &[u8],
    flags: c_int,
    errno_before: c_int,
    patience: &mut Patience,
) -> Option<c_int> {
    let failure = errno::get();
    let at_last = |again: bool| {
        errno::set(failure);
        if again {
            None
        } else {
            Some(-1)
        }
    };
    if failure == libc::EAGAIN && flags & libc::O_NONBLOCK != 0 {
        // Its creator holds a lease on it at this moment (EWOULDBLOCK of open(2)), which no program expects of shared memory.
        return at_last(patience.wait());
    }
    if failure != libc::ELOOP && failure != libc::EACCES {
        return Some(-1);
    }
    let flags = OFlags::from_bits_retain(flags as u32);
    let error = Errno::from_raw_os_error(failure);
    match life::shielded(Followed::No, || engine.follow(guard, name, flags, error)) {
        Followed::Done(Ok(fd)) => {
            errno::set(errno_before);
            Some(fd)
        }
        Followed::Done(Err(error)) => {
            errno::set(error.raw_os_error());
            Some(-1)
        }
        Followed::No => {
            errno::set(failure);
            Some(-1)
        }
        Followed::Again => at_last(patience.again()),
        Followed::Wait => at_last(patience.wait()),
    }
}

/// # Safety
/// The program's own arguments.
unsafe fn create(engine: &'static Engine, call: Call<'_>, origin: Origin) -> c_int {
    let before = errno::get();
    life::cancellation_point();
    match prepare(engine, &call, origin) {
        // SAFETY: the program's own call.
        Before::Pass => unsafe { attach(engine, call) },
        Before::Made(fd) => fd,
        Before::Proceed(plan) => {
            // Whether this call or another created the file is known only by O_EXCL.
            let exclusive = if origin == Origin::Open { libc::O_EXCL } else { 0 };
            // SAFETY: the program's own call but for O_EXCL; `plan` is plain data.
            let fd = unsafe { call.real.call(call.pointer, call.flags | exclusive, call.mode) };
            if fd >= 0 {
                life::shielded((), || engine.created(&plan, call.name, fd));
                return fd;
            }
            if call.flags & libc::O_EXCL == 0 && errno::get() == libc::EEXIST {
                errno::set(before);
                // SAFETY: the program's own call.
                return unsafe { attach(engine, call) };
            }
            failed(engine, &plan, call.name);
            fd
        }
    }
}

fn prepare(engine: &'static Engine, call: &Call<'_>, origin: Origin) -> Before {
    let creation = Creation {
        guard: call.guard,
        name: call.name,
        origin,
        flags: OFlags::from_bits_retain(call.flags as u32),
        mode: call.mode,
    };
    life::shielded(Before::Pass, || engine.before_creating(&creation))
}

/// A creating call failed: its errno stands, the user may be told a cause.
pub fn failed(engine: &'static Engine, plan: &Plan, name: &[u8]) {
    let failure = errno::get();
    if matches!(failure, libc::EMFILE | libc::ENOSPC | libc::EROFS | libc::EACCES) {
        life::shielded((), || engine.creation_failed(plan, name, failure));
        errno::set(failure);
    }
}

/// Closes a descriptor that the program has never seen.
pub fn close(fd: c_int) {
    // SAFETY: it was opened by the hook that calls, and is not used afterwards.
    unsafe { syscall6(libc::SYS_close, fd as usize, 0, 0, 0, 0, 0) };
}

/// Hook. The mode is read whether it was passed or not, as every libc does: it is used only with O_CREAT or O_TMPFILE.
#[no_mangle]
unsafe extern "C-unwind" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::Open(&next::OPEN), path, flags, mode) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::Open(&next::OPEN64), path, flags, mode) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::OpenAt(&next::OPENAT, directory), path, flags, mode) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::OpenAt(&next::OPENAT64, directory), path, flags, mode) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::Open2(&next::OPEN_2), path, flags, 0) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::Open2(&next::OPEN64_2), path, flags, 0) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::OpenAt2(&next::OPENAT_2, directory), path, flags, 0) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::OpenAt2(&next::OPENAT64_2, directory), path, flags, 0) }
}

const CREAT_FLAGS: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn creat(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::Creat(&next::CREAT), path, CREAT_FLAGS, mode) }
}

/// Hook.
#[no_mangle]
unsafe extern "C-unwind" fn creat64(path: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { open_any(Real::Creat(&next::CREAT64), path, CREAT_FLAGS, mode) }
}
