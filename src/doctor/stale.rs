//! Files in the guarded directory that nobody holds any more: left by the dead, or by others.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::root::Root;

/// A file that no process which can be seen holds or maps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stale {
    /// Its name in the guarded directory.
    pub name: String,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Its owner.
    pub uid: u32,
    /// Seconds since it was last written or mapped for writing.
    pub age_s: u64,
}

/// The stale files directly in `directory` (a path of the system that is looked at), the largest first.
///
/// A file counts only when every process of its owner could be looked into: who is not root does not see what others hold.
/// Files younger than `young` may be between two processes, sent in a message and not yet mapped: they do not count.
pub fn find(root: &Root, directory: &Path, young: Duration) -> Vec<Stale> {
    let Ok(entries) = fs::read_dir(root.path(directory)) else { return Vec::new() };
    let now = SystemTime::now();
    let mut files: Vec<(Stale, (u64, u64))> = entries
        .flatten()
        .filter_map(|entry| {
            let status = entry.path().symlink_metadata().ok().filter(fs::Metadata::is_file)?;
            let touched =
                status.modified().ok()?.max(SystemTime::UNIX_EPOCH + Duration::from_secs(status.ctime() as u64));
            let age = now.duration_since(touched).unwrap_or_default();
            let file = Stale {
                name: entry.file_name().to_string_lossy().into_owned(),
                bytes: if root.is_here() { status.blocks() * 512 } else { status.len() },
                uid: status.uid(),
                age_s: age.as_secs(),
            };
            (age >= young).then_some((file, (status.dev(), status.ino())))
        })
        .collect();
    if !files.is_empty() && root.is_here() {
        let holders = Holders::look();
        files.retain(|(file, identity)| !holders.held.contains(identity) && !holders.hidden.contains(&file.uid));
    }
    let mut stale: Vec<Stale> = files.into_iter().map(|(file, _)| file).collect();
    stale.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name)));
    stale
}

/// What all visible processes hold.
#[derive(Default)]
struct Holders {
    /// (st_dev, st_ino) of everything open or mapped.
    held: HashSet<(u64, u64)>,
    /// Users with a process that could not be looked into.
    hidden: HashSet<u32>,
}

impl Holders {
    fn look() -> Holders {
        let mut holders = Holders::default();
        for pid in shmguard_core::process::all().unwrap_or_default() {
            let directory = format!("/proc/{pid}");
            let Ok(uid) = fs::metadata(&directory).map(|status| status.uid()) else { continue };
            let open = holders.add_descriptors(&directory);
            let mapped = holders.add_mappings(&directory);
            // A process that has ended meanwhile holds nothing.
            if !(open && mapped) && Path::new(&directory).exists() {
                holders.hidden.insert(uid);
            }
        }
        holders
    }

    fn add_descriptors(&mut self, process: &str) -> bool {
        let Ok(descriptors) = fs::read_dir(format!("{process}/fd")) else { return false };
        for descriptor in descriptors.flatten() {
            if let Ok(status) = fs::metadata(descriptor.path()) {
                self.held.insert((status.dev(), status.ino()));
            }
        }
        true
    }

    /// Lines of proc_pid_maps(5): address perms offset MAJOR:MINOR inode path.
    fn add_mappings(&mut self, process: &str) -> bool {
        let Ok(text) = fs::read(format!("{process}/maps")) else { return false };
        for line in String::from_utf8_lossy(&text).lines() {
            let mut fields = line.split_whitespace().skip(3);
            let (Some(device), Some(inode)) = (fields.next(), fields.next()) else { continue };
            let Some((major, minor)) = device.split_once(':') else { continue };
            let numbers = (u32::from_str_radix(major, 16), u32::from_str_radix(minor, 16), inode.parse());
            if let (Ok(major), Ok(minor), Ok(inode)) = numbers {
                self.held.insert((rustix::fs::makedev(major, minor), inode));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_this_process_holds_is_held() {
        let file = tempfile::tempfile().expect("a file");
        let status = file.metadata().expect("its status");
        let holders = Holders::look();
        assert!(holders.held.contains(&(status.dev(), status.ino())), "descriptor {}", file.as_raw_fd());
        let own = fs::metadata("/proc/self/exe").expect("this program");
        assert!(holders.held.contains(&(own.dev(), own.ino())), "mapped, not open");
    }
}
