//! `shmguard metrics`: the numbers of `status` as OpenMetrics text.
//!
//! Only gauges and counters, no time stamps: so it is also read by Prometheus's older parser, which the node exporter's
//! textfile collector uses (it knows neither `info` nor `stateset`, and refuses time stamps).

mod text;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use shmguard_core::config::Config;

use crate::now::{self, Now, Place, Whose};
use text::{Family, Page};

/// Prints the same numbers as status in OpenMetrics text.
///
/// With --output the file is replaced in one step, as the node exporter's textfile collector wants it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  shmguard metrics
  shmguard metrics --output /var/lib/prometheus/node-exporter/shmguard.prom")]
pub struct Args {
    /// Write to this file, in one step, instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Prints or writes the page.
///
/// # Errors
/// The file or standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let page = page(&now::config());
    match &args.output {
        Some(path) => replace(path, page.as_bytes())?,
        None => std::io::stdout().write_all(page.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts `content` at `path` in one step, readable for all: never half a page.
fn replace(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let shown = path.display();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A name that does not end in .prom, so that the collector passes over it.
    let mut file = tempfile::Builder::new()
        .prefix(".shmguard-metrics-")
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .with_context(|| format!("cannot write into {}", directory.display()))?;
    file.write_all(content).with_context(|| format!("cannot write {shown}"))?;
    // The umask may have taken the reading away.
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.persist(path).with_context(|| format!("cannot replace {shown}"))?;
    Ok(())
}

/// The whole page, for all guarded directories of the configuration.
pub fn page(config: &Config) -> String {
    let mut page = Page::new();
    let build = page.gauge("shmguard_build_info", "The version of the shmguard command; always 1.", None);
    build.add(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let up = "Whether the guarded directory is a tmpfs that can be looked at.";
    let mut nows = Vec::new();
    for (index, path) in config.guards.iter().enumerate() {
        let now = now::look(config, index, &Whose::All).ok().filter(|now| now.is_ram);
        page.gauge("shmguard_guard_up", up, None).add(&[("guard", &path.to_string_lossy())], u64::from(now.is_some()));
        nows.extend(now);
    }
    for now in &nows {
        guard(&mut page, now);
        segments(&mut page, now);
        targets(&mut page, now);
        counters(&mut page, now);
    }
    memory(&mut page, &nows);
    page.finish()
}

fn guard(page: &mut Page, now: &Now) {
    let labels: &[(&str, &str)] = &[("guard", &now.path)];
    let mut bytes = |name: &str, help: &str, value: Option<u64>| {
        if let Some(value) = value {
            page.gauge(&format!("shmguard_{name}_bytes"), help, Some("bytes")).add(labels, value);
        }
    };
    bytes("guard_capacity", "Size of the guarded tmpfs; missing when it has no limit.", now.space.capacity);
    bytes("guard_used", "Bytes used in the guarded tmpfs.", Some(now.space.used));
    bytes("guard_promised", "Bytes that kept segments were promised beyond what they hold.", Some(now.promised));
    bytes("guard_budget", "Fill from which on new segments are redirected.", now.budget);
    bytes("guard_strangers", "Bytes used in the guarded tmpfs that no visible segment explains.", Some(now.strangers));
    bytes("redirected", "Bytes that redirected segments hold in all targets.", Some(now.redirected()));
    bytes("demand", "Bytes wanted now: used, promised and redirected.", Some(now.demand()));
    bytes("guard_used_peak", "Most bytes used since the current run began, by the ledger.", Some(now.peak.tmpfs_peak));
    bytes("redirected_peak", "Most bytes redirected since the current run began.", Some(now.peak.redirected_peak));
    bytes("demand_peak", "Most bytes wanted at once since the current run began.", Some(now.peak.demand_peak));
    if now.space.inodes.is_some() {
        let inodes = page.gauge("shmguard_guard_inodes_free", "Inodes left in the guarded tmpfs.", None);
        inodes.add(labels, now.space.inodes_free);
    }
    if let Some(inodes) = now.space.inodes {
        page.gauge("shmguard_guard_inodes", "Inodes of the guarded tmpfs.", None).add(labels, inodes);
    }
    let holders = page.gauge("shmguard_processes", "Processes that hold segments or have created some.", None);
    holders.add(labels, now.processes.len() as u64);
}

fn segments(page: &mut Page, now: &Now) {
    let places = [
        ("guard", now.segments.iter().filter(|segment| segment.place == Place::Guard).count()),
        ("target", now.segments.iter().filter(|segment| matches!(segment.place, Place::Target(_))).count()),
    ];
    let help = "Segments that exist now, by where their bytes are.";
    for (place, count) in places {
        page.gauge("shmguard_segments", help, None).add(&[("guard", &now.path), ("place", place)], count as u64);
    }
}

fn targets(page: &mut Page, now: &Now) {
    for target in &now.targets {
        let kind = target.medium.map_or("none", |medium| medium.word());
        let labels = [("guard", now.path.as_str()), ("target", target.path.as_str()), ("kind", kind)];
        let held = page.gauge("shmguard_target_held_bytes", "Bytes of segments in a target.", Some("bytes"));
        held.add(&labels, target.held);
        let help = "Bytes that a new segment may take in a target; missing when it has no limit.";
        if target.room < u64::MAX {
            page.gauge("shmguard_target_room_bytes", help, Some("bytes")).add(&labels, target.room);
        }
    }
}

/// Sums of the ledger; they begin anew when the last process that used the guard has gone.
fn counters(page: &mut Page, now: &Now) {
    let labels: &[(&str, &str)] = &[("guard", &now.path)];
    let peak = &now.peak;
    for (name, help, value) in [
        ("segments_created", "Segments created, by the ledger of the current run.", peak.created),
        ("segments_redirected", "Segments that went to a target.", peak.redirected),
        ("segments_refused", "Segments refused with ENOSPC.", peak.refused),
        ("segments_unsaved", "Segments that did not fit and could not be moved.", peak.unsaved),
        ("warnings", "Warnings given.", peak.warnings),
    ] {
        page.counter(&format!("shmguard_{name}"), help, None).add(labels, value);
    }
    for (name, help, value) in [
        ("created_bytes", "Bytes of all segments that were sized.", peak.bytes_created),
        ("redirected_segments_bytes", "Bytes of all segments that were redirected.", peak.bytes_redirected),
    ] {
        page.counter(&format!("shmguard_{name}"), help, Some("bytes")).add(labels, value);
    }
}

fn memory(page: &mut Page, nows: &[Now]) {
    let room = now::memory();
    let mut bytes = |name: &str, help: &str, value: Option<u64>| {
        if let Some(value) = value {
            page.gauge(&format!("shmguard_memory_{name}_bytes"), help, Some("bytes")).add(&[], value);
        }
    };
    bytes("available", "Memory that the machine can still hand out.", room.available);
    bytes("limit", "The narrowest limit of a memory cgroup.", room.cgroup.map(|cgroup| cgroup.limit));
    bytes(
        "limit_room",
        "What is left below that limit, page cache counted as free.",
        room.cgroup.map(|cgroup| cgroup.room),
    );
    let Some(now) = nows.first() else { return };
    let help = "Memory shared by other means than the guarded directory.";
    for (kind, value) in [("memfd", now.other.memfd), ("anonymous", now.other.anonymous), ("sysv", now.other.system_v)]
    {
        let family: &mut Family = page.gauge("shmguard_other_shared_bytes", help, Some("bytes"));
        family.add(&[("kind", kind)], value);
    }
}
