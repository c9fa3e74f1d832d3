//! What `top` shows, and how keys change it. No terminal in here.

use shmguard_core::size::{Amount, Human};
use shmguard_core::trend::{Forecast, Trend};

use crate::now::{Now, ProcessNow, Segment};
use crate::status::{age, holders, where_is};

/// Values of the history that are kept: more than a wide terminal has columns.
const HISTORY: usize = 500;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave.
    Quit,
    /// Segments or processes.
    Switch,
    /// Sort by the next column.
    NextColumn,
    /// Sort the other way round.
    Reverse,
    /// Stop looking, or go on.
    Pause,
    /// Move the view by so many rows.
    Move(isize),
}

/// Which table is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One row a segment.
    Segments,
    /// One row a process.
    Processes,
}

/// A column: heading, width in 80 columns (0: the rest), flush right.
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// Columns of the terminal.
    pub width: u16,
    /// Numbers.
    pub right: bool,
}

const fn column(name: &'static str, width: u16, right: bool) -> Column {
    Column { name, width, right }
}

const SEGMENTS: [Column; 7] = [
    column("SEGMENT", 18, false),
    column("PROMISED", 9, true),
    column("HELD", 9, true),
    column("AGE", 4, true),
    column("WHERE", 8, false),
    column("CREATOR", 15, false),
    column("HELD BY", 0, false),
];

const PROCESSES: [Column; 7] = [
    column("PID", 8, true),
    column("PROGRAM", 16, false),
    column("HOLDS", 10, true),
    column("SEGMENTS", 8, true),
    column("CREATED", 8, true),
    column("REDIRECTED", 10, true),
    column("LIBRARY", 0, false),
];

/// Everything that is shown.
pub struct State {
    /// The last look.
    pub now: Option<Now>,
    /// Demand at each look, oldest first.
    pub history: Vec<u64>,
    /// Which table.
    pub table: Table,
    /// Its sort column.
    pub sort: usize,
    /// Smallest first.
    pub reverse: bool,
    /// Not looking.
    pub paused: bool,
    /// Rows passed over.
    pub offset: usize,
    /// Fill levels to mark.
    pub warn: Vec<Amount>,
    /// Colours may be used.
    pub colour: bool,
    /// Highest demand seen.
    pub peak: u64,
    /// The fill at each look.
    trend: Trend,
}

impl State {
    /// Nothing seen yet.
    pub fn new(warn: Vec<Amount>, colour: bool) -> State {
        State {
            now: None,
            history: Vec::new(),
            table: Table::Segments,
            sort: 2,
            reverse: false,
            paused: false,
            offset: 0,
            warn,
            colour,
            peak: 0,
            trend: Trend::default(),
        }
    }

    /// Takes the next look.
    pub fn take(&mut self, now: Now) {
        self.history.push(now.demand());
        if self.history.len() > HISTORY {
            self.history.remove(0);
        }
        self.peak = self.peak.max(now.demand()).max(now.peak.demand_peak);
        if let Some(limit) = now.limit.filter(|_| self.trend.is_due(now.clock_ms)) {
            self.trend.see(now.clock_ms, now.fill, limit);
        }
        self.now = Some(now);
        self.step(Step::Move(0));
    }

    /// When it will be full, by what the ledger has or by what was seen here.
    pub fn forecast(&self) -> Option<Forecast> {
        let now = self.now.as_ref()?;
        now.forecast.or_else(|| self.trend.forecast(now.limit?))
    }

