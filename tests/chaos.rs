//! Dozens of processes make, fill, check, share and remove segments while others are killed at random, targets fill and empty,
//! and the tmpfs is remounted larger and smaller. At the end: no wrong byte was read, nobody met a SIGBUS, and nothing is left
//! but what killed processes leave anyway, which `shmguard clean` removes.
//!
//! `CHAOS_SECONDS` (default 25) says for how long, `CHAOS_SEED` (hexadecimal) repeats a run's choices. A failed run prints its seed; how the
//! processes interleave is the kernel's choice and not repeated.

mod harness;

use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use harness::{house, left_in, open_to_all, read_log, House, Running, MIB};
use rustix::process::Signal;
use shmguard_core::config::TargetSpec;
use shmguard_core::garbage;
use shmguard_core::guard::Guard;
use shmguard_core::process::Owner;

/// Processes at a time.
const SLOTS: usize = 24;
/// The largest segment: a quarter of the tmpfs at its smallest.
const LARGEST: u64 = 4 * MIB;
/// The tmpfs at its smallest and largest, in MiB.
const SIZES: std::ops::Range<u64> = 16..40;
/// The target in memory, in MiB.
const MEMORY: u64 = 48;

/// xorshift64*: the same choices for the same seed.
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

struct Chaos<'a> {
    house: &'a House,
    choices: Choices,
    targets: Vec<PathBuf>,
    workers: Vec<Option<Running>>,
    kills: u64,
    remounts: u64,
}

impl Chaos<'_> {
    fn start(&mut self, slot: usize) {
        let redirect = format!("{}:{}@120m", self.targets[0].display(), self.targets[1].display());
        let run = self.house.program("chaos_worker").number(slot as u64).number(SLOTS as u64);
        let run = run.arg(format!("{:x}", self.choices.next())).number(LARGEST);
        let run = run.arg(self.house.path("stop")).arg(self.house.path("sockets"));
        let run = run.env("SHMGUARD_REDIRECT", redirect).env("SHMGUARD_LOG", self.house.path("log"));
        self.workers[slot] = Some(run.env("SHMGUARD_QUIET", "1").start());
    }

    fn kill(&mut self, slot: usize) {
        let Some(worker) = self.workers[slot].take() else { return };
        worker.signal(Signal::KILL);
        // Had it ended by itself it would have found something wrong.
        worker.wait().killed_by(Signal::KILL);
        self.kills += 1;
    }

    fn remount(&mut self) {
        let used = self.house.shm_used().div_ceil(MIB);
        let size = (SIZES.start + self.choices.below(SIZES.end - SIZES.start)).max(used + 1);
        let data = CString::new(format!("size={size}m")).expect("no NUL");
        // More may have come into use meanwhile: then the kernel refuses.
        let flags = rustix::mount::MountFlags::empty();
        if rustix::mount::mount_remount("/dev/shm", flags, data.as_c_str()).is_ok() {
            self.remounts += 1;
        }
    }

    /// Fills the target in memory to some point, or empties it again.
    fn ballast(&mut self) {
        let path = self.targets[0].join("ballast");
        if path.exists() {
            fs::remove_file(path).expect("removed");
            return;
        }
        let mut file = fs::File::create(path).expect("a file");
        let piece = vec![1u8; MIB as usize];
        for _ in 0..self.choices.below(MEMORY) {
            if file.write_all(&piece).is_err() {
                break;
            }
        }
    }

    fn collect(&self) {
        let guard = Guard::open(c"/dev/shm").expect("/dev/shm");
        let spec =
            |path: &PathBuf| TargetSpec { path: CString::new(path.as_os_str().as_bytes()).expect("no NUL"), cap: None };
        let specs: Vec<TargetSpec> = self.targets.iter().map(spec).collect();
        for orphan in garbage::find(&guard, &specs, &Owner::current(), garbage::YOUNG_SECONDS).orphans {
            // A living process may have removed it first.
            garbage::remove(&guard, &specs, &orphan);
        }
    }

    fn step(&mut self) {
        match self.choices.below(10) {
            0 | 1 => self.remount(),
            2 => self.ballast(),
            3 => self.collect(),
            _ => {
                let slot = self.choices.below(SLOTS as u64) as usize;
                self.kill(slot);
                self.start(slot);
            }
        }
        std::thread::sleep(Duration::from_millis(20 + self.choices.below(100)));
    }

    /// What the processes that were killed last have left: their names, and nothing else after `shmguard clean`.
    fn check_leftovers(&self, killed: &[usize]) {
        // Not of this very second any more.
        std::thread::sleep(Duration::from_secs(2));
        let redirect = format!("{}:{}", self.targets[0].display(), self.targets[1].display());
        let cleaned = Command::new(env!("CARGO_BIN_EXE_shmguard"))
            .args(["clean", "--yes", "--young", "0"])
            .env("SHMGUARD_REDIRECT", redirect)
            .env("SHMGUARD_STATE", self.house.path("state"))
            .output()
            .expect("the command runs");
        assert!(cleaned.status.success(), "{cleaned:?}");
        let mut linked = Vec::new();
        for name in left_in(Path::new("/dev/shm")) {
            let mut parts = name.strip_prefix("torch_").unwrap_or(&name).splitn(3, '-');
            let (kind, slot, rest) = (parts.next(), parts.next(), parts.next().unwrap_or(""));
            let slot: Option<usize> = slot.and_then(|slot| slot.parse().ok());
            // Names by mkstemp are left by any kill: nobody knows them. The others were removed by the slot's next process.
            let left = kind == Some("chaos") && slot.is_some_and(|slot| rest.len() == 6 || killed.contains(&slot));
            assert!(left, "{name} is left in /dev/shm");
            let path = Path::new("/dev/shm").join(&name);
            if let Ok(target) = fs::read_link(&path) {
                assert!(target.is_file(), "{name} dangles");
                linked.push(target);
            }
        }
        for target in &self.targets {
            for name in left_in(target) {
                assert!(
                    name == "ballast" || linked.contains(&target.join(&name)),
                    "{name} has no link and was not collected"
                );
            }
        }
    }

    fn remove_leftovers(&self) {
        let names = left_in(Path::new("/dev/shm"));
        let paths = names.iter().map(|name| Path::new("/dev/shm").join(name));
        let redirect = format!("{}:{}", self.targets[0].display(), self.targets[1].display());
        let remove = self.house.program("shell").arg("rm").arg("-f");
        paths.fold(remove, |run, path| run.arg(path)).env("SHMGUARD_REDIRECT", redirect).output().well();
        let _ = fs::remove_file(self.targets[0].join("ballast"));
        for place in [Path::new("/dev/shm"), &self.targets[0], &self.targets[1]] {
            assert_eq!(left_in(place), Vec::<String>::new(), "left in {}", place.display());
        }
        assert_eq!(self.house.shm_used(), 0, "memory is held in /dev/shm that belongs to nothing");
    }
}

