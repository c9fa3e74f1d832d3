//! Redirecting: a file in a target takes the segment's place.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, Gid, Mode as FileMode, OFlags, SeekFrom, Uid};
use rustix::io::Errno;

use super::create::with_flags;
use super::size::{Failure, Sizing};
use super::{random, Engine};
use crate::data;
use crate::descriptor;
use crate::exchange::{exchange, temporary_name, Replacement, Stay, Subject};
use crate::guard::Guard;
use crate::link;
use crate::names::{self, Kind};
use crate::policy::{self, Cause, Situation};
use crate::segment::{wait_for, Held, Identity, Place};
use crate::target::{Creator, Directory, Label, Medium, TargetName, Unusable};

impl Engine {
    pub(super) fn creator(&self) -> Creator {
        let me = self.me();
        Creator { boot: me.boot, pid: me.pid, start: me.start, namespace: me.namespace }
    }

    /// Is this target no place for a segment of this kind and size? What is wrong with it is told once.
    pub(super) fn refuses(&self, directory: &Directory, index: usize, kind: Kind, need: u64, guard: &Guard) -> bool {
        let from_exec_to_noexec = directory.space.noexec && !guard.space.noexec;
        let no_inode = directory.space.inodes.is_some() && directory.space.inodes_free == 0;
        let memory = if directory.medium == Medium::Ram { self.memory_bound() } else { None };
        from_exec_to_noexec
            || no_inode
            || !policy::suits(directory.medium, kind, need, memory)
            || directory.room() < need
            || self.over_cap(index, need)
    }

    /// Moves a segment that is being sized into the first target that takes it.
    pub(super) fn redirect(
        &self,
        held: &mut Held<'_>,
        sizing: &Sizing<'_>,
        guard: &Guard,
        situation: &Situation,
        cause: Cause,
    ) -> Result<(), Failure> {
        // An attempt to reserve it may have changed its blocks since.
        let sizing = &Sizing { stat: fs::fstat(sizing.fd).unwrap_or(sizing.stat), ..*sizing };
        let Some(segment) = held.get() else { return Err(Failure::Stays(Stay::NotOurs)) };
        let kind = names::kind(&segment.name);
        let identity = segment.identity;
        if segment.passed {
            return Err(Failure::Stays(Stay::Passed));
        }
        self.may_move(segment.forks, segment.mapped, sizing, identity).map_err(Failure::Stays)?;
        descriptor::no_child_has(identity, segment.created_ms).map_err(|unfit| Failure::Stays(unfit.into()))?;
        let from_guard = segment.place == Place::Guard;
        if from_guard && sizing.stat.st_nlink > 0 {
            if guard.nosymfollow {
                return Err(Failure::Stays(Stay::NoSymfollow));
            }
            if guard.space.inodes.is_some() && guard.space.inodes_free == 0 {
                return Err(Failure::Inodes);
            }
        }
        let mut failure = Failure::NoTarget;
        for (index, spec) in self.config.targets.iter().enumerate() {
            if segment.place == Place::Target(index as u8) {
                continue;
            }
            let directory = match Directory::open(&spec.path, guard.identity) {
                Ok(directory) => directory,
                Err(Unusable::Cannot(Errno::MFILE | Errno::NFILE)) => {
                    failure = Failure::Descriptors;
                    continue;
                }
                Err(unusable) => {
                    self.tell_unusable(index, unusable);
                    continue;
                }
            };
            if self.refuses(&directory, index, kind, sizing.bytes, guard) {
                continue;
            }
            let (file, name) = match self.prepare(sizing, guard, &directory) {
                Ok(made) => made,
                Err(Prepared::Descriptors) => {
                    failure = Failure::Descriptors;
                    continue;
                }
                Err(Prepared::Owner) => {
                    failure = Failure::Stays(Stay::Owner);
                    continue;
                }
                Err(Prepared::Unsupported) => {
                    self.tell_no_fallocate(index);
                    continue;
                }
                Err(Prepared::Full) => continue,
            };
            let Some(path) = directory.path_of(&name) else { continue };
            let old = (!from_guard).then_some(segment.target_name.clone());
            let forks = segment.forks;
            let lease = self.lease_speaks_in(segment.place, guard);
            let discard = || directory.remove(&name);
            let new = New { file: &file, path: &path, discard: &discard };
            self.put(segment.name.as_slice(), sizing, guard, &new, old.as_ref(), lease, kind, forks)
                .map_err(Failure::Stays)?;
            if sizing.stat.st_nlink == 0 {
                directory.remove(&name);
            }
            self.leave_target(segment.place, old.as_ref());
            let Ok(stat) = fs::fstat(&file) else { return Ok(()) };
            drop(file);
            segment.place = Place::Target(index as u8);
            segment.target_name = name;
            segment.reserved = sizing.bytes;
            self.tell_redirect(segment, sizing, situation, index, directory.medium);
            self.log_sized(segment, sizing, situation, "redirect", cause.word(), "");
            held.moved_to(Identity::of(&stat));
            // One made in a target at once was counted then.
            self.tally.redirected.add(u64::from(from_guard));
            self.tally.bytes_redirected.add(sizing.bytes);
            self.added_to_target(index, sizing.bytes);
            self.collect_garbage(guard);
            return Ok(());
        }
        Err(failure)
    }

