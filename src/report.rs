//! `shmguard report`.

use std::process::ExitCode;

/// Shows a run after the event, from its log.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard report /var/log/shmguard")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
