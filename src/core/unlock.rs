//! Freeing a lock in the child of a fork. Unsafe room: one function.
#![allow(unsafe_code)]

use parking_lot::Mutex;

/// Frees `lock` if a thread of the parent held it at the fork.
///
/// Only for the atfork handler of the child, where no other thread exists. All our locks are taken by `try_lock`, so no
/// thread was ever parked on one and parking_lot's global table (which a fork may leave locked) is not touched.
pub fn free_after_fork<T>(lock: &Mutex<T>) {
    if lock.is_locked() {
        // SAFETY: the thread that held it does not exist in this process, and its guard can never be dropped here.
        unsafe { lock.force_unlock() };
    }
}
