//! The summary in words, for a terminal and for the lines of `run`.

use shmguard_core::message::Cure;
use shmguard_core::size::{Flag, Human};

use super::summary::{Point, Summary};
use crate::run::signal_name;

/// Rows of the timeline.
const ROWS: usize = 16;
/// Columns of its bars.
const BAR: usize = 40;

/// The whole report.
pub fn page(summary: &Summary) -> String {
    let mut lines = Vec::new();
    let how = match (summary.exit, summary.signal) {
        (_, Some(signal)) => format!("ended by {}", signal_name(signal)),
        (Some(status), _) => format!("ended with status {status}"),
        _ => "end not in the log".to_owned(),
    };
    lines.push(format!("{}: {how}, {:.1} s", summary.command.join(" "), summary.duration_s));
    lines.extend(summary.explanation.iter().cloned());
    let guard = &summary.guard;
    let size = guard.capacity_bytes.map_or_else(|| "no limit".to_owned(), |bytes| Human(bytes).to_string());
    lines.push(format!(
        "peak demand {}: {} in {} ({size}), {} redirected",
        Human(summary.peak.demand_bytes),
        Human(summary.peak.tmpfs_bytes),
        guard.path,
        Human(summary.peak.redirected_bytes)
    ));
    let targets = targets(summary);
    if !targets.is_empty() {
        lines.push(format!("targets: {targets}"));
    }
    lines.push(segments(summary));
    lines.push(advice(summary));
    if summary.memory.available_bytes.is_some() {
        lines.push(caution(summary));
    }
    if !summary.timeline.is_empty() {
        lines.push(String::new());
        lines.extend(timeline(summary));
    }
    if !summary.programs.is_empty() {
        lines.push(String::new());
        lines.push(format!(
            "{:<24} {:>9} {:>9} {:>12} {:>12}",
            "PROGRAM", "PROCESSES", "SEGMENTS", "PEAK", "SIZED IN ALL"
        ));
        for program in &summary.programs {
            lines.push(format!(
                "{:<24} {:>9} {:>9} {:>12} {:>12}",
                program.command,
                program.processes,
                program.segments,
                Human(program.peak_bytes).to_string(),
                Human(program.bytes).to_string()
            ));
        }
    }
    if !summary.largest.is_empty() {
        lines.push(String::new());
        lines.push(format!("{:<34} {:>10} {:<20} {}", "LARGEST SEGMENTS", "SIZE", "BY", "WHERE"));
        for large in &summary.largest {
            let name = if large.name.is_empty() { "(nameless)" } else { &large.name };
            lines.push(format!(
                "{:<34} {:>10} {:<20} {}",
                cut(name, 34),
                Human(large.bytes).to_string(),
                format!("{}[{}]", large.command, large.pid),
                if large.place == "guard" { &guard.path } else { &large.place }
            ));
        }
    }
    if !summary.warnings.is_empty() {
        lines.push(String::new());
        lines.push("WARNINGS".to_owned());
        for warning in &summary.warnings {
            let text = warning.text.strip_prefix("shmguard: ").unwrap_or(&warning.text);
            lines.push(format!("{:>8.1} s  {text}", warning.at_s));
        }
    }
    if !summary.deaths.is_empty() {
        lines.push(String::new());
        lines.push("DEATHS".to_owned());
        for death in &summary.deaths {
            lines.push(format!(
                "{:>8.1} s  {}[{}] by {}",
                death.at_s,
                death.command,
                death.pid,
                signal_name(death.signal)
            ));
        }
    }
    lines.iter().map(|line| plain(line.trim_end()) + "\n").collect()
}

