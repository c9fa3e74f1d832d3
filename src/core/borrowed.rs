//! Borrowing a descriptor that belongs to the program. Unsafe room.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{DupFlags, Errno};

/// The descriptor `number` of this process for the length of one operation; `None` for negative numbers.
///
/// The program may close it at any moment in another thread, as it may under any system call of its own: every use is a
/// system call that then fails with EBADF, and every decision is checked against the file's identity.
pub fn borrow<'a>(number: RawFd) -> Option<BorrowedFd<'a>> {
    if number < 0 {
        return None;
    }
    // SAFETY: not -1; a number that is closed meanwhile only makes system calls fail, nothing is dereferenced or closed.
    Some(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Puts `file` behind descriptor `number` of the program (dup3): the program goes on owning the number.
///
/// # Errors
/// The kernel's; EBUSY where the number is being opened by another thread at this moment.
pub fn put_behind(number: RawFd, file: &OwnedFd, flags: DupFlags) -> Result<(), Errno> {
    // SAFETY: the number stays the program's: `ManuallyDrop` keeps us from closing it.
    let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
    rustix::io::dup3(file, &mut place, flags)
}
