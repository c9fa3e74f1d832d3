//! `memory` on directories laid out like a machine's, and on the machine itself.

use super::*;
use rustix::fd::AsFd;
use std::fs;

const MEMINFO: &str = "MemTotal:       24684084 kB\nMemFree:        24030900 kB\nMemAvailable:   24312832 kB\n";
const V2_STAT: &str = "anon 1000\nfile 9000\ninactive_file 3000\nactive_file 2000\nshmem 4000\n";
const V1_STAT: &str = "cache 9000\ninactive_file 1\nactive_file 1\nhierarchical_memory_limit 9223372036854771712\n\
                       total_cache 9000\ntotal_inactive_file 3000\ntotal_active_file 2000\n";
const V1_MOUNTS: &str = "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                         36 31 0:33 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n\
                         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
const V2_MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

/// A directory with the given files; the answer of `memory` for it.
fn memory_of(files: &[(&str, &str)]) -> MemoryRoom {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }
    let root = fs::File::open(directory.path()).expect("opened");
    memory(root.as_fd())
}

fn cgroup_of(cgroup: &str, mountinfo: &str, files: &[(&str, &str)]) -> Option<CgroupRoom> {
    let base = [("proc/meminfo", MEMINFO), ("proc/self/cgroup", cgroup), ("proc/self/mountinfo", mountinfo)];
    memory_of(&[base.as_slice(), files].concat()).cgroup
}

fn room(limit: u64, usage: u64, reclaimable: u64, room: u64) -> Option<CgroupRoom> {
    Some(CgroupRoom { limit, usage, reclaimable, room })
}

#[test]
fn nothing_readable_is_no_bound() {
    assert_eq!(memory_of(&[]), MemoryRoom::default());
    assert_eq!(memory_of(&[]).bound(), None);
    assert_eq!(cgroup_of("", "", &[]), None);
    assert_eq!(cgroup_of("0::/\n", V2_MOUNTS, &[]), None);
}

#[test]
fn the_machine_from_meminfo() {
    let found = memory_of(&[("proc/meminfo", MEMINFO)]);
    assert_eq!(found.total, Some(24_684_084 << 10));
    assert_eq!(found.available, Some(24_312_832 << 10));
    assert_eq!(found.bound(), found.available);
}

#[test]
fn v2_docker_with_a_name_space() {
    let files = [
        ("sys/fs/cgroup/memory.max", "10000\n"),
        ("sys/fs/cgroup/memory.high", "max\n"),
        ("sys/fs/cgroup/memory.current", "9500\n"),
        ("sys/fs/cgroup/memory.stat", V2_STAT),
    ];
    // At its limit, and half of it page cache.
    assert_eq!(cgroup_of("0::/\n", V2_MOUNTS, &files), room(10_000, 9500, 5000, 5500));
}

#[test]
fn v2_docker_without_a_name_space() {
    let own = "/system.slice/docker-4a5b.scope";
    let mounts = format!("30 23 0:26 {own} /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n");
    let files = [
        ("sys/fs/cgroup/memory.max", "10000\n"),
        ("sys/fs/cgroup/memory.current", "2000\n"),
        ("sys/fs/cgroup/memory.stat", "inactive_file 0\nactive_file 0\n"),
    ];
    assert_eq!(cgroup_of(&format!("0::{own}\n"), &mounts, &files), room(10_000, 2000, 0, 8000));
    // A process that was moved elsewhere is not bound by what this mount shows.
    assert_eq!(cgroup_of("0::/user.slice\n", &mounts, &files), None);
}

#[test]
fn v2_the_hosts_mount_bound_into_a_container() {
    let files = [
        ("sys/fs/cgroup/memory.max", "10000\n"),
        ("sys/fs/cgroup/memory.current", "1000\n"),
        ("sys/fs/cgroup/worker/memory.max", "1\n"),
        ("sys/fs/cgroup/worker/memory.current", "1\n"),
    ];
    let mounts = "30 23 0:26 /.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    // The mount's root is an ancestor; `worker` below it is another one than ours of that name.
    assert_eq!(cgroup_of("0::/worker\n", mounts, &files), room(10_000, 1000, 0, 9000));
}

#[test]
fn v2_high_binds_like_max() {
    let files = [
        ("sys/fs/cgroup/a/memory.max", "max\n"),
        ("sys/fs/cgroup/a/memory.high", "8000\n"),
        ("sys/fs/cgroup/a/memory.current", "6000\n"),
        ("sys/fs/cgroup/a/memory.stat", V2_STAT),
    ];
    assert_eq!(cgroup_of("0::/a\n", V2_MOUNTS, &files), room(8000, 6000, 5000, 7000));
}

