//! Names: attaching by name, unlinking and replacing names of segments that were redirected.

use std::os::fd::{IntoRawFd, RawFd};

use rustix::fs::{self, AtFlags, FileType, OFlags};
use rustix::io::Errno;

use super::Engine;
use crate::guard;
use crate::link::{self, Link};
use crate::segment::Name;

/// What became of an open that the kernel refused because of a link.
pub enum Followed {
    /// It is not a link of ours: the failure stands.
    No,
    /// The answer of its target.
    Done(Result<RawFd, Errno>),
    /// The name has changed meanwhile: it is to be opened again.
    Again,
    /// Its creator is exchanging it at this moment: it is to be opened again a little later.
    Wait,
}

/// A name in a guard that is about to go: the target that goes with it, if it is the last name of a link of ours.
pub struct Unlinking {
    link: Option<Link>,
    guard: usize,
    name: Name,
    /// The path was not plainly a name in the guard, or the call may succeed without taking it away.
    doubtful: bool,
}

impl Unlinking {
    /// Is the name a link of ours?
    pub fn is_ours(&self) -> bool {
        self.link.is_some()
    }

    /// Index of the guard and name there.
    pub fn place(&self) -> (usize, &[u8]) {
        (self.guard, &self.name)
    }
}

impl Engine {
    /// An open of `name` below a guard failed with `failure`, ELOOP or EACCES: is it a link of ours, and what does its target
    /// say?
    pub fn follow(&self, guard: usize, name: &[u8], flags: OFlags, failure: Errno) -> Followed {
        let Some(guard_now) = self.open_guard(guard) else { return Followed::No };
        let Some(link) = link::read(guard_now.fd(), name, &self.config.targets) else {
            // The link that the kernel met may have gone since.
            let now = fs::statat(guard_now.fd(), name, AtFlags::SYMLINK_NOFOLLOW);
            let is_link = |stat: &fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            let changed = match now {
                Ok(stat) => failure == Errno::LOOP && !is_link(&stat),
                Err(error) => error == Errno::NOENT,
            };
            return if changed { Followed::Again } else { Followed::No };
        };
        let opened = if flags.contains(OFlags::CREATE) && link.is_protected(guard_now.fd()) {
            Err(Errno::ACCESS)
        } else {
            link.open(&self.config.targets, flags)
        };
        if matches!(opened, Err(Errno::NOENT)) {
            // The target goes after its name: a name that is still this link dangles, another one is another segment.
            let now = link::read(guard_now.fd(), name, &self.config.targets);
            if now.is_none_or(|now| now.name != link.name) {
                return Followed::Again;
            }
        }
        if matches!(opened, Err(Errno::AGAIN)) {
            // The creator's lease on the new file (crate::exchange), which our O_NONBLOCK did not wait for.
            return Followed::Wait;
        }
        drop(guard_now);
        let cloexec = flags.contains(OFlags::CLOEXEC);
        Followed::Done(opened.map(|fd| {
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
        if !self.takes_part() {
            if let Some(now) = self.open_guard(guard).filter(|now| now.is_ram) {
                self.take_part(&now, guard);
            }
        }
        self.tally.attached.add(1);
        stat.st_nlink == 0 && stat.st_size == 0
    }

    /// A name in a guard is about to be unlinked, or to be replaced by a rename.
    pub fn unlinking(&self, guard: usize, name: &[u8]) -> Unlinking {
        let link = self.open_guard(guard).and_then(|guard| link::read(guard.fd(), name, &self.config.targets));
        Unlinking { link, guard, name: name.iter().copied().take(255).collect(), doubtful: false }
    }

    /// As [`Engine::unlinking`], for a path spelt with `..`; `None` when it cannot be a name in a guard.
    pub fn unlinking_path(&self, path: &[u8]) -> Option<Unlinking> {
        let found = self.config.guards.iter().enumerate();
        let (guard, name) = found
            .filter_map(|(index, guard)| Some((index, guard::child_by_any_spelling(guard.to_bytes(), path)?)))
            .next()?;
        Some(Unlinking { doubtful: true, ..self.unlinking(guard, &name) })
    }

    /// The call succeeded: the target goes with the last name of its link, if that name has really gone (a rename of two hard
    /// links of one file does nothing, and a path may have meant something else than it seemed to).
    pub fn unlinked(&self, unlinking: &Unlinking) {
        let Some(link) = unlinking.link.as_ref().filter(|link| link.names <= 1) else { return };
        if unlinking.doubtful {
            let Some(guard) = self.open_guard(unlinking.guard) else { return };
            let now = link::read(guard.fd(), &unlinking.name, &self.config.targets);
            if now.is_some_and(|now| now.name == link.name) {
                return;
            }
        }
        link.remove_target(&self.config.targets);
    }

    /// As [`Engine::unlinked`], after a rename over the name.
    pub fn replaced(&self, unlinking: &Unlinking) {
        self.tally.unlinked.add(1);
        let doubtful = Unlinking { link: None, guard: unlinking.guard, name: unlinking.name.clone(), doubtful: true };
        if let Some(link) = &unlinking.link {
            self.unlinked(&Unlinking { link: Some(link.clone()), ..doubtful });
        }
    }
}
