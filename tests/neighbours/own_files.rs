//! The library's own files: ledger, logs, and what a set-uid program would make of its caller's variables.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::harness::{self, left_in, open_to_all, read_log, tool, MIB};
use crate::neighbours::setting::under_each_setting;
use crate::{hex, hold, link_own, named, own, write_own, CALLER, NEIGHBOUR};

#[test]
fn a_ledgers_place_that_a_neighbour_has_taken_is_not_used() {
    under_each_setting("size=8m", |house, _| {
        // What would be removed or overwritten if it were taken for a ledger.
        let precious = house.path("precious");
        fs::create_dir(&precious).expect("a directory");
        for name in ["once.level.75", "ended.0", "c-1.1", "p-1.1.1"] {
            write_own(&precious.join(name), "precious", CALLER, 0o600);
        }
        own(&precious, CALLER, 0o700);
        let place = house.path("state").join(format!("shmguard-ledger-{CALLER}"));
        let plants: [(&str, &dyn Fn()); 5] = [
            ("a link to the caller's directory", &|| link_own(&precious, &place, NEIGHBOUR)),
            ("his own directory", &|| {
                fs::create_dir(&place).expect("a directory");
                own(&place, NEIGHBOUR, 0o777);
            }),
            ("a file", &|| write_own(&place, "", NEIGHBOUR, 0o666)),
            ("a fifo", &|| {
                tool("mkfifo", &[place.to_str().expect("plain")], "apt-get install coreutils");
                own(&place, NEIGHBOUR, 0o666);
            }),
            ("a dangling link", &|| link_own(&house.path("made-by-link"), &place, NEIGHBOUR)),
        ];
        for (what, plant) in plants {
            plant();
            let before = fs::symlink_metadata(&place).expect("it was planted").ino();
            named(house, "go", b"x").uid(CALLER).env("SHMGUARD_QUIET", "1").output().well();
            let after = fs::symlink_metadata(&place).expect("it is still there");
            assert_eq!(after.ino(), before, "{what}");
            for name in left_in(&precious) {
                assert_eq!(fs::read_to_string(precious.join(&name)).expect("a file"), "precious", "{what}: {name}");
            }
            assert_eq!(left_in(&precious).len(), 4, "{what}");
            assert!(!house.path("made-by-link").exists(), "{what}");
            if after.is_dir() {
                assert_eq!(left_in(&place), Vec::<String>::new(), "{what}");
                fs::remove_dir(&place).expect("removed");
            } else {
                fs::remove_file(&place).expect("removed");
            }
            house.nothing_left();
        }
    });
}

#[test]
fn a_ledger_of_noise_misleads_nobody() {
    under_each_setting("size=8m", |house, _| {
        let precious = house.path("precious");
        write_own(&precious, "precious", CALLER, 0o600);
        let run = || hold(house, "/held", "600", CALLER).arg("unlink").env("SHMGUARD_QUIET", "1");
        let top = house.path("state").join(format!("shmguard-ledger-{CALLER}"));
        let noises: [&[u8]; 4] = [b"", b"short", &[0xff; 4096], &[b'7'; 70_000]];
        for (round, noise) in noises.iter().enumerate() {
            let mut first = run().start();
            first.line("ready");
            let ledger = top.join(left_in(&top).first().expect("a ledger"));
            // Each kind of file in it, of living and dead processes, forged, cut short, and its own one.
            let living = format!("p-1.{:x}.{:x}", 0, fs::metadata("/proc/self/ns/pid").expect("a namespace").ino());
            let mut names: Vec<String> = left_in(&ledger);
            names
                .extend(["p-7.7.7", "p-999999.1.1", "ended.0", "ended.7", "once.level.75", "c-1.1"].map(str::to_owned));
            names.push(living);
            for name in &names {
                fs::write(ledger.join(name), noise).expect("a forged file");
                own(&ledger.join(name), CALLER, 0o600);
            }
            for (name, text) in [("p-8.8.8", &precious), ("ended.1", &precious), ("ended.2", &ledger)] {
                link_own(text, &ledger.join(name), CALLER);
            }
            tool("mkfifo", &[ledger.join("p-9.9.9").to_str().expect("plain")], "apt-get install coreutils");
            // Others come and go in it, and the first one ends in it.
            for name in [&b"a"[..], b"b", b"c"] {
                named(house, "go", name).uid(CALLER).env("SHMGUARD_QUIET", "1").output().well();
            }
            first.go_on();
            first.wait().well();
            assert_eq!(fs::read_to_string(&precious).expect("a file"), "precious", "noise {round}");
            house.nothing_left();
            fs::remove_dir_all(&top).expect("removed");
        }
    });
}

