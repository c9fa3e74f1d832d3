//! /dev/shm is writable by everybody. Whatever a neighbour plants there, in a target directory, in the place of the ledger or
//! among the logs: nothing is opened, changed or removed that the caller could not have named without the library.
//!
//! Every test runs twice: with the kernel's protections of sticky directories as distributions set them, and without any.
//! docs/security.md has the threats; each names its test here.

mod harness;
mod neighbours {
    mod own_files;
    pub mod planted;
    pub mod setting;
}

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::{Path, PathBuf};

use harness::{left_in, open_to_all, read_log, House, Run, MIB};
use neighbours::planted::{label, MATRIX};
use neighbours::setting::{under_each_setting, Setting};

/// The neighbour who plants things.
const NEIGHBOUR: u32 = 2001;
/// The caller, under the library.
const CALLER: u32 = 2002;
/// A third user, whose files are nobody's business.
const THIRD: u32 = 2003;

fn own(path: &Path, uid: u32, mode: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if !path.is_symlink() {
        open_to_all(path, mode);
    }
}

fn write_own(path: &Path, content: &str, uid: u32, mode: u32) {
    fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    own(path, uid, mode);
}

fn link_own(text: &Path, at: &Path, uid: u32) {
    symlink(text, at).unwrap_or_else(|error| panic!("{}: {error}", at.display()));
    own(at, uid, 0);
}

fn hex(name: &[u8]) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A program of the caller's that makes one redirected segment, attaches to it and removes it.
fn named(house: &House, wait: &str, name: &[u8]) -> Run {
    house.program("neighbour_named").number(12 * MIB).arg(wait).arg(hex(name))
}

/// A program that holds a redirected segment under `name` until it is told to go on.
fn hold(house: &House, name: &str, mode: &str, uid: u32) -> Run {
    house.program("hold").arg(name).number(12 * MIB).arg(mode).arg("7").uid(uid)
}

#[test]
fn whatever_is_planted_under_a_name_opens_changes_and_removes_nothing_more() {
    under_each_setting("size=8m", |house, setting| {
        for planted in MATRIX {
            for caller in [CALLER, 0] {
                let mut outcomes = Vec::new();
                for run in [None, Some(""), Some("1k")] {
                    planted.plant(house, run.is_some());
                    let program = house.program("neighbour_try").arg("planted").uid(caller);
                    let outcome = match run {
                        None => program.without_library().output().well(),
                        Some(budget) => {
                            program.env("SHMGUARD_BUDGET", budget).env("SHMGUARD_QUIET", "1").output().well()
                        }
                    };
                    outcomes.push((outcome.stdout, planted.bystanders(house)));
                    planted.remove(house);
                }
                let (expected, files) = &outcomes[0];
                for (said, after) in &outcomes[1..] {
                    assert!(
                        planted.comparable(said, setting) == planted.comparable(expected, setting),
                        "{} by {caller} under {setting:?}: another outcome with the library:\n{said}without:\n{expected}",
                        planted.what
                    );
                    assert_eq!(after, files, "{} by {caller} under {setting:?}: another's file", planted.what);
                }
            }
        }
    });
}

#[test]
fn sizing_by_path_opens_nothing_that_waits_there() {
    under_each_setting("size=8m", |house, _| {
        let expected = house.program("neighbour_fifo").without_library().output().well();
        let outcome = house.program("neighbour_fifo").output().well();
        assert_eq!(outcome.stdout, expected.stdout);
        house.nothing_left();
    });
}

#[test]
fn links_and_targets_swapped_between_check_and_use_are_never_followed_astray() {
    under_each_setting("size=8m", |house, _| {
        let secret = house.path("secret");
        // Everybody may write it, so that fs.protected_hardlinks lets the neighbour give it a second name.
        write_own(&secret, "the caller's secret", CALLER, 0o666);
        let mut neighbour = house
            .program("neighbour_swap")
            .arg("link")
            .arg("raced")
            .arg(house.target())
            .arg(label(NEIGHBOUR, 1))
            .arg(&secret)
            .uid(NEIGHBOUR)
            .without_library()
            .start();
        neighbour.line("begun");
        for caller in [CALLER, 0] {
            let run = house.program("neighbour_victim").arg("open").arg("/raced").number(NEIGHBOUR.into()).uid(caller);
            run.output().well();
        }
        neighbour.wait().well();
        assert_eq!(fs::read_to_string(&secret).expect("the secret"), "the caller's secret");
        house.nothing_left();
    });
}

