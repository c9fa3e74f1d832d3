//! `shmguard doctor`: looks at this machine or container before a run, and prints the fix.
//!
//! Everything is read below one root ([`root`]), gathered as numbers ([`facts`], [`stale`], [`removal`], [`targets`],
//! [`loads`]), judged ([`findings`]) and answered with lines to paste for this kind of environment ([`environment`],
//! [`fix`]).

mod environment;
mod facts;
mod findings;
mod fix;
mod loads;
mod mounts;
mod removal;
mod root;
mod stale;
mod targets;
mod words;

use std::ffi::{CString, OsStr};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use shmguard_core::config::{Config, Mode};
use shmguard_core::guard::Guard;

use environment::{Kind, Recognised};
use findings::Finding;
use root::Root;

/// Looks at this machine or container before a run, and prints the fix.
///
/// Exit 0: all is well. 1: something needs a fix.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  shmguard doctor
  shmguard doctor --need 2g
  shmguard doctor --program python3
  docker run IMAGE shmguard doctor --json")]
pub struct Args {
    /// Shared memory that the run will need (shmguard estimate says it).
    #[arg(long, value_name = "SIZE", value_parser = crate::estimate::bytes)]
    need: Option<u64>,
    /// A program that is meant to run under the library: is it one that can?
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Print only what needs a fix; nothing where all is well.
    #[arg(long, short)]
    quiet: bool,
    /// Do not measure how fast the targets are.
    #[arg(long)]
    no_speed: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Read everything below this directory instead of /.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
    /// Seconds for which a file in /dev/shm that nobody holds is not called stale.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, hide = true)]
    young: u64,
}

/// Does systemd-logind remove the segments of this user when the last session ends? By which setting. Read below `root`.
pub fn removes_ipc(root: &Path) -> Option<String> {
    let found = removal::RemoveIpc::look(&Root::open(root).ok()?);
    (found.on && found.logind && found.concerns_us).then(|| found.source())
}

/// All that was looked at.
#[derive(Debug, Serialize)]
pub struct Patient {
    /// What kind of environment it is, the innermost first; never empty.
    environment: Vec<Recognised>,
    /// The guarded directory.
    shm: facts::Shm,
    memory: facts::Memory,
    limits: facts::Limits,
    remove_ipc: removal::RemoveIpc,
    stale: Vec<stale::Stale>,
    targets: Vec<targets::Target>,
    library: loads::Library,
    /// Variables that cannot be used.
    complaints: Vec<String>,
    /// The mode asked for redirects.
    redirects: bool,
    /// Bytes that the run will need.
    need: Option<u64>,
}

impl Patient {
    fn look(root: &Root, args: &Args) -> Patient {
        let environment = root.environment();
        let mounts = mounts::parse(&root.text("proc/self/mountinfo").unwrap_or_default());
        // SHMGUARD_LIB is this command's own (`shmguard path`), not one of the library's.
        let own = format!("{}=", crate::path::VARIABLE);
        let config = Config::from_environ(environment.entries().filter(|entry| !entry.starts_with(own.as_bytes())));
        let memory = facts::Memory::look(root);
        let path =
            config.guards.first().map_or(Path::new("/dev/shm"), |guard| Path::new(OsStr::from_bytes(guard.to_bytes())));
        let shm = facts::Shm::look(root, path, &mounts, &config, memory.total_bytes);
        let identity = CString::new(root.path(path).as_os_str().as_bytes())
            .ok()
            .and_then(|path| Guard::open(&path))
            .filter(|guard| guard.is_ram)
            .map(|guard| guard.identity)
            .unwrap_or_default();
        let bound = match (memory.available_bytes, memory.limit_left_bytes) {
            (Some(machine), Some(cgroup)) => Some(machine.min(cgroup)),
            (machine, cgroup) => machine.or(cgroup),
        };
        let bound = if args.no_speed { Some(0) } else { bound };
        let on_slow = |path: &str| {
            if !args.no_speed && std::io::stderr().is_terminal() {
                eprintln!("measuring {path} ...");
            }
        };
        Patient {
            environment: environment::recognise(root, &environment, &mounts),
            stale: if shm.wrong.is_none() {
                stale::find(root, path, Duration::from_secs(args.young))
            } else {
                Vec::new()
            },
            targets: targets::look(root, &config, identity, bound, &on_slow),
            library: loads::Library::look(root, &environment, args.program.as_deref()),
            limits: facts::Limits::look(root),
            remove_ipc: removal::RemoveIpc::look(root),
            complaints: config.complaints.iter().map(ToString::to_string).collect(),
            redirects: config.mode == Mode::Redirect && !config.targets.is_empty(),
            need: args.need,
            shm,
            memory,
        }
    }

    /// The kind that decides about the fix.
    fn kind(&self) -> Kind {
        self.environment.first().map_or(Kind::Bare, |recognised| recognised.kind)
    }

    /// The first target that can take something.
    fn usable_target(&self) -> Option<&str> {
        let usable = self.targets.iter().find(|target| target.unusable.is_none());
        usable.filter(|_| self.redirects).map(|target| target.path.as_str())
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    well: bool,
    findings: &'a [Finding],
    #[serde(flatten)]
    patient: &'a Patient,
}

/// Is there such a program, at this path or in PATH?
fn is_there(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|place| place.join(program).is_file())
}

/// Looks, judges, prints. Exit 1 when something needs a fix, 2 when there is no such program.
///
/// # Errors
/// The root cannot be opened, or output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = Root::open(&args.root)?;
    if let Some(program) = args.program.as_deref().filter(|program| !is_there(program)) {
        eprintln!("shmguard: there is no program {} here", program.display());
        return Ok(ExitCode::from(2));
    }
    let patient = Patient::look(&root, args);
    let findings = findings::find(&patient);
    let well = !findings.iter().any(|finding| finding.needs_fix);
    let mut text = if args.json {
        format!("{:#}\n", serde_json::to_value(Report { well, findings: &findings, patient: &patient })?)
    } else {
        let style = words::Style::of_stdout();
        let mut text = if args.quiet { String::new() } else { words::facts(&patient) };
        text.push_str(&words::findings(&findings, args.quiet, &style));
        text
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
