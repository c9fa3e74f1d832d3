//! Targets that cannot be used: the kernel's answer stands, and with a good one behind it the program lives.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;

use crate::harness::{self, fill_shm, house, left_in, open_to_all, House, Run, MIB};
use crate::{fate, written};

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
fn a_target_with_a_path_that_is_too_long() {
    house("size=8m", |house| {
        let long = house.path(&"a".repeat(250)).join("b".repeat(250));
        fs::create_dir_all(&long).expect("directories");
        open_to_all(&long, 0o1777);
        let outcome = fate(house).env("SHMGUARD_REDIRECT", &long).output().killed_by(Signal::BUS);
        outcome.said_some(&["aaaaaaaa", "is not used", "longer than 480 bytes"]);
        house.nothing_left();
    });
}

#[test]
fn a_target_with_a_long_path_is_a_target() {
    let describe = |house: &House| house.program("segment").arg("shm_open").arg("ftruncate").number(12 * MIB);
    let expected = harness::baseline(describe);
    for length in [140, 160, 170, 200, 240] {
        house("size=8m", |house| {
            let long = house.path(&"a".repeat(length)).join("b".repeat(100));
            fs::create_dir_all(&long).expect("directories");
            open_to_all(&long, 0o1777);
            let outcome = describe(house).env("SHMGUARD_REDIRECT", &long).output().well();
            assert_eq!(outcome.stdout, expected.stdout, "{length}: {outcome}");
            outcome.said_some(&["goes to"]);
            assert_eq!(left_in(&long), Vec::<String>::new());
            house.nothing_left();
        });
    }
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
