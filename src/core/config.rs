//! What users ask for: the variables of the environment, read once.
//!
//! The program always runs: whatever cannot be used becomes a [`Complaint`] and a default. An
//! empty value counts as not set, since many a Dockerfile and compose file cannot unset one.

mod complaint;
mod lists;
mod path;
mod variables;

pub use complaint::Complaint;
pub use variables::{variable, Variable, RUN, TORCH, VARIABLES};

use crate::pattern;
use crate::size::{self, Amount};
use complaint::{Instead, Problem};
use std::ffi::{CStr, CString};

/// What happens to a segment that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It goes to a target.
    #[default]
    Redirect,
    /// Nothing; it is counted and warned of.
    Observe,
    /// Its sizing fails with ENOSPC.
    Refuse,
    /// Nothing at all; the library does not even count.
    Off,
}

impl Mode {
    /// The word of `SHMGUARD_MODE`.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Redirect => "redirect",
            Mode::Observe => "observe",
            Mode::Refuse => "refuse",
            Mode::Off => "off",
        }
    }
}

/// A directory that takes what does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSpec {
    /// Absolute, without a slash at its end.
    pub path: CString,
    /// Bytes that redirected segments may take there; `None`: what its file system allows.
    pub cap: Option<u64>,
}

/// Who chose the targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nobody: the built-in ones.
    #[default]
    Default,
    /// `SHMGUARD_REDIRECT`.
    Redirect,
    /// `TORCH_SHARED_MEMORY_PATH` chose the first one; the built-in ones follow.
    TorchVar,
}

/// The programs in which the library works: patterns of file names of executables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Programs {
    /// In all.
    #[default]
    All,
    /// Where one of these matches.
    Only(Vec<Box<[u8]>>),
    /// Where none of these matches.
    Except(Vec<Box<[u8]>>),
}

/// How much room a guarded directory may show when that of its targets is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advertise {
    /// Less than what makes joblib keep its files there.
    Usual,
    /// At most so many free bytes.
    UpTo(u64),
}

/// The configuration of a process. `Config::default()` is that of an empty environment except that
/// it has no guards, no targets and no warning levels: see [`Config::from_environ`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `SHMGUARD_MODE`.
    pub mode: Mode,
    /// `SHMGUARD_BUDGET`; `None`: not set, see [`Config::budget_bytes`].
    pub budget: Option<Amount>,
    /// Targets in order of preference, none twice, none inside a guarded directory (by its text).
    /// Empty: redirection is switched off.
    pub targets: Vec<TargetSpec>,
    /// Who chose them.
    pub targets_from: Source,
    /// `SHMGUARD_WARN`: at most [`MOST_LEVELS`] fill levels, in the order in which they were given.
    pub warn: Vec<Amount>,
    /// `SHMGUARD_KEEP`: patterns of names in the guarded directory.
    pub keep: Vec<Box<[u8]>>,
    /// `SHMGUARD_PROGRAMS`.
    pub programs: Programs,
    /// `SHMGUARD_LOG`: absolute, not inside a guarded directory.
    pub log: Option<CString>,
    /// `SHMGUARD_GUARD`: absolute, at least one.
    pub guards: Vec<CString>,
    /// The guards were named by the user.
    guards_named: bool,
    /// `SHMGUARD_STATE`: absolute, not inside a guarded directory.
    pub state: Option<CString>,
    /// `SHMGUARD_ADVERTISE`; `None`: guarded directories answer with the truth.
    pub advertise: Option<Advertise>,
    /// `SHMGUARD_HELLO`.
    pub hello: bool,
    /// `SHMGUARD_QUIET`.
    pub quiet: bool,
    /// `SHMGUARD_RUN`: the directory that `shmguard run` made for this run.
    pub run: Option<CString>,
    /// What could not be used, at most [`MOST_COMPLAINTS`] and one that says that there are more.
    pub complaints: Vec<Complaint>,
}

/// Warning levels that are read; a longer list is not a list of warnings.
pub const MOST_LEVELS: usize = 8;
/// Complaints that are kept.
pub const MOST_COMPLAINTS: usize = 8;
/// The directory guarded when none is named.
const GUARD: &CStr = c"/dev/shm";
/// The targets when none is named.
const TARGETS: [&CStr; 2] = [c"/var/tmp", c"/tmp"];
/// The fill levels announced when none is named.
const LEVELS: [Amount; 2] = [Amount::Percent(75), Amount::Percent(90)];

