//! The library's life in a process: constructor, fork, end.

use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::race::OnceBox;

use shmguard_core::config::{Config, Mode, Programs};
use shmguard_core::engine::Engine;
use shmguard_core::quiet::undisturbed;
use shmguard_core::segment::Table;

use crate::{hooks, log, next, outlet};

static ENGINE: OnceBox<Engine> = OnceBox::new();
static TABLE: Table = Table::new();
static OUTLET: outlet::Standard = outlet::Standard;

/// This process has entered a sandbox, where a system call of ours may kill it.
static SANDBOXED: AtomicBool = AtomicBool::new(false);

/// The engine, when the library has been loaded, has something to do in this program, and may do it.
#[inline(always)]
pub fn engine() -> Option<&'static Engine> {
    ENGINE.get().filter(|_| !SANDBOXED.load(Ordering::Relaxed))
}

/// This process has entered a sandbox: nothing is done from now on but what the program asks for. No system call.
pub fn sandboxed() {
    SANDBOXED.store(true, Ordering::Relaxed);
}

extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

/// Where the program's call is a cancellation point and we may not get as far as making it: ends a thread that was cancelled,
/// as the call would have. Nothing with a Drop may be alive.
pub fn cancellation_point() {
    // SAFETY: takes nothing; it returns, or unwinds through frames that let it pass.
    unsafe { pthread_testcancel() }
}

/// Runs bookkeeping of ours: a panic in it costs the bookkeeping, never the program's call; signals wait, so that no handler
/// jumps out of it; the thread is not cancelled in it; and the program's stack may be small.
pub fn shielded<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    lightly(otherwise, || undisturbed(work))
}

/// As [`shielded`], without a system call, for calls that may be none of our business: signals may come.
///
/// Dropping a descriptor calls libc's close, which is a cancellation point: with a request pending it would unwind into our
/// catch_unwind and end the program ("exception not rethrown").
pub fn lightly<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    const PTHREAD_CANCEL_DISABLE: c_int = 1;
    let mut state = 0;
    // SAFETY: `state` is a live local; the call changes this thread's cancelability only.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut state) };
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise);
    // SAFETY: as above, with the state that was there before.
    unsafe { pthread_setcancelstate(state, std::ptr::null_mut()) };
    result
}

#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[used]
#[link_section = ".fini_array"]
static DESTRUCTOR: extern "C" fn() = destructor;

extern "C" {
    /// The environment as libc keeps it, under the one of its names that no program takes for a variable of its own. Set before
    /// any constructor runs, in glibc (csu/init-first.c) and in musl (env/__init_tls.c, __libc_start_main.c).
    static __environ: *const *const c_char;
}

/// glibc calls constructors with main's arguments, musl with none: so nothing is taken from them. Nor is getenv called, for bash
/// exports one of its own.
extern "C" fn constructor() {
    let errno = crate::errno::get();
    let _ = catch_unwind(|| {
        std::panic::set_hook(Box::new(|_| {}));
        next::look_up();
        hooks::resolve();
        // SAFETY: one word that libc has set; other threads, which might change it, do not exist yet.
        begin(unsafe { __environ });
    });
    crate::errno::set(errno);
}

fn begin(environment: *const *const c_char) {
    // In a program with more rights than its caller (set-uid, file capabilities; the loader brings us there by
    // /etc/ld.so.preload) the environment is the caller's, and would choose where files are made with these rights.
    // SAFETY: no argument, no memory.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    let mut config = Config::from_environ(Entries { at: environment }.map(CStr::to_bytes));
    if config.mode == Mode::Off || !concerns_this_program(&config) {
        return;
    }
    config.look_at_guards(shmguard_core::guard::fault);
    outlet::remember();
    let of_run = || CString::new([config.run.as_ref()?.to_bytes(), b"/log"].concat()).ok();
    let directory = config.log.clone().or_else(of_run);
    let engine = Engine::new(config, &OUTLET, &TABLE);
    engine.begin(shmguard_core::getpid());
    // `cd /dev/shm && program`: what the shell says of the working directory is a hint like chdir.
    let inside = Entries { at: environment }.filter_map(|entry| entry.to_bytes().strip_prefix(b"PWD="));
    engine.changed_directory(inside.take(1).any(|place| engine.is_guard(place).is_some()));
    if ENGINE.set(Box::new(engine)).is_err() {
        return;
    }
    next::at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
    if let Some(directory) = directory {
        log::begin(&directory);
    }
}

/// The executable's name is asked for only where SHMGUARD_PROGRAMS makes a difference.
fn concerns_this_program(config: &Config) -> bool {
    if config.programs == Programs::All {
        return true;
    }
    let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 1024];
    match rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self/exe", &mut buffer) {
        Ok((path, _)) => {
            let path: &[u8] = path;
            config.applies_to(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
        }
        Err(_) => true,
    }
}

/// The strings of an environment.
struct Entries {
    at: *const *const c_char,
}

impl Iterator for Entries {
    type Item = &'static CStr;

    fn next(&mut self) -> Option<&'static CStr> {
        if self.at.is_null() {
            return None;
        }
        // SAFETY: `begin` was given a null-terminated array; the cursor never passes its end.
        let entry = unsafe { *self.at };
        if entry.is_null() {
            return None;
        }
        self.at = self.at.wrapping_add(1);
        // SAFETY: each entry is a NUL-terminated string; the iterator is used up before main can change it.
        Some(unsafe { CStr::from_ptr(entry) })
    }
}

// In the handlers of fork no signal mask is changed: a process that has nothing to do with shared memory makes the system calls
// that it always made.
extern "C" fn before_fork() {
    if let Some(engine) = engine() {
        lightly((), || engine.fork_prepare());
    }
}

extern "C" fn after_fork_in_parent() {
    if let Some(engine) = engine() {
        lightly((), || engine.fork_parent());
    }
}

extern "C" fn after_fork_in_child() {
    if let Some(engine) = engine() {
        shmguard_core::stack::reset_after_fork();
        lightly((), || engine.fork_child());
    }
}

extern "C" fn destructor() {
    let errno = crate::errno::get();
    if let Some(engine) = engine() {
        shielded((), || engine.end());
    }
    crate::errno::set(errno);
}
