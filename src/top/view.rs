//! Drawing, made for 80x24 and what is larger.

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table as Grid};
use ratatui::Frame;
use shmguard_core::size::Human;

use super::state::{short, State, Table};
use crate::now::Now;
use crate::status::percent;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let Some(now) = &state.now else { return };
    let areas: [Rect; 7] = Layout::vertical([
        Constraint::Length(1), // title
        Constraint::Length(1), // gauge
        Constraint::Length(1), // marks below it
        Constraint::Length(3), // numbers
        Constraint::Length(3), // history
        Constraint::Min(3),    // table
        Constraint::Length(1), // keys
    ])
    .areas(frame.area());
    let [title, gauge, marks, numbers, history, table, keys] = areas;
    frame.render_widget(Paragraph::new(heading(now, state)), title);
    let (bar, below) = gauge_lines(now, state, gauge.width);
    frame.render_widget(Paragraph::new(bar), gauge);
    frame.render_widget(Paragraph::new(below), marks);
    frame.render_widget(Paragraph::new(totals(now, state)), numbers);
    draw_history(frame, history, now, state);
    draw_table(frame, table, state);
    let pause = if state.paused { "p go on" } else { "p pause" };
    let other = if state.table == Table::Segments { "processes" } else { "segments" };
    let text = format!("q quit  Tab {other}  s sort  r reverse  {pause}  arrows move");
    frame.render_widget(Paragraph::new(Span::styled(text, dim(state))), keys);
}

fn dim(state: &State) -> Style {
    if state.colour {
        Style::new().fg(Color::DarkGray)
    } else {
        Style::new()
    }
}

fn coloured(state: &State, colour: Color) -> Style {
    if state.colour {
        Style::new().fg(colour)
    } else {
        Style::new()
    }
}

/// How near to the end: a colour for the fill.
fn colour_of(now: &Now, state: &State) -> Color {
    let Some(capacity) = now.space.capacity else { return Color::Green };
    let fill = now.space.used.saturating_add(now.promised);
    let passed = state.warn.iter().filter(|level| fill >= level.of(capacity)).count();
    if now.budget.is_some_and(|budget| fill >= budget) {
        Color::Red
    } else if passed > 0 {
        Color::Yellow
    } else {
        Color::Green
    }
}

fn heading<'a>(now: &Now, state: &State) -> Line<'a> {
    let size = match now.space.capacity {
        Some(capacity) => {
            format!("{} of {} in use ({}%)", Human(now.space.used), Human(capacity), percent(now.space.used, capacity))
        }
        None => "no limit of its own".to_owned(),
    };
    let soon = state.forecast().map(|forecast| format!("  FULL IN {} s", forecast.left_ms.div_ceil(1000)));
    let paused = if state.paused { "  PAUSED" } else { "" };
    Line::from(vec![
        Span::styled(format!("shmguard  {}  ", now.path), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(size, coloured(state, colour_of(now, state))),
        Span::styled(soon.unwrap_or_default(), coloured(state, Color::Red).add_modifier(Modifier::BOLD)),
        Span::raw(paused),
    ])
}

/// The gauge: `#` used, `+` promised, `.` free; below it the marks of warnings (`w`) and of the budget (`B`).
fn gauge_lines<'a>(now: &Now, state: &State, width: u16) -> (Line<'a>, Line<'a>) {
    let room = usize::from(width).saturating_sub(2).max(1);
    let Some(capacity) = now.space.capacity.filter(|capacity| *capacity > 0) else {
        return (Line::from(format!("[{}]", " ".repeat(room))), Line::default());
    };
    let column = |bytes: u64| ((u128::from(bytes) * room as u128) / u128::from(capacity)) as usize;
    let used = column(now.space.used).min(room);
    let promised = column(now.space.used.saturating_add(now.promised)).clamp(used, room);
    let style = coloured(state, colour_of(now, state));
    let bar = Line::from(vec![
        Span::raw("["),
        Span::styled("#".repeat(used), style),
        Span::styled("+".repeat(promised - used), style),
        Span::styled(".".repeat(room - promised), dim(state)),
        Span::raw("]"),
    ]);
    let mut below = vec![b' '; room + 2];
    let mut mark = |bytes: u64, letter: u8| {
        if let Some(place) = below.get_mut(1 + column(bytes).min(room - 1)) {
            *place = letter;
        }
    };
    for level in &state.warn {
        mark(level.of(capacity), b'w');
    }
    if let Some(budget) = now.budget {
        mark(budget, b'B');
    }
    let below = String::from_utf8(below).unwrap_or_default();
    // Left of the marks there is room for what they mean.
    let meaning = " w warning  B budget";
    let free = below.chars().take_while(|character| *character == ' ').count();
    let below = if free > meaning.len() + 1 {
        format!("{meaning}{}", below.get(meaning.len()..).unwrap_or_default())
    } else {
        below
    };
    (bar, Line::from(Span::styled(below, dim(state))))
}

