//! The library is a guest in every process of an image: in cancelled threads, sandboxes, vfork children, signal handlers,
//! allocators being born, beside other preloaded libraries. Nothing of that may go otherwise than without it.

mod harness;

use std::fs;

use harness::{baseline, house, in_small, program_file, same_everywhere, House, Run, Small, MIB, SEGMENT, SMALL};

/// The program says the same without the library in a large `/dev/shm` and with it in every kind of small one.
#[track_caller]
fn same(describe: impl Fn(&House) -> Run + Sync) {
    let expected = baseline(&describe);
    assert_ne!(expected.stdout, "", "the program observes something");
    for small in SMALL {
        let outcome = in_small(small, &describe);
        assert_eq!(outcome.stdout, expected.stdout, "{small:?}; {outcome}");
    }
}

#[test]
fn cancelled_threads_end_as_cancelled() {
    same(|house| house.program("cancel").arg(house.path("")));
}

#[test]
fn a_sandboxed_process_is_not_killed_for_calls_it_did_not_make() {
    same(|house| house.program("sandbox").number(SEGMENT));
}

#[test]
fn a_vfork_child_does_not_harm_its_parent() {
    same_everywhere("vfork_child");
}

#[test]
fn the_smallest_stacks_are_large_enough() {
    // 8 segments of 3 MiB in 8 MiB: some stay, some move, some are links from the beginning.
    same(|house| house.program("small_stack").number(3 * MIB));
}

#[test]
fn a_signal_handler_may_use_shared_memory_while_the_program_does() {
    same(|house| house.program("signals").number(60).number(5 * MIB));
}

#[test]
fn shared_memory_may_be_used_before_main_and_after_it() {
    same_everywhere("early_late");
}

#[test]
fn the_programs_own_getenv_and_a_lost_environment_do_not_matter() {
    same_everywhere("environment");
}

#[test]
fn a_process_that_gives_up_its_rights_goes_on_with_its_own() {
    same_everywhere("rights");
}

#[test]
fn an_allocator_is_never_entered_from_inside_of_itself() {
    let allocator = program_file("strict_allocator");
    same(|house| house.program("allocating").number(3 * MIB).preload_after(&allocator));
    same(|house| house.program("allocating").number(3 * MIB).preload_before(&allocator));
}

#[test]
fn another_preloaded_library_goes_on_working() {
    // Behind ours it sees the calls for what is not redirected; in front of ours it sees all, and passes them on to ours.
    let other = program_file("counting_preload");
    for before in [false, true] {
        house("size=64m", |house| {
            let counts = house.path("counts");
            let run = house.program("early_late").number(MIB).env("COUNTS", &counts);
            let run = if before { run.preload_before(&other) } else { run.preload_after(&other) };
            run.output().well();
            let said = fs::read_to_string(&counts).expect("the other library's counts");
            // Of the program itself; its parts before main may come before our constructor.
            let opens: u32 = number_after(&said, "shm_open ");
            let truncates: u32 = number_after(&said, "ftruncate ");
            assert!(opens >= 6 && truncates >= 3, "before {before}: {said}");
            house.nothing_left();
        });
    }
    for before in [false, true] {
        let outcome = in_small(Small::ToDisk, |house| {
            let run = house.program("early_late").number(SEGMENT).env("COUNTS", house.path("counts"));
            if before {
                run.preload_before(&other)
            } else {
                run.preload_after(&other)
            }
        });
        assert!(outcome.stdout.contains("exit handler"), "{outcome}");
    }
}

/// The number behind `word` in the last line of a text.
fn number_after(text: &str, word: &str) -> u32 {
    let line = text.lines().last().expect("a line");
    let digits = line.split(word).nth(1).unwrap_or_else(|| panic!("no {word:?} in {line}"));
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn shells_and_tools_say_the_same_under_the_library() {
    // One line of shell with pipes, subshells, redirections, here documents, and tools that fork and vfork.
    let script = "set -e; cd /; x=1; f() { echo $((x + 1)); }; f | cat; (exec 3>&1; echo three >&3); \
        printf '%s\\n' b a | sort | xargs -n1 echo; cat <<END\nhere\nEND\nfor i in 1 2 3; do env true; done; \
        timeout 5 true; echo $(id -u) | tr 0 z; wc -c < /proc/version > /dev/null; kill -0 $$; echo done";
    for shell in ["sh", "bash"] {
        house("size=8m", |house| {
            let run = || house.program("shell").arg(shell).arg("-c").arg(script);
            let expected = run().without_library().output().well();
            assert!(expected.stdout.ends_with("done\n"), "{expected}");
            let outcome = run().output().well().silent();
            assert_eq!(outcome.stdout, expected.stdout);
        });
    }
}

#[test]
fn nothing_of_the_leases_is_to_be_seen() {
    same_everywhere("quiet_signals");
}

#[test]
fn a_program_under_valgrind_has_its_segments() {
    // valgrind unmaps the vDSO, counts descriptors of its own and delivers signals later.
    harness::tool("valgrind", &["--version"], "apt-get install valgrind");
    for tool in ["--tool=memcheck", "--tool=none"] {
        let words = ["valgrind", "-q", "--error-exitcode=9", tool];
        let describe =
            |house: &House| house.program("segment").arg("shm_open").arg("ftruncate").number(12 * MIB).under(&words);
        let expected = harness::baseline(describe);
        house("size=8m", |house| {
            let outcome = describe(house).output().well();
            assert_eq!(outcome.stdout, expected.stdout, "{tool}: {outcome}");
            outcome.said_some(&["goes to"]);
            house.nothing_left();
        });
    }
}
