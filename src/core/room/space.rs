//! What a file system has left, and of which sort it is.

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// What `statvfs` tells of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size in bytes. `None`: unlimited, which is what 0 blocks mean (tmpfs `size=0`).
    pub capacity: Option<u64>,
    /// Bytes that this user may still take (`f_bavail`, on a disk far below `f_bfree`);
    /// `u64::MAX` when unlimited.
    pub free: u64,
    /// Bytes in use; 0 for an unlimited tmpfs, whose use the kernel does not tell here.
    pub used: u64,
    /// Inodes altogether. `None`: unlimited (tmpfs `nr_inodes=0`, btrfs).
    pub inodes: Option<u64>,
    /// Inodes left; `u64::MAX` when unlimited.
    pub inodes_free: u64,
    /// The file system or this mount of it takes no writes.
    pub readonly: bool,
    /// This mount allows no executable mappings.
    pub noexec: bool,
}

/// All that one `fstatfs` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// What is left.
    pub space: Space,
    /// Which sort of file system it is.
    pub kind: FsKind,
    /// The mount follows no links (Linux 5.10).
    pub nosymfollow: bool,
}

/// Flags of statfs(2), include/linux/statfs.h.
const READONLY: u64 = 0x1;
const NOEXEC: u64 = 0x8;
const NOSYMFOLLOW: u64 = 0x2000;

/// Asks for the file system that holds `fd`, which may be an O_PATH descriptor: one system call.
///
/// # Errors
/// What `fstatfs` says: EIO, ENOSYS, or EOVERFLOW; ENOENT or ESTALE on a vanished network mount.
pub fn look(fd: BorrowedFd<'_>) -> Result<Look, Errno> {
    let told = rustix::fs::fstatfs(fd)?;
    // f_frsize is 0 on kernels before 2.6.36 and in some FUSE file systems: then f_bsize is meant.
    let unit = if told.f_frsize == 0 { told.f_bsize as u64 } else { told.f_frsize as u64 };
    let bytes = |blocks: u64| blocks.saturating_mul(unit);
    let limited = told.f_blocks != 0;
    let flags = told.f_flags as u64;
    let space = Space {
        capacity: limited.then(|| bytes(told.f_blocks)),
        free: if limited { bytes(told.f_bavail) } else { u64::MAX },
        used: bytes(told.f_blocks.saturating_sub(told.f_bfree)),
        inodes: (told.f_files != 0).then_some(told.f_files),
        inodes_free: if told.f_files != 0 { told.f_ffree } else { u64::MAX },
        readonly: flags & READONLY != 0,
        noexec: flags & NOEXEC != 0,
    };
    // The kernel's field is as wide as a long and may come with its sign extended.
    Ok(Look { space, kind: sort_of(told.f_type as u32), nosymfollow: flags & NOSYMFOLLOW != 0 })
}

/// Asks for the space of the file system that holds `fd`.
///
/// # Errors
/// As [`look`].
pub fn space(fd: BorrowedFd<'_>) -> Result<Space, Errno> {
    look(fd).map(|look| look.space)
}

/// Sorts of file systems, as far as they matter to a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsKind {
    /// Pages of memory: tmpfs and ramfs. Not hugetlbfs, whose pages come from a pool of their own
    /// and whose files cannot be sized at will.
    Ram,
    /// A file system on a local block device.
    Disk,
    /// A container's own layer (overlayfs, aufs): a disk whose use counts against the container.
    Overlay,
    /// Files of another machine: slow, and shared mappings are not coherent between machines.
    Network,
    /// Unknown, or no place for files: also FUSE, which may be anything.
    Other,
}

