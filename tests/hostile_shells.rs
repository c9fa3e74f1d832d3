//! Shells, static programs, set-uid programs and empty environments: where the library comes along and where it does not.

mod harness;

use std::fs;
use std::os::unix::fs::{chown, PermissionsExt};

use harness::{baseline, house, library, open_to_all, program_file, House, Run, SEGMENT};

/// What shells and tools do with files in a shared-memory directory. Names are removed by the shell's own tools.
const SCRIPT: &str = r#"
set -e
cd /dev/shm
echo one > first
echo two >> first
cat first
printf '%s\n' a b c | while read -r letter; do echo "$letter" >> letters; done
wc -l < letters
cp first second
mv second third
ln third fourth
cmp first fourth
cat > fifth <<END
here
END
( exec 7> sixth; echo seven >&7 )
cat fifth sixth
test -f sixth && test ! -e missing
for name in *; do case $name in ballast*) ;; *) echo "$name" ;; esac; done
x=$(cat < third | tail -n 1)
echo "$x" | tr a-z A-Z
rm first letters third fourth fifth sixth
(trap 'echo trapped' TERM; kill -TERM $(sh -c 'echo $PPID'); echo after)
sleep 0 & wait
echo "$0" > /dev/null
echo done
"#;

/// Runs words as a program of its own, started by a small C program so that the harness's limits apply.
fn words(house: &House, words: &[&str]) -> Run {
    words.iter().fold(house.program("shell"), |run, word| run.arg(word))
}

/// The shell says the same without the library in a large `/dev/shm` and with it in a small one; both leave nothing.
#[track_caller]
fn says_the_same(shell: &[&str]) {
    let command: Vec<&str> = shell.iter().copied().chain(["-c", SCRIPT]).collect();
    let expected = baseline(|house| words(house, &command));
    assert!(expected.stdout.ends_with("done\n"), "{expected}");
    house("size=8m", |house| {
        let outcome = words(house, &command).output().well().silent();
        assert_eq!(outcome.stdout, expected.stdout);
        house.nothing_left();
    });
}

#[test]
fn bash_says_the_same() {
    says_the_same(&["bash"]);
}

#[test]
fn dash_says_the_same() {
    says_the_same(&["dash"]);
}

#[test]
fn a_static_busybox_says_the_same() {
    let file = fs::read("/bin/busybox").expect("apt-get install busybox-static");
    assert!(
        !file.windows(10).any(|ten| ten == b"/lib64/ld-"),
        "this busybox is dynamic: apt-get install busybox-static"
    );
    says_the_same(&["busybox", "sh"]);
}

#[test]
fn coreutils_make_large_files_and_read_them_back() {
    // truncate and fallocate size them: what does not fit moves, and every tool that opens the name reads it there.
    let script = r#"set -e
        cd /dev/shm
        truncate -s 20M big
        wc -c < big
        printf tail | dd of=big bs=1 seek=1000000 conv=notrunc status=none
        md5sum < big
        fallocate -l 16M other
        wc -c < other
        cp --sparse=always big other
        cmp big other
        mv other renamed
        tail -c 4 < renamed | od -c
        sort -T /dev/shm -S 1M --parallel=1 /proc/self/limits | head -n 2
        t=$(mktemp -p /dev/shm); echo x > "$t"; cat "$t"; rm "$t"
        rm big renamed
        echo done"#;
    let expected = baseline(|house| words(house, &["bash", "-c", script]));
    assert!(expected.stdout.ends_with("done\n"), "{expected}");
    house("size=8m", |house| {
        let outcome = words(house, &["bash", "-c", script]).output().well();
        assert_eq!(outcome.stdout, expected.stdout, "{outcome}");
        house.nothing_left();
    });
}

#[test]
fn a_set_uid_program_works_without_the_library() {
    // The loader ignores LD_PRELOAD there; and the user's own programs go on around it.
    house("size=8m", |house| {
        open_to_all(&house.path(""), 0o755);
        let program = house.path("set-uid");
        fs::copy(program_file("hostile_rights"), &program).expect("a copy");
        chown(&program, Some(0), Some(0)).expect("chown");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("chmod");
        let program = program.to_str().expect("a plain path").to_owned();
        let run = |with: bool| {
            let run = words(house, &[&program, &SEGMENT.to_string()]).uid(1000);
            let run = if with { run } else { run.without_library() };
            run.output().well().silent().stdout
        };
        let expected = run(false);
        assert_eq!(expected, "uid 1000, effective 0, library not there\nused\n", "is /var/tmp mounted nosuid?");
        assert_eq!(run(true), expected);
        house.nothing_left();
    });
}

#[test]
fn an_empty_environment_means_no_library() {
    house("size=8m", |house| {
        let program = program_file("hostile_rights");
        let program = program.to_str().expect("a plain path");
        let outcome = words(house, &["env", "-i", program, &SEGMENT.to_string()]).output().well().silent();
        assert_eq!(outcome.stdout, "uid 0, effective 0, library not there\nused\n");
        // And one with nothing but the library has all defaults (but for the ledger, which goes with the house).
        let preload = format!("LD_PRELOAD={}", library().display());
        let state = format!("SHMGUARD_STATE={}", house.path("state").display());
        let outcome = words(house, &["env", "-i", &preload, &state, program, &SEGMENT.to_string()]).output().well();
        assert_eq!(outcome.stdout, "uid 0, effective 0, library there\nused\n");
        outcome.said_some(&["/var/tmp"]);
        house.nothing_left();
    });
}
