//! The command `shmguard`: runs programs under the library and shows who uses shared memory, how much, how near to the end.
//!
//! One module a subcommand, each with its own `Args` and `run(&Args) -> anyhow::Result<ExitCode>`; [`cli`] puts them together.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use std::process::ExitCode;

mod clean;
mod cli;
mod docs_generate;
mod doctor;
mod estimate;
mod metrics;
mod now;
mod path;
mod report;
mod run;
mod status;
mod top;

fn main() -> ExitCode {
    cli::main()
}