impl Config {
    /// Reads the environment: raw `NAME=value` strings, as in `environ`. Of two with the same name
    /// the first counts, as for `getenv`. Looks at nothing but the strings and keeps none of them.
    pub fn from_environ<'a>(entries: impl Iterator<Item = &'a [u8]>) -> Config {
        let mut config = Config::default();
        let mut found = Found::default();
        for entry in entries {
            if entry.starts_with(b"SHMGUARD_") || entry.starts_with(TORCH.as_bytes()) {
                found.add(entry, &mut config);
            }
        }
        config.read(&found);
        config
    }

    fn read(&mut self, found: &Found<'_>) {
        // The guards first: what follows must not lie inside of them.
        let guards = found.get("SHMGUARD_GUARD");
        self.guards = self.directories("SHMGUARD_GUARD", guards);
        self.guards_named = guards.is_some();
        if let Some(value) = found.get("SHMGUARD_MODE") {
            self.mode = match value.to_ascii_lowercase().as_slice() {
                b"redirect" => Mode::Redirect,
                b"observe" => Mode::Observe,
                b"refuse" => Mode::Refuse,
                b"off" => Mode::Off,
                _ => self.unreadable("SHMGUARD_MODE", value, Instead::Default),
            };
        }
        if let Some(value) = found.get("SHMGUARD_BUDGET") {
            // A budget of nothing would redirect every semaphore; SHMGUARD_MODE=off is not meant by it either.
            self.budget = size::parse(value).filter(|amount| *amount != Amount::Bytes(0));
            if self.budget.is_none() {
                self.unreadable("SHMGUARD_BUDGET", value, Instead::Default)
            }
        }
        self.read_targets(found.get("SHMGUARD_REDIRECT"), found.get(TORCH));
        self.read_levels(found.get("SHMGUARD_WARN"));
        if let Some(value) = found.get("SHMGUARD_KEEP") {
            self.keep = self.names("SHMGUARD_KEEP", value);
        }
        if let Some(value) = found.get("SHMGUARD_PROGRAMS") {
            self.programs = self.read_programs(value);
        }
        self.log = self.directory("SHMGUARD_LOG", found.get("SHMGUARD_LOG"));
        self.state = self.directory("SHMGUARD_STATE", found.get("SHMGUARD_STATE"));
        self.run = self.directory(RUN, found.run);
        self.advertise = self.read_advertise(found.get("SHMGUARD_ADVERTISE"));
        self.hello = self.switch("SHMGUARD_HELLO", found.get("SHMGUARD_HELLO"));
        self.quiet = self.switch("SHMGUARD_QUIET", found.get("SHMGUARD_QUIET"));
    }

    /// Looks at the guards that the user named, and leaves out those that `fault` finds one with; the built-in one is used when
    /// none is left. Without `SHMGUARD_GUARD` nothing is looked at: a `/dev/shm` that is missing now may come.
    pub fn look_at_guards(&mut self, fault: impl Fn(&CStr) -> Option<&'static str>) {
        if !self.guards_named {
            return;
        }
        for guard in std::mem::take(&mut self.guards) {
            match fault(&guard) {
                None => self.guards.push(guard),
                Some(fault) => {
                    let problem = Problem::NoGuard(fault);
                    self.complain(b"SHMGUARD_GUARD", guard.to_bytes(), problem, Instead::Dropped);
                }
            }
        }
        if self.guards.is_empty() {
            self.all_dropped("SHMGUARD_GUARD");
            self.guards.push(GUARD.to_owned());
            // Targets below it would never be used as such; the engine would say so of each.
            let inside = |target: &TargetSpec| path::inside(target.path.to_bytes(), GUARD.to_bytes());
            self.targets.retain(|target| !inside(target));
        }
    }

    /// Whether the library is to work in this program: the file name of its executable, without
    /// directories.
    pub fn applies_to(&self, program: &[u8]) -> bool {
        let named = |patterns: &[Box<[u8]>]| patterns.iter().any(|pattern| pattern::matches(pattern, program));
        match &self.programs {
            Programs::All => true,
            Programs::Only(patterns) => named(patterns),
            Programs::Except(patterns) => !named(patterns),
        }
    }

    /// Whether a segment of this name (without directories) is never to be moved or reserved.
    pub fn keeps(&self, name: &[u8]) -> bool {
        self.keep.iter().any(|pattern| pattern::matches(pattern, name))
    }

    /// How full, in bytes, a guarded directory of `capacity` bytes may become: the budget, but not
    /// more than the capacity; without one, all but the [`margin`].
    pub fn budget_bytes(&self, capacity: u64) -> u64 {
        match self.budget {
            Some(amount) => amount.of(capacity).min(capacity),
            None => capacity.saturating_sub(margin(capacity)),
        }
    }

    /// The fill of a guarded directory of `capacity` bytes from which on nothing more is let in: the budget, or all of it where
    /// this mode keeps nobody out.
    pub fn limit_bytes(&self, capacity: u64) -> u64 {
        match self.mode {
            Mode::Redirect | Mode::Refuse => self.budget_bytes(capacity),
            Mode::Observe | Mode::Off => capacity,
        }
    }
}

/// Bytes of a guarded directory of `capacity` bytes that are left for semaphores, OpenMP and
/// strangers: 1/16, at least 256 KiB and at most 64 MiB, and never more than half of it.
pub fn margin(capacity: u64) -> u64 {
    (capacity / 16).clamp(256 << 10, 64 << 20).min(capacity / 2)
}

/// The values of the environment that are ours, blanks around them taken away.
struct Found<'a> {
    values: [Option<&'a [u8]>; VARIABLES.len()],
    run: Option<&'a [u8]>,
}

impl Default for Found<'_> {
    fn default() -> Self {
        Self { values: [None; VARIABLES.len()], run: None }
    }
}

impl<'a> Found<'a> {
    /// Puts an entry in its place, or complains about its name.
    fn add(&mut self, entry: &'a [u8], config: &mut Config) {
        let mut parts = entry.splitn(2, |&byte| byte == b'=');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            return;
        };
        let known = VARIABLES.iter().position(|known| known.name.as_bytes() == name);
        let place = match known.and_then(|index| self.values.get_mut(index)) {
            Some(place) => place,
            None if name == RUN.as_bytes() => &mut self.run,
            // The command's own: where it finds the library.
            None if name == b"SHMGUARD_LIB" || name.starts_with(TORCH.as_bytes()) => return,
            None => return config.complain(name, b"", Problem::Unknown, Instead::Ignored),
        };
        place.get_or_insert(value.trim_ascii());
    }

    /// The value of a variable; `None`: not set, or empty.
    fn get(&self, name: &str) -> Option<&'a [u8]> {
        let (_, value) = VARIABLES.iter().zip(&self.values).find(|(known, _)| known.name == name)?;
        value.filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests;
