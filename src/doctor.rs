//! `shmguard doctor`.

use std::process::ExitCode;

/// Looks at this machine or container before a run, and prints the fix.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard doctor")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
