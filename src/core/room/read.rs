//! Reads a small file of the kernel whole.

use rustix::fd::BorrowedFd;
use rustix::fs::{openat, Mode, OFlags};
use rustix::io::{read, Errno};
use std::ffi::CString;

/// Bytes of a file that are looked at. /proc/self/mountinfo of a machine with a thousand
/// containers is longer; the cgroup mounts stand near its beginning.
const LONGEST: usize = 256 << 10;
/// Bytes per read: the kernel hands out a page of such files at a time.
const PIECE: usize = 4096;

/// The contents of `path` below `root` (a relative path), at most [`LONGEST`] bytes of it and then
/// only whole lines. `None`: it cannot be opened or read, or there is no memory for it.
pub(super) fn file(root: BorrowedFd<'_>, path: &[u8]) -> Option<Vec<u8>> {
    // A CString, because rustix would put a &[u8] into a buffer of its own on the stack.
    let path = CString::new(path).ok()?;
    // NONBLOCK and NOCTTY: should something other than a file stand there, it must not hold us up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = openat(root, &path, flags, Mode::empty()).ok()?;
    let mut text = Vec::new();
    loop {
        let filled = text.len();
        if filled >= LONGEST {
            let end = text.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
            text.truncate(end);
            return Some(text);
        }
        let piece = PIECE.min(LONGEST.saturating_sub(filled));
        text.try_reserve(piece).ok()?;
        text.resize(filled.saturating_add(piece), 0);
        let outcome = read(&file, text.get_mut(filled..)?);
        text.truncate(filled.saturating_add(outcome.unwrap_or(0)));
        match outcome {
            Ok(0) => return Some(text),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    fn read_back(contents: &[u8]) -> Option<Vec<u8>> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join("text"), contents).expect("written");
        let root = std::fs::File::open(directory.path()).expect("opened");
        file(root.as_fd(), b"text")
    }

    #[test]
    fn reads_files_of_any_length_whole() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, LONGEST - 1] {
            let contents = vec![b'x'; length];
            assert_eq!(read_back(&contents).as_deref(), Some(contents.as_slice()), "{length}");
        }
    }

    #[test]
    fn cuts_what_is_too_long_at_the_end_of_a_line() {
        let contents = b"0123456789\n".repeat(LONGEST / 8);
        let text = read_back(&contents).expect("read");
        assert!(text.len() < LONGEST && text.len() > LONGEST - 16);
        assert!(text.ends_with(b"9") && contents.starts_with(&text));
        assert_eq!(read_back(&vec![b'x'; LONGEST + 1]).as_deref(), Some(b"".as_slice()));
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        let root = std::fs::File::open("/").expect("opened");
        assert_eq!(file(root.as_fd(), b"no/such/file"), None);
        assert_eq!(file(root.as_fd(), b"proc"), None);
        assert_eq!(file(root.as_fd(), b"a\0b"), None);
        assert!(file(root.as_fd(), b"proc/self/status").is_some_and(|text| text.starts_with(b"Name:")));
    }
}
