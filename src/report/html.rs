//! One self-contained page: no network, no script that it needs, light and dark by the reader's preference.

use std::fmt::Write;

use shmguard_core::size::{Flag, Human};

use super::chart::{self, Series};
use super::summary::Summary;
use super::text;
use crate::run::signal_name;

const STYLE: &str = include_str!("page.css");

/// The page.
pub fn page(summary: &Summary) -> String {
    let mut out = String::new();
    let title = format!("shmguard: {}", summary.command.join(" "));
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, \
         initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(&title)
    );
    heading(summary, &mut out);
    tiles(summary, &mut out);
    let series = chart::series(summary);
    let svg = chart::svg(summary, &series);
    if !svg.is_empty() {
        let _ = write!(out, "<section>\n<h2>Demand over time</h2>\n");
        legend(summary, &series, &mut out);
        let _ = write!(out, "<div class=\"chart\">{svg}</div>\n</section>\n");
    }
    tables(summary, &mut out);
    let _ = write!(
        out,
        "<footer>{}. Made by shmguard {}.</footer>\n</main>\n</body>\n</html>\n",
        escape(&text::caution(summary)),
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn heading(summary: &Summary, out: &mut String) {
    let (how, class) = match (summary.exit, summary.signal) {
        (_, Some(signal)) => (format!("ended by {}", signal_name(signal)), "bad"),
        (Some(0), _) => ("ended well".to_owned(), "good"),
        (Some(status), _) => (format!("ended with status {status}"), "bad"),
        _ => ("end not in the log".to_owned(), ""),
    };
    let _ = write!(
        out,
        "<h1><code>{}</code></h1>\n<p class=\"sub\"><span class=\"badge {class}\">{how}</span> {:.1} s{}, {}</p>\n",
        escape(&summary.command.join(" ")),
        summary.duration_s,
        match summary.processes {
            0 => String::new(),
            processes => format!(", {} used shared memory", text::count(processes, "process", "es")),
        },
        escape(&date(summary.started_s))
    );
    for line in &summary.explanation {
        let _ = writeln!(out, "<p class=\"why\">{}</p>", escape(line));
    }
    let _ = writeln!(out, "<p>{}.</p>", escape(&capital(&text::advice(summary))));
}

fn tiles(summary: &Summary, out: &mut String) {
    let peak = &summary.peak;
    let guard = &summary.guard;
    let size = guard.capacity_bytes.map_or_else(|| "no limit".to_owned(), |bytes| format!("of {}", Human(bytes)));
    let targets = text::targets(summary);
    let segments = &summary.segments;
    let mut under = format!("{} redirected", segments.redirected);
    for (number, word) in
        [(segments.refused, "refused"), (segments.unsaved, "not helped"), (segments.leaked, "left behind")]
    {
        if number > 0 {
            let _ = write!(under, ", {number} {word}");
        }
    }
    let tiles = [
        (
            "Peak demand",
            Human(peak.demand_bytes).to_string(),
            peak.demand_at_s.map(|at| format!("after {at:.1} s")).unwrap_or_default(),
        ),
        ("Peak in the tmpfs", Human(peak.tmpfs_bytes).to_string(), format!("{size}, {}", guard.path)),
        (
            "Peak redirected",
            Human(peak.redirected_bytes).to_string(),
            if targets.is_empty() { "nothing".to_owned() } else { targets },
        ),
        ("Segments", segments.created.to_string(), under),
        ("Large enough", Flag(summary.suggested_shm_size).to_string(), format!("--shm-size, {}", text::aim(summary))),
    ];
    out.push_str("<div class=\"tiles\">\n");
    for (name, value, under) in tiles {
        let _ = writeln!(
            out,
            "<div><span>{name}</span><strong>{}</strong><small>{}</small></div>",
            escape(&value),
            escape(&under)
        );
    }
    out.push_str("</div>\n");
}

fn legend(summary: &Summary, series: &[Series], out: &mut String) {
    out.push_str("<ul class=\"legend\">\n");
    for one in series {
        let name = if one.name.is_empty() { "not attributed" } else { &one.name };
        let _ = writeln!(
            out,
            "<li><i class=\"b{}\"></i>{} <small>{}</small></li>",
            one.class,
            escape(name),
            Human(one.peak)
        );
    }
    let guard = &summary.guard;
    if summary.peak.redirected_bytes > 0 {
        let _ =
            writeln!(out, "<li><i class=\"line b26\"></i>above: redirected, below: in {}</li>", escape(&guard.path));
    }
    if let Some(bytes) = guard.capacity_bytes {
        let _ = writeln!(out, "<li><i class=\"line b23\"></i>size of the tmpfs <small>{}</small></li>", Human(bytes));
    }
    if let Some(bytes) = guard.budget_bytes {
        let _ = writeln!(out, "<li><i class=\"line b24\"></i>budget <small>{}</small></li>", Human(bytes));
    }
    if !summary.warnings.is_empty() {
        out.push_str("<li><i class=\"mark\"></i>warning</li>\n");
    }
    out.push_str("</ul>\n");
}

fn tables(summary: &Summary, out: &mut String) {
    let guard = &summary.guard.path;
    table(
        out,
        "Largest segments",
        &["Segment", "Size", "Created by", "Where", "At"],
        summary.largest.iter().map(|large| {
            vec![
                if large.name.is_empty() { "(nameless)".to_owned() } else { large.name.clone() },
                Human(large.bytes).to_string(),
                format!("{}[{}]", large.command, large.pid),
                if large.place == "guard" { guard.clone() } else { large.place.clone() },
                format!("{:.1} s", large.at_s),
            ]
        }),
    );
    table(
        out,
        "Programs",
        &["Program", "Processes", "Segments", "Peak", "Sized in all"],
        summary.programs.iter().map(|program| {
            vec![
                program.command.clone(),
                program.processes.to_string(),
                program.segments.to_string(),
                Human(program.peak_bytes).to_string(),
                Human(program.bytes).to_string(),
            ]
        }),
    );
    table(
        out,
        "Warnings",
        &["At", "Process", "What was said"],
        summary.warnings.iter().map(|warning| {
            vec![
                format!("{:.1} s", warning.at_s),
                format!("{}[{}]", warning.command, warning.pid),
                warning.text.strip_prefix("shmguard: ").unwrap_or(&warning.text).to_owned(),
            ]
        }),
    );
    table(
        out,
        "Ended by a signal",
        &["At", "Process", "Signal", "Cause", "Segment"],
        summary.deaths.iter().map(|death| {
            vec![
                format!("{:.1} s", death.at_s),
                format!("{}[{}]", death.command, death.pid),
                signal_name(death.signal),
                death.cause.clone(),
                death.segment.clone().unwrap_or_default(),
            ]
        }),
    );
    table(
        out,
        "Without the library",
        &["Program", "Why"],
        summary.without_library.iter().map(|without| vec![without.program.clone(), without.reason.clone()]),
    );
}

fn table(out: &mut String, title: &str, heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = write!(out, "<section>\n<h2>{title}</h2>\n<div class=\"scroll\"><table>\n<tr>");
    for head in heads {
        let class = if is_number(head) { " class=\"n\"" } else { "" };
        let _ = write!(out, "<th{class}>{head}</th>");
    }
    out.push_str("</tr>\n");
    for row in rows {
        out.push_str("<tr>");
        for (cell, head) in row.iter().zip(heads) {
            let class = if is_number(head) { " class=\"n\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n</section>\n");
}

fn is_number(head: &str) -> bool {
    matches!(head, "Size" | "Processes" | "Segments" | "Peak" | "Sized in all" | "At")
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Text inside HTML, whatever somebody's names contain.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Date and time in UTC of seconds since 1970. Days to a date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn date(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as i64;
    let (days, second) = (seconds / 86400, seconds % 86400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted - era * 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let part = (5 * of_year + 2) / 153;
    let day = of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        assert_eq!(date(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_735_689_599.0), "2024-12-31 23:59:59 UTC");
    }

    #[test]
    fn hostile_names_stay_text_and_nothing_is_fetched() {
        let mut summary = Summary { command: vec!["<script>alert(1)</script>".to_owned()], ..Summary::default() };
        summary.largest.push(super::super::summary::Large { name: "\"><img src=x>".to_owned(), ..Default::default() });
        let page = page(&summary);
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("), "{page}");
    }
}
