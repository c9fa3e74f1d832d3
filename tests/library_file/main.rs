//! The packaged library as a file: what it needs, what it exports, how it is loaded.
//!
//! `scripts/package` makes it; `SHMGUARD_PACKAGE` names the unpacked package (default: dist/ARCH/shmguard-VERSION-ARCH).

#[path = "../harness/mod.rs"]
mod harness;
mod rules;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{house, packaged_library, program_file};
use rules::{broken, Facts};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The hooks, from the one list of them: the table in shim/src/next.rs, `NAME = "name",`.
fn hooks() -> BTreeSet<String> {
    let source = fs::read_to_string(repository().join("shim/src/next.rs")).expect("shim/src/next.rs");
    let table =
        source.split("\ntable! {\n").nth(1).and_then(|rest| rest.split("\n}").next()).expect("a table of hooks");
    let names: BTreeSet<String> = table.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect();
    assert!(names.contains("shm_open") && names.contains("mmap64"), "the table was read: {names:?}");
    names
}

fn facts(path: &Path) -> Facts {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Facts::of(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_packaged_library_keeps_all_rules() {
    let library = packaged_library();
    let facts = facts(&library);
    assert_eq!(broken(&facts, &hooks()), Vec::<String>::new(), "{}: {facts:#?}", library.display());
    let bytes = fs::metadata(&library).expect("the library").len();
    assert!(bytes < 2 << 20, "{bytes} bytes: with its symbols?");
}

/// Whatever the library takes from libc is in musl as well: there one missing symbol ends every program of an image.
#[test]
fn musl_has_every_symbol_that_the_packaged_library_needs() {
    let musl = ["x86_64-linux-musl", "aarch64-linux-musl"].map(|triple| format!("/usr/lib/{triple}/libc.so"));
    let musl = musl.iter().map(Path::new).find(|path| path.is_file()).expect("no musl: apt-get install musl-tools");
    let there = facts(musl).exported;
    assert!(there.contains("__errno_location") && !there.contains("__open_2"), "{} is musl", musl.display());
    let needed = facts(&packaged_library()).needed_symbols;
    assert!(needed.len() > 20, "it needs something: {needed:?}");
    let missing: Vec<&String> = needed.difference(&there).collect();
    assert!(missing.is_empty(), "musl has no {missing:?}");
}

/// The constructors of the library, Rust's own among them, allocate nothing: the program's allocator may not have been born yet.
#[test]
fn nothing_is_allocated_before_main() {
    house("size=8m", |house| {
        let born = || house.program("born").preload_before(&program_file("counting_malloc"));
        let without = born().without_library().output().well().silent();
        let with = born().with_library(&packaged_library()).output().well().silent();
        assert!(without.stdout.ends_with(" allocations before main\n"), "{without}");
        assert_eq!(with.stdout, without.stdout);
        // With a log as well, which is prepared in the constructor.
        let logged = born().with_library(&packaged_library()).env("SHMGUARD_LOG", house.path("log")).output().well();
        assert_eq!(logged.stdout, without.stdout, "{logged}");
    });
}

/// Each rule can be broken: a library made to break it is found out, for that reason.
#[test]
fn a_library_that_breaks_a_rule_is_found_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let exports: String = hooks().iter().map(|name| format!("HOOK({name})\n")).collect();
    let source = |more: &str| {
        format!(
            "#define HOOK(name) long fake_##name(void) __asm__(#name); long fake_##name(void) {{ return 1; }}\n\
             {exports}{more}\n"
        )
    };
    let build = |name: &str, more: &str, flags: &[&str]| {
        let (file, library) = (directory.path().join(format!("{name}.c")), directory.path().join(format!("{name}.so")));
        fs::write(&file, source(more)).expect("written");
        let base = ["-shared", "-fPIC", "-fvisibility=default", "-nostdlib", "-Wl,-z,relro,-z,now", "-o"];
        let built = Command::new("cc").args(base).arg(&library).arg(&file).args(flags).output();
        let built = built.expect("cc: apt-get install gcc libc6-dev");
        assert!(built.status.success(), "{name}: {}", String::from_utf8_lossy(&built.stderr));
        broken(&facts(&library), &hooks())
    };
    assert_eq!(build("good", "", &["-lc"]), Vec::<String>::new());
    let mut cases = vec![
        ("extra", "int one_too_many(void) { return 0; }", vec!["-lc"], "exports one_too_many"),
        ("needs", "", vec!["-Wl,--no-as-needed", "-lm", "-lc"], "needs libm.so.6"),
        (
            "new",
            "int arc4random(void); int f_(void) __attribute__((visibility(\"hidden\"))); \
          int f_(void) { return arc4random(); }",
            vec!["-lc"],
            "needs arc4random of GLIBC_2.36",
        ),
        ("stack", "", vec!["-lc", "-z", "execstack"], "its stack is executable"),
        ("lazy", "", vec!["-lc", "-Wl,-z,lazy"], "is bound lazily"),
        (
            "tls",
            "static __thread int n __attribute__((tls_model(\"initial-exec\"), visibility(\"hidden\"))); \
          __attribute__((visibility(\"hidden\"))) int *g_(void) { return &n; }",
            vec!["-lc"],
            "static TLS",
        ),
    ];
    if cfg!(target_arch = "x86_64") {
        // An address in code, which the loader would have to write there.
        cases.push((
            "text",
            "extern int read(int, void *, unsigned long); __asm__(\".text\\n.quad read\");",
            vec!["-lc", "-Wl,-z,notext"],
            "relocations in its code",
        ));
    }
    for (name, more, flags, reason) in cases {
        let found = build(name, more, &flags);
        assert!(found.iter().any(|text| text.contains(reason)), "{name}: {reason:?} is not among {found:?}");
    }
    // One that is gone.
    let mut hooks = hooks();
    hooks.insert("another_hook".to_owned());
    let found = broken(&facts(&directory.path().join("good.so")), &hooks);
    assert_eq!(found, ["does not export another_hook, which is a hook"]);
}
