//! `shmguard run`: a program under the library, watched, with a summary at its end.

mod books;
mod closing;
mod deaths;
pub mod elf;
mod evidence;
mod explain;
mod forecast;
mod launch;
mod options;
mod record;
mod signals;
mod watch;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use shmguard_core::config::{Config, Mode, RUN};
use shmguard_core::size::{parse, Amount};

use crate::{now, path};
use deaths::Ended;
use launch::Terminal;
use watch::Watch;

pub use signals::{name as signal_name, Signals};

/// Runs CMD under the library and says at its end what it used.
///
/// Exits as CMD did: its status, 128+N when signal N ended it, 127 when there is no such program, 126 when it cannot be run,
/// 125 when it was not started for another reason. Every signal is passed on to CMD, orphans are reaped and the terminal's
/// foreground goes to CMD: good as a container's first process. When CMD is a program that the library cannot be loaded into
/// (static, set-user-ID, 32-bit, musl where the library needs glibc), that is said, and it runs all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  shmguard run -- python train.py
  shmguard run --report out.html -- python train.py
As in Docker, without the library:
  shmguard run --shm-size 64m --mode off -- python train.py")]
pub struct Args {
    /// Gives CMD a private /dev/shm of this size, such as 64m or 2g, for reproducing and for curing
    #[arg(long, value_name = "SIZE", value_parser = shm_size)]
    shm_size: Option<u64>,

    /// Writes a report when CMD ends: JSON, or a page with a chart, by the name's end (.json or .html)
    #[arg(long, value_name = "FILE", value_parser = report_file)]
    report: Option<PathBuf>,

    /// The tree from which the machine's settings are read
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,