    fn may_move(&self, forks: u32, mapped: bool, sizing: &Sizing<'_>, identity: Identity) -> Result<(), Stay> {
        if mapped {
            return Err(Stay::Mapped);
        }
        if self.has_forked_since(forks) {
            return Err(Stay::Forked);
        }
        if sizing.stat.st_nlink > 1 {
            return Err(Stay::Renamed);
        }
        if sizing.own_descriptor {
            descriptor::only_one(sizing.fd, identity)?;
        }
        Ok(())
    }

    /// The new file: same mode and owner, data copied, pages reserved, access mode and status flags of the old descriptor.
    fn prepare(
        &self,
        sizing: &Sizing<'_>,
        guard: &Guard,
        directory: &Directory,
    ) -> Result<(OwnedFd, TargetName), Prepared> {
        let name =
            Label { guard: guard.identity, instance: guard.instance(), creator: self.creator(), random: random() }
                .name();
        let file = directory.create(&name, FileMode::RUSR | FileMode::WUSR).map_err(|error| match error {
            Errno::MFILE | Errno::NFILE => Prepared::Descriptors,
            _ => Prepared::Full,
        })?;
        let made = self.furnish(sizing, directory, &name, file);
        match made {
            Ok(file) => Ok((file, name)),
            Err(failure) => {
                directory.remove(&name);
                Err(failure)
            }
        }
    }

    fn furnish(
        &self,
        sizing: &Sizing<'_>,
        directory: &Directory,
        name: &[u8],
        file: OwnedFd,
    ) -> Result<OwnedFd, Prepared> {
        let stat = fs::fstat(&file).map_err(|_| Prepared::Full)?;
        if stat.st_uid != sizing.stat.st_uid || stat.st_gid != sizing.stat.st_gid {
            let (uid, gid) = (Uid::from_raw(sizing.stat.st_uid), Gid::from_raw(sizing.stat.st_gid));
            fs::fchown(&file, Some(uid), Some(gid)).map_err(|_| Prepared::Owner)?;
        }
        let mode = FileMode::from_raw_mode(sizing.stat.st_mode & 0o7777);
        if stat.st_mode & 0o7777 != sizing.stat.st_mode & 0o7777 {
            fs::fchmod(&file, mode).map_err(|_| Prepared::Owner)?;
        }
        directory.reserve(file.as_fd(), 0, sizing.bytes).map_err(|shortage| match shortage {
            crate::reserve::Shortage::Unsupported => Prepared::Unsupported,
            _ => Prepared::Full,
        })?;
        let size = sizing.stat.st_size as u64;
        if size > 0 {
            fs::ftruncate(&file, size).map_err(|_| Prepared::Full)?;
            data::copy(sizing.fd, file.as_fd(), size).map_err(|_| Prepared::Full)?;
        }
        if !sizing.own_descriptor {
            return Ok(file);
        }
        let flags = fs::fcntl_getfl(sizing.fd).map_err(|_| Prepared::Full)?;
        let file = with_flags(file, directory, name, flags).map_err(|_| Prepared::Owner)?;
        if let Ok(offset) = fs::seek(sizing.fd, SeekFrom::Current(0)) {
            if offset > 0 {
                let _ = fs::seek(&file, SeekFrom::Start(offset));
            }
        }
        Ok(file)
    }

    #[allow(clippy::too_many_arguments)]
    fn put(
        &self,
        name: &[u8],
        sizing: &Sizing<'_>,
        guard: &Guard,
        new: &New<'_>,
        old_target: Option<&TargetName>,
        lease_in_target: bool,
        kind: Kind,
        forks: u32,
    ) -> Result<(), Stay> {
        let me = self.me();
        let temporary = temporary_name(me.pid, me.start, random());
        let nameless = sizing.stat.st_nlink == 0;
        let identity = Identity::of(&sizing.stat);
        let expected = match old_target {
            None => identity,
            // The name is a link now: to this very file, or it is not ours any more.
            Some(_) if nameless => identity,
            Some(old) => link::read(guard.fd(), name, &self.config.targets)
                .filter(|link| link.name == *old)
                .and_then(|_| descriptor::identity_at(guard.fd(), name))
                .ok_or(Stay::Renamed)
                .inspect_err(|_| (new.discard)())?,
        };
        let subject = Subject {
            fd: sizing.fd,
            identity,
            size: sizing.stat.st_size as u64,
            blocks: sizing.stat.st_blocks as u64,
            name: (!nameless).then_some((guard.fd(), name, expected)),
            attaches_late: nameless || kind == Kind::LateAttach,
            forked: &|| self.has_forked_since(forks),
            lease_speaks: old_target.is_none() || lease_in_target,
        };
        // Fork waits for this lock; so no child is born with the old file between the check and the exchange.
        let Some(_exchanging) = wait_for(&self.exchanging) else {
            (new.discard)();
            return Err(Stay::Forked);
        };
        let New { file, path, discard } = *new;
        exchange(&subject, &Replacement { file, path, temporary: temporary.bytes(), discard })
    }

