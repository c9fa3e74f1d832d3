//! Why it died: which process, which signal, which segment, how full, and which of the causes it was. Only what there is
//! evidence for.

use shmguard_core::config::{margin, Mode};
use shmguard_core::size::{Flag, Human};

use super::deaths::Ended;
use super::evidence::Unfilled;
use super::signals;
use super::watch::Watch;
use crate::report::build::Builder;
use crate::report::summary::Death;
use crate::report::text::count;

/// Adds deaths and their explanation to the summary.
pub fn explain(builder: &mut Builder, watch: &Watch, ended: &Ended) {
    let mut deaths: Vec<Death> = watch
        .killed
        .iter()
        .map(|killed| Death {
            at_s: ((killed.t - watch.started) * 1000.0).round().max(0.0) / 1000.0,
            pid: i64::from(killed.pid),
            command: killed.command.clone(),
            signal: killed.signal,
            ..Death::default()
        })
        .collect();
    for (at_s, pid, signal) in &builder.children {
        if deaths.iter().any(|death| death.pid == *pid) {
            continue;
        }
        let record = watch.books.of(*pid);
        let command = builder.command_of(*pid).map(str::to_owned);
        let command = command.or(record.map(|(record, _)| String::from_utf8_lossy(&record.command).into_owned()));
        let command = command.unwrap_or_default();
        deaths.push(Death { at_s: *at_s, pid: *pid, command, signal: *signal, ..Death::default() });
    }
    deaths.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));

    let mut lines: Vec<String> = Vec::new();
    for death in &mut deaths {
        let line = match death.signal {
            libc::SIGBUS => bus(builder, watch, death),
            libc::SIGKILL => kill(builder, death),
            _ => continue,
        };
        // Many workers die of the same thing: the first is told.
        if lines.is_empty() {
            lines.push(line);
        }
    }
    let same = deaths.iter().filter(|death| matches!(death.signal, libc::SIGBUS | libc::SIGKILL)).count();
    if same > 1 {
        if let Some(line) = lines.first_mut() {
            let more = count(same as u64 - 1, "process", "es");
            line.push_str(&format!(" (and {more} more)"));
        }
    }
    let failed = !matches!(ended, Ended::Status(0) | Ended::Signal(libc::SIGINT | libc::SIGTERM | libc::SIGHUP));
    if failed && lines.is_empty() {
        lines.extend(other_causes(builder, watch));
    }
    // Both hints of a summary name one size.
    if lines.iter().any(|line| line.contains("--shm-size")) {
        builder.wanted = wanted(builder, watch);
    }
    builder.summary.deaths = deaths;
    builder.summary.explanation = lines;
}

