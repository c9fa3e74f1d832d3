//! Everything that can be wrong around the program: variables, targets, `/dev/shm` itself, limits, standard error. Each ends
//! in the program's ordinary behaviour plus one line that names the cause.

#[path = "../harness/mod.rs"]
mod harness;

mod dev_shm;
mod limits;
mod standard_error;
mod targets;
mod variables;

use harness::{House, Outcome, Run, SEGMENT};

/// A segment that does not fit, written to its end.
fn fate(house: &House) -> Run {
    house.program("fate").arg("ftruncate").number(SEGMENT)
}

#[track_caller]
fn written(outcome: Outcome) -> Outcome {
    let outcome = outcome.well();
    assert!(outcome.stdout.ends_with("written\n"), "{outcome}");
    outcome
}
