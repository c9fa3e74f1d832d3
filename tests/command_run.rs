//! `shmguard run`: ends as CMD did, passes on signals, reaps, gives a private /dev/shm, says what was used and why it died.

mod harness;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use harness::{house, left_in, library, program_file, House, Program, MIB};
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;

/// `shmguard run WORDS`, with the house's directories and the library under test.
fn command(house: &House, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command
        .arg("run")
        .args(words)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .env("SHMGUARD_LIB", library())
        .env("SHMGUARD_REDIRECT", house.target())
        .env("SHMGUARD_STATE", house.path("state"))
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

fn run(house: &House, words: &[&str]) -> Output {
    let output = command(house, words).output().expect("the command runs");
    assert_eq!(left_in(&house.path("state")), Vec::<String>::new(), "the run's directory is left");
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn path(program: impl Into<Program>) -> String {
    program_file(program).to_str().expect("a plain path").to_owned()
}

/// Runs with `--report` and returns the object.
fn report(house: &House, words: &[&str]) -> (Output, Value) {
    let file = house.path("report.json");
    let file_text = file.to_str().expect("a plain path").to_owned();
    let output = run(house, &[&["--report", &file_text], words].concat());
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    (output, serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn it_ends_as_its_command_did() {
    house("size=8m", |house| {
        for (words, code) in [
            (&["--", "true"][..], 0),
            (&["--", "sh", "-c", "exit 3"], 3),
            (&["--", "sh", "-c", "kill -KILL $$"], 128 + 9),
            (&["--", "sh", "-c", "kill -SEGV $$"], 128 + 11),
            (&["--", "/no/such/program"], 127),
            (&["--", "no-such-program-in-the-path"], 127),
            (&["--", "/etc/passwd"], 126),
            (&[], 2),
            (&["--mode", "sideways", "--", "true"], 2),
            (&["--shm-size", "0", "--", "true"], 2),
            (&["--report", "x.txt", "--", "true"], 2),
            (&["--no-such-option", "--", "true"], 2),
        ] {
            let output = run(house, words);
            assert_eq!(output.status.code(), Some(code), "{words:?}: {}", stderr(&output));
            assert_eq!(stdout(&output), "", "{words:?}");
        }
        let mut without = command(house, &["--", "true"]);
        let output = without.env("SHMGUARD_LIB", "/no/such/library.so").output().expect("the command runs");
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(stderr(&output).contains("/no/such/library.so"), "{}", stderr(&output));
    });
}

#[test]
fn a_script_without_an_interpreter_line_runs_as_in_a_shell() {
    house("size=8m", |house| {
        let script = house.path("script");
        fs::write(&script, "echo \"argument $1\"; exit 4\n").expect("written");
        harness::open_to_all(&script, 0o755);
        let output = run(house, &["--", script.to_str().expect("plain"), "one"]);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(4), "argument one\n"));
    });
}

#[test]
fn options_become_variables_and_the_library_comes_first() {
    house("size=8m", |house| {
        let print = "echo \"$SHMGUARD_MODE $SHMGUARD_BUDGET $SHMGUARD_HELLO $SHMGUARD_LIB|$LD_PRELOAD\"";
        let mut run = command(house, &["--mode", "observe", "--budget", "50%", "--hello", "--", "sh", "-c", print]);
        let other = program_file(Program::from("counting_preload").flags(&["-shared", "-fPIC"]));
        let output = run.env("LD_PRELOAD", &other).env("SHMGUARD_MODE", "refuse").output().expect("the command runs");
        let expected = format!("observe 50% 1 |{}:{}\n", library().display(), other.display());
        assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    });
}

/// Starts it and waits for the first line of standard output.
fn start(house: &House, words: &[&str]) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = command(house, words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the command runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    (child, lines, line)
}

#[test]
fn every_signal_is_passed_on() {
    house("size=8m", |house| {
        for (name, signal) in [
            ("TERM", Signal::TERM),
            ("INT", Signal::INT),
            ("HUP", Signal::HUP),
            ("USR1", Signal::USR1),
            ("WINCH", Signal::WINCH),
        ] {
            let script = format!("trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.05; done");
            let (mut child, mut lines, line) = start(house, &["--", "sh", "-c", &script]);
            assert_eq!(line, "ready\n");
            kill_process(Pid::from_child(&child), signal).expect("it lives");
            let mut got = String::new();
            lines.read_line(&mut got).expect("a line");
            assert_eq!(got, format!("got {name}\n"));
            assert_eq!(child.wait().expect("an end").code(), Some(9));
        }
        // Not caught: CMD dies of it, and the command says so as a shell does.
        let (mut child, _, _) = start(house, &["--", "sh", "-c", "echo ready; while :; do sleep 0.05; done"]);
        kill_process(Pid::from_child(&child), Signal::USR2).expect("it lives");
        let status = child.wait().expect("an end");
        assert_eq!((status.code(), status.signal()), (Some(128 + Signal::USR2.as_raw()), None));
    });
}

/// State letter and parent of a process; `None` when it is gone.
fn state(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(120), "not so after two minutes: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn orphans_come_to_it_and_are_reaped() {
    house("size=8m", |house| {
        let script = "(sh -c 'echo $$; exec sleep 3600' & ) ; while :; do sleep 0.05; done";
        let (mut child, _, line) = start(house, &["--", "sh", "-c", script]);
        let orphan: i32 = line.trim().parse().expect("a pid");
        let own = Pid::from_child(&child).as_raw_nonzero().get();
        wait_until("the orphan is a child of the command", || state(orphan).is_some_and(|(_, parent)| parent == own));
        kill_process(Pid::from_raw(orphan).expect("a pid"), Signal::KILL).expect("it lives");
        wait_until("the orphan has been reaped", || state(orphan).is_none());
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it lives");
        assert_eq!(child.wait().expect("an end").code(), Some(128 + 15));
    });
}

#[test]
fn it_is_good_as_a_first_process() {
    house("size=8m", |house| {
        let script = "echo \"pid $$, parent $PPID\"; (sleep 0.1 & ); exit 5";
        let own = env!("CARGO_BIN_EXE_shmguard");
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child", own, "run", "--", "sh", "-c", script]);
        command.env("SHMGUARD_LIB", library()).env("SHMGUARD_STATE", house.path("state"));
        let output = command.output().expect("unshare: apt-get install util-linux");
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        assert_eq!(stdout(&output), "pid 2, parent 1\n");
    });
}

#[test]
fn the_terminal_foreground_goes_to_the_command_and_comes_back() {
    house("size=8m", |house| {
        let own = env!("CARGO_BIN_EXE_shmguard");
        // In a pseudo-terminal: process group and the terminal's foreground group, within and afterwards.
        let ask = "ps -o pgid=,tpgid= -p $$";
        let script =
            format!("echo before $({ask}); {own} run --quiet -- sh -c 'echo within $({ask})'; echo after $({ask})");
        let shell = house.path("script.sh");
        fs::write(&shell, script).expect("written");
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &format!("sh {}", shell.display()), "/dev/null"]);
        command.env("SHMGUARD_LIB", library()).env("SHMGUARD_STATE", house.path("state")).stdin(Stdio::null());
        let output = command.output().expect("script: apt-get install bsdutils");
        let text = stdout(&output);
        let groups = |word: &str| -> (String, String) {
            let line =
                text.lines().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("no {word} in {text}"));
            let mut words = line.split_ascii_whitespace().skip(1).map(str::to_owned);
            (words.next().expect("a group"), words.next().expect("the foreground"))
        };
        let (before, within, after) = (groups("before"), groups("within"), groups("after"));
        assert_eq!(before.0, before.1, "{text}");
        assert_eq!(within.0, within.1, "the command has the foreground: {text}");
        assert_ne!(within.0, before.0, "in a group of its own: {text}");
        assert_eq!(after, before, "{text}");
    });
}

