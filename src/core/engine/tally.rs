//! What this process counts. No lock: a count is never lost because the books are busy, or not begun yet.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ledger::Process;

/// A sum that only grows. Who sees what was added to one sees all that was added to others before.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Release);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The counters of a record, as they stand now.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) created: Count,
    pub(super) redirected: Count,
    pub(super) refused: Count,
    pub(super) unsaved: Count,
    pub(super) warnings: Count,
    pub(super) attached: Count,
    pub(super) unlinked: Count,
    /// In bytes, as the next one.
    pub(super) bytes_created: Count,
    pub(super) bytes_redirected: Count,
    largest: AtomicU64,
}

impl Tally {
    /// A segment was given this size, in bytes.
    pub(super) fn sized(&self, bytes: u64) {
        self.bytes_created.add(bytes);
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Writes all of it into a record.
    pub(super) fn put_into(&self, record: &mut Process) {
        record.redirected = self.redirected.get();
        record.refused = self.refused.get();
        record.unsaved = self.unsaved.get();
        // After those, which are never more: a segment is counted here first.
        record.created = self.created.get();
        record.warnings = self.warnings.get();
        record.attached = self.attached.get();
        record.unlinked = self.unlinked.get();
        record.bytes_created = self.bytes_created.get();
        record.bytes_redirected = self.bytes_redirected.get();
        record.largest = self.largest.load(Ordering::Relaxed);
    }

    /// In a forked child, where only this thread is left: nothing has been counted yet.
    pub(super) fn reset(&self) {
        let Tally {
            created,
            redirected,
            refused,
            unsaved,
            warnings,
            attached,
            unlinked,
            bytes_created,
            bytes_redirected,
            largest,
        } = self;
        for count in
            [created, redirected, refused, unsaved, warnings, attached, unlinked, bytes_created, bytes_redirected]
        {
            count.0.store(0, Ordering::Relaxed);
        }
        largest.store(0, Ordering::Relaxed);
    }
}
