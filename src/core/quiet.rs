//! Work of ours that must not end the program by a signal.

use crate::raw::{self, SignalSet};

/// SIGXFSZ (a file of ours reached RLIMIT_FSIZE) and SIGPIPE (nobody reads standard error any more).
pub const OUR_SIGNALS: SignalSet = raw::only(libc::SIGXFSZ) | raw::only(libc::SIGPIPE);

/// Runs `work` with these signals blocked in this thread, and takes those that it caused.
pub fn quietly<R>(work: impl FnOnce() -> R) -> R {
    let before = raw::pending_signals() & OUR_SIGNALS;
    let Ok(old) = raw::block_signals(OUR_SIGNALS) else { return work() };
    let result = work();
    let caused = OUR_SIGNALS & !before;
    if caused != 0 {
        while raw::drain_signal(caused) {}
    }
    let _ = raw::set_signal_mask(old);
    result
}
