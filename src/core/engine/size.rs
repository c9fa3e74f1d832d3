//! Sizing: the moment at which it is known how much is asked for.

use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::atomic::Ordering;

use rustix::fs::{self, Mode as FileMode, OFlags, Stat};
use rustix::io::Errno;

use super::Engine;
use crate::config::Mode;
use crate::exchange::Stay;
use crate::guard::Guard;
use crate::names;
use crate::policy::{self, Cause, Request, Situation, Verdict};
use crate::quiet::undisturbed;
use crate::reserve::{reserve_in_ram, Shortage};
use crate::segment::{Held, Identity, Place, Segment};

/// A segment grown by writing may be moved with this much data in it (MPICH writes one byte at the end).
const MOST_COPIED: u64 = 64 << 10;

/// What a first sizing works on.
#[derive(Clone, Copy)]
pub(super) struct Sizing<'a> {
    /// The program's descriptor; for truncate(2) by path one of our own.
    pub fd: BorrowedFd<'a>,
    /// True when `fd` is the program's and must become the new file.
    pub own_descriptor: bool,
    /// The file as it is.
    pub stat: Stat,
    /// Size asked for.
    pub bytes: u64,
    /// The call, for the log.
    pub call: &'static str,
}

impl Sizing<'_> {
    /// Bytes that the file holds already.
    pub(super) fn held(&self) -> u64 {
        (self.stat.st_blocks as u64).saturating_mul(512)
    }

    /// Does the program's call take the pages itself?
    pub(super) fn reserves(&self) -> bool {
        matches!(self.call, "posix_fallocate" | "fallocate")
    }

    /// Are there fewer pages than it still lacks?
    pub(super) fn lacks(&self, situation: &Situation) -> bool {
        situation.capacity.is_some() && situation.free < self.bytes.saturating_sub(self.held())
    }
}

impl Engine {
    /// Before a call that gives the file of `fd` the size `bytes` (or, when it is larger already, leaves it).
    ///
    /// After `Ok` the program's call is to be made on the same descriptor, whatever file is behind it now.
    ///
    /// # Errors
    /// ENOSPC in mode `refuse`, when it does not fit: the call is not to be made.
    pub fn sizing(&self, fd: RawFd, bytes: u64, call: &'static str) -> Result<(), Errno> {
        if self.is_idle() || bytes == 0 {
            return Ok(());
        }
        let Some(fd) = crate::borrow(fd) else { return Ok(()) };
        let Ok(stat) = fs::fstat(fd) else { return Ok(()) };
        let identity = Identity::of(&stat);
        if !self.table.may_hold(identity) {
            return Ok(());
        }
        undisturbed(|| match self.table.find(identity) {
            Some(held) => self.size_held(held, Sizing { fd, own_descriptor: true, stat, bytes, call }),
            None => Ok(()),
        })
    }

    /// As [`Engine::sizing`], for truncate(2) on a direct child of a guard.
    ///
    /// # Errors
    /// As [`Engine::sizing`].
    pub fn sizing_path(&self, guard: usize, name: &[u8], bytes: u64) -> Result<(), Errno> {
        if self.is_idle() || bytes == 0 {
            return Ok(());
        }
        let Some(guard_now) = self.open_guard(guard) else { return Ok(()) };
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match crate::link::read(guard_now.fd(), name, &self.config.targets) {
            Some(link) => link.open(&self.config.targets, flags),
            // Opening a fifo would wake who waits at its other end.
            None => match fs::statat(guard_now.fd(), name, fs::AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::RegularFile => {
                    fs::openat(guard_now.fd(), name, flags | OFlags::NOFOLLOW, FileMode::empty())
                }
                _ => return Ok(()),
            },
        };
        let Ok(file) = file else { return Ok(()) };
        let Ok(stat) = fs::fstat(&file) else { return Ok(()) };
        let identity = Identity::of(&stat);
        let Some(mut held) = self.table.find(identity) else { return Ok(()) };
        // The descriptor that the creating call returned may still be open: it must become the new file too.
        let creators = held
            .get()
            .and_then(|segment| crate::borrow(segment.descriptor))
            .filter(|fd| fs::fstat(fd).is_ok_and(|stat| Identity::of(&stat) == identity));
        match creators {
            Some(fd) => {
                drop(file);
                self.size_held(held, Sizing { fd, own_descriptor: true, stat, bytes, call: "truncate" })
            }
            None => {
                let sizing = Sizing { fd: file.as_fd(), own_descriptor: false, stat, bytes, call: "truncate" };
                self.size_held(held, sizing)
            }
        }
    }

