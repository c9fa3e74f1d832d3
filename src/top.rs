//! `shmguard top`: the same as `status`, live, in the terminal.

mod state;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::now::{self, Whose};
use crate::run::Signals;
use state::{State, Step};

/// Shows how full /dev/shm is, and every segment and process, live.
///
/// Keys: Tab switches between segments and processes, s sorts by the next column, r the other way round, arrows and Page keys
/// move, p pauses, q quits. NO_COLOR is respected.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  shmguard top\n  shmguard top --interval 0.5")]
pub struct Args {
    /// Seconds between looks
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds from 0.1 to 3600".to_owned()),
    }
}

/// Shows it until the user quits.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        bail!("needs a terminal; for scripts there is: shmguard status --json");
    }
    let config = now::config();
    // Fails here, with an ordinary message, when there is nothing to look at.
    let first = now::look(&config, 0, &Whose::All)?;
    // These would leave the terminal in raw mode.
    let signals =
        Signals::only(&[libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT]).context("reading signals")?;
    let mut state = State::new(config.warn.clone(), std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()));
    state.take(first);

    let mut terminal = ratatui::try_init().context("setting up the terminal")?;
    let result = follow(&mut terminal, &mut state, &signals, || now::look(&config, 0, &Whose::All), args.interval);
    ratatui::restore();
    result.map(ExitCode::from)
}

/// The loop. Returns the exit status: 0, or 128+N after signal N.
fn follow(
    terminal: &mut ratatui::DefaultTerminal,
    state: &mut State,
    signals: &Signals,
    look: impl Fn() -> anyhow::Result<now::Now>,
    interval: Duration,
) -> anyhow::Result<u8> {
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| view::draw(frame, state))?;
        // Short waits: a signal must not have to wait for the next key.
        let wait = next.saturating_duration_since(Instant::now()).min(Duration::from_millis(200));
        if event::poll(wait)? {
            if let Event::Key(key) = event::read()? {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                if key.kind != KeyEventKind::Release {
                    match step(key.code, control) {
                        Some(Step::Quit) => return Ok(0),
                        Some(step) => state.step(step),
                        None => {}
                    }
                }
            }
        }
        if let Some(received) = signals.read().first() {
            return Ok(128u8.saturating_add(received.signal as u8));
        }
        if Instant::now() >= next {
            if !state.paused {
                state.take(look()?);
            }
            next = Instant::now() + interval;
        }
    }
}

fn step(code: KeyCode, control: bool) -> Option<Step> {
    Some(match code {
        KeyCode::Char('c') if control => Step::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Step::Quit,
        KeyCode::Tab => Step::Switch,
        KeyCode::Char('s') => Step::NextColumn,
        KeyCode::Char('r') => Step::Reverse,
        KeyCode::Char('p' | ' ') => Step::Pause,
        KeyCode::Down | KeyCode::Char('j') => Step::Move(1),
        KeyCode::Up | KeyCode::Char('k') => Step::Move(-1),
        KeyCode::PageDown => Step::Move(10),
        KeyCode::PageUp => Step::Move(-10),
        KeyCode::Home => Step::Move(isize::MIN / 2),
        KeyCode::End => Step::Move(isize::MAX / 2),
        _ => return None,
    })
}
