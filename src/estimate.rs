//! `shmguard estimate`: what a PyTorch DataLoader will need at most, and with `--fit` what fits.

mod fit;
mod sample;

use std::ffi::CString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use shmguard_core::guard::Guard;
use shmguard_core::policy::suggested_capacity;
use shmguard_core::size::{self, Amount, Flag, Human};

use crate::now;
pub use sample::Sample;

/// Says what a DataLoader will need, and the flag to pass.
///
/// The figure is reached when the consumer is slower than the workers, so that all batches drawn ahead wait in shared
/// memory. The size to pass has room for one batch more, since a `for` loop lets go of a batch only when it has the next.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  shmguard estimate --workers 8 --prefetch 2 --batch 32 --sample 3x224x224:f32
  shmguard estimate --workers 4 --batch 64 --sample 3x224x224:f32 --sample :i64
  shmguard estimate --fit --sample 3x224x224:u8 --workers 8
  shmguard estimate --fit --shm-size 2g --sample 3x512x512:f32 --batch 16

Samples are SHAPE:TYPE, one for each tensor that a sample consists of; the types are
f16 bf16 f32 f64 f8 u8 i8 u16 i16 u32 i32 u64 i64 bool c64 c128, or PyTorch's names.
A Python int becomes :i64, a Python float :f64.")]
pub struct Args {
    /// Worker processes (num_workers).
    #[arg(long, value_name = "N", required_unless_present = "fit")]
    pub workers: Option<u64>,
    /// Batches that each worker draws ahead (prefetch_factor); 2 unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub prefetch: Option<u64>,
    /// Samples in a batch (batch_size).
    #[arg(long, value_name = "N", required_unless_present = "fit", value_parser = clap::value_parser!(u64).range(1..))]
    pub batch: Option<u64>,
    /// Shape and type of one tensor of a sample, without the batch dimension; once for each tensor.
    #[arg(long = "sample", value_name = "SHAPE:TYPE", required = true)]
    pub samples: Vec<Sample>,
    /// How tensors are shared (torch.multiprocessing.set_sharing_strategy).
    #[arg(long, value_name = "NAME", default_value = "file_descriptor")]
    pub strategy: Strategy,
    /// Batches that the consumer has in its hands at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub keep: u64,
    /// Processes with such a DataLoader each that share this /dev/shm (ranks of one machine).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub ranks: u64,
    /// The reverse: which workers, prefetch and batch fit; what is given stays fixed.
    #[arg(long)]
    pub fit: bool,
    /// Compare with a /dev/shm of this size instead of the one that is here.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub shm_size: Option<u64>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// How PyTorch shares the storage of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Strategy {
    /// PyTorch's default on Linux: a segment without a name for each tensor.
    FileDescriptor,
    /// A segment with a name for each tensor.
    FileSystem,
}

impl Strategy {
    /// Bytes that PyTorch puts in front of a tensor: `file_system` counts its users there
    /// (`map_alloc_alignment` in PyTorch's MapAllocator.cpp).
    fn header(self) -> u64 {
        match self {
            Strategy::FileDescriptor => 0,
            Strategy::FileSystem => 64,
        }
    }
}

/// Reads a size in bytes for clap.
///
/// # Errors
/// Not a size, or a share.
pub fn bytes(text: &str) -> Result<u64, String> {
    match size::parse(text.as_bytes()) {
        Some(Amount::Bytes(bytes)) => Ok(bytes),
        _ => Err("expected a size such as 64m or 2g".into()),
    }
}

/// A page of a tmpfs in bytes; a segment holds whole pages.
const PAGE: u64 = 4096;

/// Named semaphores of a loader's queues and locks: a page each. multiprocessing makes two for an index queue and its
/// reading end, one worker has one; the result queue, the end event and the pool's own stand for eight more.
fn semaphores(workers: u64) -> u64 {
    workers.saturating_mul(3).saturating_add(8).saturating_mul(PAGE)
}

/// A DataLoader as far as its need is concerned.
#[derive(Clone, Debug)]
pub struct Loader<'a> {
    workers: u64,
    prefetch: u64,
    batch: u64,
    samples: &'a [Sample],
    header: u64,
    keep: u64,
    ranks: u64,
}

