//! What processes hold: /proc/PID/fd and /proc/PID/maps.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;

use shmguard_core::process;
use shmguard_core::segment::Identity;

use super::files::Found;

/// What could be seen of a process.
pub(super) enum Seen {
    /// It may not be looked at.
    Nothing,
    /// It ended meanwhile.
    Gone,
    /// It was looked at.
    Process {
        /// The library is mapped in it.
        library: bool,
    },
}

/// Notes what `pid` holds.
pub(super) fn scan(pid: i32, found: &mut Found<'_>) -> Seen {
    let descriptors = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Seen::Nothing,
        Err(_) => return Seen::Gone,
    };
    for entry in descriptors.flatten() {
        let path = entry.path();
        let Ok(text) = fs::read_link(&path) else { continue };
        let Some(sighting) = found.judge(text.as_os_str().as_bytes()) else { continue };
        if let Ok(meta) = fs::metadata(&path) {
            found.add_descriptor(pid, sighting, &meta);
        }
    }
    let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else { return Seen::Nothing };
    let mut library = false;
    for line in maps.split(|byte| *byte == b'\n') {
        let Some(slash) = line.iter().position(|byte| *byte == b'/') else { continue };
        let Some(path) = line.get(slash..) else { continue };
        library |= path.ends_with(b"/libshmguard.so");
        let Some(sighting) = found.judge(path) else { continue };
        let Some(mapping) = Mapping::parse(line.get(..slash).unwrap_or_default()) else { continue };
        let extent = (mapping.offset, mapping.offset + (mapping.to - mapping.from));
        let ask = || fs::metadata(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.from, mapping.to)).ok();
        found.add_mapping(pid, sighting, mapping.file, extent, ask);
    }
    Seen::Process { library }
}

/// The numbers of a line of proc_pid_maps(5).
struct Mapping {
    from: u64,
    to: u64,
    offset: u64,
    file: Identity,
}

impl Mapping {
    fn parse(line: &[u8]) -> Option<Mapping> {
        let text = std::str::from_utf8(line).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let dev = rustix::fs::makedev(hex(major)? as u32, hex(minor)? as u32);
        let file = Identity { dev, ino: fields.next()?.parse().ok()? };
        Some(Mapping { from: hex(from)?, to: hex(to)?, offset: hex(offset)?, file })
    }
}

/// The command (comm) of a process.
pub fn command_of(pid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let line = text.strip_suffix(b"\n").unwrap_or(&text);
    Some(shmguard_core::text::Printable(line).to_string())
}

/// The process and everything below it, as /proc shows it at this moment.
pub fn descendants(of: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in process::all().unwrap_or_default() {
        let parent = fs::read(format!("/proc/{pid}/stat")).ok().and_then(|stat| process::parse_stat(&stat));
        if let Some((_, parent)) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut all = vec![of];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        all.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let mapping = Mapping::parse(b"7f0a00000000-7f0a00002000 rw-s 00001000 00:1f 1234        ").expect("a mapping");
        assert_eq!((mapping.to - mapping.from, mapping.offset), (8192, 4096));
        assert_eq!(mapping.file, Identity { dev: rustix::fs::makedev(0, 0x1f), ino: 1234 });
        assert!(Mapping::parse(b"7f0a00000000").is_none());
    }

    #[test]
    fn a_child_is_a_descendant() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep of coreutils");
        let all = descendants(std::process::id() as i32);
        assert!(all.contains(&(child.id() as i32)) && all.first() == Some(&(std::process::id() as i32)));
        child.kill().expect("killed");
        child.wait().expect("reaped");
    }
}
