//! What the library costs where it is none of its business: counted, never timed.

mod harness;

use std::collections::BTreeMap;
use std::fs;

use harness::{house, left_in, tool, House, Run, MIB};

/// User-space instructions that an anonymous mmap+munmap pair may cost more.
const MOST_INSTRUCTIONS: u64 = 40;
/// Private memory that a process may have more, in KiB.
const MOST_PRIVATE: i64 = 400;

/// Instructions of one round of `anonymous`, by callgrind: the difference of two runs that differ by 1000 rounds.
fn instructions_per_round(house: &House, library: bool) -> u64 {
    tool("valgrind", &["--version"], "apt-get install valgrind");
    let count = |rounds: u64| -> u64 {
        let run = house.program("anonymous").number(rounds);
        let run = if library { run } else { run.without_library() };
        let outcome = run
            .under(&["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes"])
            .output()
            .well();
        let collected = outcome.stderr.lines().filter_map(|line| line.split("Collected : ").nth(1)).next_back();
        collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count; {outcome}"))
    };
    let (less, more) = (count(1000), count(2000));
    assert_eq!((more - less) % 1000, 0, "each round is the same");
    (more - less) / 1000
}

#[test]
fn an_anonymous_mmap_and_munmap_cost_few_instructions_more() {
    house("size=64m", |house| {
        let without = instructions_per_round(house, false);
        let with = instructions_per_round(house, true);
        println!("{without} instructions a pair without the library, {with} with it");
        assert!(with <= without + MOST_INSTRUCTIONS, "{without} without, {with} with the library");
    });
}

/// System calls of `calls` by section, with what strace shows of each up to its first parenthesis.
fn system_calls(house: &House, library: bool, touched: bool) -> BTreeMap<String, Vec<String>> {
    tool("strace", &["-V"], "apt-get install strace");
    let trace = house.path("trace");
    let mut run = house.program("calls").arg(house.path("ordinary"));
    if touched {
        run = run.arg("touched");
    }
    let run = if library { run } else { run.without_library() };
    run.under(&["strace", "-f", "-o", trace.to_str().expect("plain")]).output().well();
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut section = None;
    let text = fs::read_to_string(&trace).expect("strace's output");
    // The program's own calls; its child's come in between in whatever order.
    let pid = text.split_whitespace().next().expect("strace -f puts the process in front");
    for line in text.lines().filter(|line| line.split_whitespace().next() == Some(pid)) {
        let call = line.split_whitespace().nth(1).unwrap_or("").split('(').next().unwrap_or("").to_owned();
        if let Some(name) = line.split("write(1, \"== ").nth(1) {
            section = name.split("\\n").next().map(str::to_owned);
            sections.entry(section.clone().expect("a name")).or_default();
        } else if let Some(section) = &section {
            // "<... wait4 resumed>", "+++ exited" and signals are parts of calls seen already.
            if call.chars().next().is_some_and(char::is_alphabetic) {
                sections.get_mut(section).expect("made above").push(call);
            }
        }
    }
    sections.remove("end");
    assert_eq!(sections.len(), 11, "sections: {sections:?}");
    sections
}

#[test]
fn calls_on_other_files_make_no_other_system_calls() {
    for touched in [false, true] {
        house("size=64m", |house| {
            let without = system_calls(house, false, touched);
            let with = system_calls(house, true, touched);
            for (section, expected) in &without {
                let mut found = with[section].clone();
                // The one exception: an fstat in a sizing call and in mmap of a shared file.
                if ["ftruncate", "posix_fallocate", "fallocate", "shared mmap"].contains(&section.as_str()) {
                    let stats = |calls: &[String]| {
                        calls.iter().filter(|call| *call == "fstat" || *call == "newfstatat").count()
                    };
                    assert!(stats(&found) <= stats(expected) + 1, "touched {touched}, {section}: {found:?}");
                    found.retain(|call| call != "fstat" && call != "newfstatat");
                }
                assert_eq!(&found, expected, "touched {touched}, section {section}");
            }
        });
    }
}

