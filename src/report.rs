//! `shmguard report`: a run after the event, from its log, as text, JSON or a page with a chart.

pub mod build;
mod chart;
#[cfg(test)]
mod hostile;
mod html;
mod lives;
pub mod log;
pub mod summary;
pub mod text;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;

use build::Builder;
use summary::Summary;

pub use html::page as html;

/// Shows a run after the event, from its log.
///
/// Demand over time, peak, segments by program, redirects, warnings, and the size of /dev/shm that would have been enough. DIR
/// is what SHMGUARD_LOG or `shmguard run --log` named.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  shmguard report /var/log/shmguard\n  shmguard report /var/log/shmguard --html out.html\n  \
                  shmguard report /var/log/shmguard --json | jq .peak"
)]
pub struct Args {
    /// Directory of the log
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// One JSON object; bytes are integers
    #[arg(long, conflicts_with = "html")]
    json: bool,

    /// Writes one self-contained page with a chart to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Shows it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::new();
    let log = log::read(&args.directory, |done, all| progress.at(done, all))?;
    progress.done();
    if log.bad_lines > 0 {
        eprintln!(
            "shmguard report: {} lines in {} files are no events (cut off?) and are left out",
            log.bad_lines, log.files
        );
    }
    let mut builder = Builder::default();
    for event in &log.events {
        builder.event(event);
    }
    builder.deaths_from_log();
    let summary = builder.finish();
    if let Some(path) = &args.html {
        std::fs::write(path, html::page(&summary)).with_context(|| format!("{}", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = if args.json { json(&summary)? } else { text::page(&summary) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The summary as JSON.
///
/// # Errors
/// None that can happen with what is in a summary.
pub fn json(summary: &Summary) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(summary)?;
    text.push('\n');
    Ok(text)
}

/// Says on a terminal how far it is, when it takes more than a second.
struct Progress {
    began: Instant,
    shown: Option<Instant>,
}

impl Progress {
    fn new() -> Progress {
        Progress { began: Instant::now(), shown: None }
    }

    fn at(&mut self, done: usize, all: usize) {
        let slow = self.began.elapsed() > Duration::from_secs(1);
        let due = self.shown.is_none_or(|shown| shown.elapsed() > Duration::from_millis(200));
        if slow && due && std::io::stderr().is_terminal() {
            eprint!("\rreading the log: {done} of {all} files");
            self.shown = Some(Instant::now());
        }
    }

    fn done(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
