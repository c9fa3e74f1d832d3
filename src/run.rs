//! `shmguard run`.

use std::process::ExitCode;

/// Runs a program under the library.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard run -- python train.py")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
