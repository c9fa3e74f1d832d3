//! Targets whose link is gone: nobody can attach to them any more, so their names may go, whoever still maps them.
//!
//! They are left by processes without the library that removed a name (`rm`, a resource tracker, an operator), by kills,
//! and by earlier lives of a container whose /var/tmp outlives its /dev/shm.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, Access, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::config::TargetSpec;
use crate::guard::Guard;
use crate::mounted::{mounted_tmpfs, MountedTmpfs};
use crate::process::{self, Owner};
use crate::target::{Label, TargetName};

/// Files younger than this are left alone: between a target's file and its link there is a moment.
pub const YOUNG_SECONDS: i64 = 60;

/// How many entries of the guard are looked at before we give up (and remove nothing).
const MOST_ENTRIES: usize = 200_000;

/// A file that nobody can attach to any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Index of the target directory in the configuration; `None` = a temporary name left in the guard itself.
    pub target: Option<usize>,
    /// Its name there.
    pub name: TargetName,
    /// Bytes that it holds.
    pub bytes: u64,
}

/// What a search for orphans has come to.
#[derive(Debug, Default)]
pub struct Found {
    /// What may be removed.
    pub orphans: Vec<Orphan>,
    /// Something was left because it could not be known at this moment whether its tmpfs is still mounted: it is worth another
    /// look soon, since the process that could not be looked at may be gone by then.
    pub unsure: bool,
}

/// Finds the orphans that belong to `guard`, and those of earlier lives of this container.
///
/// Only files of the caller's own user. `me` tells which boot this is. Nothing is found when the guard cannot be read
/// completely: an orphan is known only by the absence of its link.
pub fn find(guard: &Guard, targets: &[TargetSpec], me: &Owner, young_seconds: i64) -> Found {
    let mut linked = Vec::new();
    let mut orphans = Vec::new();
    let now = crate::raw::clock(libc::CLOCK_REALTIME).tv_sec;
    let mut budget = MOST_ENTRIES;
    let own = Own { uid: rustix::process::geteuid().as_raw(), now, young_seconds, me };
    if scan(guard.fd(), &mut linked, &mut orphans, &own, &mut budget, 0).is_none() {
        return Found::default();
    }
    linked.sort_unstable();
    let mut mounts = None;
    let mut unsure = false;
    let instance = guard.instance();
    let init_start = process::start_of(1).unwrap_or(0);
    for (index, spec) in targets.iter().enumerate() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = fs::openat(fs::CWD, spec.path.as_c_str(), flags, Mode::empty()) else { continue };
        let Ok(entries) = Dir::read_from(&directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            let Some(label) = Label::parse(name) else { continue };
            let Some((bytes, old)) = own.file(directory.as_fd(), name) else { continue };
            let creator = label.creator;
            let same_boot = creator.boot == me.boot;
            // Numbers of another pid namespace mean nothing here, except that what began before our process 1 did is of an
            // earlier life (or of a namespace around ours, and then the file is not on our own root).
            let same_namespace = same_boot && creator.namespace == me.namespace;
            let dead = same_namespace && !process::is_alive(creator.pid, creator.start);
            let earlier = same_boot && !same_namespace && creator.start < init_start;
            let orphan = if linked.binary_search(&label.random).is_ok() {
                false
            } else if same_boot && label.guard == guard.identity {
                // Between a target's file and its link there is a moment, for a living creator. Another instance with our
                // numbers (kernels that tell no time of birth) is an earlier life.
                old || dead || (label.instance != 0 && instance != 0 && label.instance != instance)
            } else if same_boot && label.guard.dev == guard.identity.dev {
                // Device numbers are unique among what is mounted: another instance under ours is gone, and its links with it.
                // Another directory of this instance is alive, and its links cannot be seen from here.
                label.instance != 0 && instance != 0 && label.instance != instance
            } else if !is_own_root(directory.as_fd()) {
                false
            } else if !same_boot {
                old
            } else {
                let gone = dead || (earlier && (old || root_is_layer()));
                let held = match gone {
                    true => mounts.get_or_insert_with(Mounts::read).hold(label.guard.dev, label.instance),
                    false => Some(true),
                };
                unsure |= held.is_none();
                held == Some(false)
            };
            if orphan {
                orphans.push(Orphan { target: Some(index), name: name.iter().copied().take(128).collect(), bytes });
            }
        }
    }
    Found { orphans: still_without_link(guard, orphans, &own), unsure }
}

/// The links are read before the targets: a file may have got its link, and its maker have died, in between. Who is dead
/// makes no further link, so a second look at the links decides.
fn still_without_link(guard: &Guard, mut orphans: Vec<Orphan>, own: &Own<'_>) -> Vec<Orphan> {
    if orphans.iter().any(|orphan| orphan.target.is_some()) {
        let (mut linked, mut budget) = (Vec::new(), MOST_ENTRIES);
        if scan(guard.fd(), &mut linked, &mut Vec::new(), own, &mut budget, 0).is_none() {
            return Vec::new();
        }
        linked.sort_unstable();
        orphans.retain(|orphan| {
            let label = orphan.target.and_then(|_| Label::parse(&orphan.name));
            label.is_none_or(|label| linked.binary_search(&label.random).is_err())
        });
    }
    orphans
}

/// Removes an orphan.
pub fn remove(guard: &Guard, targets: &[TargetSpec], orphan: &Orphan) -> bool {
    match orphan.target.map(|index| targets.get(index)) {
        None => fs::unlinkat(guard.fd(), orphan.name.as_slice(), AtFlags::empty()).is_ok(),
        Some(None) => false,
        Some(Some(spec)) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            fs::openat(fs::CWD, spec.path.as_c_str(), flags, Mode::empty())
                .and_then(|directory| fs::unlinkat(&directory, orphan.name.as_slice(), AtFlags::empty()))
                .is_ok()
        }
    }
}

