//! What the hooked calls answer at the edges: errno, descriptors, executable and locked memory.

mod harness;

use harness::{same, SEGMENT};

#[test]
fn errno_is_what_it_would_have_been_after_every_call() {
    same(|house| house.program("hostile_errno").number(SEGMENT).arg(house.path("")));
}
