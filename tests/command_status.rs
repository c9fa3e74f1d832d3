//! `shmguard status`: every live segment with creator and holders, the bytes known by construction, and use that no segment
//! explains.

mod harness;

use std::process::Command;

use harness::{fill_shm, house, House, MIB};
use serde_json::Value;

fn status(house: &House, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command.arg("status").args(words).env_clear().env("PATH", "/usr/bin:/bin");
    command.env("SHMGUARD_REDIRECT", house.target()).env("SHMGUARD_STATE", house.path("state"));
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn object(house: &House) -> Value {
    serde_json::from_str(&status(house, &["--json"])).expect("JSON")
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

/// The segments of `place` whose promised size is `bytes`.
fn segments<'v>(value: &'v Value, place: &str, bytes: u64) -> Vec<&'v Value> {
    let all = value["segments"].as_array().expect("a list");
    all.iter().filter(|one| one["where"] == place && one["promised_bytes"] == bytes).collect()
}

#[test]
fn every_way_of_sharing_is_found_with_its_holders() {
    house("size=64m", |house| {
        // No round number: nothing else on the machine has this size.
        let bytes = 8 * MIB + 5 * 4096;
        let mut running = house.program("shared_kinds").number(bytes).start();
        let pids = running.line("pids ");
        let pids: Vec<i64> = pids.split(' ').skip(1).map(|pid| pid.parse().expect("a number")).collect();
        running.line("ready");
        let now = object(house);
        assert_eq!(number(&now, "/guard/used_bytes"), 2 * bytes, "{now}");
        assert_eq!(number(&now, "/totals/demand_bytes"), 2 * bytes, "{now}");
        assert_eq!((number(&now, "/totals/strangers_bytes"), number(&now, "/totals/promised_bytes")), (0, 0), "{now}");

        let guard = segments(&now, "guard", bytes);
        assert_eq!(guard.len(), 2, "{now}");
        let named = guard.iter().find(|one| one["named"] == true).expect("the one with a name");
        assert_eq!((named["name"].as_str(), number(named, "/held_bytes")), (Some("named"), bytes));
        assert_eq!(
            (number(named, "/holders/0/pid") as i64, number(named, "/holders/0/mappings")),
            (pids[0], 1),
            "{named}"
        );
        let nameless = guard.iter().find(|one| one["named"] == false).expect("the one without");
        assert_eq!(
            (nameless["name"].as_str(), number(nameless, "/held_bytes")),
            (Some("nameless"), bytes),
            "{nameless}"
        );
        let holder = &nameless["holders"][0];
        assert_eq!((holder["pid"].as_i64(), holder["descriptors"].as_u64()), (Some(pids[1]), Some(1)), "{nameless}");
        assert_eq!(holder["mappings"], 0, "mapped nowhere: {nameless}");
        for one in &guard {
            assert_eq!(one["creator"]["pid"].as_i64(), Some(pids[0]), "{one}");
            assert!(one["creator"]["command"].as_str().is_some_and(|name| name.starts_with("shared_kinds")), "{one}");
            assert!(one["age_s"].as_u64().is_some_and(|age| age < 3600), "{one}");
        }
        for place in ["memfd", "anonymous", "sysv"] {
            let found = segments(&now, place, bytes);
            assert_eq!(found.len(), 1, "{place}: {now}");
            assert_eq!(number(found[0], "/held_bytes"), bytes, "{place}");
            assert!(number(&now, &format!("/totals/{place}_bytes")) >= bytes, "{place}");
        }
        running.go_on();
        running.wait().well();
        let after = object(house);
        assert_eq!((number(&after, "/totals/demand_bytes"), segments(&after, "guard", bytes).len()), (0, 0));
    });
}

#[test]
fn a_redirected_segment_is_shown_where_it_is() {
    house("size=16m", |house| {
        let bytes = 24 * MIB;
        let mut running = house.program("hold").arg("/held").number(bytes).arg("600").number(7).arg("unlink").start();
        running.line("ready");
        let now = object(house);
        let found = segments(&now, "target", bytes);
        assert_eq!(found.len(), 1, "{now}");
        assert_eq!((found[0]["name"].as_str(), found[0]["named"].as_bool()), (Some("held"), Some(true)));
        assert_eq!(found[0]["target"], house.target().to_str().expect("plain"));
        assert_eq!((number(found[0], "/held_bytes"), number(&now, "/totals/redirected_bytes")), (bytes, bytes));
        assert_eq!(found[0]["creator"]["pid"].as_u64(), Some(u64::from(running.pid())));
        assert_eq!(number(&now, "/totals/strangers_bytes"), 0, "{now}");
        let text = status(house, &[]);
        for word in ["held", "24.0 MiB", "redirected", "hold-"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        running.go_on();
        running.wait().well();
    });
}

#[test]
fn demand_is_exact_at_a_barrier() {
    house("size=32m", |house| {
        // 24 segments of 3 MiB in 4 processes, half of them without a name: 72 MiB.
        let mut running = house.program("many").number(4).number(6).number(3 * MIB).arg("wait").start();
        running.line("all there");
        let now = object(house);
        assert_eq!(number(&now, "/totals/demand_bytes"), 72 * MIB, "{now}");
        assert_eq!(segments(&now, "guard", 3 * MIB).len() + segments(&now, "target", 3 * MIB).len(), 24, "{now}");
        let all = now["segments"].as_array().expect("a list");
        let ours = all.iter().filter(|one| one["promised_bytes"] == 3 * MIB);
        assert!(ours
            .clone()
            .all(|one| one["creator"]["command"].as_str().is_some_and(|name| name.starts_with("many"))));
        assert!(ours.clone().all(|one| one["holders"].as_array().is_some_and(|holders| !holders.is_empty())));
        let peak = number(&now, "/peak/demand_bytes");
        assert_eq!(peak, 72 * MIB, "{now}");
        running.go_on();
        running.wait().well();
    });
}

#[test]
fn what_no_segment_explains_is_shown_as_such() {
    house("size=16m", |house| {
        fill_shm(std::path::Path::new("/dev/shm/plain-file"), 2 * MIB);
        // A file below a mount point: used, and not to be found by anybody who lists the directory.
        std::fs::create_dir("/dev/shm/hidden").expect("a directory");
        fill_shm(std::path::Path::new("/dev/shm/hidden/file"), 5 * MIB);
        harness::tool("mount", &["-t", "tmpfs", "tmpfs", "/dev/shm/hidden"], "apt-get install mount");
        let now = object(house);
        harness::tool("umount", &["/dev/shm/hidden"], "apt-get install mount");
        assert_eq!(number(&now, "/guard/used_bytes"), 7 * MIB, "{now}");
        assert_eq!(number(&now, "/totals/strangers_bytes"), 5 * MIB, "{now}");
        assert_eq!(segments(&now, "guard", 2 * MIB).len(), 1, "{now}");
        assert!(object(house)["totals"]["strangers_bytes"] == 0, "found again without the mount");
    });
}

#[test]
fn a_missing_directory_is_an_error_not_a_panic() {
    house("", |house| {
        house.own_dev();
        let output = Command::new(env!("CARGO_BIN_EXE_shmguard")).arg("status").output().expect("the command runs");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "shmguard status: /dev/shm is not a directory here\n");
    });
}
