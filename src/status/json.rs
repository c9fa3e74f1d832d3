//! The JSON of `status`. Bytes are integers; what is not known is null.

use serde_json::{json, Value};

use crate::now::{Now, Place, ProcessNow, Segment};

/// One guarded directory.
pub fn object(now: &Now) -> Value {
    json!({
        "at_ms": now.at_ms,
        "guard": {
            "path": now.path,
            "tmpfs": now.is_ram,
            "capacity_bytes": now.space.capacity,
            "used_bytes": now.space.used,
            "free_bytes": now.space.capacity.map(|_| now.space.free),
            "budget_bytes": now.budget,
            "inodes": now.space.inodes,
            "inodes_free": now.space.inodes.map(|_| now.space.inodes_free),
        },
        "totals": {
            "demand_bytes": now.demand(),
            "tmpfs_bytes": now.space.used,
            "promised_bytes": now.promised,
            "redirected_bytes": now.redirected(),
            "strangers_bytes": now.strangers,
            "segments": now.segments.len(),
            "memfd_bytes": now.other.memfd,
            "anonymous_bytes": now.other.anonymous,
            "sysv_bytes": now.other.system_v,
        },
        "peak": {
            "tmpfs_bytes": now.peak.tmpfs_peak.max(now.space.used),
            "redirected_bytes": now.peak.redirected_peak.max(now.redirected()),
            "demand_bytes": now.peak.demand_peak.max(now.demand()),
        },
        "forecast": now.forecast.map(|forecast| json!({
            "full_in_ms": forecast.left_ms,
            "bytes_a_second": forecast.rate,
            "watched_ms": forecast.watched_ms,
        })),
        "targets": now.targets.iter().map(|target| json!({
            "path": target.path,
            "kind": target.medium.map(|medium| medium.word()),
            "held_bytes": target.held,
            "room_bytes": target.room,
            "cap_bytes": target.cap,
        })).collect::<Vec<_>>(),
        "segments": now.segments.iter().map(|one| segment(now, one)).collect::<Vec<_>>(),
        "processes": now.processes.iter().map(process).collect::<Vec<_>>(),
        "processes_not_seen": now.unseen,
        "memory": {
            "available_bytes": now.memory.available,
            "cgroup_limit_bytes": now.memory.cgroup.map(|cgroup| cgroup.limit),
            "cgroup_room_bytes": now.memory.cgroup.map(|cgroup| cgroup.room),
        },
    })
}

fn segment(now: &Now, segment: &Segment) -> Value {
    let target = match segment.place {
        Place::Target(index) => now.targets.get(index).map(|target| target.path.as_str()),
        _ => None,
    };
    json!({
        "name": segment.name,
        "named": segment.named,
        "where": segment.place.word(),
        "target": target,
        "promised_bytes": segment.promised,
        "held_bytes": segment.held,
        "creator": segment.creator.as_ref().map(|creator| json!({
            "pid": creator.pid, "command": creator.command, "gone": creator.gone,
        })),
        "created_ms": segment.created_ms,
        "age_s": segment.created_ms.map(|created| now.at_ms.saturating_sub(created) / 1000),
        "holders": segment.holders.iter().map(|holder| json!({
            "pid": holder.pid,
            "command": command(now, holder.pid),
            "descriptors": holder.descriptors,
            "mappings": holder.mappings,
        })).collect::<Vec<_>>(),
    })
}

fn command(now: &Now, pid: i32) -> Option<&str> {
    now.processes.iter().find(|process| process.pid == pid).map(|process| process.command.as_str())
}

fn process(process: &ProcessNow) -> Value {
    json!({
        "pid": process.pid,
        "command": process.command,
        "holds_bytes": process.holds,
        "segments": process.segments,
        "created_held_bytes": process.created_held,
        "created": process.created,
        "redirected": process.redirected,
        "library": process.has_library,
    })
}
