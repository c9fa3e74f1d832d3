//! The targets: room, kind, and how fast they really are.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use shmguard_core::config::{Config, TargetSpec};
use shmguard_core::reserve::Shortage;
use shmguard_core::segment::Identity;
use shmguard_core::target::{Directory, Medium, Unusable};

use super::root::Root;

/// A target directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// Its path in the system that is looked at.
    pub path: String,
    /// Why nothing can go there.
    pub unusable: Option<String>,
    /// `ram`, `disk`, `layer` or `other`.
    pub kind: Option<&'static str>,
    /// Bytes that segments may take there now.
    pub room_bytes: u64,
    /// The measured speed; `None`: not measured (another root, or no room).
    pub speed: Option<Speed>,
}

/// A measurement of a file that was reserved, mapped, written and removed again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// `memory`, `fast`, `medium` or `slow`.
    pub class: &'static str,
    /// Bytes that were written.
    pub bytes: u64,
    /// Bytes a second through the mapping: what a program notices, unless it writes faster than the disk for long.
    pub mapped_bytes_per_s: u64,
    /// Bytes a second from there to the disk; `None` for memory.
    pub written_back_bytes_per_s: Option<u64>,
}

/// Looks at all configured targets. `memory`: bytes that may still be used, which a measurement must not exhaust.
/// `on_slow` is called before each measurement.
pub fn look(root: &Root, config: &Config, guard: Identity, memory: Option<u64>, on_slow: &dyn Fn(&str)) -> Vec<Target> {
    config.targets.iter().map(|spec| target(root, spec, guard, memory.unwrap_or(u64::MAX), on_slow)).collect()
}

fn target(root: &Root, spec: &TargetSpec, guard: Identity, memory: u64, on_slow: &dyn Fn(&str)) -> Target {
    let shown = spec.path.to_string_lossy().into_owned();
    let mut target = Target { path: shown, unusable: None, kind: None, room_bytes: 0, speed: None };
    let real = root.path(&target.path);
    let Ok(path) = CString::new(real.as_os_str().as_bytes()) else { return target };
    let directory = match Directory::open(&path, guard) {
        Ok(directory) => directory,
        Err(unusable) => {
            target.unusable = Some(words(unusable));
            return target;
        }
    };
    target.kind = Some(directory.medium.word());
    target.room_bytes = directory.room().min(spec.cap.unwrap_or(u64::MAX));
    if directory.space.inodes.is_some() && directory.space.inodes_free == 0 {
        target.unusable = Some("it has no inode left".into());
    } else if target.room_bytes == 0 {
        target.unusable = Some("it has no room left".into());
    } else if root.is_here() {
        on_slow(&target.path);
        match measure(&directory, target.room_bytes.min(memory / 2)) {
            Ok(speed) => target.speed = speed,
            Err(Problem::NoReserve) => {
                target.unusable = Some("its file system cannot reserve room (no fallocate)".into());
            }
            Err(Problem::Kernel(error)) => target.unusable = Some(format!("a file in it cannot be used: {error}")),
        }
    }
    target
}

fn words(unusable: Unusable) -> String {
    match unusable {
        Unusable::Cannot(Errno::NOENT) => "it is not there".into(),
        Unusable::Cannot(error) => format!("it cannot be opened: {error}"),
        Unusable::NotWritable => "this user cannot write there".into(),
        Unusable::ReadOnly => "it is mounted read-only".into(),
        Unusable::IsGuard => "it lies on the guarded file system itself".into(),
    }
}

/// Bytes of the file that is measured with: enough for a figure, little enough for a second on a slow disk.
const SAMPLE: u64 = 32 << 20;
/// Below this a measurement says nothing.
const LEAST: u64 = 1 << 20;

enum Problem {
    NoReserve,
    Kernel(Errno),
}

impl From<Errno> for Problem {
    fn from(error: Errno) -> Problem {
        Problem::Kernel(error)
    }
}

fn measure(directory: &Directory, room: u64) -> Result<Option<Speed>, Problem> {
    let bytes = SAMPLE.min(room / 4) / LEAST * LEAST;
    if bytes == 0 {
        return Ok(None);
    }
    let file = nameless(directory)?;
    fs::ftruncate(&file, bytes)?;
    match directory.reserve(file.as_fd(), 0, bytes) {
        Ok(()) => {}
        Err(Shortage::Unsupported) => return Err(Problem::NoReserve),
        // Somebody else was quicker, or this is not the moment.
        Err(_) => return Ok(None),
    }
    let mapped = rate(bytes, write_through_mapping(&file, bytes)?);
    if directory.medium == Medium::Ram {
        return Ok(Some(Speed { class: "memory", bytes, mapped_bytes_per_s: mapped, written_back_bytes_per_s: None }));
    }
    let start = Instant::now();
    fs::fdatasync(&file)?;
    let back = rate(bytes, start.elapsed());
    let class = match back >> 20 {
        ..100 => "slow",
        100..500 => "medium",
        _ => "fast",
    };
    Ok(Some(Speed { class, bytes, mapped_bytes_per_s: mapped, written_back_bytes_per_s: Some(back) }))
}

fn rate(bytes: u64, taken: Duration) -> u64 {
    (bytes as f64 / taken.as_secs_f64().max(1e-6)) as u64
}

/// A file that is gone as soon as it is closed, whatever happens to us.
fn nameless(directory: &Directory) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match fs::openat(directory.fd(), c".", flags, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
        other => return other,
    }
    let name = format!(".shmguard-doctor-{}", std::process::id());
    let file = directory.create(name.as_bytes(), mode)?;
    fs::unlinkat(directory.fd(), name.as_str(), AtFlags::empty())?;
    Ok(file)
}

fn write_through_mapping(file: &OwnedFd, bytes: u64) -> Result<Duration, Errno> {
    use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
    let length = bytes as usize;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, of a file that only this function knows.
    let start = unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0)? };
    let began = Instant::now();
    // SAFETY: `length` bytes are mapped writable there, and the file is that long and reserved from end to end, so that no
    // page of it can fail for want of room.
    unsafe { std::ptr::write_bytes(start.cast::<u8>(), 0x5a, length) };
    let taken = began.elapsed();
    // SAFETY: exactly what was mapped above; nothing refers to it.
    unsafe { munmap(start, length)? };
    Ok(taken)
}
