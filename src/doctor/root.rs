//! The tree that everything is read from: `/`, another process's root, or a fixture of a test.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{open, Mode, OFlags};

/// A directory laid out like `/`.
pub struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

impl Root {
    /// # Errors
    /// It is no directory that can be opened.
    pub fn open(path: &Path) -> anyhow::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty()).with_context(|| format!("--root {}", path.display()))?;
        Ok(Root { path: path.to_owned(), directory })
    }

    /// Is it the system that this command runs in? Only there can something be tried out.
    pub fn is_here(&self) -> bool {
        self.path == Path::new("/")
    }

    /// A descriptor of it (O_PATH).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Where a path of that system is for us; a leading slash makes no difference.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.path.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The bytes of a file; `None`: not there, or not readable.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        fs::read(self.path(path)).ok()
    }

    /// The text of a file; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A number that stands alone in a file.
    pub fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Is there something of this name (a link that leads nowhere too)?
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// The names in a directory, sorted; none when it is not there.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.file_name().into()).collect();
        names.sort();
        names
    }

    /// The environment as this process got it: `NAME=value` strings.
    pub fn environment(&self) -> Environment {
        let from_proc = self.bytes("proc/self/environ").filter(|bytes| !bytes.is_empty());
        let entries = match from_proc {
            // A fixture is kept as text, one variable a line.
            Some(bytes) if !self.is_here() && !bytes.contains(&0) => split(&bytes, b'\n'),
            Some(bytes) => split(&bytes, 0),
            None if self.is_here() => {
                std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect()
            }
            None => Vec::new(),
        };
        Environment { entries }
    }
}

fn split(bytes: &[u8], at: u8) -> Vec<Vec<u8>> {
    bytes.split(|byte| *byte == at).filter(|entry| !entry.is_empty()).map(<[u8]>::to_vec).collect()
}

/// The environment variables of the system that is looked at.
pub struct Environment {
    entries: Vec<Vec<u8>>,
}

impl Environment {
    /// The raw entries.
    pub fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(Vec::as_slice)
    }

    /// The value of a variable; `None`: not set, or empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.entries
            .iter()
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
            .filter(|value| !value.is_empty())
            .map(OsStr::from_bytes)
    }
}
