//! What every behaviour test needs: a private mount namespace with a `/dev/shm` of a chosen size, programs compiled
//! from `tests/programs`, the built library, and what the programs left behind.
//!
//! A test runs its body in a [`house`]: a thread of its own with a mount namespace of its own. Everything the body does,
//! `std::fs` included, sees that namespace, so a test simply looks into `/dev/shm` afterwards. The machine's own
//! `/dev/shm` is never touched and tests may run side by side. Needs root (`unshare`, `mount`), a C compiler, util-linux;
//! what is missing makes the test fail with a line that says what to install.
#![allow(dead_code, unused_imports)] // each test file uses its own part of the harness

mod built;
mod events;
mod run;
mod same;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use built::{debug_library, emulator, installed_library, library, musl, packaged_library, program_file, Program};
pub use events::{read_log, Event};
pub use run::{Outcome, Run, Running};
pub use same::{baseline, baseline_noisy, fill_shm, in_small, same, same_everywhere, Small, BALLAST, SEGMENT, SMALL};

/// One mebibyte, in bytes.
pub const MIB: u64 = 1 << 20;

/// A private mount namespace with its own `/dev/shm`, a temporary directory and a default target in it.
pub struct House {
    dir: tempfile::TempDir,
}

/// Runs `body` in a thread with a private mount namespace whose `/dev/shm` is a fresh tmpfs with the mount options
/// `shm` (for example `size=64m`; `mode=1777` is added unless a mode is given). An empty string leaves the machine's
/// own `/dev/shm` visible: only for tests that mount something else over it.
///
/// All mounts end with the thread. A panic in `body` is passed on.
pub fn house(shm: &str, body: impl FnOnce(&House) + Send) {
    let result = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let house = House::enter();
                if !shm.is_empty() {
                    house.mount_shm(shm);
                }
                body(&house);
            })
            .join()
    });
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

impl House {
    fn enter() -> House {
        let flags = rustix::thread::UnshareFlags::NEWNS | rustix::thread::UnshareFlags::FS;
        // SAFETY: this thread was made for the test and shares no assumption about its root, working directory or mounts
        // with others; descriptors are not unshared.
        if let Err(error) = unsafe { rustix::thread::unshare_unsafe(flags) } {
            panic!("cannot make a private mount namespace ({error}): run the tests as root, with CAP_SYS_ADMIN");
        }
        tool("mount", &["--make-rprivate", "/"], "apt-get install mount");
        // /var/tmp: a disk where /tmp may be a tmpfs. Short, since a link's text must stay below 128 bytes.
        let dir = tempfile::Builder::new().prefix("sg").tempdir_in("/var/tmp").expect("a directory in /var/tmp");
        open_to_all(dir.path(), 0o755);
        let house = House { dir };
        for sub in ["target", "state"] {
            fs::create_dir(house.path(sub)).expect("a directory of the house");
            open_to_all(&house.path(sub), 0o1777);
        }
        house
    }

    /// A path below the house's temporary directory (on the disk of `/var/tmp`).
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The default target: a plain directory on the disk, mode 1777.
    pub fn target(&self) -> PathBuf {
        self.path("target")
    }

