//! What kept segments were promised in the guard beyond what they hold.

use super::{now_ms, patiently, Engine};
use crate::ledger::Ledger;
use crate::names;
use crate::segment::{Identity, Place, Segment};

impl Engine {
    /// What this process, and the others of the ledger, were promised in the guard beyond what they hold.
    pub(super) fn promised(&self) -> u64 {
        let mut own = 0u64;
        self.table.for_each(|segment| {
            let open = segment.place == Place::Guard && segment.promised > segment.reserved;
            if open && names::kind(&segment.name) == names::Kind::Plain && !self.config.keeps(&segment.name) {
                own = own.saturating_add(self.unheld(segment));
            }
        });
        own.saturating_add(self.others_promised())
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

    fn others_promised(&self) -> u64 {
        let Some(mut books) = patiently(&self.books) else { return 0 };
        let now = now_ms();
        if books.ledger.is_some() && now.saturating_sub(books.others_read_ms) > 1000 {
            let (pid, start) = (books.record.pid, books.record.start);
            let others = books.ledger.as_ref().map(Ledger::processes).unwrap_or_default();
            books.others_promised = others
                .iter()
                .filter(|other| (other.pid, other.start) != (pid, start))
                .filter(|other| crate::process::is_alive(other.pid as i32, other.start))
                .fold(0, |sum, other| sum.saturating_add(other.promised));
            books.others_read_ms = now;
        }
        books.others_promised
    }
}
