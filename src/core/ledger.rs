//! The ledger: who used shared memory, when, and how much at the peak. A memory, never an authority: everything works
//! without it, and whatever is read from it is checked against the kernel.
//!
//! A directory, mode 0700, for each user, kernel boot and guarded directory. In it:
//! - `p-PID.START.NAMESPACE`: one file for each process that touched a segment, written only by its owner by open, pwrite and
//!   close, never mapped (a mapped file faults when anybody truncates it);
//! - `ended.0` … `ended.7`: the sums of processes that are gone, each changed under a flock (the kernel releases it when its
//!   holder dies), so that the directory does not grow with the number of processes;
//!   Who comes or leaves holds a flock on the directory meanwhile (`door.rs`);
//! - `trend`: how full it was over time, for forecasts, changed under a flock;
//! - `once.WHAT`: markers made with O_EXCL: something has been said already;
//! - `once.turn.WHAT`: a link to nowhere, whose text says whose turn it is to do something, or when it is due again.

mod directory;
mod door;
mod earlier;
mod record;
mod trend;
mod turn;

pub use directory::{directory_for, places, Ledger, State};
pub use door::Door;
pub use record::{Process, SegmentRecord, Totals, PROCESS_BYTES, SEGMENTS, SEGMENT_BYTES};
pub use turn::Turn;
