//! What one process does for all, from time to time: whose turn it is, and when it is due again.
//!
//! The marker is a symbolic link to nowhere: made in one call with its text, of which nobody sees a half, and removed in one.
//! Times are milliseconds of CLOCK_BOOTTIME, which no clock setting moves.

use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

use super::directory::Ledger;
use crate::process;
use crate::text::Text;

/// No turn takes so long, and none is put off for longer, in milliseconds; a marker that says so is noise.
pub const LONGEST_MS: u64 = 60_000;

/// How long a process waits before it looks again at what another one has begun, in milliseconds.
const BEGUN_MS: u64 = 1000;

/// The answer to who asks for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is the caller's. So many have come to no end before.
    Mine {
        /// Turns in a row that were not complete.
        tries: u32,
    },
    /// Somebody has done it, or is at it: not before this time.
    NotBefore {
        /// Milliseconds of CLOCK_BOOTTIME.
        ms: u64,
    },
}

/// What the marker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Begun { pid: i32, start: u64, ms: u64, tries: u32 },
    Due { ms: u64, tries: u32 },
}

impl Ledger {
    /// Asks for the turn to do `what` at `now_ms`. Whose it is calls [`Ledger::end_turn`] afterwards.
    ///
    /// `what` must name the pid namespace: whether who has begun is still alive is judged by its number. One that was killed
    /// in the middle is followed by the next who asks. Where two find that out at once, both may get the turn.
    pub fn take_turn(&self, what: &str, now_ms: u64) -> Turn {
        // Without a ledger everybody does it.
        let Ok(directory) = self.directory() else { return Turn::Mine { tries: 0 } };
        let name = name_of(what);
        let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 128];
        let read = fs::readlinkat_raw(&directory, name.bytes(), &mut buffer).map(|(text, _)| &*text);
        let marker = read.ok().and_then(Marker::parse);
        let soon = now_ms.saturating_add(LONGEST_MS);
        let tries = match marker {
            Some(Marker::Due { ms, .. }) if now_ms < ms && ms <= soon => return Turn::NotBefore { ms },
            Some(Marker::Begun { pid, start, ms, .. })
                if now_ms < ms.saturating_add(LONGEST_MS) && ms <= now_ms && process::is_alive(pid, start) =>
            {
                return Turn::NotBefore { ms: now_ms.saturating_add(BEGUN_MS) }
            }
            Some(Marker::Due { tries, .. } | Marker::Begun { tries, .. }) => tries,
            None => 0,
        };
        if read != Err(Errno::NOENT) {
            let _ = fs::unlinkat(&directory, name.bytes(), AtFlags::empty());
        }
        let begun = Marker::Begun { pid: self.me.pid, start: self.me.start, ms: now_ms, tries };
        match fs::symlinkat(begun.text().bytes(), &directory, name.bytes()) {
            Err(Errno::EXIST) => Turn::NotBefore { ms: now_ms.saturating_add(BEGUN_MS) },
            // On a full disk everybody does it.
            _ => Turn::Mine { tries },
        }
    }

    /// The caller's turn to do `what` has ended; the next one is due at `due_ms`, after `tries` that were not complete.
    pub fn end_turn(&self, what: &str, due_ms: u64, tries: u32) {
        let Ok(directory) = self.directory() else { return };
        let name = name_of(what);
        // A kill between the two leaves no marker: the next who asks has the turn.
        let _ = fs::unlinkat(&directory, name.bytes(), AtFlags::empty());
        let _ = fs::symlinkat(Marker::Due { ms: due_ms, tries }.text().bytes(), &directory, name.bytes());
    }
}

fn name_of(what: &str) -> Text<64> {
    let mut name = Text::new();
    name.add(format_args!("once.turn.{what}"));
    name
}

impl Marker {
    fn text(self) -> Text<96> {
        let mut text = Text::new();
        match self {
            Marker::Begun { pid, start, ms, tries } => text.add(format_args!("begun {pid} {start} {ms} {tries}")),
            Marker::Due { ms, tries } => text.add(format_args!("due {ms} {tries}")),
        }
        text
    }

