//! What redirected segments hold, by target: measured when it is time, estimated between.

use super::{now_ms, patiently, Engine};
use crate::ledger::Ledger;
use crate::live::{self, Scope};
use crate::segment::{Identity, Place};

/// Mappings are looked through at most so often, in milliseconds, and live bytes for at most a twentieth of the time, unless a
/// new peak seems to be reached.
const LIVE_MS: u64 = 250;
const LIVE_SHARE: u64 = 20;
const FIRST_LOOKS: u32 = 16;

/// Live bytes of the targets as last measured, and what this process added since.
#[derive(Default)]
pub(super) struct Live {
    measured_ms: u64,
    cost_us: u64,
    looks: u32,
    mapped_ms: u64,
    /// Bytes held by mappings alone.
    mapped: live::Bytes,
    bytes: live::Bytes,
    added: [u64; 8],
}

impl Live {
    /// Measures; with the mappings every 250 ms and where a new peak would rest on what was only mapped when last looked at.
    fn measure(&mut self, targets: &[crate::config::TargetSpec], scope: Scope, pids: &[i32], peak: u64) {
        let total = |bytes: &live::Bytes| bytes.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let began = crate::raw::clock(libc::CLOCK_MONOTONIC);
        let mut bytes = live::measure(targets, scope, pids, false);
        let ended = crate::raw::clock(libc::CLOCK_MONOTONIC);
        let nanoseconds = (ended.tv_sec - began.tv_sec).saturating_mul(1_000_000_000) + (ended.tv_nsec - began.tv_nsec);
        self.cost_us = (nanoseconds.max(0) / 1000) as u64;
        let carried = total(&self.mapped);
        let old = self.mapped_ms == 0 || now_ms().saturating_sub(self.mapped_ms) >= LIVE_MS;
        // The first looks of a process are whole ones; so is one whose result would be a peak that rests on old mappings.
        if old || self.looks <= FIRST_LOOKS || (carried > 0 && total(&bytes).saturating_add(carried) > peak) {
            let all = live::measure(targets, scope, pids, true);
            self.mapped = all.iter().zip(&bytes).map(|(all, held)| all.saturating_sub(*held)).collect();
            self.mapped_ms = now_ms().max(1);
            bytes = all;
        } else {
            for (bytes, mapped) in bytes.iter_mut().zip(&self.mapped) {
                *bytes = bytes.saturating_add(*mapped);
            }
        }
        self.bytes = bytes;
        self.added = [0; 8];
        self.measured_ms = now_ms().max(1);
    }

    /// As measured, and what this process has added since.
    fn estimate(&self) -> live::Bytes {
        let mut sum = self.bytes.clone();
        for (index, added) in self.added.iter().enumerate() {
            if index == sum.len() {
                sum.push(0);
            }
            if let Some(bytes) = sum.get_mut(index) {
                *bytes = bytes.saturating_add(*added);
            }
        }
        sum
    }
}

impl Engine {
    /// Bytes that redirected segments hold, by target; measured when it is time, else as it was.
    pub(super) fn measure_live(&self, guard: Identity) -> live::Bytes {
        if self.tally.redirected.get() == 0 {
            return live::Bytes::new();
        }
        let peak = patiently(&self.books).map_or(0, |books| books.record.redirected_peak);
        let Some(mut live) = patiently(&self.live) else { return live::Bytes::new() };
        let age = now_ms().saturating_sub(live.measured_ms);
        let estimate: u64 = live.estimate().iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        // A new peak is measured, not guessed: most of what was added may have gone again. What others have added meanwhile is
        // not in the estimate, so it is looked at as often as a twentieth of the time allows.
        let share = if estimate > peak { 2 } else { LIVE_SHARE };
        let due = age.saturating_mul(1000) >= live.cost_us.saturating_mul(share).max(1000);
        // The first redirects of a process are always followed by a look: of several that fill up together and then hold what
        // they have, the last one sees it all.
        if live.looks < FIRST_LOOKS || live.measured_ms == 0 || due {
            live.looks = live.looks.saturating_add(1);
            let pids = self.pids();
            live.measure(&self.config.targets, Scope { guard: Some(guard) }, &pids, peak);
            return live.bytes.clone();
        }
        let mut bytes = live.bytes.clone();
        let since = live.measured_ms;
        drop(live);
        self.add_held_since(since, &mut bytes);
        bytes
    }

    /// Adds what this process redirected since the last measurement and still holds by the descriptor that it was created with.
    fn add_held_since(&self, measured_ms: u64, bytes: &mut live::Bytes) {
        self.table.for_each(|segment| {
            let Place::Target(index) = segment.place else { return };
            if segment.created_ms < measured_ms || segment.promised == 0 {
                return;
            }
            let stat = crate::borrow(segment.descriptor).and_then(|fd| rustix::fs::fstat(fd).ok());
            if stat.is_some_and(|stat| Identity::of(&stat) == segment.identity) {
                if let Some(sum) = bytes.get_mut(index as usize) {
                    *sum = sum.saturating_add(segment.promised);
                }
            }
        });
    }

    /// Bytes in all targets, as last measured and added to.
    pub(super) fn redirected_now(&self) -> u64 {
        let live = patiently(&self.live).map(|live| live.estimate()).unwrap_or_default();
        live.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }

    /// The processes that may hold segments: those of the ledger and their parents (a DataLoader's main process creates
    /// nothing, it only receives).
    fn pids(&self) -> Vec<i32> {
        let Some(books) = patiently(&self.books) else { return Vec::new() };
        let mut pids = vec![books.record.pid as i32, books.record.parent as i32];
        for process in books.ledger.as_ref().map(Ledger::processes).unwrap_or_default() {
            pids.push(process.pid as i32);
            pids.push(process.parent as i32);
        }
        drop(books);
        pids.retain(|pid| *pid > 0);
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    pub(super) fn added_to_target(&self, index: usize, bytes: u64) {
        if let Some(mut live) = patiently(&self.live) {
            if let Some(added) = live.added.get_mut(index) {
                *added = added.saturating_add(bytes);
            }
        }
    }

    /// Would `need` more bytes in target `index` exceed its cap?
    pub(super) fn over_cap(&self, index: usize, need: u64) -> bool {
        let Some(cap) = self.config.targets.get(index).and_then(|spec| spec.cap) else { return false };
        if need > cap {
            return true;
        }
        let pids = self.pids();
        let Some(mut live) = patiently(&self.live) else { return false };
        let total = |live: &Live| live.estimate().get(index).copied().unwrap_or(0).saturating_add(need);
        let age = now_ms().saturating_sub(live.measured_ms);
        // Near the cap, or after a while, the estimate is not good enough.
        let doubtful = total(&live) > cap && age >= (live.cost_us.saturating_mul(4) / 1000).max(2);
        if live.measured_ms == 0 || age >= LIVE_MS || doubtful {
            live.measure(&self.config.targets, Scope { guard: None }, &pids, u64::MAX);
        }
        total(&live) > cap
    }
}
