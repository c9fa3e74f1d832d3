//! Reads the values of single variables.

use super::complaint::{Complaint, Instead, Problem};
use super::path::{absolute, inside};
use super::{
    Advertise, Config, Programs, Source, TargetSpec, GUARD, LEVELS, MOST_COMPLAINTS, MOST_LEVELS, TARGETS, TORCH,
};
use crate::pattern;
use crate::size::{self, Amount};
use std::ffi::{CStr, CString};

/// Smaller than any tmpfs can be: one page, in bytes.
const LEAST_ADVERTISED: u64 = 4096;

/// A pattern longer than any file name can be useful only by mistake, and takes time.
const LONGEST_PATTERN: usize = 1024;

impl Config {
    pub(super) fn complain(&mut self, name: &[u8], value: &[u8], problem: Problem, instead: Instead) {
        if self.complaints.len() > MOST_COMPLAINTS {
            return;
        }
        let problem = if self.complaints.len() == MOST_COMPLAINTS { Problem::TooMany } else { problem };
        // More than is ever shown of it would only take memory.
        let short = |text: &[u8]| Box::from(text.get(..256).unwrap_or(text));
        self.complaints.push(Complaint { name: short(name), value: short(value), problem, instead });
    }

    /// Complains, and yields what an unset variable would.
    pub(super) fn unreadable<T: Default>(&mut self, name: &str, value: &[u8], instead: Instead) -> T {
        self.complain(name.as_bytes(), value, Problem::Unreadable, instead);
        T::default()
    }

    /// Nothing of a list could be used: its last complaint, if any, says what is used then.
    pub(super) fn all_dropped(&mut self, name: &str) {
        if let Some(last) = self.complaints.last_mut().filter(|last| *last.name == *name.as_bytes()) {
            last.instead = Instead::Default;
        }
    }

    pub(super) fn switch(&mut self, name: &str, value: Option<&[u8]>) -> bool {
        let Some(value) = value else { return false };
        match on_or_off(value) {
            Some(on) => on,
            None => self.unreadable(name, value, Instead::Default),
        }
    }

    /// A switch, or the most that may be shown.
    pub(super) fn read_advertise(&mut self, value: Option<&[u8]>) -> Option<Advertise> {
        let value = value?;
        match (on_or_off(value), size::parse(value)) {
            (Some(on), _) => on.then_some(Advertise::Usual),
            // A few bytes are a slip of the switch, not a size.
            (None, Some(Amount::Bytes(bytes))) if bytes >= LEAST_ADVERTISED => Some(Advertise::UpTo(bytes)),
            _ => self.unreadable("SHMGUARD_ADVERTISE", value, Instead::Default),
        }
    }

    /// The guarded directory that a path lies in.
    fn guard_around(&self, path: &CStr) -> Option<CString> {
        self.guards.iter().find(|guard| inside(path.to_bytes(), guard.to_bytes())).cloned()
    }

    /// A directory outside of the guarded ones.
    pub(super) fn directory(&mut self, name: &str, value: Option<&[u8]>) -> Option<CString> {
        let value = value.filter(|value| !value.is_empty())?;
        let Some(path) = absolute(value) else {
            return self.unreadable(name, value, Instead::Ignored);
        };
        match self.guard_around(&path) {
            None => Some(path),
            Some(guard) => {
                let problem = Problem::Guarded(guard.to_bytes().into());
                self.complain(name.as_bytes(), value, problem, Instead::Ignored);
                None
            }
        }
    }

    /// The guarded directories.
    pub(super) fn directories(&mut self, name: &str, value: Option<&[u8]>) -> Vec<CString> {
        let mut directories: Vec<CString> = Vec::new();
        for entry in entries(value.unwrap_or_default()) {
            // Everything lies inside of /, targets too.
            match absolute(entry).filter(|path| path.as_c_str() != c"/") {
                Some(path) if directories.contains(&path) => {}
                Some(path) => directories.push(path),
                None => self.unreadable(name, entry, Instead::Dropped),
            }
        }
        if directories.is_empty() {
            self.all_dropped(name);
            directories.push(GUARD.to_owned());
        }
        directories
    }

    /// The targets, from `SHMGUARD_REDIRECT` and `TORCH_SHARED_MEMORY_PATH`.
    pub(super) fn read_targets(&mut self, redirect: Option<&[u8]>, torch: Option<&[u8]>) {
        if let Some(value) = redirect {
            if value.eq_ignore_ascii_case(b"none") {
                self.targets_from = Source::Redirect;
                return;
            }
            for entry in entries(value) {
                match target(entry) {
                    Some(target) => self.add_target(entry, target),
                    None => self.unreadable("SHMGUARD_REDIRECT", entry, Instead::Dropped),
                }
            }
            if !self.targets.is_empty() {
                self.targets_from = Source::Redirect;
                return;
            }
            self.all_dropped("SHMGUARD_REDIRECT");
        } else if let Some(value) = torch {
            match absolute(value) {
                // Guides name /dev/shm here too, where PyTorch's segments are anyway: no word then.
                Some(path) if self.guard_around(&path).is_some() => {}
                Some(path) => {
                    self.targets.push(TargetSpec { path, cap: None });
                    self.targets_from = Source::TorchVar;
                }
                None => self.unreadable(TORCH, value, Instead::Ignored),
            }
        }
        for path in TARGETS {
            let known = self.targets.iter().any(|target| target.path.as_c_str() == path);
            // Nobody asked for these, so nobody is told when a guarded directory holds them.
            if !known && self.guard_around(path).is_none() {
                self.targets.push(TargetSpec { path: path.to_owned(), cap: None });
            }
        }
    }

