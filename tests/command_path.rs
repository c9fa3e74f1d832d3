//! `shmguard path`: the library that belongs to the command, wherever both are installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn path(command: &Path, named: Option<&Path>) -> Output {
    let mut process = Command::new(command);
    process.arg("path").env_clear();
    if let Some(named) = named {
        process.env("SHMGUARD_LIB", named);
    }
    process.output().expect("the command runs")
}

fn line(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

#[test]
fn it_is_found_beside_the_command_and_in_the_lib_of_its_prefix() {
    let prefix = tempfile::tempdir().expect("a directory");
    let at = |name: &str| prefix.path().join(name);
    for directory in ["bin", "lib", "lib/shmguard"] {
        fs::create_dir_all(at(directory)).expect("mkdir");
    }
    let command = at("bin/shmguard");
    fs::copy(env!("CARGO_BIN_EXE_shmguard"), &command).expect("a copy");
    // From the last place to the first: the later one found wins.
    for place in ["lib/shmguard/libshmguard.so", "lib/libshmguard.so", "bin/libshmguard.so"] {
        fs::write(at(place), "").expect("written");
        assert_eq!(line(&path(&command, None)), format!("{}\n", at(place).display()));
    }
    let named = at("lib/libshmguard.so");
    assert_eq!(line(&path(&command, Some(&named))), format!("{}\n", named.display()));
}

#[test]
fn where_it_is_not_the_places_are_named() {
    let missing = path(Path::new(env!("CARGO_BIN_EXE_shmguard")), Some(Path::new("/no/libshmguard.so")));
    assert_eq!(missing.status.code(), Some(1));
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(
        said.contains("SHMGUARD_LIB") && said.contains("/no/libshmguard.so") && missing.stdout.is_empty(),
        "{said}"
    );
}
