//! Threads that are cancelled inside of a hook, end while others work, or have the smallest stacks there are.

mod harness;

use harness::{
    baseline, debug_library, house, in_small, left_in, library, read_log, same, House, Run, Small, MIB, SEGMENT, SMALL,
};

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

#[test]
fn every_slow_path_fits_a_stack_of_16_kib() {
    same(|house| house.program("hostile_stacks").number(SEGMENT));
}

#[test]
fn every_slow_path_fits_a_stack_of_16_kib_with_all_that_can_be_said() {
    for small in SMALL {
        let outcome = in_small(small, |house| {
            let log = house.path("log");
            house.program("hostile_stacks").number(SEGMENT).env("SHMGUARD_HELLO", "1").env("SHMGUARD_LOG", log)
        });
        assert!(outcome.stdout.ends_with("kept: done\n"), "{small:?}: {outcome}");
        outcome.said_once(&["version", "mode redirect"]);
    }
    // The first target is full and the second one knows no fallocate: the way to the third is longer.
    house("size=8m", |house| {
        let full = house.tmpfs("full", "size=4m");
        let without_fallocate = house.mount("ramfs", "ramfs", "mode=1777");
        let targets = [full, without_fallocate, house.target()].map(|path| path.display().to_string()).join(":");
        let run = house.program("hostile_stacks").number(SEGMENT).env("SHMGUARD_REDIRECT", targets);
        run.env("SHMGUARD_LOG", house.path("log")).output().well();
        let events = read_log(&house.path("log"));
        let redirected = events.iter().filter(|event| event["ev"] == "size" && event["decision"] == "redirect").count();
        assert!(redirected >= 8, "{redirected} of: {events:#?}");
        house.nothing_left();
    });
}

#[test]
fn threads_may_use_shared_memory_while_they_end() {
    same(|house| house.program("hostile_ends").number(3 * MIB).number(0));
}

#[test]
fn a_process_may_end_while_its_threads_are_inside_of_hooks() {
    let describe = |house: &House| house.program("hostile_ends").number(3 * MIB).number(30);
    let expected = baseline(describe);
    for small in SMALL {
        // A thread that stops in the middle leaves what a killed process would: no check of what is left in the target.
        house("size=8m", |house| {
            if matches!(small, Small::Full) {
                harness::fill_shm("/dev/shm/ballast".as_ref(), 7 * MIB + MIB * 3 / 4);
            }
            let outcome = describe(house).output().well();
            assert_eq!(outcome.stdout, expected.stdout, "{small:?}: {outcome}");
            let left = left_in("/dev/shm".as_ref());
            assert!(left.iter().all(|name| name == "ballast" || name.starts_with(".shmguard-")), "{left:?}");
        });
    }
}
