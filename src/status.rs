//! `shmguard status`.

use std::process::ExitCode;

/// Shows every segment now.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard status --json")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
