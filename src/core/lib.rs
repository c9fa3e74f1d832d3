//! Policy and effects of shmguard, shared by the preloaded library and the command.
//!
//! Policy is pure ([`config`], [`names`], [`pattern`], [`policy`], [`size`]); effects are raw system calls through rustix
//! ([`room`], [`reserve`], [`lease`], [`exchange`], [`link`], [`target`], [`garbage`], [`live`], [`ledger`]); [`engine`] leads
//! one hooked call from the one to the other. No hooks and no command line in here. `unsafe` is allowed in `raw`, `stack`,
//! `borrowed` and `unlock` only.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod borrowed;
mod raw;
mod unlock;

pub mod config;
pub mod data;
pub mod descriptor;
pub mod engine;
pub mod event;
pub mod exchange;
pub mod garbage;
pub mod guard;
pub mod lease;
pub mod ledger;
pub mod link;
pub mod live;
pub mod message;
pub mod mounted;
pub mod names;
pub mod pattern;
pub mod policy;
pub mod process;
pub mod quiet;
pub mod reserve;
pub mod room;
pub mod segment;
pub mod size;
pub mod stack;
pub mod target;
pub mod text;
pub mod trend;

pub use borrowed::borrow;
pub use raw::{getpid, gettid, syscall6};