#[test]
fn the_report_has_the_numbers_known_by_construction() {
    house("size=32m", |house| {
        // 12 segments of 6 MiB at once, in 3 processes: 72 MiB, of which at most 30 fit below the budget.
        let (log, file) = (house.path("log"), house.path("report.json"));
        let [log_text, file_text] = [&log, &file].map(|path| path.to_str().expect("a plain path").to_owned());
        let many = [path("many"), "3".to_owned(), "4".to_owned(), (6 * MIB).to_string(), "wait".to_owned()];
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let words = [&["--log", &log_text, "--report", &file_text, "--"], many.as_slice()].concat();
        let (mut child, _lines, line) = start_with(house, &words);
        assert_eq!(line, "all there\n");
        // Its own line in the log tells that it has looked.
        let own = |event: &Value| event["ev"] == "sample" && event["redirected"].as_u64() >= Some(42 * MIB);
        wait_until("a look is in the log", || harness::read_log(&log).iter().any(own));
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"go\n").expect("it listens");
        assert_eq!(child.wait().expect("an end").code(), Some(0));
        let report: Value = serde_json::from_str(&fs::read_to_string(&file).expect("a report")).expect("JSON");
        let number = |pointer: &str| {
            report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {report}"))
        };
        let demand = 72 * MIB;
        let close = |value: u64| value.abs_diff(demand) * 20 <= demand;
        assert!(close(number("/peak/demand_bytes")), "{report}");
        assert!(number("/peak/tmpfs_bytes") <= 32 * MIB && number("/peak/tmpfs_bytes") >= 24 * MIB, "{report}");
        assert!(number("/peak/redirected_bytes") >= demand - 32 * MIB, "{report}");
        assert_eq!((number("/guard/capacity_bytes"), number("/guard/budget_bytes")), (32 * MIB, 30 * MIB));
        assert_eq!((number("/segments/created"), number("/segments/refused"), number("/segments/leaked")), (12, 0, 0));
        assert!(number("/segments/redirected") >= 7, "{report}");
        assert_eq!(report["guard"]["path"], "/dev/shm");
        assert_eq!((report["exit"].as_i64(), report["signal"].as_i64()), (Some(0), None));
        assert_eq!(number("/processes"), 3);
        assert_eq!(report["command"][1], "3");
        assert_eq!(report["targets"][0]["path"], house.target().to_str().expect("plain"));
        assert_eq!(report["targets"][0]["kind"], "disk");
        assert_eq!(report["targets"][0]["peak_bytes"], report["peak"]["redirected_bytes"]);
        assert!(number("/suggested_shm_size") >= demand && number("/suggested_shm_size") <= demand + 64 * MIB);
        assert!(!report["warnings"].as_array().expect("a list").is_empty());
        assert!(report["duration_s"].as_f64().expect("a number") > 0.0);
        let programs = report["programs"].as_array().expect("a list");
        assert!(programs[0]["command"].as_str().is_some_and(|command| command.starts_with("many")), "{report}");
        assert_eq!(
            (programs[0]["segments"].as_u64(), programs[0]["processes"].as_u64()),
            (Some(12), Some(3)),
            "{report}"
        );
        house.nothing_left();
        // The log alone tells the same afterwards.
        let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
        let output = command.args(["report", &log_text, "--json"]).output().expect("the command runs");
        let later: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        for name in ["command", "exit", "signal", "guard", "processes", "suggested_shm_size", "warnings", "programs"] {
            assert_eq!(later[name], report[name], "{name}");
        }
        for name in ["created", "redirected", "refused", "leaked"] {
            assert_eq!(later["segments"][name], report["segments"][name], "{name}");
        }
    });
}

