//! What is seen while CMD runs: everything a few times a second, within a twentieth of one processor's time.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shmguard_core::config::{Config, Mode};
use shmguard_core::ledger::Ledger;
use shmguard_core::process::{self, Owner};

use super::books::Books;
use super::deaths::Killed;
use super::evidence::{Evidence, Limits};
use super::forecast::Forecaster;
use super::record::Record;
use super::Setting;
use crate::now::{self, Now, Place, Whose};
use crate::report::log::{Event, Sample, What, Who};
use crate::report::summary::{Large, Without};

/// Pauses between looks.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);
/// A look may take this part of a processor's time.
const SHARE: u32 = 20;
/// Samples kept; the summary's timeline is thinner anyway.
const SAMPLES: usize = 20_000;

/// Commands of processes that are remembered.
const COMMANDS: usize = 10_000;

/// What has been seen.
pub struct Watch {
    config: Config,
    library: PathBuf,
    /// Below it the machine's settings are read.
    pub root: PathBuf,
    me: Owner,
    /// Seconds since 1970 at the start.
    pub started: f64,
    start: Instant,
    /// What was started.
    pub command: Vec<String>,
    /// Samples as events, in the order of time.
    pub samples: Vec<Event>,
    /// What this command said.
    pub said: Vec<Event>,
    /// Processes of the ledger, as last seen.
    pub books: Books,
    /// Large segments that were seen.
    pub large: Vec<Large>,
    /// Most bytes seen in each target.
    pub target_peaks: Vec<u64>,
    /// Kinds of targets.
    pub target_kinds: Vec<String>,
    /// The last look at the guard.
    pub last: Option<Now>,
    /// The fullest look at the guard.
    pub evidence: Evidence,
    /// Processes that a signal ended.
    pub killed: Vec<Killed>,
    /// Programs that run without the library.
    pub without: Vec<Without>,
    suspects: HashMap<i32, u64>,
    /// Commands of processes as last seen.
    commands: HashMap<i32, String>,
    limits: Limits,
    forecaster: Forecaster,
    /// The run's lines in the user's own log.
    pub record: Option<Record>,
}

impl Watch {
    /// Begins to watch.
    pub fn new(setting: &Setting, command: Vec<OsString>) -> Watch {
        let mut watch = Watch {
            config: setting.config.clone(),
            library: setting.library.clone(),
            root: setting.root.clone(),
            me: Owner::current(),
            started: now::wall_ms() as f64 / 1000.0,
            start: Instant::now(),
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            samples: Vec::new(),
            said: Vec::new(),
            books: Books::default(),
            large: Vec::new(),
            target_peaks: vec![0; setting.config.targets.len()],
            target_kinds: Vec::new(),
            last: None,
            evidence: Evidence::default(),
            killed: Vec::new(),
            without: Vec::new(),
            suspects: HashMap::new(),
            commands: HashMap::new(),
            limits: Limits::read(),
            forecaster: Forecaster::default(),
            record: None,
        };
        if let Some(log) = setting.log.as_deref().filter(|_| setting.keeps_log) {
            watch.record = Record::begin(log, watch.me.start, watch.started, &watch.command);
        }
        watch.evidence.oom_kills_before = super::evidence::oom_kills();
        if let Ok(before) = now::look(&watch.config, 0, &Whose::Of(&[])) {
            watch.evidence.used_before = before.space.used;
            watch.evidence.names_before =
                before.segments.iter().filter(|segment| segment.named).map(|segment| segment.name.clone()).collect();
            watch.target_kinds = before
                .targets
                .iter()
                .map(|target| target.medium.map_or_else(|| "unknown".to_owned(), |medium| medium.word().to_owned()))
                .collect();
        } else {
            watch.evidence.no_guard = true;
        }
        watch
    }

    /// How long it has run.
    pub fn duration(&self) -> Duration {
        self.start.elapsed()
    }

    /// A program that runs without the library.
    pub fn without_library(&mut self, program: &Path, reason: &str) {
        let without = Without { program: program.display().to_string(), reason: reason.to_owned() };
        if !self.without.contains(&without) && self.without.len() < 20 {
            if let Some(record) = &mut self.record {
                record.without(&without.program, reason);
            }
            self.without.push(without);
        }
    }

