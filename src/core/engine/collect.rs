//! When what nobody can attach to any more is collected.

use super::{now_ms, patiently, Engine};
use crate::garbage;
use crate::guard::Guard;
use crate::ledger::Turn;
use crate::process::{self, Owner};
use crate::text::Text;

/// How often all of it is looked through, in milliseconds, by whichever process of the ledger comes first.
const PAUSE_MS: u64 = 60_000;
/// How soon again when something had to be left because a process could not be looked at, in milliseconds; twice as long each
/// time, up to the full pause. Such a process is gone in a moment (who enters a container to run a command there), or stays.
const UNSURE_MS: u64 = 100;

impl Engine {
    /// Removes targets whose link is gone, at most once a minute for all processes of the ledger. What a killed process has
    /// begun is taken up by the next one that comes by.
    pub(super) fn collect_garbage(&self, guard: &Guard) {
        let me = self.me();
        let Some((what, tries)) = self.turn_to_collect(&me) else { return };
        let found = garbage::find(guard, &self.config.targets, &me, garbage::YOUNG_SECONDS);
        for orphan in &found.orphans {
            garbage::remove(guard, &self.config.targets, orphan);
        }
        let (pause, tries) = match found.unsure {
            true => (UNSURE_MS.saturating_mul(1 << tries.min(10)).min(PAUSE_MS), tries.saturating_add(1)),
            false => (PAUSE_MS, 0),
        };
        if let Some(mut books) = patiently(&self.books) {
            books.collect_at_ms = now_ms().saturating_add(pause);
            if let Some(ledger) = &books.ledger {
                ledger.end_turn(what.as_str(), books.collect_at_ms, tries);
            }
            books.collect_tries = tries;
        }
    }

    /// Is it this process's turn? Then what it is called in the ledger, and how often in a row something had to be left.
    fn turn_to_collect(&self, me: &Owner) -> Option<(Text<48>, u32)> {
        let mut books = patiently(&self.books)?;
        let now = now_ms();
        if now < books.collect_at_ms {
            return None;
        }
        // Not twice at once by two threads either.
        books.collect_at_ms = now.saturating_add(PAUSE_MS);
        // Inode numbers of pid namespaces are used again, by every second life of a container; the start of their first
        // process is another one.
        let mut what = Text::new();
        what.add(format_args!("garbage.{:x}.{:x}", me.namespace, process::start_of(1).unwrap_or(0)));
        let turn = match &books.ledger {
            Some(ledger) => ledger.take_turn(what.as_str(), now),
            None => Turn::Mine { tries: books.collect_tries },
        };
        match turn {
            Turn::Mine { tries } => Some((what, tries)),
            Turn::NotBefore { ms } => {
                books.collect_at_ms = ms;
                None
            }
        }
    }
}
