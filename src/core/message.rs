//! What the user is told. One line each, at most 512 bytes, real numbers, the next thing to do.

use std::ffi::CStr;
use std::fmt::{self, Display};

use crate::policy::suggested_capacity;
use crate::size::{Flag, Human};
use crate::target::Medium;
use crate::text::{Printable, Text};

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
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.capacity {
            Some(capacity) => write!(f, "{} of {}", Human(self.fill), Human(capacity)),
            None => write!(f, "{}, no limit of its own", Human(self.fill)),
        }
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

/// Kind 2: the first redirect.
pub fn redirect(guard: &Shown<'_>, asking: &Asking<'_>, target: &CStr, medium: Medium, demand: u64) -> Line {
    line(format_args!(
        "{} is too small ({guard} in use): {asking}, which goes to {}, {}. With --shm-size={} (docker) it would fit: {} wanted at once so far.",
        path(guard.path),
        path(target),
        medium.words(),
        Flag(enough(guard, demand)),
        Human(demand),
    ))
}

/// A size that would have done: for the demand seen, and certainly more than what has just been too small.
fn enough(guard: &Shown<'_>, demand: u64) -> u64 {
    suggested_capacity(demand).max(guard.capacity.unwrap_or(0).saturating_add(1 << 20))
}

/// Kind 3: what cannot be saved, and why.
pub fn cannot(guard: &Shown<'_>, asking: &Asking<'_>, why: &dyn Display, then: &str, demand: u64) -> Line {
    line(format_args!(
        "{} is too small ({guard} in use): {asking}; {why}. {then}--shm-size={} (docker) would do.",
        path(guard.path),
        Flag(enough(guard, demand)),
    ))
}

/// At the end of the last process: what was measured.
pub fn farewell(guard: &CStr, sum: &crate::ledger::Totals, where_to: &dyn Display) -> Line {
    line(format_args!(
        "peak demand {}: {} in {} ({}), {} redirected to {}. {} of {} segments were redirected, {} could not be helped. --shm-size={} (docker) would have done without.",
        Human(sum.demand_peak),
        Human(sum.tmpfs_peak),
        path(guard),
        if sum.capacity == 0 { Capacity(None) } else { Capacity(Some(sum.capacity)) },
        Human(sum.redirected_peak),
        where_to,
        sum.redirected,
        sum.created.max(sum.redirected),
        sum.unsaved.saturating_add(sum.refused),
        Flag(suggested_capacity(sum.demand_peak).max(sum.capacity.saturating_add(1 << 20))),
    ))
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
        let guard = Shown { path: &long, fill: u64::MAX, capacity: Some(u64::MAX) };
        let asking = Asking { command: &name, pid: i32::MAX, bytes: u64::MAX, name: &name };
        for line in [
            level(&guard, 75, &asking, "it stays there"),
            redirect(&guard, &asking, &long, Medium::Layer, u64::MAX),
            cannot(&guard, &asking, &"x", "y", u64::MAX),
            farewell(&long, &Default::default(), &"x"),
        ] {
            assert!(line.bytes().len() <= 512);
            assert!(line.bytes().starts_with(b"shmguard: "));
            assert_eq!(line.bytes().iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(line.bytes().last(), Some(&b'\n'));
        }
    }
}
