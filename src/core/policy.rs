//! What to do with a request for shared memory. Pure: facts in, a verdict out; no system call, no state.

use crate::config::{margin, Mode};
use crate::exchange::Stay;
use crate::names::Kind;
use crate::segment::Origin;
use crate::target::Medium;

/// Segments up to this size may use half of the margin: semaphores, OpenMP's registration page, label tensors. Moving them
/// would cost more than they take.
pub const SMALL: u64 = 64 << 10;

/// The largest segment that is reserved.
pub const LARGEST_RESERVED: u64 = 1 << 30;

/// Why something does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The budget for the guarded directory would be exceeded.
    Budget,
    /// The guarded directory has not that many bytes free.
    Room,
    /// The memory cgroup or the machine has less memory left than asked for.
    Memory,
}

impl Cause {
    /// The words used in the log.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Budget => "budget",
            Cause::Room => "room",
            Cause::Memory => "memory",
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What the name tells.
    pub kind: Kind,
    /// How the segment was created.
    pub origin: Origin,
    /// SHMGUARD_KEEP names it.
    pub kept_by_user: bool,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that it holds already.
    pub held: u64,
}

/// How things stand.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// SHMGUARD_MODE.
    pub mode: Mode,
    /// Size of the guarded tmpfs; `None` = unlimited.
    pub capacity: Option<u64>,
    /// Bytes free in it.
    pub free: u64,
    /// Bytes used in it.
    pub used: u64,
    /// Bytes that kept segments were promised beyond what they hold.
    pub promised: u64,
    /// How full it may become.
    pub budget: u64,
    /// Smallest of what the machine and the memory cgroups have left; `None` = not known.
    pub memory: Option<u64>,
    /// A device that pins memory is here: half of the tmpfs is left to segments that cannot go to a disk.
    pub device: bool,
}

/// What happens to the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays; `reserve` = its pages are taken now.
    Keep {
        /// Take its pages now.
        reserve: bool,
    },
    /// It should go to a target.
    Redirect(Cause),
    /// It gets ENOSPC.
    Refuse(Cause),
    /// It does not fit, and may not be moved: the kernel's own behaviour stands, and the user is told why.
    Overflow(Cause, Stay),
}

impl Situation {
    /// The margin that stays free for semaphores, OpenMP and strangers.
    pub fn margin(&self) -> u64 {
        self.capacity.map_or(0, margin)
    }

    /// Fill of the guarded directory: bytes used and promised.
    pub fn fill(&self) -> u64 {
        self.used.saturating_add(self.promised)
    }

    /// How full the guarded directory may become by segments of this kind, in bytes: the budget; where a device pins memory, half
    /// of the tmpfs is left to those that cannot go to a disk.
    pub fn budget_for(&self, kind: Kind) -> u64 {
        match (kind, self.capacity) {
            (Kind::Pinned, _) | (_, None) => self.budget,
            (_, Some(capacity)) if self.device => self.budget.min(capacity / 2),
            (_, Some(_)) => self.budget,
        }
    }

    /// Does `need` more fit, and if not, why?
    pub fn fits(&self, kind: Kind, need: u64) -> Result<(), Cause> {
        if self.memory.is_some_and(|left| need > left) {
            return Err(Cause::Memory);
        }
        if self.capacity.is_none() {
            return Ok(());
        }
        let margin = self.margin();
        if need <= SMALL {
            // Small ones may go into the margin, half of it.
            return if self.free >= need.saturating_add(margin / 2) { Ok(()) } else { Err(Cause::Room) };
        }
        if self.free < need.saturating_add(margin).saturating_add(self.promised) {
            return Err(Cause::Room);
        }
        if self.fill().saturating_add(need) > self.budget_for(kind) {
            Err(Cause::Budget)
        } else {
            Ok(())
        }
    }
}

/// Segments of these kinds stay where they are whatever happens.
pub fn never_moved(request: &Request) -> Option<Stay> {
    match (request.kind, request.origin) {
        _ if request.kept_by_user => Some(Stay::Kept),
        (Kind::Semaphore | Kind::System, _) | (Kind::Sparse, Origin::ShmOpen) => Some(Stay::Kept),
        (_, Origin::Rendezvous) => Some(Stay::Rendezvous),
        (_, Origin::LinkableTmpfile) => Some(Stay::Linkable),
        _ => None,
    }
}

