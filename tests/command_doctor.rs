//! `shmguard doctor`: it recognises each environment, finds each cause when it is provoked, and is quiet where all is well.

#[path = "doctor/ask.rs"]
mod ask;
#[path = "doctor/fixture.rs"]
mod fixture;
mod harness;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;

use ask::{shmguard, Answer};
use fixture::Tree;
use harness::{house, library, tool, MIB};

/// The environments that cannot run here, each with what it must be known by, the causes, and a piece of the fix.
const ENVIRONMENTS: &[(&str, &str, &[&str], &str, &str)] = &[
    ("docker", "docker", &["size"], "size", "docker run --shm-size=8g ...\ncompose, under the service:  shm_size: 8g"),
    ("podman", "podman", &["size"], "size", "podman run --shm-size=3g"),
    ("kubernetes", "kubernetes", &["size"], "size", "emptyDir: {medium: Memory, sizeLimit: 2Gi}"),
    ("kubernetes-volume", "kubernetes", &["memory_cgroup"], "memory_cgroup", "limits: {memory: "),
    ("apptainer", "apptainer", &["size"], "size", "apptainer exec --bind /dev/shm"),
    ("fargate", "fargate", &["size"], "size", "LD_PRELOAD=/usr/lib/libshmguard.so\nSHMGUARD_REDIRECT=/var/tmp"),
    ("lambda", "lambda", &["no_dev_shm"], "no_dev_shm", "num_workers=0"),
];

#[test]
fn every_environment_is_recognised_and_gets_its_fix() {
    for (name, kind, causes, cause, fix) in ENVIRONMENTS {
        let tree = Tree::of(name);
        let answer = Answer::about(&tree.path("")).needs(causes);
        assert_eq!(answer.kind(), *kind, "{name}");
        let evidence = answer.json["environment"][0]["evidence"].as_array().expect("evidence");
        assert!(!evidence.is_empty(), "{name} is recognised by nothing");
        let (_, lines) = answer.finding(cause);
        assert!(lines.contains(fix), "{name}: {lines}");
    }
}

#[test]
fn a_healthy_machine_gets_no_word() {
    for name in ["bare", "wsl"] {
        let tree = Tree::of(name);
        let answer = Answer::about(&tree.path("")).well();
        assert_eq!(answer.causes(false), [] as [&str; 0], "{name}");
        assert_eq!(answer.kind(), name);
        let mut quiet = shmguard(&["doctor", "--quiet", "--root"]);
        let output = quiet.arg(tree.path("")).output().expect("the command runs");
        assert_eq!((output.status.code(), output.stdout), (Some(0), Vec::new()), "{name}");
    }
}

#[test]
fn a_job_of_slurm_is_told_which_limit_applies() {
    let tree = Tree::of("slurm");
    // The node's tmpfs is half of its memory, the job has 4 GB: worth knowing, nothing that the user set wrong.
    let answer = Answer::about(&tree.path("")).well();
    assert_eq!(answer.kind(), "slurm");
    assert_eq!(answer.causes(false), ["memory_cgroup"]);
    let (says, fix) = answer.finding("memory_cgroup");
    assert!(says.contains("3.9 GiB") && says.contains("SIGKILL"), "{says}");
    assert!(fix.contains("sbatch --mem="), "{fix}");
    let mut command = shmguard(&["doctor", "--json", "--need", "8g", "--root"]);
    command.arg(tree.path(""));
    Answer::of(command).needs(&["memory_cgroup"]);
}

#[test]
fn environments_within_each_other_are_all_named() {
    let tree = Tree::of("docker");
    tree.write("proc/sys/kernel/osrelease", "5.15.133.1-microsoft-standard-WSL2\n");
    let answer = Answer::about(&tree.path(""));
    assert_eq!((answer.kind(), &answer.json["environment"][1]["kind"]), ("docker", &"wsl".into()));
    // A machine whose disk was made from an image keeps the image's mark, but none of a container's mounts.
    let tree = Tree::of("bare");
    tree.write(".dockerenv", "");
    assert_eq!(Answer::about(&tree.path("")).well().kind(), "bare");
}

#[test]
fn limits_that_are_too_low_are_named() {
    let tree = Tree::of("bare");
    tree.write("proc/sys/vm/max_map_count", "1024\n");
    let answer = Answer::about(&tree.path("")).needs(&["max_map_count"]);
    assert!(answer.finding("max_map_count").1.starts_with("sudo sysctl -w vm.max_map_count="));

    let tree = Tree::of("docker");
    tree.replace("proc/self/mountinfo", "size=65536k\n1030", "size=8388608k\n1030");
    Answer::about(&tree.path("")).well();
    tree.replace("proc/self/limits", "1048576              1048576 ", "256                  512     ");
    let answer = Answer::about(&tree.path("")).needs(&["descriptors"]);
    let (says, fix) = answer.finding("descriptors");
    assert!(says.contains("256 descriptors") && fix.contains("--ulimit nofile=65536:65536"), "{says} {fix}");

    let tree = Tree::of("bare");
    tree.replace("proc/self/limits", "unlimited            unlimited", "1048576              unlimited");
    assert!(Answer::about(&tree.path("")).needs(&["file_size"]).finding("file_size").0.contains("1.0 MiB"));

    let tree = Tree::of("bare");
    tree.write("proc/sys/kernel/shmmax", "33554431\n");
    assert!(Answer::about(&tree.path("")).needs(&["system_v"]).finding("system_v").0.contains("kernel.shmmax"));
    let tree = Tree::of("bare");
    tree.write("proc/sys/kernel/shmmni", "1\n");
    let segment =
        "         0          0   600                4096  77  77      1  1000  1000  1000  1000  0  0  0  4096  0\n";
    let list = fs::read_to_string(tree.path("proc/sysvipc/shm")).expect("the list") + segment;
    tree.write("proc/sysvipc/shm", list);
    let (says, fix) = Answer::about(&tree.path("")).needs(&["system_v"]).finding("system_v");
    assert!(says.contains("1 of 1") && fix.contains("ipcrm"), "{says} {fix}");
}

