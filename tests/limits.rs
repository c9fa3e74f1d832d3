//! Where things go when there is little room: many segments alive at once, targets that are full, capped or used up, the
//! modes, the budget, and what is promised about segments that fit: nobody can take their pages away, and a margin is
//! left for strangers.

mod harness;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::{fill_shm, house, left_in, House, MIB, SEGMENT};
use rustix::process::Signal;

/// Which directory each redirected name of `/dev/shm` leads into; names that stayed are under `/dev/shm`.
fn whereabouts() -> BTreeMap<String, PathBuf> {
    left_in(Path::new("/dev/shm"))
        .into_iter()
        .map(|name| {
            let path = Path::new("/dev/shm").join(&name);
            let place = match fs::read_link(&path) {
                Ok(target) => target.parent().expect("a link's text is a path").to_path_buf(),
                Err(_) => PathBuf::from("/dev/shm"),
            };
            (name, place)
        })
        .collect()
}

/// Bytes in use on the file system of a directory.
fn used(directory: &Path) -> u64 {
    let stat = rustix::fs::statvfs(directory).expect("statvfs");
    (stat.f_blocks - stat.f_bfree) * stat.f_frsize
}

/// Runs `several` with these sizes, looks where its segments are while it waits, and lets it check every byte.
fn places(house: &House, targets: &str, budget: Option<&str>, sizes: &[u64]) -> BTreeMap<String, PathBuf> {
    let mut run = house.program("several").env("SHMGUARD_REDIRECT", targets);
    if let Some(budget) = budget {
        run = run.env("SHMGUARD_BUDGET", budget);
    }
    for &size in sizes {
        run = run.number(size);
    }
    let mut run = run.start();
    run.line("ready");
    let places = whereabouts();
    run.go_on();
    run.wait().well();
    places
}

#[test]
fn twenty_times_the_docker_default_is_alive_at_once() {
    house("size=64m", |house| {
        // 1.3 GB of memory for a moment. The library refuses RAM that the machine does not have.
        let target = house.tmpfs("memory", "size=2g");
        let run = house.program("many").number(1).number(80).number(16 * MIB).env("SHMGUARD_REDIRECT", &target);
        assert_eq!(run.output().well().stdout, format!("80 segments, {} bytes alive\n", 20 * 64 * MIB));
        house.nothing_left();
        assert_eq!(left_in(&target), Vec::<String>::new());
    });
}

#[test]
fn four_workers_hold_twenty_times_the_tmpfs_on_a_disk() {
    house("size=8m", |house| {
        house.program("many").number(4).number(20).number(2 * MIB).output().well();
        house.nothing_left();
    });
    house("size=1g", |house| {
        house.program("many").number(4).number(20).number(2 * MIB).without_library().output().well();
    });
}

#[test]
fn threads_and_forks_at_once_lose_nothing() {
    // Where all is redirected when it is made; where all fits. (What is created while there seems to be room and sized
    // after a fork in another thread can only stay: see tests/stays.rs.)
    let stress = |house: &House| house.program("stress").number(4).number(60).number(3 * MIB).arg("forks");
    harness::in_small(harness::Small::Full, stress);
    house("size=64m", |house| {
        stress(house).output().well();
        house.nothing_left();
    });
    // Without forks, from a /dev/shm that is empty at first.
    house("size=8m", |house| {
        house.program("stress").number(4).number(100).number(3 * MIB).output().well();
        house.nothing_left();
    });
}

#[test]
fn a_full_target_leads_to_the_next_one() {
    house("size=8m", |house| {
        let first = house.tmpfs("first", "size=16m");
        let targets = format!("{}:{}", first.display(), house.target().display());
        let places = places(house, &targets, None, &[SEGMENT, SEGMENT, SEGMENT]);
        assert_eq!(places["s0"], first);
        assert_eq!(places["s1"], house.target());
        assert_eq!(places["s2"], house.target());
        house.nothing_left();
        assert_eq!(left_in(&first), Vec::<String>::new());
    });
}

