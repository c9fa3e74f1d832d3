//! System calls of the library fail, one at a time, or the process is killed in front of them: the program's own calls go
//! as ever, and nothing is lost. strace injects the faults, so that each run is the same.

mod harness;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use harness::{house, left_in, tool, House, Outcome, Run, SEGMENT};

/// Calls that `sparse` itself does not make: all of them are the library's.
const LIBRARYS_OWN: [&str; 19] = [
    "symlinkat",
    "renameat2",
    "renameat",
    "dup3",
    "fallocate",
    "fcntl",
    "fstatfs",
    "statfs",
    "fchmod",
    "fchown",
    "fchownat",
    "linkat",
    "getdents64",
    "readlinkat",
    "mkdirat",
    "pwrite64",
    "ioctl",
    "poll",
    "rt_sigtimedwait",
];

/// `sparse NAME` with a segment that must move, under strace with these options.
fn sparse(house: &House, name: &str, options: &[&str]) -> Run {
    let trace = house.path("trace");
    let mut words = vec!["strace", "-f", "-qq", "-o", trace.to_str().expect("plain")];
    words.extend(options);
    house.program("sparse").arg(name).number(SEGMENT).under(&words)
}

/// How often each of the library's own calls is made in a run that nothing disturbs.
fn calls(house: &House) -> BTreeMap<&'static str, usize> {
    tool("strace", &["-V"], "apt-get install strace");
    let list = format!("trace={}", LIBRARYS_OWN.map(|call| format!("?{call}")).join(","));
    let outcome = sparse(house, "calm", &["-e", &list]).output().well();
    assert_eq!(outcome.stdout, "name: link\n", "it moves when nothing fails");
    let trace = fs::read_to_string(house.path("trace")).expect("strace's output");
    let mut counts = BTreeMap::new();
    for line in trace.lines() {
        let call = line.split_whitespace().nth(1).and_then(|word| word.split('(').next()).unwrap_or("");
        if let Some(call) = LIBRARYS_OWN.into_iter().find(|own| *own == call) {
            *counts.entry(call).or_default() += 1;
        }
    }
    for needed in ["symlinkat", "renameat2", "dup3", "fallocate", "fcntl"] {
        assert!(counts.contains_key(needed), "the library makes no {needed} here? {counts:?}");
    }
    counts
}

/// A fresh state for each run: what one has said or remembered must not change the next.
fn fresh(house: &House) {
    for place in ["state", "target"] {
        let place = house.path(place);
        fs::remove_dir_all(&place).expect("remove");
        fs::create_dir(&place).expect("make");
        harness::open_to_all(&place, 0o1777);
    }
}

#[test]
fn a_call_that_fails_costs_the_redirect_and_not_the_program() {
    house("size=8m", |house| {
        let counts = calls(house);
        let mut runs = 0;
        for (call, count) in counts {
            for at in 1..=count {
                for error in ["ENOSPC", "EINTR", "EPERM"] {
                    fresh(house);
                    let inject = format!("inject={call}:error={error}:when={at}");
                    let outcome = sparse(house, "fault", &["-e", &inject]).output();
                    assert_eq!((outcome.code, outcome.signal), (Some(0), None), "{inject}: {outcome}");
                    assert!(
                        ["name: link\n", "name: regular file\n"].contains(&&*outcome.stdout),
                        "{inject}: {outcome}"
                    );
                    assert_eq!(left_in(Path::new("/dev/shm")), Vec::<String>::new(), "{inject}: {outcome}");
                    runs += 1;
                }
            }
        }
        println!("{runs} faults");
        assert!(runs > 30);
    });
}

#[test]
fn a_call_that_always_fails_costs_the_redirect_and_not_the_program() {
    // A kernel or a sandbox without it.
    house("size=8m", |house| {
        for call in calls(house).into_keys() {
            for error in ["ENOSYS", "EPERM"] {
                fresh(house);
                let inject = format!("inject={call}:error={error}");
                let outcome = sparse(house, "fault", &["-e", &inject]).output();
                assert_eq!((outcome.code, outcome.signal), (Some(0), None), "{inject}: {outcome}");
                assert_eq!(left_in(Path::new("/dev/shm")), Vec::<String>::new(), "{inject}: {outcome}");
            }
        }
    });
}

#[test]
fn a_process_killed_at_any_moment_leaves_a_name_that_can_be_opened() {
    house("size=8m", |house| {
        for (call, count) in calls(house) {
            for at in 1..=count {
                fresh(house);
                let inject = format!("inject={call}:signal=SIGKILL:when={at}");
                let outcome = sparse(house, "killed", &["-e", &inject]).output();
                assert!(outcome.signal.is_some() || outcome.code == Some(0), "{inject}: {outcome}");
                let path = Path::new("/dev/shm/killed");
                if fs::symlink_metadata(path).is_ok() {
                    house.program("opens").arg("killed").output().well();
                    house.program("sparse").arg("next").number(SEGMENT).output().well();
                    unlink(house, "/killed");
                }
                assert!(!path.exists(), "{inject}");
                // A temporary name of the library may be left; it is collected later. Not here, where it would count.
                for name in left_in(Path::new("/dev/shm")) {
                    let path = Path::new("/dev/shm").join(name);
                    assert!(path.to_string_lossy().contains("/.shmguard-"), "{inject}: {}", path.display());
                    fs::remove_file(path).expect("remove");
                }
            }
        }
    });
}