    fn add_target(&mut self, entry: &[u8], target: TargetSpec) {
        if let Some(guard) = self.guard_around(&target.path) {
            let problem = Problem::Guarded(guard.to_bytes().into());
            self.complain(b"SHMGUARD_REDIRECT", entry, problem, Instead::Dropped);
        } else if !self.targets.iter().any(|known| known.path == target.path) {
            self.targets.push(target);
        }
    }

    /// The fill levels: all of them, or the default ones.
    pub(super) fn read_levels(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else {
            self.warn = LEVELS.to_vec();
            return;
        };
        if value.eq_ignore_ascii_case(b"none") {
            return;
        }
        let levels = value.split(|&byte| byte == b',').map(size::parse);
        match levels.take(MOST_LEVELS.saturating_add(1)).collect::<Option<Vec<Amount>>>() {
            Some(levels) if levels.len() <= MOST_LEVELS && !levels.contains(&Amount::Bytes(0)) => self.warn = levels,
            _ => {
                self.warn = LEVELS.to_vec();
                self.unreadable("SHMGUARD_WARN", value, Instead::Default)
            }
        }
    }

    /// Patterns of names; those that can match no name are left out.
    pub(super) fn names(&mut self, name: &str, value: &[u8]) -> Vec<Box<[u8]>> {
        let mut patterns = Vec::new();
        for entry in patterns_of(value) {
            // Segments are often written as shm_open takes them, with a slash in front.
            let pattern = entry.strip_prefix(b"/").unwrap_or(entry);
            if is_name(pattern) {
                patterns.push(Box::from(pattern));
            } else {
                self.unreadable(name, entry, Instead::Dropped)
            }
        }
        patterns
    }

    /// Programs to include, or programs to exclude. Both at once has no plain meaning.
    pub(super) fn read_programs(&mut self, value: &[u8]) -> Programs {
        let mut only = Vec::new();
        let mut except = Vec::new();
        for entry in patterns_of(value) {
            let (list, pattern) = match entry.strip_prefix(b"!") {
                Some(pattern) => (&mut except, pattern.trim_ascii()),
                None => (&mut only, entry),
            };
            if !is_name(pattern) {
                return self.unreadable("SHMGUARD_PROGRAMS", value, Instead::Default);
            }
            list.push(Box::from(pattern));
        }
        match (only.is_empty(), except.is_empty()) {
            (false, true) => Programs::Only(only),
            (true, false) => Programs::Except(except),
            _ => self.unreadable("SHMGUARD_PROGRAMS", value, Instead::Default),
        }
    }
}

/// Whether a pattern can match the name of a file, and means what it seems to.
fn is_name(pattern: &[u8]) -> bool {
    !pattern.is_empty()
        && pattern.len() <= LONGEST_PATTERN
        && !pattern.contains(&b'/')
        && pattern::is_well_formed(pattern)
}

/// A switch's value; `None`: neither on nor off.
fn on_or_off(value: &[u8]) -> Option<bool> {
    match value.to_ascii_lowercase().as_slice() {
        b"1" | b"yes" | b"true" | b"on" => Some(true),
        b"0" | b"no" | b"false" | b"off" => Some(false),
        _ => None,
    }
}

/// The entries of a list of directories, without empty ones.
fn entries(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b':').map(<[u8]>::trim_ascii).filter(|entry| !entry.is_empty())
}

/// The entries of a list of patterns, without empty ones. A colon behind a backslash belongs to
/// the pattern, in which the backslash has the same meaning.
fn patterns_of(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut escaped = false;
    let parts = value.split(move |&byte| {
        let ends = byte == b':' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    parts.map(<[u8]>::trim_ascii).filter(|entry| !entry.is_empty())
}

/// A directory with an optional cap behind its last `@`: `/scratch@20g`. An `@` at the beginning of
/// a file name, or with something other than a digit behind it, belongs to the name.
fn target(entry: &[u8]) -> Option<TargetSpec> {
    let at = entry.iter().rposition(|&byte| byte == b'@');
    let parts = at.and_then(|at| Some((entry.get(..at)?, entry.get(at.checked_add(1)?..)?)));
    match parts {
        Some((path, cap))
            if !path.ends_with(b"/") && cap.first().is_some_and(u8::is_ascii_digit) && !cap.contains(&b'/') =>
        {
            match size::parse(cap)? {
                // What takes nothing is no target.
                Amount::Bytes(0) => None,
                Amount::Bytes(cap) => Some(TargetSpec { path: absolute(path)?, cap: Some(cap) }),
                // A share of what, when a target may be anything?
                Amount::Percent(_) => None,
            }
        }
        _ => Some(TargetSpec { path: absolute(entry)?, cap: None }),
    }
}
