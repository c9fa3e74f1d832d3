//! `shmguard metrics`: valid OpenMetrics, the right numbers, a file that is replaced in one step. `integration/metrics`
//! reads it with Prometheus's own parsers.

mod harness;

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use harness::{fill_shm, house, House, MIB};
use shmguard_core::guard::Guard;
use shmguard_core::ledger::{Ledger, Process, State};
use shmguard_core::process::Owner;

fn metrics(house: &House, words: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command.arg("metrics").args(words).env_clear().env("PATH", "/usr/bin:/bin");
    command.env("SHMGUARD_REDIRECT", house.target()).env("SHMGUARD_STATE", house.path("state"));
    command.output().expect("the command runs")
}

/// The samples by name and labels.
fn samples(text: &str) -> HashMap<String, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').expect("a value"));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect()
}

fn page(house: &House) -> (String, HashMap<String, u64>) {
    let output = metrics(house, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let samples = samples(&text);
    (text, samples)
}

#[test]
fn the_numbers_are_those_of_the_directory() {
    house("size=64m,nr_inodes=100", |house| {
        fill_shm(std::path::Path::new("/dev/shm/stranger"), 8 * MIB);
        let (text, samples) = page(house);
        let guard = |name: &str| samples[&format!("shmguard_guard_{name}{{guard=\"/dev/shm\"}}")];
        assert_eq!(guard("up"), 1);
        assert_eq!(guard("capacity_bytes"), 64 * MIB);
        assert_eq!(guard("used_bytes"), 8 * MIB);
        assert_eq!(guard("budget_bytes"), 60 * MIB);
        assert_eq!((guard("inodes"), guard("inodes_free")), (100, 98));
        assert!(text.ends_with("# EOF\n"));
        assert!(samples.contains_key("shmguard_segments_created_total{guard=\"/dev/shm\"}"), "{text}");
    });
}

#[test]
fn redirected_segments_are_counted_where_they_are() {
    house("size=16m", |house| {
        let bytes = 24 * MIB;
        let mut holder = house.program("hold").arg("/held").number(bytes).arg("600").number(7).start();
        holder.line("ready");
        let (text, samples) = page(house);
        assert_eq!(samples["shmguard_redirected_bytes{guard=\"/dev/shm\"}"], bytes, "{text}");
        assert_eq!(samples["shmguard_demand_bytes{guard=\"/dev/shm\"}"], bytes, "{text}");
        assert_eq!(samples["shmguard_segments{guard=\"/dev/shm\",place=\"target\"}"], 1);
        let target = format!(
            "shmguard_target_held_bytes{{guard=\"/dev/shm\",target=\"{}\",kind=\"disk\"}}",
            house.target().display()
        );
        assert_eq!(samples[&target], bytes, "{text}");
        drop(holder);
    });
}

#[test]
fn what_the_ledger_remembers_is_summed() {
    house("size=16m", |house| {
        let state = CString::new(house.path("state").as_os_str().as_bytes()).expect("no NUL");
        let guard = Guard::open(c"/dev/shm").expect("the guard");
        let me = Owner::current();
        let ledger = Ledger::open(State::Run(&state), guard.identity, me).expect("a ledger");
        let number =
            |of: &Owner| Process { pid: of.pid as u64, start: of.start, namespace: of.namespace, ..Process::default() };
        let living = Process { created: 5, redirected: 2, demand_peak: 7 * MIB, warnings: 1, ..number(&me) };
        ledger.write(&living, &[]).expect("written");
        let other = Owner { pid: i32::MAX, start: 1, ..me };
        let dead = Process { created: 30, unsaved: 3, demand_peak: 9 * MIB, tmpfs_peak: MIB, ..number(&other) };
        Ledger::at(ledger.path().to_owned(), other).write(&dead, &[]).expect("written");
        let (text, samples) = page(house);
        let value = |name: &str| samples[&format!("shmguard_{name}{{guard=\"/dev/shm\"}}")];
        assert_eq!((value("segments_created_total"), value("segments_redirected_total")), (35, 2), "{text}");
        assert_eq!((value("segments_unsaved_total"), value("warnings_total")), (3, 1));
        assert_eq!((value("demand_peak_bytes"), value("guard_used_peak_bytes")), (9 * MIB, MIB));
    });
}

#[test]
fn every_family_stands_together_with_type_and_help_first() {
    house("size=64m", |house| {
        let (text, _) = page(house);
        let mut seen = Vec::new();
        let mut current = String::new();
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a kind");
                assert!(["gauge", "counter"].contains(&kind), "the older parser knows no {kind}");
                assert!(!seen.contains(&name.to_owned()), "{name} comes twice");
                seen.push(name.to_owned());
                current = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().expect("a name");
                assert_eq!(name, current);
            }
        }
        assert!(seen.len() > 20, "{text}");
    });
}

#[test]
fn a_directory_that_is_not_there_is_down_and_no_failure() {
    house("size=64m", |house| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
        command.arg("metrics").env_clear().env("SHMGUARD_GUARD", "/no/such:/dev/shm");
        command.env("SHMGUARD_STATE", house.path("state"));
        let output = command.output().expect("the command runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success());
        let samples = samples(&text);
        assert_eq!(samples["shmguard_guard_up{guard=\"/no/such\"}"], 0);
        assert_eq!(samples["shmguard_guard_up{guard=\"/dev/shm\"}"], 1);
    });
}

#[test]
fn the_file_is_replaced_in_one_step_and_all_may_read_it() {
    house("size=64m", |house| {
        let directory = house.path("collector");
        fs::create_dir(&directory).expect("mkdir");
        let file = directory.join("shmguard.prom");
        let name = file.to_str().expect("UTF-8");
        fs::write(&file, "old").expect("written");
        let old = fs::File::open(&file).expect("open");
        assert!(metrics(house, &["--output", name]).status.success());
        assert_eq!(old.metadata().expect("status").len(), 3, "the old file was not written to");
        let text = fs::read_to_string(&file).expect("a file");
        assert!(text.ends_with("# EOF\n"));
        assert_eq!(fs::metadata(&file).expect("status").permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 1, "nothing else is left");
        let failed = metrics(house, &["--output", "/no/such/shmguard.prom"]);
        assert_eq!(failed.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&failed.stderr).contains("/no/such"));
    });
}
