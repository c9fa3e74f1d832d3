//! The program's errno.

use libc::c_int;

/// errno of this thread.
pub fn get() -> c_int {
    // SAFETY: libc gives every thread an errno at a valid address.
    unsafe { *libc::__errno_location() }
}

/// Sets errno of this thread.
pub fn set(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value }
}

/// The C form of a raw answer: -1 and errno for an error.
pub fn from_raw(answer: isize) -> isize {
    if (-4095..0).contains(&answer) {
        set(-answer as c_int);
        -1
    } else {
        answer
    }
}