    /// Before the file of `fd` is mapped shared: the last moment before a touch can fault. Mode `refuse` does not refuse here
    /// (mmap says no ENOSPC).
    ///
    /// True when the segment lies on a disk: the mapping should be advised to use huge pages, because there each page of a
    /// mapping costs a fault with a call into the file system (measured: 6.6 ms instead of 17 for 19 MB on ext4).
    pub fn mapping(&self, fd: RawFd) -> bool {
        let Some(fd) = crate::borrow(fd) else { return false };
        let Ok(stat) = fs::fstat(fd) else { return false };
        let identity = Identity::of(&stat);
        if !self.is_touched() && fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::RegularFile {
            // A nameless file that is mapped shared, or one on the guarded tmpfs: this process takes part.
            let known = self.guard_dev.load(Ordering::Relaxed);
            if stat.st_nlink == 0 || (known != 0 && identity.dev == known) {
                self.touched.store(true, Ordering::Relaxed);
            }
        }
        if !self.table.may_hold(identity) {
            return false;
        }
        undisturbed(|| self.mapping_ours(fd, stat))
    }

    fn mapping_ours(&self, fd: BorrowedFd<'_>, stat: Stat) -> bool {
        let identity = Identity::of(&stat);
        let Some(mut held) = self.table.find(identity) else { return false };
        let bytes = stat.st_size as u64;
        let unsized_yet = held.get().is_some_and(|segment| segment.promised == 0 && !segment.mapped);
        let mut now = identity;
        if unsized_yet && bytes > 0 {
            let sizing = Sizing { fd, own_descriptor: true, stat, bytes, call: "mmap" };
            now = self.size_held_keeping(held, sizing).unwrap_or(identity);
        } else {
            drop(held);
        }
        let mut held = self.table.find(now);
        let Some(segment) = held.as_mut().and_then(Held::get) else { return false };
        segment.mapped = true;
        matches!(segment.place, Place::Target(_)) && now.dev != self.guard_dev.load(Ordering::Relaxed)
    }

    pub(super) fn size_held(&self, held: Held<'_>, sizing: Sizing<'_>) -> Result<(), Errno> {
        self.size_held_keeping(held, sizing).map(drop)
    }

