//! Names: attaching by name, unlinking and replacing names of segments that were redirected.

use std::os::fd::{IntoRawFd, RawFd};

use rustix::fs::{self, OFlags};
use rustix::io::Errno;

use super::Engine;
use crate::link::{self, Link};

/// A name in a guard that is about to go: the target that goes with it, if it is the last name of a link of ours.
pub struct Unlinking {
    link: Option<Link>,
}

impl Unlinking {
    /// Is the name a link of ours?
    pub fn is_ours(&self) -> bool {
        self.link.is_some()
    }
}

impl Engine {
    /// An open of `name` below a guard failed with ELOOP or EACCES: is it a link of ours, and what does its target say?
    ///
    /// `None`: not a link of ours; the failure stands.
    pub fn follow(&self, guard: usize, name: &[u8], flags: OFlags) -> Option<Result<RawFd, Errno>> {
        let guard_now = self.open_guard(guard)?;
        let link = link::read(guard_now.fd(), name, &self.config.targets)?;
        let opened = link.open(&self.config.targets, flags);
        drop(guard_now);
        let cloexec = flags.contains(OFlags::CLOEXEC);
        Some(opened.map(|fd| {
            let fd = crate::descriptor::lowest(fd);
            let wanted = if cloexec { rustix::io::FdFlags::CLOEXEC } else { rustix::io::FdFlags::empty() };
            let _ = rustix::io::fcntl_setfd(&fd, wanted);
            fd.into_raw_fd()
        }))
    }

    /// An existing segment was opened by name. True when the file had lost its name meanwhile: it was exchanged while this
    /// process was opening it, and the name must be opened again.
    pub fn opened(&self, guard: usize, fd: RawFd) -> bool {
        let Some(stat) = crate::borrow(fd).and_then(|fd| fs::fstat(fd).ok()) else { return false };
        if !self.is_here() {
            return false;
        }
        if !self.is_touched() {
            if let Some(now) = self.open_guard(guard).filter(|now| now.is_ram) {
                self.first_touch(&now, guard);
            }
        }
        self.count(|record| record.attached += 1);
        stat.st_nlink == 0 && stat.st_size == 0
    }

    /// A name in a guard is about to be unlinked, or to be replaced by a rename.
    pub fn unlinking(&self, guard: usize, name: &[u8]) -> Unlinking {
        let link = self.open_guard(guard).and_then(|guard| link::read(guard.fd(), name, &self.config.targets));
        Unlinking { link }
    }

    /// The name has gone: the target goes with the last name of its link.
    pub fn unlinked(&self, unlinking: &Unlinking) {
        if let Some(link) = unlinking.link.as_ref().filter(|link| link.names <= 1) {
            link.remove_target(&self.config.targets);
        }
    }
}
