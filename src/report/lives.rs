//! Whose segments make up the demand, where only the log of sizings is there.

use std::collections::{BTreeMap, VecDeque};

/// Which program's segments live, from sizings alone: no event tells when a segment ends, so the oldest are taken to end
/// first, as many as it takes for the sum to be what the kernel says is there.
#[derive(Default)]
pub(super) struct Lives {
    queue: VecDeque<(String, u64)>,
    sum: u64,
}

impl Lives {
    pub(super) fn add(&mut self, program: &str, bytes: u64) {
        self.sum = self.sum.saturating_add(bytes);
        self.queue.push_back((program.to_owned(), bytes));
    }

    pub(super) fn shrink_to(&mut self, total: u64) {
        while self.sum > total {
            let over = self.sum - total;
            let Some((_, bytes)) = self.queue.front_mut() else { break };
            let gone = over.min(*bytes);
            *bytes -= gone;
            self.sum -= gone;
            if *bytes == 0 {
                self.queue.pop_front();
            }
        }
    }

    /// Their shares of `total` bytes: the measured sum is right, only whose it is comes from here.
    pub(super) fn by_program(&self, total: u64) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (program, bytes) in &self.queue {
            let sum = sums.entry(program.clone()).or_insert(0u64);
            *sum = sum.saturating_add(*bytes);
        }
        for bytes in sums.values_mut() {
            let scaled = (u128::from(*bytes) * u128::from(total)).checked_div(u128::from(self.sum));
            *bytes = scaled.map_or(0, |scaled| u64::try_from(scaled).unwrap_or(u64::MAX));
        }
        sums
    }
}