    /// A fresh tmpfs over `/dev/shm` with these mount options.
    pub fn mount_shm(&self, options: &str) {
        let options = if options.contains("mode=") { options.to_owned() } else { format!("mode=1777,{options}") };
        tool("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", "/dev/shm"], "apt-get install mount");
    }

    /// `mount -o remount,OPTIONS /dev/shm`.
    pub fn remount_shm(&self, options: &str) {
        tool("mount", &["-o", &format!("remount,{options}"), "/dev/shm"], "apt-get install mount");
    }

    /// A new directory `name` in the house with a file system of `kind` mounted on it, mode 1777 where it has modes.
    pub fn mount(&self, kind: &str, name: &str, options: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a directory to mount on");
        let path_text = path.to_str().expect("a plain path");
        tool("mount", &["-t", kind, "-o", options, kind, path_text], "apt-get install mount");
        if !options.split(',').any(|option| option == "ro") {
            open_to_all(&path, 0o1777);
        }
        path
    }

    /// A tmpfs below the house: `tmpfs("big", "size=1g")`.
    pub fn tmpfs(&self, name: &str, options: &str) -> PathBuf {
        self.mount("tmpfs", name, options)
    }

    /// A real ext4 of `mib` MiB on a loop device. `make_options` go to mkfs.ext4.
    pub fn ext4(&self, name: &str, mib: u64, make_options: &[&str]) -> PathBuf {
        let image = self.path(&format!("{name}.img"));
        fs::File::create(&image).and_then(|file| file.set_len(mib * MIB)).expect("an image file");
        let image_text = image.to_str().expect("a plain path");
        let mut arguments = vec!["-q", "-m", "0"];
        arguments.extend_from_slice(make_options);
        arguments.push(image_text);
        tool("mkfs.ext4", &arguments, "apt-get install e2fsprogs");
        let path = self.path(name);
        fs::create_dir_all(&path).expect("a directory to mount on");
        let path_text = path.to_str().expect("a plain path");
        tool("mount", &["-o", "loop", image_text, path_text], "apt-get install mount (and loop devices)");
        open_to_all(&path, 0o1777);
        path
    }

    /// Gives this house a `/dev` of its own (null, zero, full, random, urandom, tty, fd) with no `shm` in it; the test
    /// makes of `/dev/shm` what it wants. The machine's devtmpfs is shared by all namespaces and must not be changed.
    pub fn own_dev(&self) {
        let dev = self.tmpfs("dev", "mode=755,size=1m");
        for (name, minor) in [("null", "3"), ("zero", "5"), ("full", "7"), ("random", "8"), ("urandom", "9")] {
            let node = dev.join(name);
            tool("mknod", &["-m", "666", node.to_str().expect("plain"), "c", "1", minor], "apt-get install coreutils");
        }
        std::os::unix::fs::symlink("/proc/self/fd", dev.join("fd")).expect("a link");
        open_to_all(&dev, 0o755);
        tool("mount", &["--bind", dev.to_str().expect("plain"), "/dev"], "apt-get install mount");
    }

    /// A run of `tests/programs/NAME.c` under the library with the house's default target and state directory.
    pub fn program(&self, program: impl Into<Program>) -> Run {
        Run::new(self, program.into())
    }

    /// Asserts that neither `/dev/shm` nor any of the house's targets holds an entry.
    #[track_caller]
    pub fn nothing_left(&self) {
        for place in [Path::new("/dev/shm"), &self.target()] {
            assert_eq!(left_in(place), Vec::<String>::new(), "left in {}", place.display());
        }
    }

    /// Bytes in use on the file system of `/dev/shm`.
    pub fn shm_used(&self) -> u64 {
        let stat = rustix::fs::statvfs("/dev/shm").expect("statvfs of /dev/shm");
        (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    }
}

impl Drop for House {
    /// Unmounts what lies below the temporary directory, so that it can be removed: also when a test has failed.
    fn drop(&mut self) {
        let below = format!("{}/", self.dir.path().display());
        let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
        for path in mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)) {
            if path.starts_with(&below) {
                // What fails here leaves a directory behind, no more; a panic would hide the test's own.
                let _ = Command::new("umount").args(["--lazy", path]).env_remove("LD_PRELOAD").status();
            }
        }
    }
}

/// The names directly in a directory, sorted. A file that the library keeps for itself there counts as well.
#[track_caller]
pub fn left_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "lost+found"); // mkfs.ext4 made it
    names.sort();
    names
}

/// Sets the mode of a directory, whatever the umask is.
pub fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .unwrap_or_else(|error| panic!("chmod {}: {error}", path.display()));
}

/// Runs a system tool and panics unless it succeeds; `install` says where it comes from.
#[track_caller]
pub fn tool(name: &str, arguments: &[&str], install: &str) -> String {
    let output = Command::new(name)
        .args(arguments)
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap_or_else(|error| panic!("cannot run {name} ({error}): {install}"));
    assert!(
        output.status.success(),
        "{name} {arguments:?}: {}{} (privilege missing? {install})",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
