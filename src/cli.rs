//! The command line: what there is, and how a failure ends.
//!
//! Exit codes: 0 well; 1 it did not work (one line on stderr says why), or what the subcommand says; 2 wrong usage, with the
//! usage on stderr. `shmguard run` ends as its CMD did.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{clean, docs_generate, doctor, estimate, metrics, path, report, run, status, top};

/// Keeps programs alive in a small /dev/shm, and shows who uses shared memory, how much, and how near to the end.
#[derive(Debug, Parser)]
#[command(
    name = "shmguard",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Begin with:
  shmguard doctor                    what is wrong here, and the exact fix
  shmguard run -- python train.py    runs it, and says at its end what it used

Without this command: LD_PRELOAD=\"$(shmguard path)\" python train.py"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub subcommand: Command,
}

/// The subcommands, in the order of the help.
#[derive(Debug, Subcommand)]
pub enum Command {
    Run(run::Args),
    Doctor(doctor::Args),
    Status(status::Args),
    Top(top::Args),
    Report(report::Args),
    Estimate(estimate::Args),
    Metrics(metrics::Args),
    Clean(clean::Args),
    Path(path::Args),
    /// Writes man pages, completions and docs/commands.md.
    #[command(hide = true)]
    Docs(docs_generate::Args),
}

/// The whole table, for man pages, completions and docs.
#[allow(dead_code)] // used by docs_generate
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the command line and does it.
pub fn main() -> ExitCode {
    // Wrong usage ends here with 2, --help and --version with 0: clap's own rules.
    let cli = parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let (name, result) = match &cli.subcommand {
        Command::Run(args) => ("run", run::run(args)),
        Command::Doctor(args) => ("doctor", doctor::run(args)),
        Command::Status(args) => ("status", status::run(args)),
        Command::Top(args) => ("top", top::run(args)),
        Command::Report(args) => ("report", report::run(args)),
        Command::Estimate(args) => ("estimate", estimate::run(args)),
        Command::Metrics(args) => ("metrics", metrics::run(args)),
        Command::Clean(args) => ("clean", clean::run(args)),
        Command::Path(args) => ("path", path::run(args)),
        Command::Docs(args) => ("docs", docs_generate::run(args)),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shmguard {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the words of a command line.
///
/// # Errors
/// As clap's, and with the usage of the subcommand that was meant wherever a value is wrong.
fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut table = Cli::command();
    table.build();
    // The first word that names a subcommand: in front of it only --help and --version are known.
    let meant =
        words.iter().skip(1).filter_map(|word| word.to_str()).find(|word| table.find_subcommand(word).is_some());
    let meant = meant.map(str::to_owned);
    let subcommand = |table: &mut clap::Command| match meant.as_ref().and_then(|name| table.find_subcommand(name)) {
        Some(found) => found.clone(),
        None => table.clone(),
    };
    match table.try_get_matches_from_mut(&words) {
        Ok(matches) => Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut subcommand(&mut table))),
        Err(mut error) => {
            let values = [ErrorKind::InvalidValue, ErrorKind::ValueValidation, ErrorKind::NoEquals];
            if values.contains(&error.kind()) && error.get(ContextKind::Usage).is_none() {
                let usage = subcommand(&mut table).render_usage();
                error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
            }
            Err(error)
        }
    }
}

/// The reader of our output went away (`shmguard status | head`): nothing to complain about.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_is_consistent() {
        super::command().debug_assert();
    }

    #[test]
    fn a_wrong_value_is_told_with_the_option_and_the_usage_of_its_subcommand() {
        for (words, option) in [
            ("run --budget 5q -- true", "'--budget <SIZE>'"),
            ("run --advertise=2 -- true", "'--advertise[=<SIZE>]'"),
            ("run --shm-size 5q -- true", "'--shm-size <SIZE>'"),
            ("run --report x.txt -- true", "'--report <FILE>'"),
            ("estimate --workers many --sample 1", "'--workers <"),
        ] {
            let words: Vec<&str> = ["shmguard"].into_iter().chain(words.split(' ')).collect();
            let error = super::parse(words.iter().map(Into::into)).expect_err("wrong").to_string();
            assert!(error.starts_with("error: invalid value '") && error.contains(option), "{error}");
            assert!(error.contains(&format!("Usage: shmguard {} ", words[1])), "{error}");
            assert_eq!(error.matches("For more information").count(), 1, "{error}");
            assert!(!error.contains("SHMGUARD"), "{error}");
        }
    }
}
