//! What speaks for one cause of a death or another: collected while CMD runs, for afterwards everything is empty again.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use shmguard_core::config::Config;
use shmguard_core::guard::Guard;
use shmguard_core::segment::Identity;

use crate::now::{Now, Place};

/// A segment that had not got all its pages, and who had it mapped.
#[derive(Clone, Debug)]
pub struct Unfilled {
    /// Its name.
    pub name: String,
    /// Its size.
    pub promised: u64,
    /// What it held of that.
    pub held: u64,
    /// Processes that had it.
    pub pids: Vec<i32>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Bytes used in the guard before CMD started.
    pub used_before: u64,
    /// Names in the guard before CMD started.
    pub names_before: Vec<String>,
    /// The guarded directory was not there.
    pub no_guard: bool,
    /// Most bytes used, and the capacity then.
    pub fullest: u64,
    /// Most bytes used and promised at one moment.
    pub wanted: u64,
    /// The guard's capacity.
    pub capacity: Option<u64>,
    /// Fewest bytes free.
    pub least_free: Option<u64>,
    /// Fewest inodes left, of how many.
    pub inodes: Option<(u64, u64)>,
    /// Bytes of strangers when it was fullest.
    pub strangers: u64,
    /// Segments that lacked pages when that was seen last.
    pub unfilled: Vec<Unfilled>,
    /// The process that came nearest to its limit of descriptors: command, used, limit.
    pub descriptors: Option<(String, u64, u64)>,
    /// The process that came nearest to vm.max_map_count: command, used, limit.
    pub maps: Option<(String, u64, u64)>,
    /// Names in the guard that processes of the run held when they were last seen.
    pub held_names: HashMap<Identity, String>,
    /// Names that went while processes held the segments.
    pub vanished: Vec<String>,
    /// Names that processes of the run removed.
    pub unlinked: u64,
    /// Kills by the memory cgroup's out-of-memory killer before the start; `None`: not to be read.
    pub oom_kills_before: Option<u64>,
}

impl Evidence {
    /// Looks at a snapshot.
    pub fn see(&mut self, now: &Now) {
        self.capacity = now.space.capacity.or(self.capacity);
        if now.space.used >= self.fullest {
            self.fullest = now.space.used;
            self.strangers = now.strangers;
        }
        self.wanted = self.wanted.max(now.fill);
        self.see_names(now);
        self.room(now.space.free, now.space.inodes, now.space.inodes_free);
        let unfilled: Vec<Unfilled> = now
            .segments
            .iter()
            .filter(|segment| segment.place == Place::Guard && segment.held < segment.promised)
            .map(|segment| Unfilled {
                name: segment.name.clone(),
                promised: segment.promised,
                held: segment.held,
                pids: segment.holders.iter().map(|holder| holder.pid).collect(),
            })
            .collect();
        if !unfilled.is_empty() {
            self.unfilled = unfilled;
        }
    }

    fn see_names(&mut self, now: &Now) {
        let held = now.segments.iter().filter(|one| one.place == Place::Guard && !one.holders.is_empty());
        let mut names = HashMap::new();
        for segment in held {
            if segment.named {
                names.insert(segment.identity, segment.name.clone());
            } else if let Some(name) = self.held_names.remove(&segment.identity) {
                self.vanished.push(name);
            }
        }
        self.held_names = names;
    }

    /// Looks at the room alone: at the moment of a death.
    pub fn glance(&mut self, config: &Config) {
        let Some(guard) = config.guards.first().and_then(|path| Guard::open(path)) else { return };
        self.fullest = self.fullest.max(guard.space.used);
        self.capacity = guard.space.capacity.or(self.capacity);
        self.room(guard.space.free, guard.space.inodes, guard.space.inodes_free);
    }

    fn room(&mut self, free: u64, inodes: Option<u64>, inodes_free: u64) {
        self.least_free = Some(self.least_free.map_or(free, |least| least.min(free)));
        if let Some(inodes) = inodes {
            if self.inodes.is_none_or(|(least, _)| inodes_free < least) {
                self.inodes = Some((inodes_free, inodes));
            }
        }
    }
}

/// Limits of processes that have nothing to do with bytes.
pub struct Limits {
    most_maps: Option<u64>,
    turn: u32,
}

impl Limits {
    /// Reads what holds for all.
    pub fn read() -> Limits {
        let text = fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        Limits { most_maps: text.and_then(|text| text.trim().parse().ok()), turn: 0 }
    }

    /// Looks at descriptors and mappings of these processes, every fifth time.
    pub fn look(&mut self, pids: &[i32], evidence: &mut Evidence) {
        self.turn = self.turn.wrapping_add(1);
        if self.turn % 5 != 1 {
            return;
        }
        for pid in pids {
            let Ok(limits) = fs::read_to_string(format!("/proc/{pid}/limits")) else { continue };
            let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
            let soft = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
            let used = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64);
            if let Some(soft) = soft {
                nearest(&mut evidence.descriptors, *pid, used, soft);
            }
            if let Some(most) = self.most_maps {
                let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
                let count = maps.as_slice().split(|byte| *byte == b'\n').count() as u64;
                nearest(&mut evidence.maps, *pid, count, most);
            }
        }
    }
}

fn nearest(known: &mut Option<(String, u64, u64)>, pid: i32, used: u64, limit: u64) {
    let nearer = known.as_ref().is_none_or(|(_, before, limit_before)| {
        u128::from(used) * u128::from(*limit_before) > u128::from(*before) * u128::from(limit)
    });
    if nearer {
        *known = Some((crate::now::command_of(pid).unwrap_or_default(), used, limit));
    }
}

/// How often the out-of-memory killer of this process's memory cgroup has killed: `oom_kill` of memory.events (version 2)
/// or memory.oom_control (version 1). `None`: not to be read.
pub fn oom_kills() -> Option<u64> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read("/proc/self/mounts").ok()?;
    for line in mounts.split(|byte| *byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (Some(point), Some(kind), Some(options)) = (fields.get(1), fields.get(2), fields.get(3)) else { continue };
        let memory = options.split(|byte| *byte == b',').any(|option| option == b"memory");
        let (file, own) = match *kind {
            b"cgroup2" => ("memory.events", cgroup.lines().find_map(|line| line.strip_prefix("0::"))),
            b"cgroup" if memory => {
                let own = cgroup.lines().find(|line| {
                    line.split(':').nth(1).is_some_and(|names| names.split(',').any(|name| name == "memory"))
                });
                ("memory.oom_control", own.and_then(|line| line.splitn(3, ':').nth(2)))
            }
            _ => continue,
        };
        let point = std::path::Path::new(std::ffi::OsStr::from_bytes(point));
        // In a container without a cgroup namespace the path is the host's and the mount shows the container's own.
        for directory in [point.join(own.unwrap_or("/").trim_start_matches('/')), point.to_path_buf()] {
            if let Ok(text) = fs::read_to_string(directory.join(file)) {
                let value = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
                if let Some(kills) = value.and_then(|value| value.trim().parse().ok()) {
                    return Some(kills);
                }
            }
        }
    }
    None
}
