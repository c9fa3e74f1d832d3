//! `shmguard doctor` of this machine: each cause is provoked in a private `/dev/shm`, and the library is tried in real children.

#[path = "doctor/ask.rs"]
mod ask;
mod harness;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;

use ask::{shmguard, Answer};
use harness::{house, library, tool, MIB};

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Doctor of this machine with the library under test.
fn here(words: &[&str]) -> Answer {
    Answer::here(&[("SHMGUARD_LIB", library().as_os_str())], words)
}

#[test]
fn the_library_loads_and_a_large_shm_is_well() {
    house("size=2g", |house| {
        let answer = Answer::here(
            &[("SHMGUARD_LIB", library().as_os_str()), ("SHMGUARD_REDIRECT", house.target().as_os_str())],
            &["--need", "1g"],
        );
        assert_eq!(answer.json["library"]["loads"], true, "{}", answer.stdout);
        assert_eq!(answer.causes(true), [] as [&str; 0], "{}", answer.stdout);
        here(&["--need", "3g"]).needs(&["size"]);
    });
}

#[test]
fn a_small_shm_needs_a_fix_unless_the_library_is_preloaded() {
    house("size=64m", |_| {
        let (says, fix) = here(&[]).needs(&["size"]).finding("size");
        assert!(says.contains("64.0 MiB"), "{says}");
        assert!(fix.contains(&format!("LD_PRELOAD={}", library().display())), "{fix}");
        let library = library().as_os_str();
        let answer = Answer::here(&[("SHMGUARD_LIB", library), ("LD_PRELOAD", library)], &[]).well();
        assert_eq!(answer.causes(false), ["size"]);
    });
}

#[test]
fn a_full_shm_and_who_left_it_full_are_named() {
    house("size=600m,nr_inodes=1000", |_| {
        here(&[]).well();
        fs::write("/dev/shm/left behind", vec![1u8; 590 * MIB as usize]).expect("room");
        // Young files may be on their way to somebody.
        here(&[]).needs(&["bytes"]);
        chown("/dev/shm/left behind", Some(4711), Some(4711)).expect("chown");
        let answer = here(&["--young", "0"]).needs(&["bytes", "stale_segments"]);
        let (says, fix) = answer.finding("stale_segments");
        assert!(says.contains("590.0 MiB") && says.contains("uid 4711"), "{says}");
        assert!(fix.starts_with("rm '/dev/shm/left behind'"), "{fix}");
        assert!(answer.finding("bytes").0.contains("98 %"));
        // Held by a process, it is in use.
        let held = fs::File::open("/dev/shm/left behind").expect("open");
        here(&["--young", "0"]).needs(&["bytes"]);
        drop(held);
    });
}

#[test]
fn exhausted_inodes_are_named() {
    house("size=600m,nr_inodes=64", |_| {
        for number in 0..60 {
            fs::File::create(format!("/dev/shm/{number}")).expect("an inode");
        }
        let (says, fix) = here(&[]).needs(&["inodes"]).finding("inodes");
        assert!(says.contains("3 of 64 inodes"), "{says}");
        assert!(fix.contains("nr_inodes="), "{fix}");
    });
}

#[test]
fn a_low_limit_of_descriptors_is_named() {
    house("size=600m", |_| {
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg("ulimit -n 200; exec \"$0\" doctor --json --no-speed")
            .arg(env!("CARGO_BIN_EXE_shmguard"));
        command.env("SHMGUARD_LIB", library()).env_remove("LD_PRELOAD");
        assert!(Answer::of(command).needs(&["descriptors"]).finding("descriptors").0.contains("200 descriptors"));
    });
}

#[test]
fn what_stands_at_dev_shm_instead_of_a_tmpfs_is_named() {
    house("", |house| {
        house.own_dev();
        let says = |words: &str| {
            let answer = here(&[]).needs(&["no_dev_shm"]);
            let (says, fix) = answer.finding("no_dev_shm");
            assert!(says.contains(words) && !fix.is_empty(), "{says} {fix}");
        };
        let clear = || {
            let _ = Command::new("umount").arg("/dev/shm").output();
            let _ = fs::remove_dir("/dev/shm").or_else(|_| fs::remove_file("/dev/shm"));
        };
        clear();
        says("there is no /dev/shm");
        symlink("/nowhere", "/dev/shm").expect("a link");
        says("leads nowhere");
        clear();
        symlink(house.target(), "/dev/shm").expect("a link");
        says("no tmpfs");
        clear();
        fs::create_dir("/dev/shm").expect("mkdir");
        house.mount_shm("size=600m,ro");
        says("read-only");
    });
}

#[test]
fn targets_that_cannot_be_used_are_named() {
    house("size=64m", |house| {
        let full = house.tmpfs("full", "size=1m");
        fs::File::create(full.join("x")).and_then(|mut file| file.write_all(&vec![0; 1 << 20])).expect("room");
        let list = format!("/dev/shm/in:{}:/no/such", full.display());
        let variables: &[(&str, &OsStr)] =
            &[("SHMGUARD_LIB", library().as_os_str()), ("SHMGUARD_REDIRECT", OsStr::new(&list))];
        let answer = Answer::here(variables, &[]).needs(&["size", "targets", "variable"]);
        let (says, _) = answer.finding("targets");
        assert!(says.contains("no room left") && says.contains("/no/such: it is not there"), "{says}");
    });
}

