//! Everything that can be wrong around the program: variables, targets, `/dev/shm` itself, limits, standard error. Each ends
//! in the program's ordinary behaviour plus one line that names the cause.

mod harness;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use harness::{fill_shm, house, left_in, open_to_all, House, Outcome, Run, MIB, SEGMENT};
use rustix::process::{Resource, Signal};

/// A segment that does not fit, written to its end.
fn fate(house: &House) -> Run {
    house.program("fate").arg("ftruncate").number(SEGMENT)
}

#[track_caller]
fn written(outcome: Outcome) -> Outcome {
    let outcome = outcome.well();
    assert!(outcome.stdout.ends_with("written\n"), "{outcome}");
    outcome
}

// ---- variables

#[test]
fn unreadable_variables_cost_one_line_and_the_default_is_used() {
    for (name, value) in [
        ("SHMGUARD_MODE", "loud"),
        ("SHMGUARD_BUDGET", "lots"),
        ("SHMGUARD_BUDGET", "-5m"),
        ("SHMGUARD_BUDGET", "120%"),
        ("SHMGUARD_WARN", "high,90%"),
        ("SHMGUARD_PROGRAMS", "fate*:!java"),
        ("SHMGUARD_KEEP", "a/b"),
        ("SHMGUARD_LOG", "relative/log"),
        ("SHMGUARD_LOG", "/dev/shm/log"),
        ("SHMGUARD_STATE", "relative/state"),
        ("SHMGUARD_STATE", "/dev/shm/state"),
        ("SHMGUARD_GUARD", "relative"),
        ("SHMGUARD_HELLO", "maybe"),
        ("SHMGUARD_QUIET", "maybe"),
        ("SHMGUARD_ADVERTISE", "maybe"),
        ("SHMGUARD_MODUS", "redirect"),
    ] {
        house("size=8m", |house| {
            let outcome = written(fate(house).env(name, value).output());
            let line = outcome.said_once(&[name]);
            let word = value.split([',', ':']).next().expect("a word");
            assert!(line.contains(word) || name == "SHMGUARD_MODUS", "the value is not named: {line}");
            assert!(line.contains("expected") || line.contains("SHMGUARD_MODE"), "what was expected? {line}");
            house.nothing_left();
        });
    }
}

#[test]
fn an_unreadable_target_is_left_out_and_the_others_are_used() {
    for bad in ["relative/dir", "/mnt@lots", "/dev/shm", "/dev/shm/sub"] {
        house("size=8m", |house| {
            let targets = format!("{bad}:{}", house.target().display());
            let outcome = written(fate(house).env("SHMGUARD_REDIRECT", &targets).output());
            outcome.said_once(&["SHMGUARD_REDIRECT", bad]);
            house.nothing_left();
        });
    }
}

#[test]
fn an_unreadable_variable_is_said_once_for_all_processes() {
    house("size=8m", |house| {
        let run = house.program("many").number(4).number(6).number(MIB).env("SHMGUARD_BUDGET", "lots");
        run.output().well().said_once(&["SHMGUARD_BUDGET"]);
    });
}

#[test]
fn a_log_that_cannot_be_written_costs_the_lines_and_not_the_program() {
    house("size=8m", |house| {
        let file = house.path("file");
        fs::write(&file, b"content").expect("a file");
        for log in [file.clone(), file.join("log"), house.mount("tmpfs", "readonly", "ro,size=1m")] {
            let outcome = written(fate(house).env("SHMGUARD_LOG", &log).output());
            outcome.said_once(&["SHMGUARD_LOG", log.to_str().expect("plain")]);
        }
        assert_eq!(fs::read(&file).expect("still there"), b"content");
        house.nothing_left();
    });
}

