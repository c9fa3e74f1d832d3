//! Makes a summary of events: peaks, programs, largest segments, and demand over time.

use std::collections::{BTreeMap, HashMap, HashSet};

use shmguard_core::ledger::Process;
use shmguard_core::policy::{demand_of_stream, suggested_capacity};

use super::lives::Lives;
use super::log::{Event, Own, Sample, Size, What, Who};
use super::summary::{Large, Point, Program, Summary, Target, Timeline, Warning};

/// Large segments that are named in a summary.
const LARGEST: usize = 10;
/// Warnings that are kept.
const WARNINGS: usize = 1000;

/// A summary in the making. Events must come in the order of time.
#[derive(Default)]
pub struct Builder {
    /// What is known so far; the caller may add what it knows better.
    pub summary: Summary,
    first: Option<f64>,
    last: f64,
    processes: HashSet<(i64, u64)>,
    programs: HashMap<String, Program>,
    /// Removals of names that the log tells.
    pub unlinked: u64,
    by_process: HashSet<(String, i64, u64)>,
    names: HashMap<Box<str>, i64>,
    sized: HashSet<(u64, u64, Box<str>)>,
    /// Samples, and sizings that tell what was redirected then.
    measured: Timeline,
    /// Sizings of versions of the library that did not tell.
    guessed: Timeline,
    lives: Lives,
    /// Least that was in the guard before one of our segments: what is not the programs' own.
    baseline: Option<u64>,
    /// The log holds only what went wrong: it tells neither numbers nor a timeline.
    pub partial: bool,
    /// Ends that parents learnt of: (time, child, signal).
    pub children: Vec<(f64, i64, i32)>,
    /// Sizings that did not fit and stayed, or were refused.
    pub overflows: Vec<Overflow>,
    commands: HashMap<i64, String>,
    /// In a partial log: processes that ended by themselves, when, and what they had sized.
    pub ended: Vec<(Who, f64, Own)>,
    /// Bytes that were wanted at once and never had, where something died of it: the suggestion counts them.
    pub wanted: u64,
}

/// A sizing that did not fit and stayed, or was refused.
pub struct Overflow {
    /// The process.
    pub who: Who,
    /// The segment's name.
    pub segment: Box<str>,
    /// What it asked for.
    pub bytes: u64,
    /// Why it could not be moved.
    pub why: Box<str>,
}

impl Builder {
    /// Seconds from the first event on.
    fn since(&self, t: f64) -> f64 {
        // Microseconds are what the log has.
        ((t - self.first.unwrap_or(t)) * 1e6).round() / 1e6
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        self.first.get_or_insert(event.t);
        self.last = self.last.max(event.t);
        let is_run = &*event.who.command == "shmguard";
        if !is_run {
            self.commands.insert(event.who.pid, event.who.command.to_string());
        }
        match &event.what {
            What::Start { guard, capacity, budget, targets } => {
                self.processes.insert((event.who.pid, event.who.start));
                if self.summary.guard.path.is_empty() {
                    self.summary.guard.path.clone_from(guard);
                }
                let known = &mut self.summary.guard;
                known.capacity_bytes = known.capacity_bytes.or(*capacity);
                known.budget_bytes = known.budget_bytes.or(*budget);
                for path in targets {
                    self.target(path);
                }
            }
            What::Create { name } => {
                self.summary.segments.created += 1;
                if !name.is_empty() {
                    *self.names.entry(name.clone()).or_insert(0) += 1;
                }
            }
            What::Size(size) => self.size(event, size),
            What::Unlink { name } => {
                self.unlinked += 1;
                self.names.remove(name);
            }
            What::Warn { kind, text } => {
                let warning = Warning {
                    at_s: self.since(event.t),
                    pid: event.who.pid,
                    command: event.who.command.to_string(),
                    what: kind.to_string(),
                    text: text.to_string(),
                };
                if self.summary.warnings.len() < WARNINGS {
                    self.summary.warnings.push(warning);
                }
            }
            What::Child { pid, signal } => self.children.push((self.since(event.t), *pid, *signal)),
            What::Exit { tmpfs, redirected, demand, own } => {
                let at = self.since(event.t);
                self.peak(*tmpfs, *redirected, *demand, at);
                if let Some(own) = own.as_ref().filter(|_| self.partial) {
                    self.ended.push((event.who.clone(), at, Own::clone(own)));
                }
            }
            What::Without { program, reason } => {
                let without = super::summary::Without { program: program.clone(), reason: reason.clone() };
                if !self.summary.without_library.contains(&without) {
                    self.summary.without_library.push(without);
                }
            }
            What::Run { command } => self.summary.command.clone_from(command),
            What::Sample(sample) => self.sample(event.t, sample),
            What::End { exit, signal } => (self.summary.exit, self.summary.signal) = (*exit, *signal),
        }
    }