    fn parse(text: &[u8]) -> Option<Marker> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let marker = match words.next()? {
            "begun" => Marker::Begun {
                pid: words.next()?.parse().ok()?,
                start: words.next()?.parse().ok()?,
                ms: words.next()?.parse().ok()?,
                tries: words.next()?.parse().ok()?,
            },
            "due" => Marker::Due { ms: words.next()?.parse().ok()?, tries: words.next()?.parse().ok()? },
            _ => return None,
        };
        words.next().is_none().then_some(marker)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::super::State;
    use super::*;
    use crate::process::Owner;
    use crate::segment::Identity;

    const NOW: u64 = 5_000_000;

    fn ledger() -> (tempfile::TempDir, Ledger, PathBuf) {
        let place = tempfile::tempdir().expect("a directory");
        let state = CString::new(place.path().to_str().expect("utf-8")).expect("no nul");
        let ledger = Ledger::open(State::Run(&state), Identity { dev: 1, ino: 2 }, Owner::current()).expect("a ledger");
        let marker = PathBuf::from(ledger.path().to_str().expect("utf-8")).join("once.turn.x");
        (place, ledger, marker)
    }

    fn waits(turn: Turn) -> u64 {
        match turn {
            Turn::NotBefore { ms } => ms,
            Turn::Mine { .. } => panic!("{turn:?}"),
        }
    }

    #[test]
    fn a_turn_is_taken_once_until_it_is_due_again() {
        let (_place, ledger, _) = ledger();
        assert_eq!(ledger.take_turn("x", NOW), Turn::Mine { tries: 0 });
        assert_eq!(waits(ledger.take_turn("x", NOW + 1)), NOW + 1 + BEGUN_MS, "this process is at it");
        assert_eq!(ledger.take_turn("y", NOW), Turn::Mine { tries: 0 }, "something else");
        ledger.end_turn("x", NOW + 300, 4);
        assert_eq!(waits(ledger.take_turn("x", NOW + 299)), NOW + 300);
        assert_eq!(ledger.take_turn("x", NOW + 300), Turn::Mine { tries: 4 });
        ledger.clear();
        assert!(ledger.directory().is_err(), "nothing of it keeps the ledger");
    }

    #[test]
    fn the_turn_of_a_killed_process_is_taken_up() {
        let (_place, ledger, marker) = ledger();
        let dead = Marker::Begun { pid: i32::MAX, start: 1, ms: NOW, tries: 2 };
        symlink(dead.text().as_str(), &marker).expect("a marker");
        assert_eq!(ledger.take_turn("x", NOW), Turn::Mine { tries: 2 });
        waits(ledger.take_turn("x", NOW));
    }

    #[test]
    fn a_turn_that_does_not_end_is_taken_up() {
        let (_place, ledger, _) = ledger();
        ledger.take_turn("x", NOW);
        waits(ledger.take_turn("x", NOW + LONGEST_MS - 1));
        assert_eq!(ledger.take_turn("x", NOW + LONGEST_MS), Turn::Mine { tries: 0 });
    }

    #[test]
    fn noise_is_no_marker() {
        let (_place, ledger, marker) = ledger();
        for noise in [
            "due",
            "due 1",
            "due x 0",
            "due 9999999999 0",
            "begun 1 1",
            "due 5000001 0 0",
            "\u{e9}",
            "begun 1 0 9999999999 0",
        ] {
            symlink(noise, &marker).expect("a link");
            assert!(matches!(ledger.take_turn("x", NOW), Turn::Mine { .. }), "{noise}");
            std::fs::remove_file(&marker).expect("the caller's own is there");
        }
        std::fs::write(&marker, "a file").expect("written");
        assert_eq!(ledger.take_turn("x", NOW), Turn::Mine { tries: 0 });
        assert!(marker.is_symlink());
    }
}
