//! The library's words: its lines on standard error and the JSON lines of `SHMGUARD_LOG`.

use std::path::Path;

use serde_json::Value;

/// One line of a log.
pub type Event = Value;

/// The library's lines in `stderr`. Panics when one is not as promised: at most 512 bytes with its newline, and ended by it.
#[track_caller]
pub fn said(stderr: &str) -> Vec<&str> {
    let lines: Vec<&str> = stderr.split_inclusive('\n').filter(|line| line.contains("shmguard: ")).collect();
    for line in &lines {
        assert!(line.starts_with("shmguard: "), "the library's line is not a line of its own: {line:?} in\n{stderr}");
        assert!(line.ends_with('\n'), "not a whole line: {line:?}");
        assert!(line.len() <= 512, "{} bytes: {line:?}", line.len());
    }
    lines
}

/// All events of all log files in `directory`, in the order of the files' names and of their lines. Panics when a line is
/// not a JSON object or a file is open to others.
#[track_caller]
pub fn read_log(directory: &Path) -> Vec<Event> {
    use std::os::unix::fs::PermissionsExt;
    let mut events = Vec::new();
    for name in super::left_in(directory) {
        let path = directory.join(name);
        let mode = std::fs::metadata(&path).expect("a log file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
        let text = std::fs::read_to_string(&path).expect("a log file is UTF-8");
        assert!(text.is_empty() || text.ends_with('\n'), "{} ends within a line", path.display());
        for line in text.lines() {
            let event: Event = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}: not JSON ({error}): {line}", path.display()));
            assert!(event.is_object(), "{}: not an object: {line}", path.display());
            events.push(event);
        }
    }
    events
}