    /// Does what a key asks for.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Quit => {}
            Step::Switch => {
                self.table = match self.table {
                    Table::Segments => Table::Processes,
                    Table::Processes => Table::Segments,
                };
                (self.sort, self.reverse, self.offset) = (2, false, 0);
            }
            Step::NextColumn => self.sort = (self.sort + 1) % self.columns().len(),
            Step::Reverse => self.reverse = !self.reverse,
            Step::Pause => self.paused = !self.paused,
            Step::Move(by) => {
                let last = self.count().saturating_sub(1);
                self.offset = self.offset.saturating_add_signed(by).min(last);
            }
        }
    }

    /// The columns of the table shown.
    pub fn columns(&self) -> &'static [Column; 7] {
        match self.table {
            Table::Segments => &SEGMENTS,
            Table::Processes => &PROCESSES,
        }
    }

    /// Rows of the table shown.
    pub fn count(&self) -> usize {
        let Some(now) = &self.now else { return 0 };
        match self.table {
            Table::Segments => now.segments.len(),
            Table::Processes => now.processes.len(),
        }
    }

    /// The rows from the offset on, at most `most`, sorted.
    pub fn rows(&self, most: usize) -> Vec<[String; 7]> {
        let Some(now) = &self.now else { return Vec::new() };
        match self.table {
            Table::Segments => {
                let mut rows: Vec<&Segment> = now.segments.iter().collect();
                self.order(&mut rows, |segment| segment_key(now, segment, self.sort));
                rows.into_iter().skip(self.offset).take(most).map(|segment| segment_row(now, segment)).collect()
            }
            Table::Processes => {
                let mut rows: Vec<&ProcessNow> = now.processes.iter().collect();
                self.order(&mut rows, |process| process_key(process, self.sort));
                rows.into_iter().skip(self.offset).take(most).map(process_row).collect()
            }
        }
    }

    /// Numbers largest first, text from A to Z; stable, so that rows of equal rank do not jump.
    fn order<T>(&self, rows: &mut [T], key: impl Fn(&T) -> Key) {
        rows.sort_by_cached_key(|row| key(row));
        if self.reverse {
            rows.reverse();
        }
    }
}

/// What rows are sorted by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(std::cmp::Reverse<u64>),
    Text(String),
}

fn number(value: u64) -> Key {
    Key::Number(std::cmp::Reverse(value))
}

fn segment_key(now: &Now, segment: &Segment, column: usize) -> Key {
    match column {
        1 => number(segment.promised),
        2 => number(segment.held),
        3 => number(segment.created_ms.map_or(0, |created| now.at_ms.saturating_sub(created))),
        other => Key::Text(segment_row(now, segment).get(other).cloned().unwrap_or_default()),
    }
}

fn segment_row(now: &Now, segment: &Segment) -> [String; 7] {
    let name = if segment.name.is_empty() { "(nameless)".to_owned() } else { segment.name.clone() };
    let creator = segment.creator.as_ref();
    [
        name,
        short(segment.promised),
        short(segment.held),
        segment.created_ms.map_or_else(String::new, |created| age(now.at_ms.saturating_sub(created))),
        where_is(now, segment),
        creator.map_or_else(|| "?".to_owned(), |creator| format!("{}[{}]", creator.command, creator.pid)),
        holders(now, segment),
    ]
}

fn process_key(process: &ProcessNow, column: usize) -> Key {
    match column {
        0 => Key::Number(std::cmp::Reverse(u64::MAX - process.pid.unsigned_abs() as u64)),
        1 => Key::Text(process.command.clone()),
        2 => number(process.holds),
        3 => number(process.segments as u64),
        4 => number(process.created),
        5 => number(process.redirected),
        _ => Key::Text(process_row(process).last().cloned().unwrap_or_default()),
    }
}

fn process_row(process: &ProcessNow) -> [String; 7] {
    [
        process.pid.to_string(),
        process.command.clone(),
        short(process.holds),
        process.segments.to_string(),
        process.created.to_string(),
        process.redirected.to_string(),
        if process.has_library { "yes".to_owned() } else { "no".to_owned() },
    ]
}

/// `18.4M`: five columns are enough for what a glance needs.
pub fn short(bytes: u64) -> String {
    let text = Human(bytes).to_string();
    text.replace("iB", "").replace(" B", "B").replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(short(18 << 20), "18.0M");
        assert_eq!(short(900), "900B");
        assert_eq!(short(0), "0B");
    }

    #[test]
    fn keys_sort_numbers_downwards_and_text_upwards() {
        assert!(number(5) < number(3));
        assert!(Key::Text("a".into()) < Key::Text("b".into()));
    }

    #[test]
    fn steps_never_leave_the_table() {
        let mut state = State::new(Vec::new(), false);
        state.step(Step::Move(5));
        assert_eq!(state.offset, 0);
        for _ in 0..20 {
            state.step(Step::NextColumn);
            assert!(state.sort < state.columns().len());
        }
        state.step(Step::Switch);
        assert_eq!((state.table, state.sort), (Table::Processes, 2));
    }
}
