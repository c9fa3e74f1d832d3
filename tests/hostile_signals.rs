//! Signals that arrive inside of hooks, and handlers that use shared memory or jump away.

mod harness;

use harness::{same, MIB, SEGMENT};

#[test]
fn a_handler_may_jump_out_of_a_hook() {
    same(|house| house.program("hostile_longjmp").number(100).number(SEGMENT));
}

#[test]
fn handlers_in_several_threads_may_use_shared_memory_while_those_do() {
    // Six segments of 1 MiB at most at once in 8 MiB: some stay, some move.
    same(|house| house.program("hostile_handlers").number(200).number(MIB));
}