/// The verdict on a segment that is sized for the first time by the process that created it.
pub fn judge(request: &Request, situation: &Situation) -> Verdict {
    let need = request.bytes.saturating_sub(request.held);
    if request.kept_by_user {
        return match situation.fits(request.kind, need) {
            Err(cause) if situation.mode != Mode::Off => Verdict::Overflow(cause, Stay::Kept),
            _ => Verdict::Keep { reserve: false },
        };
    }
    let sparse = request.kind == Kind::Sparse;
    // PulseAudio's 64 MiB never fit into 64 MiB and never have to: a few pages are used. What is made by open or mkstemp
    // (Ray's store, Open MPI) is told to fit or not by the room alone.
    if sparse && (request.origin == Origin::ShmOpen || situation.free >= need.saturating_add(situation.margin())) {
        return Verdict::Keep { reserve: false };
    }
    match situation.fits(request.kind, need) {
        Ok(()) => Verdict::Keep { reserve: !sparse && reserves(need, situation) },
        Err(cause) => match situation.mode {
            Mode::Off => Verdict::Keep { reserve: false },
            Mode::Refuse => Verdict::Refuse(cause),
            // Told as what would have happened.
            Mode::Observe => Verdict::Overflow(cause, Stay::Kept),
            Mode::Redirect => match never_moved(request) {
                Some(stay) => Verdict::Overflow(cause, stay),
                None => Verdict::Redirect(cause),
            },
        },
    }
}

/// Only what takes little that the program would not have used: at most 1 GiB, and at most an eighth of the memory left.
fn reserves(need: u64, situation: &Situation) -> bool {
    let little = situation.memory.is_none_or(|left| need <= left / 8);
    matches!(situation.mode, Mode::Redirect | Mode::Refuse) && need <= LARGEST_RESERVED && little
}

/// May a segment of this kind and size go to a target of this medium?
///
/// Memory is no way out where memory is the narrower bound (an error would become a SIGKILL); what gets pinned for a device
/// cannot lie on a disk (a long-term pin fails with EFAULT there).
pub fn suits(medium: Medium, kind: Kind, need: u64, memory: Option<u64>) -> bool {
    match medium {
        Medium::Ram => memory.is_none_or(|left| need.saturating_add(headroom(left)) <= left),
        Medium::Disk | Medium::Layer | Medium::Other => kind != Kind::Pinned,
    }
}

/// The size of a tmpfs in which `demand` bytes stay within the default budget, in bytes.
pub fn suggested_capacity(demand: u64) -> u64 {
    // budget = size - margin, margin = size/16 within 256 KiB .. 64 MiB; the inverse of that.
    let sixteenth = demand / 15 + 1;
    demand.saturating_add(sixteenth.clamp(256 << 10, 64 << 20))
}

/// The demand for which a size is suggested in the end, in bytes: of a stream of segments the next one is made room for before
/// the last has gone, so one more of the largest than was there at the peak.
pub fn demand_of_stream(demand: u64, segments: u64, largest: u64) -> u64 {
    if segments >= STREAM {
        demand.saturating_add(largest.min(demand / 2))
    } else {
        demand
    }
}

/// So many segments are a stream.
const STREAM: u64 = 8;

