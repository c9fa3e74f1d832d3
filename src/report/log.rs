//! Reads the log: every `*.jsonl` of a directory, a JSON object a line. `docs/log.md` describes the fields.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::{bail, Context};
use serde::Deserialize;

/// One line as it is written. Fields that a kind does not have are absent; unknown ones are passed over, so that an older
/// command reads a newer log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    t: f64,
    ev: String,
    pid: i64,
    start: u64,
    ppid: i64,
    comm: String,
    seg: String,
    dev: u64,
    ino: u64,
    target: Option<String>,
    bytes: u64,
    before: u64,
    decision: String,
    used: u64,
    promised: u64,
    capacity: Option<u64>,
    budget: Option<u64>,
    redirected: Option<u64>,
    demand: u64,
    why: String,
    what: String,
    text: String,
    child: i64,
    signal: i32,
    guard: String,
    target0: Option<String>,
    target1: Option<String>,
    target2: Option<String>,
    target3: Option<String>,
    target4: Option<String>,
    target5: Option<String>,
    target6: Option<String>,
    target7: Option<String>,
    created: u64,
    largest: Option<u64>,
    tmpfs_peak: u64,
    redirected_peak: u64,
    demand_peak: u64,
    command: Vec<String>,
    exit: Option<i32>,
    programs: BTreeMap<String, u64>,
    memfd: u64,
    anonymous: u64,
    sysv: u64,
    program: String,
    reason: String,
}

/// A process in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// Process id.
    pub pid: i64,
    /// Start time in clock ticks.
    pub start: u64,
    /// Its command.
    pub command: Arc<str>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Seconds since 1970.
    pub t: f64,
    /// The process that wrote it.
    pub who: Who,
    /// What happened.
    pub what: What,
}

/// Kinds of events, as far as a report needs them.
#[derive(Clone, Debug)]
pub enum What {
    /// A process touches shared memory for the first time.
    Start {
        /// The guarded directory.
        guard: String,
        /// Its size.
        capacity: Option<u64>,
        /// Its budget.
        budget: Option<u64>,
        /// The targets in order.
        targets: Vec<String>,
    },
    /// A segment was created.
    Create {
        /// Its name.
        name: Box<str>,
    },
    /// A segment was sized.
    Size(Box<Size>),
    /// A name went.
    Unlink {
        /// The name.
        name: Box<str>,
    },
    /// Something was said.
    Warn {
        /// Its kind.
        kind: Box<str>,
        /// The line.
        text: Box<str>,
    },
    /// A parent learnt that a signal ended a child.
    Child {
        /// The child.
        pid: i64,
        /// The signal.
        signal: i32,
    },
    /// A process ended by itself.
    Exit {
        /// Peaks that it saw.
        tmpfs: u64,
        /// Peaks that it saw.
        redirected: u64,
        /// Peaks that it saw.
        demand: u64,
        /// What it sized; absent in logs of versions that did not tell.
        own: Option<Box<Own>>,
    },
    /// `shmguard run` started a program.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// `shmguard run` looked at everything.
    Sample(Box<Sample>),
    /// `shmguard run` found a program without the library.
    Without {
        /// Its file.
        program: String,
        /// Why.
        reason: String,
    },
    /// The program of `shmguard run` ended.
    End {
        /// Its status.
        exit: Option<i32>,
        /// Or its signal.
        signal: Option<i32>,
    },
}

/// A sizing.
#[derive(Clone, Debug)]
pub struct Size {
    /// The segment's name.
    pub name: Box<str>,
    /// (st_dev, st_ino).
    pub file: (u64, u64),
    /// `None`: in the guard.
    pub target: Option<String>,
    /// Its new size.
    pub bytes: u64,
    /// The size before.
    pub before: u64,
    /// keep, redirect, refuse, overflow.
    pub decision: Box<str>,
    /// Bytes used in the guard just before.
    pub used: u64,
    /// Bytes promised beyond that.
    pub promised: u64,
    /// Bytes in the targets; absent in logs of versions that did not tell.
    pub redirected: Option<u64>,
    /// Highest demand that the process had seen.
    pub demand: u64,
    /// Why it could not be moved.
    pub why: Box<str>,
}

/// What a process that ended had sized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Segments created.
    pub created: u64,
    /// Bytes of all that it sized.
    pub bytes: u64,
    /// The largest of them.
    pub largest: u64,
    /// Its name.
    pub name: Box<str>,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Bytes used in the guard.
    pub used: u64,
    /// Promised beyond that.
    pub promised: u64,
    /// In the targets.
    pub redirected: u64,
    /// The same by command.
    pub programs: BTreeMap<String, u64>,
    /// memfd_create.
    pub memfd: u64,
    /// Shared anonymous mappings.
    pub anonymous: u64,
    /// System V.
    pub sysv: u64,
}

/// What was read, and what could not be.
#[derive(Default)]
pub struct Log {
    /// In the order of time.
    pub events: Vec<Event>,
    /// Files read.
    pub files: usize,
    /// Lines that are no events: cut off by a full disk or a kill.
    pub bad_lines: usize,
}

