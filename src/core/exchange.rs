//! Moving a segment that has no bytes yet: another file takes its place under the same name and the same descriptor.
//!
//! All that is slow comes first (the file in the target, its reservation). Then, under a write lease that shows nobody else
//! has the file open: a link under a temporary name, `renameat2(RENAME_EXCHANGE)` with the segment's name, a check that what
//! came out is our inode and that nobody knocked meanwhile, `dup3` over the program's descriptor, and the temporary name
//! goes. Anything else: exchanged back, nothing has happened; until then who opens the new file has to wait. (A lease given back before the rename lost 329 of 752 early
//! attachers; under the lease 0 of 502.)

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, RenameFlags};
use rustix::io::{self, Errno};

use crate::descriptor::{identity_at, Unfit};
use crate::lease::{self, Denied};
use crate::segment::Identity;
use crate::text::Text;

/// Why a segment stays where it is. The word of each appears in messages and in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Somebody else has it open already.
    Shared,
    /// It was forked away: a child may hold the descriptor.
    Forked,
    /// A child process holds its descriptor.
    Inherited,
    /// Its descriptor was passed to another process.
    Passed,
    /// A mapping of it exists.
    Mapped,
    /// This process has a second descriptor for it.
    SecondDescriptor,
    /// A lock is held through the descriptor.
    Locked,
    /// /proc cannot be read.
    NoProc,
    /// It is a meeting place (shm_open without O_EXCL).
    Rendezvous,
    /// It may be given a name later (O_TMPFILE without O_EXCL).
    Linkable,
    /// Its name is gone to another file, or it has two.
    Renamed,
    /// It is pinned for a device and only disks have room.
    Pinned,
    /// SHMGUARD_KEEP names it, or its kind is never moved.
    Kept,
    /// It holds more data already than is copied.
    HasData,
    /// No lease can be had here, and somebody may have attached already.
    NoLease,
    /// RENAME_EXCHANGE or links do not work here (old kernel, nosymfollow).
    NoExchange,
    /// Owner or mode could not be given to the new file.
    Owner,
    /// Not ours to move: created by another process.
    NotOurs,
    /// The mount forbids following links (nosymfollow).
    NoSymfollow,
}

impl Stay {
    /// The reason in plain words, fitting after "it cannot be moved: ".
    pub fn words(self) -> &'static str {
        match self {
            Stay::Shared => "another process has it open already",
            Stay::Forked => "the process forked between creating and sizing it",
            Stay::Inherited => "a child process has inherited its descriptor",
            Stay::Passed => "its descriptor was passed to another process before it was sized",
            Stay::Mapped => "it is mapped already",
            Stay::SecondDescriptor => "the process has a second descriptor for it",
            Stay::Locked => "a file lock is held on it",
            Stay::NoProc => "/proc cannot be read, so nobody knows who shares it",
            Stay::Rendezvous => "it was opened without O_EXCL, so others may meet there",
            Stay::Linkable => "it may still be given a name",
            Stay::Renamed => "its name was changed",
            Stay::Pinned => "it is pinned for a device, which a disk cannot do",
            Stay::Kept => "it is one of the names that are never moved",
            Stay::HasData => "it holds data already",
            Stay::NoLease => "this kernel gives no leases, so nobody knows who shares it",
            Stay::NoExchange => "this kernel cannot exchange a name for a link",
            Stay::Owner => "its owner or mode cannot be kept elsewhere",
            Stay::NotOurs => "another process created it",
            Stay::NoSymfollow => "the mount forbids links (nosymfollow)",
        }
    }
}

impl From<Unfit> for Stay {
    fn from(unfit: Unfit) -> Stay {
        match unfit {
            Unfit::NoProc => Stay::NoProc,
            Unfit::SecondDescriptor => Stay::SecondDescriptor,
            Unfit::Locked => Stay::Locked,
            Unfit::Inherited => Stay::Inherited,
        }
    }
}

/// The segment that is to move.
pub struct Subject<'a> {
    /// The program's descriptor.
    pub fd: BorrowedFd<'a>,
    /// The inode behind it.
    pub identity: Identity,
    /// Its size and blocks as they were when its data (if any) was copied: they must be the same still.
    pub size: u64,
    /// st_blocks, in units of 512 bytes.
    pub blocks: u64,
    /// Directory, name and the inode that stands under it (the segment's own, or that of the link to its present target);
    /// `None` for a nameless segment.
    pub name: Option<(BorrowedFd<'a>, &'a [u8], Identity)>,
    /// May it be moved on a kernel without leases? True for nameless segments and names known to attach late.
    pub attaches_late: bool,
    /// Asked at the last moment: has a child been forked since the segment was created?
    pub forked: &'a dyn Fn() -> bool,
    /// Does a lease on the file tell whether somebody else has it open? True in the guard, and in a target on a tmpfs or on a
    /// disk's own file system; false on overlayfs.
    pub lease_speaks: bool,
}

/// The file that takes its place: open with the segment's access mode and status flags, sized and reserved.
pub struct Replacement<'a> {
    /// The new file.
    pub file: &'a OwnedFd,
    /// Its absolute path, for the link.
    pub path: &'a CStr,
    /// The temporary name for the link, in the segment's directory.
    pub temporary: &'a [u8],
    /// Removes the file: called when the segment stays where it is.
    pub discard: &'a dyn Fn(),
}