    /// Does a lease on a file of this target tell whether it is open elsewhere? On a tmpfs and on a disk's own file system it
    /// does; on overlayfs not (it is granted although the file is mapped), and of others nothing is known.
    fn lease_speaks_in(&self, place: Place, guard: &Guard) -> bool {
        let Place::Target(index) = place else { return false };
        let spec = self.config.targets.get(index as usize);
        let directory = spec.and_then(|spec| Directory::open(&spec.path, guard.identity).ok());
        directory.is_some_and(|directory| matches!(directory.medium, Medium::Ram | Medium::Disk))
    }

    /// Removes the file that a segment had in the target which it leaves.
    fn leave_target(&self, place: Place, old: Option<&TargetName>) {
        let (Place::Target(index), Some(old)) = (place, old) else { return };
        let Some(spec) = self.config.targets.get(index as usize) else { return };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(directory) = fs::openat(fs::CWD, spec.path.as_c_str(), flags, FileMode::empty()) {
            let _ = fs::unlinkat(&directory, old.as_slice(), fs::AtFlags::empty());
        }
    }

    /// The first sizing of a segment that was made in a target at once: its pages are reserved there, or it moves on to
    /// another target.
    pub(super) fn fill_target(
        &self,
        held: &mut Held<'_>,
        sizing: &Sizing<'_>,
        guard: &Guard,
        index: u8,
    ) -> Result<(), Errno> {
        let situation = self.situation(guard);
        let Some(segment) = held.get() else { return Ok(()) };
        let Some(spec) = self.config.targets.get(index as usize) else { return Ok(()) };
        let cause = Cause::Room;
        let kind = names::kind(&segment.name);
        // Given away since it was created (fchown): attachers follow a link only to a file of the same owner.
        if sizing.stat.st_nlink > 0 && sizing.stat.st_uid != rustix::process::geteuid().as_raw() {
            let ours = link::read(guard.fd(), &segment.name, &self.config.targets);
            if ours.is_some_and(|link| link.name == segment.target_name) {
                let owner = Some(Uid::from_raw(sizing.stat.st_uid));
                let flags = fs::AtFlags::SYMLINK_NOFOLLOW;
                let _ = fs::chownat(guard.fd(), segment.name.as_slice(), owner, None, flags);
            }
        }
        if let Ok(directory) = Directory::open(&spec.path, guard.identity) {
            let fits = !self.refuses(&directory, index as usize, kind, sizing.bytes, guard);
            let taken = (sizing.stat.st_blocks as u64).saturating_mul(512).min(sizing.bytes);
            let reserved = fits
                && if taken == 0 {
                    directory.reserve(sizing.fd, 0, sizing.bytes).is_ok()
                } else {
                    fs::fallocate(sizing.fd, fs::FallocateFlags::KEEP_SIZE, 0, sizing.bytes).is_ok()
                };
            if reserved {
                segment.reserved = sizing.bytes;
                self.tell_redirect(segment, sizing, &situation, index as usize, directory.medium);
                self.log_sized(segment, sizing, &situation, "redirect", cause.word(), "");
                self.tally.bytes_redirected.add(sizing.bytes);
                self.added_to_target(index as usize, sizing.bytes);
                self.collect_garbage(guard);
                return Ok(());
            }
        }
        match self.redirect(held, sizing, guard, &situation, cause) {
            Ok(()) => Ok(()),
            Err(failure) => {
                if let Some(segment) = held.get() {
                    self.overflow(segment, sizing, &situation, cause, &failure);
                }
                Ok(())
            }
        }
    }
}

/// The file that is to take a segment's place, its path, and what removes it.
struct New<'a> {
    file: &'a OwnedFd,
    path: &'a CString,
    discard: &'a dyn Fn(),
}

/// Why a target did not take the segment.
enum Prepared {
    Full,
    Unsupported,
    Owner,
    Descriptors,
}