#[test]
fn without_a_place_for_the_ledger_each_process_accounts_for_itself() {
    house("size=8m", |house| {
        for state in [house.path("nowhere"), house.mount("tmpfs", "readonly", "ro,size=1m")] {
            written(fate(house).env("SHMGUARD_STATE", &state).output());
            house.program("many").number(4).number(6).number(MIB).env("SHMGUARD_STATE", &state).output().well();
        }
        house.nothing_left();
    });
}

#[test]
fn a_ledger_full_of_nonsense_is_no_authority() {
    house("size=8m", |house| {
        let mut first = house.program("hold").arg("/held").number(SEGMENT).arg("600").number(1).arg("unlink").start();
        first.line("ready");
        // Every file of the ledger, its owner's included, is overwritten with noise, then emptied.
        for noise in [vec![0xff; 5000], Vec::new()] {
            for file in files_below(&house.path("state")) {
                fs::write(&file, &noise).expect("a file of the ledger");
            }
            written(fate(house).output());
        }
        first.go_on();
        first.wait().well();
        house.nothing_left();
    });
}

fn files_below(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("a type") {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

// ---- targets

/// With `bad` as the only target the kernel's answer stands and one line names the target and says `why`; with a good one
/// behind it the program lives.
#[track_caller]
fn bad_target(house: &House, bad: &Path, why: &str, shape: impl Fn(Run) -> Run) {
    let run = |targets: String| shape(fate(house)).env("SHMGUARD_REDIRECT", targets).output();
    let outcome = run(bad.display().to_string()).killed_by(Signal::BUS);
    outcome.said_some(&[bad.to_str().expect("plain"), why]);
    written(run(format!("{}:{}", bad.display(), house.target().display())));
    house.nothing_left();
}

#[test]
fn a_target_that_does_not_exist() {
    house("size=8m", |house| bad_target(house, &house.path("nowhere"), "exist", |run| run));
}

#[test]
fn a_target_that_is_no_directory() {
    house("size=8m", |house| {
        fs::write(house.path("file"), b"").expect("a file");
        bad_target(house, &house.path("file"), "directory", |run| run);
    });
}

#[test]
fn a_target_that_may_not_be_written() {
    house("size=8m", |house| {
        fs::create_dir(house.path("closed")).expect("a directory");
        open_to_all(&house.path("closed"), 0o755);
        bad_target(house, &house.path("closed"), "writ", |run| run.uid(1000));
    });
}

#[test]
fn a_target_that_is_full() {
    house("size=8m", |house| {
        let full = house.tmpfs("full", "size=16m");
        fill_shm(&full.join("ballast"), 15 * MIB);
        bad_target(house, &full, " left", |run| run);
        assert_eq!(left_in(&full), ["ballast"]);
    });
}

#[test]
fn a_target_whose_inodes_are_used_up() {
    house("size=8m", |house| {
        let full = house.tmpfs("full", "size=64m,nr_inodes=4");
        for name in ["a", "b", "c"] {
            fs::write(full.join(name), b"").expect("a file");
        }
        bad_target(house, &full, "", |run| run);
        assert_eq!(left_in(&full), ["a", "b", "c"]);
    });
}

#[test]
fn a_target_that_is_the_guarded_directory_by_another_path() {
    // The text does not tell: a link and a bind mount.
    house("size=8m", |house| {
        symlink("/dev/shm", house.path("link")).expect("a link");
        bad_target(house, &house.path("link"), "guarded", |run| run);
        fs::create_dir(house.path("bind")).expect("a directory");
        let bind = house.path("bind");
        harness::tool("mount", &["--bind", "/dev/shm", bind.to_str().expect("plain")], "apt-get install mount");
        bad_target(house, &bind, "guarded", |run| run);
    });
}

#[test]
fn a_target_that_is_read_only() {
    house("size=8m", |house| {
        let target = house.mount("tmpfs", "readonly", "ro,size=64m");
        bad_target(house, &target, "read-only", |run| run);
    });
}

#[test]
fn a_target_that_knows_no_fallocate() {
    // ramfs, and ext4 without extents (what ext2 and ext3 are): EOPNOTSUPP. glibc would emulate it by writing.
    house("size=8m", |house| {
        let ramfs = house.mount("ramfs", "ramfs", "mode=1777");
        bad_target(house, &ramfs, "fallocate", |run| run);
        assert_eq!(left_in(&ramfs), Vec::<String>::new());
        let ext3 = house.ext4("ext3", 64, &["-O", "^extents,^64bit,^flex_bg,^metadata_csum"]);
        bad_target(house, &ext3, "fallocate", |run| run);
        assert_eq!(left_in(&ext3), Vec::<String>::new());
    });
}

// ---- /dev/shm itself

/// `attempt` says the same with the library as without it in the same house; returns what it said with it.
#[track_caller]
fn same_attempts(house: &House, bytes: u64) -> Outcome {
    let run = || house.program("attempt").number(bytes);
    let expected = run().without_library().output().well();
    let outcome = run().output().well();
    assert_eq!(outcome.stdout, expected.stdout, "{outcome}");
    outcome
}

#[test]
fn dev_shm_missing() {
    house("", |house| {
        house.own_dev();
        assert!(!Path::new("/dev/shm").exists());
        let outcome = same_attempts(house, SEGMENT);
        assert!(outcome.stdout.starts_with("shm_open: No such file or directory\n"), "{outcome}");
        outcome.said_once(&["/dev/shm", "not a directory"]);
    });
}

#[test]
fn dev_shm_is_a_dangling_link() {
    house("", |house| {
        house.own_dev();
        symlink("/run/nowhere/shm", "/dev/shm").expect("a link");
        let outcome = same_attempts(house, SEGMENT);
        assert!(outcome.stdout.starts_with("shm_open: No such file or directory\n"), "{outcome}");
        outcome.said_once(&["/dev/shm"]);
    });
}

#[test]
fn dev_shm_is_a_link_to_a_tmpfs_elsewhere() {
    // As /dev/shm -> /run/shm on older distributions: guarded where it leads to.
    house("", |house| {
        house.own_dev();
        let elsewhere = house.tmpfs("run-shm", "size=8m");
        symlink(&elsewhere, "/dev/shm").expect("a link");
        written(fate(house).output());
        house.program("removal").number(SEGMENT).output().well();
        house.nothing_left();
    });
}

#[test]
fn dev_shm_is_a_plain_directory_of_a_disk() {
    // No tmpfs is mounted there: as large as the disk, nothing need be redirected.
    house("", |house| {
        house.own_dev();
        fs::create_dir(house.path("plain")).expect("a directory");
        open_to_all(&house.path("plain"), 0o1777);
        fs::create_dir("/dev/shm").expect("a directory");
        let plain = house.path("plain");
        harness::tool("mount", &["--bind", plain.to_str().expect("plain"), "/dev/shm"], "apt-get install mount");
        same_attempts(house, SEGMENT);
        house.nothing_left();
    });
}

#[test]
fn dev_shm_is_read_only() {
    house("", |house| {
        house.mount_shm("ro,size=8m");
        let outcome = same_attempts(house, SEGMENT);
        assert!(outcome.stdout.starts_with("shm_open: Read-only file system\n"), "{outcome}");
        outcome.said_once(&["/dev/shm", "read-only"]);
    });
}

#[test]
fn dev_shm_is_closed_to_others() {
    house("", |house| {
        house.mount_shm("mode=0755,size=8m");
        let run = || house.program("attempt").number(SEGMENT).uid(1000);
        let expected = run().without_library().output().well();
        assert!(expected.stdout.starts_with("shm_open: Permission denied\n"), "{expected}");
        assert_eq!(run().output().well().stdout, expected.stdout);
    });
}

#[test]
fn dev_shm_is_noexec() {
    house("", |house| {
        house.mount_shm("noexec,size=64m");
        let outcome = same_attempts(house, MIB);
        assert!(outcome.stdout.contains("mmap for execution: Operation not permitted\n"), "{outcome}");
    });
    house("", |house| {
        house.mount_shm("noexec,size=8m");
        written(fate(house).output());
        house.nothing_left();
    });
}

#[test]
fn dev_shm_follows_no_links() {
    // nosymfollow: a link there cannot be followed by anybody, so nothing is moved.
    house("", |house| {
        house.mount_shm("nosymfollow,size=8m");
        let outcome = house.program("several").number(SEGMENT).output().killed_by(Signal::BUS);
        outcome.said_once(&["nosymfollow"]);
        fs::remove_file("/dev/shm/s0").expect("what the dead program left");
        written(fate(house).output()); // a nameless segment needs no link
        let outcome = house.program("sparse").arg("/seg").number(SEGMENT).output().well();
        assert_eq!(outcome.stdout, "name: regular file\n");
        house.nothing_left();
    });
}

#[test]
fn dev_shm_is_smaller_than_four_mebibytes() {
    for options in ["size=1m", "size=256k", "size=64k", "size=4k"] {
        house(options, |house| {
            house.program("many").number(2).number(10).number(512 << 10).output().well();
            written(fate(house).output());
            if options != "size=4k" {
                house.program("semaphore").output().well(); // two of them: two pages
            }
            house.nothing_left();
        });
    }
}

#[test]
fn dev_shm_is_unlimited() {
    // statvfs shows 0 blocks, 0 free: that means no limit, not full. The same for inodes.
    house("", |house| {
        house.mount_shm("size=0,nr_inodes=0");
        let mut run = house.program("several").number(SEGMENT).number(64 * MIB).start();
        run.line("ready");
        assert_eq!(left_in(&house.target()), Vec::<String>::new());
        assert!(fs::symlink_metadata("/dev/shm/s1").expect("a segment").is_file());
        run.go_on();
        run.wait().well().silent();
        house.nothing_left();
    });
}

#[test]
fn inodes_of_dev_shm_are_used_up() {
    house("size=8m,nr_inodes=20", |house| {
        let run = || house.program("inodes").number(SEGMENT);
        let expected = run().without_library().output().well();
        assert!(expected.stdout.contains("then: No space left on device\n"), "{expected}");
        let outcome = run().output().well();
        assert_eq!(outcome.stdout, expected.stdout, "{outcome}");
        outcome.said_once(&["created", "inode"]);
        outcome.said_once(&["asks for", "inode"]);
        house.nothing_left();
    });
}

#[test]
fn dev_shm_gives_huge_pages() {
    // A page of 2 MiB at the first touch of a small segment, as far as the kernel can.
    house("size=64m,huge=always", |house| {
        house.program("many").number(2).number(30).number(3 * MIB).output().well();
        house.program("many").number(1).number(60).number(100 << 10).output().well();
        written(house.program("fate").arg("ftruncate").number(96 * MIB).output());
        house.nothing_left();
    });
}

#[test]
fn dev_shm_is_made_smaller_while_in_use() {
    house("size=64m", |house| {
        let mut first = house.program("untouched").arg("/first").number(30 * MIB).start();
        first.line("sized");
        house.remount_shm("size=32m"); // not below its use: the kernel would refuse
        written(fate(house).output());
        let mut second = house.program("untouched").arg("/second").number(20 * MIB).start();
        second.line("sized");
        for mut run in [first, second] {
            run.go_on();
            assert_eq!(run.wait().well().stdout, "sized\nwritten\n");
        }
        house.remount_shm("size=64m"); // and larger again
        let mut third = house.program("untouched").arg("/third").number(50 * MIB).start();
        third.line("sized");
        assert!(fs::symlink_metadata("/dev/shm/third").expect("a segment").is_file());
        third.go_on();
        third.wait().well();
        house.nothing_left();
    });
}

#[test]
fn something_is_mounted_over_dev_shm_while_in_use() {
    // A program that has created there before sees the new one from then on (containers start like that).
    house("size=64m", |house| {
        let mut run = house.program("twice").number(SEGMENT).start();
        run.line("one is gone");
        house.mount_shm("size=8m");
        run.go_on();
        run.line("another is there");
        assert!(fs::symlink_metadata("/dev/shm/twice").expect("a segment").is_symlink());
        run.go_on();
        run.wait().well();
        house.nothing_left();
    });
}

// ---- limits

#[test]
fn no_descriptor_is_left() {
    house("size=8m", |house| {
        let run = || house.program("nofile").number(SEGMENT).rlimit(Resource::Nofile, 30);
        let expected = run().without_library().output().well();
        let outcome = run().output().well();
        assert_eq!(outcome.stdout, expected.stdout, "{outcome}");
        outcome.said_once(&["descriptor"]);
        house.nothing_left();
    });
}

#[test]
fn the_limit_of_file_sizes_is_reached() {
    for action in ["ignore", "default"] {
        house("size=8m", |house| {
            let run = || house.program("fsize").arg(action).number(SEGMENT).rlimit(Resource::Fsize, 4 * MIB);
            let expected = run().without_library().output();
            let outcome = run().output();
            assert_eq!((outcome.code, outcome.signal), (expected.code, expected.signal), "{outcome}");
            assert_eq!(outcome.stdout, expected.stdout, "{outcome}");
            assert_eq!(expected.signal, (action == "default").then_some(Signal::XFSZ.as_raw()), "{expected}");
            house.nothing_left();
        });
    }
}

#[test]
fn the_librarys_own_files_do_not_reach_the_limit_of_file_sizes() {
    // 64 bytes are allowed to the program, and less than any record or log line: no SIGXFSZ may come of those.
    house("size=8m", |house| {
        fs::create_dir(house.path("log")).expect("a directory");
        let run = || house.program("fsize").arg("default").number(64).rlimit(Resource::Fsize, 64);
        let expected = run().without_library().output().well();
        let outcome = run().env("SHMGUARD_LOG", house.path("log")).env("SHMGUARD_HELLO", "1").output().well();
        assert_eq!(outcome.stdout, expected.stdout);
        house.nothing_left();
    });
}

// ---- standard error

#[test]
fn standard_error_is_closed_and_its_number_used_again() {
    house("size=8m", |house| {
        for closed_before in [false, true] {
            let data = house.path(&format!("data-{closed_before}"));
            let mut run = house.program("reused_stderr").arg(&data).number(SEGMENT).env("SHMGUARD_HELLO", "1");
            if closed_before {
                run = run.arg("closed").under(&["sh", "-c", "exec 2>&-; exec \"$@\"", "sh"]);
            }
            let outcome = run.output().well();
            assert_eq!(outcome.stdout, "11 bytes\n", "{outcome}");
            assert_eq!(fs::read_to_string(&data).expect("the data file"), "first\nlast\n");
        }
        house.nothing_left();
    });
}

#[test]
fn standard_error_is_a_full_pipe() {
    house("size=8m", |house| {
        let outcome = house.program("pipe_stderr").arg("full").number(SEGMENT).output().well();
        assert_eq!(outcome.stdout, "SIGPIPE pending: 0, blocked: 0\n", "{outcome}");
        house.nothing_left();
    });
}

#[test]
fn standard_error_is_a_pipe_without_a_reader() {
    house("size=8m", |house| {
        let outcome = house.program("pipe_stderr").arg("gone").number(SEGMENT).output().well();
        assert_eq!(outcome.stdout, "SIGPIPE pending: 0, blocked: 0\n", "{outcome}");
        house.nothing_left();
    });
}

#[test]
fn standard_error_is_a_full_device() {
    house("size=8m", |house| {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        written(fate(house).stderr(full).output());
        house.nothing_left();
    });
}
