//! A segment that was redirected behaves as one that was not: mode, owner, flags, offset, attaching, removing, renaming.
//! Each program says what it observed; the same is expected in a large `/dev/shm` without the library and in a small one
//! with it (moved when sized, moved to a larger tmpfs, a link from the beginning).

mod harness;

use std::path::Path;

use harness::{baseline, fill_shm, house, in_small, left_in, same_everywhere, House, Run, MIB, SEGMENT, SMALL};

/// One test per program.
macro_rules! same_as_unmoved {
    ($($test:ident: $program:ident;)*) => {$(
        #[test]
        fn $test() {
            same_everywhere(stringify!($program));
        }
    )*};
}

same_as_unmoved! {
    mode_owner_and_umask_are_as_asked_for: mode;
    a_taken_name_stays_taken: excl;
    o_trunc_empties_the_segment_for_all: trunc;
    a_segment_that_root_gives_away_is_the_users: chown;
    descriptor_and_status_flags_survive: flags;
    the_offset_survives_and_append_appends: offset;
    attaching_for_reading_only_allows_reading_only: readonly;
    every_way_to_remove_a_name_removes_it: removal;
    a_name_can_be_used_again_while_the_old_segment_is_mapped: recreate;
    rename_carries_the_segment_along: rename;
    a_second_name_outlives_the_first: hardlink;
    shm_open_knows_the_same_names: shm_names;
    a_segment_grows_shrinks_and_grows: resize;
    a_segment_can_be_passed_to_other_processes: pass;
    every_kind_of_mapping_works: mappings;
    sizing_calls_fail_as_they_always_did: sizing_errors;
}

#[test]
fn random_lives_go_the_same_way() {
    for company in ["alone", "together"] {
        for seed in 1..=12 {
            let describe = |house: &House| house.program("dance").number(seed).number(120).arg(company);
            let expected = baseline(describe);
            for small in SMALL {
                let outcome = in_small(small, describe);
                assert_eq!(outcome.stdout, expected.stdout, "seed {seed} {company}, {small:?}; {}", outcome.stderr);
            }
        }
    }
}

/// `hold` with a segment of the default size under `name`, waiting; the caller ends it.
fn holder(house: &House, name: &str, mode: &str) -> Run {
    house.program("hold").arg(name).number(SEGMENT).arg(mode).number(7)
}

fn peer(house: &House, name: &str) -> Run {
    house.program("peer").arg(name).number(SEGMENT).number(7)
}

const EVERY_WAY: &str = "shm_open read: content\nshm_open write: content\nshm_open create: content\n\
    open read: content\nopen write: content\nopen create: content\nopen no follow: content\n\
    openat: content\nfopen: content\n";

#[test]
fn a_program_started_later_attaches_by_every_call() {
    house("size=8m", |house| {
        let mut holder = holder(house, "/gone", "600").start();
        holder.line("ready");
        assert_eq!(peer(house, "/gone").output().well().stdout, EVERY_WAY);
        drop(holder); // killed: name and content stay, as without the library
        assert_eq!(peer(house, "/gone").output().well().stdout, EVERY_WAY);
        assert_eq!(left_in(&house.target()).len(), 1);
        house.program("removal").arg("remove").number(0).output().well();
        house.nothing_left();
    });
}

#[test]
fn the_baseline_of_attaching_by_every_call_is_the_same() {
    house("size=1g", |house| {
        let mut holder = holder(house, "/held", "600").without_library().start();
        holder.line("ready");
        assert_eq!(peer(house, "/held").without_library().output().well().stdout, EVERY_WAY);
    });
}

#[test]
fn other_users_have_the_rights_that_the_mode_gives() {
    // Creator, mode, attacher: what each call says must be what it says without the library in a large /dev/shm.
    for (creator, mode, attacher) in [
        (0, "666", 1000),
        (0, "600", 1000),
        (0, "644", 1000),
        (1000, "666", 1001),
        (1000, "600", 1001),
        (1000, "600", 0),
    ] {
        let mut said = Vec::new();
        for (options, library) in [("size=1g", false), ("size=8m", true)] {
            house(options, |house| {
                let pick = |run: Run| if library { run } else { run.without_library() };
                let mut holder = pick(holder(house, "/held", mode).uid(creator).arg("unlink")).start();
                holder.line("ready");
                said.push(pick(peer(house, "/held").uid(attacher)).output().well().stdout);
                holder.go_on();
                holder.wait().well();
                house.nothing_left();
            });
        }
        assert_eq!(said[1], said[0], "uid {creator} mode {mode} for uid {attacher}");
    }
}

