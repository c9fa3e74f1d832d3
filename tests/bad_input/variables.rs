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
        // Values that can be read but not be meant.
        ("SHMGUARD_BUDGET", "0"),
        ("SHMGUARD_WARN", "0"),
        ("SHMGUARD_KEEP", "["),
        ("SHMGUARD_GUARD", "/nonexist"),
        ("SHMGUARD_GUARD", "/proc"),
        ("SHMGUARD_STATE", "/nonexist/x"),
        ("SHMGUARD_STATE", "/proc"),
        ("SHMGUARD_LOG", "/nonexist/x/log"),
        ("SHMGUARD_ADVERTISE", "2"),
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

/// Whatever is wrong with variables and what they name.
const ODD: [(&str, &str); 6] = [
    ("SHMGUARD_BUDGET", "lots"),
    ("SHMGUARD_KEEP", "["),
    ("SHMGUARD_GUARD", "/nonexist"),
    ("SHMGUARD_STATE", "/nonexist/state"),
    ("SHMGUARD_LOG", "/nonexist/x/log"),
    ("SHMGUARD_REDIRECT", "/nonexist/target:/var/tmp"),
];

#[test]
fn an_odd_variable_is_said_once_for_all_processes() {
    for (name, value) in ODD {
        house("size=8m", |house| {
            let run = house.program("many").number(4).number(6).number(MIB).env(name, value);
            let outcome = run.output().well();
            let line = outcome.said_once(&[name]);
            let word = value.split(':').next().expect("a word");
            assert!(line.contains(word) && line.to_lowercase().contains("expected"), "{line}");
        });
    }
}

#[test]
fn a_process_without_shared_memory_says_nothing_about_odd_variables() {
    house("size=8m", |house| {
        let mut run = house.program("self");
        for (name, value) in ODD {
            run = run.env(name, value);
        }
        let outcome = run.output().well();
        assert_eq!(outcome.stderr, "", "{outcome}");
    });
}

#[test]
fn a_target_that_does_not_exist_is_told_before_it_is_needed() {
    house("size=8m", |house| {
        let targets = format!("/nonexist/target:{}", house.target().display());
        let run = || house.program("fate").arg("ftruncate").number(MIB).env("SHMGUARD_REDIRECT", &targets);
        written(run().output()).said_once(&["/nonexist/target", "SHMGUARD_REDIRECT", "does not exist"]);
        // Where nothing is redirected, none is missed.
        let outcome = written(run().env("SHMGUARD_MODE", "observe").output());
        assert_eq!(outcome.said(), Vec::<&str>::new(), "{outcome}");
    });
}

#[test]
fn a_guard_that_cannot_be_guarded_leaves_dev_shm_guarded() {
    house("size=8m", |house| {
        let outcome = written(fate(house).env("SHMGUARD_GUARD", "/nonexist:/proc").output());
        outcome.said_once(&["/nonexist", "does not exist", "this entry is left out"]);
        outcome.said_once(&["/proc", "not on a tmpfs", "the default is used: /dev/shm"]);
        outcome.said_once(&["goes to"]);
        house.nothing_left();
    });
}

#[test]
fn a_kept_name_with_a_bad_pattern_is_not_kept() {
    house("size=8m", |house| {
        written(fate(house).env("SHMGUARD_KEEP", "[:a[b").output()).said_once(&["goes to"]);
        house.nothing_left();
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
        // Of this user alone: plain files stand where its ledger would be.
        const USER: u32 = 61_234;
        let taken = ["/var/tmp", "/tmp"].map(|place| Path::new(place).join(format!("shmguard-ledger-{USER}")));
        taken.iter().for_each(|file| fs::write(file, b"").expect("a file"));
        for state in [house.path("nowhere"), house.mount("tmpfs", "readonly", "ro,size=1m")] {
            let outcome = written(fate(house).env("SHMGUARD_STATE", &state).uid(USER).output());
            outcome.said_once(&["SHMGUARD_STATE", "no other place"]);
            let run = house.program("many").number(4).number(6).number(MIB).env("SHMGUARD_STATE", &state);
            run.uid(USER).output().well();
        }
        taken.iter().for_each(|file| fs::remove_file(file).expect("the file"));
        house.nothing_left();
    });
}

#[test]
fn a_state_that_cannot_be_used_leaves_the_usual_place() {
    house("size=8m", |house| {
        for state in [house.path("nowhere"), house.mount("tmpfs", "readonly", "ro,size=1m")] {
            let outcome = written(fate(house).env("SHMGUARD_STATE", &state).output());
            outcome.said_once(&["SHMGUARD_STATE", state.to_str().expect("plain"), "the default is used: /"]);
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
