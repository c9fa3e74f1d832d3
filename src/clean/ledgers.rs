//! Ledgers of the dead: of another boot, or of processes that are gone.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use shmguard_core::ledger::Ledger;
use shmguard_core::process::{self, Owner};

use super::Leftover;

/// Finds, and if `yes` removes, what is stale in the ledgers of this user below `places`.
pub fn clean(places: &[PathBuf], me: &Owner, young_seconds: i64, yes: bool) -> Vec<Leftover> {
    let uid = rustix::process::geteuid().as_raw();
    let young = Duration::from_secs(young_seconds.unsigned_abs());
    let mut left = Vec::new();
    for place in places {
        for ledger in directories(&place.join(format!("shmguard-ledger-{uid}")), uid) {
            ledger_of_a_guard(&ledger, me, young, yes, &mut left);
        }
    }
    left
}

/// The directories in `path` that belong to `uid`.
fn directories(path: &Path, uid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let own = |path: &PathBuf| path.symlink_metadata().is_ok_and(|status| status.is_dir() && status.uid() == uid);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(own).collect();
    found.sort();
    found
}

/// One ledger: `BOOT-DEV.INO`.
fn ledger_of_a_guard(path: &Path, me: &Owner, young: Duration, yes: bool, left: &mut Vec<Leftover>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((boot, _)) = name.split_once('-') else { return };
    // A place that is shared with another machine (its boot id differs too) is in use when it was written lately.
    if u32::from_str_radix(boot, 16) != Ok(me.boot) {
        if is_older(path, young) {
            let bytes = bytes_in(path);
            let removed = yes.then(|| fs::remove_dir_all(path).is_ok());
            left.push(Leftover { path: path.to_owned(), bytes, what: "the ledger of an earlier boot", removed });
        }
        return;
    }
    let Ok(bytes) = CString::new(path.as_os_str().as_bytes()) else { return };
    let ledger = Ledger::at(bytes, *me);
    let (dead, others): (Vec<_>, Vec<_>) = ledger
        .processes()
        .into_iter()
        .partition(|record| record.namespace == me.namespace && !process::is_alive(record.pid as i32, record.start));
    let dead: Vec<Leftover> = dead
        .iter()
        .map(|record| {
            let file = path.join(format!("p-{}.{:x}.{:x}", record.pid, record.start, record.namespace));
            let bytes = file.metadata().map_or(0, |status| status.blocks() * 512);
            Leftover { path: file, bytes, what: "the ledger entry of a dead process", removed: None }
        })
        .collect();
    if yes && !dead.is_empty() {
        // Their numbers go into the sums.
        ledger.sweep();
    }
    left.extend(dead.into_iter().map(|leftover| {
        let removed = yes.then(|| !leftover.path.exists());
        Leftover { removed, ..leftover }
    }));
    // Sums without anybody alive: the last one was killed. Young ones may belong to a run between two processes.
    if others.is_empty() && is_older(path, young) {
        let bytes = bytes_in(path);
        let removed = yes.then(|| {
            ledger.clear();
            !path.exists()
        });
        left.push(Leftover { path: path.to_owned(), bytes, what: "a ledger that nobody alive uses", removed });
    }
}

/// Neither the directory nor a file in it was changed within `young`.
fn is_older(path: &Path, young: Duration) -> bool {
    let now = SystemTime::now();
    let old = |path: &Path| {
        let changed = path.symlink_metadata().and_then(|status| status.modified());
        changed.is_ok_and(|changed| now.duration_since(changed).unwrap_or_default() >= young)
    };
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    old(path) && files.into_iter().all(|file| old(&file.path()))
}

fn bytes_in(path: &Path) -> u64 {
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|status| status.blocks() * 512).sum()
}
