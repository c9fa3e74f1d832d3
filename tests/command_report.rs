//! `shmguard report` from a log that the library wrote, and the page with the chart.

mod harness;

use std::process::{Command, Output};

use harness::{house, House, MIB};
use serde_json::Value;

/// Runs `many` under the library with a log, in the small /dev/shm of the house.
fn log_of_many(house: &House) -> String {
    let log = house.path("log");
    let mut running = house
        .program("many")
        .number(3)
        .number(4)
        .number(6 * MIB)
        .arg("wait")
        .env("SHMGUARD_LOG", log.to_str().expect("plain"))
        .start();
    running.line("all there");
    running.go_on();
    running.wait().well();
    log.to_str().expect("plain").to_owned()
}

fn report(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shmguard")).arg("report").args(words).output().expect("the command runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn a_log_is_enough() {
    house("size=32m", |house| {
        let log = log_of_many(house);
        let value: Value = serde_json::from_str(&text(&report(&[&log, "--json"]))).expect("JSON");
        let number = |pointer: &str| {
            value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {value}"))
        };
        // 12 segments of 6 MiB were alive at once.
        let demand = number("/peak/demand_bytes");
        assert!(demand.abs_diff(72 * MIB) * 20 <= 72 * MIB, "{demand}: {value}");
        assert_eq!(
            (number("/segments/created"), number("/segments/leaked"), number("/processes")),
            (12, 0, 3),
            "{value}"
        );
        assert_eq!((number("/guard/capacity_bytes"), number("/guard/budget_bytes")), (32 * MIB, 30 * MIB));
        assert!(number("/segments/redirected") >= 7);
        assert_eq!(number("/programs/0/bytes"), 72 * MIB);
        assert_eq!((number("/programs/0/processes"), number("/programs/0/segments")), (3, 12));
        assert_eq!(value["largest"].as_array().map(Vec::len), Some(10));
        assert!(value["exit"].is_null() && value["signal"].is_null(), "a log without a run does not tell");
        let timeline = value["timeline"].as_array().expect("a list");
        assert!(timeline.len() >= 12, "{value}");
        for point in timeline {
            let sum = |name: &str| point[name].as_u64().expect("a number");
            let all = sum("tmpfs_bytes") + sum("promised_bytes") + sum("redirected_bytes");
            let programs: u64 = point["programs"].as_object().expect("a map").values().filter_map(Value::as_u64).sum();
            assert!(programs <= all + 12, "the parts are not more than the whole: {point}");
        }
        let page = text(&report(&[&log]));
        for word in ["peak demand", "DEMAND OVER TIME", "PROGRAM", "LARGEST SEGMENTS", "WARNINGS", "--shm-size="] {
            assert!(page.contains(word), "{word}: {page}");
        }
    });
}

#[test]
fn the_page_is_self_contained_and_has_everything_marked() {
    house("size=32m", |house| {
        let log = log_of_many(house);
        let file = house.path("out.html");
        assert_eq!(text(&report(&[&log, "--html", file.to_str().expect("plain")])), "");
        let page = std::fs::read_to_string(&file).expect("a page");
        for fetch in ["http:", "https:", "<script", "<link", "<img", "url(", "@import", "src="] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(fetch), "{fetch}");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
        // The area of the program, the line between here and there, size, budget, and a mark for each warning.
        for class in ["f0", "s26", "s23", "s24", "s25"] {
            assert!(page.contains(&format!("class=\"{class}\"")), "{class}");
        }
        let value: Value = serde_json::from_str(&text(&report(&[&log, "--json"]))).expect("JSON");
        let warnings = value["warnings"].as_array().expect("a list").len();
        assert!(warnings > 0);
        let marks = page.matches("<polygon").filter(|_| true).count();
        assert!(marks > warnings, "{marks} polygons: an area and {warnings} marks");
        assert!(page.contains("Largest segments") && page.contains("many-0-0"));
    });
}

#[test]
fn wrong_input_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("plain");
    let empty = report(&[path]);
    assert_eq!(empty.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&empty.stderr).contains("no log here"));
    assert_eq!(report(&["/no/such/directory"]).status.code(), Some(1));
    assert_eq!(report(&[]).status.code(), Some(2));
    // A line that was cut off by a kill or a full disk costs that line.
    std::fs::write(
        directory.path().join("shmguard-1-1.jsonl"),
        "{\"t\":1,\"ev\":\"start\",\"pid\":1}\n{\"t\":2,\"ev\":\"si",
    )
    .expect("written");
    let cut = report(&[path, "--json"]);
    assert!(cut.status.success());
    assert!(String::from_utf8_lossy(&cut.stderr).contains("1 lines in 1 files are no events"), "{cut:?}");
}
