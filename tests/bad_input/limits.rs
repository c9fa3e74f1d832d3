//! Limits of the process: descriptors, file sizes.

use std::fs;

use rustix::process::{Resource, Signal};

use crate::harness::{house, MIB, SEGMENT};

#[test]
fn no_descriptor_is_left() {
    house("size=8m", |house| {
        let run = || house.program("nofile").number(SEGMENT).rlimit(Resource::Nofile, 30);
        let expected = run().without_library().output().well();
        let outcome = run().output().well();
        assert_eq!(outcome.stdout, expected.stdout, "{outcome}");
        outcome.said_once(&["for nofile", "no descriptor is left to move it", "SIGBUS"]);
        outcome.said_once(&["another cannot be created", "all of its 30 descriptors"]);
        house.nothing_left();
    });
}

#[test]
fn the_limit_of_file_sizes_is_reached() {
    for action in ["ignore", "default"] {
        house("size=8m", |house| {
            let run = || house.program("fsize").arg(action).number(SEGMENT).rlimit(Resource::Fsize, 4 * MIB);
            let expected = run().without_library().output();
            let outcome = run().output();
            assert_eq!((outcome.code, outcome.signal), (expected.code, expected.signal), "{outcome}");
            assert_eq!(outcome.stdout, expected.stdout, "{outcome}");
            assert_eq!(expected.signal, (action == "default").then_some(Signal::XFSZ.as_raw()), "{expected}");
            house.nothing_left();
        });
    }
}

#[test]
fn the_librarys_own_files_do_not_reach_the_limit_of_file_sizes() {
    // 64 bytes are allowed to the program, and less than any record or log line: no SIGXFSZ may come of those.
    house("size=8m", |house| {
        fs::create_dir(house.path("log")).expect("a directory");
        let run = || house.program("fsize").arg("default").number(64).rlimit(Resource::Fsize, 64);
        let expected = run().without_library().output().well();
        let outcome = run().env("SHMGUARD_LOG", house.path("log")).env("SHMGUARD_HELLO", "1").output().well();
        assert_eq!(outcome.stdout, expected.stdout);
        house.nothing_left();
    });
}
