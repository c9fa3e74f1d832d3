//! The chart of demand over time: stacked by program, with the tmpfs's size, the budget, warnings and redirects.
//!
//! plotters draws it as SVG. Colours are placeholders that become classes, so that the page's style sheet decides, in light
//! and in dark.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use shmguard_core::size::Human;

use super::summary::{Point, Summary};

/// Programs with a colour of their own; all others share one.
pub const SERIES: usize = 7;

/// Size of the drawing; the page scales it.
const WIDTH: u32 = 1000;
const HEIGHT: u32 = 420;

/// Placeholders: the series, then these.
const OTHERS: u8 = 20;
const INK: u8 = 21;
const GRID: u8 = 22;
const CAPACITY: u8 = 23;
const BUDGET: u8 = 24;
const WARNING: u8 = 25;
const HERE: u8 = 26;

/// One area of the stack.
pub struct Series {
    /// The program; empty for what belongs to none that is named.
    pub name: String,
    /// Its class in the page: `fN` and `sN`.
    pub class: u8,
    /// Its highest value in the chart.
    pub peak: u64,
}

/// The areas, from the bottom up.
pub fn series(summary: &Summary) -> Vec<Series> {
    let mut all: Vec<Series> = summary
        .programs
        .iter()
        .filter(|program| program.peak_bytes > 0)
        .take(SERIES)
        .zip(0u8..)
        .map(|(program, class)| Series { name: program.command.clone(), class, peak: program.peak_bytes })
        .collect();
    let peak = summary.timeline.iter().map(|point| rest(point, &all)).max().unwrap_or(0);
    if peak > 0 {
        all.push(Series { name: String::new(), class: OTHERS, peak });
    }
    all
}

fn rest(point: &Point, series: &[Series]) -> u64 {
    let named: u64 = series.iter().filter_map(|series| point.programs.get(&series.name)).sum();
    point.demand().saturating_sub(named)
}

/// The chart as an SVG element; empty when there is nothing to draw.
pub fn svg(summary: &Summary, series: &[Series]) -> String {
    if summary.timeline.len() < 2 {
        return String::new();
    }
    let mut text = String::new();
    match draw(summary, series, &mut text) {
        Ok(()) => with_classes(&text),
        // Only a broken backend fails, and a string is none; the page does without then.
        Err(_) => String::new(),
    }
}

fn placeholder(class: u8) -> RGBColor {
    RGBColor(1, 1, class)
}

fn draw(summary: &Summary, series: &[Series], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let points = &summary.timeline;
    let first = points.first().map_or(0.0, |point| point.t_s);
    let last = points.last().map_or(1.0, |point| point.t_s).max(first + 0.001);
    let highest = points.iter().map(Point::demand).max().unwrap_or(0).max(1) as f64;
    // The tmpfs's size belongs into the picture unless it would press everything else flat.
    let lines = [summary.guard.capacity_bytes, summary.guard.budget_bytes];
    let shown = |bytes: u64| (bytes as f64) < highest * 4.0;
    let top = lines.iter().flatten().filter(|bytes| shown(**bytes)).fold(highest, |top, bytes| top.max(*bytes as f64));
    let (unit, top) = scale(top * 1.08);

    let root = SVGBackend::with_string(text, (WIDTH, HEIGHT)).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(84)
        .build_cartesian_2d(first..last, Bytes { unit, top })?;
    let style = |size: u32| ("sans-serif", size).into_font().color(&placeholder(INK));
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(placeholder(GRID))
        .axis_style(placeholder(GRID))
        .label_style(style(14))
        .axis_desc_style(style(14))
        .x_desc("seconds from the start")
        .x_labels(10)
        .x_label_formatter(&|value| if last - first < 20.0 { format!("{value:.1}") } else { format!("{value:.0}") })
        .draw()?;

    let mut floor = vec![0u64; points.len()];
    for one in series {
        let mut ceiling = Vec::with_capacity(points.len());
        for (point, below) in points.iter().zip(&floor) {
            let own = if one.class == OTHERS {
                point.demand().saturating_sub(*below)
            } else {
                point.programs.get(&one.name).copied().unwrap_or(0)
            };
            ceiling.push(below.saturating_add(own));
        }
        let upper = points.iter().zip(&ceiling).map(|(point, bytes)| (point.t_s, *bytes as f64));
        let lower = points.iter().zip(&floor).map(|(point, bytes)| (point.t_s, *bytes as f64));
        let outline: Vec<(f64, f64)> = upper.chain(lower.rev()).collect();
        chart.draw_series(std::iter::once(Polygon::new(outline, placeholder(one.class).filled())))?;
        floor = ceiling;
    }
    if summary.peak.redirected_bytes > 0 {
        let here =
            points.iter().map(|point| (point.t_s, point.tmpfs_bytes.saturating_add(point.promised_bytes) as f64));
        chart.draw_series(LineSeries::new(here, placeholder(HERE).stroke_width(2)))?;
    }
    for (bytes, class) in [(summary.guard.capacity_bytes, CAPACITY), (summary.guard.budget_bytes, BUDGET)] {
        let Some(bytes) = bytes.filter(|bytes| shown(*bytes)) else { continue };
        let ends = [(first, bytes as f64), (last, bytes as f64)];
        chart.draw_series(LineSeries::new(ends, placeholder(class).stroke_width(2)))?;
    }
    for warning in summary.warnings.iter().filter(|warning| (first..=last).contains(&warning.at_s)) {
        let at = warning.at_s;
        chart.draw_series(LineSeries::new([(at, 0.0), (at, top)], placeholder(WARNING).stroke_width(1)))?;
        chart.draw_series(std::iter::once(TriangleMarker::new((at, top * 0.985), 7, placeholder(WARNING).filled())))?;
    }
    root.present()?;
    drop(chart);
    drop(root);
    Ok(())
}

