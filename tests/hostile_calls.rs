//! What the hooked calls answer at the edges: errno, descriptors, sandboxes, executable and locked memory.

mod harness;

use std::path::Path;

use harness::{baseline, fill_shm, house, in_small, same, House, Small, MIB, SEGMENT, SMALL};

#[test]
fn errno_is_what_it_would_have_been_after_every_call() {
    same(|house| house.program("hostile_errno").number(SEGMENT).arg(house.path("")));
}

#[test]
fn descriptors_have_their_numbers_and_survive_closefrom_and_exhaustion() {
    same(|house| house.program("hostile_descriptors").number(SEGMENT));
}

#[test]
fn a_sandboxed_process_lives_in_strict_mode() {
    same(|house| house.program("hostile_seccomp").arg("strict").number(SEGMENT));
}

#[test]
fn a_sandboxed_process_makes_its_own_calls_and_at_most_one_fstat_more() {
    for way in ["few", "few-syscall"] {
        same(|house| house.program("hostile_seccomp").arg(way).number(SEGMENT));
    }
}

#[test]
fn a_sandboxed_process_may_exit() {
    for way in ["exit", "exit-syscall"] {
        same(|house| house.program("hostile_seccomp").arg(way).number(SEGMENT));
    }
}

#[test]
fn a_program_keeps_its_own_handler_of_sigbus() {
    let describe = |house: &House| house.program("hostile_sigbus").number(SEGMENT);
    assert!(baseline(describe).stdout.ends_with("faults 0, strange ones 0\n"));
    // What may not be moved faults in a small /dev/shm, with the library as without it.
    house("size=8m", |house| {
        let expected = describe(house).without_library().output().well().silent();
        assert!(expected.stdout.ends_with("faults 3, strange ones 0\n"), "{expected}");
        assert_eq!(describe(house).output().well().stdout, expected.stdout);
    });
}

#[test]
fn machine_code_runs_from_a_segment_wherever_it_went() {
    let describe = |house: &House| house.program("hostile_executable").number(SEGMENT);
    let expected = baseline(describe);
    assert_eq!(expected.stdout, "ran: 42\nname: regular file\n");
    for small in SMALL {
        assert_eq!(in_small(small, describe).stdout, "ran: 42\nname: link\n", "{small:?}");
    }
}

#[test]
fn machine_code_never_moves_to_a_noexec_file_system() {
    for full in [false, true] {
        house("size=8m", |house| {
            if full {
                fill_shm(Path::new("/dev/shm/ballast"), 7 * MIB + MIB * 3 / 4);
            }
            let noexec = house.tmpfs("noexec", "size=1g,noexec");
            let run =
                |targets: String| house.program("hostile_executable").number(SEGMENT).env("SHMGUARD_REDIRECT", targets);
            let only = noexec.display().to_string();
            assert_eq!(run(only.clone()).output().well().stdout, "ran: 42\nname: regular file\n", "full: {full}");
            let next = format!("{only}:{}", house.target().display());
            assert_eq!(run(next).output().well().stdout, "ran: 42\nname: link\n", "full: {full}");
        });
    }
    // Where /dev/shm itself is noexec, as in Docker, nothing is lost.
    house("size=64m,noexec", |house| {
        let expected = house.program("hostile_executable").number(SEGMENT).without_library().output().well();
        assert!(expected.stdout.starts_with("mmap: "), "{expected}");
        assert_eq!(house.program("hostile_executable").number(SEGMENT).output().well().stdout, expected.stdout);
    });
}

#[test]
fn memory_can_be_locked_and_in_memory_also_pinned() {
    let describe = |house: &House| house.program("hostile_locked").number(SEGMENT);
    let expected = baseline(describe);
    assert!(expected.stdout.ends_with("pinned: works\n"), "kernel.io_uring_disabled must be 0; {expected}");
    assert_eq!(in_small(Small::ToMemory, describe).stdout, expected.stdout);
    // A disk's file system refuses long-term pins (docs/architecture.md); what is known to get pinned never goes there.
    for small in [Small::ToDisk, Small::Full] {
        let outcome = in_small(small, describe);
        assert_eq!(
            outcome.stdout,
            expected.stdout.replace("pinned: works", "pinned: Bad address"),
            "{small:?}: {outcome}"
        );
    }
}
