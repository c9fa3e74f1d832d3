//! Other allocators and AddressSanitizer beside the library, in front of it and behind it.

mod harness;

use std::path::PathBuf;
use std::process::Command;

use harness::{baseline, house, in_small, installed_library, library, House, Run, Small, SEGMENT, SMALL};

/// The program says the same under another allocator alone and with the library in front of it and behind it.
#[track_caller]
fn gets_on_with(file: &str, package: &str, symbol: &str) {
    let other = installed_library(file, package);
    let describe = |house: &House| house.program("hostile_malloc").number(SEGMENT).arg(symbol);
    let expected = baseline(|house| describe(house).preload_after(&other));
    assert!(expected.stdout.starts_with(&format!("{symbol}: there\n")), "it is not the allocator; {expected}");
    for small in SMALL {
        for first in [true, false] {
            let outcome = in_small(small, |house| match first {
                true => describe(house).preload_before(&other),
                false => describe(house).preload_after(&other),
            });
            assert_eq!(outcome.stdout, expected.stdout, "{file} first: {first}, {small:?}: {outcome}");
        }
    }
}

#[test]
fn jemalloc_works_beside_the_library() {
    gets_on_with("libjemalloc.so.2", "libjemalloc2", "mallctl");
}

#[test]
fn mimalloc_works_beside_the_library() {
    gets_on_with("libmimalloc.so.2", "libmimalloc2.0", "mi_version");
}

#[test]
fn tcmalloc_works_beside_the_library() {
    gets_on_with("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4", "tc_version");
}

/// gcc's AddressSanitizer.
fn libasan() -> PathBuf {
    let output = Command::new("cc").arg("-print-file-name=libasan.so").output().expect("cc: apt-get install gcc");
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    std::fs::canonicalize(&path).unwrap_or_else(|error| panic!("{} ({error}): apt-get install gcc", path.display()))
}

/// The two ways in: libasan in front of the library, or its check for that switched off.
fn sanitized(house: &House, libasan_first: bool) -> Run {
    // Leaks are looked for by ptrace, which containers often forbid; that has nothing to do with the library.
    let run = house.program("hostile_asan").number(SEGMENT);
    match libasan_first {
        true => run.preload_before(&libasan()).env("ASAN_OPTIONS", "detect_leaks=0"),
        false => run.env("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"),
    }
}

#[test]
fn programs_with_the_address_sanitizer_work_and_keep_their_findings() {
    let expected = baseline(|house| sanitized(house, true));
    for small in SMALL {
        for first in [true, false] {
            let outcome = in_small(small, |house| sanitized(house, first));
            assert_eq!(outcome.stdout, expected.stdout, "libasan first: {first}, {small:?}: {outcome}");
            assert!(!outcome.stderr.contains("AddressSanitizer"), "{outcome}");
        }
    }
    for first in [true, false] {
        house("size=8m", |house| {
            let outcome = sanitized(house, first).arg("bug").output();
            assert_eq!(outcome.code, Some(1), "{outcome}");
            assert!(outcome.stderr.contains("AddressSanitizer: heap-use-after-free"), "{outcome}");
            house.nothing_left();
        });
    }
}

#[test]
fn the_address_sanitizer_refuses_a_preload_in_front_of_it() {
    // gcc's runtime refuses any, not only ours: this is why the README names the two ways in.
    house("size=8m", |house| {
        let other = harness::program_file("counting_preload");
        for preload in [library(), &other] {
            let run = house.program("hostile_asan").number(SEGMENT).without_library().preload_after(preload);
            let outcome = run.env("ASAN_OPTIONS", "detect_leaks=0").output();
            assert_eq!(outcome.code, Some(1), "{outcome}");
            assert!(outcome.stderr.contains("ASan runtime does not come first"), "{outcome}");
        }
        house.nothing_left();
    });
    // A clang-like program with the runtime linked in statically has no such check; it simply works.
    let built_in = harness::Program::from("hostile_asan").flags(&["-static-libasan"]);
    let describe = |house: &House| {
        house.program(built_in.clone()).number(SEGMENT).env("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0")
    };
    let expected = baseline(describe);
    assert_eq!(in_small(Small::ToDisk, describe).stdout, expected.stdout);
}
