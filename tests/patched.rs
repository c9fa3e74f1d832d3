//! A program that overwrites mmap itself, as UCX does below MPI: segments that grow by writing are moved all the same.

mod harness;

use harness::{house, MIB};
use rustix::process::Signal;

#[test]
fn a_segment_that_grows_by_writing_is_moved_although_mmap_is_overwritten() {
    house("size=16m", |house| {
        let run = house.program("patched").number(32 * MIB);
        assert_eq!(run.output().well().stdout, format!("{} bytes, 2 mappings of our own\n", 32 * MIB));
        house.nothing_left();
    });
}

#[test]
fn without_the_library_it_dies() {
    house("size=16m", |house| {
        house.program("patched").number(32 * MIB).without_library().output().killed_by(Signal::BUS);
    });
}

#[test]
fn a_small_one_stays() {
    house("size=16m", |house| {
        let run = house.program("patched").number(MIB);
        assert!(run.output().well().stderr.is_empty(), "nothing to say about a segment that fits");
        house.nothing_left();
    });
}