#[test]
fn what_was_made_in_a_target_that_cannot_hold_it_moves_on() {
    house("size=8m", |house| {
        fill_shm(Path::new("/dev/shm/ballast"), 8 * MIB);
        let first = house.tmpfs("first", "size=16m");
        let targets = format!("{}:{}", first.display(), house.target().display());
        // The second is expected to be as large as the first and is made where that would fit; its size is news.
        let places = places(house, &targets, None, &[6 * MIB, SEGMENT]);
        assert_eq!(places["s0"], first);
        assert_eq!(places["s1"], house.target());
        assert_eq!(left_in(&first), Vec::<String>::new());
        assert_eq!(left_in(&house.target()), Vec::<String>::new());
    });
}

#[test]
fn a_target_that_vanished_leads_to_the_next_one() {
    house("size=8m", |house| {
        let first = house.path("first");
        fs::create_dir(&first).expect("a directory");
        let mut run = house
            .program("twice")
            .number(SEGMENT)
            .env("SHMGUARD_REDIRECT", format!("{}:{}", first.display(), house.target().display()))
            .start();
        run.line("one is gone");
        fs::remove_dir(&first).expect("the directory is empty again");
        run.go_on();
        run.line("another is there");
        assert_eq!(whereabouts()["twice"], house.target());
        run.go_on();
        run.wait().well();
        house.nothing_left();
    });
}

#[test]
fn a_cap_is_kept() {
    house("size=8m", |house| {
        let first = house.path("first");
        fs::create_dir(&first).expect("a directory");
        let targets = format!("{}@30m:{}", first.display(), house.target().display());
        let places = places(house, &targets, None, &[SEGMENT, SEGMENT, SEGMENT]);
        assert_eq!(places["s0"], first);
        assert_eq!(places["s1"], first);
        assert_eq!(places["s2"], house.target(), "36 MiB would be more than 30m");
    });
}

#[test]
fn a_cap_counts_what_other_processes_have_there() {
    house("size=8m", |house| {
        let first = house.path("first");
        fs::create_dir(&first).expect("a directory");
        let targets = format!("{}@30m:{}", first.display(), house.target().display());
        // Nameless segments of another process: seen only through its descriptors and mappings.
        let mut other = house.program("nameless").number(2).number(SEGMENT).env("SHMGUARD_REDIRECT", &targets).start();
        other.line("ready");
        let places = places(house, &targets, None, &[SEGMENT]);
        assert_eq!(places["s0"], house.target());
        other.go_on();
        other.wait().well();
    });
}

#[test]
fn a_disk_is_not_filled_beyond_nine_tenths() {
    house("size=8m", |house| {
        let disk = house.ext4("disk", 100, &[]);
        let targets = format!("{}:{}", disk.display(), house.target().display());
        let mut run = house.program("several").env("SHMGUARD_REDIRECT", &targets);
        for _ in 0..9 {
            run = run.number(SEGMENT);
        }
        let mut run = run.start();
        run.line("ready");
        let stat = rustix::fs::statvfs(&disk).expect("statvfs");
        assert!(used(&disk) * 10 <= stat.f_blocks * stat.f_frsize * 9, "{} of the disk used", used(&disk));
        let places = whereabouts();
        assert_eq!(places["s0"], disk);
        assert_eq!(places["s8"], house.target());
        run.go_on();
        run.wait().well();
    });
}

#[test]
fn what_no_target_can_take_gets_the_kernels_own_answer_and_a_reason() {
    house("size=8m", |house| {
        let little = house.tmpfs("little", "size=4m");
        let run = |sizing| house.program("fate").arg(sizing).number(SEGMENT).env("SHMGUARD_REDIRECT", &little);
        let outcome = run("ftruncate").output().killed_by(Signal::BUS);
        assert_eq!(outcome.stdout, format!("ftruncate: 0, errno 77, size {SEGMENT}\n"));
        let line = outcome.said_once(&[little.to_str().expect("plain")]);
        assert!(line.contains("/dev/shm"), "{line}");
    });
    house("size=8m", |house| {
        let little = house.tmpfs("little", "size=4m");
        let run = |sizing| house.program("fate").arg(sizing).number(SEGMENT).env("SHMGUARD_REDIRECT", &little);
        // The result and errno too: PyTorch reads errno there.
        let outcome = run("posix_fallocate").output().well();
        assert_eq!(outcome.stdout, "posix_fallocate: 28, errno 28, size 0\n");
        outcome.said_once(&[little.to_str().expect("plain")]);
        let outcome = run("fallocate").output().well();
        assert_eq!(outcome.stdout, "fallocate: -1, errno 28, size 0\n");
    });
}

