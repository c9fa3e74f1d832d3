//! A run that died is explained: which process, which segment, how full, which cause.

use std::fs;
use std::path::Path;

use crate::harness::{self, house, House, MIB};
use crate::{path, report, run, start_with, stderr, wait_until};

#[test]
fn a_bus_error_is_explained() {
    house("size=16m", |house| {
        let name = "/dies-of-it";
        let bytes = (40 * MIB).to_string();
        for (mode, words) in [("off", "SHMGUARD_MODE=redirect"), ("observe", "SHMGUARD_MODE=redirect")] {
            // The child's death is learnt by its parent alone; with mode off nobody tells, so there CMD itself dies.
            let (output, report, who) = if mode == "off" {
                let (output, report) = report(house, &["--mode", mode, "--", &path("hold"), name, &bytes, "600", "1"]);
                assert_eq!(output.status.code(), Some(128 + 7), "{}", stderr(&output));
                assert_eq!(report["signal"], 7);
                fs::remove_file("/dev/shm/dies-of-it").expect("it left its name");
                (output, report, "hold")
            } else {
                let (output, report) = report(house, &["--mode", mode, "--", &path("child_dies"), name, &bytes]);
                assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
                (output, report, "child_dies")
            };
            let text = stderr(&output);
            let line =
                text.lines().find(|line| line.contains("died of SIGBUS")).unwrap_or_else(|| panic!("{mode}: {text}"));
            for word in [who, "dies-of-it (40.0 MiB promised", "/dev/shm", "16.0 MiB", words, "--shm-size=4"] {
                assert!(line.contains(word), "{mode}: {word}: {line}");
            }
            let death = &report["deaths"][0];
            assert_eq!((death["signal"].as_i64(), death["cause"].as_str()), (Some(7), Some("bytes")), "{report}");
            assert_eq!(death["segment"], "dies-of-it", "{report}");
        }
    });
}

#[test]
fn what_died_for_lack_of_room_is_never_told_that_there_was_enough() {
    // A segment that would fit, beside one that is too much, over before a look comes; in mode off nobody else tells.
    house("size=16m", |house| {
        for mode in ["off", "observe"] {
            let script = format!("{} 12582912 12582912; exit 3", path("several"));
            let output = run(house, &["--mode", mode, "--", "sh", "-c", &script]);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(3), "{text}");
            assert!(!text.contains("is large enough") && !text.contains("was not used"), "{mode}: {text}");
            for name in ["s0", "s1"] {
                let _ = fs::remove_file(Path::new("/dev/shm").join(name));
            }
        }
    });
}

#[test]
fn segments_of_dead_runs_are_named_as_the_cause() {
    house("size=16m", |house| {
        harness::fill_shm(Path::new("/dev/shm/of-a-dead-run"), 12 * MIB);
        let (output, report) =
            report(house, &["--mode", "off", "--", &path("fate"), "ftruncate", &(6 * MIB).to_string()]);
        assert_eq!(output.status.code(), Some(128 + 7), "{}", stderr(&output));
        assert_eq!(report["deaths"][0]["cause"], "stale", "{report}");
        assert!(stderr(&output).contains("12.0 MiB of that were there before it started"), "{}", stderr(&output));
    });
}

#[test]
fn a_bus_error_that_is_none_of_shared_memory_is_not_blamed_on_it() {
    house("size=16m", |house| {
        let (output, report) = report(house, &["--", "sh", "-c", "kill -BUS $$"]);
        assert_eq!(output.status.code(), Some(128 + 7));
        assert_eq!(report["deaths"][0]["cause"], "none", "{report}");
        assert!(stderr(&output).contains("does not seem to be the cause"), "{}", stderr(&output));
    });
}