#[test]
fn the_summary_is_short_and_can_be_pasted() {
    house("size=32m", |house| {
        let output = run(house, &["--quiet", "--", &path("many"), "3", "4", &(6 * MIB).to_string()]);
        assert_eq!(stderr(&output), "");
        let output = run(house, &["--warn", "none", "--", &path("many"), "3", "4", &(6 * MIB).to_string()]);
        let text = stderr(&output);
        let end = text.find(" ended with status 0").unwrap_or_else(|| panic!("{text}"));
        let summary =
            text.get(text.get(..end).expect("a boundary").rfind('\n').map_or(0, |at| at + 1)..).expect("a boundary");
        assert!(summary.lines().count() <= 10, "{summary}");
        assert!(summary.lines().all(|line| line.starts_with("shmguard: ")), "{summary}");
        for word in ["peak demand", "in /dev/shm (32.0 MiB large", "redirected to", "12 segments", "many-", "1 warning"]
        {
            assert!(summary.contains(word), "{word}: {summary}");
        }
        for word in ["--shm-size=", "m (docker)", "m (compose)", "Mi (Kubernetes", "memory limit"] {
            assert!(summary.contains(word), "{word}: {summary}");
        }
    });
}

#[test]
fn what_others_have_there_is_not_its_own() {
    house("size=32m", |house| {
        harness::fill_shm(Path::new("/dev/shm/of-somebody-else"), 4 * MIB);
        let output = run(house, &["--", "sleep", "0.5"]);
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains("/dev/shm was not used"), "{}", stderr(&output));
        let (_, report) = report(house, &["--", "sleep", "0.5"]);
        assert_eq!((report["processes"].as_u64(), report["programs"].as_array().map(Vec::len)), (Some(0), Some(0)));
        // It is there, and takes room, all the same.
        assert_eq!(report["peak"]["tmpfs_bytes"].as_u64(), Some(4 * MIB), "{report}");
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
fn what_is_left_behind_is_counted() {
    house("size=32m", |house| {
        fs::write("/dev/shm/of-somebody-else", "x").expect("written");
        let hold = path("hold");
        let script = format!("echo | {hold} /left {} 600 1; echo | {hold} /removed {} 600 1 unlink", 20 * MIB, MIB);
        let (output, report) = report(house, &["--", "sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(report["segments"]["leaked"], 1, "{report}");
        assert_eq!(report["segments"]["created"], 2, "{report}");
        assert!(Path::new("/dev/shm/left").exists());
        // Redirected ones as well, and without a report.
        let script = format!("echo | {hold} /moved {} 600 1", 40 * MIB);
        let text = stderr(&run(house, &["--", "sh", "-c", &script]));
        assert!(text.contains("1 left behind"), "{text}");
    });
}

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
fn a_private_shm_is_its_own() {
    house("size=8m", |house| {
        fs::write("/dev/shm/outside", "x").expect("written");
        let script = "df --block-size=1 --output=size /dev/shm | tail -n 1; ls /dev/shm; stat -c %a /dev/shm; echo x > /dev/shm/inside";
        let output = run(house, &["--shm-size", "24m", "--", "sh", "-c", script]);
        assert_eq!(
            stdout(&output).split_ascii_whitespace().collect::<Vec<_>>(),
            [(24 * MIB).to_string().as_str(), "1777"]
        );
        assert_eq!(left_in(Path::new("/dev/shm")), ["outside"]);
        // The kernel's own behaviour in it: what does not fit ends in a SIGBUS.
        let output = run(
            house,
            &["--shm-size", "4m", "--mode", "off", "--quiet", "--", &path("fate"), "ftruncate", &(6 * MIB).to_string()],
        );
        assert_eq!(output.status.code(), Some(128 + 7), "{}", stderr(&output));
    });
}

#[test]
fn a_user_of_little_rights_gets_a_private_shm_too() {
    house("size=8m", |house| {
        let copy = |file: &Path| -> PathBuf {
            let copy = house.path(file.file_name().and_then(|name| name.to_str()).expect("a plain name"));
            fs::copy(file, &copy).expect("a copy");
            copy
        };
        let own = copy(Path::new(env!("CARGO_BIN_EXE_shmguard")));
        let library = copy(library());
        let fate = copy(&program_file("fate"));
        let script = format!(
            "id -u; df --block-size=1 --output=size /dev/shm | tail -n 1; {} ftruncate {}",
            fate.display(),
            30 * MIB
        );
        let mut command = Command::new(own);
        command.args(["run", "--shm-size", "16m", "--", "sh", "-c", &script]).uid(1000).gid(1000).current_dir("/");
        command
            .env("SHMGUARD_LIB", &library)
            .env("SHMGUARD_REDIRECT", house.target())
            .env("SHMGUARD_STATE", house.path("state"));
        let output = command.output().expect("the command runs");
        assert_eq!(output.status.code(), Some(0), "user namespaces are needed: {}", stderr(&output));
        let words: Vec<String> = stdout(&output).split_ascii_whitespace().map(str::to_owned).collect();
        assert_eq!(words[..2], ["1000".to_owned(), (16 * MIB).to_string()], "{words:?}");
        assert!(
            stdout(&output).ends_with("written\n") && stderr(&output).contains("1 redirected"),
            "{}",
            stderr(&output)
        );
    });
}

#[test]
fn a_program_that_cannot_have_the_library_runs_all_the_same_and_that_is_said() {
    house("size=16m", |house| {
        let fixed = path(Program::from("fate").flags(&["-static"]));
        let (output, report) = report(house, &["--", &fixed, "ftruncate", &MIB.to_string()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).ends_with("written\n"));
        let text = stderr(&output);
        assert!(text.contains("cannot be loaded into") && text.contains("statically linked"), "{text}");
        assert_eq!(report["without_library"][0]["program"], fixed.as_str(), "{report}");
        // Below a shell that has it: found in /proc while it runs.
        let hold = path(Program::from("hold").flags(&["-static"]));
        let script = format!("{hold} /x 4096 600 1; true");
        let log = house.path("log");
        let log_text = log.to_str().expect("a plain path").to_owned();
        let (mut child, _lines, line) = start_with(house, &["--log", &log_text, "--", "sh", "-c", &script]);
        assert_eq!(line, "ready\n");
        let own = |event: &Value| event["ev"] == "without" && event["program"] == hold.as_str();
        wait_until("it has been found", || harness::read_log(&log).iter().any(own));
        let mut stdin = child.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut stdin, b"go\n").expect("it listens");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut text).expect("read");
        child.wait().expect("an end");
        assert!(text.contains("without the library") && text.contains("hold"), "{text}");
        fs::remove_file("/dev/shm/x").expect("the segment");
    });
}

#[test]
fn memory_shared_by_other_means_is_counted() {
    house("size=64m", |house| {
        let bytes = 8 * MIB;
        let (log, file) = (house.path("log"), house.path("r.json"));
        let [log_text, file_text] = [&log, &file].map(|path| path.to_str().expect("a plain path").to_owned());
        let program = path("shared_kinds");
        let words = ["--log", &log_text, "--report", &file_text, "--", &program, &bytes.to_string()];
        let (mut child, mut lines, line) = start_with(house, &words);
        assert!(line.starts_with("pids "), "{line}");
        let mut ready = String::new();
        lines.read_line(&mut ready).expect("a line");
        assert_eq!(ready, "ready\n");
        // All of it was there before it said so: the first look that sees the System V segment sees everything.
        let own = |event: &Value| event["ev"] == "sample" && event["sysv"].as_u64() >= Some(bytes);
        wait_until("a look is in the log", || harness::read_log(&log).iter().any(own));
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), b"go\n").expect("it listens");
        assert_eq!(child.wait().expect("an end").code(), Some(0));
        let report: Value = serde_json::from_str(&fs::read_to_string(&file).expect("a report")).expect("JSON");
        for (name, least) in [("memfd_bytes", bytes), ("anonymous_bytes", bytes), ("sysv_bytes", bytes)] {
            let value = report["peak"][name].as_u64().expect("a number");
            assert!(value >= least && value <= least + MIB, "{name}: {report}");
        }
        assert_eq!(report["peak"]["demand_bytes"], 2 * bytes, "{report}");
    });
}

fn start_with(house: &House, words: &[&str]) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut command = command(house, words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    (child, lines, line)
}
