//! What the user is told. One line each, at most 512 bytes, real numbers, the next thing to do.

use std::ffi::CStr;
use std::fmt::{self, Display};

use crate::policy::{demand_of_stream, suggested_capacity};
use crate::size::{Flag, Human};
use crate::target::Medium;
use crate::text::{Printable, Text};
use crate::trend::Forecast;

/// A line for standard error, with its newline.
pub type Line = Text<512>;

/// Who asks for how much, for what.
pub struct Asking<'a> {
    /// The process's command.
    pub command: &'a [u8],
    /// Its number.
    pub pid: i32,
    /// Bytes asked for.
    pub bytes: u64,
    /// The segment's name; empty for a nameless one.
    pub name: &'a [u8],
}

impl Display for Asking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.get(..self.name.len().min(64)).unwrap_or(self.name);
        write!(f, "{}[{}] asks for {}", Printable(self.command), self.pid, Human(self.bytes))?;
        if name.is_empty() {
            write!(f, " for a nameless segment")
        } else {
            write!(f, " for {}", Printable(name))
        }
    }
}

/// The guarded directory as a message shows it.
pub struct Shown<'a> {
    /// Its path.
    pub path: &'a CStr,
    /// Bytes used and promised.
    pub fill: u64,
    /// Its size; `None` = unlimited.
    pub capacity: Option<u64>,
    /// How full it may become, in bytes.
    pub budget: u64,
}

impl Shown<'_> {
    /// The user's own budget is lower than what the tmpfs would allow.
    fn is_budgeted(&self) -> bool {
        self.capacity.is_some_and(|capacity| self.budget < default_budget(capacity))
    }
}

/// The first words where `bytes` more do not fit, with the budget where that decides.
struct Full<'a>(&'a Shown<'a>, u64);

impl Display for Full<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Full(guard, bytes) = self;
        write!(f, "{} ", path(guard.path))?;
        let has_room = guard.capacity.is_none_or(|capacity| guard.fill.saturating_add(*bytes) <= capacity);
        // It was judged to fit and then found too little to reserve, or it was made in a target because larger ones come.
        let was_taken = guard.capacity.is_some() && guard.fill.saturating_add(*bytes) <= guard.budget;
        match has_room {
            _ if was_taken => {
                write!(f, "is too small ({guard} in use, the rest is kept for larger ones of this program)")
            }
            true if guard.is_budgeted() => {
                write!(f, "would exceed its budget of {} ({guard} in use)", Human(guard.budget))
            }
            true if guard.capacity.is_some() => {
                write!(f, "is too small ({guard} in use, budget {})", Human(guard.budget))
            }
            _ => write!(f, "is too small ({guard} in use)"),
        }
    }
}

/// The budget when none is set, in bytes.
fn default_budget(capacity: u64) -> u64 {
    capacity.saturating_sub(crate::config::margin(capacity))
}

/// What would have kept `demand` bytes in the guarded directory: a larger one, or a larger budget.
#[derive(Clone, Copy, Debug)]
pub struct Cure {
    /// Bytes wanted at once.
    pub demand: u64,
    /// The directory's size; `None` = unlimited.
    pub capacity: Option<u64>,
    /// How full it may become, in bytes.
    pub budget: u64,
}

impl Cure {
    /// A size in which the demand stays within the default budget, in bytes; more than the directory has, which was too small.
    pub fn size(&self) -> u64 {
        suggested_capacity(self.demand).max(self.capacity.unwrap_or(0).saturating_add(1 << 20))
    }

    /// The directory is large enough; only the user's own budget is in the way.
    pub fn is_budget(&self) -> bool {
        self.capacity.is_some_and(|capacity| self.budget < self.demand && self.demand <= default_budget(capacity))
    }
}

impl Display for Cure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_budget() {
            return write!(f, "SHMGUARD_BUDGET={}", Flag(self.demand));
        }
        write!(f, "--shm-size={} (docker)", Flag(self.size()))?;
        if self.capacity.is_some_and(|capacity| self.budget < default_budget(capacity)) {
            f.write_str(" without SHMGUARD_BUDGET")?;
        }
        Ok(())
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.capacity {
            Some(capacity) => write!(f, "{} of {}", Human(self.fill), Human(capacity)),
            None => write!(f, "{}, no limit of its own", Human(self.fill)),
        }
    }
}

impl Shown<'_> {
    fn cure(&self, demand: u64) -> Cure {
        Cure { demand, capacity: self.capacity, budget: self.budget }
    }
}

/// A path chosen by the user, printable.
pub fn path(path: &CStr) -> Printable<'_> {
    Printable(path.to_bytes())
}

/// Ends a line.
pub fn line(arguments: fmt::Arguments<'_>) -> Line {
    let mut text = Line::new();
    text.add(format_args!("shmguard: {arguments}"));
    if text.bytes().len() > 511 {
        text.truncate(508);
        text.add_bytes(b"...");
    }
    text.add_bytes(b"\n");
    text
}

/// Kind 1: a fill level is reached.
pub fn level(guard: &Shown<'_>, percent: u64, asking: &Asking<'_>, then: &str) -> Line {
    line(format_args!("{} will be {percent}% full ({guard}): {asking}; {then}", path(guard.path)))
}

/// Kind 1: a rise that will reach the limit. `who`: who grows; `then`: what will happen.
pub fn forecast(guard: &Shown<'_>, forecast: &Forecast, who: &str, then: &str) -> Line {
    let mut end = Text::<40>::new();
    match guard.is_budgeted() {
        true => end.add(format_args!("will have used its budget of {}", Human(guard.budget))),
        false => end.add(format_args!("will be full")),
    }
    line(format_args!(
        "{} {} in {} s if it goes on like this: {guard} in use, {} more a second for {} s. {who}; {then}. shmguard status \
         shows what stays.",
        path(guard.path),
        end.as_str(),
        forecast.left_ms.div_ceil(1000),
        Human(forecast.rate),
        forecast.watched_ms / 1000,
    ))
}

