//! What is there: the guarded directory, memory, limits. Numbers only, no judgement.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{accessat, Access, AtFlags, CWD};
use serde::Serialize;
use shmguard_core::config::Config;
use shmguard_core::guard::Guard;
use shmguard_core::room;

use super::mounts::{self, Mount};
use super::root::Root;

/// The guarded directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shm {
    /// Its path in the system that is looked at.
    pub path: String,
    /// What stands there instead of a tmpfs that can be used; `None`: nothing is wrong.
    pub wrong: Option<Wrong>,
    /// Size in bytes; `None` = unlimited.
    pub capacity_bytes: Option<u64>,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Inodes altogether; `None` = unlimited.
    pub inodes: Option<u64>,
    /// Inodes left, where they are limited.
    pub inodes_free: Option<u64>,
    /// Mount options.
    pub options: String,
    /// Fill in bytes from which on new segments are redirected.
    pub budget_bytes: Option<u64>,
}

/// Why a path cannot serve as a guarded directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// Nothing is there.
    Missing,
    /// It is no directory, or a link that leads nowhere.
    NotADirectory,
    /// It lies on another file system; its type.
    NotTmpfs(String),
    /// It is mounted read-only.
    ReadOnly,
    /// This user may not create files in it.
    NotWritable,
}

impl Shm {
    /// Looks at `path` (absolute).
    pub fn look(root: &Root, path: &Path, mounts: &[Mount], config: &Config, memory: Option<u64>) -> Shm {
        let shown = path.display().to_string();
        let mount = mounts::at(mounts, &shown);
        let mut shm = Shm { path: shown, ..Shm::default() };
        shm.options = mount.map(|mount| mount.options.clone()).unwrap_or_default();
        let real = root.path(path);
        let guard = CString::new(real.as_os_str().as_bytes()).ok().and_then(|path| Guard::open(&path));
        match guard {
            // Also the root of another process (/proc/PID/root).
            Some(guard) if guard.is_ram && (root.is_here() || mount.is_none()) => {
                let space = guard.space;
                shm.capacity_bytes = space.capacity;
                shm.used_bytes = space.used;
                shm.inodes = space.inodes;
                shm.inodes_free = space.inodes.map(|_| space.inodes_free);
                shm.wrong = wrong(&real, space.readonly);
            }
            Some(_) if root.is_here() => {
                let kind = mounts
                    .iter()
                    .filter(|mount| path.starts_with(&mount.point))
                    .max_by_key(|mount| mount.point.len())
                    .map_or("another file system", |mount| &mount.kind);
                shm.wrong = Some(Wrong::NotTmpfs(kind.to_owned()));
            }
            None if root.is_here() => {
                shm.wrong = Some(if root.has(path) { Wrong::NotADirectory } else { Wrong::Missing });
            }
            // A fixture: its directories lie on whatever disk, so the list of mounts speaks for them.
            _ => shm.take_from_mount(root, path, mount, memory),
        }
        shm.budget_bytes = shm.capacity_bytes.map(|capacity| config.budget_bytes(capacity));
        shm
    }

    fn take_from_mount(&mut self, root: &Root, path: &Path, mount: Option<&Mount>, memory: Option<u64>) {
        let Some(mount) = mount else {
            self.wrong = Some(if root.has(path) { Wrong::NotTmpfs("the root".into()) } else { Wrong::Missing });
            return;
        };
        if mount.kind != "tmpfs" {
            self.wrong = Some(Wrong::NotTmpfs(mount.kind.clone()));
            return;
        }
        self.wrong = mount.has("ro").then_some(Wrong::ReadOnly);
        self.capacity_bytes = mounts::tmpfs_size(mount, memory);
        let files: Vec<_> = root.names(path).iter().flat_map(|name| root.path(path).join(name).metadata()).collect();
        self.used_bytes = files.iter().map(|file| file.len().next_multiple_of(4096)).sum();
        self.inodes = mount.value("nr_inodes").and_then(|number| number.parse().ok()).filter(|number| *number > 0);
        self.inodes_free = self.inodes.map(|inodes| inodes.saturating_sub(files.len() as u64 + 1));
    }

    /// Share in use in per cent; 0 when unlimited.
    pub fn percent_used(&self) -> u64 {
        match self.capacity_bytes {
            Some(capacity) if capacity > 0 => self.used_bytes.saturating_mul(100) / capacity,
            _ => 0,
        }
    }
}

