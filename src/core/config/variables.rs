//! The variables that users set: the one table behind the library, `shmguard run` and the
//! documentation.

/// One environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The option of `shmguard run` that sets it, without the dashes; `None`: it has none.
    pub option: Option<&'static str>,
    /// What an option's value is called in usage lines; empty: a switch, which sets `1`; in brackets: a switch that may be
    /// given a value.
    pub metavar: &'static str,
    /// The value in force when it is not set, in the form that could be set, or in words.
    pub default: &'static str,
    /// Values, in words, for complaints: "expected ...".
    pub expected: &'static str,
    /// What it does, in so few words that a list of all fits on a screen.
    pub short: &'static str,
    /// What it does, in plain text without markup.
    pub help: &'static str,
}

/// `SHMGUARD_RUN`, by which `shmguard run` tells the library a directory for its own use. Users
/// never set it, so it is not in [`VARIABLES`].
pub const RUN: &str = "SHMGUARD_RUN";

/// The variable of other people's guides that stands in for `SHMGUARD_REDIRECT`.
pub const TORCH: &str = "TORCH_SHARED_MEMORY_PATH";

/// Every variable that users may set, in the order in which they are documented.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "SHMGUARD_MODE",
        option: Some("mode"),
        metavar: "MODE",
        default: "redirect",
        expected: "redirect, observe, refuse or off",
        short: "What becomes of what does not fit: redirect, observe, refuse, off",
        help: "redirect: what does not fit goes to a target. observe: account and warn, change nothing. \
               refuse: what does not fit gets ENOSPC when it is sized, instead of a SIGBUS when it is touched. \
               off: the library does nothing.",
    },
    Variable {
        name: "SHMGUARD_BUDGET",
        option: Some("budget"),
        metavar: "SIZE",
        default: "15/16 of the tmpfs (at least 256 KiB and at most 64 MiB are left)",
        expected: "a size above 0 such as 512m or 2g, or a share such as 80%",
        short: "How full /dev/shm may become, such as 512m or 80%",
        help: "How full the guarded directory may become before new segments are redirected (or refused). \
               Fill is what is used and what kept segments were promised beyond what they hold.",
    },
    Variable {
        name: "SHMGUARD_REDIRECT",
        option: Some("redirect"),
        metavar: "DIRS",
        default: "/var/tmp:/tmp",
        expected: "absolute directories with optional caps, such as /mnt/bigshm:/scratch@20g, or none",
        short: "Where to, in order of preference, such as /mnt/big:/scratch@20g; none",
        help: "Targets in order of preference: directories on a larger tmpfs or on a disk, separated by colons, \
               each with an optional cap behind @, such as /mnt/bigshm:/scratch@20g. \
               none switches redirection off.",
    },
    Variable {
        name: "SHMGUARD_WARN",
        option: Some("warn"),
        metavar: "LEVELS",
        default: "75%,90%",
        expected: "up to 8 fill levels above 0 such as 75%,90% or 48m, or none",
        short: "Fill levels that are announced",
        help: "Fill levels that are announced, separated by commas; none announces none.",
    },
    Variable {
        name: "SHMGUARD_KEEP",
        option: Some("keep"),
        metavar: "PATTERNS",
        default: "unset",
        expected: "patterns of names without directories, each [ closed, such as PostgreSQL.*:my_ring",
        short: "Names that are never moved, such as PostgreSQL.*:my_ring",
        help: "Names that are never moved or reserved, as shell patterns separated by colons, such as \
               PostgreSQL.*:my_ring.",
    },
    Variable {
        name: "SHMGUARD_PROGRAMS",
        option: Some("programs"),
        metavar: "PATTERNS",
        default: "all programs",
        expected: "either names to include, such as python*:pt_*, or names to exclude, such as !java:!postgres",
        short: "Only in these programs, python*:pt_*, or in all but these, !java",
        help: "The library works only in these programs, python*:pt_*, or in all but these, !java:!postgres; \
               elsewhere it does nothing. Patterns are compared with the file name of the executable.",
    },
    Variable {
        name: "SHMGUARD_LOG",
        option: Some("log"),
        metavar: "DIR",
        default: "unset",
        expected: "an absolute directory outside of the guarded ones",
        short: "A directory for every event as a JSON line; see shmguard report",
        help: "A directory (not inside a guarded one) into which every event is written as one JSON line, \
               for shmguard report.",
    },
    Variable {
        name: "SHMGUARD_GUARD",
        option: Some("guard"),
        metavar: "DIRS",
        default: "/dev/shm",
        expected: "absolute directories, separated by colons, not /",
        short: "Guarded directories",
        help: "Guarded directories, separated by colons.",
    },
    Variable {
        name: "SHMGUARD_STATE",
        option: Some("state"),
        metavar: "DIR",
        default: "chosen at run time",
        expected: "an absolute directory outside of the guarded ones",
        short: "A directory for the ledger",
        help: "Where the ledger lives, never inside a guarded directory. When unset, or not usable: the first of \
               /run/user/UID, /var/tmp and /tmp that can be written to.",
    },
    Variable {
        name: "SHMGUARD_ADVERTISE",
        option: Some("advertise"),
        metavar: "[=SIZE]",
        default: "0",
        expected: "0, 1 or the most room to be shown, such as 16g",
        short: "statfs shows the room of the targets too (Open MPI, Ray)",
        help: "1: statfs and statvfs on a guarded directory answer with the room of the targets added, for programs \
               that look first and then size by ftruncate or fallocate (Open MPI, CPython's heap, Arrow). At most \
               2 GB free are shown, less than 2 000 000 000 bytes: with more, joblib writes its files there, and they \
               cannot be moved. A size such as 16g: at most so much is shown, for where joblib is not used. Not for \
               programs that fill by write (UCX): they are better off with the truth. Directories below the guarded \
               one, and the shmguard command, always see the truth.",
    },
    Variable {
        name: "SHMGUARD_HELLO",
        option: Some("hello"),
        metavar: "",
        default: "0",
        expected: "0 or 1",
        short: "One line when shared memory is first used",
        help: "1: the first process that uses shared memory says one line: version, mode, guarded directory with \
               its size, targets with kind and room.",
    },
    Variable {
        name: "SHMGUARD_QUIET",
        option: Some("quiet"),
        metavar: "",
        default: "0",
        expected: "0 or 1",
        short: "Nothing on stderr",
        help: "1: nothing is written to stderr.",
    },
    Variable {
        name: TORCH,
        option: None,
        metavar: "DIR",
        default: "unset",
        expected: "an absolute directory",
        short: "The first target, when SHMGUARD_REDIRECT is not set",
        help: "Read only when SHMGUARD_REDIRECT is not set: then it is the first target, in front of the default \
               ones. Many guides tell people to set it, and no PyTorch has ever read it; here it does what they \
               were promised.",
    },
];

/// The entry of a variable; `None`: there is no such variable.
pub fn variable(name: &[u8]) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name.as_bytes() == name)
}