/// A line without control characters: names are chosen by others, and a terminal obeys them.
fn plain(line: &str) -> String {
    line.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

/// At most `width` characters of a name.
fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Demand over time, a bar for each of at most [`ROWS`] stretches: `#` in the guard, `+` redirected.
fn timeline(summary: &Summary) -> Vec<String> {
    let span = summary.timeline.last().map_or(0.0, |point| point.t_s);
    let most = summary.timeline.iter().map(Point::demand).max().unwrap_or(0).max(1);
    let mut rows: Vec<Option<&Point>> = vec![None; ROWS];
    for point in &summary.timeline {
        let row = if span > 0.0 { ((point.t_s / span) * (ROWS as f64 - 1.0)) as usize } else { 0 };
        if let Some(row) = rows.get_mut(row) {
            if row.is_none_or(|known| point.demand() > known.demand()) {
                *row = Some(point);
            }
        }
    }
    let mut lines = vec![format!("DEMAND OVER TIME (# in {}, + redirected)", summary.guard.path)];
    for point in rows.into_iter().flatten() {
        let columns = |bytes: u64| (u128::from(bytes) * BAR as u128).div_ceil(u128::from(most)) as usize;
        let all = columns(point.demand());
        let here = columns(point.tmpfs_bytes.saturating_add(point.promised_bytes)).min(all);
        lines.push(format!(
            "{:>8.1} s {:>10} {}{}",
            point.t_s,
            Human(point.demand()).to_string(),
            "#".repeat(here),
            "+".repeat(all - here)
        ));
    }
    lines
}

/// Targets that were used, with their kind and peak.
pub fn targets(summary: &Summary) -> String {
    let used: Vec<_> = summary.targets.iter().filter(|target| target.peak_bytes > 0).collect();
    let words = used.iter().map(|target| {
        let kind = match target.kind.as_str() {
            "ram" => "memory",
            "layer" => "the container's own layer",
            kind => kind,
        };
        if used.len() > 1 {
            format!("{} ({kind}, {})", target.path, Human(target.peak_bytes))
        } else {
            format!("{} ({kind})", target.path)
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A number and its noun.
pub fn count(number: u64, noun: &str, plural: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { plural })
}

/// Numbers of segments, and the largest.
pub fn segments(summary: &Summary) -> String {
    let segments = &summary.segments;
    let mut line = match summary.mode.as_str() {
        "off" => "segments are not counted in mode off".to_owned(),
        _ => format!("{}, {} redirected", count(segments.created, "segment", "s"), segments.redirected),
    };
    for (number, word) in
        [(segments.refused, "refused"), (segments.unsaved, "could not be helped"), (segments.leaked, "left behind")]
    {
        if number > 0 {
            line.push_str(&format!(", {number} {word}"));
        }
    }
    let large = summary.largest.iter().filter(|large| large.bytes > 0).take(2).map(|large| {
        let name = if large.name.is_empty() { "a nameless one" } else { &large.name };
        let command = if large.command.is_empty() { "?" } else { &large.command };
        format!("{name} {} of {command}[{}]", Human(large.bytes), large.pid)
    });
    let large = large.collect::<Vec<_>>().join(", ");
    if !large.is_empty() {
        line.push_str(&format!("; largest: {large}"));
    }
    line
}

/// The programs with the highest peaks; not those that never had a byte, because what they asked for was refused.
pub fn programs(summary: &Summary, most: usize) -> String {
    let had: Vec<_> = summary.programs.iter().filter(|program| program.peak_bytes > 0).collect();
    let mut words: Vec<String> = had
        .iter()
        .take(most)
        .map(|program| {
            let processes = if program.processes > 1 { format!(" x {}", program.processes) } else { String::new() };
            format!("{}{processes} {}", program.command, Human(program.peak_bytes))
        })
        .collect();
    if had.len() > most {
        words.push(format!("and {} more", had.len() - most));
    }
    words.join(", ")
}

/// What the suggested size is good for, by what this run had to bear.
pub fn aim(summary: &Summary) -> &'static str {
    let segments = &summary.segments;
    match (segments.redirected, segments.refused) {
        (1.., 0) => "to do without redirection",
        (1.., 1..) => "to do without redirection and refusal",
        (0, 1..) => "to have nothing refused",
        (0, 0) => "to have room for all",
    }
}

/// What to ask for, in docker's, compose's and Kubernetes' words; or that what there is suffices.
pub fn advice(summary: &Summary) -> String {
    let size = summary.suggested_shm_size;
    let enough = summary.guard.capacity_bytes.is_none_or(|capacity| capacity >= size);
    let segments = &summary.segments;
    let failed = summary.signal.is_some() || summary.exit.is_some_and(|status| status != 0);
    if enough && failed && summary.mode == "off" {
        return format!(
            "whether {} was large enough is not known: in mode off only what it held now and then was seen, {} at most; \
             --mode observe counts what is asked for",
            summary.guard.path,
            Human(summary.peak.demand_bytes)
        );
    }
    if enough && [segments.redirected, segments.refused, segments.unsaved] == [0; 3] {
        return format!("{} is large enough: {} would do", summary.guard.path, Human(size));
    }
    let died = !summary.explanation.is_empty() || summary.signal.is_some();
    let demand = summary.peak.demand_bytes;
    let budget = summary.guard.budget_bytes.unwrap_or(u64::MAX);
    if !died && (Cure { demand, capacity: summary.guard.capacity_bytes, budget }).is_budget() {
        return format!(
            "{}: SHMGUARD_BUDGET={}; {} has {}",
            aim(summary),
            Flag(demand),
            summary.guard.path,
            Human(summary.guard.capacity_bytes.unwrap_or(0))
        );
    }
    // Less than there is was not enough: the margin, or what others held.
    let least = summary.guard.capacity_bytes.map_or(0, |capacity| capacity.saturating_add(1 << 20));
    let size = size.max(least);
    let flag = Flag(size);
    let kubernetes = if size.is_multiple_of(1 << 30) {
        format!("{}Gi", size >> 30)
    } else {
        format!("{}Mi", size.div_ceil(1 << 20))
    };
    let until =
        if died { "what it wanted until it died would fit with".to_owned() } else { format!("{}:", aim(summary)) };
    format!(
        "{until} --shm-size={flag} (docker), shm_size: {flag} (compose), sizeLimit: {kubernetes} (Kubernetes: \
         emptyDir, medium: Memory, at {})",
        summary.guard.path
    )
}

/// That shared memory counts against the memory limit, with this container's numbers.
pub fn caution(summary: &Summary) -> String {
    let memory = &summary.memory;
    let path = &summary.guard.path;
    match (memory.cgroup_limit_bytes, memory.available_bytes) {
        (Some(limit), _) => format!(
            "{path} counts against the memory limit: {} here, {} left now; what is redirected to a disk does not",
            Human(limit),
            Human(memory.cgroup_room_bytes.unwrap_or(0))
        ),
        (None, Some(available)) => format!(
            "{path} is memory and counts against a container's memory limit: there is none here, the machine has {} left",
            Human(available)
        ),
        (None, None) => format!("{path} is memory and counts against a container's memory limit"),
    }
}

#[cfg(test)]
mod hostile_names {
    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(super::plain("a\x1b[31m\nshmguard: b\x7f"), "a\u{fffd}[31m\u{fffd}shmguard: b\u{fffd}");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(super::cut("abcdef", 6), "abcdef");
        assert_eq!(super::cut("abcdefg", 6), "abcde…");
    }
}
