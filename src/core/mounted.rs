//! Where which tmpfs is mounted: whether an instance lives on somewhere.

use rustix::fs;
use rustix::io::Errno;

use crate::process::{all, read_start, start_of};
use crate::text::Text;

/// How many processes that may not be looked at are asked for their mounts; where there are more, nothing is known.
const MOST_CLOSED: usize = 256;

/// A tmpfs that is mounted in the mount namespace of a visible process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedTmpfs {
    /// A process in that namespace, if possible one that may be looked at.
    pub pid: i32,
    /// The number of the mount: no two mounts of the running kernel have the same.
    pub mount: u32,
    /// Its device number.
    pub dev: u64,
    /// Where it is mounted there, as mountinfo writes it.
    pub place: Vec<u8>,
}

/// Every tmpfs in every mount namespace of a visible process; `None` if one namespace could not be read.
///
/// Which namespace a process is in, and what lies below its root, is shown only to those who may trace it (ptrace(2): not a
/// process that is not dumpable, as that of a container engine which enters a container for `docker exec`); its mountinfo is
/// shown to all (fs/proc_namespace.c, mounts_open_common). So those are asked after the others, and only what no other has
/// shown is taken from them.
pub fn mounted_tmpfs() -> Option<Vec<MountedTmpfs>> {
    let mut namespaces = Vec::new();
    let mut closed = Vec::new();
    let mut mounts = Vec::new();
    let mut text = vec![0u8; 256 << 10];
    for pid in all()? {
        let mut path = Text::<40>::new();
        path.add(format_args!("/proc/{pid}/ns/mnt"));
        match fs::stat(path.bytes()) {
            Ok(stat) if namespaces.contains(&stat.st_ino) => {}
            Ok(stat) => {
                if add_mounts(pid, &mut text, &mut mounts)? {
                    namespaces.push(stat.st_ino);
                }
            }
            Err(Errno::NOENT | Errno::SRCH) => {}
            Err(_) => closed.push(pid),
        }
    }
    if closed.len() > MOST_CLOSED {
        return None;
    }
    for pid in closed {
        add_mounts(pid, &mut text, &mut mounts)?;
    }
    Some(mounts)
}

/// Adds the tmpfs in the namespace of `pid` that are not there yet. False: the process is gone. `None`: they cannot be read.
fn add_mounts(pid: i32, text: &mut [u8], mounts: &mut Vec<MountedTmpfs>) -> Option<bool> {
    let mut path = Text::<40>::new();
    path.add(format_args!("/proc/{pid}/mountinfo"));
    let length = match read_start(path.bytes(), text) {
        Ok(length) if length < text.len() => length,
        // EINVAL: a process that has ended and not been waited for is in no namespace.
        Err(Errno::NOENT | Errno::SRCH | Errno::INVAL) => return Some(false),
        // What is gone is refused, too (fs/proc/base.c).
        Err(_) if start_of(pid).is_none() => return Some(false),
        _ => return None,
    };
    for line in text.get(..length)?.split(|byte| *byte == b'\n') {
        let Some((mount, dev, place)) = tmpfs_of(line) else { continue };
        if !mounts.iter().any(|known| known.mount == mount && known.dev == dev) {
            mounts.push(MountedTmpfs { pid, mount, dev, place: place.to_vec() });
        }
    }
    Some(true)
}

/// Number of the mount, device number and place of a line of proc_pid_mountinfo(5), when it is a tmpfs.
fn tmpfs_of(line: &[u8]) -> Option<(u32, u64, &[u8])> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mount = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (major, minor) = std::str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?;
    let place = fields.nth(1)?;
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let dev = fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    matches!(kind, b"tmpfs" | b"ramfs").then_some((mount, dev, place))
}

impl MountedTmpfs {
    /// Is it the instance with this f_fsid (0 = not known)? `None` when it cannot be looked at.
    pub fn is(&self, instance: u64) -> Option<bool> {
        if instance == 0 || self.place.contains(&b'\\') {
            return None;
        }
        let mut path = Text::<512>::new();
        path.add(format_args!("/proc/{}/root", self.pid));
        path.add_bytes(&self.place);
        if path.is_full() {
            return None;
        }
        match (fs::stat(path.bytes()), fs::statvfs(path.bytes())) {
            // Another file system is mounted over it: what lies below cannot be asked.
            (Ok(stat), _) if stat.st_dev != self.dev => None,
            (Ok(_), Ok(told)) if told.f_fsid != 0 => Some(told.f_fsid == instance),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tmpfs_is_found_in_mountinfo() {
        let line = b"36 35 0:45 / /dev/shm rw,nosuid shared:3 master:1 - tmpfs shm rw,size=65536k";
        assert_eq!(tmpfs_of(line), Some((36, fs::makedev(0, 45), &b"/dev/shm"[..])));
        assert_eq!(tmpfs_of(b"36 35 8:1 / / rw - ext4 /dev/root rw"), None);
        assert_eq!(tmpfs_of(b"36 35"), None);
    }

    #[test]
    fn instances_of_tmpfs_are_told_apart() {
        let shm = fs::stat(c"/dev/shm").expect("there").st_dev;
        let own = MountedTmpfs { pid: crate::raw::getpid(), mount: 0, dev: shm, place: b"/dev/shm".to_vec() };
        // Of more than so many processes of other users nothing is known.
        assert!(mounted_tmpfs().is_none_or(|mounts| mounts.iter().any(|mount| mount.dev == shm)));
        let instance = fs::statvfs(c"/dev/shm").expect("statvfs").f_fsid;
        // 0 before Linux 5.14: nothing is known then.
        assert_eq!(own.is(instance), (instance != 0).then_some(true));
        assert_eq!(own.is(instance ^ 1), (instance != 0).then_some(false));
        assert_eq!(own.is(0), None);
        let elsewhere = MountedTmpfs { dev: shm + 1, ..own };
        assert_eq!(elsewhere.is(instance), None, "another file system is mounted there");
    }

    #[test]
    fn what_one_process_has_shown_is_not_taken_from_another() {
        let mut text = vec![0u8; 256 << 10];
        let mut mounts = Vec::new();
        assert_eq!(add_mounts(crate::raw::getpid(), &mut text, &mut mounts), Some(true));
        let all = mounts.clone();
        assert!(!all.is_empty());
        assert_eq!(
            add_mounts(rustix::process::getppid().expect("a parent").as_raw_nonzero().get(), &mut text, &mut mounts),
            Some(true)
        );
        assert_eq!(mounts, all);
        assert_eq!(add_mounts(i32::MAX, &mut text, &mut mounts), Some(false), "nobody has this number");
    }
}
