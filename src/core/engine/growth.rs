//! A segment that has been sized grows or shrinks: it stays where it is, its new pages are reserved where it is.

use std::os::fd::RawFd;

use rustix::fs;
use rustix::io::Errno;

use super::size::{turned_away, Failure, Sizing};
use super::Engine;
use crate::config::Mode;
use crate::exchange::Stay;
use crate::guard::Guard;
use crate::names;
use crate::policy;
use crate::quiet::Undisturbed;
use crate::segment::{Identity, Place, Segment};
use crate::target::Directory;
use crate::text::Text;

impl Engine {
    /// After a write to `fd`, for a process in which no mmap reaches us: a file that became larger than what it holds (lseek
    /// and write) is sized now.
    pub fn written(&self, fd: RawFd) {
        let Some(fd) = crate::borrow(fd) else { return };
        let Ok(stat) = fs::fstat(fd) else { return };
        let identity = Identity::of(&stat);
        let bytes = stat.st_size as u64;
        if bytes <= (stat.st_blocks as u64).saturating_mul(512) || !self.table.may_hold(identity) {
            return;
        }
        let _undisturbed = Undisturbed::new();
        let Some(mut held) = self.table.find(identity) else { return };
        if held.get().is_some_and(|segment| segment.promised == 0 && !segment.mapped) {
            // Mode `refuse` has nothing to refuse: the write is done.
            let _ = self.size_held(held, Sizing { fd, own_descriptor: true, stat, bytes, call: "write" });
        }
    }

    pub(super) fn grow(&self, segment: &mut Segment, sizing: &Sizing<'_>, guard: &mut Guard) -> Result<(), Errno> {
        if sizing.bytes <= segment.promised {
            segment.reserved = segment.reserved.min(sizing.bytes);
            return Ok(());
        }
        match segment.place {
            Place::Guard => self.grow_in_guard(segment, sizing, guard),
            Place::Target(index) => {
                self.grow_in_target(segment, sizing, guard, index);
                Ok(())
            }
        }
    }

    fn grow_in_guard(&self, segment: &mut Segment, sizing: &Sizing<'_>, guard: &Guard) -> Result<(), Errno> {
        if segment.identity.dev != guard.identity.dev {
            return Ok(());
        }
        let situation = self.situation(guard);
        let kind = names::kind(&segment.name);
        let need = sizing.bytes - segment.promised;
        if let Err(cause) = situation.fits(kind, need) {
            if situation.mode == Mode::Refuse {
                self.tally.refused.add(1);
                self.tell_refused(segment, sizing, &situation);
                return Err(Errno::NOSPC);
            }
            self.overflow(segment, sizing, &situation, cause, &Failure::Stays(Stay::HasData));
            return if situation.mode == Mode::Observe { Ok(()) } else { turned_away(sizing, &situation) };
        }
        let may_reserve =
            kind.may_be_reserved() && !self.config.keeps(&segment.name) && self.config.mode != Mode::Observe;
        let whole = segment.reserved >= segment.promised;
        let little = need <= policy::LARGEST_RESERVED && situation.memory.is_none_or(|left| need <= left / 8);
        if may_reserve && whole && little {
            let margin = if need <= policy::SMALL { situation.margin() / 2 } else { situation.margin() };
            if crate::reserve::reserve_in_ram(sizing.fd, segment.promised, sizing.bytes, margin).is_ok() {
                segment.reserved = sizing.bytes;
            }
        }
        self.log_sized(segment, sizing, &situation, "grow", "", "");
        Ok(())
    }

    fn grow_in_target(&self, segment: &mut Segment, sizing: &Sizing<'_>, guard: &Guard, index: u8) {
        // Disk file systems use inode numbers again at once: only the file's own name in /proc proves that this is ours.
        if !is_named(sizing, &segment.target_name) {
            return;
        }
        let situation = self.situation(guard);
        let Some(spec) = self.config.targets.get(index as usize) else { return };
        let need = sizing.bytes - segment.promised;
        let reserved = Directory::open(&spec.path, guard.identity).is_ok_and(|directory| {
            directory.room() >= need
                && !self.over_cap(index as usize, need)
                && directory.reserve(sizing.fd, segment.promised, sizing.bytes).is_ok()
        });
        if reserved {
            segment.reserved = sizing.bytes;
            self.added_to_target(index as usize, need);
            self.log_sized(segment, sizing, &situation, "grow", "", "");
        } else {
            self.overflow(segment, sizing, &situation, policy::Cause::Room, &Failure::NoTarget);
        }
    }
}

fn is_named(sizing: &Sizing<'_>, name: &[u8]) -> bool {
    use std::os::fd::AsRawFd;
    let mut path = Text::<40>::new();
    path.add(format_args!("/proc/self/fd/{}", sizing.fd.as_raw_fd()));
    let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 512];
    match fs::readlinkat_raw(fs::CWD, path.bytes(), &mut buffer) {
        Ok((text, _)) => {
            let text: &[u8] = text;
            let text = text.strip_suffix(b" (deleted)").unwrap_or(text);
            !name.is_empty() && text.rsplit(|byte| *byte == b'/').next() == Some(name)
        }
        Err(_) => false,
    }
}
