//! Reaping: CMD and the orphans that come to us, and what ended them.

use std::mem::MaybeUninit;

use super::watch::Watch;
use crate::now;

/// How CMD ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    /// The exit status that a shell would have.
    pub fn code(self) -> u8 {
        match self {
            Ended::Status(status) => status as u8,
            Ended::Signal(signal) => 128u8.saturating_add(signal as u8),
        }
    }
}

/// A process that a signal ended, as its parent learnt.
#[derive(Clone, Debug)]
pub struct Killed {
    /// When, in seconds since 1970.
    pub t: f64,
    /// The process.
    pub pid: i32,
    /// Its command.
    pub command: String,
    /// The signal.
    pub signal: i32,
}

/// Reaps whatever has ended. `Some`: CMD has, and everything else that had ended by then is reaped too. `stopped` is called
/// when CMD was stopped.
pub fn reap(main: i32, watch: &mut Watch, stopped: impl Fn(i32)) -> Option<Ended> {
    let mut ended = None;
    while let Some(change) = next_change() {
        if change.pid == main && change.code == libc::CLD_STOPPED {
            consume(change.pid, libc::WSTOPPED);
            stopped(main);
            continue;
        }
        if matches!(change.code, libc::CLD_STOPPED | libc::CLD_CONTINUED | libc::CLD_TRAPPED) {
            consume(change.pid, libc::WSTOPPED | libc::WCONTINUED);
            continue;
        }
        let by_signal = change.code != libc::CLD_EXITED;
        if by_signal {
            // While it is a zombie it still has its name and its record in the ledger.
            let command = now::command_of(change.pid).unwrap_or_default();
            let t = now::wall_ms() as f64 / 1000.0;
            watch.killed(Killed { t, pid: change.pid, command, signal: change.status });
        }
        consume(change.pid, libc::WEXITED);
        if change.pid == main {
            ended = Some(if by_signal { Ended::Signal(change.status) } else { Ended::Status(change.status) });
        }
    }
    ended
}

struct Change {
    pid: i32,
    code: i32,
    status: i32,
}

/// The next child that changed, left waitable.
fn next_change() -> Option<Change> {
    let options = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG | libc::WNOWAIT;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: the kernel fills in the structure; it was zeroed, which is what "nobody" looks like.
        let answer = unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) };
        if answer == 0 {
            break;
        }
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return None;
        }
    }
    // SAFETY: zeroed, then filled in by waitid, for which these are the members that count.
    let (pid, code, status) = unsafe {
        let info = info.assume_init();
        (info.si_pid(), info.si_code, info.si_status())
    };
    (pid != 0).then_some(Change { pid, code, status })
}

fn consume(pid: i32, what: i32) {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: as above.
    unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, info.as_mut_ptr(), what | libc::WNOHANG) };
}