/// Puts `replacement` in the place of `subject`.
///
/// After `Ok` the program's descriptor is the new file (close-on-exec, offset and status flags as before) and the name is a
/// link to it. After an error nothing has changed, and the new file has been removed by [`Replacement::discard`].
///
/// # Errors
/// [`Stay`] says why the segment stays.
pub fn exchange(subject: &Subject<'_>, replacement: &Replacement<'_>) -> Result<(), Stay> {
    let unleased = || if subject.attaches_late { swap(subject, replacement, &|| true) } else { Err(Stay::NoLease) };
    let leased = if subject.lease_speaks {
        lease::with_lease(subject.fd, |lease| {
            // While it is not certain that the exchange will stand, who comes through the link has to wait: after one that
            // was undone he would be left with a file that is gone. With the library he then opens again.
            lease.while_others_wait(replacement.file.as_fd(), || {
                let result = swap(subject, replacement, &|| lease.is_unbroken());
                if result.is_err() {
                    (replacement.discard)();
                }
                result
            })
        })
    } else {
        Err(Denied::Unsupported)
    };
    match leased {
        Ok(result) => result,
        Err(Denied::Unsupported) => unleased().inspect_err(|_| (replacement.discard)()),
        Err(Denied::Shared) => {
            (replacement.discard)();
            Err(Stay::Shared)
        }
    }
}

/// The exchange itself; `alone` says whether nobody has knocked until now.
fn swap(subject: &Subject<'_>, replacement: &Replacement<'_>, alone: &dyn Fn() -> bool) -> Result<(), Stay> {
    let now = fs::fstat(subject.fd).map_err(|_| Stay::Renamed)?;
    if Identity::of(&now) != subject.identity {
        return Err(Stay::Renamed);
    }
    if now.st_size as u64 != subject.size || now.st_blocks as u64 != subject.blocks {
        return Err(Stay::HasData);
    }
    if (subject.forked)() {
        return Err(Stay::Forked);
    }
    match subject.name {
        None if now.st_nlink > 0 => Err(Stay::Renamed),
        None if !alone() => Err(Stay::Shared),
        None => put_behind(subject.fd, replacement.file),
        Some(_) if now.st_nlink != 1 => Err(Stay::Renamed),
        Some(place) => swap_names(subject.fd, now.st_uid, place, replacement, alone),
    }
}

/// Exchanges the name (directory, name, inode that stands there) of a segment of owner `uid` for a link to the replacement.
fn swap_names(
    fd: BorrowedFd<'_>,
    uid: u32,
    (directory, name, expected): (BorrowedFd<'_>, &[u8], Identity),
    replacement: &Replacement<'_>,
    alone: &dyn Fn() -> bool,
) -> Result<(), Stay> {
    let temporary = replacement.temporary;
    fs::symlinkat(replacement.path, directory, temporary).map_err(|_| Stay::NoExchange)?;
    let undo_link = || {
        let _ = fs::unlinkat(directory, temporary, AtFlags::empty());
    };
    // Attachers follow a link only to a file of the same owner.
    if uid != rustix::process::geteuid().as_raw() {
        let owner = Some(fs::Uid::from_raw(uid));
        if fs::chownat(directory, temporary, owner, None, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            undo_link();
            return Err(Stay::Owner);
        }
    }
    let exchange_them = || fs::renameat_with(directory, temporary, directory, name, RenameFlags::EXCHANGE);
    if let Err(error) = exchange_them() {
        undo_link();
        return Err(if error == Errno::NOENT { Stay::Renamed } else { Stay::NoExchange });
    }
    let came_out = identity_at(directory, temporary) == Some(expected);
    let result = if !came_out {
        Err(Stay::Renamed)
    } else if !alone() {
        Err(Stay::Shared)
    } else {
        put_behind(fd, replacement.file)
    };
    if result.is_err() && exchange_them().is_err() {
        // Our link stands in another's place and cannot be taken back by exchange: give the name back its file.
        let _ = fs::renameat(directory, temporary, directory, name);
    }
    undo_link();
    result
}

/// dup3 over the program's descriptor, with its close-on-exec flag.
fn put_behind(fd: BorrowedFd<'_>, file: &OwnedFd) -> Result<(), Stay> {
    let flags = io::fcntl_getfd(fd).map_err(|_| Stay::Renamed)?;
    let keep = if flags.contains(io::FdFlags::CLOEXEC) { io::DupFlags::CLOEXEC } else { io::DupFlags::empty() };
    crate::borrowed::put_behind(fd.as_raw_fd(), file, keep).map_err(|_| Stay::SecondDescriptor)
}

/// A temporary name in the guard: `.shmguard-PID.START-RANDOM`; a dead creator's leftovers can be told by it.
pub fn temporary_name(pid: i32, start: u64, random: u64) -> Text<72> {
    let mut name = Text::new();
    name.add(format_args!(".shmguard-{pid}.{start:x}-{random:016x}"));
    name
}
