//! `shmguard estimate`.

use std::process::ExitCode;

/// Says what a DataLoader will need.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard estimate --workers 8 --prefetch 2 --batch 32 --sample 3x224x224:f32")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