#[test]
fn in_a_neighbours_target_directory_segments_are_lost_at_worst() {
    under_each_setting("size=8m", |house, setting| {
        let target = house.path("his");
        fs::create_dir(&target).expect("a directory");
        own(&target, NEIGHBOUR, 0o777);
        let secret = house.path("secret");
        write_own(&secret, "the caller's secret", CALLER, 0o666);
        let mut neighbour = house
            .program("neighbour_swap")
            .arg("target")
            .arg(&target)
            .number(CALLER.into())
            .arg(&secret)
            .uid(NEIGHBOUR)
            .without_library()
            .start();
        neighbour.line("begun");
        let run = house.program("neighbour_victim").arg("create").number(3000).number(12 * MIB).uid(CALLER);
        run.env("SHMGUARD_REDIRECT", &target).env("SHMGUARD_QUIET", "1").output().well();
        let outcome = neighbour.wait().well();
        assert!(!outcome.stdout.contains("replaced 0\n"), "{setting:?}: the neighbour came too late: {outcome}");
        assert_eq!(fs::read_to_string(&secret).expect("the secret"), "the caller's secret");
        assert_eq!(left_in(Path::new("/dev/shm")), Vec::<String>::new());
    });
}

#[test]
fn a_target_directory_closed_to_the_caller_is_passed_over_and_named() {
    under_each_setting("size=8m", |house, _| {
        let closed = house.path("closed");
        fs::create_dir(&closed).expect("a directory");
        own(&closed, NEIGHBOUR, 0o755);
        let both = format!("{}:{}", closed.display(), house.target().display());
        let run = named(house, "go", b"x").uid(CALLER).env("SHMGUARD_REDIRECT", both);
        let outcome = run.output().well();
        outcome.said_once(&[closed.to_str().expect("plain"), "this user may not write there"]);
        house.nothing_left();
        assert_eq!(left_in(&closed), Vec::<String>::new());
    });
}

#[test]
fn root_attaches_to_a_users_segment_and_removes_it_with_its_target() {
    under_each_setting("size=8m", |house, _| {
        let mut user = hold(house, "/users", "600", CALLER).start();
        user.line("ready");
        assert!(Path::new("/dev/shm/users").is_symlink());
        let outcome = house.program("neighbour_try").arg("users").output().well();
        let opens = |way: &str, by: &str| {
            let line = format!("{way}: opens a file of {CALLER} of {by} bytes");
            assert!(outcome.stdout.contains(&line), "no {line:?}: {outcome}");
        };
        opens("shm_open", &(12 * MIB).to_string());
        opens("open", &(12 * MIB).to_string());
        assert!(outcome.stdout.contains("shm_unlink: done\n"), "{outcome}");
        // The target went with the name; so did what the user holds not: root has truncated it, as it may.
        house.nothing_left();
        drop(user);
        // Neither ledger holds anything of the other's.
        let state = house.path("state");
        for (name, uid) in [("shmguard-ledger-0", 0), (&*format!("shmguard-ledger-{CALLER}"), CALLER)] {
            let meta = fs::metadata(state.join(name)).expect("a ledger");
            assert_eq!((meta.uid(), meta.mode() & 0o777), (uid, 0o700), "{name}");
        }
    });
}

#[test]
fn another_users_segment_is_as_closed_in_a_target_as_it_was_in_dev_shm() {
    under_each_setting("size=8m", |house, setting| {
        for (mode, may_read, may_write) in [("600", false, false), ("644", true, false), ("666", true, true)] {
            let mut user = hold(house, "/users", mode, NEIGHBOUR).arg("unlink").start();
            user.line("ready");
            let target = fs::read_link("/dev/shm/users").expect("it was redirected");
            let by_path = |right: &str| {
                let test = house.program("shell").arg("test").arg(right).arg(&target);
                test.uid(CALLER).without_library().output().code == Some(0)
            };
            // The file itself, by whoever learns its path.
            assert_eq!(by_path("-r"), may_read, "mode {mode}");
            assert_eq!(by_path("-w"), may_write, "mode {mode}");
            // By name: as a regular file of that mode, without O_CREAT (which fs.protected_regular may forbid).
            let outcome = house.program("neighbour_try").arg("users").uid(CALLER).output().well();
            let opened = |way: &str| outcome.stdout.contains(&format!("{way}: opens a file of {NEIGHBOUR}"));
            assert_eq!(opened("shm_open read"), may_read, "{outcome}");
            assert_eq!(opened("shm_open"), may_write, "{outcome}");
            assert_eq!(opened("shm_open create"), may_write && *setting == Setting::Open, "{outcome}");
            assert!(outcome.stdout.contains("\nshm_unlink: E"), "another's name: {outcome}");
            // Without the library the kernel decides about the link, by fs.protected_symlinks.
            let outcome = house.program("neighbour_try").arg("users").uid(CALLER).without_library().output().well();
            let follows = outcome.stdout.contains(&format!("\nopen read: opens a file of {NEIGHBOUR}"));
            assert_eq!(follows, may_read && *setting == Setting::Open, "{outcome}");
            assert!(outcome.stdout.starts_with("shm_open read: ELOOP\n"), "{outcome}");
            drop(user);
            fs::remove_file("/dev/shm/users").expect("its name");
            fs::remove_file(target).expect("its target");
        }
    });
}