#[test]
fn nothing_is_lost_wrong_or_left_whatever_happens_at_once() {
    let seconds =
        variable("CHAOS_SECONDS").map_or(25, |text| text.parse().expect("CHAOS_SECONDS is a number of seconds"));
    let seed = match variable("CHAOS_SEED") {
        Some(text) => u64::from_str_radix(&text, 16).expect("CHAOS_SEED is hexadecimal"),
        None => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_nanos() as u64,
    };
    println!("CHAOS_SEED={seed:x} CHAOS_SECONDS={seconds}");
    house("size=24m", |house| {
        let memory = house.tmpfs("memory", &format!("size={MEMORY}m"));
        for name in ["sockets", "log"] {
            fs::create_dir(house.path(name)).expect("a directory");
            open_to_all(&house.path(name), 0o1777);
        }
        let mut chaos = Chaos {
            house,
            choices: Choices(seed | 1),
            targets: vec![memory, house.target()],
            workers: (0..SLOTS).map(|_| None).collect(),
            kills: 0,
            remounts: 0,
        };
        (0..SLOTS).for_each(|slot| chaos.start(slot));
        let began = Instant::now();
        let mut steps = 0;
        // Steps as well as seconds: on a slow machine something must have happened too.
        while began.elapsed() < Duration::from_secs(seconds) || steps < 100 {
            chaos.step();
            steps += 1;
        }
        let killed = [1, 5, 7, 16, 20];
        killed.iter().for_each(|slot| chaos.kill(*slot));
        fs::write(house.path("stop"), "").expect("the word to stop");
        let mut sums = std::collections::BTreeMap::<String, u64>::new();
        for worker in chaos.workers.iter_mut().filter_map(Option::take) {
            let said = worker.wait().well().stdout;
            let words: Vec<&str> = said.split_whitespace().collect();
            for pair in words.chunks_exact(2) {
                *sums.entry(pair[0].to_owned()).or_default() += pair[1].parse::<u64>().expect("a number");
            }
        }
        println!("{} kills, {} remounts, of the survivors {sums:?}", chaos.kills, chaos.remounts);
        chaos.check_leftovers(&killed);
        chaos.remove_leftovers();
        for what in ["made", "redirected", "held", "attached", "passed", "received", "foreign"] {
            assert!(sums.get(what).is_some_and(|count| *count > 0), "nothing was ever {what}: {sums:?}");
        }
        assert!(chaos.kills > 10 && chaos.remounts > 3, "{} kills, {} remounts", chaos.kills, chaos.remounts);
        assert!(!read_log(&house.path("log")).is_empty(), "each line is whole, whoever was killed");
    });
}
