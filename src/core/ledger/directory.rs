//! The ledger's directory and the files in it.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::{self, Errno};

use super::earlier;
use super::record::{Process, SegmentRecord, Totals, PROCESS_BYTES, SEGMENTS, SEGMENT_BYTES};
use crate::process::{self, Owner};
use crate::quiet::quietly;
use crate::segment::Identity;
use crate::text::Text;

/// Files that hold the sums of ended processes; several, so that ends do not wait for each other.
const SUMS: u64 = 8;

/// A ledger's directory. Nothing is kept open: each operation opens it, works and closes.
pub struct Ledger {
    path: CString,
    pub(super) me: Owner,
}

/// Where a ledger may lie.
#[derive(Clone, Copy, Debug)]
pub enum State<'a> {
    /// Here or nowhere: the directory of `shmguard run`, which reads it.
    Run(&'a CStr),
    /// SHMGUARD_STATE, and where it cannot be used the first of the usual places that can.
    Named(&'a CStr),
    /// The usual places.
    Usual,
}

/// Where the ledgers of `uid` may be, in the order in which a place is looked for.
pub fn places(state: State<'_>, uid: u32) -> Vec<CString> {
    let mut bases: Vec<Vec<u8>> = Vec::new();
    if let State::Run(place) | State::Named(place) = state {
        bases.push(place.to_bytes().to_vec());
    }
    if !matches!(state, State::Run(_)) {
        let mut run = Text::<40>::new();
        run.add(format_args!("/run/user/{uid}"));
        bases.push(run.bytes().to_vec());
        bases.push(b"/var/tmp".to_vec());
        bases.push(b"/tmp".to_vec());
    }
    let mut tail = Text::<40>::new();
    tail.add(format_args!("/shmguard-ledger-{uid}"));
    bases
        .into_iter()
        .filter_map(|mut base| {
            base.extend_from_slice(tail.bytes());
            CString::new(base).ok()
        })
        .collect()
}

/// What was said twice may be said again after so many seconds.
const AGAIN_SECONDS: i64 = 600;

impl Ledger {
    /// Opens (and makes, where it is not there) the ledger of this user for `guard`.
    ///
    /// `None` when no place can be written, or when what is there is not a directory of ours with mode 0700: then each
    /// process accounts for itself.
    pub fn open(state: State<'_>, guard: Identity, me: Owner) -> Option<Ledger> {
        let uid = rustix::process::geteuid().as_raw();
        places(state, uid).into_iter().find_map(|top| {
            if own_directory(&top, uid).is_err() {
                // Another process may be making it at this moment.
                let made = fs::mkdirat(fs::CWD, top.as_c_str(), Mode::RWXU);
                if made.is_err_and(|error| error != Errno::EXIST) {
                    return None;
                }
                own_directory(&top, uid).ok()?;
            }
            let path = directory_for(&top, guard, me.boot)?;
            match fs::mkdirat(fs::CWD, path.as_c_str(), Mode::RWXU) {
                Ok(()) => {
                    earlier::remove(&top, path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or(&[]), &me)
                }
                Err(Errno::EXIST) => {}
                Err(_) => return None,
            }
            own_directory(&path, uid).ok()?;
            Some(Ledger { path, me })
        })
    }

    /// The ledger at `path`, for the command: read only what is there.
    pub fn at(path: CString, me: Owner) -> Ledger {
        Ledger { path, me }
    }

    /// Does it lie in `place`, as SHMGUARD_STATE names it?
    pub fn lies_in(&self, place: &CStr) -> bool {
        let rest = self.path.to_bytes().strip_prefix(place.to_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"/shmguard-ledger-"))
    }

    /// The directory that was chosen for the ledgers of all users.
    pub fn place(&self) -> &[u8] {
        let path = self.path.to_bytes();
        path.windows(17).rposition(|part| part == b"/shmguard-ledger-").and_then(|end| path.get(..end)).unwrap_or(path)
    }

    /// The directory.
    pub fn path(&self) -> &CStr {
        &self.path
    }

    pub(super) fn directory(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        fs::openat(fs::CWD, self.path.as_c_str(), flags, Mode::empty())
    }

    /// Writes this process's record.
    ///
    /// # Errors
    /// The kernel's: a full disk, a directory that is gone. Costs the record, not the program.
    pub fn write(&self, record: &Process, segments: &[(usize, SegmentRecord)]) -> Result<(), Errno> {
        quietly(|| self.write_loudly(record, segments))
    }

    fn write_loudly(&self, record: &Process, segments: &[(usize, SegmentRecord)]) -> Result<(), Errno> {
        let directory = self.directory()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::openat(&directory, file_name(&self.me).bytes(), flags, Mode::RUSR | Mode::WUSR)?;
        write_at(&file, &record.to_bytes(), 0)?;
        for (slot, segment) in segments {
            let offset = PROCESS_BYTES + (slot % SEGMENTS) * SEGMENT_BYTES;
            write_at(&file, &segment.to_bytes(), offset as u64)?;
        }
        Ok(())
    }

    /// The records of all processes in the ledger, the dead among them first folded into the sums.
    pub fn sweep(&self) -> Vec<Process> {
        let mut alive = Vec::new();
        self.sweep_until(|record| {
            alive.push(record.clone());
            false
        });
        alive
    }

    /// As [`Ledger::sweep`], up to the first that is alive: is there one?
    pub(super) fn is_anybody_left(&self) -> bool {
        let mut found = false;
        self.sweep_until(|_| {
            found = true;
            true
        });
        found
    }

    /// Is a process of the ledger alive, other than this one? Nothing is changed, and the first that is ends the search.
    pub(super) fn is_another_here(&self) -> bool {
        let Ok(directory) = self.directory() else { return false };
        let others = |owner: &Owner| {
            (owner.pid, owner.start, owner.namespace) != (self.me.pid, self.me.start, self.me.namespace)
        };
        let alive = |owner: &Owner| owner.namespace != self.me.namespace || process::is_alive(owner.pid, owner.start);
        let mut files = self.files(&directory).into_iter().filter(|(_, owner)| others(owner) && alive(owner));
        files.any(|(name, _)| read_record(&directory, &name).is_some())
    }

    /// Folds the dead and shows the living to `enough`, until that says yes.
    fn sweep_until(&self, mut enough: impl FnMut(&Process) -> bool) {
        let Ok(directory) = self.directory() else { return };
        for (name, owner) in self.files(&directory) {
            // Another pid namespace's numbers mean nothing here: only its own members can tell.
            let gone = owner.namespace == self.me.namespace && !process::is_alive(owner.pid, owner.start);
            match read_record(&directory, &name) {
                Some(record) if gone => self.fold(&directory, &name, &record),
                Some(record) if enough(&record) => return,
                Some(_) => {}
                // Killed between making the file and writing it, or noise: there is nothing to add up.
                None if gone => drop(fs::unlinkat(&directory, name.as_slice(), AtFlags::empty())),
                None => {}
            }
        }
    }

    /// The records of all processes in the ledger; nothing is changed.
    pub fn processes(&self) -> Vec<Process> {
        let Ok(directory) = self.directory() else { return Vec::new() };
        self.files(&directory).into_iter().filter_map(|(name, _)| read_record(&directory, &name)).collect()
    }

    /// The segments that a process recorded.
    pub fn segments(&self, of: &Process) -> Vec<SegmentRecord> {
        let owner = Owner { pid: of.pid as i32, start: of.start, namespace: of.namespace, ..self.me };
        let mut bytes = vec![0u8; PROCESS_BYTES + SEGMENTS * SEGMENT_BYTES];
        let Ok(directory) = self.directory() else { return Vec::new() };
        let Some(length) = read_all(&directory, file_name(&owner).bytes(), &mut bytes) else { return Vec::new() };
        let records = bytes.get(PROCESS_BYTES..length).unwrap_or(&[]);
        records.chunks_exact(SEGMENT_BYTES).filter_map(SegmentRecord::from_bytes).collect()
    }

    /// The sums over processes that are gone.
    pub fn ended(&self) -> Totals {
        let mut sum = Totals::default();
        let Ok(directory) = self.directory() else { return sum };
        for slot in 0..SUMS {
            if let Some(record) = read_record(&directory, sum_name(slot).bytes()) {
                sum.fold(&record);
            }
        }
        sum
    }

    /// This process's record goes into the sums and its file away.
    pub(super) fn end(&self, directory: &OwnedFd, record: &Process) {
        self.fold(directory, file_name(&self.me).bytes(), record);
    }

    /// Nobody uses the guarded directory any more: sums and markers go, and the directory when it is empty then.
    pub fn clear(&self) {
        self.remove_all(&[b"once.", b"ended.", b"c-", b"trend"]);
        let _ = fs::unlinkat(fs::CWD, self.path.as_c_str(), AtFlags::REMOVEDIR);
    }

    /// As [`Ledger::clear`], but what was left behind is there still, and so is how it came to that: the trend stays.
    pub fn clear_but_trend(&self) {
        self.remove_all(&[b"once.", b"ended.", b"c-"]);
    }

    pub(super) fn remove_all(&self, prefixes: &[&[u8]]) {
        let Ok(directory) = self.directory() else { return };
        let Ok(entries) = Dir::read_from(&directory) else { return };
        let names: Vec<Vec<u8>> = entries.flatten().map(|entry| entry.file_name().to_bytes().to_vec()).collect();
        for name in names {
            if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                let _ = fs::unlinkat(&directory, name.as_slice(), AtFlags::empty());
            }
        }
    }

    /// Has `what` been said by nobody yet? The first who asks gets true, until [`Ledger::forget`].
    pub fn once(&self, what: &str) -> bool {
        let mut name = Text::<64>::new();
        name.add(format_args!("once.{what}"));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match self
            .directory()
            .and_then(|directory| fs::openat(&directory, name.bytes(), flags, Mode::RUSR | Mode::WUSR))
        {
            Ok(_) => true,
            Err(Errno::EXIST) => false,
            // A full disk must not make every process speak; nor may it make all of them silent: the caller's own memory
            // still says each thing once per process.
            Err(_) => true,
        }
    }

    /// Has `what` been said?
    pub fn has_said(&self, what: &str) -> bool {
        let mut name = Text::<64>::new();
        name.add(format_args!("once.{what}"));
        self.directory().is_ok_and(|directory| fs::statat(&directory, name.bytes(), AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// The situation has passed: `what` may be said again. After the first time that is granted every ten minutes only: a
    /// healthy program may pass a level with every batch.
    pub fn forget(&self, what: &str) {
        let mut name = Text::<64>::new();
        name.add(format_args!("once.{what}"));
        let mut passed = Text::<72>::new();
        passed.add(format_args!("once.passed.{what}"));
        let Ok(directory) = self.directory() else { return };
        if let Ok(before) = fs::statat(&directory, passed.bytes(), AtFlags::SYMLINK_NOFOLLOW) {
            let age = crate::raw::clock(libc::CLOCK_REALTIME).tv_sec.saturating_sub(before.st_mtime);
            if (0..AGAIN_SECONDS).contains(&age) {
                return;
            }
            let _ = fs::unlinkat(&directory, passed.bytes(), AtFlags::empty());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        drop(fs::openat(&directory, passed.bytes(), flags, Mode::RUSR | Mode::WUSR));
        let _ = fs::unlinkat(&directory, name.bytes(), AtFlags::empty());
    }

    fn files(&self, directory: &OwnedFd) -> Vec<(Vec<u8>, Owner)> {
        let Ok(entries) = Dir::read_from(directory) else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().to_bytes();
                Some((name.to_vec(), owner_in(name, &self.me)?))
            })
            .collect()
    }

    /// Takes the file away (whoever renames it first has it) and adds its record to a sum.
    fn fold(&self, directory: &OwnedFd, name: &[u8], record: &Process) {
        let mut claimed = Text::<64>::new();
        claimed.add(format_args!("c-{}.{:x}", self.me.pid, self.me.start));
        if fs::renameat(directory, name, directory, claimed.bytes()).is_err() {
            return;
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        for attempt in 0..SUMS * 4 {
            let slot = sum_name((self.me.pid as u64).wrapping_add(attempt) % SUMS);
            let Ok(file) = fs::openat(directory, slot.bytes(), flags, Mode::RUSR | Mode::WUSR) else { break };
            if fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let mut sum = read_record(directory, slot.bytes()).unwrap_or_default();
            sum.fold(record);
            let _ = quietly(|| write_at(&file, &sum.to_bytes(), 0));
            // By hand: a child that another thread forks meanwhile keeps the descriptor (flock(2)).
            let _ = fs::flock(&file, FlockOperation::Unlock);
            break;
        }
        let _ = fs::unlinkat(directory, claimed.bytes(), AtFlags::empty());
    }
}

/// The ledger's directory for `guard` below `top`, a place as [`places`] names them; whether it is there or not.
pub fn directory_for(top: &CStr, guard: Identity, boot: u32) -> Option<CString> {
    let mut tail = Text::<64>::new();
    tail.add(format_args!("/{boot:08x}-{:x}.{:x}", guard.dev, guard.ino));
    CString::new([top.to_bytes(), tail.bytes()].concat()).ok()
}

/// The process that a file of the ledger belongs to, by its name.
pub(super) fn owner_in(name: &[u8], me: &Owner) -> Option<Owner> {
    let text = std::str::from_utf8(name.strip_prefix(b"p-")?).ok()?;
    let mut parts = text.split('.');
    let pid = parts.next()?.parse().ok().filter(|pid| *pid > 0)?;
    let start = u64::from_str_radix(parts.next()?, 16).ok()?;
    let namespace = u64::from_str_radix(parts.next()?, 16).ok()?;
    parts.next().is_none().then_some(Owner { pid, start, namespace, ..*me })
}

fn own_directory(path: &CStr, uid: u32) -> Result<(), Errno> {
    let stat = fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let closed = Mode::from_raw_mode(stat.st_mode) & Mode::from_raw_mode(0o077) == Mode::empty();
    if directory && stat.st_uid == uid && closed {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

fn file_name(owner: &Owner) -> Text<64> {
    let mut name = Text::new();
    name.add(format_args!("p-{}.{:x}.{:x}", owner.pid, owner.start, owner.namespace));
    name
}

fn sum_name(slot: u64) -> Text<64> {
    let mut name = Text::new();
    name.add(format_args!("ended.{slot}"));
    name
}

fn read_record(directory: &OwnedFd, name: &[u8]) -> Option<Process> {
    let mut bytes = [0u8; PROCESS_BYTES];
    read_all(directory, name, &mut bytes)?;
    Process::from_bytes(&bytes)
}

fn read_all(directory: &OwnedFd, name: &[u8], bytes: &mut [u8]) -> Option<usize> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    read_file(&fs::openat(directory.as_fd(), name, flags, Mode::empty()).ok()?, bytes)
}

/// Reads until `bytes` is full or the file ends.
pub(super) fn read_file(file: &OwnedFd, bytes: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match io::read(file, rest) {
            Ok(0) => break,
            Ok(got) => length += got,
            Err(Errno::INTR) => continue,
            Err(_) => return None,
        }
    }
    Some(length)
}

pub(super) fn write_at(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    loop {
        match io::pwrite(file, bytes, offset) {
            Err(Errno::INTR) => continue,
            Ok(written) if written == bytes.len() => return Ok(()),
            Ok(_) => return Err(Errno::NOSPC),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
