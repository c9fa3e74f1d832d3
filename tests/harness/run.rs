//! One run of a program: built, given its environment, limits and user, watched, and reported.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit};

use super::{emulator, events, library, House, Program};

/// After this a program is killed and the test fails: nothing here takes more than a few seconds on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run that is being described. Unless told otherwise: under the library, stdin empty, as root, with
/// `SHMGUARD_REDIRECT` = the house's target, `SHMGUARD_STATE` in the house, and nothing else in the environment but
/// `PATH`, `HOME` and `LC_ALL`.
pub struct Run {
    program: Program,
    arguments: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    preload_before: Vec<PathBuf>,
    preload_after: Vec<PathBuf>,
    library: Option<PathBuf>,
    under: Vec<OsString>,
    uid: Option<u32>,
    limits: Vec<(Resource, u64)>,
    home: PathBuf,
    piped_stdin: bool,
    stderr: Option<std::fs::File>,
}

impl Run {
    pub(super) fn new(house: &House, program: Program) -> Run {
        Run {
            program,
            arguments: Vec::new(),
            environment: vec![
                ("SHMGUARD_REDIRECT".to_owned(), house.target().into()),
                ("SHMGUARD_STATE".to_owned(), house.path("state").into()),
            ],
            preload_before: Vec::new(),
            preload_after: Vec::new(),
            library: Some(library().to_path_buf()),
            under: Vec::new(),
            uid: None,
            limits: Vec::new(),
            home: house.path(""),
            piped_stdin: false,
            stderr: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Run {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds a number as an argument.
    pub fn number(self, number: u64) -> Run {
        self.arg(number.to_string())
    }

    /// Sets a variable, in place of an earlier value.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.environment.retain(|(present, _)| present != name);
        self.environment.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Removes a variable.
    pub fn env_remove(mut self, name: &str) -> Run {
        self.environment.retain(|(present, _)| present != name);
        self
    }

    /// The baseline: no library (other preloads stay).
    pub fn without_library(mut self) -> Run {
        self.library = None;
        self
    }

    /// Under this build of the library.
    pub fn with_library(mut self, library: &Path) -> Run {
        self.library = Some(library.to_path_buf());
        self
    }

    /// Another library in front of ours in LD_PRELOAD.
    pub fn preload_before(mut self, other: &Path) -> Run {
        self.preload_before.push(other.to_path_buf());
        self
    }

    /// Another library behind ours in LD_PRELOAD.
    pub fn preload_after(mut self, other: &Path) -> Run {
        self.preload_after.push(other.to_path_buf());
        self
    }

    /// A wrapper in front of the program: `["strace", "-f"]`. It runs without the library unless it passes on its own
    /// environment: LD_PRELOAD is handed to it as the variable `PRELOAD` too, and `env` can set it.
    pub fn under(mut self, words: &[&str]) -> Run {
        self.under = words.iter().map(|&word| word.into()).collect();
        self
    }

    /// As this user and group (supplementary groups dropped).
    pub fn uid(mut self, uid: u32) -> Run {
        self.uid = Some(uid);
        self
    }

    /// With this limit, soft and hard.
    pub fn rlimit(mut self, resource: Resource, value: u64) -> Run {
        self.limits.push((resource, value));
        self
    }

    /// Standard error goes to this file instead of being collected.
    pub fn stderr(mut self, file: std::fs::File) -> Run {
        self.stderr = Some(file);
        self
    }

    /// Runs to the end.
    #[track_caller]
    pub fn output(self) -> Outcome {
        self.start_with(false).wait()
    }

    /// Starts the program with a pipe as standard input and returns at once.
    #[track_caller]
    pub fn start(self) -> Running {
        self.start_with(true)
    }

    #[track_caller]
    fn start_with(mut self, piped_stdin: bool) -> Running {
        self.piped_stdin = piped_stdin;
        let file = self.program.build();
        let mut preload = std::mem::take(&mut self.preload_before);
        preload.extend(self.library.take());
        preload.append(&mut self.preload_after);
        // A user of little rights may not be able to reach the build's directories: it gets copies in the house.
        let (file, preload) = match self.uid {
            None => (file, preload),
            Some(_) => (self.copy(&file), preload.iter().map(|path| self.copy(path)).collect()),
        };
        let preload: Vec<String> = preload.iter().map(|path| path.display().to_string()).collect();
        let preload = preload.join(":");

        let emulator_words = emulator();
        let mut command = match self.under.split_first() {
            None => match emulator_words.split_first() {
                None => Command::new(&file),
                Some((emulator, options)) => {
                    // qemu's -E: a variable for the program, not for the emulator, which is of this machine.
                    let mut command = Command::new(emulator);
                    command.args(options);
                    if !preload.is_empty() {
                        command.args(["-E", &format!("LD_PRELOAD={preload}")]);
                    }
                    command.arg(&file);
                    self = self.env("CHECK_EMULATOR", emulator_words.join(" "));
                    command
                }
            },
            Some((wrapper, rest)) => {
                let mut command = Command::new(wrapper);
                command.args(rest);
                if !preload.is_empty() {
                    command.args(["env", &format!("LD_PRELOAD={preload}")]);
                } else {
                    command.arg("env"); // the same number of programs with and without the library
                }
                command.arg(&file);
                command
            }
        };
        command
            .args(&self.arguments)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", &self.home)
            .env("LC_ALL", "C")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .process_group(0)
            .stdin(if piped_stdin { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped());
        match self.stderr.take() {
            Some(file) => command.stderr(file),
            None => command.stderr(Stdio::piped()),
        };
        if self.under.is_empty() && emulator_words.is_empty() && !preload.is_empty() {
            command.env("LD_PRELOAD", &preload);
        }
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        let limits = std::mem::take(&mut self.limits);
        // SAFETY: between fork and exec only setrlimit system calls are made, on a vector that exists already.
        unsafe {
            command.pre_exec(move || {
                for &(resource, value) in &limits {
                    rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })?;
                }
                Ok(())
            });
        }
        let what = format!("{} {:?}", self.program.name(), self.arguments);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("cannot start {:?} for {what} ({error}): is it installed?", command.get_program())
        });
        Running::new(child, what)
    }

