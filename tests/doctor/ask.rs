//! Runs `shmguard doctor` and reads its answer.
#![allow(dead_code)] // each test file uses its own part

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What doctor answered.
pub struct Answer {
    pub code: Option<i32>,
    pub stdout: String,
    pub json: Value,
}

/// The command with an environment of its own.
pub fn shmguard(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command.args(words).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C");
    command
}

impl Answer {
    pub fn of(mut command: Command) -> Answer {
        let output = command.output().expect("the command runs");
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let json = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
        Answer { code: output.status.code(), stdout, json }
    }

    /// `doctor --json` of a tree.
    pub fn about(root: &Path) -> Answer {
        let mut command = shmguard(&["doctor", "--json", "--root"]);
        command.arg(root);
        Answer::of(command)
    }

    /// `doctor --json` of this machine, with variables.
    pub fn here(variables: &[(&str, &OsStr)], words: &[&str]) -> Answer {
        let mut command = shmguard(&["doctor", "--json", "--no-speed"]);
        command.args(words).envs(variables.iter().copied());
        Answer::of(command)
    }

    /// The kind that decides.
    pub fn kind(&self) -> &str {
        self.json["environment"][0]["kind"].as_str().expect("a kind")
    }

    /// The causes found: those that need a fix, or the notes.
    pub fn causes(&self, needs_fix: bool) -> Vec<&str> {
        let findings = self.json["findings"].as_array().expect("findings");
        let wanted = findings.iter().filter(|finding| finding["needs_fix"] == needs_fix);
        wanted.map(|finding| finding["cause"].as_str().expect("a cause")).collect()
    }

    /// (what is said, the fix) of a cause.
    pub fn finding(&self, cause: &str) -> (String, String) {
        let findings = self.json["findings"].as_array().expect("findings");
        let found = findings.iter().find(|finding| finding["cause"] == cause);
        let found = found.unwrap_or_else(|| panic!("no {cause} in {}", self.stdout));
        let lines: Vec<_> = found["fix"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
        (found["says"].as_str().expect("words").to_owned(), lines.join("\n"))
    }

    /// All is well, and the exit status says so.
    #[track_caller]
    pub fn well(self) -> Answer {
        assert_eq!(self.json["well"], true, "{}", self.stdout);
        assert_eq!(self.code, Some(0), "{}", self.stdout);
        self
    }

    /// Exactly these need a fix, and the exit status says so.
    #[track_caller]
    pub fn needs(self, causes: &[&str]) -> Answer {
        assert_eq!(self.causes(true), causes, "{}", self.stdout);
        assert_eq!(self.code, Some(1), "{}", self.stdout);
        self
    }
}
