//! Processes that are born and die in every way there is while the library is at work.

mod harness;

use harness::{same, SEGMENT};

#[test]
fn shared_memory_may_be_used_before_every_constructor_and_after_every_destructor() {
    same(|house| house.program("hostile_birth"));
}

#[test]
fn a_child_forked_while_other_threads_are_inside_of_hooks_does_not_hang() {
    // 4 runs: thousands of forks.
    same(|house| house.program("hostile_forks").number(3).number(700).number(SEGMENT));
}