struct Own<'a> {
    uid: u32,
    now: i64,
    young_seconds: i64,
    me: &'a Owner,
}

impl Own<'_> {
    /// The bytes held by a regular file of ours, and whether it is not young.
    fn file(&self, directory: BorrowedFd<'_>, name: &[u8]) -> Option<(u64, bool)> {
        let stat = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let old = self.now.saturating_sub(stat.st_ctime as i64) > self.young_seconds;
        let bytes = (stat.st_blocks as u64).saturating_mul(512);
        (regular && stat.st_uid == self.uid).then_some((bytes, old))
    }
}

/// Notes every target that a link below `directory` names, and temporary names whose maker is gone. `None`: incomplete.
fn scan(
    directory: BorrowedFd<'_>,
    linked: &mut Vec<u64>,
    orphans: &mut Vec<Orphan>,
    own: &Own<'_>,
    budget: &mut usize,
    depth: usize,
) -> Option<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let listing = fs::openat(directory, c".", flags, Mode::empty()).ok()?;
    for entry in Dir::read_from(&listing).ok()? {
        let entry = entry.ok()?;
        *budget = budget.checked_sub(1)?;
        let name = entry.file_name().to_bytes();
        match entry.file_type() {
            FileType::Symlink => {
                let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); crate::link::LONGEST];
                // A link is followed to files of its own owner only: another user's does not keep a file of ours.
                let Ok(stat) = fs::statat(&listing, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                if stat.st_uid != own.uid {
                    continue;
                }
                // Of an exchange whose maker was killed: the target was never to be had under the segment's own name.
                let left = depth == 0
                    && own.now.saturating_sub(stat.st_ctime) > own.young_seconds
                    && temporary(name).is_some_and(|(pid, start)| own.me.pid != pid && !process::is_alive(pid, start));
                if left {
                    orphans.push(Orphan { target: None, name: name.iter().copied().take(128).collect(), bytes: 0 });
                    continue;
                }
                if let Ok((text, _)) = fs::readlinkat_raw(&listing, name, &mut buffer) {
                    // Any directory counts, not only a configured one: another process may have another configuration.
                    let file = text.rsplit(|byte| *byte == b'/').next().unwrap_or(&[]);
                    if let Some(label) = Label::parse(file) {
                        linked.push(label.random);
                    }
                }
            }
            FileType::Directory if name != b"." && name != b".." => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let below = match fs::openat(&listing, name, flags, Mode::empty()) {
                    Ok(below) => below,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                    Err(_) => return None,
                };
                // Another user must not be able to end the collection by a closed directory, or by digging deep: no link of
                // ours gets there unless we move it there.
                let ours = fs::fstat(&below).is_ok_and(|stat| stat.st_uid == own.uid);
                let closed = fs::accessat(&below, c".", Access::READ_OK | Access::EXEC_OK, AtFlags::EACCESS).is_err();
                if !ours && (closed || depth >= 8) {
                    continue;
                }
                if depth >= 8 {
                    return None;
                }
                scan(below.as_fd(), linked, orphans, own, budget, depth + 1)?;
            }
            FileType::RegularFile if depth == 0 => {
                if let Some((pid, start)) = temporary(name) {
                    if !process::is_alive(pid, start) {
                        if let Some((bytes, true)) = own.file(listing.as_fd(), name) {
                            orphans.push(Orphan {
                                target: None,
                                name: name.iter().copied().take(128).collect(),
                                bytes,
                            });
                        }
                    }
                }
            }
            FileType::Unknown => return None,
            _ => {}
        }
    }
    Some(())
}

/// The maker of a temporary name in the guard.
fn temporary(name: &[u8]) -> Option<(i32, u64)> {
    let text = std::str::from_utf8(name.strip_prefix(b".shmguard-")?).ok()?;
    let (creator, _) = text.split_once('-')?;
    let (pid, start) = creator.split_once('.')?;
    Some((pid.parse().ok()?, u64::from_str_radix(start, 16).ok()?))
}

/// Does the directory lie on the file system of "/"?
fn is_own_root(directory: BorrowedFd<'_>) -> bool {
    match (fs::fstat(directory), fs::stat(c"/")) {
        (Ok(here), Ok(root)) => here.st_dev == root.st_dev,
        _ => false,
    }
}

/// Is "/" a container's own layer (overlayfs)?
fn root_is_layer() -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat(fs::CWD, c"/", flags, Mode::empty())
        .is_ok_and(|root| crate::room::fs_type(root.as_fd()) == Ok(crate::room::FsKind::Overlay))
}

/// Every tmpfs that is mounted where a visible process is; `None` when not everything could be read.
struct Mounts(Option<Vec<MountedTmpfs>>);

impl Mounts {
    fn read() -> Mounts {
        Mounts(mounted_tmpfs())
    }

    /// Is the tmpfs mounted somewhere? `None`: that cannot be known. Device numbers are used again, instances are not.
    fn hold(&self, dev: u64, instance: u64) -> Option<bool> {
        let same_number = self.0.as_ref()?.iter().filter(|mount| mount.dev == dev);
        let mut known = Some(false);
        for mount in same_number {
            match mount.is(instance) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => known = None,
            }
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_tell_their_maker() {
        assert_eq!(temporary(b".shmguard-12.ff-0123456789abcdef"), Some((12, 255)));
        assert_eq!(temporary(b".shmguard-12"), None);
        assert_eq!(temporary(b"shmguard-12.ff-0"), None);
    }
}