impl Loader<'_> {
    /// Bytes of one batch: a segment for each tensor, in whole pages; `None`: more than 2^64.
    fn batch_bytes(&self) -> Option<u64> {
        self.samples.iter().try_fold(0u64, |sum, sample| {
            let content = sample.bytes().checked_mul(self.batch)?;
            // PyTorch makes no segment for a tensor without elements.
            let held =
                if content == 0 { 0 } else { content.checked_add(self.header)?.checked_next_multiple_of(PAGE)? };
            sum.checked_add(held)
        })
    }

    /// Batches alive at once in one loader: `_tasks_outstanding` of PyTorch's iterator never exceeds workers x prefetch,
    /// and it asks for the next one before it hands out the current one, which the consumer then has.
    fn alive(&self) -> Option<u64> {
        if self.workers == 0 {
            return Some(0);
        }
        self.workers.checked_mul(self.prefetch)?.checked_add(self.keep)
    }

    /// Bytes wanted at once, at most; `None`: more than 2^64.
    fn demand(&self) -> Option<u64> {
        let alive = self.alive()?;
        if alive == 0 {
            return Some(0);
        }
        let loader = self.batch_bytes()?.checked_mul(alive)?.checked_add(semaphores(self.workers))?;
        loader.checked_mul(self.ranks)
    }

    /// The size of a tmpfs for this need and the one batch more that there may be for a moment: a `for` loop has the last
    /// one until it gets the next, and by then a worker has been asked for another (seen with workers that draw quickly).
    fn suggested(&self, demand: u64, batch: u64) -> u64 {
        let moment = if demand == 0 { 0 } else { batch.saturating_mul(self.ranks) };
        suggested_capacity(demand.saturating_add(moment))
    }
}

/// The directory to compare with.
struct Shm {
    /// Size in bytes; `None` = unlimited.
    capacity: Option<u64>,
    /// Bytes that new segments may take before they are redirected.
    room: u64,
    /// It is the one that is here, not one that was named.
    here: bool,
}

impl Shm {
    fn look(size: Option<u64>) -> Option<Shm> {
        let config = now::config();
        if let Some(capacity) = size {
            return Some(Shm { capacity: Some(capacity), room: config.budget_bytes(capacity), here: false });
        }
        let path: CString = config.guards.first()?.clone();
        let guard = Guard::open(&path).filter(|guard| guard.is_ram)?;
        let budget = guard.space.capacity.map_or(u64::MAX, |capacity| config.budget_bytes(capacity));
        let room = budget.saturating_sub(guard.space.used);
        Some(Shm { capacity: guard.space.capacity, room, here: true })
    }

    fn words(&self) -> String {
        let which = if self.here { "this /dev/shm" } else { "a /dev/shm of this size" };
        match self.capacity {
            Some(capacity) => format!("{which} ({}, room for {})", Human(capacity), Human(self.room)),
            None => format!("{which} (unlimited)"),
        }
    }
}

