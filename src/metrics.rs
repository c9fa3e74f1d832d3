//! `shmguard metrics`.

use std::process::ExitCode;

/// Prints the same numbers as status in OpenMetrics text.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard metrics")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
