//! `shmguard clean`: lists what dead runs left, removes it when asked, and touches nothing that somebody needs.

mod harness;

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use harness::{house, left_in, House, MIB};
use serde_json::Value;
use shmguard_core::ledger::{Ledger, Process};
use shmguard_core::process::Owner;
use shmguard_core::segment::Identity;

fn clean(house: &House, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command.arg("clean").args(words).env_clear();
    command.env("SHMGUARD_REDIRECT", house.target()).env("SHMGUARD_STATE", house.path("state"));
    let output = command.output().expect("the command runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
}

fn leftovers(house: &House) -> Vec<Value> {
    let (code, text) = clean(house, &["--json", "--young", "0"]);
    assert_eq!(code, Some(0), "{text}");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    value["leftovers"].as_array().expect("a list").clone()
}

/// A holder of a redirected segment, killed with the name in place; the name is then removed by somebody without the library.
fn orphan(house: &House) {
    let mut holder = house.program("hold").arg("/held").number(24 * MIB).arg("600").number(7).start();
    holder.line("ready");
    drop(holder);
    fs::remove_file("/dev/shm/held").expect("the link");
}

#[test]
fn where_nothing_is_left_it_says_so() {
    house("size=16m", |house| {
        assert_eq!(clean(house, &[]), (Some(0), "nothing is left over\n".to_owned()));
        assert_eq!(clean(house, &["--yes"]), (Some(0), "nothing is left over\n".to_owned()));
    });
}

#[test]
fn an_orphan_is_listed_and_removed_when_asked() {
    house("size=16m", |house| {
        orphan(house);
        let found = leftovers(house);
        let file = found.iter().find(|leftover| leftover["bytes"] == 24 * MIB).expect("the segment's file");
        assert!(file["path"].as_str().is_some_and(|path| path.starts_with(house.target().to_str().expect("UTF-8"))));
        assert_eq!(left_in(&house.target()).len(), 1, "listing removes nothing");
        let (code, text) = clean(house, &["--yes", "--young", "0"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("removed: ") && text.contains("24.0 MiB"), "{text}");
        assert_eq!(left_in(&house.target()).len(), 0);
        assert_eq!(leftovers(house).len(), 0);
    });
}

#[test]
fn a_segment_that_has_its_name_stays() {
    house("size=16m", |house| {
        let mut holder = house.program("hold").arg("/held").number(24 * MIB).arg("600").number(7).start();
        holder.line("ready");
        clean(house, &["--yes", "--young", "0"]);
        assert_eq!(left_in(&house.target()).len(), 1);
        holder.go_on();
        holder.wait().well();
        // It may be attached again by its name, whoever made it.
        clean(house, &["--yes", "--young", "0"]);
        assert_eq!(left_in(&house.target()).len(), 1);
        assert!(fs::metadata("/dev/shm/held").is_ok());
    });
}

#[test]
fn files_of_others_and_other_files_stay() {
    house("size=16m", |house| {
        orphan(house);
        let name = &left_in(&house.target())[0];
        std::os::unix::fs::chown(house.target().join(name), Some(4711), Some(4711)).expect("chown");
        fs::write(house.target().join("shmguard-notes"), "mine").expect("written");
        fs::write("/dev/shm/data", "mine").expect("written");
        clean(house, &["--yes", "--young", "0"]);
        assert_eq!(left_in(&house.target()).len(), 2);
        assert!(fs::metadata("/dev/shm/data").is_ok());
    });
}

/// Puts a ledger there that the library would have swept away when it made the next one.
fn ledger(house: &House, guard: Identity, of: Owner) -> Ledger {
    let name = format!("state/shmguard-ledger-0/{:08x}-{:x}.{:x}", of.boot, guard.dev, guard.ino);
    let path = house.path(&name);
    fs::create_dir_all(&path).expect("mkdir");
    Ledger::at(CString::new(path.as_os_str().as_bytes()).expect("no NUL"), of)
}

fn record(of: &Owner) -> Process {
    let numbers = Process { pid: of.pid as u64, start: of.start, namespace: of.namespace, ..Process::default() };
    Process { processes: 1, ..numbers }
}

#[test]
fn ledgers_of_the_dead_and_of_earlier_boots_go() {
    house("size=16m", |house| {
        let me = Owner::current();
        let dead = Owner { pid: i32::MAX, start: 1, ..me };
        let guard = Identity { dev: 77, ino: 1 };
        ledger(house, guard, dead).write(&record(&dead), &[]).expect("written");
        let boot = Owner { boot: me.boot.wrapping_add(1), ..me };
        ledger(house, guard, boot).write(&record(&boot), &[]).expect("written");
        let living = Identity { dev: 78, ino: 1 };
        ledger(house, living, me).write(&record(&me), &[]).expect("written");

        let words: Vec<String> = leftovers(house).iter().map(|found| found["what"].to_string()).collect();
        assert!(words.iter().any(|what| what.contains("earlier boot")), "{words:?}");
        assert!(words.iter().any(|what| what.contains("dead process")), "{words:?}");
        let (code, text) = clean(house, &["--yes", "--young", "0"]);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(leftovers(house).len(), 0);
        assert_eq!(ledger(house, living, me).processes().len(), 1, "a living process keeps its entry");
    });
}

#[test]
fn what_is_young_is_left_alone() {
    house("size=16m", |house| {
        let me = Owner::current();
        let boot = Owner { boot: me.boot.wrapping_add(1), ..me };
        ledger(house, Identity { dev: 77, ino: 1 }, boot).write(&record(&boot), &[]).expect("written");
        assert_eq!(clean(house, &["--yes"]), (Some(0), "nothing is left over\n".to_owned()));
        assert_eq!(leftovers(house).len(), 1);
    });
}

#[test]
fn directories_of_killed_runs_go_and_those_of_living_ones_stay() {
    house("size=16m", |house| {
        let me = Owner::current();
        let plant = |run: u32, of: Owner| {
            let uid = rustix::process::geteuid().as_raw();
            let name = format!("state/shmguard-run-{uid}-{run}-abcdef/shmguard-ledger-{uid}/{:08x}-1.2", me.boot);
            let path = house.path(&name);
            fs::create_dir_all(&path).expect("mkdir");
            let ledger = Ledger::at(CString::new(path.as_os_str().as_bytes()).expect("no NUL"), of);
            ledger.write(&record(&of), &[]).expect("written");
            house.path(name.split("/shmguard-ledger").next().expect("the run"))
        };
        let gone = i32::MAX as u32;
        let dead = Owner { pid: i32::MAX, start: 1, ..me };
        let killed = plant(gone - 1, dead);
        let running = plant(std::process::id(), dead);
        let its_program_lives = plant(gone - 2, me);
        let elsewhere = plant(gone - 3, Owner { namespace: 1, ..dead });
        let (code, text) = clean(house, &["--yes", "--young", "0"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(!killed.exists() && text.contains("a run that was killed"), "{text}");
        assert!(running.exists() && its_program_lives.exists() && elsewhere.exists(), "{text}");
    });
}
