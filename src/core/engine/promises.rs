//! What kept segments were promised in the guard beyond what they hold.

use super::{now_ms, patiently, Engine};
use crate::ledger::{Ledger, Process, SegmentRecord};
use crate::names;
use crate::segment::{Identity, Place, Segment};

impl Engine {
    /// What this process, and the others of the ledger, were promised in the guard beyond what they hold.
    pub(super) fn promised(&self) -> u64 {
        let mut own = 0u64;
        self.table.for_each(|segment| {
            let open = segment.place == Place::Guard && segment.promised > segment.reserved;
            if open && self.is_used_in_full(&segment.name) {
                own = own.saturating_add(self.unheld(segment));
            }
        });
        own.saturating_add(self.others_promised())
    }

    /// Does what a segment of this name was promised count as wanted?
    pub(super) fn is_used_in_full(&self, name: &[u8]) -> bool {
        names::kind(name).is_used_in_full() && !self.config.keeps(name)
    }

    /// What a segment that is not reserved still lacks, as long as it is there: by its name, or by the descriptor that it was
    /// created with.
    fn unheld(&self, segment: &Segment) -> u64 {
        use rustix::fs;
        let by_descriptor = crate::borrow(segment.descriptor).and_then(|fd| fs::fstat(fd).ok());
        let stat = by_descriptor.filter(|stat| Identity::of(stat) == segment.identity).or_else(|| {
            let path = self.config.guards.get(segment.guard as usize)?;
            let path = [path.to_bytes(), b"/", segment.name.as_slice()].concat();
            let stat = fs::statat(fs::CWD, path.as_slice(), fs::AtFlags::SYMLINK_NOFOLLOW).ok()?;
            (Identity::of(&stat) == segment.identity).then_some(stat)
        });
        let Some(stat) = stat else { return 0 };
        (stat.st_size as u64).saturating_sub((stat.st_blocks as u64).saturating_mul(512))
    }

    /// What a segment of another process still lacks now, by its name: its creator may have filled it since it wrote its record.
    /// One without a name is taken as filled.
    fn lacking(&self, segment: &SegmentRecord) -> u64 {
        use rustix::fs;
        if segment.place > 0 || segment.reserved >= segment.promised || !self.is_used_in_full(&segment.name) {
            return 0;
        }
        let mut stats = self.config.guards.iter().filter_map(|guard| {
            let path = [guard.to_bytes(), b"/", segment.name.as_slice()].concat();
            fs::statat(fs::CWD, path.as_slice(), fs::AtFlags::SYMLINK_NOFOLLOW).ok()
        });
        let found = stats.find(|stat| (stat.st_dev, stat.st_ino) == (segment.dev, segment.ino));
        found.map_or(0, |stat| (stat.st_size as u64).saturating_sub((stat.st_blocks as u64).saturating_mul(512)))
    }

    fn others_promised(&self) -> u64 {
        let Some(mut books) = patiently(&self.books) else { return 0 };
        let now = now_ms();
        if books.ledger.is_some() && now.saturating_sub(books.others_read_ms) > 1000 {
            let (pid, start) = (books.record.pid, books.record.start);
            let others = books.ledger.as_ref().map(Ledger::processes).unwrap_or_default();
            let lacking = |process: &Process| {
                let segments = books.ledger.as_ref().map(|ledger| ledger.segments(process)).unwrap_or_default();
                segments.iter().fold(0u64, |sum, segment| sum.saturating_add(self.lacking(segment)))
            };
            let promised = others
                .iter()
                .filter(|other| other.promised > 0 && (other.pid, other.start) != (pid, start))
                .filter(|other| crate::process::is_alive(other.pid as i32, other.start))
                .fold(0, |sum: u64, other| sum.saturating_add(lacking(other)));
            books.others_promised = promised;
            books.others_read_ms = now;
        }
        books.others_promised
    }
}
