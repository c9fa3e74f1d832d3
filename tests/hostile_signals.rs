//! Signals that arrive inside of hooks, and handlers that use shared memory or jump away.

mod harness;

use harness::{same, SEGMENT};

#[test]
fn a_handler_may_jump_out_of_a_hook() {
    same(|house| house.program("hostile_longjmp").number(100).number(SEGMENT));
}
