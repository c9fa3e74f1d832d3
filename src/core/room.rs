//! Room: what the kernel says is left, of a file system and of memory.
//!
//! Everything is asked at the moment of need and nothing is remembered here. [`space`] and
//! [`fs_type`] are one system call each; [`memory`] opens and reads about a dozen small files, so
//! that its caller should ask at most every 200 ms.

mod cgroup;
mod mounts;
mod read;
mod space;
mod text;

pub use cgroup::CgroupRoom;
pub use space::{fs_type, look, space, FsKind, Look, Space};

use rustix::fd::BorrowedFd;

/// What machine and memory cgroup still have. `None` in a field: not readable, so no bound known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRoom {
    /// `MemAvailable` of /proc/meminfo in bytes: what the kernel can hand out without swapping.
    /// Kernels before 3.14 and some sandboxes have none. In a container it is the machine's.
    pub available: Option<u64>,
    /// `MemTotal` of /proc/meminfo in bytes.
    pub total: Option<u64>,
    /// The memory cgroup with the least room among those that hold this process and can be seen.
    /// `None` also when none of them has a limit.
    pub cgroup: Option<CgroupRoom>,
}

impl MemoryRoom {
    /// The narrower of the two bounds in bytes; `None`: no bound known.
    pub fn bound(&self) -> Option<u64> {
        match (self.available, self.cgroup.map(|cgroup| cgroup.room)) {
            (Some(machine), Some(cgroup)) => Some(machine.min(cgroup)),
            (machine, cgroup) => machine.or(cgroup),
        }
    }
}

/// Asks how much memory machine and cgroup still have.
///
/// `root` is a descriptor of `/` (O_PATH will do), or of a directory laid out like it: every file
/// is opened relative to it, without the leading slash. Never fails: what cannot be read or
/// understood sets no bound. All descriptors it opens are closed again.
pub fn memory(root: BorrowedFd<'_>) -> MemoryRoom {
    let meminfo = read::file(root, b"proc/meminfo").unwrap_or_default();
    MemoryRoom {
        available: text::kibibytes(&meminfo, b"MemAvailable:"),
        total: text::kibibytes(&meminfo, b"MemTotal:"),
        cgroup: cgroup::narrowest(root),
    }
}

#[cfg(test)]
mod tests;
