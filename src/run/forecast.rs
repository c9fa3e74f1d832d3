//! The forecast of a run: for what the library does not see (programs without it, files written by `cp`), at the looks that are
//! taken anyway. The library is the first to speak where it can.

use shmguard_core::ledger::Ledger;
use shmguard_core::message::{self, Line, Shown};
use shmguard_core::size::Human;
use shmguard_core::text::{Printable, Text};
use shmguard_core::trend::Trend;

use crate::now::Now;

/// Samples with a forecast that must follow each other before we speak: the library's processes may be just about to.
const PATIENCE: u32 = 3;

/// What was seen of the fill.
#[derive(Default)]
pub struct Forecaster {
    trend: Trend,
    in_a_row: u32,
}

impl Forecaster {
    /// Takes a look. A line when the end is foreseen, no process of the run has said it and it is news. `largest`: the program
    /// that has most.
    pub fn take(&mut self, now: &Now, ledgers: &[Ledger], largest: Option<(&str, u64)>) -> Option<Line> {
        let (capacity, limit) = (now.space.capacity.filter(|capacity| *capacity > 0)?, now.limit?);
        if !self.trend.is_due(now.clock_ms) {
            return None;
        }
        self.trend.see(now.clock_ms, now.fill, limit);
        let foreseen = self.trend.forecast(limit).is_some() && now.redirected() == 0;
        self.in_a_row = if foreseen { self.in_a_row + 1 } else { 0 };
        let said = |what: &str| ledgers.iter().any(|ledger| ledger.has_said(what));
        if self.in_a_row < PATIENCE || said("forecast") || said("redirect") {
            return None;
        }
        let forecast = self.trend.news(now.clock_ms, now.fill, limit)?;
        let mut who = Text::<160>::new();
        match largest {
            Some(("(gone)", bytes)) => who.add(format_args!("Processes that are gone have left {}", Human(bytes))),
            Some((command, bytes)) => {
                who.add(format_args!("{} has the most: {}", Printable(command.as_bytes()), Human(bytes)))
            }
            None => who.add(format_args!("No process of this run holds it")),
        }
        let path = std::ffi::CString::new(now.path.as_str()).ok()?;
        let shown = Shown { path: &path, fill: now.fill, capacity: Some(capacity), budget: limit };
        let then = "a program that has the library is redirected then; one without it, or a file that is just written there, fails or \
                    dies of SIGBUS";
        Some(message::forecast(&shown, &forecast, who.as_str(), then))
    }
}