/// Numbers from the kernel's `include/uapi/linux/magic.h`, and for the file systems that are not
/// listed there from their own headers (XFS, JFS, NTFS, ZFS, NFS, CIFS, GPFS, BeeGFS, Lustre).
const MAGICS: &[(u32, FsKind)] = &[
    (0x0102_1994, FsKind::Ram),     // tmpfs
    (0x8584_58f6, FsKind::Ram),     // ramfs
    (0x794c_7630, FsKind::Overlay), // overlayfs
    (0x6175_6673, FsKind::Overlay), // aufs
    (0x0000_ef53, FsKind::Disk),    // ext2, ext3, ext4
    (0x5846_5342, FsKind::Disk),    // XFS
    (0x9123_683e, FsKind::Disk),    // btrfs
    (0xf2f5_2010, FsKind::Disk),    // F2FS
    (0x2fc1_2fc1, FsKind::Disk),    // ZFS
    (0xca45_1a4e, FsKind::Disk),    // bcachefs
    (0x3153_464a, FsKind::Disk),    // JFS
    (0x5265_4973, FsKind::Disk),    // ReiserFS
    (0x0000_3434, FsKind::Disk),    // NILFS2
    (0x5346_544e, FsKind::Disk),    // NTFS
    (0x7366_746e, FsKind::Disk),    // NTFS3
    (0x2011_bab0, FsKind::Disk),    // exFAT
    (0x0000_4d44, FsKind::Disk),    // FAT
    (0x0000_6969, FsKind::Network), // NFS
    (0x0000_517b, FsKind::Network), // SMB
    (0xff53_4d42, FsKind::Network), // CIFS
    (0xfe53_4d42, FsKind::Network), // SMB2
    (0x00c3_6400, FsKind::Network), // Ceph
    (0x0102_1997, FsKind::Network), // 9p; gVisor's and WSL's files too
    (0x0bd0_0bd0, FsKind::Network), // Lustre
    (0x4750_4653, FsKind::Network), // GPFS
    (0x1983_0326, FsKind::Network), // BeeGFS
    (0x5346_414f, FsKind::Network), // AFS
    (0x6b41_4653, FsKind::Network), // kAFS
    (0x7461_636f, FsKind::Network), // OCFS2
    (0x0116_1970, FsKind::Network), // GFS2
    (0x786f_4256, FsKind::Network), // VirtualBox shared folders
];

/// Asks which sort of file system holds `fd`, which may be an O_PATH descriptor.
///
/// # Errors
/// As [`look`].
pub fn fs_type(fd: BorrowedFd<'_>) -> Result<FsKind, Errno> {
    look(fd).map(|look| look.kind)
}

fn sort_of(magic: u32) -> FsKind {
    MAGICS.iter().find(|&&(known, _)| known == magic).map_or(FsKind::Other, |&(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{open, Mode, OFlags};

    fn look(path: &str) -> rustix::fd::OwnedFd {
        open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect(path)
    }

    #[test]
    fn agrees_with_df() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().to_str().expect("UTF-8");
        let told = space(look(path).as_fd()).expect("statvfs");
        let df = std::process::Command::new("df")
            .args(["--block-size=1", "--output=size", path])
            .output()
            .expect("df of coreutils");
        let size = String::from_utf8_lossy(&df.stdout).lines().nth(1).map(|line| line.trim().parse::<u64>());
        assert_eq!(told.capacity, size.expect("a second line").ok());
        assert!(!told.readonly && told.free > 0 && told.free <= told.capacity.unwrap_or(u64::MAX));
        assert!(told.inodes.is_none() || told.inodes_free > 0);
    }

    #[test]
    fn knows_memory_from_no_place_for_files() {
        assert_eq!(fs_type(look("/dev/shm").as_fd()), Ok(FsKind::Ram));
        assert_eq!(fs_type(look("/proc").as_fd()), Ok(FsKind::Other));
    }

    #[test]
    fn every_magic_is_listed_once() {
        for (index, &(magic, _)) in MAGICS.iter().enumerate() {
            assert!(MAGICS.iter().skip(index + 1).all(|&(other, _)| other != magic), "{magic:#x}");
        }
        assert_eq!(sort_of(0xff53_4d42), FsKind::Network);
        assert_eq!(sort_of(0x9584_58f6), FsKind::Other);
        assert_eq!(sort_of(0x6573_5546), FsKind::Other);
    }
}