    fn copy(&self, file: &Path) -> PathBuf {
        let copy = self.home.join(file.file_name().expect("a file"));
        if !copy.exists() {
            std::fs::copy(file, &copy).expect("a copy of a built file");
        }
        copy
    }
}

/// A program that runs. Dropping it kills its process group.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    what: String,
    ended: bool,
}

impl Running {
    fn new(mut child: Child, what: String) -> Running {
        let stdin = child.stdin.take();
        let (sender, lines) = channel();
        let mut pipe = child.stdout.take().expect("stdout is a pipe");
        let stdout = std::thread::spawn(move || {
            let (mut all, mut told) = (Vec::new(), 0);
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                all.extend_from_slice(&piece[..count]);
                while let Some(end) = all[told..].iter().position(|&byte| byte == b'\n') {
                    let _ = sender.send(String::from_utf8_lossy(&all[told..told + end]).into_owned());
                    told += end + 1;
                }
            }
            all
        });
        let stderr = child.stderr.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut all = Vec::new();
                let _ = pipe.read_to_end(&mut all);
                all
            })
        });
        Running { child, stdin, lines, stdout: Some(stdout), stderr, what, ended: false }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line of standard output that starts with `start` and returns it.
    #[track_caller]
    pub fn line(&mut self, start: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.starts_with(start) => return line,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => panic!("{}: no line {start:?} after {PATIENCE:?}", self.what),
                Err(RecvTimeoutError::Disconnected) => {
                    let outcome = self.finish();
                    panic!("{}: ended without a line {start:?}: {outcome}", self.what);
                }
            }
        }
    }

    /// Tells the program to go on: one line on its standard input.
    #[track_caller]
    pub fn go_on(&mut self) {
        let stdin = self.stdin.as_mut().expect("started with a pipe as standard input");
        stdin.write_all(b"go\n").unwrap_or_else(|error| panic!("{} does not listen: {error}", self.what));
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process exists until it is waited for");
    }

    /// Closes standard input and waits for the end.
    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        self.finish()
    }

    #[track_caller]
    fn finish(&mut self) -> Outcome {
        drop(self.stdin.take());
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("waiting for a child") {
                break status;
            }
            if started.elapsed() > PATIENCE {
                let stacks = std::fs::read_to_string(format!("/proc/{}/wchan", self.child.id())).unwrap_or_default();
                self.kill();
                panic!("{} hung for {PATIENCE:?} (in {stacks}); killed", self.what);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.kill(); // what it left running holds the pipes open
        let take = |thread: Option<JoinHandle<Vec<u8>>>| {
            let bytes = thread.map(|thread| thread.join().expect("a reader")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Outcome {
            what: self.what.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: take(self.stdout.take()),
            stderr: without_emulator(take(self.stderr.take())),
        }
    }

    fn kill(&mut self) {
        if !self.ended {
            self.ended = true;
            // Fails when the group is empty already: then there is nothing to do.
            let _ = rustix::process::kill_process_group(
                rustix::process::Pid::from_child(&self.child),
                rustix::process::Signal::KILL,
            );
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// What a program wrote, without the line that an emulator adds when a signal ends it.
fn without_emulator(stderr: String) -> String {
    if emulator().is_empty() {
        return stderr;
    }
    stderr.split_inclusive('\n').filter(|line| !line.starts_with("qemu: uncaught target signal")).collect()
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    what: String,
    /// Exit status, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// All of standard output.
    pub stdout: String,
    /// All of standard error.
    pub stderr: String,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: exit {:?}, signal {:?}\n--- stdout\n{}--- stderr\n{}---",
            self.what, self.code, self.signal, self.stdout, self.stderr
        )
    }
}

impl Outcome {
    /// Panics unless the program ended with status 0.
    #[track_caller]
    pub fn well(self) -> Outcome {
        assert_eq!((self.code, self.signal), (Some(0), None), "{self}");
        self
    }

    /// Panics unless the program was ended by this signal.
    #[track_caller]
    pub fn killed_by(self, signal: rustix::process::Signal) -> Outcome {
        assert_eq!(self.signal, Some(signal.as_raw()), "expected {signal:?}; {self}");
        self
    }

    /// The library's own lines on standard error. Each is checked: complete, at most 512 bytes.
    #[track_caller]
    pub fn said(&self) -> Vec<&str> {
        events::said(&self.stderr)
    }

    /// Panics unless exactly one of the library's lines contains all `words`; returns it.
    #[track_caller]
    pub fn said_once(&self, words: &[&str]) -> &str {
        let lines = self.said();
        let with: Vec<&&str> = lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).collect();
        assert_eq!(with.len(), 1, "lines with all of {words:?}; {self}");
        with[0]
    }

    /// Panics unless at least one of the library's lines contains all `words`; returns the first of them.
    #[track_caller]
    pub fn said_some(&self, words: &[&str]) -> &str {
        let lines = self.said();
        let with = lines.into_iter().find(|line| words.iter().all(|word| line.contains(word)));
        with.unwrap_or_else(|| panic!("no line with all of {words:?}; {self}"))
    }

    /// Panics if anything at all was written to standard error.
    #[track_caller]
    pub fn silent(self) -> Outcome {
        assert_eq!(self.stderr, "", "{self}");
        self
    }
}
