//! Directories of `shmguard run` that was killed: it removes its own when it ends by itself.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use shmguard_core::ledger::Ledger;
use shmguard_core::process::{self, Owner};

use super::Leftover;
use crate::now;

/// After so long without a change a run whose processes cannot be judged from here (another pid namespace, another
/// machine) is taken for dead.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

/// Finds, and if `yes` removes, run directories of this user below `places` whose `shmguard run` is gone.
pub fn clean(places: &[PathBuf], me: &Owner, young_seconds: i64, yes: bool) -> Vec<Leftover> {
    let uid = rustix::process::geteuid().as_raw();
    let prefix = now::run_directory_prefix();
    let young = Duration::from_secs(young_seconds.unsigned_abs());
    let mut left = Vec::new();
    for entry in places.iter().flat_map(fs::read_dir).flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.split('-').next()?.parse::<i32>().ok());
        let own = entry.metadata().is_ok_and(|status| status.is_dir() && status.uid() == uid);
        let Some(pid) = pid.filter(|_| own) else { continue };
        let path = entry.path();
        let run = Run::of(&path, pid, me);
        if run == Run::Alive {
            continue;
        }
        let content = Content::of(&path, me);
        let patience = if run == Run::Dead || content.judged { young } else { FORGOTTEN };
        if content.alive || content.quiet < patience || pid == me.pid {
            continue;
        }
        let removed = yes.then(|| fs::remove_dir_all(&path).is_ok());
        left.push(Leftover { path, bytes: content.bytes, what: "the directory of a run that was killed", removed });
    }
    left
}

/// What is known of the `shmguard run` that made a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Alive,
    Dead,
    /// Of another pid namespace, or killed before it could write down who it is.
    Unknown,
}

impl Run {
    /// `pid`: the process id in the directory's name.
    fn of(path: &Path, pid: i32, me: &Owner) -> Run {
        match now::signer_of_run(path) {
            // Process ids are used again, so the name alone would let another process keep the directory.
            Some(run) if run.boot == me.boot && run.namespace == me.namespace => {
                if process::is_alive(run.pid, run.start) {
                    Run::Alive
                } else {
                    Run::Dead
                }
            }
            _ if process::is_alive(pid, 0) => Run::Alive,
            _ => Run::Unknown,
        }
    }
}

/// What lies in a run's directory.
struct Content {
    bytes: u64,
    /// Since the last change of anything in it.
    quiet: Duration,
    /// A process of its ledgers lives, or may live.
    alive: bool,
    /// Its ledgers have processes, all of this pid namespace: what is said of them is certain.
    judged: bool,
}

impl Content {
    fn of(path: &Path, me: &Owner) -> Content {
        let mut content = Content { bytes: 0, quiet: Duration::MAX, alive: false, judged: false };
        let mut records = Vec::new();
        content.add(path, me, &mut records, 0);
        content.alive = records.iter().any(|(here, alive)| *here && *alive);
        content.judged = !records.is_empty() && records.iter().all(|(here, _)| *here);
        content
    }

    /// Records come as (of this namespace, alive).
    fn add(&mut self, path: &Path, me: &Owner, records: &mut Vec<(bool, bool)>, depth: usize) {
        let Ok(status) = path.symlink_metadata() else { return };
        self.bytes = self.bytes.saturating_add(status.blocks().saturating_mul(512));
        let since = status.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        self.quiet = self.quiet.min(since.unwrap_or_default());
        // run/shmguard-ledger-UID/GUARD/file, run/log/file.
        if !status.is_dir() || depth > 3 {
            return;
        }
        if let Ok(directory) = CString::new(path.as_os_str().as_bytes()) {
            let processes = Ledger::at(directory, *me).processes();
            records.extend(
                processes.iter().map(|record| {
                    (record.namespace == me.namespace, process::is_alive(record.pid as i32, record.start))
                }),
            );
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            self.add(&entry.path(), me, records, depth + 1);
        }
    }
}
