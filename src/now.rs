//! How things stand now: the guarded directory, every segment with its holders, targets, and the memory shared by other means.
//!
//! The kernel is asked (statvfs, listings, /proc/PID/fd and /proc/PID/maps); the ledger adds who created what, and when. What
//! cannot be seen (other users' processes without root, other pid namespaces, descriptors in flight) shows up as strangers'
//! bytes: use of the guarded directory that no segment found here explains. `status`, `top`, `run` and `metrics` read this.

mod files;
mod holders;
mod ledgers;
mod processes;
mod runs;

use std::collections::HashMap;
use std::ffi::CStr;

use anyhow::{bail, Context};
use shmguard_core::config::Config;
use shmguard_core::engine::now_ms;
use shmguard_core::guard::Guard;
use shmguard_core::ledger::Process;
use shmguard_core::names;
use shmguard_core::process::{self, Owner};
use shmguard_core::room::{self, MemoryRoom, Space};
use shmguard_core::segment::Identity;
use shmguard_core::target::{Directory, Medium};
use shmguard_core::trend::Forecast;

pub use holders::{command_of, descendants};
pub use ledgers::{find as find_ledgers, state_places};
pub use processes::ProcessNow;
pub use runs::{run_directory_prefix, sign as sign_run, signer as signer_of_run};

/// The configuration that the environment of this command asks for: the same variables as the library's.
pub fn config() -> Config {
    use std::os::unix::ffi::OsStrExt;
    let entries: Vec<Vec<u8>> =
        std::env::vars_os().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect();
    Config::from_environ(entries.iter().map(Vec::as_slice))
}

/// Which processes are asked what they hold.
pub enum Whose<'a> {
    /// All that can be seen.
    All,
    /// These only.
    Of(&'a [i32]),
    /// This one's descendants, also those that are born meanwhile.
    Below(i32),
}

impl Whose<'_> {
    /// The processes, as far as they are not among `known`.
    fn pids(&self, known: &[i32]) -> Vec<i32> {
        let mut pids = match self {
            Whose::All if known.is_empty() => process::all().unwrap_or_default(),
            Whose::Of(pids) if known.is_empty() => pids.to_vec(),
            Whose::All | Whose::Of(_) => Vec::new(),
            Whose::Below(top) => descendants(*top).into_iter().filter(|pid| pid != top).collect(),
        };
        pids.retain(|pid| !known.contains(pid));
        pids
    }
}

/// Where a segment's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In the guarded directory.
    Guard,
    /// In a target, by its index in the configuration.
    Target(usize),
    /// memfd_create: memory, not in the guarded directory.
    Memfd,
    /// A shared anonymous mapping: memory, not in the guarded directory.
    Anonymous,
    /// System V: memory, not in the guarded directory.
    SystemV,
}

impl Place {
    /// One word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Place::Guard => "guard",
            Place::Target(_) => "target",
            Place::Memfd => "memfd",
            Place::Anonymous => "anonymous",
            Place::SystemV => "sysv",
        }
    }
}

/// A process that holds a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id as seen here.
    pub pid: i32,
    /// Descriptors that it has for the segment.
    pub descriptors: usize,
    /// Mappings that it has of it.
    pub mappings: usize,
}

/// The process that created a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creator {
    /// Process id in its own pid namespace.
    pub pid: i32,
    /// Its command (comm); empty when neither the ledger nor /proc knows it.
    pub command: String,
    /// It is gone.
    pub gone: bool,
}

/// One segment. Bytes.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its name below the guarded directory; for others what /proc calls it.
    pub name: String,
    /// It has a name by which it can be attached.
    pub named: bool,
    /// Where its bytes are.
    pub place: Place,
    /// (st_dev, st_ino) where known.
    pub identity: Identity,
    /// Its size: what it was promised.
    pub promised: u64,
    /// What it holds of that.
    pub held: u64,
    /// Who created it, by the ledger or the target's name.
    pub creator: Option<Creator>,
    /// Milliseconds since 1970 at its creation.
    pub created_ms: Option<u64>,
    /// Who holds it; empty: only its name keeps it.
    pub holders: Vec<Holder>,
    /// The ledger has it: the library saw it being sized.
    pub in_ledger: bool,
}

impl Segment {
    /// Bytes that it counts for in the demand: a kept segment what it was promised, unless its kind is known to be used
    /// sparsely or to stay small whatever it says.
    pub fn wanted(&self, config: &Config) -> u64 {
        let kind = names::kind(self.name.as_bytes());
        let in_full = self.place == Place::Guard && kind.is_used_in_full() && !config.keeps(self.name.as_bytes());
        if in_full {
            self.promised.max(self.held)
        } else {
            self.held
        }
    }
}

/// A target directory.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its path.
    pub path: String,
    /// What it is made of; `None` when it cannot be used.
    pub medium: Option<Medium>,
    /// Bytes that a new segment may take there.
    pub room: u64,
    /// Cap given by the user.
    pub cap: Option<u64>,
    /// Bytes that redirected segments hold there.
    pub held: u64,
}

/// Memory shared by other means than the guarded directory: it never fills it, but is memory of the same container. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// memfd_create.
    pub memfd: u64,
    /// Shared anonymous mappings.
    pub anonymous: u64,
    /// System V segments.
    pub system_v: u64,
}

