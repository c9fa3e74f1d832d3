//! Creation: where the file is made, and that it was made here.

use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::fs::{self, Mode as FileMode, OFlags};
use rustix::io::{self, Errno};

use super::{now_ms, random, Engine};
use crate::descriptor::lowest;
use crate::guard::Guard;
use crate::names::{self, Kind};
use crate::policy::{self, Request};
use crate::reserve::{self, Shortage};
use crate::segment::{Identity, Name, Origin, Place, Segment};
use crate::target::{Directory, Label, Medium, TargetName};

/// A call that is about to create a segment.
#[derive(Clone, Copy)]
pub struct Creation<'a> {
    /// Index of the guard.
    pub guard: usize,
    /// Name below it; empty for O_TMPFILE.
    pub name: &'a [u8],
    /// How it is created.
    pub origin: Origin,
    /// The flags of the call (without O_CREAT and O_EXCL where the call has none).
    pub flags: OFlags,
    /// The mode of the call, before the umask.
    pub mode: u32,
}

/// What the hook needs to know after the real call. Plain data: it may live across a cancellation point.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    guard: u8,
    dev: u64,
    forks: u32,
    origin: Origin,
}

/// What to do instead of, or before, the real call.
#[derive(Clone, Copy, Debug)]
pub enum Before {
    /// Do the real call; it is none of our business.
    Pass,
    /// Do the real call, then [`Engine::created`].
    Proceed(Plan),
    /// Done: the segment was made in a target, this is the descriptor.
    Made(RawFd),
}

impl Engine {
    /// Before a segment is created. Under pressure it is made in a target at once, with a link in the guard.
    pub fn before_creating(&self, creation: &Creation<'_>) -> Before {
        if !self.is_here() {
            return Before::Pass;
        }
        let Some(guard) = self.open_guard(creation.guard) else {
            if !self.guard_is_there(creation.guard) {
                self.tell_missing_guard(creation.guard);
                return Before::Pass;
            }
            // No descriptor was left to look at it. Nor will the program's call find one; its failure is explained.
            return Before::Proceed(Plan { guard: creation.guard as u8, dev: 0, forks: 0, origin: creation.origin });
        };
        if !guard.is_ram || names::kind(creation.name).stays() {
            return Before::Pass;
        }
        let plan = Plan {
            guard: creation.guard as u8,
            dev: guard.identity.dev,
            forks: self.forks.load(std::sync::atomic::Ordering::Acquire),
            origin: creation.origin,
        };
        self.take_part(&guard, creation.guard);
        let made = self.make_elsewhere(creation, &guard, &plan);
        // Our own descriptors go first: the program gets the number that its own call would have got.
        drop(guard);
        match made {
            Some(fd) => Before::Made(lowest_raw(fd, creation.flags)),
            None => Before::Proceed(plan),
        }
    }

    /// After the real call created a segment: it is ours to move until it is sized.
    pub fn created(&self, plan: &Plan, name: &[u8], fd: RawFd) {
        let Some(stat) = crate::borrow(fd).and_then(|fd| fs::fstat(fd).ok()) else { return };
        let identity = Identity::of(&stat);
        let regular = fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::RegularFile;
        if identity.dev != plan.dev || !regular {
            return;
        }
        self.remember(plan, identity, name, &[], Place::Guard, fd);
    }

    /// A creating call failed: is there a cause that the user would not guess?
    pub fn creation_failed(&self, plan: &Plan, name: &[u8], error: i32) {
        self.tell_failed_creation(plan.guard as usize, name, error);
    }

    fn remember(&self, plan: &Plan, identity: Identity, name: &[u8], target_name: &[u8], place: Place, fd: RawFd) {
        let segment = Segment {
            identity,
            name: name.iter().copied().take(255).collect::<Name>(),
            target_name: target_name.iter().copied().take(128).collect(),
            origin: plan.origin,
            guard: plan.guard,
            place,
            promised: 0,
            reserved: 0,
            mapped: false,
            unsaved: false,
            passed: false,
            forks: plan.forks,
            descriptor: fd,
            created_ms: now_ms(),
        };
        self.log_created(&segment);
        self.table.insert(segment);
        self.tally.created.add(1);
    }

    /// Is there pressure, so that what comes next will not fit?
    fn is_pressed(&self, kind: Kind, guard: &Guard) -> bool {
        let situation = self.situation(guard);
        let asked = self.asked_lately();
        let over = situation.capacity.is_some() && situation.fill() >= situation.budget;
        over || (asked > policy::SMALL && situation.fits(kind, asked).is_err())
    }

