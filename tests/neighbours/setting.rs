//! The kernel's protections of sticky, world-writable directories (proc_sys_fs(5)). They are settings of the whole machine:
//! changed under a lock, one test at a time, and put back also when a test panics.

use std::fs;
use std::sync::{Mutex, PoisonError};

use crate::harness::{house, House};

/// How the four protections stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// symlinks=1, hardlinks=1, regular=2, fifos=1: what distributions ship.
    Protected,
    /// All 0.
    Open,
}

const NAMES: [&str; 4] = ["protected_symlinks", "protected_hardlinks", "protected_regular", "protected_fifos"];

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What the machine had before; written back when dropped.
struct Before(Vec<(String, String)>);

impl Before {
    fn read() -> Before {
        let read = |name: &str| {
            let path = format!("/proc/sys/fs/{name}");
            let value = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            (path, value)
        };
        Before(NAMES.iter().map(|name| read(name)).collect())
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        for (path, value) in &self.0 {
            if let Err(error) = fs::write(path, value) {
                eprintln!("{path} could not be put back to {}: {error}", value.trim());
            }
        }
    }
}

fn set(setting: Setting) {
    let values = match setting {
        Setting::Protected => ["1", "1", "2", "1"],
        Setting::Open => ["0", "0", "0", "0"],
    };
    for (name, value) in NAMES.iter().zip(values) {
        let path = format!("/proc/sys/fs/{name}");
        fs::write(&path, value)
            .unwrap_or_else(|error| panic!("{path}: {error}: run the tests as root, with /proc/sys writable"));
    }
}

/// Runs `body` in a fresh [`house`] under either setting.
pub fn under_each_setting(shm: &str, body: impl Fn(&House, &Setting) + Sync) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let _before = Before::read();
    for setting in [Setting::Protected, Setting::Open] {
        set(setting);
        house(shm, |house| {
            // Stated once more by what the kernel does: another process on this machine may have changed it.
            let now = fs::read_to_string("/proc/sys/fs/protected_symlinks").expect("it can be read");
            assert_eq!(now.trim() == "1", setting == Setting::Protected, "somebody else sets fs.protected_symlinks");
            body(house, &setting);
        });
    }
}
