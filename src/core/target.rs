//! The target directories: where a segment's file goes when it does not fit into the guard.
//!
//! A target's file name says whose it is, so that a directory may be shared by many guards, containers and users:
//! `shmguard-BOOT-DEV.INO.INSTANCE-PID.START.NAMESPACE-RANDOM`, all hexadecimal but PID: the kernel's boot id (two machines may share
//! a network directory), the guard's identity and the instance of tmpfs that it lies on, the creator with its start time and pid namespace, and 64 random bits.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use arrayvec::ArrayVec;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::room::{self, FsKind, Space};
use crate::segment::Identity;
use crate::text::Text;

/// First bytes of the name of every file of ours in a target.
pub const PREFIX: &[u8] = b"shmguard-";

/// Name of a file in a target directory.
pub type TargetName = ArrayVec<u8, 128>;

/// Who created a target's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creator {
    /// First 32 bits of the kernel's boot id.
    pub boot: u32,
    /// Process id in the creator's pid namespace.
    pub pid: i32,
    /// Start time of the process in clock ticks since boot (field 22 of /proc/PID/stat).
    pub start: u64,
    /// Inode number of its pid namespace.
    pub namespace: u64,
}

/// What the name of a target's file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The guarded directory whose segment it is.
    pub guard: Identity,
    /// The instance of tmpfs that it lies on; 0 = not known.
    pub instance: u64,
    /// The process that made it.
    pub creator: Creator,
    /// Makes the name unique and unguessable.
    pub random: u64,
}

impl Label {
    /// The file name.
    pub fn name(&self) -> TargetName {
        let mut text = Text::<128>::new();
        text.add(format_args!(
            "shmguard-{:08x}-{:x}.{:x}.{:x}-{}.{:x}.{:x}-{:016x}",
            self.creator.boot,
            self.guard.dev,
            self.guard.ino,
            self.instance,
            self.creator.pid,
            self.creator.start,
            self.creator.namespace,
            self.random
        ));
        text.bytes().iter().copied().collect()
    }

    /// Reads a file name; `None` if it is not one of ours.
    pub fn parse(name: &[u8]) -> Option<Label> {
        let text = std::str::from_utf8(name.strip_prefix(PREFIX)?).ok()?;
        let mut parts = text.split('-');
        let boot = hex(parts.next()?)?;
        let (dev, ino) = parts.next()?.split_once('.')?;
        let (ino, instance) = ino.split_once('.')?;
        let (pid, start) = parts.next()?.split_once('.')?;
        let (start, namespace) = start.split_once('.')?;
        let random = parts.next()?;
        if parts.next().is_some() || random.len() != 16 {
            return None;
        }
        Some(Label {
            guard: Identity { dev: hex(dev)?, ino: hex(ino)? },
            instance: hex(instance)?,
            creator: Creator {
                boot: u32::try_from(boot).ok()?,
                pid: pid.parse().ok().filter(|pid| *pid > 0)?,
                start: hex(start)?,
                namespace: hex(namespace)?,
            },
            random: hex(random)?,
        })
    }
}

fn hex(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit));
    if plain {
        u64::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// How a target keeps bytes; decides what may go there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A tmpfs: memory, counts against the memory limits, can be pinned for devices.
    Ram,
    /// A disk's file system.
    Disk,
    /// A container's own writable layer (overlayfs): a disk that counts against ephemeral-storage limits.
    Layer,
    /// Anything else: used like a disk when it can reserve.
    Other,
}

impl Medium {
    /// The words used in messages.
    pub fn words(self) -> &'static str {
        match self {
            Medium::Ram => "memory (tmpfs)",
            Medium::Disk => "a disk",
            Medium::Layer => "the container's own layer on disk, which counts against ephemeral-storage limits",
            Medium::Other => "a file system",
        }
    }

    /// One or two words for people, where there is no room for [`Medium::words`].
    pub fn noun(self) -> &'static str {
        match self {
            Medium::Ram => "memory",
            Medium::Disk => "disk",
            Medium::Layer => "container layer",
            Medium::Other => "file system",
        }
    }

    /// One word for the log and for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Medium::Ram => "ram",
            Medium::Disk => "disk",
            Medium::Layer => "layer",
            Medium::Other => "other",
        }
    }
}

/// A target directory that is open for the length of one operation.
pub struct Directory {
    fd: OwnedFd,
    /// Its path as configured, without a slash at the end.
    pub path: CString,
    /// What it is made of.
    pub medium: Medium,
    /// Room in it now.
    pub space: Space,
}

/// Why a target cannot be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It cannot be opened as a directory.
    Cannot(Errno),
    /// It is mounted read-only.
    ReadOnly,
    /// It is not writable for this user.
    NotWritable,
    /// It is the guarded directory itself, by another path.
    IsGuard,
}

