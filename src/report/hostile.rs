//! Logs that somebody else wrote: whatever is in them, the report is made, without a panic and in bounded memory.

use proptest::prelude::*;

use super::build::Builder;
use super::log::{read_file, Log};
use super::{html, json, text};

/// Everything that `shmguard report` makes of these bytes. Returns (events, bad lines).
fn report(bytes: &[u8]) -> (usize, usize) {
    let mut log = Log::default();
    read_file(bytes, &mut log).expect("bytes can be read");
    log.events.sort_by(|a, b| a.t.total_cmp(&b.t));
    let mut builder = Builder::default();
    for event in &log.events {
        builder.event(event);
    }
    builder.deaths_from_log();
    let summary = builder.finish();
    let page = text::page(&summary);
    assert!(page.chars().all(|character| character == '\n' || !character.is_control()), "{page:?}");
    json(&summary).expect("JSON");
    html(&summary);
    (log.events.len(), log.bad_lines)
}

/// Values as the log has them, and as it never has them.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        (0u64..5000).prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        "[0-9]{1,400}(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,5})?",
        any::<String>().prop_map(|text| serde_json::to_string(&text).expect("a string")),
        Just("[\"a\",\"b\"]".to_owned()),
        Just("{\"python3\":18446744073709551615,\"b\":18446744073709551615}".to_owned()),
        (1usize..3000).prop_map(|depth| "[".repeat(depth)),
        (1usize..3000).prop_map(|depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth))),
        prop::sample::select(&["null", "true", "", "-0", "1e999", "-1e308", "1e308", "NaN", "0x7", "\"\\ud800\""][..])
            .prop_map(str::to_owned),
    ]
}

const FIELDS: &[&str] = &[
    "t",
    "pid",
    "start",
    "ppid",
    "comm",
    "seg",
    "dev",
    "ino",
    "target",
    "bytes",
    "before",
    "used",
    "promised",
    "capacity",
    "budget",
    "redirected",
    "demand",
    "why",
    "what",
    "text",
    "child",
    "signal",
    "guard",
    "target0",
    "target7",
    "tmpfs_peak",
    "redirected_peak",
    "demand_peak",
    "command",
    "exit",
    "programs",
    "memfd",
    "anonymous",
    "sysv",
    "program",
    "reason",
    "unknown",
];

const KINDS: &[&str] = &[
    "start", "create", "size", "unlink", "warn", "child", "exit", "run", "sample", "without", "end", "summary", "later",
];

const DECISIONS: &[&str] = &["keep", "reserve", "grow", "redirect", "refuse", "overflow", "other"];

/// A line with any of the fields, most of them of the right kind; cut off at some place now and then.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let fields = prop::collection::vec((prop::sample::select(FIELDS), value()), 0..12);
    let right = (0.0f64..1e10, any::<u64>(), any::<u64>(), any::<u64>(), 0u64..20);
    let words = (prop::sample::select(KINDS), prop::sample::select(DECISIONS));
    (words, right, fields, prop::option::weighted(0.1, 0usize..200)).prop_map(|(words, right, fields, cut)| {
        let ((kind, decision), (t, bytes, used, redirected, ino)) = (words, right);
        let mut line = format!(
            "{{\"t\":{t},\"ev\":\"{kind}\",\"decision\":\"{decision}\",\"bytes\":{bytes},\"used\":{used},\"redirected\":{redirected},\"ino\":{ino}"
        );
        // Twice the same field is an error to the reader: seldom.
        let own = ["t", "bytes", "used", "redirected", "ino"];
        for (name, value) in fields.iter().filter(|(name, value)| !own.contains(name) || value.len() % 8 == 0) {
            line.push_str(&format!(",\"{name}\":{value}"));
        }
        line.push('}');
        let mut bytes = line.into_bytes();
        bytes.truncate(cut.unwrap_or(usize::MAX));
        bytes.push(b'\n');
        bytes
    })
}

proptest! {
    // The budget: 300 logs of up to 30 lines, and 300 of noise; about ten seconds without optimisation. (2000 of each were run
    // when this was written.)
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_lines_make_a_report(lines in prop::collection::vec(line(), 0..30)) {
        let (events, bad) = report(&lines.concat());
        prop_assert!(events + bad <= lines.len() * 2);
    }

    #[test]
    fn noise_makes_a_report(noise in prop::collection::vec(any::<u8>(), 0..2000)) {
        report(&noise);
    }
}

#[test]
fn the_generated_lines_are_read_often_enough_to_mean_something() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let lines: Vec<u8> = (0..1000).flat_map(|_| line().new_tree(&mut runner).expect("a line").current()).collect();
    let (events, bad) = report(&lines);
    assert!(events > 100 && bad > 100, "{events} events, {bad} bad lines");
}

#[test]
fn a_line_without_an_end_does_not_fill_the_memory() {
    use std::io::{BufReader, Read};
    // 512 MiB without a newline, then an event.
    let endless = std::io::repeat(b'x').take(512 << 20).chain(&b"\n{\"t\":1,\"ev\":\"create\",\"seg\":\"a\"}\n"[..]);
    let mut log = Log::default();
    read_file(BufReader::with_capacity(1 << 20, endless), &mut log).expect("read");
    assert_eq!((log.events.len(), log.bad_lines), (1, 1));
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok());
    assert!(peak.expect("VmHWM in KiB") < 400 << 10, "{status}");
}
