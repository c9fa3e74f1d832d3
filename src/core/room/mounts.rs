//! Where this process's memory cgroup can be seen: /proc/self/cgroup laid over /proc/self/mountinfo.
//!
//! The path in the first is relative to the root of the cgroup name space, a mount shows the tree
//! from its own root on (the fourth field of mountinfo), and both may begin with `..` when they
//! lie outside of the name space. Without a name space of its own a container sees `/docker/ID` as
//! path and as root; with one `/` and `/`; where the host's mount is bound into it, `/` and `/../..`.

use super::text::lines;

/// The two interfaces of the memory controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// The controller's own hierarchy.
    One,
    /// The unified hierarchy.
    Two,
}

/// A visible directory of the memory controller that holds this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) version: Version,
    /// Where the tree is mounted, without slashes at either end (so relative to the root).
    pub(super) mount: Vec<u8>,
    /// From there to the process's own cgroup; empty when that is the root of the mount.
    pub(super) below: Vec<Vec<u8>>,
}

/// Everything that `cgroup` (/proc/self/cgroup) and `mountinfo` (/proc/self/mountinfo) together
/// show, in the order of the mounts. Both interfaces where both are there ("hybrid": the memory
/// controller then belongs to one of them, and the other one's directory has no memory files).
pub(super) fn places(cgroup: &[u8], mountinfo: &[u8]) -> Vec<Place> {
    let one = own_path(cgroup, Version::One);
    let two = own_path(cgroup, Version::Two);
    let mut places = Vec::new();
    for (index, line) in lines(mountinfo).enumerate() {
        let Some(found) = mount(line) else { continue };
        // A later mount on the same point covers this one: the files there are another tree's.
        let mut later = lines(mountinfo).skip(index.saturating_add(1));
        if later.any(|other| point(other) == point(line)) {
            continue;
        }
        let own = match found.version {
            Version::One => one,
            Version::Two => two,
        };
        if let Some(below) = own.and_then(|own| below(&found.root, own)) {
            places.push(Place { version: found.version, mount: found.point, below });
        }
    }
    places
}

/// The process's path in a hierarchy, from the lines `ID:CONTROLLERS:PATH`.
fn own_path(cgroup: &[u8], version: Version) -> Option<&[u8]> {
    lines(cgroup).find_map(|line| {
        let mut parts = line.splitn(3, |&byte| byte == b':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let meant = match version {
            Version::One => has(controllers, b"memory"),
            Version::Two => id == b"0" && controllers.is_empty(),
        };
        // A cgroup that was removed with the process still in it; those above it still count.
        meant.then(|| path.strip_suffix(b" (deleted)").unwrap_or(path))
    })
}

/// A mount of a hierarchy with the memory controller.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// What it shows of the hierarchy.
    root: Vec<u8>,
    /// The mount point, without slashes in front.
    point: Vec<u8>,
}

/// Reads a line of mountinfo, whose fields are described in proc_pid_mountinfo(5); `None` for
/// every other sort of mount.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let root = fields.nth(3)?;
    let point = fields.next()?;
    // Any number of optional fields follows the options, closed by a hyphen.
    fields.by_ref().find(|&field| field == b"-")?;
    let fs_type = fields.next()?;
    let _source = fields.next()?;
    let version = match (fs_type, fields.next()) {
        (b"cgroup2", _) => Version::Two,
        (b"cgroup", Some(options)) if has(options, b"memory") => Version::One,
        _ => return None,
    };
    let point = unescape(point);
    let start = point.iter().position(|&byte| byte != b'/').unwrap_or(point.len());
    Some(Mount { version, root: unescape(root), point: point.get(start..)?.to_vec() })
}

/// The mount point of a line as it stands there.
fn point(line: &[u8]) -> Option<&[u8]> {
    line.split(|&byte| byte == b' ').nth(4)
}

/// Whether a list with commas contains a word.
fn has(list: &[u8], word: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|item| item == word)
}

/// Takes away mountinfo's escapes: `\040` for a blank, and so on, always three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'\\').then(|| octal(after.get(..3)?)).flatten();
        plain.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0u8, |sum, &byte| {
        let digit = matches!(byte, b'0'..=b'7').then(|| byte.wrapping_sub(b'0'))?;
        sum.checked_mul(8)?.checked_add(digit)
    })
}

