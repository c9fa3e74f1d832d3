//! Variables that cannot be read, places of the library's own that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{house, MIB, SEGMENT};
use crate::{fate, written};

#[test]
fn unreadable_variables_cost_one_line_and_the_default_is_used() {
    for (name, value) in [
        ("SHMGUARD_MODE", "loud"),
        ("SHMGUARD_BUDGET", "lots"),
        ("SHMGUARD_BUDGET", "-5m"),
        ("SHMGUARD_BUDGET", "120%"),
        ("SHMGUARD_WARN", "high,90%"),
        ("SHMGUARD_PROGRAMS", "fate*:!java"),
        ("SHMGUARD_KEEP", "a/b"),
        ("SHMGUARD_LOG", "relative/log"),
        ("SHMGUARD_LOG", "/dev/shm/log"),
        ("SHMGUARD_STATE", "relative/state"),
        ("SHMGUARD_STATE", "/dev/shm/state"),
        ("SHMGUARD_GUARD", "relative"),
        ("SHMGUARD_HELLO", "maybe"),
        ("SHMGUARD_QUIET", "maybe"),
        ("SHMGUARD_ADVERTISE", "maybe"),
        ("SHMGUARD_MODUS", "redirect"),
    ] {
        house("size=8m", |house| {
            let outcome = written(fate(house).env(name, value).output());
            let line = outcome.said_once(&[name]);
            let word = value.split([',', ':']).next().expect("a word");
            assert!(line.contains(word) || name == "SHMGUARD_MODUS", "the value is not named: {line}");
            assert!(line.contains("expected") || line.contains("SHMGUARD_MODE"), "what was expected? {line}");
            house.nothing_left();
        });
    }
}

#[test]
fn an_unreadable_target_is_left_out_and_the_others_are_used() {
    for bad in ["relative/dir", "/mnt@lots", "/dev/shm", "/dev/shm/sub"] {
        house("size=8m", |house| {
            let targets = format!("{bad}:{}", house.target().display());
            let outcome = written(fate(house).env("SHMGUARD_REDIRECT", &targets).output());
            outcome.said_once(&["SHMGUARD_REDIRECT", bad]);
            house.nothing_left();
        });
    }
}

#[test]
fn an_unreadable_variable_is_said_once_for_all_processes() {
    house("size=8m", |house| {
        let run = house.program("many").number(4).number(6).number(MIB).env("SHMGUARD_BUDGET", "lots");
        run.output().well().said_once(&["SHMGUARD_BUDGET"]);
    });
}

#[test]
fn a_log_that_cannot_be_written_costs_the_lines_and_not_the_program() {
    house("size=8m", |house| {
        let file = house.path("file");
        fs::write(&file, b"content").expect("a file");
        for log in [file.clone(), file.join("log"), house.mount("tmpfs", "readonly", "ro,size=1m")] {
            let outcome = written(fate(house).env("SHMGUARD_LOG", &log).output());
            outcome.said_once(&["SHMGUARD_LOG", log.to_str().expect("plain")]);
        }
        assert_eq!(fs::read(&file).expect("still there"), b"content");
        house.nothing_left();
    });
}

#[test]
fn without_a_place_for_the_ledger_each_process_accounts_for_itself() {
    house("size=8m", |house| {
        for state in [house.path("nowhere"), house.mount("tmpfs", "readonly", "ro,size=1m")] {
            written(fate(house).env("SHMGUARD_STATE", &state).output());
            house.program("many").number(4).number(6).number(MIB).env("SHMGUARD_STATE", &state).output().well();
        }
        house.nothing_left();
    });
}

#[test]
fn a_ledger_full_of_nonsense_is_no_authority() {
    house("size=8m", |house| {
        let mut first = house.program("hold").arg("/held").number(SEGMENT).arg("600").number(1).arg("unlink").start();
        first.line("ready");
        // Every file of the ledger, its owner's included, is overwritten with noise, then emptied.
        for noise in [vec![0xff; 5000], Vec::new()] {
            for file in files_below(&house.path("state")) {
                fs::write(&file, &noise).expect("a file of the ledger");
            }
            written(fate(house).output());
        }
        first.go_on();
        first.wait().well();
        house.nothing_left();
    });
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("a type") {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}
