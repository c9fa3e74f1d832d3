//! `shmguard run`: ends as CMD did, passes on signals, reaps, gives a private /dev/shm, says what was used and why it died.

#[path = "../harness/mod.rs"]
mod harness;

mod deaths;
mod musl;
mod numbers;
mod private_shm;
mod removal;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
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
fn a_state_that_cannot_be_used_is_told_and_another_place_taken() {
    house("size=8m", |house| {
        let output = command(house, &["--", &path("fate"), "ftruncate", &(20 * MIB).to_string()])
            .env("SHMGUARD_STATE", "/nonexist/state")
            .output()
            .expect("the command runs");
        let text = stderr(&output);
        assert!(output.status.success(), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("SHMGUARD_STATE")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(lines[0].contains("/nonexist/state") && lines[0].contains("the default is used: /"), "{text}");
        assert!(text.contains("peak demand 20.0 MiB"), "{text}");
    });
}

#[test]
fn wrong_values_are_told_by_the_option_with_the_usage_of_run() {
    house("size=8m", |house| {
        for (option, value) in
            [("budget", "5q"), ("redirect", "relative"), ("keep", "["), ("shm-size", "5q"), ("warn", "0")]
        {
            let output = run(house, &[&format!("--{option}"), value, "--", "true"]);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(text.starts_with(&format!("error: invalid value '{value}' for '--{option} <")), "{text}");
            assert_eq!(text.matches("For more information").count(), 1, "{text}");
            assert_eq!(text.matches("Usage: shmguard run ").count(), 1, "{text}");
            assert!(!text.contains("SHMGUARD_") && !text.contains("\n\n\n"), "{text}");
        }
    });
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

fn start_with(house: &House, words: &[&str]) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut command = command(house, words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    (child, lines, line)
}
