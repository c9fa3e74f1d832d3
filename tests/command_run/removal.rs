//! Names that vanish while segments are in use: who removed them?

use std::fs;
use std::io::{Read, Write};

use crate::harness::{self, house, House, MIB};
use crate::{path, start_with, wait_until};

/// Runs a program that holds a segment, calls `remove` when the run has seen it, lets the run see that the name has gone, and
/// ends it with status 1. Returns what it said.
fn summary(house: &House, root: &str, script: &str, remove: impl FnOnce()) -> String {
    let log = house.path("log");
    let log_text = log.to_str().expect("a plain path").to_owned();
    // Something that changes, since looks that see the same are not logged.
    let stop = house.path("stop");
    let _ = fs::remove_file(&stop);
    let script = format!(
        "(while ! test -e {0}; do head -c 4096 /dev/zero >>/dev/shm/tick; sleep 0.05; done) & {script}; : >{0}; wait; exit 1",
        stop.display()
    );
    let words = ["--root", root, "--log", &log_text, "--", "sh", "-c", &script];
    let (mut child, _lines, line) = start_with(house, &words);
    assert_eq!(line, "ready\n");
    let looks = || harness::read_log(&log).iter().filter(|event| event["ev"] == "sample").count();
    // The second of two new looks began after this moment.
    let two_more = || {
        let before = looks();
        wait_until("it has looked", || looks() >= before + 2);
    };
    two_more();
    remove();
    two_more();
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"go\n").expect("it listens");
    let mut text = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut text).expect("read");
    assert_eq!(child.wait().expect("an end").code(), Some(1), "{text}");
    fs::remove_dir_all(&log).expect("the log");
    text
}

#[test]
fn names_that_others_remove_are_told_and_whether_logind_does_so() {
    house("size=16m", |house| {
        let root = house.path("root");
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
            fs::write(path, text).expect("written");
        };
        write("etc/passwd", "user:x:1000:1000::/home/user:/bin/sh\n");
        write("proc/self/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n");
        write("run/systemd/seats/seat0", "");
        write("etc/systemd/logind.conf", "[Login]\nRemoveIPC=yes\n");
        let root = root.to_str().expect("a plain path");
        let script = format!("{} /victim {MIB} 600 1", path("hold"));
        let by_hand = || fs::remove_file("/dev/shm/victim").expect("the segment");
        let text = summary(house, root, &script, by_hand);
        let line = text.lines().find(|line| line.contains("vanished")).unwrap_or_else(|| panic!("{text}"));
        for word in ["victim", "RemoveIPC=yes in /etc/systemd/logind.conf", "enable-linger"] {
            assert!(line.contains(word), "{word} is missing: {line}");
        }
        write("etc/systemd/logind.conf", "[Login]\nRemoveIPC=no\n");
        let text = summary(house, root, &script, by_hand);
        let line = text.lines().find(|line| line.contains("vanished")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("somebody else") && !line.contains("RemoveIPC"), "{line}");
        // Removed by a process of the run, which makes no segments itself.
        let go = house.path("go");
        let rm = format!("(while ! test -e {0}; do sleep 0.05; done; rm /dev/shm/victim) & ", go.display());
        let text = summary(house, root, &(rm + &script), || {
            fs::write(&go, "").expect("written");
            wait_until("it is removed", || !std::path::Path::new("/dev/shm/victim").exists());
        });
        assert!(!text.contains("vanished"), "{text}");
    });
}