#[test]
fn a_peer_without_the_library_gets_the_segment_or_a_clean_error() {
    house("size=8m", |house| {
        let mut holder = holder(house, "/held", "600").arg("unlink").start();
        holder.line("ready");
        let said = peer(house, "/held").without_library().output().well().stdout;
        // Never "another object": plain open follows the link, glibc's shm_open refuses it.
        let refused = "Too many levels of symbolic links";
        let expected = format!(
            "shm_open read: {refused}\nshm_open write: {refused}\nshm_open create: {refused}\n\
             open read: content\nopen write: content\nopen create: content\nopen no follow: {refused}\n\
             openat: content\nfopen: content\n"
        );
        assert_eq!(said, expected);
        holder.go_on();
        holder.wait().well();
        house.nothing_left();
    });
}

#[test]
fn a_stranger_may_remove_the_name_and_the_target_goes_later() {
    house("size=8m", |house| {
        let disk = house.ext4("disk", 100, &[]);
        let image = house.path("disk.img");
        let (disk_text, image_text) = (disk.to_str().expect("plain"), image.to_str().expect("plain"));
        let mut first = holder(house, "/held", "600").env("SHMGUARD_REDIRECT", &disk).start();
        first.line("ready");
        let orphan = left_in(&disk);
        assert_eq!(orphan.len(), 1);
        std::fs::remove_file("/dev/shm/held").expect("removed as rm does it, without the library");
        first.go_on();
        first.wait().well(); // its content was still there
        assert_eq!(left_in(&disk), orphan, "nobody saw its link go");
        // An unnamed target is garbage when it is older than a minute. No call changes that time; debugfs does.
        harness::tool("umount", &[disk_text], "apt-get install mount");
        let command = format!("set_inode_field /{} ctime 20200101000000", orphan[0]);
        harness::tool("debugfs", &["-w", "-R", &command, image_text], "apt-get install e2fsprogs");
        harness::tool("mount", &["-o", "loop", image_text, disk_text], "apt-get install mount");
        let mut second = holder(house, "/next", "600").arg("unlink").env("SHMGUARD_REDIRECT", &disk).start();
        second.line("ready");
        assert!(!left_in(&disk).contains(&orphan[0]), "the orphan goes with the next redirect");
        second.go_on();
        second.wait().well();
        assert_eq!(left_in(&disk), Vec::<String>::new());
        house.nothing_left();
    });
}

#[test]
fn links_that_are_not_ours_are_not_followed() {
    house("size=8m", |house| {
        let bytes = vec![7; SEGMENT as usize];
        std::fs::write(house.path("private"), &bytes).expect("a file outside of every target");
        std::fs::write(house.target().join("two"), &bytes).expect("a file");
        std::fs::hard_link(house.target().join("two"), house.path("names")).expect("a second name");
        std::fs::create_dir(house.target().join("deep")).expect("a directory");
        std::fs::write(house.target().join("deep/file"), &bytes).expect("a file");
        std::fs::write(house.target().join("other"), &bytes).expect("a file");
        std::os::unix::fs::chown(house.target().join("other"), Some(1000), Some(1000)).expect("chown");
        let target = house.target();
        for (name, to) in [
            ("outside", house.path("private")),
            ("two-names", target.join("two")),
            ("too-deep", target.join("deep/file")),
            ("dotdot", target.join("../private")),
            ("other-owner", target.join("other")),
            ("directory", target.join("deep")),
        ] {
            std::os::unix::fs::symlink(to, Path::new("/dev/shm").join(name)).expect("a link");
            let said = peer(house, &format!("/{name}")).output();
            let first: Vec<&str> = said.stdout.lines().take(3).collect();
            for (line, how) in first.iter().zip(["read", "write", "create"]) {
                assert_eq!(*line, format!("shm_open {how}: Too many levels of symbolic links"), "{name}: {said}");
            }
        }
    });
}

#[test]
fn the_ballast_of_these_tests_leaves_less_than_a_sixteenth() {
    // Small::Full means: over the default budget, so that creation makes a link.
    house("size=8m", |house| {
        fill_shm(Path::new("/dev/shm/ballast"), 7 * MIB + MIB * 3 / 4);
        assert!(house.shm_used() > 8 * MIB * 15 / 16);
    });
}