#[test]
fn v2_the_narrowest_ancestor_counts() {
    let files = [
        ("sys/fs/cgroup/kubepods/memory.max", "100000\n"),
        ("sys/fs/cgroup/kubepods/memory.high", "max\n"),
        ("sys/fs/cgroup/kubepods/memory.current", "99000\n"),
        ("sys/fs/cgroup/kubepods/memory.stat", V2_STAT),
        ("sys/fs/cgroup/kubepods/pod1/memory.max", "max\n"),
        ("sys/fs/cgroup/kubepods/pod1/memory.current", "5\n"),
        ("sys/fs/cgroup/kubepods/pod1/memory.stat", V2_STAT),
        ("sys/fs/cgroup/kubepods/pod1/train/memory.max", "50000\n"),
        ("sys/fs/cgroup/kubepods/pod1/train/memory.current", "1000\n"),
        ("sys/fs/cgroup/kubepods/pod1/train/memory.stat", "inactive_file 0\n"),
    ];
    assert_eq!(cgroup_of("0::/kubepods/pod1/train\n", V2_MOUNTS, &files), room(100_000, 99_000, 5000, 6000));
    // The own directory is gone or hidden: those above it still bind.
    assert_eq!(cgroup_of("0::/kubepods/pod2/gone (deleted)\n", V2_MOUNTS, &files), room(100_000, 99_000, 5000, 6000));
}

#[test]
fn v2_unlimited_is_no_bound() {
    let files = [
        ("sys/fs/cgroup/a/memory.max", "max\n"),
        ("sys/fs/cgroup/a/memory.high", "max\n"),
        ("sys/fs/cgroup/a/memory.current", "6000\n"),
    ];
    assert_eq!(cgroup_of("0::/a\n", V2_MOUNTS, &files), None);
}

#[test]
fn v1_with_the_total_names() {
    let files = [
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
        ("sys/fs/cgroup/memory/memory.stat", V1_STAT),
        ("sys/fs/cgroup/memory/docker/4a5b/memory.limit_in_bytes", "10000\n"),
        ("sys/fs/cgroup/memory/docker/4a5b/memory.usage_in_bytes", "9500\n"),
        ("sys/fs/cgroup/memory/docker/4a5b/memory.stat", V1_STAT),
    ];
    // Hybrid: the unified tree is mounted too and has no memory files.
    let cgroup = "5:cpu,cpuacct:/x\n4:memory:/docker/4a5b\n1:name=systemd:/\n0::/\n";
    assert_eq!(cgroup_of(cgroup, V1_MOUNTS, &files), room(10_000, 9500, 5000, 5500));
}

#[test]
fn v1_docker_without_a_name_space() {
    let mounts = "36 31 0:33 /docker/4a5b /sys/fs/cgroup/memory ro,nosuid master:17 - cgroup memory rw,memory\n";
    let files = [
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "10000\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "9500\n"),
        ("sys/fs/cgroup/memory/memory.stat", V1_STAT),
    ];
    assert_eq!(cgroup_of("4:memory:/docker/4a5b\n", mounts, &files), room(10_000, 9500, 5000, 5500));
}

#[test]
fn v1_an_invisible_ancestor_shows_in_the_statistics() {
    let stat = "hierarchical_memory_limit 8000\ntotal_inactive_file 0\ntotal_active_file 500\n";
    let files = [
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n"),
        ("sys/fs/cgroup/memory/memory.stat", stat),
    ];
    assert_eq!(cgroup_of("4:memory:/\n", V1_MOUNTS, &files), room(8000, 3000, 500, 5500));
}

#[test]
fn v1_an_ancestor_without_hierarchy_does_not_bind() {
    let mut files = vec![
        ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n"),
        ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1000\n"),
        ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "10000\n"),
        ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "2000\n"),
        ("sys/fs/cgroup/memory/a/b/memory.use_hierarchy", "0\n"),
    ];
    assert_eq!(cgroup_of("4:memory:/a/b\n", V1_MOUNTS, &files), room(1000, 1000, 0, 0));
    files.push(("sys/fs/cgroup/memory/a/memory.use_hierarchy", "0\n"));
    assert_eq!(cgroup_of("4:memory:/a/b\n", V1_MOUNTS, &files), room(10_000, 2000, 0, 8000));
}

#[test]
fn usage_over_the_limit_is_no_room() {
    let files = [("sys/fs/cgroup/a/memory.max", "1000\n"), ("sys/fs/cgroup/a/memory.current", "6000\n")];
    let found = cgroup_of("0::/a\n", V2_MOUNTS, &files);
    assert_eq!(found, room(1000, 6000, 0, 0));
    // More page cache than usage: the counters are not read at one moment.
    let files = [files.as_slice(), &[("sys/fs/cgroup/a/memory.stat", "active_file 99999\n")]].concat();
    assert_eq!(cgroup_of("0::/a\n", V2_MOUNTS, &files), room(1000, 6000, 99_999, 1000));
}

#[test]
fn the_narrower_bound_counts() {
    let cgroup = CgroupRoom { limit: 9, usage: 4, reclaimable: 0, room: 5 };
    let both = MemoryRoom { available: Some(7), total: Some(8), cgroup: Some(cgroup) };
    assert_eq!(both.bound(), Some(5));
    assert_eq!(MemoryRoom { available: Some(3), ..both }.bound(), Some(3));
    assert_eq!(MemoryRoom { available: None, ..both }.bound(), Some(5));
}

#[test]
fn this_machine() {
    let root = fs::File::open("/").expect("opened");
    let found = memory(root.as_fd());
    let (Some(available), Some(total)) = (found.available, found.total) else { panic!("{found:?}") };
    assert!(available > 0 && available <= total && total > 64 << 20, "{found:?}");
}
