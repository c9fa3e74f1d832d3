//! Signals: all of them are blocked and read from a descriptor, so that none is lost and none interrupts anything.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// All signals of this process as a descriptor, and the mask that CMD gets back.
pub struct Signals {
    /// Readable when a signal is there.
    pub fd: OwnedFd,
    original: libc::sigset_t,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Its number.
    pub signal: i32,
    /// Who or what sent it (si_code).
    code: i32,
    sender: u32,
    value: u64,
}

impl Signals {
    /// Blocks everything. To be called while this is the only thread.
    ///
    /// # Errors
    /// The kernel's, from signalfd.
    pub fn take() -> io::Result<Signals> {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the call fills in the set.
        let all = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            all.assume_init()
        };
        Signals::of(&all)
    }

    /// Blocks these only.
    ///
    /// # Errors
    /// As [`Signals::take`].
    pub fn only(signals: &[i32]) -> io::Result<Signals> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the first call fills in the set, the others add to it.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            set.assume_init()
        };
        Signals::of(&set)
    }

    fn of(set: &libc::sigset_t) -> io::Result<Signals> {
        let mut original = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the second set is filled in by the call before it is read.
        unsafe {
            if libc::pthread_sigmask(libc::SIG_BLOCK, set, original.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals { fd: OwnedFd::from_raw_fd(fd), original: original.assume_init() })
        }
    }

    /// What CMD's mask is to be: that with which this command was started.
    pub fn original(&self) -> libc::sigset_t {
        self.original
    }

    /// Everything that has arrived.
    pub fn read(&self) -> Vec<Received> {
        let mut all = Vec::new();
        loop {
            let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
            let size = std::mem::size_of::<libc::signalfd_siginfo>();
            // SAFETY: the buffer has the size given.
            let got = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if got != size as isize {
                return all;
            }
            // SAFETY: the kernel has filled it in as a whole.
            let info = unsafe { info.assume_init() };
            all.push(Received {
                signal: info.ssi_signo as i32,
                code: info.ssi_code,
                sender: info.ssi_pid,
                value: info.ssi_ptr,
            });
        }
    }
}

impl Received {
    /// Is it meant for CMD? Not the end of a child, nor what our own writing to a closed pipe raised.
    pub fn is_to_be_passed(&self) -> bool {
        let own_child = self.signal == libc::SIGCHLD && self.code > 0;
        let own_pipe = self.signal == libc::SIGPIPE && self.sender == std::process::id();
        !own_child && !own_pipe
    }

    /// Sends it on, with the value that sigqueue(3) gave it.
    pub fn pass(&self, pid: i32) {
        if self.code == libc::SI_QUEUE {
            let value = libc::sigval { sival_ptr: self.value as usize as *mut libc::c_void };
            // SAFETY: no memory is passed; the value is a number to the kernel.
            unsafe { libc::sigqueue(pid, self.signal, value) };
        } else {
            send(pid, self.signal);
        }
    }
}

/// kill(2): a negative `pid` means a process group. A process that is gone is no error here.
pub fn send(pid: i32, signal: i32) {
    // SAFETY: kill touches no memory.
    unsafe { libc::kill(pid, signal) };
}

/// The name of a signal, as in `SIGBUS`.
pub fn name(signal: i32) -> String {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    let found = known.iter().find(|(number, _)| *number == signal);
    found.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}