impl Directory {
    /// Opens and judges the directory.
    ///
    /// # Errors
    /// [`Unusable`], to be told to the user once.
    pub fn open(path: &CStr, guard: Identity) -> Result<Directory, Unusable> {
        if path.to_bytes().len() > crate::link::LONGEST_DIRECTORY {
            return Err(Unusable::Cannot(Errno::NAMETOOLONG));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::openat(fs::CWD, path, flags, Mode::empty()).map_err(Unusable::Cannot)?;
        let stat = fs::fstat(&fd).map_err(Unusable::Cannot)?;
        // The guard's file system under another path would fill the very tmpfs that is to be relieved.
        if stat.st_dev as u64 == guard.dev {
            return Err(Unusable::IsGuard);
        }
        let look = room::look(fd.as_fd()).map_err(Unusable::Cannot)?;
        let space = look.space;
        let writable = fs::accessat(&fd, c".", fs::Access::WRITE_OK | fs::Access::EXEC_OK, AtFlags::EACCESS)
            .or_else(|_| fs::accessat(&fd, c".", fs::Access::WRITE_OK | fs::Access::EXEC_OK, AtFlags::empty()));
        if space.readonly || writable == Err(Errno::ROFS) {
            return Err(Unusable::ReadOnly);
        }
        if writable.is_err() {
            return Err(Unusable::NotWritable);
        }
        let medium = match look.kind {
            FsKind::Ram => Medium::Ram,
            FsKind::Overlay => Medium::Layer,
            FsKind::Disk => Medium::Disk,
            FsKind::Network | FsKind::Other => Medium::Other,
        };
        Ok(Directory { fd, path: path.to_owned(), medium, space })
    }

    /// The directory's descriptor (O_PATH).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes that a new segment may take here: for a tmpfs what is free less its margin; a disk is never filled beyond 90 %.
    pub fn room(&self) -> u64 {
        match self.medium {
            Medium::Ram => match self.space.capacity {
                None => u64::MAX,
                Some(capacity) => self.space.free.saturating_sub(crate::config::margin(capacity)),
            },
            _ => {
                let whole = self.space.used.saturating_add(self.space.free);
                (whole - whole / 10).saturating_sub(self.space.used).min(self.space.free)
            }
        }
    }

    /// Makes an empty file, readable and writable here, with the mode given less the umask.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(&self, name: &[u8], mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::openat(&self.fd, name, flags, mode)
    }

    /// Removes a file of ours.
    pub fn remove(&self, name: &[u8]) {
        let _ = fs::unlinkat(&self.fd, name, AtFlags::empty());
    }

    /// The absolute path of a file in here: what the link in the guard says.
    pub fn path_of(&self, name: &[u8]) -> Option<CString> {
        let mut path = self.path.as_bytes().to_vec();
        path.push(b'/');
        path.extend_from_slice(name);
        CString::new(path).ok()
    }

    /// Reserves `from..to` of a file in here.
    ///
    /// # Errors
    /// As [`crate::reserve`] says; nothing is left taken.
    pub fn reserve(&self, file: BorrowedFd<'_>, from: u64, to: u64) -> Result<(), crate::reserve::Shortage> {
        match self.medium {
            Medium::Ram => {
                let margin = self.space.capacity.map_or(0, crate::config::margin);
                crate::reserve::reserve_in_ram(file, from, to, margin)
            }
            _ => crate::reserve::reserve_on_disk(file, from, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_survives_its_name() {
        let label = Label {
            guard: Identity { dev: 0x2f, ino: u64::MAX },
            instance: u64::MAX,
            creator: Creator { boot: 0xdeadbeef, pid: 4194304, start: u64::MAX >> 16, namespace: u64::from(u32::MAX) },
            random: u64::MAX,
        };
        assert_eq!(Label::parse(&label.name()), Some(label));
        assert!(label.name().len() <= 121);
    }

    #[test]
    fn other_names_are_not_ours() {
        for name in [
            &b""[..],
            b"shmguard-",
            b"shmguard-x",
            b"shmguard-1-2.3.9-4.5.6-7",
            b"shmguard-1-2.3.9-0.5.6-0123456789abcdef",
            b"shmguard-1-2.3.9-4.5-0123456789abcdef",
            b"shmguard-1-2.3.9-4.5.6-0123456789abcdef-7",
            b"shmguard-+1-2.3.9-4.5.6-0123456789abcdef",
            b"Shmguard-1-2.3.9-4.5.6-0123456789abcdef",
            b"shmguard-1-2.3.9-4.5.6-0123456789ABCDEF",
        ] {
            assert_eq!(Label::parse(name), None, "{}", String::from_utf8_lossy(name));
        }
    }
}
