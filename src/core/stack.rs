//! Stacks of our own. The program's may be as small as 16 KiB (PTHREAD_STACK_MIN), of which a thread's start takes a quarter;
//! a redirect that also writes a log line needs more than the rest. So all that is slow runs on one of these.
//!
//! Unsafe room. Only while signals wait ([`crate::quiet::Undisturbed`]): no handler may run here and jump away.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of one stack; at most 20 KiB are used in a release build. Pages that are never touched cost nothing.
const BYTES: usize = 64 << 10;
/// More threads than this are rarely in slow paths at once; one more uses its own stack.
const STACKS: usize = 16;
/// How many times a thread lets others run while every stack is in use.
const PATIENCE: u32 = 500;

#[repr(align(4096))]
struct Stack {
    memory: UnsafeCell<[u8; BYTES]>,
    taken: AtomicBool,
}

// SAFETY: `taken` hands the memory to one thread at a time.
unsafe impl Sync for Stack {}

static POOL: [Stack; STACKS] =
    [const { Stack { memory: UnsafeCell::new([0; BYTES]), taken: AtomicBool::new(false) } }; STACKS];

struct Job<F, R> {
    work: Option<F>,
    result: Option<std::thread::Result<R>>,
}

/// Runs `work` on a stack of ours; on the caller's where none is free or the caller is on one already. A panic of `work` goes on
/// on the caller's stack.
pub fn on_own_stack<R, F: FnOnce() -> R>(work: F) -> R {
    let Some(stack) = take() else { return work() };
    let mut job = Job { work: Some(work), result: None };
    let top = stack.memory.get().cast::<u8>().wrapping_add(BYTES);
    // SAFETY: the stack is ours until given back below; `run` gets the job that it was instantiated for and never unwinds.
    unsafe { call_on(top, run::<F, R>, (&raw mut job).cast()) };
    stack.taken.store(false, Ordering::Release);
    match job.result {
        Some(Ok(result)) => result,
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("run puts a result there"),
    }
}

extern "C" fn run<F: FnOnce() -> R, R>(job: *mut c_void) {
    // SAFETY: `on_own_stack` passes its live job of this very type.
    let job = unsafe { &mut *job.cast::<Job<F, R>>() };
    job.result = job.work.take().map(|work| catch_unwind(AssertUnwindSafe(work)));
}

fn take() -> Option<&'static Stack> {
    let here = (&raw const POOL).addr();
    let local = 0u8;
    if (here..here + size_of_val(&POOL)).contains(&(&raw const local).addr()) {
        return None;
    }
    for _ in 0..PATIENCE {
        let free =
            |stack: &&Stack| stack.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if let Some(stack) = POOL.iter().find(free) {
            return Some(stack);
        }
        rustix::thread::sched_yield();
    }
    None
}

/// In the child of a fork: the threads that were on these stacks do not exist here. The caller must be on none of them.
pub fn reset_after_fork() {
    for stack in &POOL {
        stack.taken.store(false, Ordering::Relaxed);
    }
}

/// Calls `run(data)` with the stack pointer at `top`, which must be aligned to 16 bytes.
#[cfg(target_arch = "x86_64")]
unsafe fn call_on(top: *mut u8, run: extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: r12 survives the call by the ABI and brings the stack pointer back; everything else that a C function may
    // change is declared. `run` does not unwind. The red zone of the caller lies on the stack that is not touched.
    unsafe {
        core::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {run}",
            "mov rsp, r12",
            top = in(reg) top, run = in(reg) run, in("rdi") data,
            out("r12") _, clobber_abi("C"),
        );
    }
}

/// Calls `run(data)` with the stack pointer at `top`, which must be aligned to 16 bytes.
#[cfg(target_arch = "aarch64")]
unsafe fn call_on(top: *mut u8, run: extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: as on x86-64, with x20.
    unsafe {
        core::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {run}",
            "mov sp, x20",
            top = in(reg) top, run = in(reg) run, in("x0") data,
            out("x20") _, clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth() -> usize {
        let local = 0u8;
        std::hint::black_box(&raw const local).addr()
    }

    #[test]
    fn work_runs_elsewhere_and_its_result_comes_back() {
        let here = depth();
        let (there, nested) = on_own_stack(|| (depth(), on_own_stack(depth)));
        assert!(here.abs_diff(there) > BYTES, "another stack");
        assert!(there.abs_diff(nested) < BYTES, "the same stack");
    }

    #[test]
    fn a_panic_goes_on_at_the_caller() {
        let caught = catch_unwind(|| on_own_stack(|| panic!("inside")));
        assert!(caught.is_err());
        assert_eq!(on_own_stack(|| 7), 7);
    }

    #[test]
    fn many_threads_share_few_stacks() {
        std::thread::scope(|scope| {
            for number in 0..4 * STACKS {
                scope.spawn(move || {
                    for round in 0..100 {
                        let text = on_own_stack(|| format!("{number}-{round}"));
                        assert_eq!(text, format!("{number}-{round}"));
                    }
                });
            }
        });
    }
}