/// What a target in memory must leave of the memory that is there: an eighth.
fn headroom(left: u64) -> u64 {
    left / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn docker() -> Situation {
        Situation {
            mode: Mode::Redirect,
            capacity: Some(64 * MIB),
            free: 64 * MIB,
            used: 0,
            promised: 0,
            budget: 60 * MIB,
            memory: Some(8 << 30),
            device: false,
        }
    }

    fn plain(bytes: u64) -> Request {
        Request { kind: Kind::Plain, origin: Origin::ShmOpen, kept_by_user: false, bytes, held: 0 }
    }

    #[test]
    fn what_fits_is_kept_and_reserved() {
        assert_eq!(judge(&plain(19 * MIB), &docker()), Verdict::Keep { reserve: true });
        assert_eq!(judge(&plain(60 * MIB), &docker()), Verdict::Keep { reserve: true });
    }

    #[test]
    fn one_byte_over_the_margin_is_redirected() {
        assert_eq!(judge(&plain(60 * MIB + 1), &docker()), Verdict::Redirect(Cause::Room));
    }

    #[test]
    fn a_budget_below_the_room_redirects_earlier() {
        let tight = Situation { budget: 10 * MIB, ..docker() };
        assert_eq!(judge(&plain(11 * MIB), &tight), Verdict::Redirect(Cause::Budget));
    }

    #[test]
    fn promises_count_like_bytes() {
        let promised = Situation { promised: 50 * MIB, ..docker() };
        assert_eq!(judge(&plain(11 * MIB), &promised), Verdict::Redirect(Cause::Room));
    }

    #[test]
    fn small_segments_may_use_half_of_the_margin() {
        let full = Situation { free: 3 * MIB, used: 61 * MIB, ..docker() };
        assert_eq!(judge(&plain(4096), &full), Verdict::Keep { reserve: true });
        let fuller = Situation { free: 2 * MIB, used: 62 * MIB, ..docker() };
        assert_eq!(judge(&plain(4096), &fuller), Verdict::Redirect(Cause::Room));
    }

    #[test]
    fn modes_differ_only_in_what_does_not_fit() {
        let too_much = plain(100 * MIB);
        for (mode, verdict) in [
            (Mode::Redirect, Verdict::Redirect(Cause::Room)),
            (Mode::Refuse, Verdict::Refuse(Cause::Room)),
            (Mode::Observe, Verdict::Overflow(Cause::Room, Stay::Kept)),
        ] {
            assert_eq!(judge(&too_much, &Situation { mode, ..docker() }), verdict);
        }
        let observed = Situation { mode: Mode::Observe, ..docker() };
        assert_eq!(judge(&plain(MIB), &observed), Verdict::Keep { reserve: false });
    }

    #[test]
    fn meeting_places_and_kept_names_stay() {
        let meeting = Request { origin: Origin::Rendezvous, ..plain(100 * MIB) };
        assert_eq!(judge(&meeting, &docker()), Verdict::Overflow(Cause::Room, Stay::Rendezvous));
        let kept = Request { kept_by_user: true, ..plain(100 * MIB) };
        assert_eq!(judge(&kept, &docker()), Verdict::Overflow(Cause::Room, Stay::Kept));
        assert_eq!(judge(&Request { bytes: MIB, ..kept }, &docker()), Verdict::Keep { reserve: false });
        let pulse = Request { kind: Kind::Sparse, ..plain(100 * MIB) };
        assert_eq!(judge(&pulse, &docker()), Verdict::Keep { reserve: false });
    }

    #[test]
    fn a_sparse_store_that_can_never_fit_is_redirected() {
        let plasma = Request { kind: Kind::Sparse, origin: Origin::Mkstemp, ..plain(100 * MIB) };
        assert_eq!(judge(&plasma, &docker()), Verdict::Redirect(Cause::Room));
        assert_eq!(judge(&Request { bytes: 50 * MIB, ..plasma }, &docker()), Verdict::Keep { reserve: false });
    }

    #[test]
    fn an_unlimited_tmpfs_is_bounded_by_memory_alone() {
        let unlimited = Situation { capacity: None, free: u64::MAX, budget: u64::MAX, ..docker() };
        assert_eq!(judge(&plain(900 * MIB), &unlimited), Verdict::Keep { reserve: true });
        assert_eq!(judge(&plain(7 << 30), &unlimited), Verdict::Keep { reserve: false });
        assert_eq!(judge(&plain(9 << 30), &unlimited), Verdict::Redirect(Cause::Memory));
    }

    #[test]
    fn much_of_the_memory_is_not_reserved() {
        let narrow = Situation { memory: Some(200 * MIB), ..docker() };
        assert_eq!(judge(&plain(20 * MIB), &narrow), Verdict::Keep { reserve: true });
        assert_eq!(judge(&plain(40 * MIB), &narrow), Verdict::Keep { reserve: false });
    }

    #[test]
    fn a_device_gets_half_of_the_tmpfs_to_itself() {
        let gpu = Situation { device: true, ..docker() };
        assert_eq!(judge(&plain(40 * MIB), &gpu), Verdict::Redirect(Cause::Budget));
        let nccl = Request { kind: Kind::Pinned, ..plain(40 * MIB) };
        assert_eq!(judge(&nccl, &gpu), Verdict::Keep { reserve: true });
    }

    #[test]
    fn the_suggested_size_has_room_for_the_demand() {
        for demand in [1, 4096, 5 * MIB, 60 * MIB, 900 * MIB, 100 << 30] {
            let size = suggested_capacity(demand);
            assert!(size - margin(size) >= demand, "{demand}");
            assert!(size <= demand + (64 << 20) + 1, "{demand}");
        }
    }

    #[test]
    fn memory_is_no_way_out_of_a_lack_of_memory_nor_a_disk_for_pins() {
        assert!(suits(Medium::Ram, Kind::Plain, 100 * MIB, Some(1 << 30)));
        assert!(!suits(Medium::Ram, Kind::Plain, 1000 * MIB, Some(1 << 30)));
        assert!(suits(Medium::Disk, Kind::Plain, 1000 * MIB, Some(1 << 30)));
        assert!(!suits(Medium::Disk, Kind::Pinned, MIB, None));
    }
}