    #[command(flatten)]
    variables: options::Options,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn shm_size(text: &str) -> Result<u64, String> {
    match parse(text.as_bytes()) {
        // The kernel takes 0 for "no limit", Docker for its default: nobody means either here.
        Some(Amount::Bytes(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err("expected a size such as 64m or 2g".to_owned()),
    }
}

fn report_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(OsStr::to_str) {
        Some("json" | "html") => Ok(path),
        _ => Err("expected a name that ends in .json or .html".to_owned()),
    }
}

/// This command's own failure, as env(1), timeout(1) and docker run have it.
const NOT_STARTED: u8 = 125;

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match prepare_and_run(args) {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => {
            eprintln!("shmguard run: {error:#}");
            Ok(ExitCode::from(NOT_STARTED))
        }
    }
}

fn prepare_and_run(args: &Args) -> anyhow::Result<u8> {
    // Before anything is mounted and before hours of work: can the report be written?
    let report = args.report.as_deref().map(open_report).transpose()?;
    // The only thread yet: signals first, then namespaces.
    let signals = Signals::take().context("reading signals")?;
    if let Some(size) = args.shm_size {
        launch::private_shm(size)?;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("becoming the reaper of orphans")?;

    let mut setting = Setting::new(args, report.is_some())?;
    let program = args.command.first().map(OsString::as_os_str).unwrap_or_default();
    let file = elf::find(program);
    let obstacle = file.as_deref().and_then(|file| elf::obstacle(file, Some(&setting.library), Path::new("/")));
    if obstacle.as_ref().is_some_and(elf::Obstacle::ends_it) {
        let rest = launch::without(&setting.library, std::env::var_os("LD_PRELOAD").as_deref());
        setting.environment.retain(|(name, _)| name != "LD_PRELOAD");
        setting.environment.push(("LD_PRELOAD".into(), rest));
    }
    let file = file.unwrap_or_else(|| PathBuf::from(program));
    if let Some(obstacle) = obstacle.as_ref().filter(|_| setting.config.mode != Mode::Off && !setting.config.quiet) {
        eprintln!("shmguard: the library cannot be loaded into {}: {obstacle}. It runs without", file.display());
    }

    let terminal = Terminal::open();
    let mut watch = Watch::new(&setting, args.command.clone());
    let child = match launch::start(&args.command, &setting.environment, &signals, terminal.as_ref()) {
        Ok(child) => child,
        Err(error) => {
            let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
            eprintln!("shmguard run: {}: {}", program.display(), reason(&error));
            if let Some((_, path, true)) = &report {
                let _ = fs::remove_file(path);
            }
            return Ok(code);
        }
    };
    if let Some(obstacle) = obstacle {
        watch.without_library(&file, &obstacle.to_string());
    }
    let ended = supervise(&child, &signals, terminal.as_ref(), &mut watch);
    if let Some(terminal) = &terminal {
        terminal.take_back(child.id() as i32);
    }
    let code = ended.code();
    let summary = closing::summarise(&mut setting, watch, &ended);
    if let Some((mut file, path, _)) = report {
        let html = path.extension().is_some_and(|extension| extension == "html");
        let text = if html { crate::report::html(&summary) } else { crate::report::json(&summary)? };
        let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            eprintln!("shmguard run: the report {} could not be written: {error}", path.display());
        }
    }
    if !setting.config.quiet {
        let text = closing::lines(&summary, args.report.as_deref());
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Ok(code)
}

/// exec's error in a shell's words.
fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "not found".to_owned(),
        Some(libc::EACCES) => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// The report's file, its path, and whether it was made just now.
fn open_report(path: &Path) -> anyhow::Result<(fs::File, PathBuf, bool)> {
    let fresh = !path.exists();
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    Ok((file.with_context(|| format!("the report {}", path.display()))?, path.to_owned(), fresh))
}

/// What CMD is given, and where the library tells us what it saw.
pub(crate) struct Setting {
    /// The library.
    library: PathBuf,
    /// The tree from which the machine's settings are read.
    root: PathBuf,
    /// The library's configuration, as it will read it.
    config: Config,
    /// Variables to set (`None`: to remove) for CMD.
    environment: Vec<(OsString, Option<OsString>)>,
    /// The directory of this run; `None` where nothing can be written.
    directory: Option<tempfile::TempDir>,
    /// Where events go.
    log: Option<PathBuf>,
    /// The events are all there: a log was asked for, or a report.
    whole_log: bool,
    /// The log is the user's own and stays: what the watch sees goes there too.
    keeps_log: bool,
}

impl Setting {
    fn new(args: &Args, report: bool) -> anyhow::Result<Setting> {
        let library = path::library()?;
        let mut environment: Vec<(OsString, Option<OsString>)> =
            args.variables.set.iter().map(|(name, value)| (name.into(), Some(value.clone()))).collect();
        environment
            .push(("LD_PRELOAD".into(), Some(launch::preload(&library, std::env::var_os("LD_PRELOAD").as_deref())?)));
        // Ours alone: the library would take it for a variable of its own spelt wrongly.
        environment.push((path::VARIABLE.into(), None));
        // A run within a run has books of its own.
        environment.push((RUN.into(), None));
        let asked = merged(&environment);
        let directory = run_directory(&asked);
        if let Some(state) = asked.state.as_ref().filter(|_| !asked.quiet) {
            let state = Path::new(OsStr::from_bytes(state.to_bytes()));
            let place = directory.as_ref().and_then(|directory| directory.path().parent());
            if place != Some(state) {
                let instead = match place {
                    Some(place) => format!("the default is used: {}", place.display()),
                    None => "there is no other place, so nothing can be said when CMD has ended".to_owned(),
                };
                let named = shmguard_core::text::Printable(state.as_os_str().as_bytes());
                eprintln!(
                    "shmguard: SHMGUARD_STATE=\"{named}\" cannot be used: expected a directory that this user can write; \
                     {instead}"
                );
            }
        }
        let mut log = asked.log.as_ref().map(|log| PathBuf::from(OsStr::from_bytes(log.to_bytes())));
        let keeps_log = log.is_some();
        let whole_log = keeps_log || report;
        if let Some(directory) = &directory {
            environment.push((RUN.into(), Some(directory.path().into())));
            let own = directory.path().join("log");
            if log.is_none() {
                if report {
                    environment.push(("SHMGUARD_LOG".into(), Some(own.clone().into())));
                }
                log = Some(own);
            }
        }
        if args.report.is_some() && log.is_none() {
            bail!("no directory can be written for the log of --report: neither /run/user/UID nor /var/tmp nor /tmp");
        }
        let config = merged(&environment);
        Ok(Setting { library, root: args.root.clone(), config, environment, directory, log, whole_log, keeps_log })
    }
}

/// The configuration that CMD's environment asks for.
fn merged(changes: &[(OsString, Option<OsString>)]) -> Config {
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (name, value) in changes {
        variables.retain(|(known, _)| known != name);
        if let Some(value) = value {
            variables.push((name.clone(), value.clone()));
        }
    }
    let entries: Vec<Vec<u8>> = variables.iter().map(|(name, value)| options::entry(name, value)).collect();
    let mut config = Config::from_environ(entries.iter().map(Vec::as_slice));
    // As the library in CMD will do; it also says what it found.
    config.look_at_guards(shmguard_core::guard::fault);
    config
}

/// A directory for this run, in the first place that can be written: ledger and log. Open to every user that CMD may become,
/// as /tmp is: what the library makes below it is its user's own.
fn run_directory(config: &Config) -> Option<tempfile::TempDir> {
    let uid = rustix::process::geteuid().as_raw();
    let mut places = vec![PathBuf::from(format!("/run/user/{uid}"))];
    if let Some(state) = &config.state {
        places.insert(0, PathBuf::from(OsStr::from_bytes(state.to_bytes())));
    }
    places.extend(["/var/tmp", "/tmp"].map(PathBuf::from));
    let guarded =
        |place: &Path| config.guards.iter().any(|guard| place.starts_with(OsStr::from_bytes(guard.to_bytes())));
    let prefix = format!("{}{}-", now::run_directory_prefix(), std::process::id());
    places.iter().filter(|place| !guarded(place)).find_map(|place| {
        let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(place).ok()?;
        now::sign_run(made.path()).ok()?;
        let log = made.path().join("log");
        fs::create_dir(&log).ok()?;
        for open in [made.path(), &log] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o1777)).ok()?;
        }
        Some(made)
    })
}

