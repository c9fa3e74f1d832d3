//! What the kernel, the container and the system allow.

use shmguard_core::size::Human;

use super::{finding, fix, Cause, Finding};
use crate::doctor::Patient;

/// The limit of descriptors that every Linux has had as its default; PyTorch keeps one open for each tensor in flight.
const DESCRIPTORS: u64 = 1024;
/// The kernel's default (DEFAULT_MAX_MAP_COUNT).
const MAPS: u64 = 65530;
/// The kernel's default for kernel.shmmni.
const SYSV_SEGMENTS: u64 = 4096;

pub(super) fn memory(patient: &Patient) -> Option<Finding> {
    let (limit, left) = (patient.memory.limit_bytes?, patient.memory.limit_left_bytes?);
    let total = patient.memory.total_bytes.unwrap_or(u64::MAX);
    if limit >= total {
        return None;
    }
    let kind = patient.kind();
    let shm = &patient.shm;
    // What may still go into the tmpfs, all of which counts against the limit.
    let may_come = shm.capacity_bytes.unwrap_or(total).saturating_sub(shm.used_bytes);
    let nearly = left < (256 << 20).min(limit / 8);
    let need_does_not_fit = patient.need.is_some_and(|need| need > left);
    let narrower = may_come > left && shm.wrong.is_none();
    if !(nearly || need_does_not_fit || narrower) {
        return None;
    }
    let says = format!(
        "the memory cgroup has a limit of {}, {} of it left, and {} can still take {}: memory there counts against the \
         limit, and whoever exceeds it is killed (SIGKILL) instead of told that {} is full",
        Human(limit),
        Human(left),
        shm.path,
        shm.capacity_bytes.map_or("any amount".into(), |_| Human(may_come).to_string()),
        shm.path
    );
    let wanted = limit.saturating_add(patient.need.unwrap_or(may_come.min(8 << 30)));
    let set_on_purpose = kind.is_container() && narrower;
    let lines = fix::memory(kind, wanted, left / 2);
    Some(finding(Cause::MemoryCgroup, nearly || need_does_not_fit || set_on_purpose, says, lines))
}

pub(super) fn descriptors(patient: &Patient) -> Option<Finding> {
    let soft = patient.limits.descriptors.filter(|soft| *soft < DESCRIPTORS)?;
    let says = format!(
        "a process may have {soft} descriptors open: PyTorch needs one for each tensor that waits (\"Too many open files\", \
         \"received 0 items of ancdata\")"
    );
    Some(finding(
        Cause::Descriptors,
        true,
        says,
        fix::descriptors(patient.kind(), 65536, patient.limits.descriptors_hard),
    ))
}

pub(super) fn maps(patient: &Patient) -> Option<Finding> {
    let most = patient.limits.max_map_count.filter(|most| *most < MAPS)?;
    let says = format!("vm.max_map_count is {most}: mmap fails with ENOMEM (\"Cannot allocate memory\") beyond that");
    Some(finding(Cause::MaxMapCount, true, says, fix::sysctl(patient.kind(), "vm.max_map_count=262144")))
}

pub(super) fn file_size(patient: &Patient) -> Option<Finding> {
    let most = patient.limits.file_size_bytes?;
    let says =
        format!("files, and so segments, may have {} at most (RLIMIT_FSIZE): sizing ends in SIGXFSZ", Human(most));
    Some(finding(
        Cause::FileSize,
        true,
        says,
        vec!["ulimit -f unlimited   (in the shell that starts the program)".into()],
    ))
}

pub(super) fn remove_ipc(patient: &Patient) -> Option<Finding> {
    let found = &patient.remove_ipc;
    let explicit = found.set_by.as_ref().filter(|_| found.on);
    if !found.on || (explicit.is_none() && !(found.logind && found.concerns_us)) {
        return None;
    }
    let source = found.source();
    let reach = match (found.logind, found.concerns_us) {
        (false, _) => " (logind does not run here now)",
        (true, true) => "",
        (true, false) => " (not those of root, system users and lingering users)",
    };
    let says = format!(
        "{source}: when the last session of a user ends, logind deletes the user's segments, also those in use{reach}"
    );
    let lines = vec![
        "sudo loginctl enable-linger USER".to_owned(),
        "or RemoveIPC=no in /etc/systemd/logind.conf, then systemctl restart systemd-logind".into(),
    ];
    Some(finding(Cause::RemoveIpc, explicit.is_some() && found.logind && found.concerns_us, says, lines))
}

pub(super) fn system_v(patient: &Patient) -> Option<Finding> {
    let limits = &patient.limits;
    let kind = patient.kind();
    let few = limits.sysv_segments_max.filter(|most| limits.sysv_segments.saturating_mul(10) >= most.saturating_mul(9));
    if let Some(most) = few {
        let says = format!("{} of {most} System V segments exist: shmget fails with ENOSPC", limits.sysv_segments);
        let mut lines = vec!["ipcs -m shows them, ipcrm -m ID removes one".to_owned()];
        lines.extend(fix::sysctl(kind, &format!("kernel.shmmni={}", most.max(SYSV_SEGMENTS).saturating_mul(2))));
        return Some(finding(Cause::SystemV, true, says, lines));
    }
    let full = limits.sysv_all_bytes.filter(|all| limits.sysv_bytes >= all / 10 * 9);
    let narrow = limits.sysv_max_bytes.filter(|most| *most < 32 << 20);
    let (says, setting) = match (full, narrow) {
        (Some(all), _) => (
            format!("System V segments have {} of {} that kernel.shmall allows", Human(limits.sysv_bytes), Human(all)),
            "kernel.shmall=18446744073692774399",
        ),
        (None, Some(most)) => (
            format!("a System V segment may have {} at most (kernel.shmmax)", Human(most)),
            "kernel.shmmax=18446744073692774399",
        ),
        _ => return None,
    };
    Some(finding(Cause::SystemV, true, says, fix::sysctl(kind, setting)))
}
