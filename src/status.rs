//! `shmguard status`: how things stand now, as text or JSON.

mod json;
mod table;

use std::io::Write;
use std::process::ExitCode;

use shmguard_core::size::Human;
use shmguard_core::trend::Forecast;

use crate::now::{self, Now, Whose};

pub use json::object;
pub use table::{age, cell, holders, where_is};

/// Shows who uses shared memory now.
///
/// Every segment with its name, size, bytes held, where it lies, creator, who holds it and age; totals, targets, and use that
/// no segment explains.
///
/// Looks at the processes that this user may look at: as root at all of them. Never changes anything.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  shmguard status\n  shmguard status --json | jq .totals")]
pub struct Args {
    /// One JSON object; bytes are integers
    #[arg(long)]
    json: bool,

    /// Show at most so many segments (0: all)
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// Shows it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = now::config();
    for complaint in &config.complaints {
        eprintln!("shmguard status: {complaint}");
    }
    let mut objects = Vec::new();
    let mut text = String::new();
    for index in 0..config.guards.len() {
        let now = now::look(&config, index, &Whose::All)?;
        if args.json {
            objects.push(object(&now));
        } else {
            if index > 0 {
                text.push('\n');
            }
            text.push_str(&describe(&now, args.limit));
        }
    }
    if args.json {
        // One guard is what nearly everybody has: then the object itself.
        let value = if objects.len() == 1 { objects.remove(0) } else { serde_json::Value::Array(objects) };
        text = serde_json::to_string_pretty(&value)?;
        text.push('\n');
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The whole page.
fn describe(now: &Now, limit: usize) -> String {
    let mut lines = heading(now);
    let shown = if limit == 0 { now.segments.len() } else { limit.min(now.segments.len()) };
    if now.segments.is_empty() {
        lines.push("no segments".to_owned());
    } else {
        lines.push(String::new());
        lines.extend(table::segments(now, now.segments.get(..shown).unwrap_or(&now.segments)));
    }
    if shown < now.segments.len() {
        lines.push(format!("... and {} more (--limit 0 shows all)", now.segments.len() - shown));
    }
    lines.join("\n") + "\n"
}

/// The totals, a line each.
pub fn heading(now: &Now) -> Vec<String> {
    let mut lines = Vec::new();
    let used = now.space.used;
    let kind = if now.is_ram { "" } else { " (not a tmpfs: nothing is moved out of it)" };
    match now.space.capacity {
        Some(capacity) => lines.push(format!(
            "{}: {} of {} used ({}%), {} promised beyond that, budget {}{kind}",
            now.path,
            Human(used),
            Human(capacity),
            percent(used, capacity),
            Human(now.promised),
            Human(now.budget.unwrap_or(capacity)),
        )),
        None => lines.push(format!("{}: no limit of its own (size=0), use not told by the kernel{kind}", now.path)),
    }
    if let Some(inodes) = now.space.inodes.filter(|inodes| now.space.inodes_free < inodes / 4) {
        lines.push(format!("inodes: only {} of {inodes} left", now.space.inodes_free));
    }
    let peak = &now.peak;
    let mut demand =
        format!("demand now {}: {} in use, {} redirected", Human(now.demand()), Human(used), Human(now.redirected()));
    if peak.demand_peak > 0 {
        demand.push_str(&format!("; peak {}", Human(peak.demand_peak.max(now.demand()))));
    }
    lines.push(demand);
    if let Some(forecast) = &now.forecast {
        lines.push(foreseen(forecast));
    }
    for target in now.targets.iter() {
        match target.medium {
            Some(medium) => lines.push(format!(
                "target {} ({}): holds {}, room for {}{}",
                target.path,
                medium.noun(),
                Human(target.held),
                Human(target.room),
                target.cap.map(|cap| format!(", cap {}", Human(cap))).unwrap_or_default()
            )),
            None => lines.push(format!("target {}: cannot be used", target.path)),
        }
    }
    if now.strangers > 0 {
        let hint = if now.unseen > 0 {
            format!("{} processes of others could not be looked at: try as root", now.unseen)
        } else {
            "deleted files of processes not seen here, or descriptors in flight".to_owned()
        };
        lines.push(format!("strangers: {} in use that no segment found explains ({hint})", Human(now.strangers)));
    }
    let other = now.other;
    if other != now::Other::default() {
        lines.push(format!(
            "shared memory elsewhere: memfd {}, anonymous {}, System V {}",
            Human(other.memfd),
            Human(other.anonymous),
            Human(other.system_v)
        ));
    }
    match (now.memory.cgroup, now.memory.available) {
        (Some(cgroup), _) => lines.push(format!(
            "memory cgroup: limit {}, room for {} (shared memory counts)",
            Human(cgroup.limit),
            Human(cgroup.room)
        )),
        (None, Some(available)) => lines.push(format!("memory: {} available, no cgroup limit", Human(available))),
        (None, None) => {}
    }
    lines
}

/// A forecast in words.
pub fn foreseen(forecast: &Forecast) -> String {
    let (left, watched) = (forecast.left_ms.div_ceil(1000), forecast.watched_ms / 1000);
    format!("full in {left} s if it goes on like this: {} more a second for {watched} s", Human(forecast.rate))
}

/// A share in per cent, rounded down.
pub fn percent(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100).checked_div(u128::from(whole)).unwrap_or(0) as u64
}
