//! What the ledgers know: who created what and when, and the highest values seen.

use std::collections::HashMap;
use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use shmguard_core::config::Config;
use shmguard_core::ledger::{self, Ledger, Process, SegmentRecord};
use shmguard_core::process::{self, Owner};
use shmguard_core::segment::Identity;
use shmguard_core::trend::Trend;

use super::{command_of, Creator, Place, Segment};

/// Directories in which ledgers and run directories may lie.
pub fn state_places(config: &Config) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let mut add = |path: PathBuf| {
        if !places.contains(&path) {
            places.push(path);
        }
    };
    for own in [&config.run, &config.state].into_iter().flatten() {
        add(PathBuf::from(OsString::from_vec(own.to_bytes().to_vec())));
        if config.run.is_some() {
            // Within a run its own books are the ones that count.
            return places;
        }
    }
    // Where SHMGUARD_STATE cannot be used, the library takes the usual places.
    let usable = |named: &CString| {
        let enter = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::access(named.as_c_str(), enter).is_ok()
    };
    if !config.state.as_ref().is_some_and(usable) {
        let users = fs::read_dir("/run/user").into_iter().flatten().flatten();
        users.for_each(|user| add(user.path()));
        ["/var/tmp", "/tmp"].iter().for_each(|path| add(PathBuf::from(path)));
    }
    places
}

/// All ledgers for `guard` that this user can read: of every user when root, and those of runs in progress.
pub fn find(config: &Config, guard: Identity, me: &Owner) -> Vec<Ledger> {
    let mut found = Vec::new();
    for place in state_places(config) {
        below(&place, guard, me, 0, &mut found);
    }
    found
}

fn below(place: &Path, guard: Identity, me: &Owner, depth: usize, found: &mut Vec<Ledger>) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_bytes();
        if name.starts_with(b"shmguard-ledger-") {
            let Ok(top) = CString::new(entry.path().into_os_string().into_vec()) else { continue };
            let Some(path) = ledger::directory_for(&top, guard, me.boot) else { continue };
            if rustix::fs::stat(path.as_c_str()).is_ok() {
                found.push(Ledger::at(path, *me));
            }
        } else if name.starts_with(b"shmguard-run-") && depth == 0 {
            below(&entry.path(), guard, me, 1, found);
        }
    }
}

/// What the ledgers told.
pub(super) struct Knowledge {
    /// Records of processes that live as far as is known.
    pub(super) alive: Vec<Process>,
    /// Sums and peaks over all.
    pub(super) peak: Process,
    /// The trend with the latest sample.
    pub(super) trend: Trend,
    segments: HashMap<(u64, u64), (SegmentRecord, usize)>,
}

pub(super) fn read(config: &Config, guard: Identity, me: &Owner) -> Knowledge {
    let mut knowledge =
        Knowledge { alive: Vec::new(), peak: Process::default(), trend: Trend::default(), segments: HashMap::new() };
    for ledger in find(config, guard, me) {
        for record in ledger.processes() {
            let index = knowledge.alive.len();
            for segment in ledger.segments(&record) {
                let key = (segment.dev, segment.ino);
                match knowledge.segments.get(&key) {
                    // An inode number is used again: the younger record counts.
                    Some((known, _)) if known.created_ms > segment.created_ms => {}
                    _ => {
                        knowledge.segments.insert(key, (segment, index));
                    }
                }
            }
            knowledge.peak.fold(&record);
            knowledge.alive.push(record);
        }
        knowledge.peak.fold(&ledger.ended());
        let trend = ledger.trend();
        if trend.last_ms() > knowledge.trend.last_ms() {
            knowledge.trend = trend;
        }
    }
    knowledge
}

impl Knowledge {
    /// Adds to the segments what the ledger knows of them.
    pub(super) fn complete(&self, segments: &mut [Segment], me: &Owner, commands: &mut HashMap<i32, String>) {
        for segment in segments.iter_mut().filter(|segment| matches!(segment.place, Place::Guard | Place::Target(_))) {
            let Some((record, index)) = self.segments.get(&(segment.identity.dev, segment.identity.ino)) else {
                continue;
            };
            let Some(process) = self.alive.get(*index) else { continue };
            // Inode numbers are used again: a record older than the file is of another one.
            if segment.created_ms.is_some_and(|born| record.created_ms.saturating_add(2000) < born) {
                continue;
            }
            segment.in_ledger = true;
            if !record.name.is_empty() && !segment.named {
                segment.name = shmguard_core::text::Printable(&record.name).to_string();
            }
            segment.created_ms = Some(record.created_ms);
            let pid = process.pid as i32;
            let known = process.namespace == me.namespace;
            let gone = known && !process::is_alive(pid, process.start);
            let command = String::from_utf8_lossy(&process.command).into_owned();
            segment.creator = Some(Creator { pid, command, gone });
        }
        for segment in segments.iter_mut() {
            if let Some(creator) = segment.creator.as_mut().filter(|creator| creator.command.is_empty()) {
                let pid = creator.pid;
                let record = self.alive.iter().find(|record| record.pid == pid as u64);
                creator.command = match record {
                    Some(record) => String::from_utf8_lossy(&record.command).into_owned(),
                    None if creator.gone => String::new(),
                    None => commands.entry(pid).or_insert_with(|| command_of(pid).unwrap_or_default()).clone(),
                };
            }
        }
    }
}
