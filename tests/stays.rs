//! What must not be moved is not moved: where more than one party already means the empty file, all of them must see what
//! comes. These programs size a segment larger than `/dev/shm` and touch only its beginning. Each says by a line
//! `name: regular file` that its segment stayed where it was made; and the library says why it could not be moved.

mod harness;

use std::fs;
use std::os::unix::fs::MetadataExt;

use harness::{baseline, fill_shm, house, in_small, left_in, House, Outcome, Run, Small, MIB, SEGMENT};

/// The program says the same as without the library, whether or not the directory was full before; it stays in place
/// where it was not a link from the beginning.
#[track_caller]
fn stays(describe: impl Fn(&House) -> Run + Sync) {
    for outcome in stays_quietly(describe) {
        assert!(!outcome.said().is_empty(), "nobody was told that this cannot be saved; {outcome}");
    }
}

/// As [`stays`], where nothing need be said: a process that did not create the segment does nothing but the call.
/// Returns the runs in which the segment could have been moved.
#[track_caller]
fn stays_quietly(describe: impl Fn(&House) -> Run + Sync) -> Vec<Outcome> {
    let expected = baseline(&describe);
    assert!(expected.stdout.contains("name: regular file"), "{expected}");
    let kept: Vec<Outcome> = [Small::ToDisk, Small::ToMemory]
        .into_iter()
        .map(|small| {
            let outcome = in_small(small, &describe);
            assert_eq!(outcome.stdout, expected.stdout, "{small:?}: {outcome}");
            outcome
        })
        .collect();
    let full = in_small(Small::Full, &describe);
    assert_eq!(without_kinds(&full.stdout), without_kinds(&expected.stdout), "{full}");
    kept
}

/// As [`stays`], for a segment made in a target that cannot hold it when it is sized, with another target that could.
#[track_caller]
fn stays_in_a_target(describe: impl Fn(&House) -> Run + Sync) {
    let expected = baseline(&describe);
    harness::house("size=8m", |house| {
        fill_shm(std::path::Path::new("/dev/shm/ballast"), 8 * MIB);
        let little = house.tmpfs("little", "size=4m");
        let run =
            describe(house).env("SHMGUARD_REDIRECT", format!("{}:{}", little.display(), house.target().display()));
        let outcome = run.output().well();
        assert_eq!(without_kinds(&outcome.stdout), without_kinds(&expected.stdout), "{outcome}");
        assert!(!outcome.said().is_empty(), "nobody was told that this cannot be saved; {outcome}");
    });
}