/// `self` with and without the library, in the same house: what it says without its last line, and its private memory.
fn what_it_is_made_of(house: &House, shape: impl Fn(Run) -> Run) -> [(String, i64); 2] {
    [false, true].map(|library| {
        let run = shape(house.program("self"));
        let outcome = if library { run } else { run.without_library() }.output().well();
        let (rest, private) = outcome.stdout.trim_end().rsplit_once("private: ").expect("a line of private memory");
        (rest.to_owned(), private.parse().expect("KiB"))
    })
}

#[test]
fn a_process_has_no_descriptor_and_no_thread_more() {
    for bytes in [None, Some(MIB), Some(96 * MIB)] {
        house("size=64m", |house| {
            if bytes == Some(96 * MIB) {
                // Redirected: no baseline in this /dev/shm. It must look as one that used no shared memory.
                let plain = house.program("self").without_library().output().well().stdout;
                let moved = house.program("self").arg("touched").number(96 * MIB).output().well().stdout;
                let parts = |stdout: &str| stdout.split("private").next().map(str::to_owned);
                assert_eq!(parts(&moved), parts(&plain));
                return;
            }
            let [without, with] = what_it_is_made_of(house, |run| match bytes {
                None => run,
                Some(bytes) => run.arg("touched").number(bytes),
            });
            assert_eq!(with.0, without.0);
        });
    }
}

#[test]
fn a_process_has_little_private_memory_more() {
    house("size=64m", |house| {
        for touched in [false, true] {
            // Another process has the library loaded, as it is in an image: its text is shared then.
            let mut other = house.program("hold").arg("/other").number(4096).arg("600").number(1).arg("unlink").start();
            other.line("ready");
            let [without, with] =
                what_it_is_made_of(house, |run| if touched { run.arg("touched").number(MIB) } else { run });
            println!("touched {touched}: {} KiB private without the library, {} with it", without.1, with.1);
            assert!(with.1 <= without.1 + MOST_PRIVATE, "{} KiB without, {} with it", without.1, with.1);
            other.go_on();
            other.wait().well();
        }
    });
}

#[test]
fn a_process_that_uses_no_shared_memory_leaves_no_trace() {
    house("size=64m", |house| {
        fs::create_dir(house.path("log")).expect("a directory");
        let run = house.program("anonymous").number(1).env("SHMGUARD_HELLO", "1").env("SHMGUARD_BUDGET", "lots");
        let outcome = run.env("SHMGUARD_LOG", house.path("log")).output().well();
        outcome.silent();
        for place in ["log", "state", "target"] {
            assert_eq!(left_in(&house.path(place)), Vec::<String>::new(), "{place}");
        }
    });
}

#[test]
fn starting_a_process_opens_nothing_but_the_library() {
    house("size=64m", |house| {
        let opened = |library: bool| {
            let trace = house.path("trace");
            let run = house.program("anonymous").number(1);
            let run = if library { run } else { run.without_library() };
            // Only the program's own calls: what follows the execve of env's successor.
            run.under(&["strace", "-f", "-e", "trace=execve,openat,open", "-o", trace.to_str().expect("plain")])
                .output()
                .well();
            let text = fs::read_to_string(&trace).expect("strace's output");
            let start = text.rfind("execve(").expect("it was started");
            let paths: Vec<String> = text[start..]
                .lines()
                .skip(1)
                .filter(|line| !line.contains("ENOENT"))
                .filter_map(|line| line.split('"').nth(1).map(str::to_owned))
                .collect();
            paths
        };
        let expected = opened(false);
        let more: Vec<String> = opened(true).into_iter().filter(|path| !expected.contains(path)).collect();
        let library = harness::library().to_str().expect("plain");
        let allowed = |path: &str| path == library || path.ends_with("/libgcc_s.so.1");
        assert!(more.iter().all(|path| allowed(path)), "opened too: {more:?}");
        assert!(more.iter().any(|path| path == library), "it was not loaded: {more:?}");
    });
}
