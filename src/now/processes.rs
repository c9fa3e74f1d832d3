//! Processes: what each holds and has created.

use std::collections::HashMap;

use super::ledgers::Knowledge;
use super::{command_of, Segment};

/// A process of the ledger or one that holds segments.
#[derive(Clone, Debug, Default)]
pub struct ProcessNow {
    /// Process id.
    pub pid: i32,
    /// Its command.
    pub command: String,
    /// Bytes of all segments that it holds.
    pub holds: u64,
    /// Segments that it holds.
    pub segments: usize,
    /// Bytes now held by segments that it created.
    pub created_held: u64,
    /// Segments that it has created, by the ledger.
    pub created: u64,
    /// Of these redirected.
    pub redirected: u64,
    /// The library is in it.
    pub has_library: bool,
}

pub(super) fn list(
    segments: &[Segment],
    knowledge: &Knowledge,
    with_library: &[i32],
    commands: &mut HashMap<i32, String>,
) -> Vec<ProcessNow> {
    let mut all: HashMap<i32, ProcessNow> = HashMap::new();
    let mut name = |pid: i32| commands.entry(pid).or_insert_with(|| command_of(pid).unwrap_or_default()).clone();
    for segment in segments {
        for holder in &segment.holders {
            let process = all.entry(holder.pid).or_insert_with(|| ProcessNow {
                pid: holder.pid,
                command: name(holder.pid),
                ..Default::default()
            });
            process.holds += segment.held;
            process.segments += 1;
        }
        if let Some(creator) = segment.creator.as_ref().filter(|creator| !creator.gone) {
            let process = all.entry(creator.pid).or_insert_with(|| ProcessNow {
                pid: creator.pid,
                command: creator.command.clone(),
                ..Default::default()
            });
            process.created_held += segment.held;
        }
    }
    for record in &knowledge.alive {
        let pid = record.pid as i32;
        let process = all.entry(pid).or_insert_with(|| ProcessNow {
            pid,
            command: String::from_utf8_lossy(&record.command).into_owned(),
            ..Default::default()
        });
        process.created = record.created;
        process.redirected = record.redirected;
    }
    for process in all.values_mut() {
        process.has_library = with_library.contains(&process.pid);
    }
    let mut all: Vec<ProcessNow> = all.into_values().collect();
    all.sort_by(|a, b| b.holds.cmp(&a.holds).then(a.pid.cmp(&b.pid)));
    all
}