fn wrong(path: &Path, readonly: bool) -> Option<Wrong> {
    if readonly {
        return Some(Wrong::ReadOnly);
    }
    // EACCES before EROFS: the mode speaks, not what root is allowed in spite of it.
    let access = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, path, access, AtFlags::EACCESS).is_err().then_some(Wrong::NotWritable)
}

/// Machine and memory cgroup. Bytes; `None`: not known, or no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Memory of the machine.
    pub total_bytes: Option<u64>,
    /// What the machine can still hand out.
    pub available_bytes: Option<u64>,
    /// The narrowest limit of a memory cgroup.
    pub limit_bytes: Option<u64>,
    /// What is left below that limit, page cache counted as free.
    pub limit_left_bytes: Option<u64>,
}

impl Memory {
    /// Reads both.
    pub fn look(root: &Root) -> Memory {
        let room = room::memory(root.fd());
        Memory {
            total_bytes: room.total,
            available_bytes: room.available,
            limit_bytes: room.cgroup.map(|cgroup| cgroup.limit),
            limit_left_bytes: room.cgroup.map(|cgroup| cgroup.room),
        }
    }

    /// What this environment may use altogether.
    pub fn whole(&self) -> Option<u64> {
        match (self.total_bytes, self.limit_bytes) {
            (Some(total), Some(limit)) => Some(total.min(limit)),
            (total, limit) => total.or(limit),
        }
    }
}

/// Limits of a process and of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// RLIMIT_NOFILE, soft; `None`: not known, or none.
    pub descriptors: Option<u64>,
    /// RLIMIT_NOFILE, hard.
    pub descriptors_hard: Option<u64>,
    /// RLIMIT_FSIZE in bytes, soft; `None`: not known, or none.
    pub file_size_bytes: Option<u64>,
    /// vm.max_map_count: mappings that a process may have.
    pub max_map_count: Option<u64>,
    /// kernel.shmmax: bytes of one System V segment.
    pub sysv_max_bytes: Option<u64>,
    /// kernel.shmall: bytes of all System V segments (the kernel counts pages).
    pub sysv_all_bytes: Option<u64>,
    /// kernel.shmmni: number of System V segments.
    pub sysv_segments_max: Option<u64>,
    /// System V segments that exist.
    pub sysv_segments: u64,
    /// Their bytes.
    pub sysv_bytes: u64,
}

impl Limits {
    /// Reads /proc/self/limits, /proc/sys and /proc/sysvipc/shm.
    pub fn look(root: &Root) -> Limits {
        let limits = root.text("proc/self/limits").unwrap_or_default();
        let segments = root.text("proc/sysvipc/shm").unwrap_or_default();
        // Fields: key shmid perms size ... (proc_sysvipc(5)).
        let sizes: Vec<u64> =
            segments.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)?.parse().ok()).collect();
        Limits {
            descriptors: limit(&limits, "Max open files").0,
            descriptors_hard: limit(&limits, "Max open files").1,
            file_size_bytes: limit(&limits, "Max file size").0,
            max_map_count: root.number("proc/sys/vm/max_map_count"),
            sysv_max_bytes: root.number("proc/sys/kernel/shmmax"),
            sysv_all_bytes: root.number("proc/sys/kernel/shmall").map(|pages| pages.saturating_mul(4096)),
            sysv_segments_max: root.number("proc/sys/kernel/shmmni"),
            sysv_segments: sizes.len() as u64,
            sysv_bytes: sizes.iter().sum(),
        }
    }
}

/// Soft and hard limit of a line of /proc/self/limits; "unlimited" is none.
fn limit(text: &str, name: &str) -> (Option<u64>, Option<u64>) {
    let Some(rest) = text.lines().find_map(|line| line.strip_prefix(name)) else { return (None, None) };
    let mut numbers = rest.split_whitespace();
    (numbers.next().and_then(|soft| soft.parse().ok()), numbers.next().and_then(|hard| hard.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_or_none() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max file size             unlimited            unlimited            bytes     \n\
                    Max open files            1024                 524288               files     \n";
        assert_eq!(limit(text, "Max open files"), (Some(1024), Some(524_288)));
        assert_eq!(limit(text, "Max file size"), (None, None));
        assert_eq!(limit("", "Max open files"), (None, None));
    }
}
