//! The comparison most tests are: one program in a `/dev/shm` that is large enough without the library, and in a small
//! one with it, must say the same and leave nothing.

use std::path::Path;

use super::{house, left_in, House, Outcome, Run, MIB};

/// Bytes of a segment in comparisons: one and a half times the small `/dev/shm`, so that one which stayed there could not
/// be written to its end.
pub const SEGMENT: u64 = 12 * MIB;

/// How the small `/dev/shm` of a comparison looks.
#[derive(Clone, Copy, Debug)]
pub enum Small {
    /// 8 MiB, empty; the target is a directory on the disk. A segment is moved when it is sized.
    ToDisk,
    /// 8 MiB, empty; the target is a larger tmpfs.
    ToMemory,
    /// 8 MiB, over budget before the program starts: what is created there is a link from the beginning.
    Full,
}

/// All of them.
pub const SMALL: [Small; 3] = [Small::ToDisk, Small::ToMemory, Small::Full];

/// Name of the file that makes the `/dev/shm` of [`Small::Full`] full.
pub const BALLAST: &str = "ballast-of-the-test";

/// Runs `describe(house)` without the library in a `/dev/shm` of 1 GiB. It must end well, silently, leaving nothing.
#[track_caller]
pub fn baseline(describe: impl Fn(&House) -> Run + Sync) -> Outcome {
    baseline_noisy(describe).silent()
}

/// As [`baseline`], for a program that writes to standard error by itself.
#[track_caller]
pub fn baseline_noisy(describe: impl Fn(&House) -> Run + Sync) -> Outcome {
    let mut outcome = None;
    house("size=1g", |house| {
        outcome = Some(describe(house).without_library().output().well());
        house.nothing_left();
    });
    outcome.expect("the house ran")
}

/// Runs `describe(house)` under the library in a small `/dev/shm`; the program must end well and leave nothing, neither
/// in `/dev/shm` nor in the target.
#[track_caller]
pub fn in_small(small: Small, describe: impl Fn(&House) -> Run + Sync) -> Outcome {
    let mut outcome = None;
    house("size=8m", |house| {
        let mut target = house.target();
        match small {
            Small::ToDisk => {}
            Small::ToMemory => target = house.tmpfs("memory", "size=1g"),
            Small::Full => fill_shm(Path::new("/dev/shm").join(BALLAST).as_path(), 7 * MIB + MIB * 3 / 4),
        }
        let result = describe(house).env("SHMGUARD_REDIRECT", &target).output();
        assert_eq!((result.code, result.signal), (Some(0), None), "{small:?}: {result}");
        let ballast = if matches!(small, Small::Full) { vec![BALLAST.to_owned()] } else { Vec::new() };
        assert_eq!(left_in(Path::new("/dev/shm")), ballast, "{small:?}: left in /dev/shm; {result}");
        assert_eq!(left_in(&target), Vec::<String>::new(), "{small:?}: left in the target; {result}");
        outcome = Some(result);
    });
    outcome.expect("the house ran")
}

/// `tests/programs/PROGRAM.c` with the size of a [`SEGMENT`] as its argument says the same in a large `/dev/shm` without
/// the library and in every kind of small one with it.
#[track_caller]
pub fn same_everywhere(program: &str) {
    let describe = |house: &House| house.program(program).number(SEGMENT);
    let expected = baseline(describe);
    assert_ne!(expected.stdout, "", "{program} observes something");
    for small in SMALL {
        let outcome = in_small(small, describe);
        assert_eq!(outcome.stdout, expected.stdout, "{small:?}: {program} observes something else; {outcome}");
    }
}

/// What `describe` runs says the same without the library in a large `/dev/shm` and with it in every kind of small one.
#[track_caller]
pub fn same(describe: impl Fn(&House) -> Run + Sync) {
    let expected = baseline(&describe);
    assert_ne!(expected.stdout, "", "the program observes something");
    for small in SMALL {
        let outcome = in_small(small, &describe);
        assert_eq!(outcome.stdout, expected.stdout, "{small:?}; {outcome}");
    }
}

/// Writes a file of `bytes` (every page held) at `path`.
#[track_caller]
pub fn fill_shm(path: &Path, bytes: u64) {
    std::fs::write(path, vec![1; bytes as usize]).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
