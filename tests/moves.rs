//! Tools that move or copy a file out of `/dev/shm` see the link of a redirected one; what arrives must be the file.

mod harness;

use harness::{baseline, house, House, Run};

fn words(house: &House, words: &[&str]) -> Run {
    words.iter().fold(house.program("shell"), |run, word| run.arg(word))
}

/// Sizes a file so that it is redirected, writes into it, hands it to the tool, and shows what arrived.
fn script(tool: &str) -> String {
    format!(
        "set -e; cd /dev/shm; python=/usr/bin/python3; $python -c \"
f = open('/dev/shm/f', 'xb'); f.truncate(32 << 20); f.seek(1 << 20); f.write(b'DATA')\"
{tool}
test ! -L \"$there\"; stat -c '%s %a %F' \"$there\"; cksum < \"$there\"; rm -f \"$there\" /dev/shm/f; echo done"
    )
}

#[track_caller]
fn arrives(tool: &str) {
    let script = script(tool);
    let expected = baseline(|house| words(house, &["sh", "-c", &script]));
    assert!(expected.stdout.ends_with("done\n"), "{expected}");
    house("size=8m", |house| {
        let outcome = words(house, &["sh", "-c", &script]).output().well();
        assert_eq!(outcome.stdout, expected.stdout);
        house.nothing_left();
    });
}

#[test]
fn mv_out_of_the_guard_moves_the_data() {
    arrives("there=/tmp/shmguard-test-moved-$$; mv f $there");
}

#[test]
fn cp_a_copies_the_data() {
    arrives("there=/tmp/shmguard-test-copied-$$; cp -a f $there");
}

#[test]
fn shutil_move_moves_the_data() {
    arrives("there=/tmp/shmguard-test-shutil-$$; $python -c \"import shutil, sys; shutil.move('/dev/shm/f', sys.argv[1])\" $there");
}