/// How things stand.
pub struct Now {
    /// The guarded directory.
    pub path: String,
    /// Its identity.
    pub identity: Identity,
    /// Its room, as the kernel says.
    pub space: Space,
    /// Used and promised, from what segments were promised and what strangers use: a sum of `used` and the rest of the
    /// promises would count twice what was filled between the two questions.
    pub fill: u64,
    /// The fill from which on nothing more is let in; `None` = unlimited.
    pub limit: Option<u64>,
    /// When it will be full by what the ledger has of the last minutes and hours, if that can be told.
    pub forecast: Option<Forecast>,
    /// Is it a tmpfs?
    pub is_ram: bool,
    /// How full it may become.
    pub budget: Option<u64>,
    /// Every segment found, largest first.
    pub segments: Vec<Segment>,
    /// The targets.
    pub targets: Vec<Target>,
    /// Bytes promised beyond what kept segments hold.
    pub promised: u64,
    /// Bytes used in the guard that no segment found here explains.
    pub strangers: u64,
    /// Memory shared by other means.
    pub other: Other,
    /// Processes, most held first.
    pub processes: Vec<ProcessNow>,
    /// Machine and memory cgroup.
    pub memory: MemoryRoom,
    /// Highest values that the ledger has of this run of the guard; zero when there is no ledger.
    pub peak: Process,
    /// Processes that were looked at.
    pub pids: Vec<i32>,
    /// Those of them that have the library mapped.
    pub with_library: Vec<i32>,
    /// Processes of those asked that could not be looked at (other users').
    pub unseen: usize,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The same moment in milliseconds since boot, the clock of trends.
    pub clock_ms: u64,
}

impl Now {
    /// Bytes in all targets.
    pub fn redirected(&self) -> u64 {
        self.targets.iter().map(|target| target.held).sum()
    }

    /// Used, promised and redirected: what would have to fit if nothing were redirected.
    pub fn demand(&self) -> u64 {
        self.fill.saturating_add(self.redirected())
    }
}

/// Looks at guard number `index` of the configuration.
///
/// # Errors
/// The guarded directory is not there.
pub fn look(config: &Config, index: usize, whose: &Whose<'_>) -> anyhow::Result<Now> {
    let path: &CStr = config.guards.get(index).context("no guarded directory of this number")?;
    let shown = path.to_string_lossy().into_owned();
    let Some(guard) = Guard::open(path) else { bail!("{shown} is not a directory here") };
    let me = Owner::current();
    let mut found = files::Found::new(config, path, guard.identity);
    found.list_guard();
    found.list_targets();
    let mut commands = HashMap::new();
    let mut with_library = Vec::new();
    let mut unseen = 0;
    let mut pids = Vec::new();
    // Twice, for children that were born while their parents were looked at.
    for _ in 0..2 {
        for pid in whose.pids(&pids) {
            pids.push(pid);
            match holders::scan(pid, &mut found) {
                holders::Seen::Nothing => unseen += 1,
                holders::Seen::Gone => {}
                holders::Seen::Process { library } => {
                    if library {
                        with_library.push(pid);
                    }
                }
            }
        }
    }
    let system_v = found.list_system_v(whose, &pids);
    let (mut segments, links) = found.finish();
    let knowledge = ledgers::read(config, guard.identity, &me);
    knowledge.complete(&mut segments, &me, &mut commands);
    segments.sort_by(|a, b| b.held.max(b.promised).cmp(&a.held.max(a.promised)).then_with(|| a.name.cmp(&b.name)));

    // Before and after: what came or went while we looked is no stranger's.
    let space = Guard::open(path).map_or(guard.space, |guard| guard.space);
    let in_guard = segments.iter().filter(|segment| segment.place == Place::Guard);
    let explained: u64 = in_guard.clone().map(|segment| segment.held).sum::<u64>().saturating_add(links);
    let strangers = space.used.min(guard.space.used).saturating_sub(explained);
    let promised: u64 = in_guard.map(|segment| segment.wanted(config) - segment.held).sum();
    let fill = explained.saturating_add(strangers).saturating_add(promised);
    let held_by = |place: Place| segments.iter().filter(move |s| s.place == place).map(|s| s.held).sum::<u64>();
    let targets = config
        .targets
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let open = Directory::open(&spec.path, guard.identity).ok();
            Target {
                path: spec.path.to_string_lossy().into_owned(),
                medium: open.as_ref().map(|directory| directory.medium),
                room: open.as_ref().map_or(0, Directory::room),
                cap: spec.cap,
                held: held_by(Place::Target(index)),
            }
        })
        .collect();
    let other = Other { memfd: held_by(Place::Memfd), anonymous: held_by(Place::Anonymous), system_v };
    let processes = processes::list(&segments, &knowledge, &with_library, &mut commands);
    let limit = space.capacity.map(|capacity| config.limit_bytes(capacity));
    let clock_ms = now_ms();
    let forecast = limit.filter(|_| knowledge.trend.last_ms() > 0).and_then(|limit| {
        let mut trend = knowledge.trend.clone();
        trend.see(clock_ms, fill, limit);
        trend.forecast(limit)
    });
    Ok(Now {
        path: shown,
        identity: guard.identity,
        space,
        fill,
        limit,
        forecast,
        is_ram: guard.is_ram,
        budget: space.capacity.map(|capacity| config.budget_bytes(capacity)),
        targets,
        promised,
        strangers,
        other,
        processes,
        segments,
        memory: memory(),
        peak: knowledge.peak,
        pids,
        with_library,
        unseen,
        at_ms: wall_ms(),
        clock_ms,
    })
}

/// Machine and memory cgroup.
pub fn memory() -> MemoryRoom {
    use std::os::fd::AsFd;
    std::fs::File::open("/").map(|root| room::memory(root.as_fd())).unwrap_or_default()
}

/// Milliseconds since 1970.
pub fn wall_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
