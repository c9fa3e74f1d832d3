//! A container that is killed and started again and again: its root, and the targets in it, outlive its /dev/shm and all its
//! processes. What a life leaves is gone when a later one has redirected something, wherever the collection of another was killed.
//!
//! A life here has what makes one in an engine: an overlay as root that stays, and mounts, pid namespace and tmpfs of its own.
//! Their numbers come back (an inode number of a pid namespace in every second life), which is part of the test.

mod harness;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use harness::{house, left_in, library, open_to_all, program_file, House, Outcome, Run, MIB};

/// Each segment: more than the tmpfs of a life holds.
const BYTES: u64 = 12 * MIB;

/// Mounts what a life needs and becomes its process 1: life ROOT PADS BUILT BUILT COMMAND... PADS more tmpfs are mounted before
/// its /dev/shm, so that that gets another device number than in the life before, and they perhaps get that one. The two
/// directories BUILT hold library and programs and may be mounts, which an overlay does not show.
const LIFE: &str = r#"
set -e
root=$1 pads=$2
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/merged"
for built in "$3" "$4"; do
    mkdir -p "$root/merged$built"
    mount --bind "$built" "$root/merged$built"
done
shift 4
cd "$root/merged"
while [ "$pads" -gt 0 ]; do
    mkdir -p "pad/$pads"
    mount -t tmpfs -o size=1m pad "pad/$pads"
    pads=$((pads - 1))
done
mount -t tmpfs -o mode=755,size=1m dev dev
mkdir dev/shm
mount -t tmpfs -o mode=1777,size=8m shm dev/shm
mount -t proc proc proc
exec chroot . setpriv --bounding-set -sys_ptrace "$@"
"#;

/// A container: what of it stays between its lives.
struct Container<'h> {
    house: &'h House,
    root: PathBuf,
}

impl<'h> Container<'h> {
    fn new(house: &'h House) -> Container<'h> {
        let root = house.tmpfs("container", "size=1g");
        for directory in ["upper", "work", "merged", "upper/targets", "upper/state"] {
            fs::create_dir(root.join(directory)).expect("a directory of the container");
            open_to_all(&root.join(directory), 0o755);
        }
        Container { house, root }
    }

    /// A life in which WORDS start `lives`, with other numbers than the life before has had.
    fn life(&self, number: u32, words: &[&str]) -> Run {
        let root = self.root.to_str().expect("a plain path");
        let pads = (number % 3).to_string();
        let directory = |file: &Path| file.parent().expect("a directory").to_str().expect("a plain path").to_owned();
        let (libraries, programs) = (directory(library()), directory(&program_file("kill_at")));
        let start = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", LIFE, "sh"];
        let under: Vec<&str> = [&start[..], &[root, &pads, &libraries, &programs], words].concat();
        self.house
            .program("lives")
            .under(&under)
            .env("SHMGUARD_REDIRECT", "/targets")
            .env("SHMGUARD_STATE", "/state")
            .env("SHMGUARD_QUIET", "1")
    }

    /// A life of two workers that is killed in the middle of its epoch: they have redirected `EACH` segments each.
    fn killed_in_mid_epoch(&self, number: u32, how: &str) {
        let mut life = self.life(number, &[]).arg(how).number(EACH).number(BYTES).arg("2").start();
        life.line("ready");
        drop(life);
    }

    fn targets(&self) -> BTreeSet<String> {
        left_in(&self.root.join("upper/targets")).into_iter().collect()
    }
}

/// Segments of one process.
const EACH: u64 = 2;

#[test]
fn what_a_life_leaves_is_gone_in_the_next_one() {
    house("size=8m", |house| {
        let container = Container::new(house);
        let mut before = BTreeSet::new();
        for number in 0..9 {
            container.killed_in_mid_epoch(number, "workers");
            let targets = container.targets();
            let when = format!("after life {number}: {targets:#?}, before it {before:#?}");
            assert_eq!(targets.len() as u64, 2 * EACH, "{when}");
            assert!(targets.is_disjoint(&before), "{when}");
            before = targets;
        }
    });
}

#[test]
fn a_process_that_may_not_be_looked_at_does_not_keep_what_earlier_lives_left() {
    // As that of an engine which enters the container for `docker exec` or a health check.
    house("size=8m", |house| {
        let container = Container::new(house);
        let mut before = BTreeSet::new();
        for number in 0..9 {
            container.killed_in_mid_epoch(number, "veiled");
            let targets = container.targets();
            let when = format!("after life {number}: {targets:#?}, before it {before:#?}");
            assert_eq!(targets.len() as u64, 2 * EACH, "{when}");
            assert!(targets.is_disjoint(&before), "{when}");
            before = targets;
        }
    });
}

/// The text of the marker that says whose turn it is to collect, or when that is due again.
fn marker(container: &Container) -> Option<String> {
    let mut texts = Vec::new();
    for top in fs::read_dir(container.root.join("upper/state")).expect("the state directory").flatten() {
        for ledger in fs::read_dir(top.path()).expect("ledgers").flatten() {
            for name in left_in(&ledger.path()).iter().filter(|name| name.starts_with("once.turn.garbage.")) {
                texts.push(fs::read_link(ledger.path().join(name)).expect("a link").to_str().expect("text").to_owned());
            }
        }
    }
    assert!(texts.len() < 2, "the ledgers of dead lives stay: {texts:?}");
    texts.pop()
}

/// What was there when a life was killed in its first redirect, in the middle of its collection or elsewhere.
#[derive(Debug)]
struct Killed {
    /// How many targets of the life before are still there.
    left: u64,
    marker: Option<String>,
}

impl Killed {
    fn has_begun(&self) -> bool {
        self.marker.as_ref().is_some_and(|text| text.starts_with("begun ")) || self.left == 0
    }

