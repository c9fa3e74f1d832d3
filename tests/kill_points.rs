//! A process that dies of SIGKILL at any moment of a redirect leaves nothing but what a killed program would have left anyway
//! (its own name in /dev/shm, here a link and its target) and what the next collection of garbage removes.
//!
//! Every moment: `kill_at` ends the program at the entry of its n-th system call, for n = 1, 2, … until it gets to its end.

mod harness;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use harness::{house, left_in, program_file, House, MIB};
use shmguard_core::config::TargetSpec;
use shmguard_core::garbage;
use shmguard_core::guard::Guard;
use shmguard_core::process::Owner;
use shmguard_core::target::Label;

/// Twice what the tmpfs of these tests holds.
const BYTES: u64 = 2 * MIB;
/// Far above what a life takes; one that never ends is a failure.
const MOST_CALLS: u64 = 5000;

/// One way to live, and what it must have been seen to leave when it was killed somewhere: otherwise the points were not reached.
struct Life {
    how: &'static str,
    shm: &'static str,
    targets: &'static [(&'static str, &'static str)],
    must_see: &'static [&'static str],
}

fn targets(house: &House, life: &Life) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for (name, options) in life.targets {
        let path = if options.starts_with("size=") { house.tmpfs(name, options) } else { house.path(name) };
        let spec =
            if options.starts_with('@') { format!("{}{options}", path.display()) } else { path.display().to_string() };
        all.push((path, spec));
    }
    all
}

fn collect(targets: &[(PathBuf, String)]) -> usize {
    let guard = Guard::open(c"/dev/shm").expect("/dev/shm");
    let specs: Vec<TargetSpec> = targets
        .iter()
        .map(|(path, _)| TargetSpec { path: CString::new(path.as_os_str().as_bytes()).expect("no NUL"), cap: None })
        .collect();
    // One second before "now", so that a file of this very second is not young.
    let orphans = garbage::find(&guard, &specs, &Owner::current(), -1).orphans;
    for orphan in &orphans {
        assert!(garbage::remove(&guard, &specs, orphan), "{orphan:?} cannot be removed");
    }
    orphans.len()
}

/// Everything in /dev/shm and the targets, by kind; panics at what should never be there.
fn leftovers(targets: &[(PathBuf, String)], when: &str) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    let mut linked = Vec::new();
    for name in left_in(Path::new("/dev/shm")) {
        let path = Path::new("/dev/shm").join(&name);
        let link = fs::read_link(&path).ok();
        if let Some(target) = &link {
            let file = fs::symlink_metadata(target).unwrap_or_else(|error| panic!("{when}: {name} dangles: {error}"));
            assert!(file.is_file() && targets.iter().any(|(path, _)| target.starts_with(path)), "{when}: {name}");
            linked.push(target.clone());
        }
        kinds.push(match (name.as_str(), link) {
            ("torch_victim" | "other", None) => "file",
            ("torch_victim" | "other", Some(_)) => "link",
            (temporary, None) if temporary.starts_with(".shmguard-") => "temporary file",
            (temporary, Some(_)) if temporary.starts_with(".shmguard-") => "temporary link",
            ("bystander" | "bystanders-own", _) => continue,
            _ => panic!("{when}: {name} in /dev/shm"),
        });
    }
    for (target, _) in targets {
        for name in left_in(target) {
            assert!(Label::parse(name.as_bytes()).is_some(), "{when}: {name} in {}", target.display());
            if !linked.contains(&target.join(&name)) {
                kinds.push("target without a link");
            }
        }
    }
    kinds
}

/// Device, inode and size of what the name leads to.
fn under_the_name() -> Option<(u64, u64, u64)> {
    fs::metadata("/dev/shm/torch_victim").ok().map(|meta| (meta.dev(), meta.ino(), meta.len()))
}

