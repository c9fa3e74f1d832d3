//! The table of segments, in 80 columns.

use shmguard_core::size::Human;

use crate::now::{Now, Place, Segment};

/// Width of a column; negative: flush right.
pub type Width = isize;

const COLUMNS: [(&str, Width); 7] =
    [("SEGMENT", 22), ("PROMISED", -10), ("HELD", -10), ("WHERE", 8), ("CREATOR", 14), ("HELD BY", 0), ("AGE", -5)];

/// Heading and rows.
pub fn segments(now: &Now, segments: &[Segment]) -> Vec<String> {
    let mut lines = vec![row(&COLUMNS.map(|(name, _)| name.to_owned()))];
    lines.extend(segments.iter().map(|segment| {
        row(&[
            name(segment),
            Human(segment.promised).to_string(),
            Human(segment.held).to_string(),
            where_is(now, segment),
            creator(segment),
            holders(now, segment),
            segment.created_ms.map_or_else(|| "?".to_owned(), |created| age(now.at_ms.saturating_sub(created))),
        ])
    }));
    lines
}

fn row(cells: &[String; 7]) -> String {
    // HELD BY comes last on the screen, for it has no bound; AGE stands before it.
    let [segment, promised, held, place, creator, holders, age] = cells;
    let order = [(segment, 0), (promised, 1), (held, 2), (age, 6), (place, 3), (creator, 4)];
    let mut line = String::new();
    for (text, column) in order {
        let width = COLUMNS.get(column).map_or(0, |(_, width)| *width);
        line.push_str(&cell(text, width));
        line.push(' ');
    }
    line.push_str(holders);
    line.trim_end().to_owned()
}

/// A text in a column: cut, or filled up with blanks.
pub fn cell(text: &str, width: Width) -> String {
    let room = width.unsigned_abs();
    let length = text.chars().count();
    if length > room {
        let mut short: String = text.chars().take(room.saturating_sub(1)).collect();
        short.push('~');
        return short;
    }
    if width < 0 {
        format!("{text:>room$}")
    } else {
        format!("{text:<room$}")
    }
}

fn name(segment: &Segment) -> String {
    match (segment.name.as_str(), segment.named) {
        ("", _) => "(nameless)".to_owned(),
        (name, true) => name.to_owned(),
        // Its name is gone, or it never had one that can be attached.
        (name, false) => format!("({name})"),
    }
}

/// Where a segment's bytes are, in a word or two.
pub fn where_is(now: &Now, segment: &Segment) -> String {
    match segment.place {
        Place::Guard => "here".to_owned(),
        Place::Target(index) => {
            now.targets.get(index).map_or_else(|| "target".to_owned(), |target| target.path.clone())
        }
        other => other.word().to_owned(),
    }
}

fn creator(segment: &Segment) -> String {
    match &segment.creator {
        Some(creator) if creator.gone => format!("{}[{}]+", creator.command, creator.pid),
        Some(creator) => format!("{}[{}]", creator.command, creator.pid),
        None => "?".to_owned(),
    }
}

/// Who holds it: processes with the same command together.
pub fn holders(now: &Now, segment: &Segment) -> String {
    if segment.holders.is_empty() {
        return if segment.place == Place::SystemV { String::new() } else { "its name only".to_owned() };
    }
    let mut groups: Vec<(&str, Vec<i32>)> = Vec::new();
    for holder in &segment.holders {
        let command = now.processes.iter().find(|process| process.pid == holder.pid);
        let command = command.map_or("?", |process| process.command.as_str());
        match groups.iter_mut().find(|(known, _)| *known == command) {
            Some((_, pids)) => pids.push(holder.pid),
            None => groups.push((command, vec![holder.pid])),
        }
    }
    let words = groups.iter().map(|(command, pids)| match pids.as_slice() {
        [pid] => format!("{command}[{pid}]"),
        [one, two] => format!("{command}[{one},{two}]"),
        many => format!("{} x {command}", many.len()),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A time in at most five characters.
pub fn age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..=99 => format!("{seconds}s"),
        seconds @ 100..=5999 => format!("{}m", seconds / 60),
        seconds @ 6000..=172_799 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_their_width() {
        assert_eq!(cell("ab", 4), "ab  ");
        assert_eq!(cell("ab", -4), "  ab");
        assert_eq!(cell("abcdef", 4), "abc~");
        assert_eq!(cell("äöüß", 4), "äöüß");
    }

    #[test]
    fn ages_fit_five_columns() {
        for ms in [0, 99_000, 100_000, 5_999_000, 6_000_000, 172_800_000, 8_000_000_000] {
            assert!(age(ms).len() <= 5, "{}", age(ms));
        }
        assert_eq!(age(61_000), "61s");
        assert_eq!(age(7_200_000), "2h");
    }
}