#[test]
fn several_users_at_once_do_not_meet() {
    under_each_setting("size=8m", |house, _| {
        let log = house.path("log");
        fs::create_dir(&log).expect("a directory");
        open_to_all(&log, 0o1777);
        let users = [0, NEIGHBOUR, CALLER, THIRD];
        let runs: Vec<_> = users
            .iter()
            .map(|uid| {
                let run = house.program("stress").number(2).number(12).number(3 * MIB).uid(*uid);
                run.env("SHMGUARD_QUIET", "1").env("SHMGUARD_LOG", &log).start()
            })
            .collect();
        let outcomes: Vec<_> = runs.into_iter().map(|run| run.wait()).collect();
        // Said first: why a program has died, if one has.
        for event in read_log(&log) {
            let decision = event["decision"].as_str().unwrap_or("reserve");
            assert!(matches!(decision, "reserve" | "redirect"), "neither reserved nor redirected: {event}");
        }
        outcomes.into_iter().for_each(|outcome| drop(outcome.well()));
        house.nothing_left();
        for uid in users {
            let ledger = house.path("state").join(format!("shmguard-ledger-{uid}"));
            let meta = fs::metadata(&ledger).expect("a ledger for each");
            assert_eq!((meta.uid(), meta.mode() & 0o777), (uid, 0o700));
        }
    });
}

#[test]
fn leftovers_are_collected_whatever_neighbours_plant_and_theirs_are_left_alone() {
    under_each_setting("size=8m", |house, _| {
        // The caller is killed, and its name removed by somebody without the library: the target is an orphan.
        let orphan = |uid: u32, name: &str| -> PathBuf {
            let mut run = hold(house, &format!("/{name}"), "600", uid).env("SHMGUARD_QUIET", "1").start();
            run.line("ready");
            let path = Path::new("/dev/shm").join(name);
            let target = fs::read_link(&path).expect("it was redirected");
            run.signal(rustix::process::Signal::KILL);
            run.wait().killed_by(rustix::process::Signal::KILL);
            fs::remove_file(path).expect("its name");
            target
        };
        let callers = orphan(CALLER, "callers");
        let thirds = orphan(THIRD, "thirds");
        // A link to the orphan by another, directories that cannot be read, a deep one, a file of its form.
        link_own(&callers, Path::new("/dev/shm/claimed"), NEIGHBOUR);
        for (name, mode) in [("private", 0o700), ("letterbox", 0o733)] {
            fs::create_dir(Path::new("/dev/shm").join(name)).expect("a directory");
            own(&Path::new("/dev/shm").join(name), NEIGHBOUR, mode);
        }
        let mut deep = PathBuf::from("/dev/shm");
        for _ in 0..20 {
            deep.push("deep");
            fs::create_dir(&deep).expect("a directory");
            own(&deep, NEIGHBOUR, 0o777);
        }
        let his = house.target().join(label(NEIGHBOUR, 5));
        write_own(&his, "his", NEIGHBOUR, 0o666);
        // The caller's own segment in use must outlive it all.
        let mut user = hold(house, "/used", "600", CALLER).env("SHMGUARD_QUIET", "1").start();
        user.line("ready");
        let used = fs::read_link("/dev/shm/used").expect("it was redirected");
        // The ledger allows one collection a minute; the one that "used" has just made is it.
        assert!(!callers.exists(), "the orphan is still there: {:?}", left_in(&house.target()));
        assert!(used.exists() && thirds.exists() && his.exists(), "{:?}", left_in(&house.target()));
        // Root's collections leave users' files to the users.
        named(house, "go", b"roots").env("SHMGUARD_QUIET", "1").output().well();
        assert!(used.exists() && thirds.exists() && his.exists(), "{:?}", left_in(&house.target()));
        user.go_on();
        user.wait().well();
    });
}