/// shm_unlink under the library.
fn unlink(house: &House, name: &str) -> Outcome {
    house.program("unlinks").arg(name).output().well()
}

#[test]
fn without_leases_only_what_nobody_can_have_attached_is_moved() {
    // gVisor, fs.leases-enable=0, another owner, old kernels.
    house("size=8m", |house| {
        // strace injects by the number of the call, so that of the lease is counted first.
        fresh(house);
        sparse(house, "calm", &["-e", "trace=fcntl"]).output().well();
        let trace = fs::read_to_string(house.path("trace")).expect("strace's output");
        let calls: Vec<&str> = trace.lines().filter(|line| line.contains(" fcntl(")).collect();
        let leases: Vec<usize> = (1..=calls.len()).filter(|at| calls[at - 1].contains("F_SETLEASE, F_WRLCK")).collect();
        // That of the segment, and one that makes openers of the new file wait.
        assert_eq!(leases.len(), 2, "{trace}");
        let unguarded = format!("inject=fcntl:error=EINVAL:when={}", leases[1]);
        fresh(house);
        assert_eq!(sparse(house, "anything", &["-e", &unguarded]).output().well().stdout, "name: link\n");
        for error in ["EINVAL", "EACCES"] {
            let inject = format!("inject=fcntl:error={error}:when={}", leases[0]);
            let kind = |name: &str| {
                fresh(house);
                sparse(house, name, &["-e", &inject]).output().well()
            };
            let outcome = kind("anything");
            assert_eq!(outcome.stdout, "name: regular file\n", "{outcome}");
            assert!(outcome.said_once(&["cannot be moved"]).contains("lease"), "{outcome}");
            for known in ["torch_1_2_3", "psm_0123abcd", "PostgreSQL.123"] {
                assert_eq!(kind(known).stdout, "name: link\n", "{known} attaches late");
            }
        }
    });
}

#[test]
fn without_exchange_of_names_links_are_made_at_creation_only() {
    house("size=8m", |house| {
        let outcome = sparse(house, "anything", &["-e", "inject=renameat2:error=EINVAL"]).output().well();
        assert_eq!(outcome.stdout, "name: regular file\n");
        assert!(outcome.said_once(&["cannot be moved"]).contains("exchange"), "{outcome}");
        harness::fill_shm(Path::new("/dev/shm/ballast"), 7 * harness::MIB + harness::MIB * 3 / 4);
        let outcome = sparse(house, "anything", &["-e", "inject=renameat2:error=EINVAL"]).output().well();
        assert_eq!(outcome.stdout, "name: link\n");
    });
}

#[test]
fn without_proc_nothing_that_exists_is_moved() {
    house("size=8m", |house| {
        // A tmpfs over /proc for the program alone: the harness looks there as well.
        let run = |name: &str| {
            house.program("sparse").arg(name).number(SEGMENT).under(&[
                "unshare",
                "--mount",
                "sh",
                "-c",
                "mount -t tmpfs none /proc && exec \"$@\"",
                "sh",
            ])
        };
        let outcome = run("anything").output().well();
        assert_eq!(outcome.stdout, "name: regular file\n");
        assert!(outcome.said_once(&["cannot be moved"]).contains("/proc"), "{outcome}");
    });
}

#[test]
fn who_opens_in_the_middle_of_an_exchange_sees_one_object() {
    // Every exchange is slowed down before and after the names change, and the attacher looks now and then: in some rounds it
    // knocks at the old file, in some it comes through the link, also where the exchange is undone afterwards.
    const ROUNDS: u64 = 30;
    for way in ["shm_open", "open", "nonblock"] {
        house("size=8m", |house| {
            let trace = house.path("trace");
            let delays = "inject=renameat2:delay_enter=8000:delay_exit=8000";
            let options =
                ["strace", "-f", "-qq", "-o", trace.to_str().expect("plain"), "-e", "trace=renameat2", "-e", delays];
            let run =
                house.program("race_attach").arg(way).number(SEGMENT).number(ROUNDS).number(30_000).under(&options);
            let outcome = run.output().well();
            assert_eq!(outcome.stdout, format!("{ROUNDS} rounds\n"), "{way}: {outcome}");
            let trace = fs::read_to_string(trace).expect("strace's output");
            let exchanges = trace.matches("RENAME_EXCHANGE").count();
            assert!(exchanges >= 3, "{way}: {exchanges} exchanges in {ROUNDS} rounds test nothing");
            house.nothing_left();
        });
    }
}