/// Passes on signals, reaps, watches; until CMD ends.
fn supervise(child: &Child, signals: &Signals, terminal: Option<&Terminal>, watch: &mut Watch) -> Ended {
    let pid = child.id() as i32;
    // The first look soon, for short programs; then at the watch's own pace.
    let mut next = Instant::now() + Duration::from_millis(20);
    loop {
        let wait = next.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut ready = [PollFd::new(&signals.fd, PollFlags::IN)];
        let _ = poll(&mut ready, Some(&timeout));
        for received in signals.read() {
            if received.signal == libc::SIGCONT {
                if let Some(terminal) = terminal.filter(|terminal| terminal.is_ours()) {
                    terminal.give(pid);
                }
                signals::send(-pid, libc::SIGCONT);
            } else if received.is_to_be_passed() {
                received.pass(pid);
            }
        }
        if let Some(ended) = deaths::reap(pid, watch, |group| stop_with(group, terminal)) {
            return ended;
        }
        if Instant::now() >= next {
            next = Instant::now() + watch.look();
        }
    }
}

/// CMD was stopped (Ctrl-Z): on a terminal this command stops as well, so that the shell has its prompt again.
fn stop_with(group: i32, terminal: Option<&Terminal>) {
    let Some(terminal) = terminal else { return };
    terminal.take_back(group);
    if terminal.is_ours() && std::process::id() != 1 {
        signals::send(std::process::id() as i32, libc::SIGSTOP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_private_shm_are_absolute_and_not_zero() {
        assert_eq!(shm_size("64m"), Ok(64 << 20));
        for wrong in ["0", "80%", "much", ""] {
            assert!(shm_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_report_is_json_or_html() {
        assert!(report_file("a.json").is_ok() && report_file("/x/b.html").is_ok());
        assert!(report_file("a.txt").is_err() && report_file("json").is_err());
    }
}