/// SIGBUS: a page that could not be had, or a file cut short.
fn bus(builder: &mut Builder, watch: &Watch, death: &mut Death) -> String {
    let evidence = &watch.evidence;
    let who = format!("{}[{}] died of {}", death.command, death.pid, signals::name(death.signal));
    let path = builder.summary.guard.path.clone();
    // What it had when last seen; else what lacks pages and nobody has any more.
    let lacking = |of: &dyn Fn(&&Unfilled) -> bool| {
        evidence.unfilled.iter().filter(of).max_by_key(|segment| segment.promised - segment.held)
    };
    let lacking = lacking(&|segment| segment.pids.contains(&(death.pid as i32)))
        .or_else(|| lacking(&|segment| segment.pids.is_empty() && !evidence.names_before.contains(&segment.name)));
    let recorded = watch.books.of(death.pid).and_then(|(_, segments)| {
        let open = segments.iter().filter(|segment| segment.place == 0 && segment.reserved < segment.promised);
        open.max_by_key(|segment| segment.created_ms)
    });
    let overflow = builder.overflows.iter().rev().find(|overflow| overflow.who.pid == death.pid);
    let segment = match (lacking, recorded, overflow) {
        (Some(segment), _, _) => Some(format!(
            "{} ({} promised, {} held when last seen)",
            shown(&segment.name),
            Human(segment.promised),
            Human(segment.held)
        )),
        (None, Some(segment), _) => Some(format!(
            "{} ({} promised, not reserved)",
            shown(&String::from_utf8_lossy(&segment.name)),
            Human(segment.promised)
        )),
        (None, None, Some(overflow)) => {
            Some(format!("{} ({} promised)", shown(&overflow.segment), Human(overflow.bytes)))
        }
        _ => None,
    };
    death.segment = lacking
        .map(|segment| segment.name.clone())
        .or(recorded.map(|segment| String::from_utf8_lossy(&segment.name).into_owned()))
        .or(overflow.map(|overflow| overflow.segment.to_string()));
    let full = was_full(watch);
    let stale = evidence.capacity.is_some_and(|capacity| evidence.used_before > capacity / 2);
    if !full && !stale && segment.is_none() {
        "none".clone_into(&mut death.cause);
        let free =
            evidence.least_free.map_or_else(|| "room".to_owned(), |free| format!("at least {} free", Human(free)));
        return format!(
            "{who}. Shared memory does not seem to be the cause ({path} had {free}): a mapped file that was cut short ends so too"
        );
    }
    // A page could not be had: whatever the looks saw, all of it and this segment were wanted at once.
    let promised = lacking
        .map(|segment| segment.promised)
        .or(recorded.map(|segment| segment.promised))
        .or(overflow.map(|overflow| overflow.bytes));
    if let (false, Some(capacity), Some(promised)) = (stale, evidence.capacity, promised) {
        // One that is larger than everything may have been alone; the other bytes beside a smaller one filled the rest.
        let others = if promised < capacity { capacity } else { 0 };
        builder.wanted = builder.wanted.max(promised.saturating_add(others));
    }
    let fits = |capacity: u64| evidence.fullest.saturating_add(promised.unwrap_or(0)) <= capacity;
    let fill = match evidence.capacity {
        // No look came in time: what it saw would contradict.
        Some(capacity) if !full && !stale && fits(capacity) => {
            format!("({} large) had no page left, which was over too soon to be seen", Human(capacity))
        }
        Some(capacity) if full => format!("was full ({} of {} in use)", Human(evidence.fullest), Human(capacity)),
        // Its pages are freed as it dies, before anybody can look.
        Some(capacity) => {
            format!(
                "had no room for all of it ({} large, {} in use when last seen)",
                Human(capacity),
                Human(evidence.fullest)
            )
        }
        None => format!("has no limit ({} in use); memory itself was short", Human(evidence.fullest)),
    };
    let touched = segment.map(|segment| format!(" as it touched {segment}")).unwrap_or_default();
    death.cause = if stale { "stale" } else { "bytes" }.to_owned();
    let cause = if stale {
        format!(
            "; {} of that were there before it started: segments of others or of dead runs (shmguard status, shmguard clean)",
            Human(evidence.used_before)
        )
    } else {
        String::new()
    };
    format!("{who}{touched}: {path} {fill}{cause}. {}", remedy(builder, watch))
}

/// SIGKILL: the memory cgroup, or somebody.
fn kill(builder: &Builder, death: &mut Death) -> String {
    let who = format!("{}[{}] died of SIGKILL", death.command, death.pid);
    let memory = &builder.summary.memory;
    if memory.oom_kills > 0 {
        "memory".clone_into(&mut death.cause);
        let limit = memory.cgroup_limit_bytes.map_or_else(|| "?".to_owned(), |limit| Human(limit).to_string());
        return format!(
            "{who}: the memory cgroup (limit {limit}) was out of memory; shared memory counts against it. Raise the limit \
             (docker run -m, Kubernetes limits.memory), or redirect to a disk (SHMGUARD_REDIRECT)"
        );
    }
    "unknown".clone_into(&mut death.cause);
    format!("{who}: by somebody's kill, or by the machine's out-of-memory killer (dmesg tells); this memory cgroup has killed nobody")
}