fn totals<'a>(now: &Now, state: &State) -> Vec<Line<'a>> {
    let demand = format!(
        "demand {} = here {} + promised {} + redirected {}; peak {}",
        short(now.demand()),
        short(now.space.used),
        short(now.promised),
        short(now.redirected()),
        short(state.peak)
    );
    let targets = now.targets.iter().take(2).map(|target| match target.medium {
        Some(medium) => {
            format!("{} ({}) {}, room {}", target.path, medium.noun(), short(target.held), short(target.room))
        }
        None => format!("{} unusable", target.path),
    });
    let targets = targets.collect::<Vec<_>>().join("; ");
    let other = now.other;
    let elsewhere = format!(
        "strangers {}; elsewhere: memfd {}, anonymous {}, System V {}",
        short(now.strangers),
        short(other.memfd),
        short(other.anonymous),
        short(other.system_v)
    );
    vec![Line::from(demand), Line::from(targets), Line::from(elsewhere)]
}

fn draw_history(frame: &mut Frame<'_>, area: Rect, now: &Now, state: &State) {
    let [label, graph] = Layout::horizontal([Constraint::Length(10), Constraint::Min(10)]).areas(area);
    let highest = state.history.iter().copied().max().unwrap_or(0).max(now.space.capacity.unwrap_or(0)).max(1);
    let words = vec![
        Line::from(format!("{:>9}", short(highest))),
        Line::from(Span::styled("  demand", dim(state))),
        Line::from(format!("{:>9}", "0")),
    ];
    frame.render_widget(Paragraph::new(words), label);
    let width = usize::from(graph.width);
    let start = state.history.len().saturating_sub(width);
    let shown = state.history.get(start..).unwrap_or_default();
    let style = coloured(state, Color::Cyan);
    frame.render_widget(Sparkline::default().data(shown).max(highest).style(style), graph);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let columns = state.columns();
    let head = Row::new(columns.iter().enumerate().map(|(index, column)| {
        let arrow = match (index == state.sort, state.reverse) {
            (true, false) => "v",
            (true, true) => "^",
            _ => "",
        };
        let text = format!("{}{arrow}", column.name);
        cell(&text, column.width, column.right)
    }))
    .style(Style::new().add_modifier(Modifier::REVERSED));
    let most = usize::from(area.height.saturating_sub(1));
    let rows = state.rows(most).into_iter().map(|row| {
        Row::new(
            row.iter().zip(columns).map(|(text, column)| cell(text, column.width, column.right)).collect::<Vec<_>>(),
        )
    });
    let widths = columns.iter().map(|column| match column.width {
        0 => Constraint::Min(10),
        width => Constraint::Length(width),
    });
    frame.render_widget(Grid::new(rows, widths).header(head).column_spacing(1), area);
}

