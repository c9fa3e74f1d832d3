//! The calls that take a name away or give another one: the target of a redirected segment goes with the last name of its link.

use std::ffi::{c_char, c_int, c_uint};

use redhook::{hook, real};

use shmguard_core::engine::{Engine, Unlinking};
use shmguard_core::quiet::Undisturbed;
use shmguard_core::syscall6;

use super::path;
use crate::{errno, life, next};

/// Resolves redhook's functions.
pub fn resolve() {
    if next::UNLINK.is_known() {
        let _ = real!(unlink);
    }
    if next::UNLINKAT.is_known() {
        let _ = real!(unlinkat);
    }
    if next::REMOVE.is_known() {
        let _ = real!(remove);
    }
    if next::RENAME.is_known() {
        let _ = real!(rename);
    }
    if next::RENAMEAT.is_known() {
        let _ = real!(renameat);
    }
    if next::RENAMEAT2.is_known() {
        let _ = real!(renameat2);
    }
    if next::LINKAT.is_known() {
        let _ = real!(linkat);
    }
}

/// A name in a guard that is about to go.
struct Going {
    engine: &'static Engine,
    link: Unlinking,
    /// Where a target goes with the name, no handler jumps out between the two.
    _undisturbed: Option<Undisturbed>,
}

impl Going {
    /// # Safety
    /// The program's own string.
    #[inline]
    unsafe fn of(directory: c_int, pointer: *const c_char) -> Option<Going> {
        let engine = life::engine()?;
        // SAFETY: the caller's.
        let path = unsafe { path(pointer) }?;
        let link = match engine.child_at(directory, path) {
            Some((guard, name)) => life::shielded(None, || Some(engine.unlinking(guard, name)))?,
            None if path.first() == Some(&b'/') && path.windows(3).any(|three| three == b"/..") => {
                life::shielded(None, || engine.unlinking_path(path))?
            }
            None => return None,
        };
        let undisturbed = link.is_ours().then(Undisturbed::new);
        Some(Going { engine, link, _undisturbed: undisturbed })
    }

    fn gone(self) {
        life::shielded((), || {
            self.engine.unlinked(&self.link);
            let (guard, name) = self.link.place();
            self.engine.log_unlinked(guard, name);
        });
    }
}

fn after(result: c_int, going: Option<Going>) -> c_int {
    if let (0, Some(going)) = (result, going) {
        going.gone();
    }
    result
}

#[cold]
unsafe fn raw_unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    let answer =
        unsafe { syscall6(libc::SYS_unlinkat, directory as isize as usize, path as usize, flags as usize, 0, 0, 0) };
    errno::from_raw(answer) as c_int
}

/// renameat2 or linkat: two names, and flags.
#[cold]
unsafe fn raw_two_names(number: i64, from: (c_int, *const c_char), to: (c_int, *const c_char), flags: c_uint) -> c_int {
    let (from_directory, from) = (from.0 as isize as usize, from.1 as usize);
    let (to_directory, to) = (to.0 as isize as usize, to.1 as usize);
    // SAFETY: the program's own arguments.
    errno::from_raw(unsafe { syscall6(number, from_directory, from, to_directory, to, flags as usize, 0) }) as c_int
}

hook! {
    unsafe fn unlink(path: *const c_char) -> c_int => shmguard_unlink {
        // SAFETY: the program's own arguments, here and below.
        let going = unsafe { Going::of(libc::AT_FDCWD, path) };
        let result = if next::UNLINK.is_known() {
            // SAFETY: the program's own call.
            unsafe { real!(unlink)(path) }
        } else {
            // SAFETY: as above.
            unsafe { raw_unlinkat(libc::AT_FDCWD, path, 0) }
        };
        after(result, going)
    }
}

