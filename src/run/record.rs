//! The run's own lines in a log that the user keeps: what was started, what was seen, how it ended. With them `report` knows
//! what `run` knew. `docs/log.md` describes the fields.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde_json::json;

use super::deaths::Ended;
use crate::report::log::Sample;

/// The file of this run in the log directory.
pub struct Record {
    file: fs::File,
    last: Option<Sample>,
    pid: u32,
    start: u64,
}

impl Record {
    /// Begins it: `start` in clock ticks since boot, `t` in seconds since 1970. `None`: it cannot be written; then the run
    /// goes without.
    pub fn begin(directory: &Path, start: u64, t: f64, command: &[String]) -> Option<Record> {
        // As the library makes it, should it not be there.
        let _ = fs::DirBuilder::new().mode(0o755).create(directory);
        let pid = std::process::id();
        let path = directory.join(format!("shmguard-{pid}-{start:x}.jsonl"));
        let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok()?;
        let mut record = Record { file, last: None, pid, start };
        record.write_at(t, "run", json!({ "command": command, "version": env!("CARGO_PKG_VERSION") }));
        Some(record)
    }

    /// A look, unless nothing has changed since the last.
    pub fn sample(&mut self, sample: &Sample) {
        if self.last.as_ref() == Some(sample) {
            return;
        }
        self.write(
            "sample",
            json!({
                "used": sample.used,
                "promised": sample.promised,
                "redirected": sample.redirected,
                "programs": sample.programs,
                "memfd": sample.memfd,
                "anonymous": sample.anonymous,
                "sysv": sample.sysv,
            }),
        );
        self.last = Some(sample.clone());
    }

    /// What this command said.
    pub fn warn(&mut self, what: &str, shown: bool, text: &str) {
        self.write("warn", json!({ "what": what, "shown": shown, "text": text }));
    }

    /// A process that a signal ended, as the reaper learnt.
    pub fn killed(&mut self, pid: i32, signal: i32) {
        self.write("child", json!({ "child": pid, "signal": signal }));
    }

    /// A program that runs without the library.
    pub fn without(&mut self, program: &str, reason: &str) {
        self.write("without", json!({ "program": program, "reason": reason }));
    }

    /// The end of CMD.
    pub fn end(&mut self, ended: &Ended) {
        self.write(
            "end",
            match ended {
                Ended::Status(status) => json!({ "exit": status }),
                Ended::Signal(signal) => json!({ "signal": signal }),
            },
        );
    }

    fn write(&mut self, kind: &str, fields: serde_json::Value) {
        self.write_at(crate::now::wall_ms() as f64 / 1000.0, kind, fields);
    }

    fn write_at(&mut self, t: f64, kind: &str, fields: serde_json::Value) {
        let mut line = json!({ "t": t, "ev": kind, "pid": self.pid, "start": self.start, "comm": "shmguard" });
        if let (Some(line), serde_json::Value::Object(fields)) = (line.as_object_mut(), fields) {
            line.extend(fields);
        }
        // A full disk costs the line, not the run.
        let _ = self.file.write_all(format!("{line}\n").as_bytes());
    }
}
