//! `shmguard top` in a real terminal of 80x24 (tmux): what is on the screen, sorting, switching, and a clean end.

mod harness;

use std::process::Command;
use std::time::{Duration, Instant};

use harness::{house, House, MIB};

/// A tmux server of this test alone, with one window of 80x24 that runs a shell line.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn start(house: &House, line: &str) -> Terminal {
        let terminal = Terminal { socket: house.path("tmux").to_str().expect("plain").to_owned() };
        let line = format!(
            "SHMGUARD_REDIRECT={} SHMGUARD_STATE={} {line}",
            house.target().display(),
            house.path("state").display()
        );
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &line]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-S", &self.socket])
            .args(words)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap_or_else(|error| panic!("cannot run tmux ({error}): apt-get install tmux"));
        assert!(output.status.success(), "tmux {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The screen as soon as it is as wanted.
    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if wanted(&screen) {
                return screen;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "not so after two minutes: {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
}

#[test]
fn it_shows_sorts_switches_and_quits() {
    house("size=32m", |house| {
        let mut running = house.program("many").number(2).number(4).number(6 * MIB).arg("wait").start();
        running.line("all there");
        let mut small =
            house.program("hold").arg("/a-small-one").number(MIB).arg("600").number(1).arg("unlink").start();
        small.line("ready");
        let own = env!("CARGO_BIN_EXE_shmguard");
        let terminal =
            Terminal::start(house, &format!("{own} top --interval 0.3; echo status $?; stty -a; exec sleep 600"));
        // 8 segments of 6 MiB and one of 1 MiB.
        let screen = terminal.until("the demand is shown", |screen| screen.contains("demand 49.0M"));
        let lines: Vec<&str> = screen.lines().collect();
        assert_eq!(lines.len(), 24, "{screen}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{screen}");
        assert!(lines[0].contains("/dev/shm") && lines[0].contains("of 32.0 MiB in use"), "{screen}");
        assert!(lines[1].starts_with("[#") && lines[1].ends_with(']'), "{screen}");
        assert!(lines[2].contains('w') && lines[2].contains('B'), "{screen}");
        assert!(screen.contains("HELDv") && screen.contains("many-"), "{screen}");
        assert!(lines[23].starts_with("q quit"), "{screen}");

        // The other way round, the small one comes before the large ones.
        let place = |screen: &str, name: &str| screen.lines().position(|line| line.contains(name));
        terminal.keys(&["r"]);
        terminal.until("the smallest first", |screen| {
            let small = place(screen, "a-small-one");
            screen.contains("HELD^") && small.is_some() && place(screen, "6.0M").is_none_or(|large| Some(large) > small)
        });
        terminal.keys(&["Tab"]);
        let pid = running.pid().to_string();
        terminal.until("the processes", |screen| screen.contains("REDIRECTED") && screen.contains("many-"));
        assert!(!pid.is_empty());
        terminal.keys(&["p"]);
        terminal.until("it pauses", |screen| screen.contains("PAUSED"));
        terminal.keys(&["q"]);
        let after = terminal.until("it ends", |screen| screen.contains("status 0") && screen.contains("echo"));
        // The terminal is as before: it echoes, and lines are lines.
        assert!(after.contains(" echo ") && after.contains(" icanon "), "{after}");
        for mut running in [running, small] {
            running.go_on();
            running.wait().well();
        }
    });
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    house("size=32m", |house| {
        let own = env!("CARGO_BIN_EXE_shmguard");
        let pid_file = house.path("pid");
        let line = format!(
            "sh -c 'echo $$ > {}; exec {own} top'; echo status $?; stty -a; exec sleep 600",
            pid_file.display()
        );
        let terminal = Terminal::start(house, &line);
        terminal.until("it runs", |screen| screen.contains("q quit"));
        let pid = std::fs::read_to_string(&pid_file).expect("a pid").trim().parse().expect("a number");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
        let after = terminal.until("it ends", |screen| screen.contains("status 143") && screen.contains("icanon"));
        assert!(after.contains(" echo ") && after.contains(" icanon "), "{after}");
    });
}

#[test]
fn it_ends_when_its_terminal_goes_away() {
    house("size=32m", |house| {
        let own = env!("CARGO_BIN_EXE_shmguard");
        let pid_file = house.path("pid");
        // Without SIGHUP, as under nohup: only the terminal itself tells.
        let line = format!("sh -c 'trap \"\" HUP; echo $$ > {}; exec {own} top'", pid_file.display());
        let terminal = Terminal::start(house, &line);
        terminal.until("it runs", |screen| screen.contains("q quit"));
        let pid = std::fs::read_to_string(&pid_file).expect("a pid").trim().to_owned();
        drop(terminal);
        let began = Instant::now();
        while std::path::Path::new("/proc").join(&pid).join("exe").exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "top still runs without a terminal");
            std::thread::sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let output = Command::new(env!("CARGO_BIN_EXE_shmguard")).arg("top").output().expect("the command runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("status --json"));
}
