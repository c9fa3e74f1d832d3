//! libshmguard.so: the hooks that LD_PRELOAD puts in front of libc.
//!
//! Three layers: the hooks here (C types, a few instructions: does this call concern us at all?), policy and effects in
//! `shmguard-core`. Exported are the hooks and nothing else; the table of contents is [`hooks`].
#![warn(missing_docs)]

mod allocator;
mod errno;
mod hooks;
mod life;
mod log;
mod next;
mod outlet;

#[global_allocator]
static ALLOCATOR: allocator::Blocks = allocator::Blocks;
