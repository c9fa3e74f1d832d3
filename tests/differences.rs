//! What cannot be the same for a segment that was redirected, each shown: where it is, and what only some file systems can.
//! docs/architecture.md lists these for users. On a larger tmpfs most of them are no differences.

mod harness;

use std::path::Path;

use harness::{baseline, house, MIB, SEGMENT};

/// The line of `output` that starts with `what: `.
#[track_caller]
fn line<'a>(output: &'a str, what: &str) -> &'a str {
    let start = format!("{what}: ");
    output
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap_or_else(|| panic!("no line {start:?} in\n{output}"))
}

/// What `program NAME BYTES` says of a segment that stays, of one on an ext4, and of one on a larger tmpfs.
#[track_caller]
fn three(program: &str) -> [String; 3] {
    let stays = baseline(|house| house.program(program).arg("/x").number(SEGMENT)).stdout;
    let moved = |on_disk: bool| {
        let mut said = String::new();
        house("size=8m", |house| {
            let target = if on_disk { house.ext4("disk", 100, &[]) } else { house.tmpfs("memory", "size=100m") };
            let run = house.program(program).arg("/x").number(SEGMENT).env("SHMGUARD_REDIRECT", &target);
            said = run.output().well().stdout;
            assert_eq!(harness::left_in(&target), Vec::<String>::new());
            assert_eq!(harness::left_in(Path::new("/dev/shm")), Vec::<String>::new());
        });
        said
    };
    [stays, moved(true), moved(false)]
}

/// Asserts what `what` is of one that stays, on a disk, in memory.
#[track_caller]
fn differs(program: &str, what: &str, expected: [&str; 3]) {
    let said = three(program);
    assert_eq!(said.each_ref().map(|output| line(output, what)), expected, "{what}");
}

#[test]
fn lstat_shows_the_link() {
    differs("look", "lstat", ["regular file", "link", "link"]);
}

#[test]
fn readlink_shows_the_target() {
    differs("look", "readlink", ["Invalid argument", "a path", "a path"]);
}

#[test]
fn a_listing_shows_the_link() {
    differs("look", "d_type", ["regular file", "link", "link"]);
}

#[test]
fn fstat_shows_the_targets_device() {
    differs("look", "st_dev", ["that of /dev/shm", "another", "another"]);
}

#[test]
fn who_watches_it_from_before_sees_it_go() {
    differs("watched", "inotify", ["modified", "gone", "gone"]);
}

#[test]
fn who_holds_it_by_o_path_from_before_keeps_the_empty_file() {
    differs("watched", "O_PATH", ["the segment", "the empty file", "the empty file"]);
}

/// No difference, though another open file is behind the descriptor.
#[test]
fn the_signal_chosen_for_a_descriptor_stays() {
    differs("watched", "signal and its owner", ["kept", "kept", "kept"]);
}

#[test]
fn copy_file_range_between_file_systems_is_refused() {
    differs("watched", "copy_file_range", ["copied", "Invalid cross-device link", "Invalid cross-device link"]);
}

#[test]
fn fstatfs_shows_the_targets_file_system() {
    differs("look", "fstatfs", ["tmpfs", "not tmpfs", "tmpfs"]);
}

#[test]
fn seals_are_unknown_on_a_disk() {
    differs("look", "F_GET_SEALS", ["F_SEAL_SEAL", "Invalid argument", "F_SEAL_SEAL"]);
    differs("look", "F_ADD_SEALS", ["Operation not permitted", "Invalid argument", "Operation not permitted"]);
}

#[test]
fn a_second_name_is_not_counted() {
    // link(2) on the name makes a second link, not a second name of the file.
    differs("look", "st_nlink after link", ["2", "1", "1"]);
}

#[test]
fn a_disk_allows_no_pins_for_long() {
    // What gets pinned is known by its name and never goes to a disk: see tests/stays.rs.
    differs("pin", "pinned", ["works", "Bad address", "works"]);
}

#[test]
fn a_disk_knows_no_minor_faults() {
    differs("minor_faults", "minor faults", ["works", "Invalid argument", "works"]);
}

#[test]
fn the_free_space_of_dev_shm_is_told_as_it_is_unless_asked_otherwise() {
    // SHMGUARD_ADVERTISE=1 adds the room of the targets for programs that look first.
    house("size=8m", |house| {
        let memory = house.tmpfs("memory", "size=64m");
        for flags in [&[][..], &["-D_FILE_OFFSET_BITS=64"]] {
            let free = |advertise: &str| {
                let program = harness::Program::from("space").flags(flags);
                let run = house.program(program).env("SHMGUARD_REDIRECT", &memory);
                run.env("SHMGUARD_ADVERTISE", advertise).output().well().stdout
            };
            let without = house.program("space").without_library().output().well().stdout;
            assert_eq!(free("0"), without);
            for answer in free("1").lines() {
                let (call, free) = answer.split_once(": ").expect("CALL: BYTES");
                let free: u64 = free.parse().expect("bytes");
                if call.ends_with("elsewhere") {
                    assert!(without.contains(answer), "{answer} was\n{without}");
                } else {
                    assert!((64 * MIB..=72 * MIB).contains(&free), "{answer}");
                }
            }
            // No more than was asked for, and the truth where that is more.
            for (most, shown) in [("24m", 24 * MIB), ("4m", 8 * MIB)] {
                let answers = free(most);
                let first = answers.lines().next().and_then(|answer| answer.split_once(": ")).expect("CALL: BYTES");
                assert_eq!(first, ("statfs", shown.to_string().as_str()), "{most}");
            }
        }
    });
}

#[test]
fn a_name_removed_by_a_path_that_hides_where_it_is_leaves_its_target_for_a_while() {
    // As one removed by a process without the library: no hook knows it by its text, and none may look it up. The next
    // redirect collects the target when it is older than a minute (tests/attach.rs).
    house("size=8m", |house| {
        let mut holder = house.program("hold").arg("/gone").number(SEGMENT).arg("600").number(1).start();
        holder.line("ready");
        house.program("removal").arg("remove").number(7).output().well();
        assert_eq!(harness::left_in(Path::new("/dev/shm")), Vec::<String>::new());
        assert_eq!(harness::left_in(&house.target()).len(), 1);
        holder.go_on();
        holder.wait().well();
    });
}
