//! Log lines: one JSON object each, through one `tracing` call site to a `RollingFileAppender` made for the line.
//!
//! Made for the line, because an open file is a descriptor that the host closes and reuses, and then the line lands in the
//! host's data. Our own small Subscriber, because `tracing_subscriber::fmt` formats in a thread-local that calls the host's
//! malloc. A failure costs the line, not the program.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::race::OnceBox;
use rustix::fs::{fstat, mkdir, openat, FileType, Mode, OFlags, CWD};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_appender::rolling::{RollingFileAppender, Rotation};

use shmguard_core::process::Owner;
use shmguard_core::quiet::quietly;
use shmguard_core::text::Text;

/// The directory of SHMGUARD_LOG, as text.
static DIRECTORY: OnceBox<String> = OnceBox::new();
static ON: AtomicBool = AtomicBool::new(false);
/// The last line could not be written. Other threads may write it too: it only decides whether the user is told.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Begins to log into `directory`, in the constructor: the call site is registered here, where a lock and an allocation do no
/// harm.
pub fn begin(directory: &std::ffi::CStr) {
    let Ok(directory) = directory.to_str() else { return };
    if DIRECTORY.set(Box::new(directory.to_owned())).is_err() {
        return;
    }
    if tracing::dispatcher::set_global_default(tracing::Dispatch::new(Lines)).is_ok() {
        // The first event registers the call site; the flag keeps it from being written.
        emit("");
        ON.store(true, Ordering::Release);
    }
}

/// Writes one line; false if it could not be written.
pub fn write(line: &str) -> bool {
    if !ON.load(Ordering::Acquire) {
        return false;
    }
    FAILED.store(false, Ordering::Relaxed);
    emit(line);
    !FAILED.load(Ordering::Relaxed)
}

fn emit(line: &str) {
    tracing::event!(target: "shmguard", Level::INFO, line);
}

/// A Subscriber that writes the field `line` of each event, and nothing else.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "shmguard"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if ON.load(Ordering::Acquire) {
            quietly(|| event.record(&mut Line));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line;

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "line" && append(value).is_none() {
            FAILED.store(true, Ordering::Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

fn append(line: &str) -> Option<()> {
    let directory = DIRECTORY.get()?;
    let me = Owner::current();
    let mut name = Text::<64>::new();
    let _ = write!(name, "shmguard-{}-{:x}", me.pid, me.start);
    let mut path = Text::<1024>::new();
    let _ = write!(path, "{directory}/{}.jsonl", name.as_str());
    if path.is_full() {
        return None;
    }
    // The appender would make the file with the umask's mode; what is logged concerns its owner only.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR;
    let made = match openat(CWD, path.bytes(), flags, mode) {
        Err(rustix::io::Errno::NOENT) => {
            let _ = mkdir(directory.as_str(), Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH);
            openat(CWD, path.bytes(), flags, mode)
        }
        other => other,
    };
    let file = match made {
        Ok(file) => file,
        // Our own of an earlier line; or, in a directory that others can write, whatever somebody has put there: a link or a
        // second name of another file, a fifo that blocks.
        Err(rustix::io::Errno::EXIST) => {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            openat(CWD, path.bytes(), flags, Mode::empty()).ok()?
        }
        Err(_) => return None,
    };
    let stat = fstat(&file).ok()?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !regular || stat.st_nlink != 1 || stat.st_uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    // The appender opens by name. This name is the very file that has been looked at, whatever the other one means by now.
    let mut number = Text::<16>::new();
    let _ = write!(number, "{}", file.as_raw_fd());
    let appender = RollingFileAppender::builder()
        .rotation(Rotation::NEVER)
        .filename_prefix(number.as_str())
        .build(Path::new("/proc/self/fd"));
    let mut appender = appender.ok()?;
    let mut whole = Text::<{ shmguard_core::event::LINE + 1 }>::new();
    whole.add_bytes(line.as_bytes());
    whole.add_bytes(b"\n");
    appender.write_all(whole.bytes()).ok()
}
