//! Does the library load into a child of this environment? Tried out, not guessed; the reason when it does not.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use super::root::{Environment, Root};
use crate::path;
use crate::run::elf;

/// What is known of the library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Where it is.
    pub path: Option<PathBuf>,
    /// It was seen in the mappings of a child. `None`: not tried, since another root is looked at.
    pub loads: Option<bool>,
    /// The child in which it was tried.
    pub child: Option<PathBuf>,
    /// Why it does not load.
    pub reason: Option<String>,
    /// The environment's LD_PRELOAD, or /etc/ld.so.preload, names it, and the file is there.
    pub preloaded: bool,
    /// LD_PRELOAD names it by a path where no file is.
    pub dangling: Option<PathBuf>,
}

impl Library {
    /// Looks for the library and tries it. `program`: the program that is meant; else `cat` stands for all.
    pub fn look(root: &Root, environment: &Environment, program: Option<&Path>) -> Library {
        let mut library = Library::default();
        library.look_at_preload(root, environment);
        if !root.is_here() {
            let programs = ["bin/cat", "bin/sh"].map(|program| root.path(program));
            // Its own library is not looked for there: the one that belongs to this command would be put in.
            let found = path::library().ok();
            let top = root.path("");
            let obstacle = |program: &PathBuf| elf::obstacle(program, found.as_deref(), &top);
            library.reason = programs.iter().find_map(obstacle).map(|obstacle| obstacle.to_string());
            return library;
        }
        match path::library() {
            Ok(found) => library.path = Some(found),
            Err(error) => {
                (library.loads, library.reason) = (Some(false), Some(format!("{error:#}")));
                return library;
            }
        }
        library.try_out(environment);
        if let Some(program) = program.filter(|_| library.loads == Some(true)) {
            library.judge(program, environment);
        }
        library
    }

    fn look_at_preload(&mut self, root: &Root, environment: &Environment) {
        let from_file = root.bytes("etc/ld.so.preload").unwrap_or_default();
        let from_variable = environment.get("LD_PRELOAD").unwrap_or_default().as_bytes().to_vec();
        // Blanks and colons separate the entries of both (ld.so(8)).
        let entries = [from_variable, from_file].join(&b' ');
        for entry in entries.split(|byte| matches!(byte, b' ' | b':' | b'\n' | b'\t')) {
            let entry = Path::new(OsStr::from_bytes(entry));
            if entry.file_name() != Some(OsStr::new(path::LIBRARY)) {
                continue;
            }
            // A name without a slash is looked for by the loader; it is taken as found.
            if !entry.as_os_str().as_bytes().contains(&b'/') || root.path(entry).exists() {
                self.preloaded = true;
            } else {
                self.dangling = Some(entry.to_owned());
            }
        }
    }

    fn try_out(&mut self, environment: &Environment) {
        let Some(library) = self.path.clone() else { return };
        let Some(child) = which(OsStr::new("cat"), environment) else {
            self.reason = Some("there is no cat in PATH to try it in".into());
            self.loads = Some(false);
            return;
        };
        self.child = Some(child.clone());
        let preload = path_and(&library, environment.get("LD_PRELOAD").unwrap_or_default());
        let output = Command::new(&child)
            .arg("/proc/self/maps")
            .env("LD_PRELOAD", preload)
            .env("SHMGUARD_QUIET", "1")
            .env_remove("SHMGUARD_LOG")
            .stdin(Stdio::null())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                (self.loads, self.reason) =
                    (Some(false), Some(format!("{} cannot be started: {error}", child.display())));
                return;
            }
        };
        let real = library.canonicalize().unwrap_or_else(|_| library.clone());
        let mapped = String::from_utf8_lossy(&output.stdout).lines().any(|line| {
            let path = line.split_whitespace().nth(5).unwrap_or("");
            !path.is_empty() && Path::new(path).file_name() == real.file_name()
        });
        self.loads = Some(mapped);
        if !mapped {
            self.reason = Some(why_not(&library, &child, &String::from_utf8_lossy(&output.stderr)));
        }
    }

    /// A program that is not started: its file tells.
    fn judge(&mut self, program: &Path, environment: &Environment) {
        let Some(found) = which(program.as_os_str(), environment) else {
            (self.loads, self.reason) = (Some(false), Some(format!("{} is not in PATH", program.display())));
            return;
        };
        if let Some(obstacle) = elf::obstacle(&found, self.path.as_deref(), Path::new("/")) {
            (self.loads, self.reason) = (Some(false), Some(format!("{}: {obstacle}", found.display())));
        }
        self.child = Some(found);
    }
}