    fn has_ended(&self) -> bool {
        self.marker.as_ref().is_some_and(|text| text.starts_with("due ")) && self.left == 0
    }
}

/// A whole life, and one of a single process that WORDS start and kill.
fn killed_by(container: &Container, words: &[&str]) -> (Killed, Outcome) {
    // The numbers of the two alternate, so that the calls of the second are much the same each time.
    container.killed_in_mid_epoch(0, "workers");
    let before = container.targets();
    // Also of the one that was killed before: nothing has outlived this life.
    assert_eq!(before.len() as u64, 2 * EACH, "before {words:?}: {before:#?}");
    let life = container.life(1, words).arg("alone").arg("1").number(BYTES).output();
    let left = container.targets().intersection(&before).count() as u64;
    (Killed { left, marker: marker(container) }, life)
}

/// At the entry of its `point`-th call.
fn killed_at(container: &Container, point: u32) -> Killed {
    let tracer = program_file("kill_at");
    let (killed, life) = killed_by(container, &[tracer.to_str().expect("a plain path"), &point.to_string()]);
    assert!(life.stdout.starts_with("killed before "), "point {point}: {life}");
    killed
}

#[test]
fn wherever_a_collection_is_killed_the_next_life_ends_it() {
    house("size=8m", |house| {
        let container = Container::new(house);
        // The calls before it begins are far more than those that differ from life to life.
        let (mut first, mut begun) = (1, 400);
        assert!(killed_at(&container, begun).has_begun(), "it begins later: look farther");
        while first < begun {
            let middle = (first + begun) / 2;
            match killed_at(&container, middle).has_begun() {
                true => begun = middle,
                false => first = middle + 1,
            }
        }
        // Some lives have more to look at than others: it is over when it was over many times in a row.
        let (mut points, mut over, mut inside) = (0, 0, 0);
        while over < 15 {
            let killed = killed_at(&container, first + points);
            over = if killed.has_ended() { over + 1 } else { 0 };
            inside += u32::from(killed.has_begun() && !killed.has_ended());
            points += 1;
            assert!(points < 1000, "no end: {killed:?}");
        }
        println!("{points} points from call {first} on, {inside} of them in the middle of a collection");
        assert!(inside > 30, "{inside} of {points} points");
    });
}

#[test]
fn a_collection_that_is_killed_between_two_removals_is_taken_up() {
    house("size=8m", |house| {
        harness::tool("strace", &["-V"], "apt-get install strace");
        let container = Container::new(house);
        let mut between = 0;
        for number in 1.. {
            let inject = format!("inject=unlinkat:signal=SIGKILL:when={number}");
            let (killed, life) = killed_by(&container, &["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject]);
            between += u32::from(killed.left > 0 && killed.left < 2 * EACH);
            if (life.code, life.signal) == (Some(0), None) {
                assert_eq!(killed.left, 0, "{life}");
                break;
            }
        }
        assert!(between >= 3, "of {} targets: {between} times", 2 * EACH);
    });
}

#[test]
fn what_lives_on_in_a_tmpfs_that_may_not_be_looked_at_is_kept_and_goes_with_it() {
    house("size=8m", |house| {
        let container = Container::new(house);
        let mut life = container.life(0, &[]).arg("private").number(EACH).number(BYTES).arg("2").start();
        let kept = life.line("kept ");
        let kept = kept.strip_prefix("kept ").expect("a name").to_owned();
        life.line("ready");
        assert!(container.targets().contains(&kept), "its link is still there, in another mount namespace");
        // It is looked at again before the minute is over, since the process that is in the way may go.
        let text = marker(&container).expect("somebody has collected");
        let tries: u32 = text.rsplit(' ').next().and_then(|tries| tries.parse().ok()).expect("a number");
        assert!(text.starts_with("due ") && tries > 0, "{text}");
        // The process is killed, and with it goes its tmpfs; the others go on.
        life.go_on();
        life.line("gone");
        assert!(!container.targets().contains(&kept));
        assert_eq!(container.targets().len() as u64, 2 * EACH);
    });
}
