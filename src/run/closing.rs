//! The end of a run: everything that was seen becomes one summary, and at most ten lines of it go to standard error.

use std::path::Path;

use shmguard_core::ledger::Process;
use shmguard_core::size::Human;

use super::deaths::Ended;
use super::watch::Watch;
use super::{explain, Setting};
use crate::now::{self, Now, Place, Whose};
use crate::report::build::Builder;
use crate::report::log::{self, Event, What, Who};
use crate::report::summary::{Large, Memory, Peak, Summary};
use crate::report::text::count;

/// Lines that a summary has at most.
const MOST_LINES: usize = 10;

/// Puts together what the watch, the ledger and the log know. Removes the run's directory.
pub fn summarise(setting: &mut Setting, mut watch: Watch, ended: &Ended) -> Summary {
    let duration = watch.duration();
    let after = now::look(watch.config(), 0, &Whose::All).ok();
    if let Some(now) = &after {
        // A segment that lacks pages and still has its name may be the one that CMD died of.
        watch.evidence.see(now);
    }
    if let Some(record) = &mut watch.record {
        record.end(ended);
    }
    let mut events = read_log(setting, watch.started);
    let who = Who { pid: i64::from(std::process::id()), start: 0, command: "shmguard".into() };
    let begin = What::Run { command: watch.command.clone() };
    events.push(Event { t: watch.started, who, what: begin });
    events.append(&mut watch.samples);
    if !setting.keeps_log {
        // Else they are in the log already.
        events.append(&mut watch.said);
    }
    events.sort_by(|a, b| a.t.total_cmp(&b.t));

    let mut builder = Builder::default();
    let paths = watch.target_paths();
    for (path, (kind, peak)) in paths.iter().zip(watch.target_kinds.iter().zip(&watch.target_peaks)) {
        let target = builder.target(path);
        (target.kind, target.peak_bytes) = (kind.clone(), *peak);
    }
    builder.summary.mode = watch.config().mode.word().to_owned();
    builder.summary.guard.path =
        watch.config().guards.first().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    builder.summary.guard.capacity_bytes = watch.evidence.capacity;
    builder.summary.guard.budget_bytes = watch.evidence.capacity.map(|capacity| watch.config().budget_bytes(capacity));
    builder.partial = !setting.whole_log;
    for event in &events {
        builder.event(event);
    }
    for large in std::mem::take(&mut watch.large) {
        builder.large(large);
    }
    if let Some(now) = after.as_ref().or(watch.last.as_ref()) {
        let sum = totals(&watch, now);
        // A whole log has those that are counted, too.
        watch.evidence.unlinked =
            if setting.whole_log { builder.unlinked.max(sum.unlinked) } else { builder.unlinked + sum.unlinked };
        builder.totals(&sum, &paths);
    }
    if !setting.whole_log {
        add_programs(&mut builder, &mut watch);
    }
    let seen = watch.books.sums().values().map(|sum| sum.created).sum();
    let summary = &mut builder.summary;
    // A process that was killed did not get to write its last numbers.
    summary.segments.created = summary.segments.created.max(seen);
    summary.peak.tmpfs_bytes = summary.peak.tmpfs_bytes.max(watch.evidence.fullest);
    summary.peak.demand_bytes = summary.peak.demand_bytes.max(watch.evidence.fullest);
    match ended {
        Ended::Status(status) => summary.exit = Some(*status),
        Ended::Signal(signal) => summary.signal = Some(*signal),
    }
    summary.duration_s = (duration.as_secs_f64() * 1000.0).round() / 1000.0;
    summary.without_library = std::mem::take(&mut watch.without);
    if let Some(now) = &after {
        summary.segments.leaked = leaked(&watch, now);
    }
    let memory = now::memory();
    let kills = super::evidence::oom_kills().zip(watch.evidence.oom_kills_before);
    summary.memory = Memory {
        cgroup_limit_bytes: memory.cgroup.map(|cgroup| cgroup.limit),
        cgroup_room_bytes: memory.cgroup.map(|cgroup| cgroup.room),
        available_bytes: memory.available,
        oom_kills: kills.map_or(0, |(now, before)| now.saturating_sub(before)),
    };
    explain::explain(&mut builder, &watch, ended);
    if let Some(directory) = setting.directory.take() {
        // What is left there is nobody's: processes that outlive CMD account for themselves from now on.
        let _ = directory.close();
    }
    builder.finish()
}

