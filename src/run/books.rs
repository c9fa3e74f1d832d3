//! Processes of the ledger as last seen, so that what they knew outlives them; bounded, for a run may last for weeks.

use std::collections::{HashMap, HashSet};

use shmguard_core::ledger::{Process, SegmentRecord};

/// Records kept in full; what is older and gone is only added up.
const MOST: usize = 512;
/// Of those that are only added up, so many are known by their numbers.
const MOST_ADDED: usize = 100_000;

/// Sums over processes with the same command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// How many.
    pub processes: u64,
    /// Segments created.
    pub created: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// What is remembered of processes.
#[derive(Default)]
pub struct Books {
    records: HashMap<(u64, u64), Entry>,
    ended: HashMap<String, Sums>,
    /// Processes that are only added up.
    added: HashSet<(u64, u64)>,
    look: u64,
}

struct Entry {
    process: Process,
    segments: Vec<SegmentRecord>,
    look: u64,
}

impl Books {
    /// A look at the ledger begins.
    pub fn begin_look(&mut self) {
        self.look += 1;
    }

    /// A record that the look found.
    pub fn see(&mut self, process: Process, segments: Vec<SegmentRecord>) {
        let look = self.look;
        self.records.insert((process.pid, process.start), Entry { process, segments, look });
    }

    /// The look is over: when there are too many, those that have been gone for longest are only added up.
    pub fn end_look(&mut self) {
        if self.records.len() <= MOST {
            return;
        }
        let mut looks: Vec<u64> = self.records.values().map(|entry| entry.look).collect();
        looks.sort_unstable();
        // Half of the room, but never what this look has found.
        let oldest = looks.get(looks.len() - MOST / 2).copied().unwrap_or(0).min(self.look);
        let (ended, added) = (&mut self.ended, &mut self.added);
        self.records.retain(|key, entry| {
            if entry.look < oldest {
                add(ended, entry);
                if added.len() < MOST_ADDED {
                    added.insert(*key);
                }
            }
            entry.look >= oldest
        });
    }

    /// What a process said at its end: its last numbers. False where it was never seen.
    pub fn end(&mut self, pid: u64, start: u64, created: u64, bytes: u64) -> bool {
        let Some(entry) = self.records.get_mut(&(pid, start)) else { return self.added.contains(&(pid, start)) };
        entry.process.created = entry.process.created.max(created);
        entry.process.bytes_created = entry.process.bytes_created.max(bytes);
        true
    }

    /// The record of a process id: the latest.
    pub fn of(&self, pid: i64) -> Option<(&Process, &[SegmentRecord])> {
        let entries = self.records.values().filter(|entry| entry.process.pid as i64 == pid);
        entries.max_by_key(|entry| entry.process.start).map(|entry| (&entry.process, entry.segments.as_slice()))
    }

    /// All that are kept in full.
    pub fn all(&self) -> impl Iterator<Item = (&Process, &[SegmentRecord])> {
        self.records.values().map(|entry| (&entry.process, entry.segments.as_slice()))
    }

    /// Sums by command, over all that were ever seen.
    pub fn sums(&self) -> HashMap<String, Sums> {
        let mut sums = self.ended.clone();
        self.records.values().for_each(|entry| add(&mut sums, entry));
        sums
    }
}

fn add(sums: &mut HashMap<String, Sums>, entry: &Entry) {
    let sum = sums.entry(String::from_utf8_lossy(&entry.process.command).into_owned()).or_default();
    sum.processes += 1;
    // A process that was killed did not get to write its last numbers; its segments it did.
    sum.created = sum.created.saturating_add(entry.process.created.max(entry.segments.len() as u64));
    sum.bytes = sum.bytes.saturating_add(entry.process.bytes_created);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_processes_are_added_up_and_the_last_ones_kept() {
        let mut books = Books::default();
        for round in 0..1000u64 {
            books.begin_look();
            for worker in 0..8 {
                let process = Process {
                    pid: round * 8 + worker + 1,
                    start: round,
                    created: 2,
                    bytes_created: 10,
                    command: b"worker".iter().copied().collect(),
                    ..Process::default()
                };
                books.see(process, Vec::new());
            }
            books.end_look();
            assert!(books.records.len() <= MOST + 8);
            assert!(books.of(round as i64 * 8 + 1).is_some(), "what this look has found is there");
        }
        assert_eq!(books.sums()["worker"], Sums { processes: 8000, created: 16000, bytes: 80000 });
    }
}
