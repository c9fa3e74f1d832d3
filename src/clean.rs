//! `shmguard clean`: leftovers of dead runs in targets, in the guarded directory, in the ledgers and of `shmguard run`.

mod ledgers;
mod runs;

use std::ffi::{CStr, OsStr};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use shmguard_core::config::Config;
use shmguard_core::garbage;
use shmguard_core::guard::Guard;
use shmguard_core::process::Owner;
use shmguard_core::size::Human;

use crate::now;
use crate::report::text::count;

/// Lists leftovers of dead runs; --yes removes them.
///
/// Leftovers are files in the targets to which no segment leads any more, temporary names in the guarded directory,
/// ledger entries of processes that are gone, and directories of a `shmguard run` that was killed. Only what belongs to this user; nothing that a living process could need.
/// Exit 1: something could not be removed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  shmguard clean\n  shmguard clean --yes")]
pub struct Args {
    /// Remove them.
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Files younger than this are left alone: between a file and its name there is a moment.
    #[arg(long, value_name = "SECONDS", default_value_t = garbage::YOUNG_SECONDS, value_parser = clap::value_parser!(i64).range(0..))]
    young: i64,
}

/// Something that is left.
pub struct Leftover {
    /// Where.
    path: PathBuf,
    /// Bytes that it holds.
    bytes: u64,
    /// What it is.
    what: &'static str,
    /// `None`: not tried; else whether it is gone.
    removed: Option<bool>,
}

/// Lists, and with `--yes` removes.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = now::config();
    let me = Owner::current();
    let mut left = Vec::new();
    for path in &config.guards {
        if let Some(guard) = Guard::open(path) {
            files(&config, path, &guard, &me, args, &mut left);
        }
    }
    let places = now::state_places(&config);
    left.extend(ledgers::clean(&places, &me, args.young, args.yes));
    left.extend(runs::clean(&places, &me, args.young, args.yes));
    let failed = left.iter().any(|leftover| leftover.removed == Some(false));
    let text = if args.json { to_json(&left, args.yes) } else { tell(&left, args.yes)? };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn files(config: &Config, path: &CStr, guard: &Guard, me: &Owner, args: &Args, left: &mut Vec<Leftover>) {
    for orphan in garbage::find(guard, &config.targets, me, args.young).orphans {
        let name = OsStr::from_bytes(&orphan.name);
        let target = orphan.target.and_then(|index| config.targets.get(index));
        let (directory, what) = match target {
            Some(target) => (target.path.as_c_str(), "a redirected segment that no name leads to"),
            None => (path, "a temporary name of a dead process"),
        };
        let path = Path::new(OsStr::from_bytes(directory.to_bytes())).join(name);
        // Two guards may share a target: each finds what lost its tmpfs.
        if left.iter().any(|known| known.path == path) {
            continue;
        }
        let removed = args.yes.then(|| garbage::remove(guard, &config.targets, &orphan));
        left.push(Leftover { path, bytes: orphan.bytes, what, removed });
    }
}

fn tell(left: &[Leftover], yes: bool) -> anyhow::Result<String> {
    let mut text = String::new();
    for leftover in left {
        let outcome = match leftover.removed {
            None => "",
            Some(true) => "removed: ",
            Some(false) => "CANNOT BE REMOVED: ",
        };
        writeln!(text, "{outcome}{} ({}, {})", leftover.path.display(), Human(leftover.bytes), leftover.what)?;
    }
    let bytes: u64 = left.iter().map(|leftover| leftover.bytes).sum();
    match left.len() {
        0 => writeln!(text, "nothing is left over")?,
        number => {
            let leftovers = count(number as u64, "leftover", "s");
            let next = match (yes, number) {
                (true, _) => "",
                (false, 1) => "; shmguard clean --yes removes it",
                (false, _) => "; shmguard clean --yes removes them",
            };
            writeln!(text, "{leftovers}, {}{next}", Human(bytes))?
        }
    }
    Ok(text)
}

fn to_json(left: &[Leftover], yes: bool) -> String {
    let list: Vec<_> = left
        .iter()
        .map(|leftover| {
            json!({"path": leftover.path.to_string_lossy(), "bytes": leftover.bytes, "what": leftover.what,
                   "removed": leftover.removed.unwrap_or(false)})
        })
        .collect();
    let bytes: u64 = left.iter().map(|leftover| leftover.bytes).sum();
    format!("{:#}\n", json!({"leftovers": list, "bytes": bytes, "asked_to_remove": yes}))
}