/// It failed without such a signal: what else was short?
fn other_causes(builder: &Builder, watch: &Watch) -> Option<String> {
    let evidence = &watch.evidence;
    let path = &builder.summary.guard.path;
    let warned = |kind: &str| builder.summary.warnings.iter().find(|warning| warning.what == kind);
    let near = |used: u64, limit: u64| limit > 0 && u128::from(used) * 100 >= u128::from(limit) * 95;
    if evidence.no_guard {
        return Some(format!(
            "{path} was not there: POSIX shared memory cannot work. Mount one: mount -t tmpfs -o size=1g,mode=1777 tmpfs {path}"
        ));
    }
    if builder.summary.memory.oom_kills > 0 {
        let limit = builder.summary.memory.cgroup_limit_bytes.unwrap_or(0);
        return Some(format!("the memory cgroup (limit {}) was out of memory and killed a process", Human(limit)));
    }
    if let Some(line) = removed_by_others(watch, path) {
        return Some(line);
    }
    if let Some((0, inodes)) = evidence.inodes {
        return Some(format!(
            "{path} had no inode left ({inodes} files), whatever it had in bytes: remove stale files or mount it with a larger nr_inodes"
        ));
    }
    if let Some(warning) =
        warned("inodes").or_else(|| warned("descriptors")).or_else(|| warned("mappings")).or_else(|| warned("guard"))
    {
        return Some(warning.text.strip_prefix("shmguard: ").unwrap_or(&warning.text).to_owned());
    }
    if let Some((command, used, limit)) = evidence.descriptors.as_ref().filter(|(_, used, limit)| near(*used, *limit)) {
        return Some(format!(
            "{command} had {used} of {limit} descriptors open: that, not bytes, was probably short. ulimit -n {}, or in PyTorch \
             torch.multiprocessing.set_sharing_strategy('file_system')",
            limit.saturating_mul(16).max(65536)
        ));
    }
    if let Some((command, used, limit)) = evidence.maps.as_ref().filter(|(_, used, limit)| near(*used, *limit)) {
        return Some(format!(
            "{command} had {used} mappings, vm.max_map_count is {limit}: that was probably short. sysctl -w vm.max_map_count={}",
            limit.saturating_mul(4)
        ));
    }
    let segments = &builder.summary.segments;
    if segments.refused > 0 {
        return Some(format!(
            "{} segments were refused with ENOSPC (SHMGUARD_MODE=refuse). {}",
            segments.refused,
            remedy(builder, watch)
        ));
    }
    if let Some(overflow) = builder.overflows.last() {
        return Some(format!(
            "{} ({}) did not fit into {path} and could not be moved: {}. {}",
            shown(&overflow.segment),
            Human(overflow.bytes),
            overflow.why,
            remedy(builder, watch)
        ));
    }
    if was_full(watch) {
        let capacity = evidence.capacity.unwrap_or(0);
        return Some(format!(
            "{path} was full ({} of {} in use at the fullest seen), which may have been the cause. {}",
            Human(evidence.fullest),
            Human(capacity),
            remedy(builder, watch)
        ));
    }
    None
}

/// Names that went although nobody of the run removed so many. Who was killed, or runs without the library, may have removed
/// some without being counted: then nothing is said.
fn removed_by_others(watch: &Watch, path: &str) -> Option<String> {
    let evidence = &watch.evidence;
    let first = evidence.vanished.first()?;
    if evidence.vanished.len() as u64 <= evidence.unlinked || !watch.killed.is_empty() || !watch.without.is_empty() {
        return None;
    }
    let names = match evidence.vanished.len() {
        1 => format!("the name of {} vanished from {path} while it was in use", shown(first)),
        several => format!("{several} names, {} the first, vanished from {path} while they were in use", shown(first)),
    };
    Some(match crate::doctor::removes_ipc(&watch.root) {
        Some(source) => format!(
            "{names}, and no process of this run removed it: systemd-logind does so when the last session of a user ends \
             ({source}). sudo loginctl enable-linger USER, or RemoveIPC=no in /etc/systemd/logind.conf"
        ),
        None => format!("{names}, and no process of this run removed it: somebody else did (another job, a clean-up)"),
    })
}

/// Was there too little left to touch a page? What is freed by a death is gone before anybody looks, so nearly full counts.
fn was_full(watch: &Watch) -> bool {
    let evidence = &watch.evidence;
    let Some(capacity) = evidence.capacity.filter(|capacity| *capacity > 0) else { return false };
    evidence.least_free.is_some_and(|free| free < (margin(capacity) / 4).max(64 << 10))
}

/// Bytes wanted at once, with what was never had.
fn wanted(builder: &Builder, watch: &Watch) -> u64 {
    // What a segment still lacked when it was last seen was wanted too, also where it died before it had it.
    let evidence = &watch.evidence;
    let promised = evidence.unfilled.iter().map(|segment| segment.promised).max().unwrap_or(0);
    let overflow = builder.overflows.iter().map(|overflow| overflow.bytes).max().unwrap_or(0);
    builder.summary.peak.demand_bytes.max(evidence.wanted).max(promised).max(overflow).max(builder.wanted)
}

fn remedy(builder: &Builder, watch: &Watch) -> String {
    let size = Flag(shmguard_core::policy::suggested_capacity(wanted(builder, watch)));
    let config = watch.config();
    if !watch.without.is_empty() && config.mode == Mode::Redirect {
        return format!("The library was not in it. --shm-size={size} (docker) or more");
    }
    match config.mode {
        Mode::Redirect if config.targets.is_empty() => {
            format!("SHMGUARD_REDIRECT=/var/tmp, or --shm-size={size} (docker) or more")
        }
        Mode::Redirect => format!("--shm-size={size} (docker) or more"),
        _ => format!("SHMGUARD_MODE=redirect, or --shm-size={size} (docker) or more"),
    }
}

fn shown(name: &str) -> &str {
    if name.is_empty() {
        "a nameless segment"
    } else {
        name
    }
}
