//! Copies of a redirected segment's link.
//!
//! `mv`, `cp -a` and shutil.move see a link (lstat) and copy it as one: they make another link with the same text and, when
//! moving, remove the first one, with which the target would go. So a program that makes a link with the text of one of ours
//! gets what it would have got without the library: a copy of the file.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, FileType, Mode as FileMode, OFlags};
use rustix::io::Errno;

use super::Engine;
use crate::link;

impl Engine {
    /// Could `text` be the text of a link of ours? No system call.
    #[inline]
    pub fn is_link_text(&self, text: &[u8]) -> bool {
        text.len() < 4096 && link::split(text, &self.config.targets).is_some()
    }

    /// Makes `path` (relative to `directory`) a copy of the file that `text` names. `None`: it names none; the link is made.
    pub fn copy_of(&self, text: &[u8], directory: i32, path: &[u8]) -> Option<Result<(), Errno>> {
        if !self.is_here() {
            return None;
        }
        let (target, name) = link::split(text, &self.config.targets)?;
        let spec = self.config.targets.get(target)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = fs::openat(fs::CWD, spec.path.as_c_str(), flags, FileMode::empty()).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source = fs::openat(&folder, name.as_slice(), flags, FileMode::empty()).ok()?;
        let stat = fs::fstat(&source).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let place = if directory == libc::AT_FDCWD { fs::CWD } else { crate::borrow(directory)? };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = FileMode::RUSR | FileMode::WUSR;
        let copy = match fs::openat(place, path, flags, mode) {
            Ok(copy) => copy,
            Err(error) => return Some(Err(error)),
        };
        let filled = fill(&source, &copy, stat.st_size as u64, FileMode::from_raw_mode(stat.st_mode & 0o7777));
        if filled.is_err() {
            let _ = fs::unlinkat(place, path, AtFlags::empty());
        }
        Some(filled)
    }
}

fn fill(source: &OwnedFd, copy: &OwnedFd, size: u64, mode: FileMode) -> Result<(), Errno> {
    crate::quiet::quietly(|| {
        fs::ftruncate(copy, size)?;
        crate::data::copy(source.as_fd(), copy.as_fd(), size)?;
        fs::fchmod(copy, mode)
    })
}