#[test]
fn causes_other_than_bytes_are_named() {
    house("size=16m,nr_inodes=20", |house| {
        let script = "i=0; while : > /dev/shm/file-$i; do i=$((i+1)); done; sleep 1; exit 1";
        let output = run(house, &["--", "sh", "-c", script]);
        assert!(stderr(&output).contains("no inode left (20 files)"), "{}", stderr(&output));
    });
    house("", |house| {
        house.own_dev();
        let output = run(house, &["--", "sh", "-c", "exit 1"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("/dev/shm was not there"), "{}", stderr(&output));
    });
    house("size=16m", |house| {
        let output = run(house, &["--mode", "refuse", "--", &path("fate"), "ftruncate", &(40 * MIB).to_string()]);
        assert_eq!(output.status.code(), Some(0), "it was told, and took it: {}", stderr(&output));
        assert!(stderr(&output).contains("1 refused"), "{}", stderr(&output));
    });
}

#[test]
fn what_was_refused_is_not_told_as_had_or_as_redirected() {
    house("size=16m", |house| {
        let (fate, bytes) = (path("fate"), (40 * MIB).to_string());
        let output = run(house, &["--mode", "refuse", "--", &fate, "ftruncate", &bytes]);
        let text = stderr(&output);
        assert!(
            text.contains("to have nothing refused: --shm-size=") && !text.contains("without redirection"),
            "{text}"
        );
        assert!(!text.contains("by program"), "{text}");
        // With a log of all events, and beside a program that had something.
        let script = format!("{} /had {MIB} 600 1 unlink; {fate} ftruncate {bytes}", path("hold"));
        let (output, _) = report(house, &["--mode", "refuse", "--", "sh", "-c", &script]);
        let text = stderr(&output);
        let line = text.lines().find(|line| line.contains("by program: ")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("1.0 MiB") && !line.contains(" 0 B"), "{line}");
        let redirected = run(house, &["--", &fate, "ftruncate", &bytes]);
        assert!(stderr(&redirected).contains("to do without redirection: --shm-size="), "{}", stderr(&redirected));
    });
}

/// Runs a shell script that reaches a limit, says "ready", makes a new file in /dev/shm every tenth of a second and fails when
/// it is told to; until a good number of looks are in the log. Returns the summary.
fn summary_of_failure(house: &House, script: &str) -> String {
    let log = house.path("log");
    let log_text = log.to_str().expect("a plain path").to_owned();
    let script = format!(
        "{script}; (while :; do i=$((i+1)); head -c $((i*4096)) /dev/zero > /dev/shm/grows; sleep 0.1; done) & child=$!; \
         echo ready; read line; kill $child; rm -f /dev/shm/grows; exit 1"
    );
    let (mut child, _lines, line) = start_with(house, &["--log", &log_text, "--", "bash", "-c", &script]);
    assert_eq!(line, "ready\n");
    let looks = || harness::read_log(&log).iter().filter(|event| event["ev"] == "sample").count();
    let before = looks();
    // Limits are looked at every fifth time.
    wait_until("ten more looks", || looks() > before + 10);
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"go\n").expect("it listens");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut text).expect("read");
    assert_eq!(child.wait().expect("an end").code(), Some(1), "{text}");
    text
}

#[test]
fn limits_that_have_nothing_to_do_with_bytes_are_named() {
    house("size=32m", |house| {
        let script = "ulimit -n 40; for n in {3..9}; do eval \"exec $n</dev/null\"; done; for n in {1..28}; do exec {fd}</dev/null; done";
        let text = summary_of_failure(house, script);
        assert!(text.contains(" of 40 descriptors open") && text.contains("ulimit -n"), "{text}");
    });
}

#[test]
fn a_process_without_a_mapping_left_is_explained_however_short_it_lives() {
    house("size=32m", |house| {
        let output = run(house, &["--", &path("many_mappings")]);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let text = stderr(&output);
        let summary =
            text.get(text.find("ended with status 3").unwrap_or_else(|| panic!("{text}"))..).expect("a boundary");
        let line = summary.lines().find(|line| line.contains("vm.max_map_count")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("cannot be mapped") && line.contains("sysctl -w vm.max_map_count="), "{line}");
    });
}

/// A memory cgroup of its own, with a limit, of version 1 or 2; removed at the end.
struct Cgroup(std::path::PathBuf);

impl Cgroup {
    fn new(limit: u64) -> Cgroup {
        let name = format!("shmguard-test-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (top, file) =
            if v1.is_dir() { (v1, "memory.limit_in_bytes") } else { (Path::new("/sys/fs/cgroup"), "memory.max") };
        let path = top.join(name);
        let made = fs::create_dir(&path).and_then(|()| fs::write(path.join(file), limit.to_string()));
        made.unwrap_or_else(|error| {
            let _ = fs::remove_dir(&path);
            panic!(
                "no memory cgroup can be made at {} ({error}): run the tests as root, where cgroups can be written",
                path.display()
            )
        });
        Cgroup(path)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its last process may not be quite gone.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

#[test]
fn a_kill_by_the_memory_cgroup_is_explained() {
    house("size=512m", |house| {
        let cgroup = Cgroup::new(64 * MIB);
        let hold = path("hold");
        // The command itself is in the cgroup, as in a container. The segment has no name, so that the kill frees its memory: else
        // the kernel would go on and kill the command, whose next page does not fit either.
        let bytes = (300 * MIB).to_string();
        let run = crate::command(house, &["--mode", "off", "--", &hold, "/eats", &bytes, "600", "1", "nameless"]);
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cgroup.0.display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &join, "sh"]).arg(run.get_program()).args(run.get_args()).env_clear().current_dir("/");
        for (name, value) in run.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        let output = shell.stdin(std::process::Stdio::null()).output().expect("the command runs");
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(128 + 9), "{text}");
        let line = text.lines().find(|line| line.contains("died of SIGKILL")).unwrap_or_else(|| panic!("{text}"));
        for word in ["hold", "the memory cgroup (limit 64.0 MiB) was out of memory", "SHMGUARD_REDIRECT"] {
            assert!(line.contains(word), "{word}: {line}");
        }
    });
}