/// `library`, in front of what is preloaded already, except that a sanitizer's runtime must stay first.
fn path_and(library: &Path, existing: &OsStr) -> OsString {
    let is_library = |entry: &&[u8]| entry.is_empty() || *entry == library.as_os_str().as_bytes();
    let others: Vec<&[u8]> =
        existing.as_bytes().split(|byte| matches!(byte, b':' | b' ')).filter(|entry| !is_library(entry)).collect();
    let sanitizer = |entry: &&&[u8]| entry.windows(6).any(|words| words == b"libasa" || words == b"libtsa");
    let first = others.iter().filter(sanitizer);
    let rest = others.iter().filter(|entry| !sanitizer(entry));
    let mut all: Vec<&[u8]> = first.copied().collect();
    all.push(library.as_os_str().as_bytes());
    all.extend(rest.copied());
    OsStr::from_bytes(&all.join(&b':')).to_owned()
}

/// The file of a program: a path, or a name in PATH.
fn which(program: &OsStr, environment: &Environment) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let places = environment.get("PATH").unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(places).map(|place| place.join(program)).find(|path| path.is_file())
}

/// The reason, from the files and from what the loader said.
fn why_not(library: &Path, child: &Path, said: &str) -> String {
    match (machine(library), machine(child)) {
        (None, _) => return format!("{} is no library (or cannot be read by this user)", library.display()),
        (Some(own), Some(other)) if own != other => {
            return format!("the library is for {}, the programs here for {}", named(own), named(other));
        }
        _ => {}
    }
    if let Some(obstacle) = elf::obstacle(child, Some(library), Path::new("/")) {
        return format!("{}: {obstacle}", child.display());
    }
    let line = |words: &str| said.lines().find(|line| line.contains(words)).map(str::trim);
    if let Some(line) = line("GLIBC_") {
        return format!("the C library here is too old: {line}");
    }
    if line("ASan runtime does not come first").is_some() {
        return "AddressSanitizer wants to be first: LD_PRELOAD=libasan.so:libshmguard.so, or \
                ASAN_OPTIONS=verify_asan_link_order=0"
            .into();
    }
    if library.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        return format!(
            "{} has a blank or a colon, where the loader splits LD_PRELOAD: put it elsewhere",
            library.display()
        );
    }
    if let Some(line) = line("cannot be preloaded").or_else(|| line("error while loading")) {
        return line.to_owned();
    }
    match said.lines().next() {
        Some(line) => format!("{} said: {line}", child.display()),
        None => format!("{} ran without it and said nothing", child.display()),
    }
}

/// Class (1 = 32 bits, 2 = 64) and machine of an ELF file, elf(5); `None`: it is none, or cannot be read.
fn machine(path: &Path) -> Option<(u8, u16)> {
    let mut head = [0u8; 20];
    std::io::Read::read_exact(&mut std::fs::File::open(path).ok()?, &mut head).ok()?;
    let [0x7f, b'E', b'L', b'F', class, .., low, high] = head else { return None };
    Some((class, u16::from_le_bytes([low, high])))
}

fn named(machine: (u8, u16)) -> String {
    match machine {
        (_, 3) => "x86 with 32 bits".into(),
        (_, 40) => "arm with 32 bits".into(),
        (2, 62) => "x86-64".into(),
        (2, 183) => "aarch64".into(),
        (class, number) => format!("machine {number} with {} bits", u32::from(class) * 32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_first_but_for_a_sanitizer() {
        let join = |existing: &str| path_and(Path::new("/l/libshmguard.so"), OsStr::new(existing));
        assert_eq!(join(""), "/l/libshmguard.so");
        assert_eq!(join("/a.so /b.so"), "/l/libshmguard.so:/a.so:/b.so");
        assert_eq!(join("/l/libshmguard.so:/a.so"), "/l/libshmguard.so:/a.so");
        assert_eq!(join("/a.so:/x/libasan.so.8"), "/x/libasan.so.8:/l/libshmguard.so:/a.so");
    }

    #[test]
    fn the_loaders_words_become_reasons() {
        let own = Path::new("/proc/self/exe");
        let why = |said| why_not(own, own, said);
        assert!(why("x: /lib/libc.so.6: version `GLIBC_2.34' not found (required by y)").contains("too old"));
        assert!(why("==7==ASan runtime does not come first in initial library list").contains("ASAN_OPTIONS"));
        assert!(why("ERROR: ld.so: object 'x' from LD_PRELOAD cannot be preloaded (y): ignored.").contains("(y)"));
        assert!(why("").contains("said nothing"));
        assert!(why_not(Path::new("/etc/passwd"), own, "").contains("no library"));
    }
}