#[test]
fn observe_changes_nothing_and_warns_beforehand() {
    for (sizing, kernel) in
        [("posix_fallocate", "posix_fallocate: 28, errno "), ("fallocate", "fallocate: -1, errno 28, size 0\n")]
    {
        house("size=8m", |house| {
            let run = house.program("fate").arg(sizing).number(SEGMENT).env("SHMGUARD_MODE", "observe");
            let outcome = run.output().well();
            assert!(outcome.stdout.starts_with(kernel) && outcome.stdout.ends_with(", size 0\n"), "{outcome}");
            assert!(!outcome.said().is_empty(), "{outcome}");
        });
    }
    house("size=8m", |house| {
        let run = house.program("fate").arg("ftruncate").number(SEGMENT).env("SHMGUARD_MODE", "observe");
        let outcome = run.output().killed_by(Signal::BUS);
        assert!(!outcome.said().is_empty(), "the warning came before the death; {outcome}");
        house.nothing_left();
    });
}

#[test]
fn refuse_answers_enospc_when_it_is_sized() {
    house("size=8m", |house| {
        let run = |sizing, bytes| house.program("fate").arg(sizing).number(bytes).env("SHMGUARD_MODE", "refuse");
        let outcome = run("ftruncate", SEGMENT).output().well();
        assert_eq!(outcome.stdout, "ftruncate: -1, errno 28, size 0\n");
        assert!(!outcome.said().is_empty(), "{outcome}");
        assert_eq!(run("posix_fallocate", SEGMENT).output().well().stdout, "posix_fallocate: 28, errno 28, size 0\n");
        assert_eq!(run("fallocate", SEGMENT).output().well().stdout, "fallocate: -1, errno 28, size 0\n");
        // What fits is not refused.
        let outcome = run("ftruncate", 4 * MIB).output().well();
        assert!(outcome.stdout.ends_with("written\n"), "{outcome}");
        house.nothing_left();
    });
}

#[test]
fn off_and_excluded_programs_are_as_if_there_were_no_library() {
    for (name, value) in
        [("SHMGUARD_MODE", "off"), ("SHMGUARD_PROGRAMS", "python*:other"), ("SHMGUARD_PROGRAMS", "!fate*:!java")]
    {
        house("size=8m", |house| {
            let run = house.program("fate").arg("ftruncate").number(SEGMENT).env(name, value);
            run.output().killed_by(Signal::BUS).silent();
            assert_eq!(left_in(&house.path("state")), Vec::<String>::new(), "{name}={value}");
        });
    }
}

#[test]
fn included_programs_are_served() {
    for value in ["fate*", "other:f?te-*", "!java:!postgres", "!other"] {
        house("size=8m", |house| {
            let run = house.program("fate").arg("ftruncate").number(SEGMENT).env("SHMGUARD_PROGRAMS", value);
            let outcome = run.output();
            assert_eq!(outcome.code, Some(0), "SHMGUARD_PROGRAMS={value}; {outcome}");
        });
    }
}

#[test]
fn redirect_none_moves_nothing_and_warns() {
    house("size=8m", |house| {
        let run = house.program("fate").arg("ftruncate").number(SEGMENT).env("SHMGUARD_REDIRECT", "none");
        let outcome = run.output().killed_by(Signal::BUS);
        assert!(!outcome.said().is_empty(), "{outcome}");
    });
}

#[test]
fn the_default_target_is_var_tmp() {
    house("size=8m", |house| {
        let mut run = house.program("several").number(SEGMENT).env_remove("SHMGUARD_REDIRECT").start();
        run.line("ready");
        assert_eq!(whereabouts()["s0"], Path::new("/var/tmp"));
        run.go_on();
        run.wait().well();
    });
}

