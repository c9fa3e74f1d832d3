//! When will it be full? A leak is announced before anything fails or is redirected, once, whichever process sees it; healthy
//! work is not. The minute that the promise speaks of is run through in the tests of `src/core/trend.rs`; here the same at
//! about three times the pace.

mod harness;

use harness::{house, read_log, Event, House, Outcome};
use serde_json::Value;

const KIB: u64 = 1024;

/// 80 segments of 480 KiB, one each quarter of a second: 30 MiB, the budget of 32, are reached after 16 s.
fn leak(house: &House, how: &str, mode: &str) -> (Outcome, Vec<Event>) {
    let log = house.path("log");
    let run = house.program("leak").number(80).number(480 * KIB).number(250).arg(how);
    let run = run.env("SHMGUARD_LOG", &log).env("SHMGUARD_MODE", mode);
    let outcome = run.env("SHMGUARD_WARN", "none").output();
    let mut events = read_log(&log);
    events.sort_by(|a, b| a["t"].as_f64().unwrap_or(0.0).total_cmp(&b["t"].as_f64().unwrap_or(0.0)));
    (outcome, events)
}

/// Where the first event is that `which` finds.
#[track_caller]
fn first(events: &[Event], what: &str, which: impl Fn(&Event) -> bool) -> usize {
    events.iter().position(which).unwrap_or_else(|| panic!("no {what} in {events:#?}"))
}

fn is_forecast(event: &Event) -> bool {
    event["ev"] == "warn" && event["what"] == "forecast"
}

#[track_caller]
fn seconds(event: &Event) -> f64 {
    event["t"].as_f64().expect("a time")
}

/// The number in front of `word`.
#[track_caller]
fn number_before(line: &str, word: &str) -> f64 {
    let before = line.split(word).next().filter(|before| before.len() < line.len());
    let before = before.unwrap_or_else(|| panic!("no {word:?} in {line}"));
    before.split_whitespace().last().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// The library announces it once, and before the first redirect.
fn announced(how: &str) {
    house("size=32m", |house| {
        let (outcome, events) = leak(house, how, "redirect");
        let outcome = outcome.well();
        let line = outcome.said_once(&["will be full in"]);
        let target = house.target();
        for word in ["/dev/shm", "of 32.0 MiB", "leak", target.to_str().expect("plain"), "shmguard status"] {
            assert!(line.contains(word), "{word} is missing: {line}");
        }
        assert!(number_before(line, " s if it goes on") > 0.0, "{line}");
        let announced = first(&events, "forecast", is_forecast);
        assert_eq!(events.iter().filter(|event| is_forecast(event)).count(), 1, "{events:#?}");
        let redirected = first(&events, "redirect", |event| event["ev"] == "size" && event["decision"] == "redirect");
        assert!(announced < redirected, "{events:#?}");
        assert!(seconds(&events[announced]) < seconds(&events[redirected]), "{events:#?}");
    });
}

#[test]
fn a_leak_of_one_process_is_announced_before_the_first_redirect() {
    announced("alone");
}

#[test]
fn a_leak_of_many_processes_that_end_is_announced_before_the_first_redirect() {
    announced("children");
}

#[test]
fn where_nothing_is_redirected_it_says_what_will_happen_then() {
    house("size=32m", |house| {
        let (outcome, events) = leak(house, "alone", "refuse");
        let line = outcome.said_once(&["will be full in"]);
        assert!(line.contains("refused with ENOSPC"), "{line}");
        let announced = first(&events, "forecast", is_forecast);
        let refused = first(&events, "refusal", |event| event["ev"] == "size" && event["decision"] == "refuse");
        assert!(announced < refused, "{events:#?}");
    });
}

#[test]
fn batches_that_come_and_go_are_no_leak() {
    house("size=32m", |house| {
        let log = house.path("log");
        let run = house.program("batches").number(14).number(1024 * KIB).number(100).number(12);
        let outcome = run.env("SHMGUARD_LOG", &log).env("SHMGUARD_WARN", "none").output().well();
        assert_eq!(outcome.said(), Vec::<&str>::new());
        let sized = |event: &Value| event["ev"] == "size";
        assert_eq!(read_log(&log).iter().filter(|event| sized(event)).count(), 14 * 12);
    });
}

#[test]
fn run_announces_what_the_library_does_not_see() {
    house("size=32m", |house| {
        // Written by a shell's redirection: no sizing, no mapping.
        let script = "i=0; while [ $i -lt 60 ]; do head -c 524288 /dev/zero > /dev/shm/w$i; i=$((i+1)); sleep 0.25; done; rm /dev/shm/w*";
        let report = house.path("report.json");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_shmguard"))
            .args(["run", "--redirect", "none", "--report", report.to_str().expect("plain"), "--", "sh", "-c", script])
            .env("SHMGUARD_LIB", harness::library())
            .env("SHMGUARD_STATE", house.path("state"))
            .output()
            .expect("the command runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = text.lines().filter(|line| line.starts_with("shmguard: /dev/shm will be full in "));
        assert_eq!(lines.count(), 1, "{text}");
        let report: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
        let warned = report["warnings"].as_array().expect("a list").iter().any(|warning| warning["what"] == "forecast");
        assert!(warned, "{report}");
    });
}
