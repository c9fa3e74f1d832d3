//! Directories as users write them, compared by their text alone: nothing is asked of the kernel,
//! since at this time nothing need exist.

use std::ffi::CString;

/// The kernel's PATH_MAX, which counts the NUL.
const LONGEST: usize = 4096;

/// An absolute path with single slashes, no `.` in it and no slash at its end. `..` stays: what it
/// leads to depends on links. `None`: not absolute, too long, or with a NUL in it.
pub(super) fn absolute(path: &[u8]) -> Option<CString> {
    if path.first() != Some(&b'/') {
        return None;
    }
    let mut plain = Vec::with_capacity(path.len().saturating_add(1));
    for name in components(path) {
        plain.push(b'/');
        plain.extend_from_slice(name);
    }
    if plain.is_empty() {
        plain.push(b'/');
    }
    (plain.len() < LONGEST).then(|| CString::new(plain).ok()).flatten()
}

/// Whether `path` lies below `directory` or is it, both absolute, `..` taken by the letter.
pub(super) fn inside(path: &[u8], directory: &[u8]) -> bool {
    resolved(path).starts_with(&resolved(directory))
}

/// The components with each `..` and what stands in front of it taken away.
fn resolved(path: &[u8]) -> Vec<&[u8]> {
    let mut names = Vec::new();
    for name in components(path) {
        if name == b".." {
            names.pop();
        } else {
            names.push(name);
        }
    }
    names
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_normalised() {
        for (path, expected) in [
            ("/", Some("/")),
            ("//", Some("/")),
            ("/tmp/", Some("/tmp")),
            ("//var//tmp/.", Some("/var/tmp")),
            ("/./a/./b", Some("/a/b")),
            ("/a/../b/", Some("/a/../b")),
            ("/with blank", Some("/with blank")),
            ("tmp", None),
            ("./tmp", None),
            ("~/tmp", None),
            ("", None),
            ("/a\0b", None),
        ] {
            assert_eq!(absolute(path.as_bytes()).as_deref().map(|path| path.to_bytes()), expected.map(str::as_bytes));
        }
        assert_eq!(absolute(&b"/a".repeat(LONGEST)), None);
    }

    #[test]
    fn inside_is_by_component() {
        for (path, directory, expected) in [
            ("/dev/shm", "/dev/shm", true),
            ("/dev/shm/x", "/dev/shm", true),
            ("/dev/shmx", "/dev/shm", false),
            ("/dev", "/dev/shm", false),
            ("/tmp/../dev/shm/x", "/dev/shm", true),
            ("/dev/shm/../x", "/dev/shm", false),
            ("/../dev/shm", "/dev/shm", true),
            ("/anything", "/", true),
        ] {
            assert_eq!(inside(path.as_bytes(), directory.as_bytes()), expected, "{path} {directory}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(path in "[/.a]{0,20}") {
            if let Some(once) = absolute(path.as_bytes()) {
                let twice = absolute(once.to_bytes());
                prop_assert_eq!(twice.as_ref(), Some(&once));
                prop_assert!(inside(path.as_bytes(), once.to_bytes()));
            }
        }
    }
}
