//! The fill over time, shared by all processes of a ledger: one that leaks a segment and ends knows nothing of the one before.
//!
//! A file `trend`, changed under a flock that nobody waits for: the sample of a busy moment is done without.

use rustix::fs::{self, FlockOperation, Mode, OFlags};

use super::directory::{read_file, write_at};
use super::Ledger;
use crate::quiet::quietly;
use crate::trend::{Trend, TREND_BYTES};

const NAME: &str = "trend";

impl Ledger {
    /// Changes the trend. `None` when somebody else is about it, or it cannot be written.
    pub fn with_trend<R>(&self, change: impl FnOnce(&mut Trend) -> R) -> Option<R> {
        let directory = self.directory().ok()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = fs::openat(&directory, NAME, flags, Mode::RUSR | Mode::WUSR).ok()?;
        fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let changed = || {
            let mut bytes = [0u8; TREND_BYTES];
            let length = read_file(&file, &mut bytes)?;
            let mut trend = Trend::from_bytes(bytes.get(..length)?);
            let result = change(&mut trend);
            quietly(|| write_at(&file, &trend.to_bytes(), 0)).ok()?;
            Some(result)
        };
        let result = changed();
        // By hand: a child that another thread forks meanwhile keeps the descriptor, and would keep the lock (flock(2)).
        let _ = fs::flock(&file, FlockOperation::Unlock);
        result
    }

    /// The trend as it was written last; nothing known where there is none.
    pub fn trend(&self) -> Trend {
        let read = || {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = fs::openat(self.directory().ok()?, NAME, flags, Mode::empty()).ok()?;
            let mut bytes = [0u8; TREND_BYTES];
            let length = read_file(&file, &mut bytes)?;
            Some(Trend::from_bytes(bytes.get(..length)?))
        };
        read().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;
    use crate::process::Owner;

    #[test]
    fn processes_share_it_and_one_of_them_has_the_news() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = CString::new(directory.path().as_os_str().as_encoded_bytes()).expect("no nul");
        let told: Vec<u64> = (0..60u64)
            .filter(|second| {
                // Another process each time, as with a job that leaks one segment a run.
                let ledger = Ledger::at(path.clone(), Owner { pid: *second as i32 + 1, ..Owner::default() });
                let news = ledger.with_trend(|trend| trend.news(second * 1000, *second, 60)).expect("nobody else");
                news.is_some()
            })
            .collect();
        assert_eq!(told, [40]);
        let ledger = Ledger::at(path, Owner::default());
        assert!(ledger.trend().is_announced());
        std::fs::write(directory.path().join("trend"), "noise").expect("written");
        assert_eq!(ledger.trend(), Trend::default());
        let busy = std::fs::File::open(directory.path().join("trend")).expect("there");
        fs::flock(&busy, FlockOperation::LockExclusive).expect("locked");
        assert_eq!(ledger.with_trend(|_| ()), None, "somebody else is about it");
    }
}