fn without_kinds(stdout: &str) -> String {
    stdout.lines().filter(|line| !line.starts_with("name: ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_second_descriptor_before_sizing_keeps_it_in_place() {
    for way in 0..5 {
        stays(|house| house.program("dup_before").number(way).number(SEGMENT));
    }
}

#[test]
fn a_fork_before_sizing_keeps_it_in_place() {
    stays(|house| house.program("fork_before").arg("fork").number(SEGMENT));
}

#[test]
fn a_fork_without_handlers_before_sizing_keeps_it_in_place() {
    stays(|house| house.program("fork_before").arg("_Fork").number(SEGMENT));
}

#[test]
fn a_raw_clone_before_sizing_keeps_it_in_place() {
    stays(|house| house.program("fork_before").arg("clone").number(SEGMENT));
}

#[test]
fn a_vfork_and_exec_before_sizing_keeps_it_in_place() {
    stays(|house| house.program("fork_before").arg("vfork").number(SEGMENT));
}

#[test]
fn a_spawned_program_that_inherits_it_before_sizing_keeps_it_in_place() {
    stays(|house| house.program("fork_before").arg("posix_spawn").number(SEGMENT));
}

#[test]
fn an_attacher_that_came_before_the_sizing_sees_what_comes() {
    for way in 0..3 {
        stays(|house| house.program("early_attach").number(way).number(SEGMENT));
    }
}

#[test]
fn what_is_shared_in_a_target_too_small_stays_there() {
    for way in 0..3 {
        stays_in_a_target(|house| house.program("early_attach").number(way).number(SEGMENT));
    }
    for way in 0..5 {
        stays_in_a_target(|house| house.program("dup_before").number(way).number(SEGMENT));
    }
    stays_in_a_target(|house| house.program("mapped_before").number(SEGMENT));
    stays_in_a_target(|house| house.program("fork_before").arg("fork").number(SEGMENT));
    for lock in ["ofd", "posix", "flock"] {
        stays_in_a_target(|house| house.program("locked").arg(lock).number(SEGMENT));
    }
}

#[test]
fn a_mapping_made_before_sizing_shows_what_comes() {
    stays(|house| house.program("mapped_before").number(SEGMENT));
}

#[test]
fn an_open_file_description_lock_survives_sizing() {
    stays(|house| house.program("locked").arg("ofd").number(SEGMENT));
}

#[test]
fn a_posix_record_lock_survives_sizing() {
    stays(|house| house.program("locked").arg("posix").number(SEGMENT));
}

#[test]
fn a_flock_survives_sizing() {
    stays(|house| house.program("locked").arg("flock").number(SEGMENT));
}

#[test]
fn a_nameless_file_can_be_named_after_sizing() {
    stays(|house| house.program("tmpfile_linkat").number(SEGMENT));
}

#[test]
fn an_inherited_descriptor_is_not_moved_by_the_child() {
    for way in ["exec", "fork"] {
        stays_quietly(|house| house.program("received").arg(way).number(SEGMENT));
    }
}

#[test]
fn a_received_descriptor_is_not_moved_by_the_receiver() {
    stays_quietly(|house| house.program("received").arg("socket").number(SEGMENT));
}

#[test]
fn a_descriptor_in_flight_keeps_it_in_place() {
    stays(|house| house.program("received").arg("flight").number(SEGMENT));
}

/// As [`stays`], for programs that do not look at what the name is: only what they say counts.
#[track_caller]
fn agrees(describe: impl Fn(&House) -> Run + Sync) {
    let expected = baseline(&describe);
    for small in harness::SMALL {
        let outcome = in_small(small, &describe);
        assert_eq!(outcome.stdout, expected.stdout, "{small:?}: {outcome}");
    }
}

#[test]
fn an_attacher_that_races_with_the_sizing_sees_one_object() {
    for way in ["shm_open", "open", "nonblock"] {
        agrees(|house| house.program("race_attach").arg(way).number(SEGMENT).number(150));
    }
}

#[test]
fn a_rendezvous_by_shm_open_means_one_object() {
    agrees(|house| house.program("rendezvous").arg("shm_open").number(SEGMENT));
}

#[test]
fn a_rendezvous_by_open_means_one_object() {
    agrees(|house| house.program("rendezvous").arg("open").number(SEGMENT));
}

#[test]
fn named_semaphores_are_left_alone() {
    agrees(|house| house.program("semaphore"));
}

#[test]
fn files_elsewhere_are_left_alone() {
    agrees(|house| house.program("elsewhere").number(SEGMENT).arg(house.path("")));
}

#[test]
fn names_to_be_kept_are_kept_and_others_are_not() {
    house("size=8m", |house| {
        let kind = |name: &str| {
            let run = house.program("sparse").arg(name).number(SEGMENT).env("SHMGUARD_KEEP", "other:kept*");
            run.output().well().stdout
        };
        assert_eq!(kind("kept-1"), "name: regular file\n");
        assert_eq!(kind("other"), "name: regular file\n");
        assert_eq!(kind("another"), "name: link\n");
    });
}

#[test]
fn segments_that_get_pinned_go_to_memory_but_not_to_a_disk() {
    house("size=8m", |house| {
        let memory = house.tmpfs("memory", "size=1g");
        for name in ["nccl-x", "cudart.shm.1", "cuda.shm.1", "nvshmem1", "ucx_shm_posix_1"] {
            let kind = |targets: String| {
                let run = house.program("sparse").arg(name).number(SEGMENT).env("SHMGUARD_REDIRECT", targets);
                run.output().well().stdout
            };
            let (disk, memory) = (house.target().display().to_string(), memory.display().to_string());
            assert_eq!(kind(disk.clone()), "name: regular file\n", "{name}");
            assert_eq!(kind(format!("{disk}:{memory}")), "name: link\n", "{name}");
        }
        house.nothing_left();
    });
}

#[test]
fn what_exists_already_is_never_moved() {
    // Made by somebody else, empty, then opened and sized under the library.
    house("size=8m", |house| {
        for how in ["shm_open", "open"] {
            fs::write("/dev/shm/meet", b"").expect("an empty file");
            let before = fs::metadata("/dev/shm/meet").expect("its inode").ino();
            let mut run = house.program("resize_existing").arg(how).number(SEGMENT).start();
            run.line("sized");
            let after = fs::symlink_metadata("/dev/shm/meet").expect("it has its name");
            assert_eq!((after.ino(), after.len()), (before, SEGMENT));
            run.go_on();
            run.wait().well();
            fs::remove_file("/dev/shm/meet").expect("remove");
        }
        house.nothing_left();
    });
}

#[test]
fn small_segments_stay_where_they_are_while_there_is_room() {
    house("size=64m", |house| {
        for bytes in [1, 4096, MIB, 40 * MIB] {
            let run = house.program("sparse").arg("small").number(bytes.max(64 << 10));
            assert_eq!(run.output().well().silent().stdout, "name: regular file\n", "{bytes}");
        }
        assert_eq!(left_in(&house.target()), Vec::<String>::new());
    });
}

#[test]
fn the_decision_ends_when_the_pressure_ends() {
    house("size=8m", |house| {
        let kind = || house.program("sparse").arg("seg").number(MIB).output().well().stdout;
        assert_eq!(kind(), "name: regular file\n");
        fill_shm("/dev/shm/ballast".as_ref(), 7 * MIB + MIB * 3 / 4);
        assert_eq!(kind(), "name: link\n");
        fs::remove_file("/dev/shm/ballast").expect("remove");
        assert_eq!(kind(), "name: regular file\n");
        house.nothing_left();
    });
}

#[test]
fn what_was_written_before_the_first_mapping_is_not_lost() {
    // Up to 64 KiB are copied along; a segment that holds more stays.
    for head in [4096, 60 << 10] {
        agrees_but_for_kinds(|house| house.program("copied").number(head).number(SEGMENT).arg("all"));
    }
    for head in [4096, 60 << 10, 64 << 10, 128 << 10, MIB] {
        agrees_but_for_kinds(|house| house.program("copied").number(head).number(SEGMENT).arg("head"));
    }
}

/// The same observations, whatever the name is, where it need not have stayed and need not have moved.
#[track_caller]
fn agrees_but_for_kinds(describe: impl Fn(&House) -> Run + Sync) {
    let expected = baseline(&describe);
    for small in [Small::ToDisk, Small::ToMemory] {
        let outcome = in_small(small, &describe);
        assert_eq!(without_kinds(&outcome.stdout), without_kinds(&expected.stdout), "{small:?}: {outcome}");
    }
}

#[test]
fn a_segment_that_fitted_keeps_its_content_when_it_grows_beyond_what_fits() {
    for way in ["mapped", "unmapped", "closed"] {
        agrees_but_for_kinds(|house| house.program("grow_kept").arg(way).number(MIB).number(SEGMENT));
    }
}

#[test]
fn a_redirected_segment_keeps_its_content_when_it_grows_beyond_its_target() {
    for way in ["mapped", "unmapped", "closed"] {
        house("size=8m", |house| {
            let first = house.tmpfs("first", "size=16m");
            let targets = format!("{}:{}", first.display(), house.target().display());
            let run = house.program("grow_kept").arg(way).number(SEGMENT).number(2 * SEGMENT);
            run.env("SHMGUARD_REDIRECT", targets).output().well();
            assert_eq!(left_in(&first), Vec::<String>::new(), "{way}");
            house.nothing_left();
        });
    }
}

#[test]
fn other_directories_can_be_guarded() {
    house("size=8m", |house| {
        let other = house.tmpfs("other", "size=8m");
        let guards = format!("/dev/shm:{}", other.display());
        let run = |path: &std::path::Path| {
            house.program("by_path").arg(path).number(SEGMENT).env("SHMGUARD_GUARD", &guards).output().well()
        };
        assert_eq!(run(&other.join("seg")).stdout, "name: link\n");
        assert_eq!(run("/dev/shm/seg".as_ref()).stdout, "name: link\n");
        assert_eq!(left_in(&other), Vec::<String>::new());
        house.nothing_left();
    });
}

#[test]
fn two_containers_may_share_a_target_directory() {
    // Each has its own /dev/shm; neither may take the other's targets for garbage, even when their creator is gone.
    house("size=8m", |outer| {
        let disk = outer.ext4("disk", 200, &[]);
        let image = outer.path("disk.img");
        let (disk_text, image_text) = (disk.to_str().expect("plain"), image.to_str().expect("plain"));
        let hold = |house: &House, name: &str| {
            let run = house.program("hold").arg(name).number(SEGMENT).arg("600").number(7);
            let mut run = run.env("SHMGUARD_REDIRECT", &disk).start();
            run.line("ready");
            run
        };
        drop(hold(outer, "/outer")); // killed; its link and its target stay
        let outers = left_in(&disk);
        assert_eq!(outers.len(), 1);
        harness::tool("umount", &[disk_text], "apt-get install mount");
        let command = format!("set_inode_field /{} ctime 20200101000000", outers[0]);
        harness::tool("debugfs", &["-w", "-R", &command, image_text], "apt-get install e2fsprogs");
        harness::tool("mount", &["-o", "loop", image_text, disk_text], "apt-get install mount");
        house("size=8m", |inner| {
            let mut run = hold(inner, "/inner");
            assert_eq!(left_in(&disk).len(), 2, "the other container's target is gone");
            run.go_on();
            run.wait().well();
        });
        let said = outer
            .program("peer")
            .arg("/outer")
            .number(SEGMENT)
            .number(7)
            .env("SHMGUARD_REDIRECT", &disk)
            .output()
            .well();
        assert!(said.stdout.starts_with("shm_open read: content\n"), "{said}");
    });
}

#[test]
fn a_size_given_in_two_steps_is_served_as_one() {
    harness::same_everywhere("steps");
}

#[test]
fn segments_may_all_be_created_before_the_first_is_sized() {
    agrees(|house| house.program("many_unsized").number(100).number(MIB));
}