    fn size(&mut self, event: &Event, size: &Size) {
        let at = self.since(event.t);
        let command = event.who.command.to_string();
        let fresh = self.sized.insert((size.file.0, size.file.1, size.name.clone()));
        let growth = if fresh { size.bytes } else { size.bytes.saturating_sub(size.before) };
        if !self.partial {
            let program = self.programs.entry(command.clone()).or_default();
            program.segments += u64::from(fresh);
            program.bytes = program.bytes.saturating_add(growth);
            if self.by_process.insert((command.clone(), event.who.pid, event.who.start)) {
                program.processes += 1;
            }
        }
        let redirected_before =
            size.redirected.unwrap_or_else(|| size.demand.saturating_sub(size.used.saturating_add(size.promised)));
        let mut point = Point {
            t_s: at,
            tmpfs_bytes: size.used,
            promised_bytes: size.promised,
            redirected_bytes: redirected_before,
            programs: BTreeMap::new(),
        };
        match &*size.decision {
            "redirect" => {
                self.summary.segments.redirected += u64::from(fresh);
                point.redirected_bytes = point.redirected_bytes.saturating_add(growth);
                if let Some(path) = &size.target {
                    self.target(path);
                }
            }
            "refuse" => {
                self.summary.segments.refused += 1;
                // It was wanted all the same.
                self.peak(0, 0, point.demand().saturating_add(growth), at);
            }
            decision => {
                // What is reserved is in use at once, what is not is promised: the sum is the same.
                point.promised_bytes = point.promised_bytes.saturating_add(growth);
                if decision == "overflow" {
                    self.summary.segments.unsaved += 1;
                }
            }
        }
        if matches!(&*size.decision, "refuse" | "overflow") {
            self.overflows.push(Overflow {
                who: event.who.clone(),
                segment: size.name.clone(),
                bytes: size.bytes,
                why: size.why.clone(),
            });
        }
        if &*size.decision != "refuse" {
            self.lives.shrink_to(point.demand().saturating_sub(growth));
            self.lives.add(&command, growth);
            self.large(Large {
                name: size.name.to_string(),
                bytes: size.bytes,
                pid: event.who.pid,
                command,
                place: size.target.clone().unwrap_or_else(|| "guard".to_owned()),
                at_s: at,
            });
        }
        let fill = size.used.saturating_add(size.promised);
        let baseline = self.baseline.map_or(fill, |known| known.min(fill));
        self.baseline = Some(baseline);
        point.programs = self.lives.by_program(point.demand().saturating_sub(baseline));
        self.peak(point.tmpfs_bytes, 0, point.demand(), at);
        if self.partial {
            return;
        }
        if size.redirected.is_some() {
            self.peak(0, point.redirected_bytes, 0, at);
            self.measured.push(point);
        } else {
            self.guessed.push(point);
        }
    }

    /// Everything at one moment, measured by `run`.
    pub fn sample(&mut self, t: f64, sample: &Sample) {
        self.first.get_or_insert(t);
        self.last = self.last.max(t);
        let at = self.since(t);
        let point = Point {
            t_s: at,
            tmpfs_bytes: sample.used,
            promised_bytes: sample.promised,
            redirected_bytes: sample.redirected,
            programs: sample.programs.clone(),
        };
        self.peak(sample.used, sample.redirected, point.demand(), at);
        let peak = &mut self.summary.peak;
        peak.memfd_bytes = peak.memfd_bytes.max(sample.memfd);
        peak.anonymous_bytes = peak.anonymous_bytes.max(sample.anonymous);
        peak.sysv_bytes = peak.sysv_bytes.max(sample.sysv);
        self.measured.push(point);
    }

