//! `/dev/shm` itself: missing, read-only, tiny, unlimited, remounted while in use.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::{self, house, left_in, open_to_all, House, Outcome, MIB, SEGMENT};
use crate::{fate, written};

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
