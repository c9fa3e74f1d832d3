//! From numbers to causes: what is wrong here, and what to do about it.

use serde::Serialize;
use shmguard_core::policy::suggested_capacity;
use shmguard_core::size::Human;

use super::environment::Kind;
use super::facts::Wrong;
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
/// The limit of descriptors that every Linux has had as its default; PyTorch keeps one open for each tensor in flight.
const DESCRIPTORS: u64 = 1024;
/// The kernel's default (DEFAULT_MAX_MAP_COUNT).
const MAPS: u64 = 65530;
/// The kernel's default for kernel.shmmni.
const SYSV_SEGMENTS: u64 = 4096;

/// Everything that there is to say, what needs a fix first.
pub fn find(patient: &Patient) -> Vec<Finding> {
    let mut findings: Vec<Finding> = [
        no_dev_shm(patient),
        bytes(patient),
        size(patient),
        inodes(patient),
        stale(patient),
        memory(patient),
        descriptors(patient),
        maps(patient),
        file_size(patient),
        remove_ipc(patient),
        system_v(patient),
        library(patient),
        targets(patient),
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

/// A size to recommend: what is needed, else 8 GiB but no more than half of the memory, in whole GiB.
fn recommended(patient: &Patient) -> u64 {
    match patient.need {
        Some(need) => suggested_capacity(need),
        None => patient.memory.whole().map_or(8 << 30, |whole| (whole / 2) >> 30 << 30).clamp(1 << 30, 8 << 30),
    }
}

fn no_dev_shm(patient: &Patient) -> Option<Finding> {
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

fn bytes(patient: &Patient) -> Option<Finding> {
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

fn size(patient: &Patient) -> Option<Finding> {
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
            format!("{} gives no way to make it larger; set in the environment:", kind.words())
        } else {
            "or, where that is not yours to change, in the environment:".into()
        });
        let library =
            patient.library.path.as_ref().map_or("/usr/lib/libshmguard.so".into(), |path| path.display().to_string());
        lines.extend(fix::variables(&library, target));
    }
    Some(finding(Cause::Size, true, says, lines))
}

fn inodes(patient: &Patient) -> Option<Finding> {
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

fn stale(patient: &Patient) -> Option<Finding> {
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

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte));
    if plain {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

fn memory(patient: &Patient) -> Option<Finding> {
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

fn descriptors(patient: &Patient) -> Option<Finding> {
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

fn maps(patient: &Patient) -> Option<Finding> {
    let most = patient.limits.max_map_count.filter(|most| *most < MAPS)?;
    let says = format!("vm.max_map_count is {most}: mmap fails with ENOMEM (\"Cannot allocate memory\") beyond that");
    Some(finding(Cause::MaxMapCount, true, says, fix::sysctl(patient.kind(), "vm.max_map_count=262144")))
}

fn file_size(patient: &Patient) -> Option<Finding> {
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

fn remove_ipc(patient: &Patient) -> Option<Finding> {
    let found = &patient.remove_ipc;
    let explicit = found.set_by.as_ref().filter(|_| found.on);
    if !found.on || (explicit.is_none() && !(found.logind && found.concerns_us)) {
        return None;
    }
    let source = match explicit {
        Some(file) => format!("RemoveIPC=yes in {file}"),
        None => "systemd-logind's default RemoveIPC=yes".into(),
    };
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

fn system_v(patient: &Patient) -> Option<Finding> {
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

fn library(patient: &Patient) -> Option<Finding> {
    let library = &patient.library;
    if let Some(path) = &library.dangling {
        let says = format!("LD_PRELOAD names {}, which is not there: programs run without it", path.display());
        let lines = vec![match &library.path {
            Some(found) => format!("LD_PRELOAD={}", found.display()),
            None => "put libshmguard.so there, or take it out of LD_PRELOAD".into(),
        }];
        return Some(finding(Cause::Library, true, says, lines));
    }
    let reason = library.reason.as_ref()?;
    let lines = match &library.path {
        _ if library.loads == Some(true) => return None,
        None if library.loads.is_some() => vec!["put libshmguard.so beside this command or in /usr/lib".into()],
        _ => vec!["such programs run as without the library; give them a larger /dev/shm".into()],
    };
    Some(finding(Cause::Library, true, format!("the library does not load: {reason}"), lines))
}

fn targets(patient: &Patient) -> Option<Finding> {
    if patient.usable_target().is_some() || !patient.redirects {
        return None;
    }
    let reasons: Vec<String> = patient
        .targets
        .iter()
        .map(|target| format!("{}: {}", target.path, target.unusable.as_deref().unwrap_or("cannot be used")))
        .collect();
    let says = format!("nothing can be redirected: {}", reasons.join("; "));
    let lines = match patient.kind() {
        Kind::Docker => {
            vec!["docker run --tmpfs /tmp:size=2g ...   or -v /scratch:/scratch -e SHMGUARD_REDIRECT=/scratch".into()]
        }
        Kind::Kubernetes => vec!["an emptyDir volume, mounted on /tmp or named by SHMGUARD_REDIRECT".into()],
        _ => vec!["SHMGUARD_REDIRECT=DIRECTORY   (a directory on a disk or on a larger tmpfs)".into()],
    };
    // Where segments fit, a missing target is a thing to know.
    let small = patient.shm.capacity_bytes.is_some_and(|capacity| capacity < SMALL);
    Some(finding(Cause::Targets, small, says, lines))
}
