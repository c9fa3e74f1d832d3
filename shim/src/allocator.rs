//! The library's own memory: no Rust code in here, ours or a crate's, enters the program's malloc.
//!
//! Hooks run under allocators' locks, in signal handlers and in forked children, so this one has no lock: blocks of four fixed
//! sizes from static memory, taken and given back by compare-and-swap of a bit, and fresh mappings for what is larger or when
//! all blocks are in use. Pages that are never used cost nothing.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};

/// The allocator.
pub struct Blocks;

const PAGE: usize = 4096;

#[repr(align(4096))]
struct Memory<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: the memory is handed out block by block, each to one owner at a time, by the atomic bits of its `Class`.
unsafe impl<const BYTES: usize> Sync for Memory<BYTES> {}

/// Blocks of one size: `WORDS` times 64 of them.
struct Class<const SIZE: usize, const WORDS: usize, const BYTES: usize> {
    memory: Memory<BYTES>,
    used: [AtomicU64; WORDS],
}

impl<const SIZE: usize, const WORDS: usize, const BYTES: usize> Class<SIZE, WORDS, BYTES> {
    const fn new() -> Self {
        assert!(BYTES == SIZE * WORDS * 64);
        Class { memory: Memory(UnsafeCell::new([0; BYTES])), used: [const { AtomicU64::new(0) }; WORDS] }
    }

    fn take(&self) -> Option<*mut u8> {
        for (index, word) in self.used.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let bit = (!bits).trailing_zeros();
                match word.compare_exchange_weak(bits, bits | 1 << bit, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => {
                        let offset = (index * 64 + bit as usize) * SIZE;
                        return Some(self.memory.0.get().cast::<u8>().wrapping_add(offset));
                    }
                    Err(now) => bits = now,
                }
            }
        }
        None
    }

    /// Gives a block back; false if it is not one of these.
    fn give(&self, block: *mut u8) -> bool {
        let offset = (block as usize).wrapping_sub(self.memory.0.get() as usize);
        if offset >= BYTES {
            return false;
        }
        let index = offset / SIZE;
        if let Some(word) = self.used.get(index / 64) {
            word.fetch_and(!(1 << (index % 64)), Ordering::Release);
        }
        true
    }
}

static TINY: Class<64, 4, 16384> = Class::new();
static SMALL: Class<512, 1, 32768> = Class::new();
static MIDDLE: Class<4096, 1, 262144> = Class::new();

// SAFETY: blocks are disjoint, aligned to their size, and stay the caller's until given back; a mapping likewise.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size().max(layout.align());
        let block = match size {
            0..=64 => TINY.take().or_else(|| SMALL.take()),
            65..=512 => SMALL.take().or_else(|| MIDDLE.take()),
            513..=4096 => MIDDLE.take(),
            _ => None,
        };
        match block {
            Some(block) => block,
            None if layout.align() > PAGE => null_mut(),
            None => map(layout.size()),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !TINY.give(block) && !SMALL.give(block) && !MIDDLE.give(block) {
            // SAFETY: what is not a block was mapped by `alloc` with this size, and its owner gives it up.
            let _ = unsafe { munmap(block.cast(), layout.size()) };
        }
    }
}

fn map(bytes: usize) -> *mut u8 {
    // SAFETY: a fresh private mapping at an address that the kernel chooses.
    match unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) } {
        Ok(memory) => memory.cast(),
        Err(_) => null_mut(),
    }
}
