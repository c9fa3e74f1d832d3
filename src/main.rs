//! The command `shmguard`.
fn main() {}
