//! What is said, each kind once; fill levels have a file of their own.

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::size::{Failure, Sizing};
use super::words::{Targets, UnusableWords, Went};
use super::Engine;
use crate::config::{Mode, Source, TORCH};
use crate::guard::Guard;
use crate::ledger::Totals;
use crate::message::{self, Asking, Line, Shown};
use crate::names;
use crate::policy::{Cause, Situation};
use crate::segment::{Place, Segment};
use crate::size::Human;
use crate::target::{Medium, Unusable};
use crate::text::{Printable, Text};

/// Bits of `Engine::said`: levels take the first eight.
const SAID_REDIRECT: u32 = 8;
const SAID_REFUSED: u32 = 9;
const SAID_GUARD: u32 = 10;
const SAID_DESCRIPTORS: u32 = 11;
const SAID_INODES: u32 = 12;
const SAID_LOG: u32 = 14;
const SAID_STATE: u32 = 15;
const SAID_OVERFLOW: u32 = 16;
/// A fill level was announced by what does not fit.
pub(super) const SAID_NO_ROOM: u32 = 39;
const SAID_TARGET: u32 = 40;
pub(super) const SAID_MAPS: u32 = 48;
const SAID_TIGHT: u32 = 49;

const TOUCHING: &str = "Touching it may end the process with SIGBUS. ";

/// Bytes wanted at once with this segment: what is in use and promised, and what it asks for beyond its own part of that.
fn wanted_with(segment: &Segment, sizing: &Sizing<'_>, situation: &Situation) -> u64 {
    let own = sizing.held().max(segment.promised);
    situation.fill().saturating_add(sizing.bytes.saturating_sub(own))
}

impl Engine {
    /// Says a line, if it is the first time for this process and, by the ledger, for all.
    #[cold]
    #[inline(never)]
    pub(super) fn say_once(&self, bit: u32, what: &str, line: &Line) {
        let mask = 1u64 << (bit & 63);
        if self.said.fetch_or(mask, Ordering::AcqRel) & mask != 0 {
            return;
        }
        match self.once(what) {
            Some(true) => self.say(what, line),
            Some(false) => {}
            // The next occasion says it.
            None => drop(self.said.fetch_and(!mask, Ordering::AcqRel)),
        }
    }

    pub(super) fn say(&self, what: &str, line: &Line) {
        self.tally.warnings.add(1);
        self.make_urgent();
        let written = !self.config.quiet && self.outlet.say(line.bytes());
        if self.logs_ends() {
            let text = line.bytes().strip_suffix(b"\n").unwrap_or(line.bytes());
            self.log_warning(what, written, text);
        }
    }

