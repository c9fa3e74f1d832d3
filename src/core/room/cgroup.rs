//! Room in the memory cgroup: limit − (usage − page cache), the smallest over all ancestors.
//!
//! Page cache is reclaimable: a container that has read its data sits at its limit and still has
//! room (tried; so `usage` alone would forbid every redirect). Shared memory is not in the file
//! counters: tmpfs pages count as anonymous.

use super::mounts::{places, Place, Version};
use super::read::file;
use super::text::{field, number};
use rustix::fd::BorrowedFd;

/// A memory cgroup that limits this process. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupRoom {
    /// What it may use: the least of the limits that apply (`memory.max` and `memory.high`, which
    /// does not kill but slows down to a crawl; `memory.limit_in_bytes`).
    pub limit: u64,
    /// What it uses, page cache included.
    pub usage: u64,
    /// Of that the page cache, active and inactive.
    pub reclaimable: u64,
    /// limit − (usage − reclaimable), not below 0.
    pub room: u64,
}

impl CgroupRoom {
    fn new(limit: u64, usage: u64, reclaimable: u64) -> Self {
        let firm = usage.saturating_sub(reclaimable);
        Self { limit, usage, reclaimable, room: limit.saturating_sub(firm) }
    }
}

/// Version 1 writes "no limit" as the largest multiple of the page size in a signed 64-bit number;
/// no real limit comes near it.
const UNLIMITED: u64 = 1 << 62;

/// Levels of a hierarchy that are looked at, from the top. systemd, Slurm and Kubernetes make six
/// or seven.
const DEEPEST: usize = 32;

/// The cgroup with the least room of all that hold this process and can be seen below `root`.
/// `None`: none can be seen, or none has a limit.
pub(super) fn narrowest(root: BorrowedFd<'_>) -> Option<CgroupRoom> {
    let cgroup = file(root, b"proc/self/cgroup")?;
    let mountinfo = file(root, b"proc/self/mountinfo")?;
    // A tree may be mounted in several places that show different parts of it: whatever can be read
    // is true, so all count.
    places(&cgroup, &mountinfo).iter().filter_map(|place| along(root, place)).min_by_key(|found| found.room)
}

/// The cgroup with the least room from the process's own up to the root of the mount.
fn along(root: BorrowedFd<'_>, place: &Place) -> Option<CgroupRoom> {
    let levels = place.below.len().min(DEEPEST);
    let bounds = (0..=levels).rev().filter_map(|level| {
        let mut directory = place.mount.clone();
        for name in place.below.iter().take(level) {
            directory.push(b'/');
            directory.extend_from_slice(name);
        }
        let files = Files { root, directory };
        match place.version {
            Version::One => files.version_one(level == levels),
            Version::Two => files.version_two(),
        }
    });
    bounds.min_by_key(|found| found.room)
}

/// The files of one cgroup.
struct Files<'a> {
    root: BorrowedFd<'a>,
    directory: Vec<u8>,
}

impl Files<'_> {
    fn text(&self, name: &[u8]) -> Option<Vec<u8>> {
        let mut path = self.directory.clone();
        path.push(b'/');
        path.extend_from_slice(name);
        file(self.root, &path)
    }

    fn value(&self, name: &[u8]) -> Option<u64> {
        number(&self.text(name)?)
    }

    /// `None`: not there (the root has no such files, nor has a directory whose parent does not hand
    /// the controller down), or no limit.
    fn version_two(&self) -> Option<CgroupRoom> {
        // "max" is no number, and so no limit.
        let limit = least(self.value(b"memory.max"), self.value(b"memory.high"))?;
        let usage = self.value(b"memory.current")?;
        let stat = self.text(b"memory.stat").unwrap_or_default();
        Some(CgroupRoom::new(limit, usage, page_cache(&stat, b"inactive_file", b"active_file")))
    }

    /// As [`Files::version_two`]. `own`: the process itself is in this one, not below it.
    fn version_one(&self, own: bool) -> Option<CgroupRoom> {
        // Before Linux 5.11 a directory might leave those below it out of its account.
        if !own && self.value(b"memory.use_hierarchy") == Some(0) {
            return None;
        }
        let stat = self.text(b"memory.stat").unwrap_or_default();
        // The second also counts ancestors that a container cannot see.
        let limit = least(self.value(b"memory.limit_in_bytes"), field(&stat, b"hierarchical_memory_limit"))
            .filter(|&limit| limit < UNLIMITED)?;
        let usage = self.value(b"memory.usage_in_bytes")?;
        // usage_in_bytes counts those below with it, of the numbers in memory.stat only total_ do.
        Some(CgroupRoom::new(limit, usage, page_cache(&stat, b"total_inactive_file", b"total_active_file")))
    }
}

fn page_cache(stat: &[u8], inactive: &[u8], active: &[u8]) -> u64 {
    let bytes = |name| field(stat, name).unwrap_or(0);
    bytes(inactive).saturating_add(bytes(active))
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
