//! Which process this is and which others are alive, as /proc tells it.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, Dir, Mode, OFlags};
use rustix::io::{self, Errno};

use crate::raw;
use crate::text::Text;

/// What makes a process the same process: numbers are used again, start times are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Owner {
    /// First 32 bits of the kernel's boot id; 0 when it cannot be read.
    pub boot: u32,
    /// Inode number of the pid namespace; 0 when it cannot be read.
    pub namespace: u64,
    /// Process id in that namespace.
    pub pid: i32,
    /// Parent's process id in that namespace.
    pub parent: i32,
    /// Start time in clock ticks since boot; 0 when /proc cannot be read.
    pub start: u64,
}

impl Owner {
    /// This process.
    pub fn current() -> Owner {
        let pid = raw::getpid();
        let (start, parent) = stat_of(b"/proc/self").unwrap_or((0, 0));
        let namespace = fs::stat(c"/proc/self/ns/pid").map_or(0, |stat| stat.st_ino);
        Owner { boot: boot_id(), namespace, pid, parent, start }
    }
}

/// First 32 bits of /proc/sys/kernel/random/boot_id: the same in every container of one running kernel.
pub fn boot_id() -> u32 {
    let mut text = [0u8; 64];
    let read = read_start(b"/proc/sys/kernel/random/boot_id", &mut text).unwrap_or(0);
    let digits = text.get(..read.min(8)).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// Reads the beginning of a file into `buffer`.
///
/// # Errors
/// The kernel's.
pub fn read_start(path: &[u8], buffer: &mut [u8]) -> Result<usize, Errno> {
    read_start_at(fs::CWD, path, buffer)
}

fn read_start_at(directory: BorrowedFd<'_>, path: &[u8], buffer: &mut [u8]) -> Result<usize, Errno> {
    let file = fs::openat(directory, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match io::read(&file, rest) {
            Ok(0) => break,
            Ok(got) => length += got,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// (start time in ticks, parent) from the file `stat` of a directory /proc/PID.
///
/// In two steps, because qemu-user (open_self_stat in its linux-user/syscall.c) answers a process that opens its own stat by its whole
/// name with a text of its own making, in which a forked child has its parent's start time. All others see the kernel's, and
/// would take each such process for one that is gone, and what it has just made for a leftover.
fn stat_of(process: &[u8]) -> Result<(u64, i32), Errno> {
    let directory = fs::openat(fs::CWD, process, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = [0u8; 768];
    let length = read_start_at(directory.as_fd(), b"stat", &mut text)?;
    parse_stat(text.get(..length).unwrap_or(&[])).ok_or(Errno::INVAL)
}

/// Fields 22 (start time) and 4 (parent) of a line of proc_pid_stat(5); the command in field 2 may hold anything.
pub fn parse_stat(line: &[u8]) -> Option<(u64, i32)> {
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(line.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    Some((start, parent))
}

/// Start time of a process in clock ticks since boot.
pub fn start_of(pid: i32) -> Option<u64> {
    let mut path = Text::<40>::new();
    path.add(format_args!("/proc/{pid}"));
    stat_of(path.bytes()).ok().map(|(start, _)| start)
}

/// Is the process with this number and start time alive in this pid namespace? True also when that cannot be known.
pub fn is_alive(pid: i32, start: u64) -> bool {
    let mut path = Text::<40>::new();
    path.add(format_args!("/proc/{pid}"));
    match stat_of(path.bytes()) {
        Ok((found, _)) => start == 0 || found == start,
        // Without /proc nothing is known; where /proc itself is there, the process is not.
        Err(Errno::NOENT | Errno::SRCH) => fs::stat(c"/proc/self").is_err(),
        Err(_) => true,
    }
}

/// The numbers of all visible processes.
pub fn all() -> Option<Vec<i32>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listing = fs::openat(fs::CWD, c"/proc", flags, Mode::empty()).ok()?;
    let mut pids = Vec::new();
    for entry in Dir::read_from(&listing).ok()?.flatten() {
        if let Some(pid) = crate::descriptor::number_of(entry.file_name().to_bytes()) {
            pids.push(pid);
        }
    }
    Some(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_start_time_is_not() {
        let me = Owner::current();
        assert!(me.start > 0 && me.namespace > 0 && me.parent > 0);
        assert!(is_alive(me.pid, me.start));
        assert!(!is_alive(me.pid, me.start + 1));
        assert!(!is_alive(i32::MAX, 1));
    }

    #[test]
    fn a_command_with_brackets_does_not_shift_the_fields() {
        let line = b"12 (a) b (c) S 7 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1";
        assert_eq!(parse_stat(line), Some((98765, 7)));
        assert_eq!(parse_stat(b"12 (a"), None);
    }
}