    fn shown<'a>(&'a self, segment: &Segment, situation: &Situation) -> Shown<'a> {
        Shown {
            path: self.guard_path(segment.guard as usize),
            fill: situation.fill(),
            capacity: situation.capacity,
            budget: situation.budget_for(names::kind(&segment.name)),
        }
    }

    /// The first words of a run. By whoever has the door of the ledger, before the books are said to have begun: so they come
    /// first.
    #[cold]
    #[inline(never)]
    pub(super) fn greet(&self, guard: &Guard, index: usize) {
        if !self.config.hello {
            return;
        }
        let first = super::patiently(&self.books)
            .is_some_and(|books| books.ledger.as_ref().is_none_or(|ledger| ledger.once("hello")));
        if first {
            self.say("hello", &self.hello(guard, index));
        }
    }

    /// The first words of a process: complaints about variables. `logged`: its first event could be written.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_start(&self, logged: bool) {
        if self.logs_ends() {
            if let Some(directory) = self.config.log.as_deref().filter(|_| !logged) {
                let line = message::line(format_args!(
                    "SHMGUARD_LOG=\"{}\" cannot be written: expected a directory that this user can write; nothing is logged",
                    message::path(directory)
                ));
                self.say_once(SAID_LOG, "log", &line);
            }
        }
        if let Some((named, place)) = self.misplaced() {
            let mut instead = Text::<128>::new();
            if place.is_empty() {
                instead.add(format_args!("there is no other place, so each process counts for itself"));
            } else {
                instead.add(format_args!("the default is used: {}", Printable(&place)));
            }
            let line = message::line(format_args!(
                "SHMGUARD_STATE=\"{}\" cannot be used: expected a directory that this user can write; {}",
                message::path(named),
                instead.as_str()
            ));
            self.say_once(SAID_STATE, "state", &line);
        }
        for (number, complaint) in self.config.complaints.iter().enumerate() {
            let mut what = Text::<32>::new();
            what.add(format_args!("variable.{number}"));
            if self.once(what.as_str()) == Some(true) {
                self.say(what.as_str(), &message::line(format_args!("{complaint}")));
            }
        }
    }

    fn hello(&self, guard: &Guard, index: usize) -> Line {
        let capacity = guard.space.capacity;
        let budget = capacity.map_or(u64::MAX, |capacity| self.config.budget_bytes(capacity));
        let shown = Shown { path: self.guard_path(index), fill: guard.space.used, capacity, budget };
        message::line(format_args!(
            "version {}, mode {}, guards {} ({shown} in use), targets: {}",
            env!("CARGO_PKG_VERSION"),
            self.config.mode.word(),
            message::path(self.guard_path(index)),
            Targets { engine: self, guard, need: None }
        ))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn tell_missing_guard(&self, index: usize) {
        let path = self.guard_path(index);
        self.say_once(
            SAID_GUARD,
            "guard",
            &message::line(format_args!(
                "{} is not a directory here: shared memory cannot work without it. Mount one: mount -t tmpfs -o size=1g,mode=1777 tmpfs {}",
                message::path(path),
                message::path(path)
            )),
        );
    }

    /// A creating call failed; some causes have nothing to do with bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_failed_creation(&self, index: usize, name: &[u8], error: i32) {
        let path = message::path(self.guard_path(index));
        let name = Printable(name.get(..name.len().min(64)).unwrap_or(name));
        match Errno::from_raw_os_error(error) {
            Errno::MFILE => {
                let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(0);
                self.say_once(
                    SAID_DESCRIPTORS,
                    "descriptors",
                    &message::line(format_args!(
                        "{name} cannot be created: the process has used all of its {limit} descriptors. {path} has room; raise the limit: ulimit -n {}",
                        limit.saturating_mul(16).max(65536)
                    )),
                );
            }
            Errno::NOSPC => {
                let Some(guard) = self.open_guard(index) else { return };
                if guard.space.inodes.is_some() && guard.space.inodes_free == 0 {
                    self.say_once(
                        SAID_INODES,
                        "inodes",
                        &message::line(format_args!(
                            "{name} cannot be created: {path} has no inode left ({} files), though {} are free. Remove stale files, or mount it with a larger nr_inodes",
                            guard.space.inodes.unwrap_or(0),
                            Human(guard.space.free)
                        )),
                    );
                }
            }
            Errno::ROFS => self.say_once(
                SAID_GUARD,
                "guard",
                &message::line(format_args!(
                    "{name} cannot be created: {path} is mounted read-only. Mount it writable"
                )),
            ),
            Errno::ACCESS => self.say_once(
                SAID_GUARD,
                "guard",
                &message::line(format_args!(
                    "{name} cannot be created: {path} is not writable for this user. Give it mode 1777"
                )),
            ),
            _ => {}
        }
    }

    pub(super) fn asking<'a>(&self, command: &'a [u8], segment: &'a Segment, sizing: &Sizing<'_>) -> Asking<'a> {
        Asking { command, pid: crate::getpid(), bytes: sizing.bytes, name: &segment.name }
    }

    /// Kind 2: the first redirect.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_redirect(
        &self,
        segment: &Segment,
        sizing: &Sizing<'_>,
        situation: &Situation,
        target: usize,
        medium: Medium,
    ) {
        let Some(spec) = self.config.targets.get(target) else { return };
        let demand = self.demand_peak().max(wanted_with(segment, sizing, situation));
        let command = self.command();
        let asking = self.asking(&command, segment, sizing);
        let line = message::redirect(&self.shown(segment, situation), &asking, &spec.path, medium, demand);
        self.say_once(SAID_REDIRECT, "redirect", &line);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn tell_refused(&self, segment: &Segment, sizing: &Sizing<'_>, situation: &Situation) {
        let demand = self.demand_peak().max(wanted_with(segment, sizing, situation));
        let command = self.command();
        let line = message::cannot(
            &self.shown(segment, situation),
            &self.asking(&command, segment, sizing),
            &"it gets ENOSPC (SHMGUARD_MODE=refuse)",
            "SHMGUARD_MODE=redirect would send it to a target. ",
            Some(demand),
        );
        self.say_once(SAID_REFUSED, "refused", &line);
    }

    /// Kind 3: it does not fit and cannot be moved.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_overflow(
        &self,
        segment: &Segment,
        sizing: &Sizing<'_>,
        situation: &Situation,
        cause: Cause,
        failure: &Failure,
    ) {
        let demand = self.demand_peak().max(wanted_with(segment, sizing, situation));
        let Some(guard) = self.open_guard(segment.guard as usize) else { return };
        let mut why = Text::<300>::new();
        let bit = match failure {
            _ if self.config.mode == Mode::Observe => {
                why.add(format_args!("it does not fit, and nothing is moved (SHMGUARD_MODE=observe)"));
                0
            }
            _ if self.config.targets.is_empty() => {
                why.add(format_args!("it does not fit, and there is nowhere to redirect it to (SHMGUARD_REDIRECT)"));
                1
            }
            Failure::Stays(stay) => {
                why.add(format_args!("it cannot be moved: {}", stay.words()));
                2 + (*stay as u32).min(17)
            }
            Failure::NoTarget => {
                why.add(format_args!(
                    "no target takes it: {}",
                    Targets { engine: self, guard: &guard, need: Some((sizing.bytes, names::kind(&segment.name))) }
                ));
                20
            }
            Failure::Inodes => {
                why.add(format_args!(
                    "there is no inode left for its link (nr_inodes {})",
                    guard.space.inodes.unwrap_or(0)
                ));
                21
            }
            Failure::Descriptors => {
                why.add(format_args!("no descriptor is left to move it (raise ulimit -n)"));
                22
            }
        };
        if cause == Cause::Memory {
            why.add(format_args!(
                " (memory is the narrower bound: {} left on the machine or in the memory cgroup)",
                Human(situation.memory.unwrap_or(0))
            ));
        }
        let then = match (sizing.lacks(situation), sizing.reserves()) {
            (true, true) => "It gets ENOSPC. ",
            (true, false) => TOUCHING,
            (false, _) => "",
        };
        let command = self.command();
        let asking = self.asking(&command, segment, sizing);
        // Where memory is the narrower bound a larger tmpfs has no more of it.
        let demand = (cause != Cause::Memory).then_some(demand);
        let line = message::cannot(&self.shown(segment, situation), &asking, &why.as_str(), then, demand);
        if then.is_empty() {
            // It stays within the margin and nothing dies of it: that must not silence the line about one that does.
            self.say_once(SAID_TIGHT, "tight", &line);
            return;
        }
        let mut what = Text::<32>::new();
        what.add(format_args!("cannot.{bit}"));
        self.say_once(SAID_OVERFLOW + bit, what.as_str(), &line);
    }

    /// No descriptor was left to look at the guarded directory with; the segment's own tells whether it fits.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_no_descriptor(&self, segment: &Segment, sizing: &Sizing<'_>) {
        let Ok(look) = crate::room::look(sizing.fd) else { return };
        let lacking = sizing.bytes.saturating_sub(sizing.held());
        let Some(capacity) = look.space.capacity.filter(|_| segment.place == Place::Guard && look.space.free < lacking)
        else {
            return;
        };
        let path = self.guard_path(segment.guard as usize);
        let budget = self.config.budget_bytes(capacity);
        let shown = Shown { path, fill: look.space.used, capacity: Some(capacity), budget };
        let command = self.command();
        let line = message::cannot(
            &shown,
            &self.asking(&command, segment, sizing),
            &"no descriptor is left to move it (raise ulimit -n)",
            if sizing.reserves() { "It gets ENOSPC. " } else { TOUCHING },
            Some(look.space.used.saturating_add(lacking)),
        );
        self.say_once(SAID_OVERFLOW + 22, "cannot.22", &line);
    }

    /// A target that cannot be used at all.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_unusable(&self, index: usize, unusable: Unusable) {
        let Some(spec) = self.config.targets.get(index) else { return };
        // Of the built-in ones one may well be missing; that is told only when none is left.
        let variable = match self.config.targets_from {
            Source::Redirect => "SHMGUARD_REDIRECT",
            Source::TorchVar if index == 0 => TORCH,
            Source::TorchVar | Source::Default => return,
        };
        if !self.redirects() {
            return;
        }
        let line = message::line(format_args!(
            "target {} of {variable} is not used: {}. Expected a directory that this user can write",
            Printable(spec.path.to_bytes().get(..200).unwrap_or(spec.path.to_bytes())),
            UnusableWords(unusable)
        ));
        let mut what = Text::<32>::new();
        what.add(format_args!("target.{index}"));
        self.say_once(SAID_TARGET + (index as u32).min(7), what.as_str(), &line);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn tell_no_fallocate(&self, index: usize) {
        let Some(spec) = self.config.targets.get(index) else { return };
        let line = message::line(format_args!(
            "target {} is not used: its file system cannot reserve space (fallocate). Name a directory on tmpfs, ext4, xfs or btrfs in SHMGUARD_REDIRECT",
            message::path(&spec.path)
        ));
        let mut what = Text::<32>::new();
        what.add(format_args!("target.{index}"));
        self.say_once(SAID_TARGET + (index as u32).min(7), what.as_str(), &line);
    }

    /// The last process that used the guarded directory ends.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_farewell(&self, sum: &Totals) {
        if sum.redirected == 0 && sum.unsaved == 0 {
            return;
        }
        let line = message::farewell(self.guard_path(0), sum, &Went { engine: self, sum });
        if !self.config.quiet && self.config.run.is_none() {
            self.outlet.say(line.bytes());
        }
        if self.logs_ends() {
            let text = line.bytes().strip_suffix(b"\n").unwrap_or(line.bytes());
            self.log_summary(text);
        }
    }
}
