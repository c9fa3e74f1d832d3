//! `shmguard top`.

use std::process::ExitCode;

/// Shows every segment live, in the terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard top")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
