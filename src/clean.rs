//! `shmguard clean`.

use std::process::ExitCode;

/// Lists leftovers of dead runs; --yes removes them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard clean --yes")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
