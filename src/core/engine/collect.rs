//! When what nobody can attach to any more is collected.

use rustix::time::{clock_gettime, ClockId};

use super::{now_ms, patiently, Engine};
use crate::garbage;
use crate::guard::Guard;

impl Engine {
    /// Removes targets whose link is gone, at most once a minute for all processes of the ledger.
    pub(super) fn collect_garbage(&self, guard: &Guard) {
        let now = clock_gettime(ClockId::Realtime).tv_sec;
        let me = self.me();
        let first = match patiently(&self.books) {
            Some(books) if books.swept_ms > 0 && now_ms().saturating_sub(books.swept_ms) < 60_000 => false,
            Some(mut books) => {
                books.swept_ms = now_ms().max(1);
                let mut what = crate::text::Text::<40>::new();
                what.add(format_args!("garbage.{:x}", me.namespace));
                books.ledger.as_ref().is_none_or(|ledger| ledger.first_in(what.as_str(), 60, now))
            }
            None => false,
        };
        if first {
            for orphan in garbage::find(guard, &self.config.targets, &me, garbage::YOUNG_SECONDS) {
                garbage::remove(guard, &self.config.targets, &orphan);
            }
        }
    }
}