/// Kind 2: the first redirect.
pub fn redirect(guard: &Shown<'_>, asking: &Asking<'_>, target: &CStr, medium: Medium, demand: u64) -> Line {
    line(format_args!(
        "{}: {asking}, which goes to {}, {}. So far {} would have been enough: {} wanted at once.",
        Full(guard, asking.bytes),
        path(target),
        medium.words(),
        guard.cure(demand),
        Human(demand),
    ))
}

/// Kind 3: what cannot be saved, and why. `demand`: the bytes wanted at once so far, when a larger directory would do.
pub fn cannot(guard: &Shown<'_>, asking: &Asking<'_>, why: &dyn Display, then: &str, demand: Option<u64>) -> Line {
    let full = Full(guard, asking.bytes);
    match demand {
        Some(demand) => {
            line(format_args!("{full}: {asking}; {why}. {then}So far {} would be enough.", guard.cure(demand)))
        }
        None => line(format_args!(
            "{} has {guard} in use: {asking}; {why}. {then}A larger {} would not help.",
            path(guard.path),
            path(guard.path)
        )),
    }
}

/// At the end of the last process: what was measured.
pub fn farewell(guard: &CStr, sum: &crate::ledger::Totals, where_to: &dyn Display) -> Line {
    let capacity = (sum.capacity > 0).then_some(sum.capacity);
    let demand = demand_of_stream(sum.demand_peak, sum.created, sum.largest);
    let cure = Cure { demand, capacity, budget: if sum.budget > 0 { sum.budget } else { u64::MAX } };
    let created = sum.created;
    let unsaved = sum.unsaved.saturating_add(sum.refused);
    let mut text = Text::<400>::new();
    text.add(format_args!("peak demand {}: {}", Human(sum.demand_peak), Human(sum.tmpfs_peak)));
    text.add(format_args!(" in {} ({})", path(guard), Capacity(capacity)));
    if sum.redirected > 0 {
        text.add(format_args!(", {} redirected to {where_to}", Human(sum.redirected_peak)));
    }
    let segments = if created == 1 { "segment" } else { "segments" };
    match (sum.redirected, unsaved) {
        (redirected, 0) => text.add(format_args!(". {redirected} of {created} {segments} went there")),
        (0, unsaved) => text.add(format_args!(". {unsaved} of {created} {segments} could not be helped")),
        (redirected, unsaved) => {
            text.add(format_args!(". {redirected} of {created} {segments} went there, {unsaved} could not be helped"))
        }
    }
    line(format_args!("{}. In all {cure} would have been enough.", text.as_str()))
}

struct Capacity(Option<u64>);

impl Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(capacity) => write!(f, "{} large", Human(capacity)),
            None => write!(f, "unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_one_line_of_at_most_512_bytes_whatever_the_names() {
        let name = [b'\n'; 255];
        let long = std::ffi::CString::new(vec![b'x'; 4000]).expect("no nul");
        let guard = Shown { path: &long, fill: u64::MAX, capacity: Some(u64::MAX), budget: u64::MAX };
        let asking = Asking { command: &name, pid: i32::MAX, bytes: u64::MAX, name: &name };
        for line in [
            level(&guard, 75, &asking, "it stays there"),
            super::forecast(
                &guard,
                &Forecast { left_ms: u64::MAX, rate: u64::MAX, watched_ms: u64::MAX },
                &"x".repeat(400),
                "y",
            ),
            redirect(&guard, &asking, &long, Medium::Layer, u64::MAX),
            cannot(&guard, &asking, &"x", "y", Some(u64::MAX)),
            cannot(&guard, &asking, &"x", "y", None),
            farewell(&long, &Default::default(), &"x"),
        ] {
            assert!(line.bytes().len() <= 512);
            assert!(line.bytes().starts_with(b"shmguard: "));
            assert_eq!(line.bytes().iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(line.bytes().last(), Some(&b'\n'));
        }
    }

    #[test]
    fn the_budget_is_named_where_it_decides() {
        const MIB: u64 = 1 << 20;
        let asking = |mib: u64| Asking { command: b"python3", pid: 1, bytes: mib * MIB, name: b"torch_1" };
        let told = |mib: u64, budget: u64| {
            let guard = Shown { path: c"/dev/shm", fill: 0, capacity: Some(64 * MIB), budget: budget * MIB };
            redirect(&guard, &asking(mib), c"/var/tmp", Medium::Disk, mib * MIB).as_str().to_owned()
        };
        for (mib, budget, begin, cure) in [
            (100, 60, "is too small (0 B of 64.0 MiB in use): ", " --shm-size=107m (docker) would"),
            (
                50,
                60,
                "is too small (0 B of 64.0 MiB in use, the rest is kept for larger ones of this program): ",
                " --shm-size=65m (docker) would",
            ),
            (62, 60, "is too small (0 B of 64.0 MiB in use, budget 60.0 MiB): ", " --shm-size=67m (docker) would"),
            (50, 48, "would exceed its budget of 48.0 MiB (0 B of 64.0 MiB in use): ", " SHMGUARD_BUDGET=50m would"),
            (62, 48, "would exceed its budget of 48.0 MiB", " --shm-size=67m (docker) without SHMGUARD_BUDGET would"),
        ] {
            let line = told(mib, budget);
            assert!(line.starts_with(&format!("shmguard: /dev/shm {begin}")) && line.contains(cure), "{line}");
        }
    }
}
