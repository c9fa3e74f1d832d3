//! Policy and effects of shmguard, shared by the preloaded library and the command.
#![warn(missing_docs)]

pub mod config;
pub mod names;
pub mod pattern;
pub mod room;
pub mod size;