fn cell<'a>(text: &str, width: u16, right: bool) -> Cell<'a> {
    let room = match width {
        0 => isize::MAX,
        width => width as isize,
    };
    if room == isize::MAX {
        return Cell::from(text.to_owned());
    }
    Cell::from(crate::status::cell(text, if right { -room } else { room }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::{Creator, Holder, Other, Place, ProcessNow, Segment, Target};
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;
    use shmguard_core::room::Space;
    use shmguard_core::size::Amount;

    fn now() -> Now {
        let segment = |name: &str, held: u64, place| Segment {
            name: name.to_owned(),
            named: true,
            place,
            identity: Default::default(),
            promised: held * 2,
            held,
            creator: Some(Creator { pid: 4711, command: "python3".to_owned(), gone: false }),
            created_ms: Some(1_000),
            holders: vec![Holder { pid: 4711, descriptors: 1, mappings: 0 }],
            in_ledger: true,
        };
        Now {
            path: "/dev/shm".to_owned(),
            identity: Default::default(),
            space: Space {
                capacity: Some(64 << 20),
                free: 16 << 20,
                used: 48 << 20,
                inodes: None,
                inodes_free: u64::MAX,
                readonly: false,
                noexec: false,
            },
            fill: 56 << 20,
            limit: Some(60 << 20),
            forecast: None,
            clock_ms: 1,
            is_ram: true,
            budget: Some(60 << 20),
            segments: vec![
                segment("small", 1 << 20, Place::Guard),
                segment("large", 40 << 20, Place::Guard),
                segment("moved", 90 << 20, Place::Target(0)),
            ],
            targets: vec![Target {
                path: "/var/tmp".to_owned(),
                medium: Some(shmguard_core::target::Medium::Disk),
                room: 50 << 30,
                cap: None,
                held: 90 << 20,
            }],
            promised: 8 << 20,
            strangers: 7 << 20,
            other: Other { memfd: 1 << 20, ..Other::default() },
            processes: vec![ProcessNow { pid: 4711, command: "python3".to_owned(), ..Default::default() }],
            memory: Default::default(),
            peak: Default::default(),
            pids: vec![4711],
            with_library: vec![4711],
            unseen: 0,
            at_ms: 5_000,
        }
    }

    fn screen(state: &State) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
        terminal.draw(|frame| draw(frame, state)).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        (0..24).map(|y| (0..80).map(|x| buffer[(x, y)].symbol().to_owned()).collect()).collect()
    }

    #[test]
    fn everything_is_on_a_screen_of_80_by_24() {
        let mut state = State::new(vec![Amount::Percent(75), Amount::Percent(90)], true);
        state.take(now());
        let lines = screen(&state);
        assert!(lines[0].contains("/dev/shm") && lines[0].contains("48.0 MiB of 64.0 MiB in use (75%)"), "{lines:#?}");
        // 78 columns of gauge: 48 of 64 used, 56 of 64 used or promised.
        assert_eq!(lines[1].matches('#').count(), 58);
        assert_eq!(lines[1].matches('+').count(), 10);
        let marks = lines[2].get(21..).expect("what follows the meaning");
        let column = |percent: usize| 1 + 78 * percent / 100 - 21;
        assert_eq!(marks.match_indices('w').map(|(at, _)| at).collect::<Vec<_>>(), [column(75), column(90)], "{marks}");
        assert_eq!(lines[2].rfind('B'), Some(1 + 78 * 60 / 64));
        assert!(lines[3].starts_with("demand 146.0M = here 48.0M + promised 8.0M + redirected 90.0M"), "{}", lines[3]);
        assert!(lines[5].starts_with("strangers 7.0M"), "{}", lines[5]);
        let rows: Vec<&String> = lines.iter().filter(|line| line.contains("python3[4711]")).collect();
        assert!(
            rows[0].starts_with("moved") && rows[1].starts_with("large") && rows[2].starts_with("small"),
            "{rows:#?}"
        );
        assert!(lines[23].starts_with("q quit"));
    }

    #[test]
    fn keys_sort_and_switch() {
        let mut state = State::new(Vec::new(), false);
        state.take(now());
        state.step(super::super::state::Step::Reverse);
        let first = |state: &State| screen(state).into_iter().find(|line| line.contains("python3[4711]"));
        assert!(first(&state).expect("a row").starts_with("small"));
        state.step(super::super::state::Step::Switch);
        assert!(screen(&state).iter().any(|line| line.trim_start().starts_with("4711 python3")));
    }
}