    /// Looks at everything; returns how long to wait until the next look.
    pub fn look(&mut self) -> Duration {
        let before = cpu_time();
        match now::look(&self.config, 0, &Whose::Below(self.me.pid)) {
            Ok(now) => {
                self.limits.look(&now.pids, &mut self.evidence);
                self.take(now);
            }
            Err(_) => self.evidence.no_guard = true,
        }
        (cpu_time().saturating_sub(before) * (SHARE - 1)).clamp(SHORTEST, LONGEST)
    }

    fn take(&mut self, now: Now) {
        self.read_ledgers(&now);
        if self.commands.len() > COMMANDS {
            self.commands.retain(|pid, _| now.pids.contains(pid));
        }
        for pid in &now.pids {
            if let Some(command) = now::command_of(*pid) {
                self.commands.insert(*pid, command);
            }
        }
        self.evidence.see(&now);
        for (peak, target) in self.target_peaks.iter_mut().zip(&now.targets) {
            *peak = (*peak).max(target.held);
        }
        let mut programs: BTreeMap<String, u64> = BTreeMap::new();
        for segment in now.segments.iter().filter(|one| matches!(one.place, Place::Guard | Place::Target(_))) {
            // Others may use the same directory: ours is what the run's processes hold, its ledger has, or came since.
            let young = segment.created_ms.is_some_and(|created| created as f64 / 1000.0 >= self.started);
            if segment.holders.is_empty() && !segment.in_ledger && !young {
                continue;
            }
            let creator = segment.creator.as_ref().map(|creator| match creator.command.as_str() {
                "" => self.command_of_the_dead(creator.pid),
                command => command.to_owned(),
            });
            let holder = segment.holders.first().and_then(|holder| self.commands.get(&holder.pid).cloned());
            let known = [creator, holder].into_iter().flatten().find(|name| !name.is_empty());
            let Some(command) = known.or_else(|| segment.named.then(|| "(gone)".to_owned())) else { continue };
            *programs.entry(command.clone()).or_insert(0) += segment.wanted(&self.config);
            let pid = segment.creator.as_ref().map(|creator| creator.pid);
            let pid = pid.or_else(|| segment.holders.first().map(|holder| holder.pid));
            let place = match segment.place {
                Place::Target(index) => now.targets.get(index).map_or("target", |target| target.path.as_str()),
                _ => "guard",
            };
            let at_s = self.start.elapsed().as_secs_f64();
            self.note_large(Large {
                name: segment.name.clone(),
                bytes: segment.promised,
                pid: i64::from(pid.unwrap_or(0)),
                command,
                place: place.to_owned(),
                at_s: (at_s * 1000.0).round() / 1000.0,
            });
        }
        self.foretell(&now, &programs);
        let sample = Sample {
            used: now.space.used.min(now.fill),
            promised: now.fill.saturating_sub(now.space.used),
            redirected: now.redirected(),
            programs,
            memfd: now.other.memfd,
            anonymous: now.other.anonymous,
            sysv: now.other.system_v,
        };
        if let Some(record) = &mut self.record {
            record.sample(&sample);
        }
        let who = Who { pid: i64::from(self.me.pid), start: self.me.start, command: "shmguard".into() };
        self.samples.push(Event { t: now.at_ms as f64 / 1000.0, who, what: What::Sample(Box::new(sample)) });
        if self.samples.len() > SAMPLES {
            self.thin();
        }
        if self.config.mode != Mode::Off {
            self.look_for_library(&now);
        }
        self.last = Some(now);
    }

    /// Says when it will be full, if that is foreseen and nobody has said it.
    fn foretell(&mut self, now: &Now, programs: &BTreeMap<String, u64>) {
        let largest =
            programs.iter().max_by_key(|(_, bytes)| **bytes).map(|(command, bytes)| (command.as_str(), *bytes));
        let ledgers = self.ledgers(now.identity);
        let Some(line) = self.forecaster.take(now, &ledgers, largest) else { return };
        if !self.config.quiet {
            let _ = std::io::stderr().write_all(line.bytes());
        }
        let text = line.as_str().trim_end();
        if let Some(record) = &mut self.record {
            record.warn("forecast", !self.config.quiet, text);
        }
        let who = Who { pid: i64::from(self.me.pid), start: self.me.start, command: "shmguard".into() };
        let what = What::Warn { kind: "forecast".into(), text: text.into() };
        self.said.push(Event { t: now.at_ms as f64 / 1000.0, who, what });
    }

