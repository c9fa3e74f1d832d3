//! Where the library is that belongs to this command, and `shmguard path`, which prints it.

use std::env;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Context};

/// File name of the library.
pub const LIBRARY: &str = "libshmguard.so";

/// Names another library than the one that lies beside this command.
pub const VARIABLE: &str = "SHMGUARD_LIB";

/// Prints the path of the library that belongs to this command.
///
/// Looked for: $SHMGUARD_LIB, then beside this command, in ../lib of it, ../lib/shmguard, /usr/local/lib, /usr/lib.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  LD_PRELOAD=\"$(shmguard path)\" python train.py")]
pub struct Args {}

/// Prints it.
pub fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    let mut line = library()?.into_os_string().as_bytes().to_vec();
    line.push(b'\n');
    std::io::stdout().write_all(&line)?;
    Ok(ExitCode::SUCCESS)
}

/// The absolute path of the library that belongs to this command.
///
/// # Errors
/// None is there; the message names the places.
pub fn library() -> anyhow::Result<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let named = PathBuf::from(named);
        return std::path::absolute(&named)
            .and_then(|path| path.metadata().map(|_| path))
            .with_context(|| format!("{VARIABLE} names {}", named.display()));
    }
    let places = places(&env::current_exe().context("where this command is (/proc/self/exe)")?);
    match places.iter().find(|path| path.is_file()) {
        Some(found) => Ok(found.clone()),
        None => bail!(
            "{LIBRARY} is not there; looked for {}; set {VARIABLE} to its path",
            places.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The places where it may be, in order.
fn places(command: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(beside) = command.parent() {
        places.push(beside.join(LIBRARY));
        if let Some(prefix) = beside.parent() {
            places.push(prefix.join("lib").join(LIBRARY));
            places.push(prefix.join("lib/shmguard").join(LIBRARY));
        }
    }
    for directory in ["/usr/local/lib", "/usr/lib"] {
        let place = Path::new(directory).join(LIBRARY);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_beside_the_command_comes_first() {
        let places = places(Path::new("/opt/shmguard/bin/shmguard"));
        assert_eq!(places[0], Path::new("/opt/shmguard/bin/libshmguard.so"));
        assert_eq!(places[1], Path::new("/opt/shmguard/lib/libshmguard.so"));
        assert_eq!(places.last().map(PathBuf::as_path), Some(Path::new("/usr/lib/libshmguard.so")));
    }
}
