//! Summaries of known events.

use super::*;
use std::sync::Arc;

fn event(t: f64, command: &str, what: What) -> Event {
    Event { t, who: Who { pid: 1, start: 1, command: Arc::from(command) }, what }
}

fn size(name: &str, bytes: u64, decision: &str, used: u64, redirected: u64) -> What {
    What::Size(Box::new(Size {
        name: name.into(),
        file: (1, name.len() as u64),
        target: (decision == "redirect").then(|| "/t".to_owned()),
        bytes,
        before: 0,
        decision: decision.into(),
        used,
        promised: 0,
        redirected: Some(redirected),
        demand: 0,
        why: "".into(),
    }))
}

#[test]
fn demand_is_what_was_there_and_what_was_asked_for() {
    let mut builder = Builder::default();
    builder.event(&event(100.0, "a", size("x", 40, "keep", 0, 0)));
    builder.event(&event(101.0, "b", size("xy", 50, "redirect", 40, 0)));
    builder.event(&event(102.0, "b", size("xyz", 10, "keep", 5, 50)));
    builder.event(&event(103.0, "b", size("xyzz", 999, "refuse", 5, 50)));
    let summary = builder.finish();
    // What was refused was wanted as well.
    assert_eq!(summary.peak.demand_bytes, 5 + 50 + 999);
    assert_eq!(summary.peak.demand_at_s, Some(3.0));
    assert_eq!((summary.peak.tmpfs_bytes, summary.peak.redirected_bytes), (40, 50));
    assert_eq!((summary.segments.redirected, summary.segments.refused), (1, 1));
    let programs: Vec<_> = summary.timeline.iter().map(|point| point.programs.clone()).collect();
    assert_eq!(programs[1], BTreeMap::from([("a".to_owned(), 40), ("b".to_owned(), 50)]));
    // 35 bytes went meanwhile: the oldest segment's.
    assert_eq!(programs[2], BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 60)]));
    assert_eq!(summary.timeline.iter().map(Point::demand).collect::<Vec<_>>(), [40, 90, 65, 55]);
    assert_eq!(summary.duration_s, 3.0);
}

#[test]
fn names_that_were_not_removed_are_leaks() {
    let mut builder = Builder::default();
    for (t, what) in [
        (1.0, What::Create { name: "kept".into() }),
        (2.0, What::Create { name: "removed".into() }),
        (3.0, What::Unlink { name: "removed".into() }),
        (4.0, What::Create { name: "".into() }),
    ] {
        builder.event(&event(t, "a", what));
    }
    let summary = builder.finish();
    assert_eq!((summary.segments.created, summary.segments.leaked), (3, 1));
}
