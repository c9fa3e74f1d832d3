//! `shmguard docs_generate`.

use std::process::ExitCode;

/// Writes man pages, completions and docs/commands.md.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  shmguard docs docs")]
pub struct Args {}

/// Does it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
