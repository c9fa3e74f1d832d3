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

/// Signals that a fault of this thread raises (the kernel ends a process in which they are blocked, whatever handler it has),
/// and the two that glibc keeps for itself: SIGCANCEL, SIGSETXID.
const NOT_OURS: SignalSet = raw::only(libc::SIGSEGV)
    | raw::only(libc::SIGBUS)
    | raw::only(libc::SIGFPE)
    | raw::only(libc::SIGILL)
    | raw::only(libc::SIGTRAP)
    | raw::only(libc::SIGSYS)
    | raw::only(32)
    | raw::only(33);

/// While it lives, signals of this thread wait: a handler that ran in the middle of our work could leave by siglongjmp, and
/// locks, descriptors and half-made targets would stay for ever. Costs two system calls.
pub struct Undisturbed {
    old: Option<SignalSet>,
}

impl Undisturbed {
    /// Signals wait from now on.
    #[allow(clippy::new_without_default)] // a value made by accident would have an effect
    pub fn new() -> Undisturbed {
        Undisturbed { old: raw::block_signals(raw::ALL_SIGNALS & !NOT_OURS).ok() }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        if let Some(old) = self.old {
            let _ = raw::set_signal_mask(old);
        }
    }
}

/// Runs `work` with this thread's signals held off and on a stack of ours: how everything is done that is slow.
pub fn undisturbed<R>(work: impl FnOnce() -> R) -> R {
    let _undisturbed = Undisturbed::new();
    crate::stack::on_own_stack(work)
}
