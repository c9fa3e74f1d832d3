//! `shmguard top`: the same as `status`, live, in the terminal.

mod state;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rustix::event::{poll, PollFd, PollFlags};

use crate::now::{self, Whose};
use crate::run::Signals;
use state::{State, Step};

/// The same, live: how full /dev/shm is, every segment and process.
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
    if ratatui::try_restore().is_err() {
        // The terminal has gone: there is nobody to tell, and every attempt to (ratatui's own on drop too) would panic.
        std::process::exit(HANGUP.into());
    }
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
        match input(wait)? {
            Input::Gone => return Ok(HANGUP),
            Input::None => {}
            Input::Ready => {
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

/// Exit status when the terminal has gone, as a shell tells SIGHUP.
const HANGUP: u8 = 129;

/// What the terminal has for us.
enum Input {
    None,
    Ready,
    Gone,
}

/// Waits at most `wait` for input. crossterm alone would read the end of a terminal that has gone for ever, with all of a
/// processor (an SSH connection that broke, a closed window).
///
/// # Errors
/// The terminal cannot be read.
fn input(wait: Duration) -> anyhow::Result<Input> {
    let look = |wait: Duration| -> anyhow::Result<PollFlags> {
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&wait.try_into()?)) {
            // A signal: looked at by the caller.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(fds.first().map_or(PollFlags::empty(), PollFd::revents))
    };
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if look(Duration::ZERO)?.intersects(gone) {
        return Ok(Input::Gone);
    }
    // Keys that were read with an earlier one wait in crossterm, not in the terminal.
    if event::poll(Duration::ZERO)? {
        return Ok(Input::Ready);
    }
    let found = look(wait)?;
    if found.intersects(gone) {
        return Ok(Input::Gone);
    }
    Ok(if found.contains(PollFlags::IN) && event::poll(Duration::ZERO)? { Input::Ready } else { Input::None })
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