#[test]
fn hostile_names_are_served_and_stay_text_in_messages_and_logs() {
    under_each_setting("size=8m", |house, _| {
        let target = house.path("t\x1b[2J\n\u{7f}t");
        fs::create_dir(&target).expect("a directory");
        open_to_all(&target, 0o1777);
        let log = house.path("log");
        fs::create_dir(&log).expect("a directory");
        open_to_all(&log, 0o1777);
        let long = [b'x'; 255];
        let names: [&[u8]; 8] = [
            b"...",
            b".. ",
            b".shmguard-1.1-0123456789abcdef",
            b"\x1b]0;title\x07",
            b"\nshmguard: all is well",
            b"\",\"ev\":\"x\\",
            b"\xff\xfe\xc3\xa9\x7f\x80\x9b",
            &long,
        ];
        for (round, name) in names.iter().enumerate() {
            let state = house.path(&format!("state-{round}"));
            fs::create_dir(&state).expect("a directory");
            open_to_all(&state, 0o1777);
            let run = named(house, "go", name).uid(CALLER).env("SHMGUARD_REDIRECT", &target);
            let outcome = run.env("SHMGUARD_LOG", &log).env("SHMGUARD_STATE", &state).output().well();
            assert_eq!(outcome.stdout, "gone with its name\n", "it was redirected and removed");
            let lines = outcome.said();
            assert!(lines.iter().any(|line| line.contains(" asks for 12.0 MiB for ")), "{outcome}");
            for line in &lines {
                let text = line.strip_suffix('\n').expect("a whole line");
                assert!(!text.chars().any(char::is_control), "control characters in {line:?}");
            }
            assert_eq!(lines.concat(), outcome.stderr, "every line of it is one of the library's");
        }
        for event in read_log(&log) {
            assert_ne!(event["ev"], "x", "a name became a field: {event}");
        }
        for file in left_in(&log) {
            let text = fs::read(log.join(file)).expect("a log");
            assert!(!text.iter().any(|byte| (*byte < b' ' && *byte != b'\n') || *byte == 0x7f), "control characters");
        }
        assert_eq!(left_in(&target), Vec::<String>::new());
        house.nothing_left();
    });
}

#[test]
fn a_second_name_for_a_target_makes_attaching_fail_and_nothing_else() {
    under_each_setting("size=8m", |house, setting| {
        let mut user = hold(house, "/users", "600", CALLER).arg("unlink").start();
        user.line("ready");
        let target = fs::read_link("/dev/shm/users").expect("it was redirected");
        let link = house.target().join("second");
        let script = format!("ln {} {}", target.display(), link.display());
        let linked = house.program("shell").arg("sh").arg("-c").arg(script).uid(NEIGHBOUR).without_library().output();
        // fs.protected_hardlinks is what stands between the neighbour and this.
        assert_eq!(linked.code == Some(0), *setting == Setting::Open, "{linked}");
        let outcome = house.program("neighbour_try").arg("users").uid(CALLER).output().well();
        let expected = if *setting == Setting::Open { "shm_open: ELOOP\n" } else { "shm_open: opens a file of 2002" };
        assert!(outcome.stdout.contains(expected), "{outcome}");
        drop(user);
        let _ = fs::remove_file(&link);
        let _ = fs::remove_file(&target);
        assert!(!Path::new("/dev/shm/users").exists() || fs::remove_file("/dev/shm/users").is_ok());
    });
}

#[test]
fn every_threat_of_the_security_page_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/security.md")).expect("docs/security.md");
    let mut rows = 0;
    for line in page.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()) {
        let tests = line.trim_end_matches('|').rsplit('|').next().expect("a last column");
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test: {line}");
        for name in named {
            let (file, test) = name.split_once("::").unwrap_or(("neighbours", name));
            let files = [format!("tests/{file}.rs"), format!("tests/{file}/own_files.rs")];
            let source: String = files.iter().filter_map(|file| fs::read_to_string(root.join(file)).ok()).collect();
            assert!(source.contains(&format!("#[test]\nfn {test}() {{")), "{name} is not a test");
        }
        rows += 1;
    }
    assert!(rows >= 25, "{rows} threats");
}
