//! The ledger as its processes see it: living, ended, killed, of another namespace, among noise.

use super::*;

fn ledger() -> (tempfile::TempDir, Ledger) {
    let place = tempfile::tempdir().expect("a directory");
    let state = CString::new(place.path().to_str().expect("utf-8")).expect("no nul");
    let ledger = Ledger::open(State::Run(&state), Identity { dev: 1, ino: 2 }, Owner::current()).expect("a ledger");
    (place, ledger)
}

fn record(of: &Owner) -> Process {
    Process {
        pid: of.pid as u64,
        start: of.start,
        namespace: of.namespace,
        created: 1,
        processes: 1,
        ..Process::default()
    }
}

#[test]
fn a_living_process_is_listed_and_an_ended_one_is_in_the_sum() {
    let (_place, ledger) = ledger();
    let me = record(&ledger.me);
    let segment = SegmentRecord { ino: 5, ..SegmentRecord::default() };
    ledger.write(&me, &[(3, segment.clone())]).expect("written");
    assert_eq!(ledger.sweep(), vec![me.clone()]);
    assert_eq!(ledger.segments(&me), vec![segment]);
    ledger.end(&ledger.directory().expect("it is there"), &me);
    assert!(ledger.sweep().is_empty());
    assert_eq!(ledger.ended().created, 1);
    ledger.clear();
    assert!(ledger.directory().is_err(), "the directory has gone");
}

#[test]
fn a_killed_process_is_swept() {
    let (_place, ledger) = ledger();
    let dead = Ledger { path: ledger.path.clone(), me: Owner { pid: i32::MAX, start: 1, ..ledger.me } };
    dead.write(&record(&dead.me), &[]).expect("written");
    assert_eq!(ledger.processes().len(), 1);
    assert!(ledger.sweep().is_empty());
    assert_eq!(ledger.ended().processes, 1);
}

#[test]
fn a_process_of_another_pid_namespace_is_not_swept() {
    let (_place, ledger) = ledger();
    let other = Ledger { path: ledger.path.clone(), me: Owner { pid: i32::MAX, namespace: 1, ..ledger.me } };
    other.write(&record(&other.me), &[]).expect("written");
    assert_eq!(ledger.sweep().len(), 1);
}

#[test]
fn a_thing_is_said_once_until_it_is_forgotten() {
    let (_place, ledger) = ledger();
    assert!(ledger.once("level.75"));
    assert!(!ledger.once("level.75"));
    ledger.forget("level.75");
    assert!(ledger.once("level.75"));
    // The second time within ten minutes it has not.
    ledger.forget("level.75");
    assert!(!ledger.once("level.75"));
}

#[test]
fn noise_in_the_directory_is_passed_over() {
    let (_place, ledger) = ledger();
    let directory = std::path::PathBuf::from(ledger.path.to_str().expect("utf-8"));
    for name in ["p-", "p-1", "p-1.2.3.4", "p-x.y.z", "other"] {
        std::fs::write(directory.join(name), "noise").expect("write");
    }
    std::fs::write(directory.join("p-1.2.3"), "short").expect("write");
    std::os::unix::fs::symlink("/etc/passwd", directory.join("p-5.5.5")).expect("link");
    assert!(ledger.sweep().is_empty());
}

#[test]
fn the_empty_file_of_a_killed_process_goes() {
    let (_place, ledger) = ledger();
    let dead = Owner { pid: i32::MAX, start: 1, ..ledger.me };
    let directory = std::path::PathBuf::from(ledger.path.to_str().expect("utf-8"));
    std::fs::write(directory.join(file_name(&dead).as_str()), "").expect("write");
    std::fs::write(directory.join(file_name(&ledger.me).as_str()), "").expect("write");
    assert!(ledger.sweep().is_empty());
    assert!(!directory.join(file_name(&dead).as_str()).exists());
    assert!(directory.join(file_name(&ledger.me).as_str()).exists(), "a living process is about to write it");
}

#[test]
fn ledgers_of_dead_lives_go_when_a_new_one_is_made() {
    let (place, ledger) = ledger();
    let dead = Owner { pid: i32::MAX, start: 1, ..ledger.me };
    Ledger { path: ledger.path.clone(), me: dead }.write(&record(&dead), &[]).expect("written");
    let state = CString::new(place.path().to_str().expect("utf-8")).expect("no nul");
    let second = Ledger::open(State::Run(&state), Identity { dev: 1, ino: 3 }, ledger.me).expect("a ledger");
    assert!(ledger.directory().is_err(), "the dead one has gone");
    second.write(&record(&second.me), &[]).expect("written");
    Ledger::open(State::Run(&state), Identity { dev: 1, ino: 4 }, ledger.me).expect("a ledger");
    assert!(second.directory().is_ok(), "the living one stays");
}

#[test]
fn a_directory_that_others_can_enter_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().expect("a directory");
    let state = CString::new(place.path().to_str().expect("utf-8")).expect("no nul");
    let top = places(State::Run(&state), rustix::process::geteuid().as_raw()).remove(0);
    let top = std::path::PathBuf::from(top.to_str().expect("utf-8"));
    std::fs::create_dir(&top).expect("mkdir");
    std::fs::set_permissions(&top, std::fs::Permissions::from_mode(0o777)).expect("chmod");
    assert!(Ledger::open(State::Run(&state), Identity { dev: 1, ino: 2 }, Owner::current()).is_none());
}
