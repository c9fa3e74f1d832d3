//! Following a link of ours from the guard to its target, checked.
//!
//! /dev/shm is writable by everybody, so a link proves nothing. One is followed only if its text is a configured target
//! directory and a file name of our form, link and file have the same owner (without the library the caller would have
//! opened that owner's file of this name just so), and the file is a regular one with one name, opened without following
//! and checked again once it is open.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{self, Errno};

use crate::config::TargetSpec;
use crate::segment::Identity;
use crate::target::{Label, TargetName};
use crate::text::Text;

/// A link's text has at most so many bytes: the longest directory, a slash, and a name of a target (at most 128).
pub(crate) const LONGEST: usize = LONGEST_DIRECTORY + 1 + 128;

/// Directories with longer paths are no targets, in bytes.
pub const LONGEST_DIRECTORY: usize = 480;

/// A link of ours in a guard.
#[derive(Clone)]
pub struct Link {
    /// Index of the target directory in the configuration.
    pub target: usize,
    /// Name of the file in it.
    pub name: TargetName,
    /// Owner of the link.
    uid: u32,
    /// Names that the link itself has (hard links made by link(2)).
    pub names: u64,
}

/// Reads `name` below the guard; `None` if it is not a link of our form into one of `targets`.
pub fn read(guard: BorrowedFd<'_>, name: &[u8], targets: &[TargetSpec]) -> Option<Link> {
    let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); LONGEST];
    let (text, _) = fs::readlinkat_raw(guard, name, &mut buffer).ok()?;
    let (target, file) = split(text, targets)?;
    let stat = fs::statat(guard, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return None;
    }
    Some(Link { target, name: file, uid: stat.st_uid, names: stat.st_nlink as u64 })
}

/// Splits a link's text into the number of a configured target and a file name of our form.
pub fn split(text: &[u8], targets: &[TargetSpec]) -> Option<(usize, TargetName)> {
    targets.iter().enumerate().find_map(|(index, target)| {
        let file = text.strip_prefix(target.path.as_bytes())?.strip_prefix(b"/")?;
        Label::parse(file)?;
        Some((index, file.iter().copied().collect()))
    })
}

impl Link {
    /// Opens the target as `flags` ask (O_CREAT, O_EXCL and O_NOFOLLOW are not passed on: the file must exist).
    ///
    /// # Errors
    /// The kernel's for the open; ELOOP where the checks refuse the link (what shm_open says of any other link).
    pub fn open(&self, targets: &[TargetSpec], flags: OFlags) -> Result<OwnedFd, Errno> {
        let spec = targets.get(self.target).ok_or(Errno::LOOP)?;
        let directory = directory(spec)?;
        let before = fs::statat(&directory, self.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
        self.check(&before)?;
        let dropped = OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC;
        let safe = flags.difference(dropped) | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::openat(&directory, self.name.as_slice(), safe, Mode::empty())?;
        let stat = fs::fstat(&file)?;
        if stat.st_nlink == 0 {
            // Removed between the two looks.
            return Err(Errno::NOENT);
        }
        self.check(&stat)?;
        if Identity::of(&stat) != Identity::of(&before) {
            return Err(Errno::LOOP);
        }
        if !flags.contains(OFlags::NONBLOCK) {
            fs::fcntl_setfl(&file, fs::fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
        }
        if flags.contains(OFlags::TRUNC) {
            empty(&file, flags)?;
        }
        if !flags.contains(OFlags::CLOEXEC) {
            io::fcntl_setfd(&file, io::FdFlags::empty())?;
        }
        Ok(file)
    }

    /// Would the kernel refuse an open with O_CREAT if the segment were a regular file in the guard? It does for another
    /// user's file in a sticky directory that others can write (fs.protected_regular, proc_sys_fs(5)); also for root.
    pub fn is_protected(&self, guard: BorrowedFd<'_>) -> bool {
        let Ok(directory) = fs::fstat(guard) else { return true };
        if self.uid == rustix::process::geteuid().as_raw() || self.uid == directory.st_uid {
            return false;
        }
        let mut level = [0u8; 1];
        let read = crate::process::read_start(b"/proc/sys/fs/protected_regular", &mut level);
        // What cannot be read is taken to be as distributions have it.
        let others = match (read, level) {
            (Ok(1), [b'0']) => 0,
            (Ok(1), [b'1']) => 0o002,
            _ => 0o022,
        };
        directory.st_mode & 0o1000 != 0 && directory.st_mode & others != 0
    }

    /// Is its target there, with the same owner?
    pub fn has_its_file(&self, targets: &[TargetSpec]) -> bool {
        self.file(targets).is_some_and(|(_, stat)| self.check(&stat).is_ok())
    }

    /// Has it the same owner as another link, or as it had itself before?
    pub fn has_owner_of(&self, other: &Link) -> bool {
        self.uid == other.uid
    }

    /// Gives the link `name` to the owner of its file. Where that is not allowed nothing happens.
    pub fn even_out(&self, guard: BorrowedFd<'_>, name: &[u8], targets: &[TargetSpec]) {
        let Some((_, stat)) = self.file(targets) else { return };
        if stat.st_uid != self.uid {
            let owner = Some(fs::Uid::from_raw(stat.st_uid));
            let _ = fs::chownat(guard, name, owner, None, AtFlags::SYMLINK_NOFOLLOW);
        }
    }

    /// Gives its file to the owner of the link. Where that is not allowed nothing happens.
    pub fn give_file(&self, targets: &[TargetSpec]) {
        let Some((directory, _)) = self.file(targets) else { return };
        let owner = Some(fs::Uid::from_raw(self.uid));
        let _ = fs::chownat(&directory, self.name.as_slice(), owner, None, AtFlags::SYMLINK_NOFOLLOW);
    }

    /// The directory and the state of its target: a regular file with one name.
    fn file(&self, targets: &[TargetSpec]) -> Option<(OwnedFd, Stat)> {
        let directory = directory(targets.get(self.target)?).ok()?;
        let stat = fs::statat(&directory, self.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        (regular && stat.st_nlink == 1).then_some((directory, stat))
    }

    fn check(&self, stat: &Stat) -> Result<(), Errno> {
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if regular && stat.st_uid == self.uid && stat.st_nlink == 1 {
            Ok(())
        } else {
            Err(Errno::LOOP)
        }
    }

    /// Removes the target's file after the last name of its link has gone. Only a file that the checks accept.
    pub fn remove_target(&self, targets: &[TargetSpec]) {
        let Some(spec) = targets.get(self.target) else { return };
        let Ok(directory) = directory(spec) else { return };
        if let Ok(stat) = fs::statat(&directory, self.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            if self.check(&stat).is_ok() {
                let _ = fs::unlinkat(directory.as_fd(), self.name.as_slice(), AtFlags::empty());
            }
        }
    }
}

/// What O_TRUNC does, once it is certain which file was opened. open(2) allows it with O_RDONLY too, where the caller may write.
fn empty(file: &OwnedFd, flags: OFlags) -> Result<(), Errno> {
    if !flags.intersection(OFlags::RWMODE).is_empty() {
        return fs::ftruncate(file, 0);
    }
    let mut path = Text::<40>::new();
    path.add(format_args!("/proc/self/fd/{}\0", file.as_raw_fd()));
    let path = CStr::from_bytes_with_nul(path.bytes()).map_err(|_| Errno::INVAL)?;
    let writable = fs::openat(fs::CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    fs::ftruncate(&writable, 0)
}

fn directory(spec: &TargetSpec) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat(fs::CWD, spec.path.as_c_str(), flags, Mode::empty())
}