#[test]
fn pytorchs_imaginary_variable_means_the_first_target() {
    house("size=8m", |house| {
        let wished = house.path("wished");
        fs::create_dir(&wished).expect("a directory");
        let place = |run: harness::Run| {
            let mut run = run.env("TORCH_SHARED_MEMORY_PATH", &wished).number(SEGMENT).start();
            run.line("ready");
            let place = whereabouts()["s0"].clone();
            run.go_on();
            run.wait().well();
            place
        };
        assert_eq!(place(house.program("several").env_remove("SHMGUARD_REDIRECT")), wished);
        assert_eq!(place(house.program("several")), house.target(), "SHMGUARD_REDIRECT goes first");
    });
}

#[test]
fn the_budget_decides_how_full_it_becomes() {
    let shm = PathBuf::from("/dev/shm");
    for (budget, stay) in [("40%", 1), ("50%", 2), ("20m", 1), ("40m", 2), ("0.04g", 2), ("4g", 3), ("100%", 3)] {
        house("size=64m", |house| {
            let target = house.target();
            let found = places(house, target.to_str().expect("plain"), Some(budget), &[16 * MIB; 3]);
            let expected: Vec<&PathBuf> = (0..3).map(|i| if i < stay { &shm } else { &target }).collect();
            assert_eq!(found.values().collect::<Vec<_>>(), expected, "budget {budget}");
        });
    }
}

#[test]
fn promised_pages_count_before_they_are_touched() {
    // Two segments that fit alone but not together, neither touched yet.
    house("size=64m", |house| {
        let hold = |name| house.program("untouched").arg(name).number(40 * MIB).start();
        let mut first = hold("/first");
        first.line("sized");
        let mut second = hold("/second");
        second.line("sized");
        let places = whereabouts();
        assert_eq!(places["first"], Path::new("/dev/shm"));
        assert_eq!(places["second"], house.target());
        for mut run in [second, first] {
            run.go_on();
            assert_eq!(run.wait().well().stdout, "sized\nwritten\n");
        }
        house.nothing_left();
    });
}

#[test]
fn nobody_can_take_the_pages_of_a_segment_that_fits() {
    // What is written afterwards by a stranger fills all that is left; the segment's own pages are reserved.
    let death = |library: bool| {
        let mut outcome = None;
        house("size=64m", |house| {
            let run = house.program("untouched").arg("/seg").number(32 * MIB);
            let mut run = if library { run.start() } else { run.without_library().start() };
            run.line("sized");
            assert_eq!(whereabouts()["seg"], Path::new("/dev/shm"));
            let filled = fs::write("/dev/shm/stranger", vec![1; 70 * MIB as usize]);
            assert!(filled.is_err(), "the stranger could not fill it");
            run.go_on();
            outcome = Some(run.wait());
        });
        outcome.expect("the house ran")
    };
    death(false).killed_by(Signal::BUS);
    assert_eq!(death(true).well().stdout, "sized\nwritten\n");
}

#[test]
fn a_stranger_that_needs_a_few_pages_never_dies() {
    // Without the library a posix_fallocate that fails has first taken every free page, and the stranger dies of it.
    house("size=64m", |house| {
        fill_shm(Path::new("/dev/shm/ballast"), 40 * MIB);
        let mut stranger = house.program("bystander").without_library().start();
        stranger.line("running");
        for bytes in [30 * MIB, 25 * MIB, 23 * MIB, 19 * MIB, 100 * MIB] {
            house.program("demand").number(60).number(bytes).output().well();
        }
        stranger.go_on();
        let outcome = stranger.wait().well();
        assert!(outcome.stdout.ends_with("lived\n"), "{outcome}");
        assert_eq!(left_in(Path::new("/dev/shm")), ["ballast"]);
    });
}

