//! Threads that are cancelled inside of a hook, end while others work, or have the smallest stacks there are.

mod harness;

use harness::{baseline, debug_library, in_small, library, House, Run, SEGMENT, SMALL};

/// The program says the same without the library and with both builds of it: a debug build has other landing pads, larger
/// stack frames and checks that a release build has not.
#[track_caller]
fn same_in_both_builds(describe: impl Fn(&House) -> Run + Sync) {
    let expected = baseline(&describe);
    for build in [library(), debug_library()] {
        for small in SMALL {
            let outcome = in_small(small, |house| describe(house).with_library(build));
            assert_eq!(outcome.stdout, expected.stdout, "{small:?}, {}: {outcome}", build.display());
        }
    }
}

#[test]
fn a_thread_cancelled_inside_a_hooked_call_ends_as_it_would_have() {
    same_in_both_builds(|house| house.program("hostile_cancel").number(SEGMENT).arg(house.path("")));
}
