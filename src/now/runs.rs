//! Directories of `shmguard run`: what they are called, and whose run they are of.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use shmguard_core::process::Owner;

/// The file in it that says which process the run is: it may be killed before anything else is there.
const OWNER: &str = "owner";

/// First part of the name of a directory that `shmguard run` makes for a run of its own.
pub fn run_directory_prefix() -> String {
    format!("shmguard-run-{}-", rustix::process::geteuid().as_raw())
}

/// Writes down that the run in `directory` is this process.
///
/// # Errors
/// The kernel's: a full disk.
pub fn sign(directory: &Path) -> io::Result<()> {
    let me = Owner::current();
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(directory.join(OWNER))?;
    writeln!(file, "{} {} {} {}", me.boot, me.namespace, me.pid, me.start)
}

/// Which process the run in `directory` is or was; `None` when that was never written, or not by the user whose directory it is
/// (anybody may make files in it).
pub fn signer(directory: &Path) -> Option<Owner> {
    let path = directory.join(OWNER);
    let (file, own) = (path.symlink_metadata().ok()?, directory.symlink_metadata().ok()?);
    if !file.is_file() || file.uid() != own.uid() || file.len() > 128 {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let boot = words.next()?.parse().ok()?;
    let namespace = words.next()?.parse().ok()?;
    let pid = words.next()?.parse().ok()?;
    let start = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Owner { boot, namespace, pid, start, parent: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_tells_whose_run_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(signer(directory.path()), None);
        sign(directory.path()).expect("written");
        assert_eq!(signer(directory.path()), Some(Owner { parent: 0, ..Owner::current() }));
        let file = directory.path().join(OWNER);
        for noise in ["", "1 2 3", "1 2 3 4 5", "a b c d", "1 2 -3e 4"] {
            fs::write(&file, noise).expect("written");
            assert_eq!(signer(directory.path()), None, "{noise}");
        }
        fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink("/etc/hostname", &file).expect("a link");
        assert_eq!(signer(directory.path()), None);
    }
}