fn killed_everywhere(life: &Life) {
    house(life.shm, |house| {
        let targets = targets(house, life);
        let redirect = targets.iter().map(|(_, spec)| spec.as_str()).collect::<Vec<_>>().join(":");
        let run = |how: &str| house.program("kill_life").arg(how).number(BYTES).env("SHMGUARD_REDIRECT", &redirect);
        // Another's redirected segment and another's small file: both must be as they were, after everything.
        run("keep").output().well();
        let bystander = fs::read_link("/dev/shm/bystander").expect("the bystander's segment was redirected");
        let bystanders_file = fs::metadata(&bystander).expect("its file").ino();
        fs::write("/dev/shm/bystanders-own", vec![5u8; 4096]).expect("a small file");
        let used = house.shm_used();

        let tracer = program_file("kill_at");
        let tracer = tracer.to_str().expect("a plain path");
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        let mut n = 0;
        loop {
            n += 1;
            assert!(n < MOST_CALLS, "{}: no end", life.how);
            let outcome = run(life.how).env("SHMGUARD_QUIET", "1").under(&[tracer, &n.to_string()]).output().well();
            if outcome.stdout.starts_with("ended after ") {
                break;
            }
            let when = format!("{}: {}", life.how, outcome.stdout.trim_end());
            for kind in leftovers(&targets, &when) {
                *seen.entry(kind).or_default() += 1;
            }
            // What there is under the name is the same before and after the collection, and good for another process.
            let before = under_the_name();
            collect(&targets);
            assert_eq!(under_the_name(), before, "{when}: the collection changed it");
            run("look").output().well();
            let left = leftovers(&targets, &when);
            assert!(left.iter().all(|kind| matches!(*kind, "file" | "link")), "{when}: after the collection: {left:?}");
            run("after").output().well();
            // A segment that was to be renamed is still there under its first name.
            if Path::new("/dev/shm/other").exists() {
                fs::remove_file("/dev/shm/other").expect("removed");
                collect(&targets);
            }
            let left = leftovers(&targets, &when);
            assert!(left.is_empty(), "{when}: after the next life: {left:?}");
            assert_eq!(house.shm_used(), used, "{when}: memory is lost in /dev/shm");
            assert_eq!(fs::metadata(&bystander).expect("the bystander's file").ino(), bystanders_file, "{when}");
            assert_eq!(fs::read("/dev/shm/bystanders-own").expect("its file"), [5u8; 4096], "{when}");
            ledger_is_clear(house, &when);
        }
        run("kept").output().well();
        assert!(leftovers(&targets, "at the end").is_empty());
        println!("{}: {} points, left behind: {seen:?}", life.how, n - 1);
        for kind in life.must_see {
            assert!(seen.contains_key(kind), "{}: never saw a {kind} left behind in {n} points: {seen:?}", life.how);
        }
    });
}

/// The last process that used /dev/shm has ended: neither records nor claims nor sums of the dead remain.
fn ledger_is_clear(house: &House, when: &str) {
    let top = house.path("state").join("shmguard-ledger-0");
    for ledger in left_in(&top) {
        let left = left_in(&top.join(&ledger));
        assert!(left.is_empty(), "{when}: left in the ledger: {left:?}");
    }
}

#[test]
fn of_a_segment_that_is_exchanged_when_it_is_sized() {
    killed_everywhere(&Life {
        how: "named",
        shm: "size=1m",
        targets: &[("target", "")],
        must_see: &["file", "link", "temporary file", "temporary link", "target without a link"],
    });
}

#[test]
fn of_a_nameless_segment() {
    killed_everywhere(&Life {
        how: "nameless",
        shm: "size=1m",
        targets: &[("memory", "size=64m")],
        must_see: &["target without a link"],
    });
}

#[test]
fn of_a_segment_that_is_a_link_from_the_beginning() {
    killed_everywhere(&Life {
        how: "small",
        shm: "size=1m",
        targets: &[("target", "")],
        must_see: &["link", "target without a link"],
    });
}

#[test]
fn of_a_segment_that_another_one_replaces() {
    killed_everywhere(&Life {
        how: "renamed",
        shm: "size=1m",
        targets: &[("memory", "size=64m")],
        must_see: &["link", "target without a link"],
    });
}

#[test]
fn of_a_segment_that_moves_on_from_a_full_target() {
    killed_everywhere(&Life {
        how: "moving",
        shm: "size=1m",
        targets: &[("little", "size=2m"), ("target", "")],
        must_see: &["link", "temporary link", "target without a link"],
    });
}