    /// Of two neighbours the higher one stays.
    fn thin(&mut self) {
        let height = |event: &Event| match &event.what {
            What::Sample(sample) => sample.used.saturating_add(sample.redirected).saturating_add(sample.promised),
            _ => u64::MAX,
        };
        let mut samples = std::mem::take(&mut self.samples).into_iter();
        while let Some(first) = samples.next() {
            match samples.next() {
                Some(second) if height(&second) > height(&first) => self.samples.push(second),
                _ => self.samples.push(first),
            }
        }
    }

    fn note_large(&mut self, large: Large) {
        if let Some(known) = self.large.iter_mut().find(|known| known.name == large.name && known.pid == large.pid) {
            known.bytes = known.bytes.max(large.bytes);
            return;
        }
        self.large.push(large);
        if self.large.len() > 64 {
            self.large.sort_by_key(|large| std::cmp::Reverse(large.bytes));
            self.large.truncate(16);
        }
    }

    /// The command of a process that is gone, if it was seen while it lived.
    fn command_of_the_dead(&self, pid: i32) -> String {
        match self.books.of(i64::from(pid)) {
            Some((record, _)) => String::from_utf8_lossy(&record.command).into_owned(),
            None => self.commands.get(&pid).cloned().unwrap_or_default(),
        }
    }

    /// The ledgers of this run.
    pub fn ledgers(&self, guard: shmguard_core::segment::Identity) -> Vec<Ledger> {
        if self.config.run.is_none() {
            return Vec::new();
        }
        now::find_ledgers(&self.config, guard, &self.me)
    }

    fn read_ledgers(&mut self, now: &Now) {
        self.books.begin_look();
        for ledger in self.ledgers(now.identity) {
            for record in ledger.processes() {
                let segments = ledger.segments(&record);
                self.books.see(record, segments);
            }
        }
        self.books.end_look();
    }

    /// Processes in which the library is not. Seen twice without it: between exec and the loader's work there is a moment.
    fn look_for_library(&mut self, now: &Now) {
        let mut suspects = HashMap::new();
        for pid in now.pids.iter().filter(|pid| !now.with_library.contains(pid)) {
            let Some(start) = process::start_of(*pid) else { continue };
            let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else { continue };
            let name = program.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
            if !self.config.applies_to(&name) || !has_maps(*pid) {
                continue;
            }
            if self.suspects.get(pid) == Some(&start) {
                let reason = super::elf::obstacle(&program, Some(&self.library), Path::new("/")).map_or_else(
                    || "its environment has no LD_PRELOAD, or the loader refused it".to_owned(),
                    |obstacle| obstacle.to_string(),
                );
                self.without_library(&program, &reason);
            }
            suspects.insert(*pid, start);
        }
        self.suspects = suspects;
    }

    /// A signal ended a process.
    pub fn killed(&mut self, killed: Killed) {
        if let Some(identity) = self.last.as_ref().map(|now| now.identity) {
            // Its record is there until somebody sweeps it.
            for ledger in self.ledgers(identity) {
                for record in ledger.processes().into_iter().filter(|record| record.pid == killed.pid as u64) {
                    let segments = ledger.segments(&record);
                    self.books.see(record, segments);
                }
            }
        }
        self.evidence.glance(&self.config);
        if let Some(record) = self.record.as_mut().filter(|_| matches!(killed.signal, libc::SIGBUS | libc::SIGKILL)) {
            record.killed(killed.pid, killed.signal);
        }
        if self.killed.len() < 100 {
            self.killed.push(killed);
        }
    }

    /// Paths of the targets.
    pub fn target_paths(&self) -> Vec<String> {
        self.config.targets.iter().map(|spec| spec.path.to_string_lossy().into_owned()).collect()
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// What this thread has used of the processor: on a loaded machine a look lasts long without costing much.
fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// A process between fork and the end of exec, or a zombie, shows no mappings.
fn has_maps(pid: i32) -> bool {
    fs::read(PathBuf::from(format!("/proc/{pid}/maps"))).is_ok_and(|maps| !maps.is_empty())
}
