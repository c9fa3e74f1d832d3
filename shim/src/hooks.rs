//! The hooks, by what they stand in front of. Each is C types and a few instructions: does the call concern a guarded
//! directory? If not, it is made as it came.

mod create;
mod link;
mod map;
mod names;
mod open;
mod owner;
mod pass;
mod place;
mod sandbox;
mod shm;
mod size;
mod space;
mod wait;
mod write;

use std::ffi::{c_char, CStr};

/// Resolves every function that redhook stands in front of, where there is one: its own first call would abort otherwise.
pub fn resolve() {
    link::resolve();
    map::resolve();
    names::resolve();
    owner::resolve();
    place::resolve();
    shm::resolve();
    size::resolve();
    space::resolve();
}

/// The bytes of a path that the program passed; `None` for what cannot be a string (the kernel answers EFAULT).
///
/// # Safety
/// A pointer that is not in the first page must be a NUL-terminated string that lives for `'a`.
#[inline]
unsafe fn path<'a>(pointer: *const c_char) -> Option<&'a [u8]> {
    if (pointer as usize) < 4096 {
        return None;
    }
    // SAFETY: the caller's.
    Some(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}
