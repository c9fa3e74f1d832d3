//! Fill levels: announced before they are reached, and again when they have been left behind.

use std::sync::atomic::Ordering;

use super::size::Sizing;
use super::tell::SAID_NO_ROOM;
use super::{patiently, Engine};
use crate::config::{Mode, TargetSpec};
use crate::exchange::Stay;
use crate::message::{self, Shown};
use crate::policy::{Situation, Verdict};
use crate::segment::Segment;
use crate::target::Directory;
use crate::text::Text;

impl Engine {
    /// Kind 1: a fill level will be reached by this request.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_levels(&self, segment: &Segment, sizing: &Sizing<'_>, situation: &Situation, verdict: Verdict) {
        let Some(capacity) = situation.capacity.filter(|capacity| *capacity > 0) else { return };
        // What goes elsewhere fills nothing here; it has a line of its own.
        if matches!(verdict, Verdict::Redirect(_)) {
            return;
        }
        let stays = matches!(verdict, Verdict::Keep { .. } | Verdict::Overflow(..));
        let held = (sizing.stat.st_blocks as u64).saturating_mul(512);
        let added = if stays { sizing.bytes.saturating_sub(held) } else { 0 };
        let after = situation.fill().saturating_add(added);
        let mut highest = None;
        for (number, level) in self.config.warn.iter().enumerate().take(8) {
            if after >= level.of(capacity) && self.said.load(Ordering::Relaxed) & (1 << number) == 0 {
                highest = Some(number);
            }
        }
        let Some(number) = highest else { return };
        let Some(mut first) = self.once(level_name(number).as_str()) else { return };
        for (lower, level) in self.config.warn.iter().enumerate().take(8) {
            if after >= level.of(capacity) {
                self.said.fetch_or(1 << lower, Ordering::Relaxed);
                if lower != number {
                    let _ = self.once(level_name(lower).as_str());
                }
            }
        }
        if matches!(verdict, Verdict::Refuse(_) | Verdict::Overflow(..)) {
            // Made again and again, it would be announced each time that it has gone: once tells it, until all have gone.
            let mask = 1u64 << SAID_NO_ROOM;
            first &= self.said.fetch_or(mask, Ordering::AcqRel) & mask == 0 && self.once("level.no-room") == Some(true);
        }
        if !first {
            return;
        }
        let mut then = Text::<200>::new();
        match verdict {
            Verdict::Keep { .. } => match self.way_out(segment.guard as usize) {
                Some(target) => then
                    .add(format_args!("it stays there, what does not fit will go to {}", message::path(&target.path))),
                None if self.redirects() => then.add(format_args!(
                    "it stays there, but no target can be written, so at 100% programs die of SIGBUS"
                )),
                None => then.add(format_args!(
                    "nothing is redirected ({}), so at 100% programs die of SIGBUS",
                    if self.config.mode == Mode::Redirect { "no target" } else { self.config.mode.word() }
                )),
            },
            Verdict::Redirect(_) => {}
            Verdict::Refuse(_) => then.add(format_args!("it is refused with ENOSPC")),
            Verdict::Overflow(_, stay) => {
                then.add(format_args!("it does not fit and stays: {}", stay_words(self, stay)))
            }
        }
        let percent = after.saturating_mul(100).checked_div(capacity).unwrap_or(0);
        let command = self.command();
        let line = message::level(
            &Shown {
                path: self.guard_path(segment.guard as usize),
                fill: after,
                capacity: Some(capacity),
                budget: situation.budget,
            },
            percent,
            &self.asking(&command, segment, sizing),
            then.as_str(),
        );
        self.say(level_name(number).as_str(), &line);
    }

    /// The first target that can be used, where what does not fit is redirected.
    pub(super) fn way_out(&self, guard: usize) -> Option<&TargetSpec> {
        let guard = self.open_guard(guard).filter(|_| self.redirects())?;
        self.config.targets.iter().find(|spec| Directory::open(&spec.path, guard.identity).is_ok())
    }

    /// Levels that are ten points behind us may be announced again.
    pub(super) fn pass_levels(&self, fill: u64, capacity: Option<u64>, _guard: usize) {
        let Some(capacity) = capacity else { return };
        let said = self.said.load(Ordering::Relaxed);
        for (number, level) in self.config.warn.iter().enumerate().take(8) {
            let passed = fill.saturating_add(capacity / 10) < level.of(capacity);
            if said & (1 << number) != 0 && passed {
                self.said.fetch_and(!(1 << number), Ordering::Relaxed);
                self.forget_level(level_name(number).as_str());
            }
        }
    }

    /// A fill level has been left behind and may be announced again; not in a run that redirects, which passes it with every
    /// batch and has been told what happens.
    pub(super) fn forget_level(&self, what: &str) {
        if let Some(books) = patiently(&self.books) {
            if let Some(ledger) = books.ledger.as_ref().filter(|ledger| !ledger.has_said("redirect")) {
                ledger.forget(what);
            }
        }
    }
}

fn stay_words(engine: &Engine, stay: Stay) -> &'static str {
    if engine.config.mode == Mode::Observe {
        "SHMGUARD_MODE=observe"
    } else {
        stay.words()
    }
}

fn level_name(number: usize) -> Text<24> {
    let mut name = Text::new();
    name.add(format_args!("level.{number}"));
    name
}