    /// A large segment that was seen.
    pub fn large(&mut self, large: Large) {
        let all = &mut self.summary.largest;
        if all.len() >= LARGEST && all.last().is_some_and(|least| least.bytes >= large.bytes) {
            return;
        }
        if let Some(known) = all.iter_mut().find(|known| known.name == large.name && known.pid == large.pid) {
            if large.bytes > known.bytes {
                *known = large;
            }
        } else {
            all.push(large);
        }
        all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.at_s.total_cmp(&b.at_s)));
        all.truncate(LARGEST);
    }

    /// What the ledger summed up.
    pub fn totals(&mut self, totals: &Process, targets: &[String]) {
        let at = if totals.demand_peak_ms > 0 { self.since(totals.demand_peak_ms as f64 / 1000.0) } else { 0.0 };
        self.peak(totals.tmpfs_peak, totals.redirected_peak, totals.demand_peak, at);
        let segments = &mut self.summary.segments;
        segments.created = segments.created.max(totals.created);
        segments.redirected = segments.redirected.max(totals.redirected);
        segments.refused = segments.refused.max(totals.refused);
        segments.unsaved = segments.unsaved.max(totals.unsaved);
        self.summary.processes = self.summary.processes.max(totals.processes);
        for (index, (path, peak)) in targets.iter().zip(totals.target_peaks).enumerate() {
            let target = self.target(path);
            target.peak_bytes = target.peak_bytes.max(peak);
            if target.kind.is_empty() && totals.ram_targets & (1 << index) != 0 {
                "ram".clone_into(&mut target.kind);
            }
        }
        let guard = &mut self.summary.guard;
        guard.capacity_bytes = guard.capacity_bytes.or((totals.capacity > 0).then_some(totals.capacity));
        guard.budget_bytes = guard.budget_bytes.or((totals.budget > 0).then_some(totals.budget));
    }

    /// The entry of a target.
    pub fn target(&mut self, path: &str) -> &mut Target {
        let all = &mut self.summary.targets;
        let index = all.iter().position(|target| target.path == path).unwrap_or_else(|| {
            all.push(Target { path: path.to_owned(), ..Target::default() });
            all.len() - 1
        });
        &mut all[index]
    }

    /// A program as the ledger had it, where there is no log.
    pub fn add_program(&mut self, command: &str, processes: u64, segments: u64, bytes: u64) {
        let program = self.programs.entry(command.to_owned()).or_default();
        program.processes = program.processes.saturating_add(processes);
        program.segments = program.segments.saturating_add(segments);
        program.bytes = program.bytes.saturating_add(bytes);
    }

    /// A program's segments took at least so much at one moment.
    pub fn program_peak(&mut self, command: &str, bytes: u64) {
        let program = self.programs.entry(command.to_owned()).or_default();
        program.peak_bytes = program.peak_bytes.max(bytes);
    }

    /// Deaths as parents learnt of them, for a report without a run.
    pub fn deaths_from_log(&mut self) {
        for (at_s, pid, signal) in std::mem::take(&mut self.children) {
            let overflow = self.overflows.iter().rev().find(|overflow| overflow.who.pid == pid);
            let segment = overflow.map(|overflow| overflow.segment.to_string());
            let cause = if segment.is_some() { "bytes" } else { "unknown" }.to_owned();
            let command = self.commands.get(&pid).cloned().unwrap_or_default();
            self.summary.deaths.push(super::summary::Death { at_s, pid, command, signal, cause, segment });
        }
    }

    /// The command of a process that wrote events.
    pub fn command_of(&self, pid: i64) -> Option<&str> {
        self.commands.get(&pid).map(String::as_str)
    }

    fn peak(&mut self, tmpfs: u64, redirected: u64, demand: u64, at: f64) {
        let peak = &mut self.summary.peak;
        peak.tmpfs_bytes = peak.tmpfs_bytes.max(tmpfs);
        peak.redirected_bytes = peak.redirected_bytes.max(redirected);
        if demand > peak.demand_bytes {
            peak.demand_bytes = demand;
            peak.demand_at_s = Some(at.max(0.0));
        }
    }

    /// The summary. Durations and leaks are those of the log unless the caller has set them.
    pub fn finish(mut self) -> Summary {
        let measured = self.measured.into_points();
        let points = if measured.is_empty() { self.guessed.into_points() } else { measured };
        let mut summary = self.summary;
        summary.started_s = self.first.unwrap_or(0.0);
        if summary.duration_s == 0.0 {
            summary.duration_s = ((self.last - self.first.unwrap_or(self.last)) * 1000.0).round() / 1000.0;
        }
        summary.processes = summary.processes.max(self.processes.len() as u64);
        for point in &points {
            for (command, bytes) in &point.programs {
                let program = self.programs.entry(command.clone()).or_default();
                program.peak_bytes = program.peak_bytes.max(*bytes);
            }
        }
        summary.programs = self.programs.into_iter().map(|(command, program)| Program { command, ..program }).collect();
        summary.programs.retain(|program| program.segments > 0 || program.peak_bytes > 0);
        summary.programs.sort_by(|a, b| {
            b.peak_bytes.cmp(&a.peak_bytes).then(b.bytes.cmp(&a.bytes)).then_with(|| a.command.cmp(&b.command))
        });
        if summary.segments.leaked == 0 && summary.exit.is_none() && summary.signal.is_none() {
            summary.segments.leaked = self.names.len() as u64;
        }
        for target in &mut summary.targets {
            if target.kind.is_empty() {
                target.kind = kind(&target.path);
            }
        }
        if summary.command.is_empty() {
            summary.command = summary.programs.iter().map(|program| program.command.clone()).collect();
        }
        const MIB: u64 = 1 << 20;
        let demand = summary.peak.demand_bytes;
        let wanted = match self.wanted {
            0 => {
                let largest = summary.largest.iter().map(|large| large.bytes).max().unwrap_or(0);
                demand_of_stream(demand, summary.segments.created, largest)
            }
            // Something died before it had what it wanted: the explanation names the same size.
            wanted => demand.max(wanted),
        };
        summary.suggested_shm_size = suggested_capacity(wanted).div_ceil(MIB).saturating_mul(MIB);
        summary.timeline = points;
        summary
    }
}

/// What a target is made of, looked at now.
fn kind(path: &str) -> String {
    let Ok(path) = std::ffi::CString::new(path) else { return "unknown".to_owned() };
    shmguard_core::target::Directory::open(&path, Default::default())
        .map_or_else(|_| "unknown".to_owned(), |directory| directory.medium.word().to_owned())
}

#[cfg(test)]
mod tests;
