//! `shmguard doctor` of systems that cannot run here: it recognises each, names what is wrong, and is quiet where all is well.

#[path = "doctor/ask.rs"]
mod ask;
#[path = "doctor/fixture.rs"]
mod fixture;
mod harness;

use std::fs;
use std::path::Path;

use ask::{shmguard, Answer};
use fixture::Tree;
use harness::tool;

/// The environments that cannot run here, each with what it must be known by, the causes, and a piece of the fix.
const ENVIRONMENTS: &[(&str, &str, &[&str], &str, &str)] = &[
    ("docker", "docker", &["size"], "size", "docker run --shm-size=8g ...\ncompose, under the service:  shm_size: 8g"),
    ("podman", "podman", &["size"], "size", "podman run --shm-size=3g"),
    ("kubernetes", "kubernetes", &["size"], "size", "emptyDir: {medium: Memory, sizeLimit: 2Gi}"),
    ("kubernetes-volume", "kubernetes", &["memory_cgroup"], "memory_cgroup", "limits: {memory: "),
    ("apptainer", "apptainer", &["size"], "size", "apptainer exec --bind /dev/shm"),
    ("fargate", "fargate", &["size"], "size", "then goes to /var/tmp):\nLD_PRELOAD=/usr/lib/libshmguard.so"),
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
    };
    let with = |library: &Path| {
        let mut command = shmguard(&["doctor", "--json", "--root"]);
        command.arg(tree.path("")).env("SHMGUARD_LIB", library);
        Answer::of(command)
    };
    let needs = |library: &Path| with(library).needs(&["library"]).finding("library").0;
    compile("-static");
    assert!(needs(harness::library()).contains("statically linked"));
    let says = |library: &Path| {
        let says = needs(library);
        assert!(says.contains("musl"), "{says}");
        says
    };
    // What cargo builds needs glibc's loader; the packaged one loads, unless musl lacks a symbol.
    compile("-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1");
    assert!(says(harness::library()).contains("ld-linux"));
    with(&harness::packaged_library()).well();
    let musl = tree.path("lib/ld-musl-x86_64.so.1");
    fs::create_dir(tree.path("lib")).expect("lib");
    fs::copy(harness::musl(), &musl).expect("musl's file");
    with(&harness::packaged_library()).well();
    tool("cc", &["-shared", "-nostdlib", "-o", path(&musl), "-xc", "/dev/null"], "apt-get install gcc");
    assert!(says(&harness::packaged_library()).contains("this library needs "));
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
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
