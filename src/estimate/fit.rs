//! `estimate --fit`: which workers, prefetch and batch fit into a /dev/shm.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use serde_json::json;
use shmguard_core::size::Human;

use super::{Args, Loader, Shm};

/// A setting that was tried: the largest that fits, or the smallest when none does.
struct Row {
    workers: u64,
    prefetch: u64,
    batch: u64,
    demand: Option<u64>,
    fits: bool,
}

/// Prints what fits. Exit 1 when nothing does.
///
/// # Errors
/// Output that cannot be written.
pub fn run(args: &Args, shm: &Shm) -> anyhow::Result<ExitCode> {
    let rows = rows(args, shm.room);
    let any = rows.iter().any(|row| row.fits);
    let text = if args.json {
        let list: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({"workers": row.workers, "prefetch": row.prefetch, "batch": row.batch,
                       "demand_bytes": row.demand, "fits": row.fits})
            })
            .collect();
        format!("{:#}\n", json!({"capacity_bytes": shm.capacity, "room_bytes": shm.room, "settings": list}))
    } else {
        tell(&rows, shm)?
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn rows(args: &Args, room: u64) -> Vec<Row> {
    let cores = std::thread::available_parallelism().map_or(8, |number| number.get() as u64).max(4);
    let doublings = |most: u64| (0..).map(|power| 1u64 << power).take_while(move |number| *number <= most);
    let workers: Vec<u64> = match (args.workers, args.batch) {
        (Some(workers), _) => vec![workers],
        // The batch is given: the number of workers is what is looked for.
        (None, Some(_)) => Vec::new(),
        (None, None) => doublings(cores).collect(),
    };
    let prefetch: Vec<u64> = match (args.prefetch, args.batch) {
        (Some(prefetch), _) => vec![prefetch],
        (None, Some(_)) => vec![1, 2, 4],
        (None, None) => vec![2],
    };
    let mut rows = Vec::new();
    for prefetch in prefetch {
        let row = |workers: u64, batch: u64| {
            let loader = Loader {
                workers,
                prefetch,
                batch,
                samples: &args.samples,
                header: args.strategy.header(),
                keep: args.keep,
                ranks: args.ranks,
            };
            let demand = loader.demand();
            Row { workers, prefetch, batch, demand, fits: demand.is_some_and(|demand| demand <= room) }
        };
        match args.batch {
            Some(batch) if workers.is_empty() => rows.push(row(largest(|workers| row(workers, batch).fits), batch)),
            Some(batch) => rows.extend(workers.iter().map(|workers| row(*workers, batch))),
            None => {
                rows.extend(workers.iter().map(|workers| row(*workers, largest(|batch| row(*workers, batch).fits))))
            }
        }
    }
    rows
}

/// More workers or samples than this are no answer, only a sign that they do not matter.
const MOST: u64 = 1 << 20;

/// The largest number from 1 to [`MOST`] that fits, given that every smaller one does then; 1 when none does.
fn largest(fits: impl Fn(u64) -> bool) -> u64 {
    let (mut good, mut bad) = (1, MOST + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

fn tell(rows: &[Row], shm: &Shm) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(text, "Into {}:", shm.words())?;
    writeln!(text, "{:>8} {:>9} {:>8} {:>12}", "workers", "prefetch", "batch", "needs")?;
    for row in rows {
        let needs = row.demand.map_or("too much".into(), |demand| Human(demand).to_string());
        let verdict = if row.fits { "" } else { "  does not fit" };
        let batch = if row.batch == MOST { "any".into() } else { row.batch.to_string() };
        writeln!(text, "{:>8} {:>9} {batch:>8} {needs:>12}{verdict}", row.workers, row.prefetch)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_fits_is_found() {
        for limit in [1, 2, 3, 17, 1000, MOST - 1, MOST] {
            assert_eq!(largest(|number| number <= limit), limit);
        }
        assert_eq!(largest(|_| false), 1);
        assert_eq!(largest(|_| true), MOST);
    }
}