/// Prints the estimate. Exit 0; with `--fit` 1 when nothing fits.
///
/// # Errors
/// A need beyond 2^64 bytes, or output that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let shm = Shm::look(args.shm_size);
    if args.fit {
        let shm = shm.context("there is no tmpfs at /dev/shm to fit into; name a size with --shm-size")?;
        return fit::run(args, &shm);
    }
    let loader = Loader {
        workers: args.workers.unwrap_or(0),
        prefetch: args.prefetch.unwrap_or(2),
        batch: args.batch.unwrap_or(1),
        samples: &args.samples,
        header: args.strategy.header(),
        keep: args.keep,
        ranks: args.ranks,
    };
    let too_much = "such a DataLoader would need more than 16 EiB";
    let demand = loader.demand().context(too_much)?;
    let batch = loader.batch_bytes().context(too_much)?;
    let alive = loader.alive().context(too_much)?;
    let suggested = loader.suggested(demand, batch);
    let text = if args.json {
        let fits = shm.as_ref().map(|shm| demand <= shm.room);
        let value = json!({
            "workers": loader.workers, "prefetch": loader.prefetch, "batch": loader.batch, "keep": loader.keep,
            "ranks": loader.ranks, "batch_bytes": batch, "batches_alive": alive.saturating_mul(loader.ranks),
            "demand_bytes": demand, "suggested_shm_size": Flag(suggested).to_string(), "suggested_bytes": suggested,
            "shm": shm.as_ref().map(|shm| json!({"capacity_bytes": shm.capacity, "room_bytes": shm.room})),
            "fits": fits,
        });
        format!("{value:#}\n")
    } else {
        tell(&loader, demand, batch, alive, shm.as_ref())?
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn tell(loader: &Loader<'_>, demand: u64, batch: u64, alive: u64, shm: Option<&Shm>) -> anyhow::Result<String> {
    let mut text = String::new();
    if demand == 0 {
        writeln!(text, "Without workers a DataLoader needs no shared memory.")?;
        return Ok(text);
    }
    writeln!(text, "one batch      {} ({} samples)", Human(batch), loader.batch)?;
    let ranks = if loader.ranks > 1 { format!(", in each of {} processes", loader.ranks) } else { String::new() };
    writeln!(
        text,
        "alive at once  {alive} batches: {} workers x prefetch {}, {} with the consumer{ranks}",
        loader.workers, loader.prefetch, loader.keep
    )?;
    writeln!(text, "needs at most  {}", Human(demand))?;
    let suggested = loader.suggested(demand, batch);
    writeln!(text, "pass           docker run --shm-size={}", Flag(suggested))?;
    writeln!(text, "               shm_size: {} (compose)", Flag(suggested))?;
    writeln!(text, "               sizeLimit: {} (Kubernetes, emptyDir, medium: Memory)", quantity(suggested))?;
    match shm {
        Some(shm) if demand <= shm.room => writeln!(text, "fits           into {}", shm.words())?,
        Some(shm) => {
            writeln!(text, "does not fit   into {}", shm.words())?;
            writeln!(text, "               `shmguard run -- CMD` redirects up to {}", Human(demand - shm.room))?;
        }
        None => writeln!(text, "               there is no tmpfs at /dev/shm here to compare with")?,
    }
    Ok(text)
}

/// Bytes as a Kubernetes quantity, rounded up: there `m` would mean thousandths.
pub fn quantity(bytes: u64) -> String {
    let mebibytes = bytes.div_ceil(1 << 20).max(1);
    if mebibytes.is_multiple_of(1024) {
        format!("{}Gi", mebibytes / 1024)
    } else {
        format!("{mebibytes}Mi")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loader(samples: &[Sample]) -> Loader<'_> {
        Loader { workers: 8, prefetch: 2, batch: 32, samples, header: 0, keep: 1, ranks: 1 }
    }

    #[test]
    fn every_tensor_takes_whole_pages() {
        let samples = ["3x224x224:f32".parse().expect("a sample"), ":i64".parse().expect("a sample")];
        let loader = loader(&samples);
        assert_eq!(loader.batch_bytes(), Some(32 * 3 * 224 * 224 * 4 + 4096));
        assert_eq!(loader.alive(), Some(17));
        let header = Loader { header: 64, ..loader.clone() };
        assert_eq!(header.batch_bytes(), Some(32 * 3 * 224 * 224 * 4 + 4096 + 4096));
        assert_eq!(Loader { ranks: 2, ..loader.clone() }.demand(), loader.demand().map(|one| one * 2));
    }

    #[test]
    fn no_workers_need_nothing_and_too_much_is_no_number() {
        let samples = ["3x224x224:f32".parse().expect("a sample")];
        assert_eq!(Loader { workers: 0, ..loader(&samples) }.demand(), Some(0));
        assert_eq!(Loader { workers: u64::MAX, ..loader(&samples) }.demand(), None);
        assert_eq!(Loader { batch: u64::MAX, ..loader(&samples) }.demand(), None);
    }

    #[test]
    fn quantities_are_kubernetes_own() {
        assert_eq!(quantity(512 << 20), "512Mi");
        assert_eq!(quantity((512 << 20) + 1), "513Mi");
        assert_eq!(quantity(2 << 30), "2Gi");
    }
}
