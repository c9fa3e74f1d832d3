//! The command line: what there is, and how a failure ends.
//!
//! Exit codes: 0 well; 1 it did not work (one line on stderr says why), or what the subcommand says; 2 wrong usage, with the
//! usage on stderr. `shmguard run` ends as its CMD did.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::{clean, docs_generate, doctor, estimate, metrics, path, report, run, status, top};

/// Keeps programs alive in a small /dev/shm: runs them under libshmguard.so, and shows who uses shared memory, how much,
/// and how near to the end.
#[derive(Debug, Parser)]
#[command(
    name = "shmguard",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Example:\n  shmguard run -- python train.py\n\nWithout this command: LD_PRELOAD=\"$(shmguard path)\" python train.py"
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
    let cli = Cli::parse();
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
}
