//! chown and its relatives: the link of a redirected segment changes hands with the segment. Attachers follow a link only to a
//! file of the same owner, and in a sticky directory only its owner may take a name away.

use std::ffi::{c_char, c_int};

use libc::{gid_t, uid_t};
use redhook::{hook, real};

use shmguard_core::syscall6;

use super::path;
use crate::{errno, life, next};

/// Resolves redhook's functions.
pub fn resolve() {
    if next::CHOWN.is_known() {
        let _ = real!(chown);
    }
    if next::LCHOWN.is_known() {
        let _ = real!(lchown);
    }
    if next::FCHOWN.is_known() {
        let _ = real!(fchown);
    }
    if next::FCHOWNAT.is_known() {
        let _ = real!(fchownat);
    }
}

/// After a call that gave a file by descriptor to somebody else.
fn given(result: c_int, fd: c_int) -> c_int {
    if let (0, Some(engine)) = (result, life::engine()) {
        life::lightly((), || engine.given(fd));
    }
    result
}

/// Calls `real`, which gives a file by name to somebody else; the link of a redirected segment follows.
///
/// # Safety
/// The program's own string.
unsafe fn by_name(directory: c_int, pointer: *const c_char, real: impl FnOnce() -> c_int) -> c_int {
    let giving = life::engine().and_then(|engine| {
        // SAFETY: the caller's.
        let path = unsafe { path(pointer) }?;
        let (guard, name) = engine.child_at(directory, path)?;
        Some((engine, life::shielded(None, || engine.giving(guard, name))?))
    });
    let result = real();
    if let (0, Some((engine, giving))) = (result, giving) {
        life::shielded((), || engine.given_by_name(&giving));
    }
    result
}

#[cold]
unsafe fn raw(directory: c_int, path: *const c_char, owner: uid_t, group: gid_t, flags: c_int) -> c_int {
    let (directory, flags) = (directory as isize as usize, flags as usize);
    // SAFETY: the program's own arguments.
    let answer =
        unsafe { syscall6(libc::SYS_fchownat, directory, path as usize, owner as usize, group as usize, flags, 0) };
    errno::from_raw(answer) as c_int
}

hook! {
    unsafe fn fchown(fd: c_int, owner: uid_t, group: gid_t) -> c_int => shmguard_fchown {
        let result = if next::FCHOWN.is_known() {
            // SAFETY: the program's own call, here and below.
            unsafe { real!(fchown)(fd, owner, group) }
        } else {
            // SAFETY: as above.
            let answer = unsafe { syscall6(libc::SYS_fchown, fd as isize as usize, owner as usize, group as usize, 0, 0, 0) };
            errno::from_raw(answer) as c_int
        };
        given(result, fd)
    }
}

hook! {
    unsafe fn chown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int => shmguard_chown {
        let real = || match next::CHOWN.is_known() {
            // SAFETY: the program's own call.
            true => unsafe { real!(chown)(path, owner, group) },
            // SAFETY: as above.
            false => unsafe { raw(libc::AT_FDCWD, path, owner, group, 0) },
        };
        // SAFETY: the program's own string.
        unsafe { by_name(libc::AT_FDCWD, path, real) }
    }
}

hook! {
    unsafe fn lchown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int => shmguard_lchown {
        let real = || match next::LCHOWN.is_known() {
            // SAFETY: the program's own call.
            true => unsafe { real!(lchown)(path, owner, group) },
            // SAFETY: as above.
            false => unsafe { raw(libc::AT_FDCWD, path, owner, group, libc::AT_SYMLINK_NOFOLLOW) },
        };
        // SAFETY: the program's own string.
        unsafe { by_name(libc::AT_FDCWD, path, real) }
    }
}

hook! {
    unsafe fn fchownat(
        directory: c_int, path: *const c_char, owner: uid_t, group: gid_t, flags: c_int
    ) -> c_int => shmguard_fchownat {
        let real = || match next::FCHOWNAT.is_known() {
            // SAFETY: the program's own call.
            true => unsafe { real!(fchownat)(directory, path, owner, group, flags) },
            // SAFETY: as above.
            false => unsafe { raw(directory, path, owner, group, flags) },
        };
        if flags & libc::AT_EMPTY_PATH != 0 {
            // An empty path means the descriptor; another one is never a name in a guard for `given`.
            return given(real(), directory);
        }
        // SAFETY: the program's own string.
        unsafe { by_name(directory, path, real) }
    }
}
