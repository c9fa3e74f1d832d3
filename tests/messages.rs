//! What the user is told, and how often; and what the log tells a machine.

mod harness;

use std::collections::BTreeSet;
use std::fs;

use harness::{house, left_in, read_log, tool, Event, House, Outcome, Run, MIB, SEGMENT};
use rustix::process::Signal;

/// A line without what differs between two sayings of the same: numbers, units, names.
fn kind(line: &str) -> String {
    let words =
        line.split_whitespace().map(|word| if word.contains(|c: char| c.is_ascii_digit()) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Panics if the library said anything twice.
#[track_caller]
fn nothing_twice(outcome: &Outcome) {
    let lines = outcome.said();
    let kinds: BTreeSet<String> = lines.iter().map(|line| kind(line)).collect();
    assert_eq!(kinds.len(), lines.len(), "something was said twice; {outcome}");
}

fn many(house: &House) -> Run {
    house.program("many").number(4).number(8).number(2 * MIB)
}

#[test]
fn the_first_redirect_is_told_once_for_all_processes() {
    house("size=8m", |house| {
        let outcome = many(house).output().well();
        nothing_twice(&outcome);
        let target = house.target();
        let line = outcome.said_once(&["goes to", target.to_str().expect("plain")]);
        for word in ["/dev/shm", "--shm-size=", "many", "2.0 MiB", "disk"] {
            assert!(line.contains(word), "{word} is missing: {line}");
        }
    });
}

#[test]
fn a_redirect_to_memory_says_so() {
    house("size=8m", |house| {
        let memory = house.tmpfs("memory", "size=1g");
        let outcome = many(house).env("SHMGUARD_REDIRECT", &memory).output().well();
        let line = outcome.said_once(&["goes to", memory.to_str().expect("plain")]);
        assert!(line.contains("RAM") || line.contains("memory"), "{line}");
        assert!(!line.contains("disk"), "{line}");
    });
}

#[test]
fn the_last_words_tell_the_peak_and_the_size_that_would_have_done() {
    house("size=64m", |house| {
        let run = house.program("several").number(50 * MIB).number(50 * MIB).number(50 * MIB).start();
        let mut run = run;
        run.line("ready");
        run.go_on();
        let outcome = run.wait().well();
        let line = outcome.said_once(&["peak"]);
        let size = line.split("--shm-size=").nth(1).expect("a size").split([' ', '\n']).next().expect("a size");
        let mib: u64 = match (size.strip_suffix('m'), size.strip_suffix('g')) {
            (Some(mib), _) => mib.parse().expect("a number"),
            (_, Some(gib)) => gib.parse::<u64>().expect("a number") * 1024,
            _ => panic!("{size}"),
        };
        assert!((150..=400).contains(&mib), "150 MiB were wanted at once: {line}");
        // The advice is good: with that size nothing is redirected.
        house.mount_shm(&format!("size={size}"));
        let mut again = house.program("several").number(50 * MIB).number(50 * MIB).number(50 * MIB).start();
        again.line("ready");
        for name in ["s0", "s1", "s2"] {
            let name = std::path::Path::new("/dev/shm").join(name);
            assert!(fs::symlink_metadata(name).expect("a segment").is_file(), "redirected with {size}");
        }
        again.go_on();
        again.wait().well();
    });
}

#[test]
fn the_peak_of_several_processes_is_their_sum() {
    // 4 processes have 16 MiB each at the same time, made in no time; nobody asks for anything while they have it.
    house("size=8m", |house| {
        let mut run = many(house).arg("wait").start();
        run.line("all there");
        run.go_on();
        let outcome = run.wait().well();
        let line = outcome.said_once(&["peak"]);
        let size = line.split("--shm-size=").nth(1).and_then(|rest| rest.split('m').next()).expect("a size");
        let mib: u64 = size.parse().expect("so many MiB");
        assert!((64..=128).contains(&mib), "64 MiB were wanted at once: {line}");
    });
}

#[test]
fn processes_that_end_at_the_same_moment_have_one_last_word() {
    house("size=8m", |house| {
        for round in 0..20 {
            let outcome = house.program("many").number(16).number(2).number(MIB).output().well();
            let peaks = outcome.said().iter().filter(|line| line.contains("peak demand")).count();
            assert_eq!(peaks, 1, "round {round}; {outcome}");
            outcome.said_once(&["peak demand", "of 32 segments"]);
        }
    });
}

#[test]
fn the_advice_is_never_smaller_than_what_there_is() {
    // 4 of 8 MiB are used by somebody else, and two segments of 2 MiB do not fit beside them under the budget.
    house("size=8m", |house| {
        harness::fill_shm("/dev/shm/stranger".as_ref(), 4 * MIB);
        let mut run = house.program("several").number(2 * MIB).number(2 * MIB).start();
        run.line("ready");
        run.go_on();
        let outcome = run.wait().well();
        let sizes: Vec<&str> = outcome.stderr.split("--shm-size=").skip(1).collect();
        assert!(!sizes.is_empty(), "{outcome}");
        for size in sizes {
            let mib: u64 = size.split('m').next().and_then(|mib| mib.parse().ok()).expect("so many MiB");
            assert!(mib > 8, "--shm-size={mib}m of 8 MiB; {outcome}");
        }
    });
}

#[test]
fn the_last_words_count_every_redirect() {
    house("size=8m", |house| {
        // The first is moved when it is sized, the others are links from their creation.
        let mut run = house.program("several").number(SEGMENT).number(SEGMENT).number(SEGMENT).start();
        run.line("ready");
        run.go_on();
        run.wait().well().said_once(&["3 of 3 segments"]);
    });
}

#[test]
fn the_last_words_count_what_threads_make_while_the_books_are_busy() {
    house("size=8m", |house| {
        let mut first = house.program("hold").arg("/held").number(SEGMENT).arg("600").number(1).arg("unlink").start();
        first.line("ready");
        // Who begins its books waits for its turn in the ledger, 200 ms and no longer; its other threads do not wait for it.
        let top = house.path("state").join("shmguard-ledger-0");
        let ledger = fs::File::open(top.join(&left_in(&top)[0])).expect("the ledger's directory");
        rustix::fs::flock(&ledger, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
        house.program("at_once").number(16).number(10).number(SEGMENT).output().well();
        drop(ledger);
        first.go_on();
        let outcome = first.wait().well();
        let line = outcome.said_once(&["peak"]);
        assert!(line.contains(&format!(" of {} segments went there", 16 * 10 * 2 + 1)), "{line}");
    });
}

#[test]
fn the_last_words_count_what_is_made_after_something_was_received() {
    house("size=8m", |house| {
        let outcome = house.program("mapped_first").number(SEGMENT).output().well();
        outcome.said_once(&["goes to"]);
        outcome.said_once(&["1 of 1 segment went there"]);
    });
}

#[test]
fn fill_levels_are_announced_each_once_with_who_asks_for_what() {
    house("size=64m", |house| {
        let mut run = house.program("several");
        for mib in [7, 7, 7, 7, 7, 7, 7, 9] {
            run = run.number(mib * MIB);
        }
        let mut run = run.start();
        run.line("ready");
        run.go_on();
        let outcome = run.wait().well();
        let lines: Vec<&str> = outcome.said().into_iter().filter(|line| line.contains("% full")).collect();
        assert_eq!(lines.len(), 2, "{outcome}");
        // 49 of 64 MiB is above 75 %, 58 of 64 MiB above 90 %.
        assert!(
            lines[0].contains("s6") && lines[0].contains("7.0 MiB") && lines[0].contains("several"),
            "{}",
            lines[0]
        );
        assert!(lines[1].contains("s7") && lines[1].contains("9.0 MiB"), "{}", lines[1]);
    });
}

#[test]
fn other_levels_can_be_chosen_and_none_too() {
    for (value, expected) in [("50%", 1), ("16m,50%,90%", 2), ("none", 0)] {
        house("size=64m", |house| {
            let run = house.program("several").number(20 * MIB).number(20 * MIB).env("SHMGUARD_WARN", value);
            let mut run = run.start();
            run.line("ready");
            run.go_on();
            let outcome = run.wait().well();
            let count = outcome.said().into_iter().filter(|line| line.contains("% full")).count();
            assert_eq!(count, expected, "SHMGUARD_WARN={value}; {outcome}");
        });
    }
}

#[test]
fn a_level_is_announced_again_when_it_was_left_by_ten_points() {
    house("size=64m", |house| {
        let lines = |waves: u64| {
            let outcome = house.program("waves").number(waves).output().well();
            outcome.said().into_iter().filter(|line| line.contains("% full")).count()
        };
        // 78 %, 70 % (not ten points below 75), 78 %: one. Then 60 %, 78 %: another.
        assert_eq!((lines(0), lines(1)), (1, 2));
        // A healthy program that goes on like that is not told for ever.
        assert_eq!(lines(12), 2);
    });
}

#[test]
fn what_does_not_fit_and_is_made_again_and_again_is_announced_once() {
    for (name, value, by) in [
        ("SHMGUARD_KEEP", "again", "stays"),
        ("SHMGUARD_MODE", "observe", "stays"),
        ("SHMGUARD_MODE", "refuse", "ENOSPC"),
        ("SHMGUARD_REDIRECT", "none", "nothing is redirected"),
    ] {
        for ledger in [true, false] {
            house("size=8m", |house| {
                // Half of it is in use, so that what is refused is asked for above a level, too.
                harness::fill_shm("/dev/shm/stranger".as_ref(), 4 * MIB);
                let run = house.program("again").arg("/again").number(6 * MIB).number(20);
                let run = run.env(name, value).env("SHMGUARD_WARN", "40%,75%,90%");
                // Without a place for a ledger each process knows by itself what it has said.
                let run = if ledger { run } else { run.env(shmguard_core::config::RUN, "/nowhere") };
                let outcome = run.output().well();
                let lines: Vec<&str> = outcome.said().into_iter().filter(|line| line.contains("% full")).collect();
                assert_eq!(lines.len(), 1, "{name}={value}, ledger: {ledger}; {outcome}");
                assert!(lines[0].contains(by), "{name}={value}; {outcome}");
                nothing_twice(&outcome);
            });
        }
    }
}

#[test]
fn in_mode_observe_the_warning_comes_before_the_first_failure() {
    house("size=8m", |house| {
        // `several` dies in its third segment; the level was passed before.
        let run = house.program("several").number(3 * MIB).number(4 * MIB).number(4 * MIB);
        let outcome = run.env("SHMGUARD_MODE", "observe").output().killed_by(Signal::BUS);
        assert!(outcome.said().iter().any(|line| line.contains("% full")), "{outcome}");
        let line = outcome.said_some(&["s2", "4.0 MiB", "stays"]);
        assert!(line.contains("SIGBUS") || line.contains("observe"), "what will happen? {line}");
    });
}

#[test]
fn what_cannot_be_saved_is_told_with_the_cause() {
    for (program, argument, cause) in [
        ("dup_before", Some("0"), "descriptor"),
        ("early_attach", Some("0"), "process"),
        ("mapped_before", None, "mapped"),
        ("locked", Some("ofd"), "lock"),
        ("fork_before", Some("fork"), "fork"),
    ] {
        house("size=8m", |house| {
            let mut run = house.program(program);
            if let Some(argument) = argument {
                run = run.arg(argument);
            }
            let outcome = run.number(SEGMENT).output().well();
            let line = outcome.said_once(&["asks for 12.0 MiB", "cannot be moved"]);
            assert!(line.contains(cause), "{program}: the cause ({cause}) is not named: {line}");
            assert!(line.contains("--shm-size="), "{line}");
        });
    }
}

#[test]
fn quiet_says_nothing() {
    house("size=8m", |house| {
        many(house)
            .env("SHMGUARD_QUIET", "1")
            .env("SHMGUARD_HELLO", "1")
            .env("SHMGUARD_WARN", "x")
            .output()
            .well()
            .silent();
        let run = house.program("fate").arg("ftruncate").number(SEGMENT).env("SHMGUARD_REDIRECT", "none");
        run.env("SHMGUARD_QUIET", "1").output().killed_by(Signal::BUS).silent();
    });
}

#[test]
fn hello_is_one_line_of_the_first_process_that_uses_shared_memory() {
    house("size=8m", |house| {
        let outcome = many(house).env("SHMGUARD_HELLO", "1").output().well();
        let line = outcome.said_once(&[env!("CARGO_PKG_VERSION")]);
        assert_eq!(outcome.said()[0], line, "it comes first");
        let target = house.target();
        for word in ["redirect", "/dev/shm", "8.0 MiB", target.to_str().expect("plain"), "disk"] {
            assert!(line.contains(word), "{word} is missing: {line}");
        }
        house.program("anonymous").number(1).env("SHMGUARD_HELLO", "1").output().well().silent();
    });
}

#[test]
fn nobody_says_anything_before_the_greeting_is_out() {
    tool("strace", &["-V"], "apt-get install strace");
    house("size=8m", |house| {
        let both = house.path("said");
        let stderr = || fs::File::options().append(true).create(true).open(&both).expect("a file");
        // The first one has noted that the greeting is its own, and is slow to say it.
        let slow = ["strace", "-qq", "-o", "/dev/null", "-P", "once.hello", "-e", "trace=openat"];
        let slow: Vec<&str> = slow.into_iter().chain(["-e", "inject=openat:delay_exit=50000"]).collect();
        let first = house.program("hold").arg("/held").number(4096).arg("600").number(1).arg("unlink");
        let mut first = first.env("SHMGUARD_HELLO", "1").under(&slow).stderr(stderr()).start();
        let top = house.path("state").join("shmguard-ledger-0");
        let noted = || {
            let ledgers = fs::read_dir(&top).into_iter().flatten().flatten();
            ledgers.into_iter().any(|ledger| ledger.path().join("once.hello").exists())
        };
        let since = std::time::Instant::now();
        while !noted() {
            assert!(since.elapsed().as_secs() < 60, "no greeting was begun");
            std::thread::yield_now();
        }
        let second = house.program("fate").arg("ftruncate").number(SEGMENT);
        second.env("SHMGUARD_HELLO", "1").stderr(stderr()).output().well();
        first.line("ready");
        first.go_on();
        first.wait().well();
        let said = fs::read_to_string(&both).expect("what was said");
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("shmguard: version "), "{said}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("shmguard: version ")).count(), 1, "{said}");
        assert!(lines.iter().any(|line| line.contains("goes to")), "{said}");
    });
}

#[test]
fn nothing_is_repeated_until_the_last_process_has_gone() {
    house("size=8m", |house| {
        let mut holder = house.program("hold").arg("/held").number(SEGMENT).arg("600").number(1).arg("unlink").start();
        holder.line("ready");
        // Another program of the same ledger: the redirect has been told.
        let quiet = house.program("fate").arg("ftruncate").number(SEGMENT).output().well();
        assert!(!quiet.said().iter().any(|line| line.contains("goes to")), "{quiet}");
        holder.go_on();
        let outcome = holder.wait().well();
        outcome.said_once(&["goes to"]);
        // Nobody is left: whoever comes now is told again.
        let again = house.program("fate").arg("ftruncate").number(SEGMENT).output().well();
        again.said_once(&["goes to"]);
    });
}

#[test]
fn a_killed_process_does_not_keep_others_from_being_told() {
    house("size=8m", |house| {
        let mut holder = house.program("hold").arg("/held").number(SEGMENT).arg("600").number(1).start();
        holder.line("ready");
        drop(holder); // SIGKILL: no handler at exit runs
        fs::remove_file("/dev/shm/held").expect("its name");
        let outcome = house.program("fate").arg("ftruncate").number(SEGMENT).output().well();
        outcome.said_once(&["goes to"]);
    });
}

#[test]
fn messages_go_to_a_file_as_well_if_that_is_what_standard_error_is() {
    house("size=8m", |house| {
        let path = house.path("stderr");
        let file = fs::File::create(&path).expect("a file");
        house.program("fate").arg("ftruncate").number(SEGMENT).stderr(file).output().well();
        let text = fs::read_to_string(&path).expect("what was written");
        assert!(text.contains("shmguard: ") && text.contains("goes to"), "{text:?}");
    });
}

// ---- the log

fn logged(house: &House, run: Run) -> Vec<Event> {
    let log = house.path("log");
    fs::create_dir(&log).expect("a directory");
    run.env("SHMGUARD_LOG", &log).output().well();
    read_log(&log)
}

fn of_kind<'a>(events: &'a [Event], kind: &str) -> Vec<&'a Event> {
    events.iter().filter(|event| event["ev"] == kind).collect()
}

#[test]
fn every_event_is_a_line_of_the_log() {
    house("size=8m", |house| {
        let events = logged(house, many(house));
        for event in &events {
            for field in ["t", "ev", "pid", "start", "comm"] {
                assert!(!event[field].is_null(), "{field} is missing: {event}");
            }
        }
        // 4 workers, 8 segments each: all created, all sized, all removed; most redirected.
        assert_eq!(of_kind(&events, "create").len(), 32);
        let sized = of_kind(&events, "size");
        assert_eq!(sized.len(), 32, "{sized:?}");
        assert!(sized.iter().all(|event| event["bytes"] == 2 * MIB), "{sized:?}");
        let redirected = sized.iter().filter(|event| event["decision"] == "redirect").count();
        assert!((28..32).contains(&redirected), "{redirected} redirected: of 64 MiB at most 7.5 fit");
        assert_eq!(of_kind(&events, "unlink").len(), 32);
        let exits = of_kind(&events, "exit");
        assert!(exits.len() >= 4, "{exits:?}");
    });
}

#[test]
fn names_of_any_bytes_are_logged_as_json() {
    house("size=8m", |house| {
        let events = logged(house, house.program("odd_names").number(SEGMENT));
        let names: Vec<&str> = of_kind(&events, "create").iter().filter_map(|event| event["seg"].as_str()).collect();
        assert_eq!(names, ["quote\"back\\slash", "line\nend\ttab", "not\u{fffd}\u{fffd}utf8", "ünï"]);
    });
}

#[test]
fn a_log_that_is_removed_while_in_use_costs_the_lines_only() {
    house("size=8m", |house| {
        let log = house.path("log");
        fs::create_dir(&log).expect("a directory");
        let mut run = house.program("twice").number(SEGMENT).env("SHMGUARD_LOG", &log).start();
        run.line("one is gone");
        assert!(!read_log(&log).is_empty());
        fs::remove_dir_all(&log).expect("removed");
        run.go_on();
        run.line("another is there");
        run.go_on();
        run.wait().well();
        house.nothing_left();
    });
}

#[test]
fn what_grows_is_not_counted_twice_in_the_hint() {
    // 10 MiB in use grow to 20 in 16: 20 are wanted, not 30.
    house("size=16m", |house| {
        let outcome = house.program("grow_kept").arg("mapped").number(10 * MIB).number(20 * MIB).output().well();
        let line = outcome.said_once(&["cannot be moved"]);
        assert!(line.contains("So far --shm-size=22m"), "{line}");
        assert!(outcome.said_once(&["peak demand"]).contains("1 of 1 segment could not be helped"), "{outcome}");
    });
}

#[test]
fn a_target_that_may_not_be_executed_from_is_named_as_the_reason() {
    house("size=8m", |house| {
        let target = house.tmpfs("noexec", "size=64m,noexec");
        let outcome =
            house.program("sparse").arg("x").number(SEGMENT).env("SHMGUARD_REDIRECT", &target).output().well();
        assert!(outcome.said_once(&["no target takes it"]).contains("mounted noexec"), "{outcome}");
    });
}

#[test]
fn a_segment_that_still_fits_does_not_silence_the_one_that_dies() {
    // Both stay for the same reason; the first fits into the margin.
    house("size=8m", |house| {
        let run = house.program("several").number(7 * MIB + (800 << 10)).number(SEGMENT).env("SHMGUARD_KEEP", "s*");
        let outcome = run.output();
        assert_eq!(outcome.signal, Some(7), "{outcome}");
        outcome.said_once(&["for s1", "Touching it may end the process with SIGBUS"]);
    });
}

#[test]
fn in_the_size_that_would_have_been_enough_nothing_is_redirected() {
    // Large and small segments in turns, as a loader makes them.
    let farewell = |size: &str| {
        let mut line = None;
        house(size, |house| {
            let outcome = house.program("loader").number(9).number(2 * MIB).number(5).output().well();
            line = outcome.said().into_iter().find(|line| line.contains("peak demand")).map(str::to_owned);
        });
        line
    };
    let line = farewell("size=8m").expect("something was redirected");
    let size = line.split("--shm-size=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a size");
    assert_eq!(farewell(&format!("size={size}")), None, "in {size}, which {line} had promised");
}