hook! {
    unsafe fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int => shmguard_unlinkat {
        // SAFETY: the program's own arguments.
        let going = if flags & libc::AT_REMOVEDIR == 0 { unsafe { Going::of(directory, path) } } else { None };
        let result = if next::UNLINKAT.is_known() {
            // SAFETY: the program's own call.
            unsafe { real!(unlinkat)(directory, path, flags) }
        } else {
            // SAFETY: as above.
            unsafe { raw_unlinkat(directory, path, flags) }
        };
        after(result, going)
    }
}

hook! {
    unsafe fn remove(path: *const c_char) -> c_int => shmguard_remove {
        // SAFETY: the program's own arguments.
        let going = unsafe { Going::of(libc::AT_FDCWD, path) };
        let result = if next::REMOVE.is_known() {
            // SAFETY: the program's own call.
            unsafe { real!(remove)(path) }
        } else {
            // SAFETY: as above.
            let result = unsafe { raw_unlinkat(libc::AT_FDCWD, path, 0) };
            if result < 0 && matches!(errno::get(), libc::EISDIR | libc::EPERM) {
                // SAFETY: as above.
                unsafe { raw_unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
            } else {
                result
            }
        };
        after(result, going)
    }
}

hook! {
    unsafe fn rename(from: *const c_char, to: *const c_char) -> c_int => shmguard_rename {
        // SAFETY: the program's own arguments.
        let going = unsafe { Going::of(libc::AT_FDCWD, to) };
        let result = if next::RENAME.is_known() {
            // SAFETY: the program's own call.
            unsafe { real!(rename)(from, to) }
        } else {
            // SAFETY: as above.
            unsafe { raw_two_names(libc::SYS_renameat2, (libc::AT_FDCWD, from), (libc::AT_FDCWD, to), 0) }
        };
        replaced(result, going)
    }
}

hook! {
    unsafe fn renameat(
        from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char
    ) -> c_int => shmguard_renameat {
        // SAFETY: the program's own arguments.
        let going = unsafe { Going::of(to_directory, to) };
        let result = if next::RENAMEAT.is_known() {
            // SAFETY: the program's own call.
            unsafe { real!(renameat)(from_directory, from, to_directory, to) }
        } else {
            // SAFETY: as above.
            unsafe { raw_two_names(libc::SYS_renameat2, (from_directory, from), (to_directory, to), 0) }
        };
        replaced(result, going)
    }
}

hook! {
    unsafe fn renameat2(
        from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_uint
    ) -> c_int => shmguard_renameat2 {
        // With RENAME_EXCHANGE or RENAME_NOREPLACE no name goes.
        // SAFETY: the program's own arguments.
        let going = if flags == 0 { unsafe { Going::of(to_directory, to) } } else { None };
        let result = if next::RENAMEAT2.is_known() {
            // SAFETY: the program's own call.
            unsafe { real!(renameat2)(from_directory, from, to_directory, to, flags) }
        } else {
            // SAFETY: as above.
            unsafe { raw_two_names(libc::SYS_renameat2, (from_directory, from), (to_directory, to), flags) }
        };
        replaced(result, going)
    }
}

/// After a rename: what stood under the new name has gone.
fn replaced(result: c_int, going: Option<Going>) -> c_int {
    if let (0, Some(going)) = (result, going) {
        life::shielded((), || going.engine.replaced(&going.link));
    }
    result
}

hook! {
    unsafe fn linkat(
        from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_int
    ) -> c_int => shmguard_linkat {
        let mut flags = flags;
        if flags & libc::AT_SYMLINK_FOLLOW != 0 {
            // A second name for a redirected segment is a second name of its link: following it would leave the guard.
            // SAFETY: the program's own arguments.
            if unsafe { Going::of(from_directory, from) }.is_some_and(|going| going.link.is_ours()) {
                flags &= !libc::AT_SYMLINK_FOLLOW;
            }
        }
        if next::LINKAT.is_known() {
            // SAFETY: the program's own call but for that flag.
            return unsafe { real!(linkat)(from_directory, from, to_directory, to, flags) };
        }
        // SAFETY: as above.
        unsafe { raw_two_names(libc::SYS_linkat, (from_directory, from), (to_directory, to), flags as c_uint) }
    }
}
