//! The guarded directory: which path names something directly in it, and what it is now.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::room::{self, FsKind, Space};
use crate::segment::Identity;

/// A guarded directory that is open for the length of one operation.
pub struct Guard {
    fd: OwnedFd,
    /// Which mount it is. `dev` is the st_dev of every segment in it; `ino` is its inode number mixed with its time of birth
    /// (tmpfs since Linux 5.18), because a container that starts again gets the same numbers for another tmpfs.
    pub identity: Identity,
    /// Room in it now.
    pub space: Space,
    /// Is it a tmpfs (or ramfs)? Nothing is moved out of anything else.
    pub is_ram: bool,
    /// Is it mounted nosymfollow (Linux 5.10)? A link in it leads nowhere then.
    pub nosymfollow: bool,
}

fn identity_of(directory: &OwnedFd) -> Option<Identity> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    match fs::statx(directory, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(all) => {
            let mut identity = Identity { dev: fs::makedev(all.stx_dev_major, all.stx_dev_minor), ino: all.stx_ino };
            if all.stx_mask & StatxFlags::BTIME.bits() != 0 {
                identity.ino ^= (all.stx_btime.tv_sec as u64).rotate_left(30) ^ u64::from(all.stx_btime.tv_nsec);
            }
            Some(identity)
        }
        // No statx before Linux 4.11 and in some sandboxes.
        Err(_) => fs::fstat(directory).ok().map(|stat| Identity::of(&stat)),
    }
}

impl Guard {
    /// Opens the directory and looks at its room; `None` when it is not there. Asked anew each time: programs mount over it.
    pub fn open(path: &CStr) -> Option<Guard> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::openat(fs::CWD, path, flags, Mode::empty()).ok()?;
        let identity = identity_of(&fd)?;
        let look = room::look(fd.as_fd()).ok()?;
        Some(Guard { fd, identity, space: look.space, is_ram: look.kind == FsKind::Ram, nosymfollow: look.nosymfollow })
    }

    /// The directory's descriptor (O_PATH).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Which instance of tmpfs the directory lies on (f_fsid, random since Linux 5.14); 0 = not known. Two directories of one
    /// tmpfs have the same (flatpak mounts one of them as /dev/shm), a container's next life has another.
    pub fn instance(&self) -> u64 {
        fs::fstatvfs(&self.fd).map_or(0, |told| told.f_fsid)
    }

    /// Looks at the room again.
    pub fn look_again(&mut self) {
        if let Ok(space) = room::space(self.fd.as_fd()) {
            self.space = space;
        }
    }
}

/// Why nothing can be guarded at `path`; `None`: it can, or it cannot be looked at now (no descriptor is left).
pub fn fault(path: &CStr) -> Option<&'static str> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match fs::openat(fs::CWD, path, flags, Mode::empty()) {
        Ok(fd) => {
            let look = room::look(fd.as_fd()).ok()?;
            (look.kind != FsKind::Ram).then_some("it is not on a tmpfs")
        }
        Err(Errno::NOENT) => Some("it does not exist"),
        Err(Errno::NOTDIR) => Some("it is not a directory"),
        Err(Errno::ACCESS) => Some("this user cannot enter it"),
        Err(_) => None,
    }
}

/// What follows `guard` in `path`, when `path` is absolute and begins, component by component, with `guard`.
///
/// Lexical: repeated slashes and `.` are passed over, a `..` is never ours. `Some(b"")` is the guard itself.
#[inline]
pub fn below<'p>(guard: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    if path.first() != Some(&b'/') {
        return None;
    }
    let (mut wanted, mut rest) = (guard, path);
    loop {
        rest = skip(rest);
        wanted = skip(wanted);
        if wanted.is_empty() {
            return Some(rest);
        }
        let (component, after) = split(rest);
        let (expected, later) = split(wanted);
        if component != expected {
            return None;
        }
        rest = after;
        wanted = later;
    }
}

/// The name of a direct child of `guard`, when `path` is one.
#[inline]
pub fn child<'p>(guard: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = below(guard, path)?;
    let plain = !rest.is_empty() && rest.len() <= 255 && rest != b".." && !rest.contains(&b'/');
    plain.then_some(rest)
}

/// As [`child`], for a path with `..` in it, taken lexically. Where a component is a link the kernel may see it otherwise, so
/// this is a hint that must be checked afterwards.
pub fn child_by_any_spelling(guard: &[u8], path: &[u8]) -> Option<crate::segment::Name> {
    if let Some(name) = child(guard, path) {
        return Some(name.iter().copied().collect());
    }
    if path.first() != Some(&b'/') || !path.windows(2).any(|two| two == b"..") {
        return None;
    }
    let mut components: Vec<&[u8]> = Vec::new();
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => drop(components.pop()),
            other => components.push(other),
        }
    }
    let plain: Vec<u8> = components.iter().flat_map(|component| [b"/".as_slice(), component].concat()).collect();
    child(guard, &plain).map(|name| name.iter().copied().collect())
}

fn skip(mut path: &[u8]) -> &[u8] {
    loop {
        path = match path {
            [b'/', rest @ ..] => rest,
            [b'.'] => &[],
            [b'.', b'/', rest @ ..] => rest,
            _ => return path,
        };
    }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    path.split_at_checked(end).unwrap_or((path, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_however_they_are_spelt() {
        for path in [&b"/dev/shm/x"[..], b"//dev//shm///x", b"/dev/./shm/x", b"/dev/shm/./x"] {
            assert_eq!(child(b"/dev/shm", path), Some(&b"x"[..]), "{}", String::from_utf8_lossy(path));
        }
        assert_eq!(child(b"/dev/shm", b"/dev/shm/.x"), Some(&b".x"[..]));
        assert_eq!(child(b"/dev/shm", b"/dev/shm/..x"), Some(&b"..x"[..]));
    }

    #[test]
    fn others_are_left_alone() {
        for path in [
            &b""[..],
            b"x",
            b"dev/shm/x",
            b"/dev/shm",
            b"/dev/shm/",
            b"/dev/shm/.",
            b"/dev/shm/..",
            b"/dev/shmx/y",
            b"/dev/sh/x",
            b"/dev/shm/a/b",
            b"/dev/shm/../null",
            b"/dev/x/../shm/y",
            b"/tmp/dev/shm/x",
            b"/dev/shm/a/",
        ] {
            assert_eq!(child(b"/dev/shm", path), None, "{}", String::from_utf8_lossy(path));
        }
        assert_eq!(child(b"/dev/shm", &[b"/dev/shm/".as_slice(), &[b'n'; 256]].concat()), None);
    }

    #[test]
    fn parents_are_taken_lexically_where_a_hint_will_do() {
        for (path, name) in [
            (&b"/dev/../dev/shm/./x"[..], Some(&b"x"[..])),
            (b"/a/b/../../dev/shm/x", Some(b"x")),
            (b"/../dev/shm//x", Some(b"x")),
            (b"/dev/shm/x/..", None),
            (b"/dev/shm/../x", None),
            (b"dev/../dev/shm/x", None),
        ] {
            assert_eq!(child_by_any_spelling(b"/dev/shm", path).as_deref(), name);
        }
    }

    #[test]
    fn the_guard_itself_is_below_with_nothing_left() {
        assert_eq!(below(b"/dev/shm", b"/dev/shm"), Some(&b""[..]));
        assert_eq!(below(b"/dev/shm", b"/dev/shm/"), Some(&b""[..]));
    }
}
