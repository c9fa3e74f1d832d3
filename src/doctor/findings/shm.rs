//! The guarded directory: is it there, large enough, and not full of leftovers?

use shmguard_core::policy::suggested_capacity;
use shmguard_core::size::Human;

use super::{finding, fix, Cause, Finding, SMALL};
use crate::doctor::facts::Wrong;
use crate::doctor::Patient;

/// A size to recommend: what is needed, else 8 GiB but no more than half of the memory, in whole GiB.
fn recommended(patient: &Patient) -> u64 {
    match patient.need {
        Some(need) => suggested_capacity(need),
        None => patient.memory.whole().map_or(8 << 30, |whole| (whole / 2) >> 30 << 30).clamp(1 << 30, 8 << 30),
    }
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte));
    if plain {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

pub(super) fn no_dev_shm(patient: &Patient) -> Option<Finding> {
    let path = &patient.shm.path;
    let kind = patient.kind();
    let bytes = recommended(patient);
    let (says, fix) = match patient.shm.wrong.as_ref()? {
        Wrong::Missing => {
            (format!("there is no {path}: shm_open fails with ENOENT"), fix::mount_shm(kind, path, bytes))
        }
        Wrong::NotADirectory => {
            (format!("{path} is no directory, or a link that leads nowhere"), fix::mount_shm(kind, path, bytes))
        }
        Wrong::NotTmpfs(other) => (
            format!("{path} is no tmpfs but lies on {other}: segments are files of that file system"),
            fix::mount_shm(kind, path, bytes),
        ),
        Wrong::ReadOnly => (
            format!("{path} is mounted read-only: nothing can be created in it"),
            vec![format!("mount -o remount,rw {path}")],
        ),
        Wrong::NotWritable => {
            (format!("this user may not create files in {path}"), vec![format!("as root:  chmod 1777 {path}")])
        }
    };
    Some(finding(Cause::NoDevShm, true, says, fix))
}

pub(super) fn bytes(patient: &Patient) -> Option<Finding> {
    let shm = &patient.shm;
    let capacity = shm.capacity_bytes?;
    let free = capacity.saturating_sub(shm.used_bytes);
    if shm.percent_used() < 90 || shm.wrong.is_some() {
        return None;
    }
    let says = format!(
        "{} is {} % full: {} of {} are used, {} are left",
        shm.path,
        shm.percent_used(),
        Human(shm.used_bytes),
        Human(capacity),
        Human(free)
    );
    let mut lines = vec!["`shmguard status` shows which segments, and who holds them".to_owned()];
    // Where it is small as well, the fix stands there.
    if size(patient).is_none() {
        lines.extend(fix::larger_shm(patient.kind(), &shm.path, recommended(patient).max(capacity.saturating_mul(2))));
    }
    Some(finding(Cause::Bytes, true, says, lines))
}

pub(super) fn size(patient: &Patient) -> Option<Finding> {
    let shm = &patient.shm;
    let (capacity, budget) = (shm.capacity_bytes?, shm.budget_bytes?);
    if shm.wrong.is_some() {
        return None;
    }
    let says = match patient.need {
        Some(need) if need.saturating_add(shm.used_bytes) > budget => format!(
            "{} has {}, of which {} may be used and {} are: {} do not fit",
            shm.path,
            Human(capacity),
            Human(budget),
            Human(shm.used_bytes),
            Human(need)
        ),
        Some(_) => return None,
        None if capacity < SMALL && patient.memory.whole().is_none_or(|whole| capacity < whole / 4) => format!(
            "{} has {}: little for programs that pass data between processes (a PyTorch DataLoader with workers, NCCL, \
             browsers). `shmguard estimate` says how much yours needs",
            shm.path,
            Human(capacity)
        ),
        None => return None,
    };
    let redirects = patient.library.preloaded && patient.usable_target().is_some();
    if redirects {
        let says = format!("{says}. The library is preloaded here and redirects what does not fit");
        return Some(finding(Cause::Size, false, says, Vec::new()));
    }
    let kind = patient.kind();
    let mut lines = fix::larger_shm(kind, &shm.path, recommended(patient));
    if let Some(target) = patient.usable_target() {
        lines.push(if lines.is_empty() {
            format!("{} gives no way to make it larger. Set in the environment", kind.words())
        } else {
            "or, where that is not yours to change, set in the environment".into()
        });
        lines.push(format!("(what does not fit then goes to {target}):"));
        let library =
            patient.library.path.as_ref().map_or("/usr/lib/libshmguard.so".into(), |path| path.display().to_string());
        lines.push(fix::variable(&library));
    }
    Some(finding(Cause::Size, true, says, lines))
}

pub(super) fn inodes(patient: &Patient) -> Option<Finding> {
    let shm = &patient.shm;
    let (all, free) = (shm.inodes?, shm.inodes_free?);
    if free >= all / 20 && free >= 32 {
        return None;
    }
    let says = format!(
        "{} has {free} of {all} inodes left: creating a segment fails with ENOSPC although bytes are free",
        shm.path
    );
    let capacity = shm.capacity_bytes.unwrap_or(1 << 30);
    Some(finding(Cause::Inodes, true, says, fix::inodes(patient.kind(), &shm.path, capacity)))
}

pub(super) fn stale(patient: &Patient) -> Option<Finding> {
    let bytes: u64 = patient.stale.iter().map(|file| file.bytes).sum();
    let noticeable = patient.shm.capacity_bytes.map_or(1 << 30, |capacity| capacity / 10);
    if bytes < (1 << 20) && bytes < noticeable {
        return None;
    }
    let names: Vec<String> = patient
        .stale
        .iter()
        .take(3)
        .map(|file| format!("{} ({}, uid {}, {} s old)", file.name, Human(file.bytes), file.uid, file.age_s))
        .collect();
    let more = patient.stale.len().saturating_sub(3);
    let says = format!(
        "{} in {} are held by no process that can be seen here: {}{}",
        Human(bytes),
        patient.shm.path,
        names.join(", "),
        if more > 0 { format!(" and {more} more") } else { String::new() }
    );
    let paths: Vec<String> =
        patient.stale.iter().take(3).map(|file| quoted(&format!("{}/{}", patient.shm.path, file.name))).collect();
    let mut lines = vec![format!("rm {}", paths.join(" "))];
    lines.push("first make sure that no process outside of this container or machine uses them".into());
    Some(finding(Cause::StaleSegments, bytes >= noticeable, says, lines))
}
