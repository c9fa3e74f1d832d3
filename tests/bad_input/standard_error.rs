//! Standard error closed, its number used again, full, or without a reader.

use std::fs;

use crate::harness::{house, SEGMENT};
use crate::{fate, written};

#[test]
fn standard_error_is_closed_and_its_number_used_again() {
    house("size=8m", |house| {
        for closed_before in [false, true] {
            let data = house.path(&format!("data-{closed_before}"));
            let mut run = house.program("reused_stderr").arg(&data).number(SEGMENT).env("SHMGUARD_HELLO", "1");
            if closed_before {
                run = run.arg("closed").under(&["sh", "-c", "exec 2>&-; exec \"$@\"", "sh"]);
            }
            let outcome = run.output().well();
            assert_eq!(outcome.stdout, "11 bytes\n", "{outcome}");
            assert_eq!(fs::read_to_string(&data).expect("the data file"), "first\nlast\n");
        }
        house.nothing_left();
    });
}

#[test]
fn standard_error_is_a_full_pipe() {
    house("size=8m", |house| {
        let outcome = house.program("pipe_stderr").arg("full").number(SEGMENT).output().well();
        assert_eq!(outcome.stdout, "SIGPIPE pending: 0, blocked: 0\n", "{outcome}");
        house.nothing_left();
    });
}

#[test]
fn standard_error_is_a_pipe_without_a_reader() {
    house("size=8m", |house| {
        let outcome = house.program("pipe_stderr").arg("gone").number(SEGMENT).output().well();
        assert_eq!(outcome.stdout, "SIGPIPE pending: 0, blocked: 0\n", "{outcome}");
        house.nothing_left();
    });
}

#[test]
fn standard_error_is_a_full_device() {
    house("size=8m", |house| {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        written(fate(house).stderr(full).output());
        house.nothing_left();
    });
}