/// The events of this run; empty when there is no log.
fn read_log(setting: &Setting, started: f64) -> Vec<Event> {
    let Some(directory) = &setting.log else { return Vec::new() };
    let Ok(log) = log::read(directory, |_, _| {}) else { return Vec::new() };
    // A log directory of the user's own may hold earlier runs. The clock of the watch has milliseconds.
    log.events.into_iter().filter(|event| event.t >= started - 0.002).collect()
}

/// Sums over all processes, ended or not.
fn totals(watch: &Watch, now: &Now) -> Process {
    let mut sum = Process::default();
    for ledger in watch.ledgers(now.identity) {
        sum.fold(&ledger.ended());
        for record in ledger.processes() {
            sum.fold(&record);
        }
    }
    sum
}

/// Programs as the ledger had them, where there is no log.
fn add_programs(builder: &mut Builder, watch: &mut Watch) {
    // Many a process is too short for a look; at its end it says what it had.
    for (who, at_s, own) in std::mem::take(&mut builder.ended) {
        if !watch.books.end(who.pid as u64, who.start, own.created, own.bytes) {
            builder.add_program(&who.command, 1, own.created, own.bytes);
        }
        // A look may have come while the segment was being filled.
        builder.program_peak(&who.command, own.largest);
        builder.large(Large {
            name: own.name.into(),
            bytes: own.largest,
            pid: who.pid,
            command: who.command.to_string(),
            place: "guard".to_owned(),
            at_s,
        });
    }
    for (command, sums) in watch.books.sums() {
        builder.add_program(&command, sums.processes, sums.created, sums.bytes);
    }
    for (record, segments) in watch.books.all() {
        let command = String::from_utf8_lossy(&record.command).into_owned();
        for segment in segments {
            let target = (segment.place as usize).checked_sub(1).and_then(|index| watch.config().targets.get(index));
            builder.large(crate::report::summary::Large {
                name: String::from_utf8_lossy(&segment.name).into_owned(),
                bytes: segment.promised,
                pid: record.pid as i64,
                command: command.clone(),
                place: target.map_or_else(|| "guard".to_owned(), |spec| spec.path.to_string_lossy().into_owned()),
                at_s: (segment.created_ms as f64 / 1000.0 - watch.started).max(0.0),
            });
        }
    }
}

/// Names in the guard that were made since the run began and that nobody holds. In a /dev/shm that others use at the same time
/// theirs may be among them.
fn leaked(watch: &Watch, now: &Now) -> u64 {
    let left = now.segments.iter().filter(|segment| {
        segment.named
            && matches!(segment.place, Place::Guard | Place::Target(_))
            && segment.holders.is_empty()
            && segment.created_ms.is_none_or(|created| created as f64 / 1000.0 >= watch.started)
            && !watch.evidence.names_before.contains(&segment.name)
    });
    left.count() as u64
}

