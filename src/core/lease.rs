//! The write lease: does another open file description of this inode exist? And nobody new while it is held.
//!
//! `fcntl(F_SETLEASE, F_WRLCK)` is refused with EAGAIN while the inode is open elsewhere, also where that opening lives on
//! only in a mapping. It has teeth: whoever opens the file meanwhile makes the kernel send SIGIO, whose default ends the
//! process; so SIGIO goes to this thread alone and is blocked and drained here. All signals are blocked, so that no handler
//! can fork or size a segment in the middle. Held for microseconds, never over a reservation, never asked of a file on
//! overlayfs (which grants it although the file is mapped).

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::raw::{self, Told};

/// Why no lease was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The file is open through another description (another opener, also one that only has it mapped).
    Shared,
    /// This kernel or file system gives no leases here (gVisor, fs.leases-enable=0, another owner's file).
    Unsupported,
}

/// A lease that is held; only [`with_lease`] makes one.
pub struct Lease<'fd> {
    fd: BorrowedFd<'fd>,
}

impl Lease<'_> {
    /// Nobody has tried to open the file since the lease was taken.
    pub fn is_unbroken(&self) -> bool {
        raw::lease(self.fd) == Ok(libc::F_WRLCK)
    }

    /// Runs `work` while whoever opens `file` by another descriptor has to wait; they go on when it has ended, and O_NONBLOCK gets
    /// EWOULDBLOCK. Where the file system gives no lease `work` runs all the same, and nobody waits.
    ///
    /// Only under a lease, where the signals are blocked: SIGIO of this one comes to this thread as well.
    pub fn while_others_wait<R>(&self, file: BorrowedFd<'_>, work: impl FnOnce() -> R) -> R {
        let taken = raw::tell(file, Told::thread(raw::gettid())).and_then(|()| raw::set_lease(file, libc::F_WRLCK));
        let done = work();
        if taken.is_ok() {
            let _ = raw::set_lease(file, libc::F_UNLCK);
        }
        let _ = raw::tell(file, Told::thread(0));
        done
    }
}

/// Runs `work` under a write lease on the open file of `fd`.
///
/// `fd` must have been got by an open call: on the descriptor that memfd_create itself returns a lease answers the wrong
/// way round. After the call no lease is held, no SIGIO of ours is pending, and this thread's signal mask and what the program chose
/// with F_SETOWN and F_SETSIG are what they were.
///
/// # Errors
/// [`Denied`] when no lease was had; `work` has not been run then.
pub fn with_lease<R>(fd: BorrowedFd<'_>, work: impl FnOnce(&Lease<'_>) -> R) -> Result<R, Denied> {
    let old_mask = raw::block_signals(raw::ALL_SIGNALS).map_err(|_| Denied::Unsupported)?;
    let sigio = raw::only(libc::SIGIO);
    let was_pending = raw::pending_signals() & sigio != 0;
    // What the program has chosen with F_SETOWN and F_SETSIG: its signal would not be drained here, and it is to stay.
    let chosen = raw::told(fd).unwrap_or(Told::thread(0));
    let result = match raw::tell(fd, Told::thread(raw::gettid())).and_then(|()| raw::set_lease(fd, libc::F_WRLCK)) {
        Ok(()) => {
            let done = work(&Lease { fd });
            // Where `work` put another file behind the descriptor the lease went with the old one, and this does nothing.
            let _ = raw::set_lease(fd, libc::F_UNLCK);
            Ok(done)
        }
        Err(Errno::AGAIN) => Err(Denied::Shared),
        Err(_) => Err(Denied::Unsupported),
    };
    let _ = raw::tell(fd, Told::thread(0));
    if !was_pending {
        while raw::drain_signal(sigio) {}
    }
    // By now another file may be behind the descriptor: it takes the choice over.
    let _ = raw::tell(fd, chosen);
    let _ = raw::set_signal_mask(old_mask);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn an_opener_waits_at_the_second_file_and_the_first_lease_stays() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory on a tmpfs");
        let make = |name: &str| std::fs::File::create(directory.path().join(name)).expect("create");
        let (first, second) = (make("first"), make("second"));
        let open = || {
            use std::os::unix::fs::OpenOptionsExt;
            let nonblock = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).to_owned();
            nonblock.open(directory.path().join("second"))
        };
        let unbroken = with_lease(first.as_fd(), |lease| {
            let kind = lease.while_others_wait(second.as_fd(), || open().map_err(|error| error.kind()).err());
            assert_eq!(kind, Some(std::io::ErrorKind::WouldBlock));
            lease.is_unbroken()
        });
        assert_eq!(unbroken, Ok(true));
        open().expect("the gate is open again");
    }

    #[test]
    fn tells_whether_the_file_is_open_elsewhere() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory on a tmpfs");
        let path = directory.path().join("segment");
        let file = std::fs::File::create(&path).expect("create");
        assert_eq!(with_lease(file.as_fd(), |lease| lease.is_unbroken()), Ok(true));
        let other = std::fs::File::open(&path).expect("open");
        assert_eq!(with_lease(file.as_fd(), |_| ()), Err(Denied::Shared));
        drop(other);
        assert_eq!(with_lease(file.as_fd(), |_| ()), Ok(()));
    }
}