#[test]
fn a_memory_cgroup_that_is_used_up_is_named_and_page_cache_is_not() {
    let tree = Tree::of("docker");
    tree.replace("proc/self/mountinfo", "size=65536k\n1030", "size=1048576k\n1030");
    tree.write("sys/fs/cgroup/memory.current", "17179869184\n");
    tree.write("sys/fs/cgroup/memory.stat", "inactive_file 10737418240\nactive_file 0\n");
    Answer::about(&tree.path("")).well();
    tree.write("sys/fs/cgroup/memory.stat", "inactive_file 0\nactive_file 1048576\n");
    let answer = Answer::about(&tree.path("")).needs(&["memory_cgroup"]);
    let (says, fix) = answer.finding("memory_cgroup");
    assert!(says.contains("1.0 MiB of it left") && fix.contains("docker run -m "), "{says} {fix}");
}

#[test]
fn remove_ipc_is_named_when_it_concerns_the_user() {
    let tree = Tree::of("bare");
    fs::remove_file(tree.path("var/lib/systemd/linger/user")).expect("the user lingers no more");
    // The default of systemd: worth knowing.
    assert_eq!(Answer::about(&tree.path("")).well().causes(false), ["remove_ipc"]);
    tree.write("etc/systemd/logind.conf", "[Login]\nRemoveIPC=yes\n");
    let answer = Answer::about(&tree.path("")).needs(&["remove_ipc"]);
    let (says, fix) = answer.finding("remove_ipc");
    assert!(says.contains("RemoveIPC=yes in /etc/systemd/logind.conf"), "{says}");
    assert!(fix.contains("RemoveIPC=no") && fix.contains("enable-linger"), "{fix}");
    tree.write("etc/systemd/logind.conf.d/90-keep.conf", "[Login]\nRemoveIPC=no\n");
    assert_eq!(Answer::about(&tree.path("")).well().causes(false), [] as [&str; 0]);
    // Root's segments stay: named, no fix needed.
    fs::remove_file(tree.path("etc/systemd/logind.conf.d/90-keep.conf")).expect("the drop-in");
    tree.replace("proc/self/status", "1000	1000	1000	1000", "0	0	0	0");
    assert_eq!(Answer::about(&tree.path("")).well().causes(false), ["remove_ipc"]);
}

#[test]
fn a_variable_that_cannot_be_used_is_named() {
    let tree = Tree::of("bare");
    tree.replace("proc/self/environ", "HOME=/home/user", "SHMGUARD_BUDGET=64q");
    let answer = Answer::about(&tree.path("")).needs(&["variable"]);
    assert!(answer.finding("variable").0.contains("SHMGUARD_BUDGET=\"64q\""));
}

#[test]
fn musl_and_static_programs_are_named() {
    let tree = Tree::of("docker");
    tree.replace("proc/self/mountinfo", "size=65536k\n1030", "size=8388608k\n1030");
    tree.write("main.c", "int main(void) { return 0; }\n");
    fs::create_dir(tree.path("bin")).expect("bin");
    let compile = |flag: &str| {
        let (source, program) = (tree.path("main.c"), tree.path("bin/cat"));
        tool("cc", &[flag, "-o", path(&program), path(&source)], "apt-get install gcc libc6-dev");
        Answer::about(&tree.path("")).needs(&["library"]).finding("library").0
    };
    assert!(compile("-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1").contains("musl"));
    assert!(compile("-static").contains("statically linked"));
}

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
    assert!(says.contains("the library is for machine 8"), "{says}");

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
        tool("chmod", &["4755", path(&program)], "apt-get install coreutils");
        assert!(judge().needs(&["library"]).finding("library").0.contains("set-user-ID"));
        assert!(here(&["--program", "no-such-program"]).needs(&["library"]).finding("library").0.contains("PATH"));
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
fn text_keeps_to_80_columns_and_has_no_colour_in_a_pipe() {
    for (name, ..) in ENVIRONMENTS {
        let tree = Tree::of(name);
        let mut command = shmguard(&["doctor", "--root"]);
        let output = command.arg(tree.path("")).output().expect("the command runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(!text.contains('\x1b') && text.ends_with("needs a fix\n"), "{text}");
        // Lines to paste, four blanks in front, may be longer; so may a single word.
        let long = text
            .lines()
            .find(|line| line.chars().count() > 80 && !line.starts_with("    ") && line.trim().contains(' '));
        assert_eq!(long, None, "{name}");
    }
}

#[test]
fn wrong_usage_is_2_and_a_root_that_is_not_there_is_1() {
    let code = |words: &[&str]| shmguard(words).output().expect("the command runs").status.code();
    assert_eq!(code(&["doctor", "--need", "much"]), Some(2));
    assert_eq!(code(&["doctor", "--no-such-option"]), Some(2));
    assert_eq!(code(&["doctor", "--root", "/no/such"]), Some(1));
}