#[test]
fn no_line_goes_into_a_file_that_was_planted_among_the_logs() {
    under_each_setting("size=8m", |house, setting| {
        let precious = house.path("precious");
        for what in ["link", "dangling link", "second name", "fifo", "his file", "directory", "nothing"] {
            let log = house.path("log");
            fs::create_dir(&log).expect("a directory");
            open_to_all(&log, 0o1777);
            write_own(&precious, "precious", CALLER, 0o666);
            let mut run = named(house, "wait", b"x").uid(CALLER).env("SHMGUARD_LOG", &log).start();
            run.line("ready");
            let stat = fs::read_to_string(format!("/proc/{}/stat", run.pid())).expect("it lives");
            let start: u64 =
                stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(20)?.parse().ok()).expect("field 22");
            let file = log.join(format!("shmguard-{}-{start:x}.jsonl", run.pid()));
            assert!(!file.exists(), "nothing is logged before a segment is made: the test comes in time");
            match what {
                "link" => link_own(&precious, &file, NEIGHBOUR),
                "dangling link" => link_own(&house.path("made-by-link"), &file, NEIGHBOUR),
                "second name" => fs::hard_link(&precious, &file).expect("a second name"),
                "fifo" => {
                    tool("mkfifo", &[file.to_str().expect("plain")], "apt-get install coreutils");
                    own(&file, NEIGHBOUR, 0o666);
                }
                "his file" => write_own(&file, "", NEIGHBOUR, 0o666),
                "directory" => fs::create_dir(&file).expect("a directory"),
                _ => {}
            }
            run.go_on();
            let outcome = run.wait().well();
            assert_eq!(fs::read_to_string(&precious).expect("a file"), "precious", "{what} under {setting:?}");
            assert!(!house.path("made-by-link").exists(), "{what}");
            if what == "nothing" {
                assert!(!read_log(&log).is_empty(), "the name is the one that was planted");
            } else {
                if what == "his file" {
                    assert_eq!(fs::read_to_string(&file).expect("a file"), "", "a line for the neighbour");
                }
                outcome.said_once(&["SHMGUARD_LOG"]);
            }
            fs::remove_dir_all(&log).expect("removed");
            house.nothing_left();
        }
    });
}

#[test]
fn a_set_uid_program_does_not_listen_to_its_callers_variables() {
    under_each_setting("size=8m", |house, _| {
        // Only /etc/ld.so.preload brings a library into a set-uid program.
        let upper = house.tmpfs("etc", "size=1m");
        for name in ["upper", "work"] {
            fs::create_dir(upper.join(name)).expect("a directory");
        }
        let options = format!("lowerdir=/etc,upperdir={0}/upper,workdir={0}/work", upper.display());
        tool("mount", &["-t", "overlay", "-o", &options, "overlay", "/etc"], "a kernel with overlayfs");
        let library = house.path("libshmguard.so");
        fs::copy(harness::library(), &library).expect("a copy");
        open_to_all(&library, 0o755);
        fs::write("/etc/ld.so.preload", format!("{}\n", library.display())).expect("written");

        let program = house.path("program");
        fs::copy(harness::program_file("neighbour_named"), &program).expect("a copy");
        let (log, state) = (house.path("roots-log"), house.path("roots-state"));
        for place in [&log, &state] {
            fs::create_dir(place).expect("a directory");
            own(place, 0, 0o700);
        }
        let runs = |uid: u32| {
            let run = house.program("shell").arg(&program).number(MIB).arg("go").arg(hex(b"x")).without_library();
            run.uid(uid).env("SHMGUARD_LOG", &log).env("SHMGUARD_STATE", &state).output().well()
        };
        // As root and not set-uid, the library is there and listens.
        open_to_all(&program, 0o755);
        runs(0);
        assert!(!left_in(&log).is_empty() && !left_in(&state).is_empty(), "the library was loaded");
        for place in [&log, &state] {
            fs::remove_dir_all(place).expect("removed");
            fs::create_dir(place).expect("a directory");
            own(place, 0, 0o700);
        }
        open_to_all(&program, 0o4755);
        runs(CALLER);
        assert_eq!(left_in(&log), Vec::<String>::new(), "made by root for a user who could not");
        assert_eq!(left_in(&state), Vec::<String>::new(), "made by root for a user who could not");
        tool("umount", &["--lazy", "/etc"], "apt-get install mount");
        house.nothing_left();
    });
}

#[test]
fn modes_of_the_librarys_own_files_are_closed() {
    under_each_setting("size=8m", |house, _| {
        let log = house.path("log");
        let mut user = hold(house, "/users", "600", CALLER).arg("unlink").env("SHMGUARD_LOG", &log);
        fs::create_dir(&log).expect("a directory");
        open_to_all(&log, 0o1777);
        user = user.env("SHMGUARD_QUIET", "1");
        let mut user = user.start();
        user.line("ready");
        let mut seen = 0;
        let mut look = |path: &Path, mode: u32| {
            let meta = fs::symlink_metadata(path).expect("it is there");
            // The mode of a link is 0777 always and means nothing (symlink(7)); who may read it is up to its directory.
            let mode = if meta.is_symlink() { 0o777 } else { mode };
            assert_eq!((meta.uid(), meta.permissions().mode() & 0o7777), (CALLER, mode), "{}", path.display());
            seen += 1;
        };
        let top = house.path("state").join(format!("shmguard-ledger-{CALLER}"));
        look(&top, 0o700);
        for ledger in left_in(&top) {
            look(&top.join(&ledger), 0o700);
            left_in(&top.join(&ledger)).iter().for_each(|name| look(&top.join(&ledger).join(name), 0o600));
        }
        left_in(&log).iter().for_each(|name| look(&log.join(name), 0o600));
        left_in(&house.target()).iter().for_each(|name| look(&house.target().join(name), 0o600));
        assert!(seen >= 5, "ledger, its directory and files, a log, a target");
        user.go_on();
        user.wait().well();
        house.nothing_left();
    });
}
