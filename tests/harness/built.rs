//! What the tests run: the library under test and the C programs of `tests/programs`, each built once.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A program of `tests/programs` in one way of compiling it.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    flags: Vec<String>,
}

impl From<&str> for Program {
    fn from(name: &str) -> Program {
        Program { name: name.to_owned(), flags: Vec::new() }
    }
}

impl Program {
    /// The same source with further compiler flags, for example `-D_FILE_OFFSET_BITS=64`.
    pub fn flags(mut self, flags: &[&str]) -> Program {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    /// Name of the source without `.c`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The compiled program; compiles it unless this source with these flags was compiled before.
    ///
    /// `-O1 -Wall -Werror`, then what a first line `/* cflags: ... */` of the source adds, then the flags of this value.
    pub fn build(&self) -> PathBuf {
        let source = sources().join(format!("{}.c", self.name));
        let text = fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        let header = fs::read_to_string(sources().join("check.h")).expect("tests/programs/check.h");
        let own = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("/* cflags:"))
            .and_then(|line| line.strip_suffix("*/"))
            .unwrap_or("");
        let mut flags: Vec<&str> = vec!["-O1", "-Wall", "-Werror"];
        flags.extend(own.split_whitespace());
        flags.extend(self.flags.iter().map(String::as_str));

        let compiler = compiler();
        let mut hasher = DefaultHasher::new();
        (&text, &header, &flags, &compiler).hash(&mut hasher);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
        fs::create_dir_all(&directory).expect("a directory for compiled programs");
        let built = directory.join(format!("{}-{:016x}", self.name, hasher.finish()));
        if built.exists() {
            return built;
        }
        // Under a name of its own first: other tests may compile the same program at this moment.
        let fresh = tempfile::Builder::new().prefix(&self.name).tempdir_in(&directory).expect("a directory");
        let object = fresh.path().join(&self.name);
        let output = Command::new(&compiler[0])
            .args(&compiler[1..])
            .arg("-o")
            .arg(&object)
            .arg(&source)
            .args(&flags)
            .env_remove("LD_PRELOAD")
            .output()
            .unwrap_or_else(|error| panic!("cannot run {} ({error}): apt-get install gcc libc6-dev", compiler[0]));
        assert!(
            output.status.success(),
            "{compiler:?} {} {flags:?}:\n{}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        fs::rename(&object, &built).expect("rename of a compiled program");
        built
    }
}

/// The C compiler with its options: `SHMGUARD_TEST_CC` if set (words), for programs of another C library or processor; else cc.
fn compiler() -> Vec<String> {
    let words = std::env::var("SHMGUARD_TEST_CC").unwrap_or_else(|_| "cc".to_owned());
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    assert!(!words.is_empty(), "SHMGUARD_TEST_CC is empty");
    words
}

/// What runs the programs: `SHMGUARD_TEST_EMULATOR` (words, such as `qemu-aarch64-static -L /`); else
/// nothing, and they run by themselves.
pub fn emulator() -> Vec<String> {
    let words = std::env::var("SHMGUARD_TEST_EMULATOR").unwrap_or_default();
    words.split_whitespace().map(str::to_owned).collect()
}

/// The path of a built program: for tests that preload a library of `tests/programs` or look at its symbols.
pub fn program_file(program: impl Into<Program>) -> PathBuf {
    program.into().build()
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The library under test: `SHMGUARD_LIB` if set (a path to libshmguard.so), else built by `cargo build --release`
/// into the target directory of the tests.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| match std::env::var_os("SHMGUARD_LIB") {
        Some(path) => {
            let path = PathBuf::from(path);
            fs::canonicalize(&path)
                .unwrap_or_else(|error| panic!("SHMGUARD_LIB names {}, which is not there: {error}", path.display()))
        }
        None => build_library(&["--release"]),
    })
}

/// The library that `scripts/package` made for this machine's processor: in dist, or in the unpacked package that
/// `SHMGUARD_PACKAGE` names.
#[track_caller]
pub fn packaged_library() -> PathBuf {
    let package = std::env::var_os("SHMGUARD_PACKAGE").map(PathBuf::from).unwrap_or_else(|| {
        let (arch, version) = (std::env::consts::ARCH, env!("CARGO_PKG_VERSION"));
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("dist/{arch}/shmguard-{version}-{arch}"))
    });
    let library = package.join("libshmguard.so");
    assert!(library.is_file(), "there is no {}: scripts/package first", library.display());
    library
}

/// The library as `cargo build` makes it: with debug assertions and overflow checks, not optimised.
pub fn debug_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build_library(&[]))
}

/// A library that a package of the distribution installs, by its file name.
#[track_caller]
pub fn installed_library(name: &str, package: &str) -> PathBuf {
    let directories = fs::read_dir("/usr/lib").expect("/usr/lib").flatten().map(|entry| entry.path());
    let mut found = directories.chain([PathBuf::from("/usr/lib"), PathBuf::from("/lib")]).map(|path| path.join(name));
    found.find(|path| path.is_file()).unwrap_or_else(|| panic!("no {name}: apt-get install {package}"))
}

/// musl's file, loader and C library in one.
#[track_caller]
pub fn musl() -> PathBuf {
    let places = ["x86_64-linux-musl", "aarch64-linux-musl"].map(|triple| format!("/usr/lib/{triple}/libc.so"));
    let found = places.iter().map(PathBuf::from).find(|path| path.is_file());
    found.expect("no musl: apt-get install musl-tools")
}

fn build_library(profile: &[&str]) -> PathBuf {
    // target/PROFILE/deps/TEST: three levels up is the target directory, wherever the user put it.
    let test = std::env::current_exe().expect("the path of this test");
    let target = test.ancestors().nth(3).expect("a test lies in target/PROFILE/deps");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .arg("build")
        .args(profile)
        .args(["--package", "shmguard-shim", "--message-format=json", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::piped())
        .output()
        .unwrap_or_else(|error| panic!("cannot run {cargo:?} ({error}): install cargo"));
    assert!(output.status.success(), "building the library:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| file.file_name().is_some_and(|name| name == "libshmguard.so"))
        .expect("cargo names libshmguard.so among what it built")
}
