//! What is told of a run, by `run` when it ends and by `report` from the log: one structure for text, JSON and HTML.

use std::collections::BTreeMap;

use serde::Serialize;

/// A run. Bytes are integers, times are seconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The program and its arguments; from a log without `shmguard run` the commands seen.
    pub command: Vec<String>,
    /// Exit status, unless a signal ended it or it is not known.
    pub exit: Option<i32>,
    /// Number of the signal that ended it.
    pub signal: Option<i32>,
    /// From start to end; from a log: from its first event to its last.
    pub duration_s: f64,
    /// Seconds since 1970.
    pub started_s: f64,
    /// SHMGUARD_MODE of the run; empty when it is not known.
    pub mode: String,
    /// The guarded directory.
    pub guard: Guard,
    /// Highest values.
    pub peak: Peak,
    /// Numbers of segments.
    pub segments: Segments,
    /// Processes that used shared memory.
    pub processes: u64,
    /// By command, largest peak first.
    pub programs: Vec<Program>,
    /// The largest segments.
    pub largest: Vec<Large>,
    /// Everything that was said.
    pub warnings: Vec<Warning>,
    /// Processes that a signal ended.
    pub deaths: Vec<Death>,
    /// Why it died, in words, and what to do; empty when it did not.
    pub explanation: Vec<String>,
    /// The targets.
    pub targets: Vec<Target>,
    /// The size of /dev/shm that would have done without redirection, in bytes, whole mebibytes.
    pub suggested_shm_size: u64,
    /// Programs that ran without the library, with the reason.
    pub without_library: Vec<Without>,
    /// The memory that shared memory counts against.
    pub memory: Memory,
    /// Demand over time.
    pub timeline: Vec<Point>,
}

/// The guarded directory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Guard {
    /// Its path.
    pub path: String,
    /// Its size; null = unlimited or not known.
    pub capacity_bytes: Option<u64>,
    /// How full it may become.
    pub budget_bytes: Option<u64>,
}

/// Highest values; each at its own moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Peak {
    /// Used in the guarded directory.
    pub tmpfs_bytes: u64,
    /// In all targets together.
    pub redirected_bytes: u64,
    /// Used, promised and redirected at one moment.
    pub demand_bytes: u64,
    /// When that was, from the start.
    pub demand_at_s: Option<f64>,
    /// memfd_create.
    pub memfd_bytes: u64,
    /// Shared anonymous mappings.
    pub anonymous_bytes: u64,
    /// System V segments.
    pub sysv_bytes: u64,
}

/// Numbers of segments.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Segments {
    /// Created.
    pub created: u64,
    /// Of these redirected.
    pub redirected: u64,
    /// Refused with ENOSPC.
    pub refused: u64,
    /// Did not fit and could not be moved.
    pub unsaved: u64,
    /// Left behind under a name.
    pub leaked: u64,
}

/// All processes with the same command.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Program {
    /// The command.
    pub command: String,
    /// How many.
    pub processes: u64,
    /// Segments sized.
    pub segments: u64,
    /// Bytes of these, one after the other.
    pub bytes: u64,
    /// Most bytes that segments of theirs held at one moment.
    pub peak_bytes: u64,
}

/// A large segment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Large {
    /// Its name; empty for a nameless one.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its creator.
    pub pid: i64,
    /// Its creator's command.
    pub command: String,
    /// `guard` or the target's path.
    #[serde(rename = "where")]
    pub place: String,
    /// When it was sized.
    pub at_s: f64,
}

/// A line of the library.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Warning {
    /// When.
    pub at_s: f64,
    /// By which process.
    pub pid: i64,
    /// Its command.
    pub command: String,
    /// Kind: `level.0`, `redirect`, `cannot.2`, ...
    pub what: String,
    /// The line.
    pub text: String,
}

/// A process that a signal ended.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Death {
    /// When.
    pub at_s: f64,
    /// The process.
    pub pid: i64,
    /// Its command.
    pub command: String,
    /// The signal.
    pub signal: i32,
    /// One word: bytes, inodes, memory, stale, none, unknown.
    pub cause: String,
    /// The segment that could not be filled.
    pub segment: Option<String>,
}

/// A target directory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Target {
    /// Its path.
    pub path: String,
    /// `ram`, `disk`, `layer`, `other`; `unknown` when it cannot be looked at any more.
    pub kind: String,
    /// Most bytes that redirected segments held there.
    pub peak_bytes: u64,
}

/// A program without the library.
#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq)]
pub struct Without {
    /// Its file.
    pub program: String,
    /// Why.
    pub reason: String,
}

/// Memory of machine and container, as seen at the end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Memory {
    /// Limit of the narrowest memory cgroup.
    pub cgroup_limit_bytes: Option<u64>,
    /// What that has left.
    pub cgroup_room_bytes: Option<u64>,
    /// MemAvailable.
    pub available_bytes: Option<u64>,
    /// Processes that the cgroup's out-of-memory killer ended during the run.
    pub oom_kills: u64,
}

/// Demand at a moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// Seconds from the start.
    pub t_s: f64,
    /// Used in the guarded directory.
    pub tmpfs_bytes: u64,
    /// Promised beyond that.
    pub promised_bytes: u64,
    /// In the targets.
    pub redirected_bytes: u64,
    /// The same by command; what belongs to none is not in here.
    pub programs: BTreeMap<String, u64>,
}

impl Point {
    /// All together.
    pub fn demand(&self) -> u64 {
        self.tmpfs_bytes.saturating_add(self.promised_bytes).saturating_add(self.redirected_bytes)
    }
}

/// Points over time, never more than [`Timeline::MOST`]: of neighbours the higher one is kept.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    points: Vec<Point>,
    /// Points closer together than this replace each other if higher.
    apart_s: f64,
}

impl Timeline {
    /// Points kept at most.
    pub const MOST: usize = 2000;

    /// Adds the next point in time.
    pub fn push(&mut self, point: Point) {
        if let Some(last) = self.points.last_mut().filter(|last| point.t_s - last.t_s < self.apart_s) {
            if point.demand() >= last.demand() {
                *last = Point { t_s: last.t_s, ..point };
            }
            return;
        }
        self.points.push(point);
        if self.points.len() >= Self::MOST {
            let first = self.points.first().map_or(0.0, |point| point.t_s);
            let last = self.points.last().map_or(0.0, |point| point.t_s);
            self.apart_s = ((last - first) / (Self::MOST as f64 / 4.0)).max(self.apart_s * 2.0).max(0.001);
            for point in std::mem::take(&mut self.points) {
                self.push(point);
            }
        }
    }

    /// All points.
    pub fn into_points(self) -> Vec<Point> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_timeline_stays_short_and_keeps_its_peak() {
        let mut timeline = Timeline::default();
        for second in 0..100_000u64 {
            let tmpfs_bytes = if second == 54_321 { 1 << 30 } else { second % 7 };
            timeline.push(Point { t_s: second as f64, tmpfs_bytes, ..Point::default() });
        }
        let points = timeline.into_points();
        assert!(points.len() < Timeline::MOST && points.len() > 200, "{}", points.len());
        assert!(points.iter().any(|point| point.tmpfs_bytes == 1 << 30));
        assert!(points.windows(2).all(|pair| pair[0].t_s < pair[1].t_s));
    }
}