#[test]
fn segments_that_fit_leave_the_margin() {
    // 1/16 of the tmpfs, at least 256 KiB, stays for semaphores and strangers however many segments there are.
    for (options, margin) in [("size=64m", 4 * MIB), ("size=2m", 256 << 10)] {
        house(options, |house| {
            let mut run = house.program("several");
            for _ in 0..40 {
                run = run.number(2 * margin);
            }
            let mut run = run.start();
            run.line("ready");
            let stat = rustix::fs::statvfs("/dev/shm").expect("statvfs");
            assert!(stat.f_bfree * stat.f_frsize >= margin, "{options}: {} free", stat.f_bfree * stat.f_frsize);
            assert!(whereabouts().values().any(|place| place == Path::new("/dev/shm")), "none stayed");
            run.go_on();
            run.wait().well();
        });
    }
}

#[test]
fn a_segment_larger_than_everything_stays_as_sparse_as_it_was() {
    // 1 TiB promised, 64 KiB touched: no target can reserve it; the program works as without the library.
    house("size=8m", |house| {
        let run = house.program("sparse").arg("/huge").number(1 << 40);
        assert_eq!(run.output().well().stdout, "name: regular file\n");
        house.nothing_left();
    });
}

#[test]
fn names_known_to_be_sparse_are_not_reserved() {
    house("size=64m", |house| {
        for name in ["pulse-shm-1", "vader_segment.x", "sm_segment.x", "plasmaXXX"] {
            let mut run = house.program("untouched").arg(name).number(32 * MIB).start();
            run.line("sized");
            assert!(house.shm_used() < MIB, "{name}: {} bytes held", house.shm_used());
            run.go_on();
            run.wait().well();
        }
    });
}

#[test]
fn names_to_be_kept_are_not_reserved() {
    house("size=64m", |house| {
        let run = |name: &str| house.program("untouched").arg(name).number(32 * MIB).env("SHMGUARD_KEEP", "kept*");
        for (name, reserved) in [("kept-1", false), ("other", true)] {
            let mut run = run(name).start();
            run.line("sized");
            assert_eq!(house.shm_used() >= 32 * MIB, reserved, "{name}: {} bytes held", house.shm_used());
            run.go_on();
            run.wait().well();
        }
    });
}

#[test]
fn what_is_large_beside_the_machine_is_not_reserved() {
    // At most 1 GiB: the rest of such a segment may never be used, and its pages are memory of the machine.
    house("size=4g", |house| {
        let mut run = house.program("untouched").arg("/large").number(1100 * MIB).start();
        run.line("sized");
        assert!(house.shm_used() < MIB, "{} bytes held", house.shm_used());
        drop(run); // it is not to touch all that
    });
}

#[test]
fn where_there_is_a_gpu_half_is_left_to_what_gets_pinned() {
    for device in ["nvidiactl", "kfd"] {
        house("", |house| {
            house.own_dev();
            fs::create_dir("/dev/shm").expect("a directory");
            house.mount_shm("size=64m");
            let places = |house: &House| {
                let found = places(house, house.target().to_str().expect("plain"), None, &[24 * MIB, 24 * MIB]);
                found.into_values().collect::<Vec<_>>()
            };
            let (shm, target) = (PathBuf::from("/dev/shm"), house.target());
            assert_eq!(places(house), [shm.clone(), shm.clone()], "48 of 64 MiB fit where there is none");
            harness::tool("mknod", &[&format!("/dev/{device}"), "c", "1", "3"], "apt-get install coreutils");
            assert_eq!(places(house), [shm.clone(), target], "{device}");
            // What gets pinned may use the other half.
            let mut pinned = house.program("untouched").arg("nccl-x").number(48 * MIB).start();
            pinned.line("sized");
            assert_eq!(whereabouts()["nccl-x"], shm);
            pinned.go_on();
            pinned.wait().well();
        });
    }
}

#[test]
fn what_may_be_mapped_for_execution_does_not_go_where_that_is_forbidden() {
    house("size=8m", |house| {
        let noexec = house.tmpfs("noexec", "size=100m,noexec");
        let targets = format!("{}:{}", noexec.display(), house.target().display());
        let outcome = house.program("mappings").number(SEGMENT).env("SHMGUARD_REDIRECT", targets).output().well();
        assert!(outcome.stdout.contains("ran: 42\n"), "{outcome}");
        house.nothing_left();
    });
}
