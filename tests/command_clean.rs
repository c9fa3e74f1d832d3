//! `shmguard clean`: lists what dead runs left, removes it when asked, and touches nothing that somebody needs.

mod harness;

use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use harness::{house, left_in, library, program_file, tool, House, MIB};
use serde_json::Value;
use shmguard_core::ledger::{Ledger, Process};
use shmguard_core::process::Owner;
use shmguard_core::segment::Identity;

fn clean(house: &House, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command.arg("clean").args(words).env_clear();
    command.env("SHMGUARD_REDIRECT", house.target()).env("SHMGUARD_STATE", house.path("state"));
    let output = command.output().expect("the command runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
}

fn leftovers(house: &House) -> Vec<Value> {
    let (code, text) = clean(house, &["--json", "--young", "0"]);
    assert_eq!(code, Some(0), "{text}");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    value["leftovers"].as_array().expect("a list").clone()
}

/// A holder of a redirected segment, killed with the name in place; the name is then removed by somebody without the library.
fn orphan(house: &House) {
    let mut holder = house.program("hold").arg("/held").number(24 * MIB).arg("600").number(7).start();
    holder.line("ready");
    drop(holder);
    fs::remove_file("/dev/shm/held").expect("the link");
}

#[test]
fn where_nothing_is_left_it_says_so() {
    house("size=16m", |house| {
        assert_eq!(clean(house, &[]), (Some(0), "nothing is left over\n".to_owned()));
        assert_eq!(clean(house, &["--yes"]), (Some(0), "nothing is left over\n".to_owned()));
    });
}

#[test]
fn an_orphan_is_listed_and_removed_when_asked() {
    house("size=16m", |house| {
        orphan(house);
        let found = leftovers(house);
        let file = found.iter().find(|leftover| leftover["bytes"] == 24 * MIB).expect("the segment's file");
        assert!(file["path"].as_str().is_some_and(|path| path.starts_with(house.target().to_str().expect("UTF-8"))));
        assert_eq!(left_in(&house.target()).len(), 1, "listing removes nothing");
        let (code, text) = clean(house, &["--yes", "--young", "0"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("removed: ") && text.contains("24.0 MiB"), "{text}");
        assert_eq!(left_in(&house.target()).len(), 0);
        assert_eq!(leftovers(house).len(), 0);
    });
}

#[test]
fn a_segment_that_has_its_name_stays() {
    house("size=16m", |house| {
        let mut holder = house.program("hold").arg("/held").number(24 * MIB).arg("600").number(7).start();
        holder.line("ready");
        clean(house, &["--yes", "--young", "0"]);
        assert_eq!(left_in(&house.target()).len(), 1);
        holder.go_on();
        holder.wait().well();
        // It may be attached again by its name, whoever made it.
        clean(house, &["--yes", "--young", "0"]);
        assert_eq!(left_in(&house.target()).len(), 1);
        assert!(fs::metadata("/dev/shm/held").is_ok());
    });
}

#[test]
fn files_of_others_and_other_files_stay() {
    house("size=16m", |house| {
        orphan(house);
        let name = &left_in(&house.target())[0];
        std::os::unix::fs::chown(house.target().join(name), Some(4711), Some(4711)).expect("chown");
        fs::write(house.target().join("shmguard-notes"), "mine").expect("written");
        fs::write("/dev/shm/data", "mine").expect("written");
        clean(house, &["--yes", "--young", "0"]);
        assert_eq!(left_in(&house.target()).len(), 2);
        assert!(fs::metadata("/dev/shm/data").is_ok());
    });
}

/// Puts a ledger there that the library would have swept away when it made the next one.
fn ledger(house: &House, guard: Identity, of: Owner) -> Ledger {
    let name = format!("state/shmguard-ledger-0/{:08x}-{:x}.{:x}", of.boot, guard.dev, guard.ino);
    let path = house.path(&name);
    fs::create_dir_all(&path).expect("mkdir");
    Ledger::at(CString::new(path.as_os_str().as_bytes()).expect("no NUL"), of)
}

fn record(of: &Owner) -> Process {
    let numbers = Process { pid: of.pid as u64, start: of.start, namespace: of.namespace, ..Process::default() };
    Process { processes: 1, ..numbers }
}

#[test]
fn ledgers_of_the_dead_and_of_earlier_boots_go() {
    house("size=16m", |house| {
        let me = Owner::current();
        let dead = Owner { pid: i32::MAX, start: 1, ..me };
        let guard = Identity { dev: 77, ino: 1 };
        ledger(house, guard, dead).write(&record(&dead), &[]).expect("written");
        let boot = Owner { boot: me.boot.wrapping_add(1), ..me };
        ledger(house, guard, boot).write(&record(&boot), &[]).expect("written");
        let living = Identity { dev: 78, ino: 1 };
        ledger(house, living, me).write(&record(&me), &[]).expect("written");

        let words: Vec<String> = leftovers(house).iter().map(|found| found["what"].to_string()).collect();
        assert!(words.iter().any(|what| what.contains("earlier boot")), "{words:?}");
        assert!(words.iter().any(|what| what.contains("dead process")), "{words:?}");
        let (code, text) = clean(house, &["--yes", "--young", "0"]);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(leftovers(house).len(), 0);
        assert_eq!(ledger(house, living, me).processes().len(), 1, "a living process keeps its entry");
    });
}

#[test]
fn what_is_young_is_left_alone() {
    house("size=16m", |house| {
        let me = Owner::current();
        let boot = Owner { boot: me.boot.wrapping_add(1), ..me };
        ledger(house, Identity { dev: 77, ino: 1 }, boot).write(&record(&boot), &[]).expect("written");
        assert_eq!(clean(house, &["--yes"]), (Some(0), "nothing is left over\n".to_owned()));
        assert_eq!(leftovers(house).len(), 1);
    });
}

#[test]
fn directories_of_killed_runs_go_and_those_of_living_ones_stay() {
    house("size=16m", |house| {
        let me = Owner::current();
        let plant = |run: u32, of: Owner| {
            let uid = rustix::process::geteuid().as_raw();
            let name = format!("state/shmguard-run-{uid}-{run}-abcdef/shmguard-ledger-{uid}/{:08x}-1.2", me.boot);
            let path = house.path(&name);
            fs::create_dir_all(&path).expect("mkdir");
            let ledger = Ledger::at(CString::new(path.as_os_str().as_bytes()).expect("no NUL"), of);
            ledger.write(&record(&of), &[]).expect("written");
            house.path(name.split("/shmguard-ledger").next().expect("the run"))
        };
        let gone = i32::MAX as u32;
        let dead = Owner { pid: i32::MAX, start: 1, ..me };
        let killed = plant(gone - 1, dead);
        let running = plant(std::process::id(), dead);
        let its_program_lives = plant(gone - 2, me);
        let elsewhere = plant(gone - 3, Owner { namespace: 1, ..dead });
        let (code, text) = clean(house, &["--yes", "--young", "0"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(!killed.exists() && text.contains("a run that was killed"), "{text}");
        assert!(running.exists() && its_program_lives.exists() && elsewhere.exists(), "{text}");
    });
}

/// `shmguard run WORDS` under the house's library, started; with SHMGUARD_STATE in the house if `state`.
fn run(house: &House, state: bool, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command.arg("run").args(words).env_clear().env("PATH", "/usr/bin:/bin").env("SHMGUARD_LIB", library());
    command.env("SHMGUARD_REDIRECT", house.target());
    if state {
        command.env("SHMGUARD_STATE", house.path("state"));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the command runs")
}

/// Kills the run once CMD has said a line, as the OOM killer would: CMD lives on. Returns its standard input and output.
fn kill(mut run: Child) -> (ChildStdin, BufReader<ChildStdout>) {
    let mut output = BufReader::new(run.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line of CMD");
    assert_eq!(line, "ready\n");
    let input = run.stdin.take().expect("a pipe"); // waiting would close it
    run.kill().expect("it lives");
    run.wait().expect("waited for");
    (input, output)
}

/// Lets CMD go on, and waits until it is gone.
fn end((mut input, mut output): (ChildStdin, BufReader<ChildStdout>)) {
    input.write_all(b"go\n").expect("it listens");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("end of file");
}

/// Paths of all listed leftovers.
fn paths(leftovers: &[Value]) -> Vec<String> {
    leftovers.iter().map(|found| found["path"].as_str().expect("a path").to_owned()).collect()
}

#[test]
fn the_directory_of_a_run_that_was_killed_goes_when_its_program_has_ended() {
    house("size=16m", |house| {
        let hold = program_file("hold");
        let bytes = (24 * MIB).to_string();
        let words = ["--", hold.to_str().expect("a plain path"), "/held", &bytes, "600", "7", "unlink"];
        let command = kill(run(house, true, &words));
        let directories = left_in(&house.path("state"));
        assert_eq!(directories.len(), 1, "{directories:?}");
        assert!(directories[0].starts_with("shmguard-run-0-"), "{directories:?}");
        assert_eq!(paths(&leftovers(house)), Vec::<String>::new(), "its program lives and uses it");
        end(command);
        let directory = house.path("state").join(&directories[0]);
        assert_eq!(paths(&leftovers(house)), [directory.to_str().expect("a plain path")]);
        let (code, text) = clean(house, &["--yes", "--young", "0"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(!directory.exists() && text.contains("a run that was killed"), "{text}");
    });
}

#[test]
fn the_directory_of_a_run_that_was_killed_goes_where_no_shared_memory_was_used() {
    house("size=16m", |house| {
        let command = kill(run(house, true, &["--", "sh", "-c", "echo ready; read go"]));
        end(command);
        assert_eq!(leftovers(house).len(), 1, "{:?}", leftovers(house));
        clean(house, &["--yes", "--young", "0"]);
        assert_eq!(left_in(&house.path("state")), Vec::<String>::new());
    });
}

/// A mount that ends with this value: the house cannot go away below it.
struct Mounted(&'static str);

impl Mounted {
    fn tmpfs(on: &'static str, options: &str) -> Mounted {
        tool("mount", &["-t", "tmpfs", "-o", options, "tmpfs", on], "apt-get install mount");
        Mounted(on)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        tool("umount", &["--lazy", self.0], "apt-get install mount");
    }
}

#[test]
fn runs_that_were_killed_are_found_in_each_place_that_a_run_may_choose() {
    house("size=16m", |house| {
        let run_user = Mounted::tmpfs("/run", "mode=755,size=1m");
        for place in ["/run/user/0", "/var/tmp", "/tmp"] {
            let users = Path::new("/run/user/0");
            let _var_tmp = match place {
                "/run/user/0" => {
                    fs::create_dir_all(users).expect("a directory in the tmpfs");
                    None
                }
                "/var/tmp" => {
                    fs::remove_dir(users).expect("an empty directory");
                    Some(Mounted::tmpfs("/var/tmp", "mode=1777,size=1m"))
                }
                _ => Some(Mounted::tmpfs("/var/tmp", "ro,size=1m")),
            };
            let run = run(house, false, &["--", "sh", "-c", "echo ready; read go"]);
            let start = format!("{place}/shmguard-run-0-{}-", run.id());
            end(kill(run));
            // Only listed: in /tmp lie the files of others, too.
            let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
            let output = command.args(["clean", "--json", "--young", "0"]).env_clear().output().expect("it runs");
            let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let found = paths(value["leftovers"].as_array().expect("a list"));
            let found: Vec<_> = found.iter().filter(|path| path.starts_with(&start)).collect();
            assert_eq!(found.len(), 1, "{place}: {value:#}");
            fs::remove_dir_all(found[0]).expect("removed");
        }
        drop(run_user);
    });
}
