//! The numbers of summary and report against what is known by construction.

use std::fs;
use std::io::BufRead;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{self, house, MIB};
use crate::{path, report, run, start_with, stderr, wait_until};

#[test]
fn the_report_has_the_numbers_known_by_construction() {
    house("size=32m", |house| {
        // 12 segments of 6 MiB at once, in 3 processes: 72 MiB, of which at most 30 fit below the budget.
        let (log, file) = (house.path("log"), house.path("report.json"));
        let [log_text, file_text] = [&log, &file].map(|path| path.to_str().expect("a plain path").to_owned());
        let many = [path("many"), "3".to_owned(), "4".to_owned(), (6 * MIB).to_string(), "wait".to_owned()];
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let words = [&["--log", &log_text, "--report", &file_text, "--"], many.as_slice()].concat();
        let (mut child, _lines, line) = start_with(house, &words);
        assert_eq!(line, "all there\n");
        // Its own line in the log tells that it has looked.
        let own = |event: &Value| event["ev"] == "sample" && event["redirected"].as_u64() >= Some(42 * MIB);
        wait_until("a look is in the log", || harness::read_log(&log).iter().any(own));
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"go\n").expect("it listens");
        assert_eq!(child.wait().expect("an end").code(), Some(0));
        let report: Value = serde_json::from_str(&fs::read_to_string(&file).expect("a report")).expect("JSON");
        let number = |pointer: &str| {
            report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {report}"))
        };
        let demand = 72 * MIB;
        let close = |value: u64| value.abs_diff(demand) * 20 <= demand;
        assert!(close(number("/peak/demand_bytes")), "{report}");
        assert!(number("/peak/tmpfs_bytes") <= 32 * MIB && number("/peak/tmpfs_bytes") >= 24 * MIB, "{report}");
        assert!(number("/peak/redirected_bytes") >= demand - 32 * MIB, "{report}");
        assert_eq!((number("/guard/capacity_bytes"), number("/guard/budget_bytes")), (32 * MIB, 30 * MIB));
        assert_eq!((number("/segments/created"), number("/segments/refused"), number("/segments/leaked")), (12, 0, 0));
        assert!(number("/segments/redirected") >= 7, "{report}");
        assert_eq!(report["guard"]["path"], "/dev/shm");
        assert_eq!((report["exit"].as_i64(), report["signal"].as_i64()), (Some(0), None));
        assert_eq!(number("/processes"), 3);
        assert_eq!(report["command"][1], "3");
        assert_eq!(report["targets"][0]["path"], house.target().to_str().expect("plain"));
        assert_eq!(report["targets"][0]["kind"], "disk");
        assert_eq!(report["targets"][0]["peak_bytes"], report["peak"]["redirected_bytes"]);
        assert!(number("/suggested_shm_size") >= demand && number("/suggested_shm_size") <= demand + 64 * MIB);
        assert!(!report["warnings"].as_array().expect("a list").is_empty());
        assert!(report["duration_s"].as_f64().expect("a number") > 0.0);
        let programs = report["programs"].as_array().expect("a list");
        assert!(programs[0]["command"].as_str().is_some_and(|command| command.starts_with("many")), "{report}");
        assert_eq!(
            (programs[0]["segments"].as_u64(), programs[0]["processes"].as_u64()),
            (Some(12), Some(3)),
            "{report}"
        );
        house.nothing_left();
        // The log alone tells the same afterwards.
        let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
        let output = command.args(["report", &log_text, "--json"]).output().expect("the command runs");
        let later: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        for name in ["command", "exit", "signal", "guard", "processes", "suggested_shm_size", "warnings", "programs"] {
            assert_eq!(later[name], report[name], "{name}");
        }
        for name in ["created", "redirected", "refused", "leaked"] {
            assert_eq!(later["segments"][name], report["segments"][name], "{name}");
        }
    });
}

#[test]
fn the_summary_is_short_and_can_be_pasted() {
    house("size=32m", |house| {
        let output = run(house, &["--quiet", "--", &path("many"), "3", "4", &(6 * MIB).to_string()]);
        assert_eq!(stderr(&output), "");
        let output = run(house, &["--warn", "none", "--", &path("many"), "3", "4", &(6 * MIB).to_string()]);
        let text = stderr(&output);
        let end = text.find(" ended with status 0").unwrap_or_else(|| panic!("{text}"));
        let summary =
            text.get(text.get(..end).expect("a boundary").rfind('\n').map_or(0, |at| at + 1)..).expect("a boundary");
        assert!(summary.lines().count() <= 10, "{summary}");
        assert!(summary.lines().all(|line| line.starts_with("shmguard: ")), "{summary}");
        for word in ["peak demand", "in /dev/shm (32.0 MiB large", "redirected to", "12 segments", "many-", "1 warning"]
        {
            assert!(summary.contains(word), "{word}: {summary}");
        }
        for word in ["--shm-size=", "m (docker)", "m (compose)", "Mi (Kubernetes", "memory limit"] {
            assert!(summary.contains(word), "{word}: {summary}");
        }
    });
}

