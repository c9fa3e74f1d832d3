//! Files found: by listing the guard and the targets, and in the descriptors and mappings of processes. Each counts once.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use shmguard_core::config::Config;
use shmguard_core::link;
use shmguard_core::segment::Identity;
use shmguard_core::target::{Label, PREFIX};
use shmguard_core::text::Printable;

use super::{Holder, Place, Segment, Whose};

/// Depth to which directories in the guard are entered.
const DEEPEST: usize = 8;

/// What makes two sightings the same segment. A target's file is known by the random number in its name: the device number
/// that /proc/PID/maps shows for a file on overlayfs is another one than stat's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// st_dev and st_ino.
    File(Place, u64, u64),
    Target(u64),
}

struct File {
    segment: Segment,
    /// stat has been asked: size and blocks are the kernel's. Else they are what mappings show.
    asked: bool,
    creator: Option<Label>,
}

/// Segments found so far.
pub(super) struct Found<'a> {
    config: &'a Config,
    guard: &'a CStr,
    identity: Identity,
    files: HashMap<Key, File>,
    /// Bytes that links and directories take in the guard.
    overhead: u64,
}

impl<'a> Found<'a> {
    pub(super) fn new(config: &'a Config, guard: &'a CStr, identity: Identity) -> Found<'a> {
        Found { config, guard, identity, files: HashMap::new(), overhead: 0 }
    }

    /// Everything in the guard that has a name.
    pub(super) fn list_guard(&mut self) {
        let root = Path::new(std::ffi::OsStr::from_bytes(self.guard.to_bytes())).to_path_buf();
        self.list(&root, &root, 0);
    }

    fn list(&mut self, root: &Path, directory: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            let relative = path.strip_prefix(root).unwrap_or(&path).as_os_str().as_bytes();
            let name = Printable(relative).to_string();
            if meta.file_type().is_symlink() {
                self.overhead += meta.blocks() * 512;
                self.add_link(&path, name);
            } else if meta.is_dir() {
                self.overhead += meta.blocks() * 512;
                if depth < DEEPEST {
                    self.list(root, &path, depth + 1);
                }
            } else if meta.is_file() || meta.file_type().is_fifo() || meta.file_type().is_socket() {
                self.add_stat(Key::File(Place::Guard, meta.dev(), meta.ino()), Place::Guard, name, true, &meta);
            }
        }
    }

    fn add_link(&mut self, path: &Path, name: String) {
        let Ok(text) = fs::read_link(path) else { return };
        let Some((index, file)) = link::split(text.as_os_str().as_bytes(), &self.config.targets) else { return };
        let Some(label) = Label::parse(&file) else { return };
        let Ok(meta) = fs::symlink_metadata(&text) else { return };
        let key = Key::Target(label.random);
        self.add_stat(key, Place::Target(index), name.clone(), true, &meta);
        if let Some(file) = self.files.get_mut(&key) {
            (file.segment.name, file.segment.named, file.creator) = (name, true, Some(label));
        }
    }

    /// The files of this guard in the targets.
    pub(super) fn list_targets(&mut self) {
        for (index, spec) in self.config.targets.iter().enumerate() {
            let path = Path::new(std::ffi::OsStr::from_bytes(spec.path.as_bytes()));
            let Ok(entries) = fs::read_dir(path) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let Some(label) = Label::parse(name.as_bytes()).filter(|label| label.guard == self.identity) else {
                    continue;
                };
                let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
                let key = Key::Target(label.random);
                self.add_stat(key, Place::Target(index), String::new(), false, &meta);
                if let Some(file) = self.files.get_mut(&key) {
                    file.creator = Some(label);
                }
            }
        }
    }

    fn add_stat(&mut self, key: Key, place: Place, name: String, named: bool, meta: &fs::Metadata) {
        let file = self.files.entry(key).or_insert_with(|| File::new(place, name, named));
        file.asked = true;
        file.segment.identity = identity(meta);
        file.segment.promised = meta.size();
        file.segment.held = meta.blocks().saturating_mul(512);
        if file.segment.created_ms.is_none() {
            file.segment.created_ms = born(meta);
        }
    }

    /// What a path shown by /proc is, if it concerns us.
    pub(super) fn judge(&self, path: &[u8]) -> Option<Sighting> {
        if let Some(name) = path.strip_prefix(b"/memfd:") {
            return Some(Sighting { place: Place::Memfd, name: without_deleted(name), label: None });
        }
        if path.starts_with(b"/dev/zero") && path.ends_with(b" (deleted)") {
            return Some(Sighting { place: Place::Anonymous, name: String::new(), label: None });
        }
        if let Some(rest) = path.strip_prefix(self.guard.to_bytes()) {
            let name = rest.strip_prefix(b"/")?;
            // A nameless file of O_TMPFILE is shown as #INODE.
            let name = without_deleted(name);
            let name = if name.starts_with('#') && path.ends_with(b" (deleted)") { String::new() } else { name };
            return Some(Sighting { place: Place::Guard, name, label: None });
        }
        self.config.targets.iter().enumerate().find_map(|(index, target)| {
            let name = path.strip_prefix(target.path.as_bytes())?.strip_prefix(b"/")?;
            if !name.starts_with(PREFIX) {
                return None;
            }
            let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
            let label = Label::parse(name).filter(|label| label.guard == self.identity)?;
            Some(Sighting { place: Place::Target(index), name: String::new(), label: Some(label) })
        })
    }

    /// A descriptor of `pid` for it. `stat` is asked only where the path concerns us.
    pub(super) fn add_descriptor(&mut self, pid: i32, sighting: Sighting, meta: &fs::Metadata) {
        if !meta.is_file() || (sighting.place == Place::Guard && meta.dev() != self.identity.dev) {
            return;
        }
        let key = sighting.key(identity(meta));
        self.add_stat(key, sighting.place, sighting.name, false, meta);
        self.hold(key, sighting.label, pid, |holder| holder.descriptors += 1);
    }

    /// A mapping of `pid`. `meta` where map_files could be asked.
    pub(super) fn add_mapping(
        &mut self,
        pid: i32,
        sighting: Sighting,
        file: Identity,
        (from, to): (u64, u64),
        ask: impl FnOnce() -> Option<fs::Metadata>,
    ) {
        if sighting.place == Place::Guard && file.dev != self.identity.dev {
            return;
        }
        let key = sighting.key(file);
        if !self.files.get(&key).is_some_and(|file| file.asked) {
            match ask() {
                Some(meta) => self.add_stat(key, sighting.place, sighting.name, false, &meta),
                None => {
                    // Only mapped, and we may not ask: the mapping's own extent stands for it.
                    let entry =
                        self.files.entry(key).or_insert_with(|| File::new(sighting.place, sighting.name, false));
                    entry.segment.identity = file;
                    entry.segment.promised = entry.segment.promised.max(to);
                    entry.segment.held = entry.segment.held.max(to - from);
                }
            }
        }
        self.hold(key, sighting.label, pid, |holder| holder.mappings += 1);
    }

    fn hold(&mut self, key: Key, label: Option<Label>, pid: i32, change: impl FnOnce(&mut Holder)) {
        let Some(file) = self.files.get_mut(&key) else { return };
        file.creator = file.creator.or(label);
        let holders = &mut file.segment.holders;
        match holders.last_mut().filter(|holder| holder.pid == pid) {
            Some(holder) => change(holder),
            None => {
                let mut holder = Holder { pid, descriptors: 0, mappings: 0 };
                change(&mut holder);
                holders.push(holder);
            }
        }
    }

    /// The System V segments of this IPC namespace (/proc/sysvipc/shm), and their bytes in memory or swap.
    pub(super) fn list_system_v(&mut self, whose: &Whose<'_>, pids: &[i32]) -> u64 {
        let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let mut sum = 0u64;
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |index: usize| fields.get(index).and_then(|field| field.parse::<i64>().ok());
            // key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap
            let (Some(key), Some(id), Some(size), Some(creator)) = (number(0), number(1), number(3), number(4)) else {
                continue;
            };
            if !matches!(whose, Whose::All) && !pids.contains(&(creator as i32)) {
                continue;
            }
            let held = match (number(14), number(15)) {
                (Some(rss), Some(swap)) => (rss + swap) as u64,
                _ => size as u64,
            };
            sum = sum.saturating_add(held);
            let name = format!("key 0x{:08x} id {id}", key as u32);
            let file = self
                .files
                .entry(Key::File(Place::SystemV, 0, id as u64))
                .or_insert_with(|| File::new(Place::SystemV, name, true));
            file.asked = true;
            (file.segment.promised, file.segment.held) = (size as u64, held);
            file.segment.created_ms = number(13).filter(|time| *time > 0).map(|time| time as u64 * 1000);
            let gone = !Path::new(&format!("/proc/{creator}")).exists();
            let command = super::command_of(creator as i32).unwrap_or_default();
            file.segment.creator = Some(super::Creator { pid: creator as i32, command, gone });
        }
        sum
    }

    /// The segments, and the bytes that links and directories take in the guard.
    pub(super) fn finish(self) -> (Vec<Segment>, u64) {
        let segments = self
            .files
            .into_values()
            .map(|file| {
                let mut segment = file.segment;
                if let Some(label) = file.creator {
                    let creator = label.creator;
                    let gone = !shmguard_core::process::is_alive(creator.pid, creator.start);
                    let command = if gone { None } else { super::command_of(creator.pid) };
                    segment.creator =
                        Some(super::Creator { pid: creator.pid, command: command.unwrap_or_default(), gone });
                    segment.in_ledger = true;
                }
                segment
            })
            .collect();
        (segments, self.overhead)
    }
}

/// What a path of /proc told.
pub(super) struct Sighting {
    place: Place,
    name: String,
    label: Option<Label>,
}

impl Sighting {
    fn key(&self, file: Identity) -> Key {
        match &self.label {
            Some(label) => Key::Target(label.random),
            None => Key::File(self.place, file.dev, file.ino),
        }
    }
}

impl File {
    fn new(place: Place, name: String, named: bool) -> File {
        File {
            segment: Segment {
                name,
                named,
                place,
                identity: Identity::default(),
                promised: 0,
                held: 0,
                creator: None,
                created_ms: None,
                holders: Vec::new(),
                in_ledger: false,
            },
            asked: false,
            creator: None,
        }
    }
}

fn identity(meta: &fs::Metadata) -> Identity {
    Identity { dev: meta.dev(), ino: meta.ino() }
}

fn without_deleted(name: &[u8]) -> String {
    Printable(name.strip_suffix(b" (deleted)").unwrap_or(name)).to_string()
}

/// Time of birth where the file system knows it (tmpfs since Linux 5.18).
fn born(meta: &fs::Metadata) -> Option<u64> {
    let born = meta.created().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(born.as_millis() as u64)
}
