//! The fixed-width records of the ledger. Little-endian, versioned; anything that does not fit is taken as absent.

use arrayvec::ArrayVec;

/// Bytes of a process record at the start of a process's file.
pub const PROCESS_BYTES: usize = 512;
/// Bytes of a segment record; they follow the process record.
pub const SEGMENT_BYTES: usize = 160;
/// Segment records that a file holds at most; a ring, the oldest goes.
pub const SEGMENTS: usize = 256;

const MAGIC: &[u8; 8] = b"shmgrd01";
const NUMBERS: usize = 48;
const COMMAND: usize = 64;

macro_rules! process_record {
    ($($(#[$doc:meta])* $field:ident = $place:literal,)*) => {
        /// What one process knows of itself and has seen of the guarded directory. Sizes in bytes, times in milliseconds
        /// since 1970.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Process {
            $($(#[$doc])* pub $field: u64,)*
            /// Highest bytes seen in each target, by its index in the configuration.
            pub target_peaks: [u64; 8],
            /// The process's command (comm), at most 64 bytes.
            pub command: ArrayVec<u8, COMMAND>,
        }

        impl Process {
            /// The record as it stands in the file.
            pub fn to_bytes(&self) -> [u8; PROCESS_BYTES] {
                let mut numbers = [0u64; NUMBERS];
                $(if let Some(place) = numbers.get_mut($place) { *place = self.$field; })*
                for (place, peak) in numbers.iter_mut().skip(40).zip(self.target_peaks) {
                    *place = peak;
                }
                let mut bytes = [0u8; PROCESS_BYTES];
                let all = MAGIC.iter().copied()
                    .chain(numbers.iter().flat_map(|number| number.to_le_bytes()))
                    .chain(self.command.iter().copied());
                for (place, byte) in bytes.iter_mut().zip(all) {
                    *place = byte;
                }
                bytes
            }

            /// Reads a record; `None` if it is not one of this version.
            pub fn from_bytes(bytes: &[u8]) -> Option<Process> {
                let rest = bytes.get(..PROCESS_BYTES)?.strip_prefix(MAGIC)?;
                let number = |index: usize| -> u64 {
                    let place = rest.get(index * 8..index * 8 + 8).and_then(|eight| eight.try_into().ok());
                    place.map_or(0, u64::from_le_bytes)
                };
                let mut target_peaks = [0u64; 8];
                for (index, peak) in target_peaks.iter_mut().enumerate() {
                    *peak = number(40 + index);
                }
                let command = rest.get(NUMBERS * 8..)?.iter().copied().take_while(|byte| *byte != 0).take(COMMAND).collect();
                Some(Process { $($field: number($place),)* target_peaks, command })
            }
        }
    };
}

process_record! {
    /// Process id in its pid namespace.
    pid = 0,
    /// Parent's process id when the record was begun.
    parent = 1,
    /// Start time in clock ticks since boot.
    start = 2,
    /// Inode number of the pid namespace.
    namespace = 3,
    /// Real user id.
    uid = 4,
    /// When the record was begun.
    began_ms = 5,
    /// When it was last written.
    written_ms = 6,
    /// Size of the guarded tmpfs; 0 = unlimited.
    capacity = 7,
    /// Budget for it.
    budget = 8,
    /// Most bytes seen used in the guarded directory.
    tmpfs_peak = 9,
    /// Most bytes seen in all targets together.
    redirected_peak = 10,
    /// Most bytes seen wanted at one moment: used, promised and redirected.
    demand_peak = 11,
    /// When that was.
    demand_peak_ms = 12,
    /// Segments created by this process.
    created = 13,
    /// Segments redirected.
    redirected = 14,
    /// Segments refused with ENOSPC.
    refused = 15,
    /// Segments that did not fit and could not be moved.
    unsaved = 16,
    /// Warnings given.
    warnings = 17,
    /// Bytes of all segments sized.
    bytes_created = 18,
    /// Bytes of all segments redirected.
    bytes_redirected = 19,
    /// Largest segment sized.
    largest = 20,
    /// Segments attached by name.
    attached = 21,
    /// SHMGUARD_MODE as a number (0 redirect, 1 observe, 2 refuse).
    mode = 22,
    /// Processes counted in this record: 1, in a sum the number of them.
    processes = 23,
    /// Bytes that kept segments were promised beyond what they hold.
    promised = 24,
    /// Next slot of the ring of segments.
    next_segment = 25,
    /// Bit n: target n is memory (tmpfs); so many configured: see `targets`.
    ram_targets = 26,
    /// Number of targets configured.
    targets = 27,
    /// Start time of the parent.
    parent_start = 28,
    /// Names in guarded directories that this process removed.
    unlinked = 29,
}

/// Sums over processes that are gone.
pub type Totals = Process;

impl Process {
    /// Adds another record: sums are added, peaks are the higher ones.
    pub fn fold(&mut self, other: &Process) {
        for (mine, theirs) in [
            (&mut self.created, other.created),
            (&mut self.redirected, other.redirected),
            (&mut self.refused, other.refused),
            (&mut self.unsaved, other.unsaved),
            (&mut self.warnings, other.warnings),
            (&mut self.bytes_created, other.bytes_created),
            (&mut self.bytes_redirected, other.bytes_redirected),
            (&mut self.attached, other.attached),
            (&mut self.unlinked, other.unlinked),
            (&mut self.processes, other.processes),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        if other.parent > 0 {
            (self.parent, self.parent_start, self.namespace) = (other.parent, other.parent_start, other.namespace);
        }
        if other.demand_peak > self.demand_peak {
            self.demand_peak_ms = other.demand_peak_ms;
        }
        for (mine, theirs) in [
            (&mut self.tmpfs_peak, other.tmpfs_peak),
            (&mut self.redirected_peak, other.redirected_peak),
            (&mut self.demand_peak, other.demand_peak),
            (&mut self.largest, other.largest),
            (&mut self.capacity, other.capacity),
            (&mut self.budget, other.budget),
            (&mut self.written_ms, other.written_ms),
            (&mut self.ram_targets, other.ram_targets),
            (&mut self.targets, other.targets),
        ] {
            *mine = (*mine).max(theirs);
        }
        for (mine, theirs) in self.target_peaks.iter_mut().zip(other.target_peaks) {
            *mine = (*mine).max(theirs);
        }
    }
}

/// One segment that a process created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentRecord {
    /// st_dev.
    pub dev: u64,
    /// st_ino; 0 = this slot was never used.
    pub ino: u64,
    /// Size it was given, in bytes.
    pub promised: u64,
    /// Bytes reserved for it.
    pub reserved: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// 0 = in the guard, n = in target n-1.
    pub place: u64,
    /// Its name when it was created (its first 96 bytes).
    pub name: ArrayVec<u8, 96>,
}

impl SegmentRecord {
    /// The record as it stands in the file.
    pub fn to_bytes(&self) -> [u8; SEGMENT_BYTES] {
        let mut bytes = [0u8; SEGMENT_BYTES];
        let numbers = [self.dev, self.ino, self.promised, self.reserved, self.created_ms, self.place];
        let all = numbers.iter().flat_map(|number| number.to_le_bytes()).chain(self.name.iter().copied());
        for (place, byte) in bytes.iter_mut().zip(all) {
            *place = byte;
        }
        bytes
    }

    /// Reads a record; `None` for a slot that was never used.
    pub fn from_bytes(bytes: &[u8]) -> Option<SegmentRecord> {
        let bytes = bytes.get(..SEGMENT_BYTES)?;
        let number = |index: usize| -> u64 {
            let place = bytes.get(index * 8..index * 8 + 8).and_then(|eight| eight.try_into().ok());
            place.map_or(0, u64::from_le_bytes)
        };
        let name = bytes.get(48..)?.iter().copied().take_while(|byte| *byte != 0).take(96).collect();
        let record = SegmentRecord {
            dev: number(0),
            ino: number(1),
            promised: number(2),
            reserved: number(3),
            created_ms: number(4),
            place: number(5),
            name,
        };
        (record.ino != 0).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn records_survive_their_bytes() {
        let process = Process {
            pid: 7,
            targets: 3,
            demand_peak: u64::MAX,
            target_peaks: [1, 2, 3, 4, 5, 6, 7, 8],
            command: b"python3".iter().copied().collect(),
            ..Process::default()
        };
        assert_eq!(Process::from_bytes(&process.to_bytes()), Some(process));
        let segment = SegmentRecord { ino: 9, name: b"torch_1".iter().copied().collect(), ..SegmentRecord::default() };
        assert_eq!(SegmentRecord::from_bytes(&segment.to_bytes()), Some(segment));
    }

    #[test]
    fn folding_adds_sums_and_keeps_the_higher_peaks() {
        let mut sum = Process { created: 1, demand_peak: 10, ..Process::default() };
        sum.fold(&Process { created: 2, demand_peak: 5, processes: 1, ..Process::default() });
        assert_eq!((sum.created, sum.demand_peak, sum.processes), (3, 10, 1));
        sum.fold(&Process { created: u64::MAX, ..Process::default() });
        assert_eq!(sum.created, u64::MAX);
    }

    proptest! {
        #[test]
        fn noise_is_read_or_refused_but_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..1200)) {
            let _ = Process::from_bytes(&noise);
            let _ = SegmentRecord::from_bytes(&noise);
            let mut with_magic = MAGIC.to_vec();
            with_magic.extend(&noise);
            let _ = Process::from_bytes(&with_magic);
        }
    }
}
