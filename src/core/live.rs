//! How many bytes of ours are in the targets now.
//!
//! No hook sees a segment end: most of a DataLoader's bytes are held by a duplicated descriptor alone, mapped nowhere. So the
//! kernel is asked: names by listing the target directory, nameless ones by the paths that /proc/PID/fd and /proc/PID/maps
//! show for the processes given (a file of ours is known by its name there, also once that is gone).

use std::os::fd::AsFd;

use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};

use crate::config::TargetSpec;
use crate::process::read_start;
use crate::target::{Label, PREFIX};
use crate::text::Text;

/// Bytes held in each target, by its index in the configuration.
pub type Bytes = arrayvec::ArrayVec<u64, 16>;

/// Which files count.
#[derive(Clone, Copy)]
pub struct Scope {
    /// Only files whose label names this guard; `None` = all.
    pub guard: Option<crate::segment::Identity>,
}

/// Adds up what the targets hold: files with a name, and nameless files that one of `pids` holds. Without `maps` those that are
/// only mapped, by no descriptor, are left out: reading the mappings is most of the cost.
pub fn measure(targets: &[TargetSpec], scope: Scope, pids: &[i32], maps: bool) -> Bytes {
    let mut found = Found { seen: Vec::new(), bytes: targets.iter().take(16).map(|_| 0).collect(), scope };
    for (index, spec) in targets.iter().enumerate().take(16) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = fs::openat(fs::CWD, spec.path.as_c_str(), flags, Mode::empty()) else { continue };
        let Ok(entries) = Dir::read_from(&directory) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_bytes();
            found.add(index, name, || {
                fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| stat.st_blocks as u64 * 512)
            });
        }
    }
    let mut text = Vec::new();
    for pid in pids {
        descriptors(*pid, targets, &mut found);
        if maps {
            mappings(*pid, targets, &mut found, &mut text);
        }
    }
    found.bytes
}

struct Found {
    seen: Vec<u64>,
    bytes: Bytes,
    scope: Scope,
}

impl Found {
    fn add(&mut self, target: usize, name: &[u8], held: impl FnOnce() -> Option<u64>) {
        let Some(label) = Label::parse(name) else { return };
        if self.scope.guard.is_some_and(|guard| guard != label.guard) {
            return;
        }
        let Err(place) = self.seen.binary_search(&label.random) else { return };
        if let (Some(held), Some(sum)) = (held(), self.bytes.get_mut(target)) {
            self.seen.insert(place, label.random);
            *sum = sum.saturating_add(held);
        }
    }
}

/// Target index and file name, when a path shown by /proc is a file of ours (with or without ` (deleted)`).
fn ours<'p>(path: &'p [u8], targets: &[TargetSpec]) -> Option<(usize, &'p [u8])> {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    targets.iter().take(16).enumerate().find_map(|(index, target)| {
        let name = path.strip_prefix(target.path.as_bytes())?.strip_prefix(b"/")?;
        name.starts_with(PREFIX).then_some((index, name))
    })
}

fn descriptors(pid: i32, targets: &[TargetSpec], found: &mut Found) {
    let mut path = Text::<40>::new();
    path.add(format_args!("/proc/{pid}/fd"));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listing) = fs::openat(fs::CWD, path.bytes(), flags, Mode::empty()) else { return };
    let Ok(entries) = Dir::read_from(&listing) else { return };
    let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 512];
    for entry in entries.flatten() {
        let number = entry.file_name();
        let Ok((text, _)) = fs::readlinkat_raw(listing.as_fd(), number, &mut buffer) else { continue };
        if let Some((target, name)) = ours(text, targets) {
            found.add(target, name, || {
                fs::statat(&listing, number, AtFlags::empty()).ok().map(|stat| stat.st_blocks as u64 * 512)
            });
        }
    }
}

fn mappings(pid: i32, targets: &[TargetSpec], found: &mut Found, text: &mut Vec<u8>) {
    let mut path = Text::<40>::new();
    path.add(format_args!("/proc/{pid}/maps"));
    const LARGEST: usize = 1 << 20;
    text.resize(LARGEST, 0);
    let length = read_start(path.bytes(), text).unwrap_or(0);
    for line in text.get(..length).unwrap_or(&[]).split(|byte| *byte == b'\n') {
        let Some(slash) = line.iter().position(|byte| *byte == b'/') else { continue };
        let Some((target, name)) = line.get(slash..).and_then(|path| ours(path, targets)) else { continue };
        // A file that is only mapped cannot be asked for its blocks without rights over the process; it is reserved from
        // end to end, so the mapping's own length stands for it.
        found.add(target, name, || mapped_length(line));
    }
}

fn mapped_length(line: &[u8]) -> Option<u64> {
    let range = line.split(|byte| *byte == b' ').next().and_then(|range| std::str::from_utf8(range).ok())?;
    let (from, to) = range.split_once('-')?;
    u64::from_str_radix(to, 16).ok()?.checked_sub(u64::from_str_radix(from, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_named_and_nameless_files_once_each() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = std::ffi::CString::new(directory.path().to_str().expect("utf-8")).expect("no nul");
        let targets = [TargetSpec { path, cap: None }];
        let file = |random: u64| {
            let label = Label {
                guard: Default::default(),
                instance: 0,
                creator: crate::target::Creator { boot: 1, pid: 2, start: 3, namespace: 4 },
                random,
            };
            directory.path().join(String::from_utf8(label.name().to_vec()).expect("utf-8"))
        };
        std::fs::write(file(1), vec![1u8; 8192]).expect("write");
        let held = std::fs::File::create(file(2)).expect("create");
        std::fs::write(file(2), vec![1u8; 4096]).expect("write");
        std::fs::remove_file(file(2)).expect("remove");
        std::fs::write(directory.path().join("other"), vec![1u8; 4096]).expect("write");
        let bytes = measure(&targets, Scope { guard: None }, &[std::process::id() as i32], true);
        assert_eq!(bytes.as_slice(), [12288]);
        drop(held);
        assert_eq!(measure(&targets, Scope { guard: None }, &[std::process::id() as i32], true).as_slice(), [8192]);
    }
}