/// The way from a mount's root down to the process's own path; `None`: the mount does not show
/// it. A root above the name space (`/../..`) is an ancestor of all inside, but what lies between
/// has no names here: then only the root itself, the empty way, can be looked at.
fn below(root: &[u8], own: &[u8]) -> Option<Vec<Vec<u8>>> {
    let names = |path| -> Vec<&[u8]> { components(path).collect() };
    let (root, own) = (names(root), names(own));
    if let Some(rest) = own.strip_prefix(root.as_slice()) {
        // `..` left over: a root inside the name space, a process outside of it.
        let visible = rest.iter().all(|&name| name != b"..");
        return visible.then(|| rest.iter().map(|name| name.to_vec()).collect());
    }
    let ups = own.iter().take_while(|&&name| name == b"..").count();
    let above = root.iter().all(|&name| name == b"..") && root.len() > ups;
    above.then(Vec::new)
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn way(root: &str, own: &str) -> Option<String> {
        let below = below(root.as_bytes(), own.as_bytes())?;
        Some(below.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>().join("/"))
    }

    #[test]
    fn the_way_from_a_mount_to_the_process() {
        for (root, own, expected) in [
            ("/", "/", Some("")),
            ("/", "/user.slice/user-0.slice", Some("user.slice/user-0.slice")),
            ("/docker/4a5b", "/docker/4a5b", Some("")),
            ("/docker/4a5b", "/docker/4a5b/worker", Some("worker")),
            ("/docker/4a5b", "/docker/4a5bc", None),
            ("/docker/4a5b", "/", None),
            ("/../..", "/", Some("")),
            ("/..", "/worker", Some("")),
            ("/..", "/../sibling", Some("sibling")),
            ("/../..", "/../sibling", Some("")),
            ("/../x", "/", None),
            ("/", "/../sibling", None),
            ("/", "/..", None),
            ("/..", "/../..", None),
        ] {
            assert_eq!(way(root, own).as_deref(), expected, "{root} {own}");
        }
    }

    #[test]
    fn mounts_with_optional_fields_and_escapes() {
        let line =
            br"36 31 0:33 /docker/a\040b /sys/fs/cgroup/my\040memory ro master:12 shared:3 - cgroup cgroup rw,memory";
        let expected =
            Mount { version: Version::One, root: b"/docker/a b".to_vec(), point: b"sys/fs/cgroup/my memory".to_vec() };
        assert_eq!(mount(line), Some(expected));
        let unified = mount(b"41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
        assert_eq!(unified.map(|found| found.version), Some(Version::Two));
        for line in [
            b"36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu".as_slice(),
            b"36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,memory_x",
            b"36 31 0:33 / /sys/fs/cgroup rw cgroup2 cgroup2 rw",
            b"36 31 0:33 / /sys rw - sysfs sysfs rw",
            b"36 31",
            b"",
        ] {
            assert_eq!(mount(line), None);
        }
    }

    #[test]
    fn escapes_are_three_octal_digits() {
        for (field, expected) in [
            (r"a\040b", "a b"),
            (r"\134", "\\"),
            (r"\04", r"\04"),
            (r"\777", r"\777"),
            (r"\", r"\"),
            (r"\0a0", r"\0a0"),
        ] {
            assert_eq!(unescape(field.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn a_removed_cgroup_still_has_a_place() {
        let found = places(b"0::/job/step (deleted)\n", b"41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        assert_eq!(found.first().map(|place| place.below.clone()), Some(vec![b"job".to_vec(), b"step".to_vec()]));
    }

    #[test]
    fn a_covered_mount_shows_nothing() {
        let host = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let covered = |by: &str| {
            let found = places(b"4:memory:/docker/4a5b\n", format!("{host}{by}").as_bytes());
            found.into_iter().map(|place| place.below.concat()).collect::<Vec<_>>()
        };
        assert_eq!(covered(""), [b"docker4a5b"]);
        assert_eq!(covered("86 35 0:32 /docker/4a5b /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"), [b""]);
        assert_eq!(covered("86 35 0:50 / /sys/fs/cgroup/memory rw - tmpfs tmpfs rw\n"), [b""; 0]);
    }

    proptest! {
        #[test]
        fn noise_is_no_danger(
            cgroup in proptest::collection::vec(any::<u8>(), 0..200),
            mountinfo in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = places(&cgroup, &mountinfo);
        }

        #[test]
        fn noise_among_the_words_is_no_danger(
            cgroup in "(0::|4:memory:|:|/|\\.\\.|a|\n| \\(deleted\\)){0,20}",
            mountinfo in "([0-9]{1,2} |/|\\.\\.|a|\\\\040|\\\\| |- |cgroup2? |rw,memory|\n){0,40}",
        ) {
            for place in places(cgroup.as_bytes(), mountinfo.as_bytes()) {
                prop_assert!(place.below.iter().all(|name| name != b".." && !name.is_empty()));
            }
        }
    }
}