#[test]
fn a_target_is_measured_and_nothing_stays_there() {
    house("size=600m", |house| {
        let mut command = shmguard(&["doctor", "--json"]);
        let ram = house.tmpfs("ram", "size=300m");
        let list = format!("{}:{}", house.target().display(), ram.display());
        command.env("SHMGUARD_LIB", library()).env("SHMGUARD_REDIRECT", list);
        let answer = Answer::of(command).well();
        let targets = answer.json["targets"].as_array().expect("targets");
        assert!(["slow", "medium", "fast"].contains(&targets[0]["speed"]["class"].as_str().expect("a class")));
        assert!(targets[0]["speed"]["written_back_bytes_per_s"].as_u64().expect("a figure") > 0);
        assert_eq!(targets[1]["speed"]["class"], "memory");
        assert!(targets.iter().all(|target| target["speed"]["mapped_bytes_per_s"].as_u64() > Some(0)));
        assert_eq!(harness::left_in(&house.target()).len() + harness::left_in(&ram).len(), 0);
    });
}

/// Doctor with `LIB` as the library and `directory` first in PATH; why it does not load.
fn why_not(lib: &Path, directory: &Path) -> String {
    let places = format!("{}:/usr/bin:/bin", directory.display());
    let answer = Answer::here(&[("SHMGUARD_LIB", lib.as_os_str()), ("PATH", OsStr::new(&places))], &[]);
    assert_eq!(answer.json["library"]["loads"], false, "{}", answer.stdout);
    assert_eq!(answer.code, Some(1));
    answer.finding("library").0
}

#[test]
fn the_reason_why_the_library_does_not_load_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let empty = at("empty");
    fs::create_dir(&empty).expect("mkdir");
    let cc = |words: &[&str]| tool("cc", words, "apt-get install gcc libc6-dev");

    let missing = Answer::here(&[("SHMGUARD_LIB", OsStr::new("/no/libshmguard.so"))], &[]);
    assert!(missing.finding("library").0.contains("/no/libshmguard.so"));

    fs::write(at("libshmguard.so"), "no library").expect("written");
    assert!(why_not(&at("libshmguard.so"), &empty).contains("is no library"));

    let mut other = fs::read(library()).expect("the library");
    other.splice(18..20, 8u16.to_le_bytes());
    fs::write(at("libshmguard.so"), other).expect("written");
    let says = why_not(&at("libshmguard.so"), &empty);
    assert!(says.contains("the library is for machine 8 with 64 bits"), "{says}");

    // A library that wants a symbol of a C library that does not exist yet.
    fs::write(at("new.map"), "GLIBC_9.99 { global: not_yet; };\n").expect("written");
    fs::write(at("new.c"), "int not_yet(void) { return 1; }\n").expect("written");
    fs::write(at("use.c"), "int not_yet(void); int used(void) { return not_yet(); }\n").expect("written");
    let (map, new, fake) = (at("new.map"), at("new.c"), at("libc.so.6"));
    let script = format!("-Wl,--version-script={},-soname,libc.so.6", path(&map));
    cc(&["-shared", "-fPIC", "-nostdlib", &script, "-o", path(&fake), path(&new)]);
    let (use_it, lib) = (at("use.c"), at("libshmguard.so"));
    cc(&["-shared", "-fPIC", "-nostdlib", "-o", path(&lib), path(&use_it), path(&fake)]);
    let says = why_not(&lib, &empty);
    assert!(says.contains("too old") && says.contains("GLIBC_9.99"), "{says}");

    // A cat of this image that is static, and one that was built with AddressSanitizer.
    fs::write(at("cat.c"), "int main(void) { return 0; }\n").expect("written");
    let source = at("cat.c");
    for (flag, words) in [("-static", "statically linked"), ("-fsanitize=address", "verify_asan_link_order")] {
        let place = at(flag);
        fs::create_dir(&place).expect("mkdir");
        cc(&[flag, "-o", path(&place.join("cat")), path(&source)]);
        let says = why_not(library(), &place);
        assert!(says.contains(words), "{says}");
    }
}

#[test]
fn a_program_that_is_meant_is_judged_by_its_file() {
    house("size=600m", |house| {
        let program = house.path("program");
        let judge = || here(&["--program", path(&program)]);
        fs::copy("/bin/true", &program).expect("a copy");
        judge().well();
        // Set-user-ID, but for root by root: nobody gets further rights, and the loader preloads.
        tool("chmod", &["4755", path(&program)], "apt-get install coreutils");
        judge().well();
        chown(&program, Some(4711), Some(4711)).expect("chown");
        tool("chmod", &["4755", path(&program)], "apt-get install coreutils");
        assert!(judge().needs(&["library"]).finding("library").0.contains("set-user-ID"));
        let missing =
            Command::new(env!("CARGO_BIN_EXE_shmguard")).args(["doctor", "--program", "no-such-program"]).output();
        let missing = missing.expect("the command runs");
        assert_eq!(missing.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no program no-such-program"));
    });
}

#[test]
fn a_preload_that_leads_nowhere_is_named() {
    house("size=600m", |_| {
        let lib = library().as_os_str();
        let answer = Answer::here(&[("SHMGUARD_LIB", lib), ("LD_PRELOAD", OsStr::new("/old/libshmguard.so"))], &[]);
        let (says, fix) = answer.needs(&["library"]).finding("library");
        assert!(says.contains("/old/libshmguard.so") && fix == format!("LD_PRELOAD={}", library().display()));
    });
}

#[test]
fn a_mount_without_symlinks_is_a_thing_to_know() {
    house("size=600m,nosymfollow", |_| {
        let answer = here(&[]).well();
        assert_eq!(answer.causes(false), ["targets"]);
        assert!(answer.finding("targets").0.contains("nosymfollow"));
    });
}

#[test]
fn an_unlimited_shm_is_well() {
    house("size=0", |_| {
        let answer = here(&["--need", "1g"]).well();
        assert_eq!(answer.json["shm"]["capacity_bytes"], serde_json::Value::Null);
    });
}
