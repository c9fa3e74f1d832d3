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
    same(|house| house.program("hostile_forks").number(3).number(500).number(SEGMENT));
}

#[test]
fn another_program_goes_on_with_the_segments_that_it_inherits() {
    same(|house| house.program("hostile_inherit").number(SEGMENT));
}

#[test]
fn children_by_every_call_that_makes_one_use_shared_memory() {
    same(|house| house.program("hostile_spawn").number(SEGMENT));
}