/// A distance of grid lines that is a power of two, and the next multiple of it above `top`.
fn scale(top: f64) -> (f64, f64) {
    let mut unit = 1024.0;
    while top / unit > 8.0 {
        unit *= 2.0;
    }
    (unit, (top / unit).ceil() * unit)
}

/// The axis of bytes, from 0 up, with grid lines at multiples of `unit`.
struct Bytes {
    unit: f64,
    top: f64,
}

impl Ranged for Bytes {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (bottom, top): (i32, i32)) -> i32 {
        bottom + (f64::from(top - bottom) * value / self.top).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..=(self.top / self.unit).round() as u32).map(|line| f64::from(line) * self.unit).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..self.top
    }
}

impl ValueFormatter<f64> for Bytes {
    fn format(value: &f64) -> String {
        Human(*value as u64).to_string()
    }
}

/// Placeholders become classes, and the drawing takes the width that there is.
fn with_classes(svg: &str) -> String {
    let mut text = svg.replacen(&format!("width=\"{WIDTH}\" height=\"{HEIGHT}\""), "role=\"img\"", 1);
    for class in (0..SERIES as u8).chain(OTHERS..=HERE) {
        text = text.replace(&format!("fill=\"#0101{class:02X}\""), &format!("class=\"f{class}\""));
        text = text.replace(&format!("stroke=\"#0101{class:02X}\""), &format!("class=\"s{class}\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::{Program, Warning};

    #[test]
    fn the_chart_has_every_program_both_lines_and_the_warnings() {
        let mut summary = Summary::default();
        summary.guard.capacity_bytes = Some(64 << 20);
        summary.guard.budget_bytes = Some(60 << 20);
        summary.peak.redirected_bytes = 1;
        for (name, peak) in [("python3", 100 << 20), ("java", 10 << 20)] {
            summary.programs.push(Program { command: name.to_owned(), peak_bytes: peak, ..Program::default() });
        }
        for second in 0..10u64 {
            let mut point = Point { t_s: second as f64, tmpfs_bytes: (20 + second * 10) << 20, ..Point::default() };
            point.programs.insert("python3".to_owned(), (second * 10) << 20);
            point.programs.insert("java".to_owned(), 10 << 20);
            summary.timeline.push(point);
        }
        summary.warnings.push(Warning { at_s: 4.0, ..Warning::default() });
        let series = series(&summary);
        let names: Vec<_> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["python3", "java", ""]);
        let svg = svg(&summary, &series);
        for class in ["f0", "f1", "f20", "s23", "s24", "s25", "f25", "s26"] {
            assert!(svg.contains(&format!("class=\"{class}\"")), "{class} in {svg}");
        }
        assert!(!svg.contains("#0101"), "a placeholder is left");
    }

    #[test]
    fn grid_lines_are_at_round_numbers() {
        for top in [1.0, 5000.0, 70.0 * 1048576.0, 1.3e9, 1e12] {
            let (unit, scaled) = scale(top);
            assert!(scaled >= top && scaled / unit <= 9.0 && (unit as u64).is_power_of_two(), "{top}");
        }
    }
}
