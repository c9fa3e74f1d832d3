//! The mkstemp family. libc's own opens the file by a call that no hook sees, so it needs hooks of its own.

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;

use rustix::fs::OFlags;

use shmguard_core::engine::{Before, Creation, Engine};
use shmguard_core::segment::Origin;
use shmguard_core::syscall6;

use super::open::failed;
use super::path;
use crate::next::{self, Next};
use crate::{errno, life};

/// Which form it is: how many arguments the real function takes.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    Flags,
    Suffix,
    SuffixFlags,
}

/// # Safety
/// The program's own arguments.
#[inline(always)]
unsafe fn call(real: &'static Next, form: Form, template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    type One = unsafe extern "C-unwind" fn(*mut c_char) -> c_int;
    type Two = unsafe extern "C-unwind" fn(*mut c_char, c_int) -> c_int;
    type Three = unsafe extern "C-unwind" fn(*mut c_char, c_int, c_int) -> c_int;
    if !real.is_known() {
        // SAFETY: the program's own arguments.
        return unsafe { made_by_hand(template, suffix, flags) };
    }
    // SAFETY: the address is that of the function of this form, whose type is written here.
    unsafe {
        match form {
            Form::Plain => transmute::<*mut c_void, One>(real.address())(template),
            Form::Flags => transmute::<*mut c_void, Two>(real.address())(template, flags),
            Form::Suffix => transmute::<*mut c_void, Two>(real.address())(template, suffix),
            Form::SuffixFlags => transmute::<*mut c_void, Three>(real.address())(template, suffix, flags),
        }
    }
}

/// # Safety
/// The program's own arguments.
unsafe fn make(real: &'static Next, form: Form, template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    let Some(engine) = life::engine() else {
        // SAFETY: the program's own call.
        return unsafe { call(real, form, template, suffix, flags) };
    };
    // SAFETY: a path that the program passed.
    let concern = unsafe { path(template) }
        .and_then(|path| engine.child_at(libc::AT_FDCWD, path))
        .map(|(guard, name)| (guard, name.len()));
    let Some((guard, length)) = concern else {
        // SAFETY: the program's own call.
        return unsafe { call(real, form, template, suffix, flags) };
    };
    // libc's mkstemp opens the file by an open that is one.
    life::cancellation_point();
    match prepare(engine, guard, template, length, suffix, flags) {
        Before::Made(fd) => fd,
        Before::Pass => {
            // SAFETY: the program's own call.
            unsafe { call(real, form, template, suffix, flags) }
        }
        Before::Proceed(plan) => {
            // SAFETY: the program's own call; `plan` is plain data.
            let fd = unsafe { call(real, form, template, suffix, flags) };
            // SAFETY: libc has filled in the template that the program passed.
            let name = unsafe { path(template) }
                .and_then(|path| engine.child_at(libc::AT_FDCWD, path))
                .map_or(&b""[..], |(_, name)| name);
            if fd >= 0 {
                life::shielded((), || engine.created(&plan, name, fd));
            } else {
                failed(engine, &plan, name);
            }
            fd
        }
    }
}

/// Under pressure the name is chosen here and the file made in a target.
fn prepare(
    engine: &'static Engine,
    guard: usize,
    template: *mut c_char,
    length: usize,
    suffix: c_int,
    flags: c_int,
) -> Before {
    let flags = OFlags::from_bits_retain(flags as u32).difference(OFlags::RWMODE) | OFlags::RDWR;
    life::shielded(Before::Pass, || {
        let mut name = [0u8; 255];
        let Some(letters) = fill(template, suffix, length, &mut name) else { return Before::Pass };
        let name = name.get(..length).unwrap_or(&[]);
        // Should the name be taken, the real function chooses another.
        let before = engine.before_creating(&Creation { guard, name, origin: Origin::Mkstemp, flags, mode: 0o600 });
        if matches!(before, Before::Made(_)) {
            write_back(template, suffix, &letters);
        }
        before
    })
}

/// The last component of the template with random letters in place of the six X; `None` if it has none (the real function
/// answers EINVAL).
fn fill(template: *mut c_char, suffix: c_int, length: usize, name: &mut [u8; 255]) -> Option<[u8; 6]> {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    // SAFETY: the template is the program's string; it was read as one just before.
    let whole = unsafe { path(template) }?;
    let last = whole.get(whole.len().checked_sub(length)?..)?;
    let at = last.len().checked_sub(usize::try_from(suffix).ok()?)?.checked_sub(6)?;
    if last.get(at..at + 6)? != b"XXXXXX" {
        return None;
    }
    let mut random = [0u8; 6];
    if rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::NONBLOCK) != Ok(6) {
        return None;
    }
    let letters = random.map(|byte| LETTERS.get(byte as usize % LETTERS.len()).copied().unwrap_or(b'a'));
    name.get_mut(..length)?.copy_from_slice(last);
    name.get_mut(at..at + 6)?.copy_from_slice(&letters);
    Some(letters)
}

fn write_back(template: *mut c_char, suffix: c_int, letters: &[u8; 6]) {
    // SAFETY: `fill` found six X at this place of the program's own, writable template.
    unsafe {
        let length = libc::strlen(template);
        let place = template.add(length - suffix as usize - 6);
        std::ptr::copy_nonoverlapping(letters.as_ptr().cast::<c_char>(), place, 6);
    }
}

/// mkstemp for the time before the constructor, when libc's own is not known yet.
///
/// # Safety
/// The program's own arguments.
#[cold]
unsafe fn made_by_hand(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    for _ in 0..100 {
        // SAFETY: the program's own string.
        let Some(length) = unsafe { path(template) }.map(<[u8]>::len) else { break };
        let mut name = [0u8; 255];
        let Some(letters) = fill(template, suffix, length.min(255), &mut name) else {
            errno::set(libc::EINVAL);
            return -1;
        };
        write_back(template, suffix, &letters);
        let flags = (flags & !libc::O_ACCMODE) | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        // SAFETY: the program's own string, now with a name filled in.
        let answer = unsafe {
            syscall6(libc::SYS_openat, libc::AT_FDCWD as isize as usize, template as usize, flags as usize, 0o600, 0, 0)
        };
        if answer != -(libc::EEXIST as isize) {
            return errno::from_raw(answer) as c_int;
        }
        write_back(template, suffix, b"XXXXXX");
    }
    errno::set(libc::EEXIST);
    -1
}

macro_rules! family {
    ($($name:ident, $next:ident, $form:ident, ($($argument:ident),*), $suffix:expr, $flags:expr;)*) => {$(
        /// Hook.
        #[no_mangle]
        unsafe extern "C-unwind" fn $name(template: *mut c_char $(, $argument: c_int)*) -> c_int {
            // SAFETY: the program's own arguments.
            unsafe { make(&next::$next, Form::$form, template, $suffix, $flags) }
        }
    )*};
}

family! {
    mkstemp, MKSTEMP, Plain, (), 0, 0;
    mkstemp64, MKSTEMP64, Plain, (), 0, 0;
    mkostemp, MKOSTEMP, Flags, (flags), 0, flags;
    mkostemp64, MKOSTEMP64, Flags, (flags), 0, flags;
    mkstemps, MKSTEMPS, Suffix, (suffix), suffix, 0;
    mkstemps64, MKSTEMPS64, Suffix, (suffix), suffix, 0;
    mkostemps, MKOSTEMPS, SuffixFlags, (suffix, flags), suffix, flags;
    mkostemps64, MKOSTEMPS64, SuffixFlags, (suffix, flags), suffix, flags;
}