/// The summary for a person, fit for a bug report.
pub fn lines(summary: &Summary, report: Option<&Path>) -> String {
    let mut lines = Vec::new();
    let how = match (summary.exit, summary.signal) {
        (_, Some(signal)) => format!("was ended by {}", super::signal_name(signal)),
        (Some(status), _) => format!("ended with status {status}"),
        _ => "ended".to_owned(),
    };
    let command = shorten(&summary.command.join(" "), 60);
    let peak = &summary.peak;
    let used = summary.processes > 0 || summary.segments.created > 0 || !summary.programs.is_empty();
    let head = format!("{command} {how} after {:.1} s", summary.duration_s);
    if used {
        lines.push(match summary.processes {
            0 => head,
            processes => format!("{head}; {} used shared memory", count(processes, "process", "es")),
        });
    } else if summary.mode == "off" {
        // Nobody counted, and no look saw any.
        lines.push(head);
    } else {
        lines.push(format!("{head}; {} was not used", summary.guard.path));
    }
    lines.extend(summary.explanation.iter().take(3).cloned());
    if used {
        let size = match summary.guard.capacity_bytes {
            Some(capacity) => {
                format!("{} large, budget {}", Human(capacity), Human(summary.guard.budget_bytes.unwrap_or(capacity)))
            }
            None => "no limit".to_owned(),
        };
        let mut line = format!(
            "peak demand {}: {}{} in {} ({size})",
            Human(peak.demand_bytes),
            at_most(peak),
            Human(peak.tmpfs_bytes),
            summary.guard.path
        );
        let targets = crate::report::text::targets(summary);
        if !targets.is_empty() {
            line.push_str(&format!(", {}{} redirected to {targets}", at_most(peak), Human(peak.redirected_bytes)));
        }
        lines.push(line);
        lines.push(crate::report::text::segments(summary));
        let programs = crate::report::text::programs(summary, 3);
        if !programs.is_empty() {
            lines.push(format!("by program: {programs}"));
        }
        if let Some(first) = summary.warnings.first() {
            let text = first.text.strip_prefix("shmguard: ").unwrap_or(&first.text);
            let number = count(summary.warnings.len() as u64, "warning", "s");
            let word = if summary.warnings.len() > 1 { ", the first" } else { "" };
            lines.push(format!("{number}{word}: {}", shorten(text, 120)));
        }
        lines.push(crate::report::text::advice(summary));
        lines.push(crate::report::text::caution(summary));
    }
    let others = peak.memfd_bytes.saturating_add(peak.anonymous_bytes).saturating_add(peak.sysv_bytes);
    if others > 1 << 20 && lines.len() < MOST_LINES {
        lines.push(format!(
            "memory shared by other means, peaks: memfd {}, anonymous {}, System V {}",
            Human(peak.memfd_bytes),
            Human(peak.anonymous_bytes),
            Human(peak.sysv_bytes)
        ));
    }
    if let Some(without) = summary.without_library.first().filter(|_| lines.len() < MOST_LINES) {
        let more = summary.without_library.len() - 1;
        let more = if more > 0 { format!(", and {more} more programs") } else { String::new() };
        lines.push(format!("without the library: {} ({}){more}", without.program, without.reason));
    }
    if let Some(path) = report.filter(|_| lines.len() < MOST_LINES) {
        lines.push(format!("report: {}", path.display()));
    }
    lines.truncate(MOST_LINES);
    lines.iter().map(|line| format!("shmguard: {}\n", printable(line))).collect()
}

/// Said before each part where the parts had their peaks at different moments, so that they do not add up.
fn at_most(peak: &Peak) -> &'static str {
    let sum = peak.tmpfs_bytes.saturating_add(peak.redirected_bytes);
    if sum > peak.demand_bytes.saturating_add(peak.demand_bytes / 20) {
        "at most "
    } else {
        ""
    }
}

/// The beginning of a text.
fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 3).chain("...".chars()).collect()
}

/// One line whatever somebody's names contain.
fn printable(line: &str) -> String {
    line.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::{Death, Program, Warning};

    #[test]
    fn never_more_than_ten_lines() {
        let mut summary = Summary {
            command: vec!["x\ny".repeat(100)],
            signal: Some(7),
            explanation: vec!["because".to_owned(); 9],
            programs: vec![Program::default(); 50],
            warnings: vec![Warning { text: "w".repeat(500), ..Warning::default() }; 100],
            deaths: vec![Death::default(); 50],
            ..Summary::default()
        };
        summary.peak.demand_bytes = 1 << 40;
        summary.processes = 7;
        summary.peak.memfd_bytes = 1 << 40;
        summary.without_library = vec![Default::default(); 5];
        let text = lines(&summary, Some(Path::new("/report.html")));
        assert!(text.lines().count() <= MOST_LINES, "{text}");
        assert!(text.lines().all(|line| line.starts_with("shmguard: ")), "{text}");
    }

    #[test]
    fn a_program_without_shared_memory_gets_one_line() {
        let summary = Summary { command: vec!["true".to_owned()], exit: Some(0), ..Summary::default() };
        assert_eq!(lines(&summary, None).lines().count(), 1);
    }
}
