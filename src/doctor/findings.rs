//! From numbers to causes: what is wrong here, and what to do about it.

mod library;
mod limits;
mod shm;

use serde::Serialize;

use super::fix;
use super::Patient;

/// A cause of trouble, by the name that scripts see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// There is no usable guarded directory.
    NoDevShm,
    /// It is smaller than what programs need.
    Size,
    /// It is full, or nearly.
    Bytes,
    /// It has no inodes left, or few.
    Inodes,
    /// Files that nobody holds fill it.
    StaleSegments,
    /// The limit of open files is low.
    Descriptors,
    /// The limit of mappings is low.
    MaxMapCount,
    /// The memory cgroup is narrower than the tmpfs, or nearly used up.
    MemoryCgroup,
    /// logind deletes segments at logout.
    RemoveIpc,
    /// System V shared memory is limited, or used up.
    SystemV,
    /// The size of files is limited.
    FileSize,
    /// No target can take anything.
    Targets,
    /// The library does not load.
    Library,
    /// A variable cannot be used.
    Variable,
}

impl Cause {
    /// The name as in JSON, with blanks.
    pub fn words(self) -> &'static str {
        match self {
            Cause::NoDevShm => "no /dev/shm",
            Cause::Size => "size",
            Cause::Bytes => "bytes",
            Cause::Inodes => "inodes",
            Cause::StaleSegments => "stale segments",
            Cause::Descriptors => "descriptors",
            Cause::MaxMapCount => "vm.max_map_count",
            Cause::MemoryCgroup => "memory cgroup",
            Cause::RemoveIpc => "RemoveIPC",
            Cause::SystemV => "System V",
            Cause::FileSize => "file size",
            Cause::Targets => "targets",
            Cause::Library => "library",
            Cause::Variable => "variable",
        }
    }
}

/// Something found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub cause: Cause,
    /// It needs a fix; else it is worth knowing.
    pub needs_fix: bool,
    /// The finding with its numbers.
    pub says: String,
    /// Lines to paste, for this environment.
    pub fix: Vec<String>,
}

/// A /dev/shm below this is small for a loader with several workers, unless it is a good part of the memory.
const SMALL: u64 = 512 << 20;

/// Everything that there is to say, what needs a fix first.
pub fn find(patient: &Patient) -> Vec<Finding> {
    let mut findings: Vec<Finding> = [
        shm::no_dev_shm(patient),
        shm::bytes(patient),
        shm::size(patient),
        shm::inodes(patient),
        shm::stale(patient),
        limits::memory(patient),
        limits::descriptors(patient),
        limits::maps(patient),
        limits::file_size(patient),
        limits::remove_ipc(patient),
        limits::system_v(patient),
        library::library(patient),
        library::targets(patient),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.extend(patient.complaints.iter().map(|complaint| {
        finding(Cause::Variable, true, complaint.clone(), vec!["docs/variables.md lists what can be set".into()])
    }));
    findings.sort_by_key(|finding| !finding.needs_fix);
    findings
}

fn finding(cause: Cause, needs_fix: bool, says: String, fix: Vec<String>) -> Finding {
    Finding { cause, needs_fix, says, fix }
}