/// Reads a directory of logs. `progress` is called with the number of files read and of all, now and then.
///
/// # Errors
/// The directory cannot be read, or there is no log in it.
pub fn read(directory: &Path, mut progress: impl FnMut(usize, usize)) -> anyhow::Result<Log> {
    let entries = fs::read_dir(directory).with_context(|| format!("{}", directory.display()))?;
    let mut paths: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    paths.sort();
    if paths.is_empty() {
        bail!(
            "{}: no log here (files named shmguard-PID-START.jsonl); write one with SHMGUARD_LOG={0} or shmguard run --log {0}",
            directory.display()
        );
    }
    let mut log = Log { events: Vec::new(), files: paths.len(), bad_lines: 0 };
    for (index, path) in paths.iter().enumerate() {
        let file = fs::File::open(path).with_context(|| format!("{}", path.display()))?;
        read_file(BufReader::new(file), &mut log)?;
        progress(index + 1, paths.len());
    }
    // Stable: lines of one process stay in their order.
    log.events.sort_by(|a, b| a.t.total_cmp(&b.t));
    Ok(log)
}

/// The longest line that is read, in bytes: the library writes at most 1.5 KiB, `run` the words of its command (ARG_MAX, 2 MiB).
const LONGEST: u64 = 8 << 20;

/// No event is later than this, in seconds since 1970 (the year 5138).
const LATEST: f64 = 1e11;

/// Passes over the rest of a line, whatever its length.
fn skip_line(file: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = file.fill_buf()?;
        let (length, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        file.consume(length);
        if ended {
            return Ok(());
        }
    }
}

pub(super) fn read_file(mut file: impl BufRead, log: &mut Log) -> anyhow::Result<()> {
    let mut line = Vec::new();
    let mut command: Arc<str> = Arc::from("");
    loop {
        line.clear();
        if (&mut file).take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == LONGEST && !line.ends_with(b"\n") {
            log.bad_lines += 1;
            skip_line(&mut file)?;
            continue;
        }
        let parsed = serde_json::from_slice::<Line>(&line).ok().filter(|parsed| (0.0..LATEST).contains(&parsed.t));
        let Some(parsed) = parsed else {
            log.bad_lines += 1;
            continue;
        };
        if *parsed.comm != *command {
            command = Arc::from(parsed.comm.as_str());
        }
        let who = Who { pid: parsed.pid, start: parsed.start, command: Arc::clone(&command) };
        let t = parsed.t;
        if let Some(what) = parsed.into_what() {
            log.events.push(Event { t, who, what });
        }
    }
}

impl Line {
    fn into_what(self) -> Option<What> {
        Some(match self.ev.as_str() {
            "start" => What::Start {
                guard: self.guard,
                capacity: self.capacity,
                budget: self.budget,
                targets: [
                    self.target0,
                    self.target1,
                    self.target2,
                    self.target3,
                    self.target4,
                    self.target5,
                    self.target6,
                    self.target7,
                ]
                .into_iter()
                .flatten()
                .collect(),
            },
            "create" => What::Create { name: self.seg.into() },
            "size" => What::Size(Box::new(Size {
                name: self.seg.into(),
                file: (self.dev, self.ino),
                target: self.target,
                bytes: self.bytes,
                before: self.before,
                decision: self.decision.into(),
                used: self.used,
                promised: self.promised,
                redirected: self.redirected,
                demand: self.demand,
                why: self.why.into(),
            })),
            "unlink" => What::Unlink { name: self.seg.into() },
            "warn" => What::Warn { kind: self.what.into(), text: self.text.into() },
            "child" => What::Child { pid: self.child, signal: self.signal },
            "exit" => What::Exit {
                tmpfs: self.tmpfs_peak,
                redirected: self.redirected_peak,
                demand: self.demand_peak,
                own: self.largest.map(|largest| {
                    Box::new(Own { created: self.created, bytes: self.bytes, largest, name: self.seg.into() })
                }),
            },
            "run" => What::Run { command: self.command },
            "sample" => What::Sample(Box::new(Sample {
                used: self.used,
                promised: self.promised,
                redirected: self.redirected.unwrap_or(0),
                programs: self.programs,
                memfd: self.memfd,
                anonymous: self.anonymous,
                sysv: self.sysv,
            })),
            "without" => What::Without { program: self.program, reason: self.reason },
            "end" => What::End { exit: self.exit, signal: (self.signal > 0).then_some(self.signal) },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_noise_is_counted() {
        let text = concat!(
            r#"{"t":5.25,"ev":"size","pid":7,"start":1,"ppid":1,"comm":"a","seg":"x","dev":1,"ino":2,"where":"target","target":"/t","bytes":9,"before":0,"decision":"redirect","used":3,"free":4,"promised":0,"budget":5,"demand":12}"#,
            "\n",
            r#"{"t":5.5,"ev":"child","pid":7,"comm":"a","child":8,"signal":7}"#,
            "\n",
            r#"{"t":6,"ev":"of a later version","pid":7,"comm":"a"}"#,
            "\n{\"t\":7,\"ev\":\"si",
        );
        let mut log = Log { events: Vec::new(), files: 1, bad_lines: 0 };
        read_file(text.as_bytes(), &mut log).expect("read");
        assert_eq!((log.events.len(), log.bad_lines), (2, 1));
        let What::Size(size) = &log.events[0].what else { panic!("{:?}", log.events[0]) };
        assert_eq!((size.bytes, size.target.as_deref(), size.redirected), (9, Some("/t"), None));
        assert!(matches!(log.events[1].what, What::Child { pid: 8, signal: 7 }));
    }

    #[test]
    fn a_directory_without_a_log_is_an_error_that_says_how_to_write_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = read(directory.path(), |_, _| {}).err().expect("an error").to_string();
        assert!(error.contains("SHMGUARD_LOG"), "{error}");
        assert!(read(Path::new("/no/such/directory"), |_, _| {}).is_err());
    }
}
