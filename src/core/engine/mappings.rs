//! A shared mapping that failed for want of mappings, not of memory: vm.max_map_count is 65530 by default, and a consumer that
//! keeps tens of thousands of small tensors reaches it.

use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno};

use super::tell::SAID_MAPS;
use super::Engine;
use crate::message;
use crate::segment::Identity;

impl Engine {
    /// A shared mapping of `fd` failed with ENOMEM: says so when it was the number of mappings and the file is in a guarded
    /// directory or a segment of ours.
    #[cold]
    #[inline(never)]
    pub fn mapping_failed(&self, fd: i32) {
        if !self.is_here() {
            return;
        }
        let Some(stat) = crate::borrow(fd).and_then(|fd| fs::fstat(fd).ok()) else { return };
        let dev = |guard: &std::ffi::CString| fs::stat(guard.as_c_str()).map_or(0, |own| own.st_dev);
        let guarded = self.config.guards.iter().any(|guard| dev(guard) == stat.st_dev);
        if !guarded && !self.table.may_hold(Identity::of(&stat)) {
            return;
        }
        let mut text = [0u8; 24];
        let length = crate::process::read_start(b"/proc/sys/vm/max_map_count", &mut text).unwrap_or(0);
        let digits = text.get(..length).and_then(|digits| std::str::from_utf8(digits).ok());
        let Some(limit) = digits.and_then(|digits| digits.trim().parse::<u64>().ok()) else { return };
        // The kernel counts what /proc shows but for one or two; a failed mapping with a few left had more parts.
        let Ok(count) = mappings() else { return };
        if count.saturating_add(16) < limit {
            return;
        }
        let path = message::path(self.guard_path(0));
        let line = message::line(format_args!(
            "a segment cannot be mapped: the process has all of its {limit} mappings (vm.max_map_count). {path} has room; raise \
             the limit: sysctl -w vm.max_map_count={}",
            limit.saturating_mul(4)
        ));
        self.say_once(SAID_MAPS, "mappings", &line);
    }
}

/// Lines of /proc/self/maps.
///
/// # Errors
/// The kernel's.
fn mappings() -> Result<u64, Errno> {
    let file = fs::openat(fs::CWD, c"/proc/self/maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [0u8; 4096];
    let mut count = 0u64;
    loop {
        match io::read(&file, &mut buffer) {
            Ok(0) => return Ok(count),
            Ok(got) => {
                let lines = buffer.iter().take(got).filter(|byte| **byte == b'\n');
                count = count.saturating_add(lines.count() as u64);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