    fn make_elsewhere(&self, creation: &Creation<'_>, guard: &Guard, plan: &Plan) -> Option<OwnedFd> {
        let kind = names::kind(creation.name);
        let request = Request {
            kind,
            origin: creation.origin,
            kept_by_user: self.config.keeps(creation.name),
            bytes: 0,
            held: 0,
        };
        let fixed = policy::never_moved(&request).is_some() || matches!(kind, Kind::Pinned | Kind::Sparse);
        let access = creation.flags.intersection(OFlags::RWMODE);
        if fixed || !self.redirects() || guard.nosymfollow || access == OFlags::RDONLY || !self.is_pressed(kind, guard)
        {
            return None;
        }
        let need = self.asked_lately();
        for (index, spec) in self.config.targets.iter().enumerate() {
            let Ok(directory) = Directory::open(&spec.path, guard.identity) else { continue };
            if self.refuses(&directory, index, kind, need, guard) {
                continue;
            }
            match self.make_in(creation, guard, &directory, index) {
                Ok((file, target_name)) => {
                    let identity = Identity::of(&fs::fstat(&file).ok()?);
                    self.remember(
                        plan,
                        identity,
                        creation.name,
                        &target_name,
                        Place::Target(index as u8),
                        file.as_raw_fd(),
                    );
                    self.tally.redirected.add(1);
                    return Some(file);
                }
                // The name is taken, or links do not work here: the real call gives the program its answer.
                Err(Made::Guard) => return None,
                Err(Made::Target) => continue,
            }
        }
        None
    }

    fn make_in(
        &self,
        creation: &Creation<'_>,
        guard: &Guard,
        directory: &Directory,
        index: usize,
    ) -> Result<(OwnedFd, TargetName), Made> {
        let name =
            Label { guard: guard.identity, instance: guard.instance(), creator: self.creator(), random: random() }
                .name();
        let mode = FileMode::from_raw_mode(creation.mode & 0o7777);
        let file = directory.create(&name, mode).map_err(|_| Made::Target)?;
        let fail = |made: Made| {
            directory.remove(&name);
            made
        };
        // Once the program has this file it cannot leave for another target, so the file system must be able to reserve: disks'
        // own can, and tmpfs; ramfs, which has no limit either, cannot.
        let certain = match directory.medium {
            Medium::Disk => true,
            Medium::Ram => directory.space.capacity.is_some(),
            Medium::Layer | Medium::Other => false,
        };
        if !certain {
            let page = reserve::reserve_on_disk(file.as_fd(), 0, PAGE);
            reserve::give_back(file.as_fd(), 0, PAGE);
            if page == Err(Shortage::Unsupported) {
                self.tell_no_fallocate(index);
            }
            page.map_err(|_| fail(Made::Target))?;
        }
        let file = with_flags(file, directory, &name, creation.flags).map_err(|_| fail(Made::Target))?;
        if creation.origin == Origin::Tmpfile {
            directory.remove(&name);
            return Ok((file, name));
        }
        let path = directory.path_of(&name).ok_or_else(|| fail(Made::Target))?;
        match fs::symlinkat(&path, guard.fd(), creation.name) {
            Ok(()) => Ok((file, name)),
            Err(_) => Err(fail(Made::Guard)),
        }
    }
}

/// What is reserved to see whether a file system can reserve at all, in bytes.
const PAGE: u64 = 4096;

/// Which side refused.
enum Made {
    Guard,
    Target,
}

/// The file with the access mode and status flags that the program asked for.
///
/// # Errors
/// The kernel's, from opening it again where read-write is not what was asked for.
pub(super) fn with_flags(file: OwnedFd, directory: &Directory, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    // What F_SETFL cannot set must be asked for when opening.
    let fixed = flags.intersection(OFlags::RWMODE | OFlags::SYNC | OFlags::DSYNC);
    let again = fixed != OFlags::RDWR;
    let file = if again {
        // In a directory of another user the name may mean something else by now, a fifo even.
        let safe = fixed | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = fs::openat(directory.fd(), name, safe, FileMode::empty())?;
        if Identity::of(&fs::fstat(&opened)?) != Identity::of(&fs::fstat(&file)?) {
            return Err(Errno::LOOP);
        }
        opened
    } else {
        file
    };
    let status = flags.intersection(OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOATIME);
    if again || !status.is_empty() {
        fs::fcntl_setfl(&file, status)?;
    }
    Ok(file)
}

/// Gives the descriptor the number that the program's own call would have got, and its close-on-exec flag.
fn lowest_raw(fd: OwnedFd, flags: OFlags) -> RawFd {
    let fd = lowest(fd);
    if !flags.contains(OFlags::CLOEXEC) {
        let _ = io::fcntl_setfd(&fd, io::FdFlags::empty());
    }
    fd.into_raw_fd()
}