#[test]
fn what_others_have_there_is_not_its_own() {
    house("size=32m", |house| {
        harness::fill_shm(Path::new("/dev/shm/of-somebody-else"), 4 * MIB);
        let output = run(house, &["--", "sleep", "0.5"]);
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains("/dev/shm was not used"), "{}", stderr(&output));
        let (_, report) = report(house, &["--", "sleep", "0.5"]);
        assert_eq!((report["processes"].as_u64(), report["programs"].as_array().map(Vec::len)), (Some(0), Some(0)));
        // It is there, and takes room, all the same.
        assert_eq!(report["peak"]["tmpfs_bytes"].as_u64(), Some(4 * MIB), "{report}");
    });
}

#[test]
fn what_is_left_behind_is_counted() {
    house("size=32m", |house| {
        fs::write("/dev/shm/of-somebody-else", "x").expect("written");
        let hold = path("hold");
        let script = format!("echo | {hold} /left {} 600 1; echo | {hold} /removed {} 600 1 unlink", 20 * MIB, MIB);
        let (output, report) = report(house, &["--", "sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(report["segments"]["leaked"], 1, "{report}");
        assert_eq!(report["segments"]["created"], 2, "{report}");
        assert!(Path::new("/dev/shm/left").exists());
        // Redirected ones as well, and without a report.
        let script = format!("echo | {hold} /moved {} 600 1", 40 * MIB);
        let text = stderr(&run(house, &["--", "sh", "-c", &script]));
        assert!(text.contains("1 left behind"), "{text}");
    });
}

#[test]
fn memory_shared_by_other_means_is_counted() {
    house("size=64m", |house| {
        let bytes = 8 * MIB;
        let (log, file) = (house.path("log"), house.path("r.json"));
        let [log_text, file_text] = [&log, &file].map(|path| path.to_str().expect("a plain path").to_owned());
        let program = path("shared_kinds");
        let words = ["--log", &log_text, "--report", &file_text, "--", &program, &bytes.to_string()];
        let (mut child, mut lines, line) = start_with(house, &words);
        assert!(line.starts_with("pids "), "{line}");
        let mut ready = String::new();
        lines.read_line(&mut ready).expect("a line");
        assert_eq!(ready, "ready\n");
        // All of it was there before it said so: the first look that sees the System V segment sees everything.
        let own = |event: &Value| event["ev"] == "sample" && event["sysv"].as_u64() >= Some(bytes);
        wait_until("a look is in the log", || harness::read_log(&log).iter().any(own));
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"go\n").expect("it listens");
        assert_eq!(child.wait().expect("an end").code(), Some(0));
        let report: Value = serde_json::from_str(&fs::read_to_string(&file).expect("a report")).expect("JSON");
        for (name, least) in [("memfd_bytes", bytes), ("anonymous_bytes", bytes), ("sysv_bytes", bytes)] {
            let value = report["peak"][name].as_u64().expect("a number");
            assert!(value >= least && value <= least + MIB, "{name}: {report}");
        }
        assert_eq!(report["peak"]["demand_bytes"], 2 * bytes, "{report}");
    });
}

#[test]
fn a_program_too_short_for_a_look_has_its_numbers_all_the_same() {
    house("size=64m", |house| {
        // Five times: whether a look comes at some moment of it is a matter of chance.
        for _ in 0..5 {
            let text = stderr(&run(house, &["--", &path("fate"), "ftruncate", &(30 * MIB).to_string()]));
            for word in [
                "1 segment, 0 redirected; largest: fate 30.0 MiB of fate",
                "by program: fate",
                "peak demand 30.0 MiB: 30.0",
            ] {
                assert!(text.contains(word), "{word}: {text}");
            }
            let programs = text.lines().find(|line| line.contains("by program: ")).expect("a line");
            assert!(programs.ends_with(" 30.0 MiB") && !text.contains(" 0 B of "), "{text}");
        }
    });
}

#[test]
fn parts_that_had_their_peaks_at_different_moments_are_not_told_as_a_sum() {
    house("size=64m", |house| {
        let hold = path("hold");
        let script =
            format!("echo | {hold} /first {} 600 1 unlink; echo | {hold} /second {} 600 1 unlink", 100 * MIB, 30 * MIB);
        let text = stderr(&run(house, &["--", "sh", "-c", &script]));
        assert!(text.contains("peak demand 100.0 MiB: at most 30.0 MiB in /dev/shm"), "{text}");
        assert!(text.contains("at most 100.0 MiB redirected to"), "{text}");
        assert!(text.contains("2 segments, 1 redirected; largest: first 100.0 MiB of hold"), "{text}");
    });
}