    /// The identity of the file that holds the segment afterwards.
    fn size_held_keeping(&self, mut held: Held<'_>, sizing: Sizing<'_>) -> Result<Identity, Errno> {
        let before = Identity::of(&sizing.stat);
        if !self.is_here() {
            return Ok(before);
        }
        let Some(segment) = held.get() else { return Ok(before) };
        let guard_index = segment.guard as usize;
        // Beyond RLIMIT_FSIZE the program's own call fails, with SIGXFSZ: no call of ours must raise that signal first.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if limit.is_some_and(|limit| sizing.bytes > limit) {
            return Ok(before);
        }
        let Some(mut guard) = self.open_guard(guard_index) else {
            self.tell_no_descriptor(segment, &sizing);
            return Ok(before);
        };
        self.remember_size(sizing.bytes);
        // A size given in steps before anybody has mapped it (a header first) is served like one given at once.
        let still_light = !segment.mapped && segment.place == Place::Guard && is_light(&sizing, segment.reserved);
        let grows = sizing.bytes > segment.promised;
        let result = if segment.promised > 0 && !(still_light && grows) {
            self.grow(segment, &sizing, &mut guard)
        } else if let Place::Target(index) = segment.place {
            self.fill_target(&mut held, &sizing, &guard, index)
        } else if segment.identity.dev != guard.identity.dev {
            // Something else is mounted there by now.
            Ok(())
        } else {
            self.first_sizing(&mut held, &sizing, &mut guard)
        };
        let after = held.get().map_or(before, |segment| segment.identity);
        if let Some(segment) = held.get() {
            if result.is_ok() {
                segment.promised = sizing.bytes;
                self.record_segment(segment);
            }
        }
        let coming = held.get().filter(|_| result.is_ok()).map_or(0, |segment| self.coming(segment, &sizing));
        // The slot must be free for `promised` and the books, which look at every slot.
        drop(held);
        self.account(&guard, guard_index, coming);
        result.map(|()| after)
    }

    /// What the call that is about to be made promises beyond what the file's size and blocks tell now.
    fn coming(&self, segment: &Segment, sizing: &Sizing<'_>) -> u64 {
        let open = segment.place == Place::Guard && segment.reserved < sizing.bytes;
        if !open || !self.is_used_in_full(&segment.name) {
            return 0;
        }
        let held = sizing.held();
        sizing.bytes.saturating_sub((sizing.stat.st_size as u64).max(held).max(segment.reserved))
    }

    fn request(&self, segment: &Segment, sizing: &Sizing<'_>) -> Request {
        Request {
            kind: names::kind(&segment.name),
            origin: segment.origin,
            kept_by_user: self.config.keeps(&segment.name),
            bytes: sizing.bytes,
            held: sizing.held(),
        }
    }

    fn first_sizing(&self, held: &mut Held<'_>, sizing: &Sizing<'_>, guard: &mut Guard) -> Result<(), Errno> {
        let Some(segment) = held.get() else { return Ok(()) };
        let situation = self.situation(guard);
        let request = self.request(segment, sizing);
        let segment_light = is_light(sizing, segment.reserved);
        let mut verdict = policy::judge(&request, &situation);
        self.tell_levels(segment, sizing, &situation, verdict);
        if verdict == (Verdict::Keep { reserve: true }) {
            match self.reserve_in_guard(sizing.fd, request.held, sizing.bytes, &situation) {
                Ok(()) => {
                    segment.reserved = sizing.bytes;
                    self.log_sized(segment, sizing, &situation, "reserve", "", "");
                    return Ok(());
                }
                Err(Shortage::Room) => verdict = does_not_fit(&request, &situation),
                // Not reserved is as without the library.
                Err(Shortage::Unsupported | Shortage::Other(_)) => verdict = Verdict::Keep { reserve: false },
            }
        }
        match verdict {
            Verdict::Keep { .. } => {
                self.log_sized(segment, sizing, &situation, "keep", "", "");
                Ok(())
            }
            Verdict::Refuse(cause) => {
                self.log_sized(segment, sizing, &situation, "refuse", cause.word(), "");
                self.tally.refused.add(1);
                self.tell_refused(segment, sizing, &situation);
                Err(Errno::NOSPC)
            }
            Verdict::Overflow(cause, stay) => {
                self.overflow(segment, sizing, &situation, cause, &Failure::Stays(stay));
                if situation.mode == Mode::Observe {
                    Ok(())
                } else {
                    turned_away(sizing, &situation)
                }
            }
            Verdict::Redirect(cause) => {
                if !segment_light {
                    self.overflow(segment, sizing, &situation, cause, &Failure::Stays(Stay::HasData));
                    return turned_away(sizing, &situation);
                }
                if let Err(failure) = self.redirect(held, sizing, guard, &situation, cause) {
                    if let Some(segment) = held.get() {
                        self.overflow(segment, sizing, &situation, cause, &failure);
                    }
                    return turned_away(sizing, &situation);
                }
                Ok(())
            }
        }
    }

    /// Takes the pages of a segment that stays. Small ones may go into the margin, half of it.
    pub(super) fn reserve_in_guard(
        &self,
        fd: BorrowedFd<'_>,
        held: u64,
        to: u64,
        situation: &Situation,
    ) -> Result<(), Shortage> {
        let margin = if to <= policy::SMALL { situation.margin() / 2 } else { situation.margin() };
        if held == 0 {
            return reserve_in_ram(fd, 0, to, margin);
        }
        // It holds data somewhere: giving back by punching would lose it.
        crate::reserve::reserve_around_data(fd, to, margin)
    }

    pub(super) fn overflow(
        &self,
        segment: &mut Segment,
        sizing: &Sizing<'_>,
        situation: &Situation,
        cause: Cause,
        failure: &Failure,
    ) {
        self.log_sized(segment, sizing, situation, "overflow", cause.word(), failure.word());
        if !std::mem::replace(&mut segment.unsaved, true) {
            self.tally.unsaved.add(1);
        }
        self.tell_overflow(segment, sizing, situation, cause, failure);
    }
}

/// Why a segment that does not fit is not moved.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    /// The segment itself may not be moved.
    Stays(Stay),
    /// No target took it.
    NoTarget,
    /// The guarded directory has no inode left for the link.
    Inodes,
    /// No descriptor was left for the work.
    Descriptors,
}

impl Failure {
    fn word(self) -> &'static str {
        match self {
            Failure::Stays(stay) => stay.words(),
            Failure::NoTarget => "no target has room",
            Failure::Inodes => "no inode left",
            Failure::Descriptors => "no descriptor left",
        }
    }
}

/// Does the file hold at most as much data as is copied? What is only reserved is no data; the kernel tells the two apart
/// (SEEK_DATA passes over pages that were never written).
fn is_light(sizing: &Sizing<'_>, reserved: u64) -> bool {
    if sizing.held() <= MOST_COPIED {
        return true;
    }
    reserved > 0 && crate::data::holds_at_most(sizing.fd, sizing.stat.st_size as u64, MOST_COPIED)
}

/// A reservation that cannot succeed gets the kernel's answer, ENOSPC, without being made: before it fails it takes every
/// free page, and a bystander that touches one meanwhile dies.
pub(super) fn turned_away(sizing: &Sizing<'_>, situation: &Situation) -> Result<(), Errno> {
    if sizing.reserves() && sizing.lacks(situation) {
        Err(Errno::NOSPC)
    } else {
        Ok(())
    }
}

/// The verdict when the pages that seemed to be there were taken by somebody else meanwhile.
fn does_not_fit(request: &Request, situation: &Situation) -> Verdict {
    policy::judge(request, &Situation { free: 0, capacity: situation.capacity.or(Some(u64::MAX)), ..*situation })
}
