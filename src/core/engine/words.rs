//! Words for what the engine knows: modes, targets with what they have left, where bytes went.

use std::fmt::{self, Display};

use rustix::io::Errno;

use super::Engine;
use crate::config::Source;
use crate::guard::Guard;
use crate::ledger::Totals;
use crate::message;
use crate::names::Kind;
use crate::size::Human;
use crate::target::{Directory, Medium, Unusable};

/// More room than any machine has: ramfs, /proc.
const MOST_SHOWN: u64 = 1 << 57;

/// Why a target cannot be used.
pub(super) struct UnusableWords(pub(super) Unusable);

impl Display for UnusableWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unusable::Cannot(Errno::NOENT) => f.write_str("it does not exist"),
            Unusable::Cannot(Errno::NOTDIR) => f.write_str("it is not a directory"),
            Unusable::Cannot(Errno::ACCESS) => f.write_str("it cannot be entered by this user"),
            Unusable::Cannot(Errno::NAMETOOLONG) => {
                write!(f, "its path is longer than {} bytes", crate::link::LONGEST_DIRECTORY)
            }
            Unusable::Cannot(error) => write!(f, "it cannot be opened (errno {})", error.raw_os_error()),
            Unusable::ReadOnly => f.write_str("it is mounted read-only"),
            Unusable::NotWritable => f.write_str("this user may not write there"),
            Unusable::IsGuard => f.write_str("it lies on the guarded tmpfs itself"),
        }
    }
}

/// The targets with what each has left, or what is wrong with it.
pub(super) struct Targets<'a> {
    pub(super) engine: &'a Engine,
    pub(super) guard: &'a Guard,
    pub(super) need: Option<(u64, Kind)>,
}

impl Display for Targets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.engine.config.targets.is_empty() {
            return f.write_str("none");
        }
        let (mut writable, mut closed) = (false, false);
        for (index, spec) in self.engine.config.targets.iter().enumerate().take(4) {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{} ", message::path(&spec.path))?;
            match Directory::open(&spec.path, self.guard.identity) {
                Ok(directory) => {
                    writable = true;
                    let over = self.need.is_some_and(|(need, _)| self.engine.over_cap(index, need));
                    let unpinnable =
                        self.need.is_some_and(|(_, kind)| kind == Kind::Pinned) && directory.medium != Medium::Ram;
                    match (spec.cap, over) {
                        (Some(cap), true) => write!(f, "is at its cap of {}", Human(cap))?,
                        _ if unpinnable => f.write_str("is a disk, which cannot be pinned for a device")?,
                        _ if directory.space.noexec && !self.guard.space.noexec => {
                            f.write_str("is mounted noexec and the guarded directory is not (mount -o remount,exec)")?;
                        }
                        _ if directory.room() > MOST_SHOWN => {
                            write!(f, "({}, no limit told)", directory.medium.noun())?
                        }
                        _ => write!(f, "({}, {} left)", directory.medium.noun(), Human(directory.room()))?,
                    }
                }
                Err(unusable) => {
                    closed |= matches!(unusable, Unusable::ReadOnly | Unusable::NotWritable);
                    let words = UnusableWords(unusable);
                    write!(f, "({words})")?;
                }
            }
        }
        // A container without a writable place, not a list that the user has spelt wrongly.
        if self.need.is_some() && !writable && closed && self.engine.config.targets_from == Source::Default {
            f.write_str("; nothing is writable here")?;
        }
        Ok(())
    }
}

/// Where redirected bytes went, for the farewell.
pub(super) struct Went<'a> {
    pub(super) engine: &'a Engine,
    pub(super) sum: &'a Totals,
}

impl Display for Went<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut any = false;
        for ((spec, peak), index) in self.engine.config.targets.iter().zip(self.sum.target_peaks).zip(0u32..) {
            if peak > 0 {
                let kind = if self.sum.ram_targets & (1 << index) != 0 { "memory" } else { "disk" };
                write!(f, "{}{} ({kind})", if any { ", " } else { "" }, message::path(&spec.path))?;
                any = true;
            }
        }
        if any {
            Ok(())
        } else {
            f.write_str("nowhere")
        }
    }
}
