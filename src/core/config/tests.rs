use super::*;
use proptest::prelude::*;

fn read(entries: &[&str]) -> Config {
    Config::from_environ(entries.iter().map(|entry| entry.as_bytes()))
}

fn complaints(config: &Config) -> Vec<String> {
    config.complaints.iter().map(ToString::to_string).collect()
}

fn targets(config: &Config) -> Vec<(&str, Option<u64>)> {
    config.targets.iter().map(|target| (target.path.to_str().expect("UTF-8"), target.cap)).collect()
}

fn guards(config: &Config) -> Vec<&str> {
    config.guards.iter().map(|guard| guard.to_str().expect("UTF-8")).collect()
}

#[test]
fn an_empty_environment_is_the_contract() {
    for entries in [
        [].as_slice(),
        &["PATH=/bin", "SHMGUARD", "XSHMGUARD_MODE=off", "TORCH_SHARED_MEMORY_PATHS=/x", "TORCH_SHARED_MEMORY_PATH"],
        &["SHMGUARD_MODE=", "SHMGUARD_REDIRECT=", "SHMGUARD_WARN= ", "SHMGUARD_LOG=", "SHMGUARD_RUN="],
    ] {
        let config = read(entries);
        assert_eq!(config.mode, Mode::Redirect);
        assert_eq!(config.budget, None);
        assert_eq!(targets(&config), [("/var/tmp", None), ("/tmp", None)]);
        assert_eq!(config.targets_from, Source::Default);
        assert_eq!(config.warn, [Amount::Percent(75), Amount::Percent(90)]);
        assert_eq!(guards(&config), ["/dev/shm"]);
        assert_eq!((config.log.as_ref(), config.state.as_ref(), config.run.as_ref()), (None, None, None));
        assert_eq!((config.advertise, config.hello, config.quiet), (None, false, false));
        assert_eq!((config.programs.clone(), config.keep.len()), (Programs::All, 0));
        assert_eq!(complaints(&config), [""; 0]);
    }
}

#[test]
fn modes() {
    for (value, mode) in
        [("redirect", Mode::Redirect), ("Observe", Mode::Observe), (" refuse ", Mode::Refuse), ("OFF", Mode::Off)]
    {
        let config = read(&[&format!("SHMGUARD_MODE={value}")]);
        assert_eq!((config.mode, config.complaints.len()), (mode, 0));
    }
    let config = read(&["SHMGUARD_MODE=on"]);
    assert_eq!(config.mode, Mode::Redirect);
    assert_eq!(
        complaints(&config),
        ["SHMGUARD_MODE=\"on\" cannot be used: expected redirect, observe, refuse or off; the default is used: redirect"]
    );
}

#[test]
fn of_two_entries_the_first_counts() {
    assert_eq!(read(&["SHMGUARD_MODE=off", "SHMGUARD_MODE=observe"]).mode, Mode::Off);
}

#[test]
fn budgets() {
    assert_eq!(read(&["SHMGUARD_BUDGET=48m"]).budget_bytes(64 << 20), 48 << 20);
    assert_eq!(read(&["SHMGUARD_BUDGET=50%"]).budget_bytes(64 << 20), 32 << 20);
    assert_eq!(read(&["SHMGUARD_BUDGET=1g"]).budget_bytes(64 << 20), 64 << 20);
    assert_eq!(read(&["SHMGUARD_BUDGET=1"]).budget_bytes(64 << 20), 1);
    let config = read(&["SHMGUARD_BUDGET=64q"]);
    assert_eq!(config.budget_bytes(64 << 20), 60 << 20);
    assert_eq!(
        complaints(&config),
        ["SHMGUARD_BUDGET=\"64q\" cannot be used: expected a size above 0 such as 512m or 2g, or a share such as 80%; the \
          default is used: 15/16 of the tmpfs (at least 256 KiB and at most 64 MiB are left)"]
    );
}

#[test]
fn the_margin_of_every_size() {
    for (capacity, left) in [
        (0, 0),
        (4096, 2048),
        (256 << 10, 128 << 10),
        (1 << 20, 256 << 10),
        (4 << 20, 256 << 10),
        (64 << 20, 4 << 20),
        (1 << 30, 64 << 20),
        (64 << 30, 64 << 20),
        (u64::MAX, 64 << 20),
    ] {
        assert_eq!(margin(capacity), left, "{capacity}");
        assert_eq!(read(&[]).budget_bytes(capacity), capacity - left, "{capacity}");
    }
}

#[test]
fn targets_with_caps() {
    let config = read(&["SHMGUARD_REDIRECT=/mnt//bigshm/:/scratch@20g::/a@b@64m:/with@sign:/x/@7:/mnt/bigshm@1g"]);
    assert_eq!(
        targets(&config),
        [
            ("/mnt/bigshm", None),
            ("/scratch", Some(20 << 30)),
            ("/a@b", Some(64 << 20)),
            ("/with@sign", None),
            ("/x/@7", None),
        ]
    );
    assert_eq!(config.targets_from, Source::Redirect);
    assert_eq!(complaints(&config), [""; 0]);
}

#[test]
fn targets_that_cannot_be() {
    let config =
        read(&["SHMGUARD_REDIRECT=tmp:/scratch@20q:/scratch@50%:/dev/shm:/dev/shm/sub@1g:/tmp/../dev/shm/x:/ok"]);
    assert_eq!(targets(&config), [("/ok", None)]);
    let lines = complaints(&config);
    assert_eq!(lines.len(), 6);
    assert_eq!(
        lines[0],
        "SHMGUARD_REDIRECT=\"tmp\" cannot be used: expected absolute directories with optional caps, such as \
         /mnt/bigshm:/scratch@20g, or none; this entry is left out"
    );
    assert_eq!(
        lines[3],
        "SHMGUARD_REDIRECT=\"/dev/shm\" cannot be used: expected a directory outside of the guarded /dev/shm; this entry \
         is left out"
    );
}

#[test]
fn no_target_left_is_the_default() {
    let config = read(&["SHMGUARD_REDIRECT=/dev/shm"]);
    assert_eq!(targets(&config), [("/var/tmp", None), ("/tmp", None)]);
    assert_eq!(config.targets_from, Source::Default);
    assert!(complaints(&config)[0].ends_with("; the default is used: /var/tmp:/tmp"));
    // What shows as a list of nothing is no value either.
    let config = read(&["SHMGUARD_REDIRECT=::"]);
    assert_eq!((targets(&config).len(), config.complaints.len()), (2, 0));
}

#[test]
fn none_is_no_target() {
    let config = read(&["SHMGUARD_REDIRECT=none", "TORCH_SHARED_MEMORY_PATH=/mnt"]);
    assert_eq!((targets(&config).len(), config.targets_from), (0, Source::Redirect));
}

#[test]
fn the_variable_of_the_guides() {
    let config = read(&["TORCH_SHARED_MEMORY_PATH=/mnt/shm/"]);
    assert_eq!(targets(&config), [("/mnt/shm", None), ("/var/tmp", None), ("/tmp", None)]);
    assert_eq!(config.targets_from, Source::TorchVar);
    let config = read(&["TORCH_SHARED_MEMORY_PATH=/tmp"]);
    assert_eq!(targets(&config), [("/tmp", None), ("/var/tmp", None)]);
    let config = read(&["TORCH_SHARED_MEMORY_PATH=/mnt/shm", "SHMGUARD_REDIRECT=/a"]);
    assert_eq!((targets(&config), config.targets_from), (vec![("/a", None)], Source::Redirect));
    let config = read(&["TORCH_SHARED_MEMORY_PATH=/dev/shm"]);
    assert_eq!((targets(&config).len(), config.targets_from, config.complaints.len()), (2, Source::Default, 0));
    let config = read(&["TORCH_SHARED_MEMORY_PATH=shm"]);
    assert_eq!(
        complaints(&config),
        ["TORCH_SHARED_MEMORY_PATH=\"shm\" cannot be used: expected an absolute directory; it is used as if it were not set"]
    );
}

#[test]
fn guarded_directories() {
    let config = read(&["SHMGUARD_GUARD=/run/shm/:/dev/shm:/dev//shm", "SHMGUARD_REDIRECT=/run/shm/x:/y"]);
    assert_eq!(guards(&config), ["/run/shm", "/dev/shm"]);
    assert_eq!(targets(&config), [("/y", None)]);
    let config = read(&["SHMGUARD_GUARD=shm:/"]);
    assert_eq!(guards(&config), ["/dev/shm"]);
    assert_eq!(config.complaints.len(), 2);
    assert!(complaints(&config)[1].ends_with("the default is used: /dev/shm"));
    let config = read(&["SHMGUARD_GUARD=/var/tmp"]);
    assert_eq!((targets(&config), config.complaints.len()), (vec![("/tmp", None)], 0));
}

#[test]
fn log_and_state_stay_out_of_the_guard() {
    let config = read(&["SHMGUARD_LOG=/var/log/x/", "SHMGUARD_STATE=/run/x", "SHMGUARD_RUN=/tmp/run.1"]);
    assert_eq!(config.log.as_deref(), Some(c"/var/log/x"));
    assert_eq!(config.state.as_deref(), Some(c"/run/x"));
    assert_eq!(config.run.as_deref(), Some(c"/tmp/run.1"));
    let config = read(&["SHMGUARD_LOG=/dev/shm/log", "SHMGUARD_STATE=/dev/shm", "SHMGUARD_RUN=run"]);
    assert_eq!((config.log.as_ref(), config.state.as_ref(), config.run.as_ref()), (None, None, None));
    assert_eq!(
        complaints(&config),
        [
            "SHMGUARD_LOG=\"/dev/shm/log\" cannot be used: expected a directory outside of the guarded /dev/shm; it is used \
             as if it were not set",
            "SHMGUARD_STATE=\"/dev/shm\" cannot be used: expected a directory outside of the guarded /dev/shm; it is used as \
             if it were not set",
            "SHMGUARD_RUN=\"run\" cannot be used: expected an absolute directory; it is used as if it were not set",
        ]
    );
}

#[test]
fn warning_levels() {
    let config = read(&["SHMGUARD_WARN=50%, 48m ,95%"]);
    assert_eq!(config.warn, [Amount::Percent(50), Amount::Bytes(48 << 20), Amount::Percent(95)]);
    assert_eq!(read(&["SHMGUARD_WARN=none"]).warn, []);
    for value in ["75", "75%,", "101%", "1%,2%,3%,4%,5%,6%,7%,8%,9%", "75%;90%"] {
        let config = read(&[&format!("SHMGUARD_WARN={value}")]);
        if value == "75" {
            assert_eq!((config.warn, config.complaints.len()), (vec![Amount::Bytes(75)], 0));
            continue;
        }
        assert_eq!(config.warn, LEVELS, "{value}");
        assert!(complaints(&config)[0].contains(value) && complaints(&config)[0].ends_with("75%,90%"));
    }
}

#[test]
fn programs() {
    let config = read(&["SHMGUARD_PROGRAMS=python*:pt_*"]);
    assert!(config.applies_to(b"python3.11") && config.applies_to(b"pt_main_thread"));
    assert!(!config.applies_to(b"java") && !config.applies_to(b""));
    let config = read(&["SHMGUARD_PROGRAMS=!java:!postgres"]);
    assert!(config.applies_to(b"python3") && !config.applies_to(b"java") && !config.applies_to(b"postgres"));
    for value in ["python*:!java", "/usr/bin/python3", "!", ":"] {
        let config = read(&[&format!("SHMGUARD_PROGRAMS={value}")]);
        assert_eq!(config.programs, Programs::All);
        assert!(config.applies_to(b"java"));
        assert!(complaints(&config)[0].contains("such as python*:pt_*"), "{value}");
    }
}

#[test]
fn names_to_keep() {
    let config = read(&[r"SHMGUARD_KEEP=PostgreSQL.*:/my_ring::a\:b:sub/dir"]);
    assert!(config.keeps(b"PostgreSQL.1") && config.keeps(b"my_ring") && config.keeps(b"a:b"));
    assert!(!config.keeps(b"my_ring2") && !config.keeps(b"dir") && !config.keeps(b""));
    assert_eq!(config.complaints.len(), 1);
    assert!(complaints(&config)[0].starts_with("SHMGUARD_KEEP=\"sub/dir\" cannot be used"));
}

#[test]
fn switches() {
    let config = read(&["SHMGUARD_ADVERTISE=1", "SHMGUARD_HELLO=yes", "SHMGUARD_QUIET=True"]);
    assert!(config.advertise == Some(Advertise::Usual) && config.hello && config.quiet);
    let config = read(&["SHMGUARD_ADVERTISE=0", "SHMGUARD_HELLO=off", "SHMGUARD_QUIET=2"]);
    assert!(config.advertise.is_none() && !config.hello && !config.quiet);
    assert_eq!(complaints(&config), ["SHMGUARD_QUIET=\"2\" cannot be used: expected 0 or 1; the default is used: 0"]);
}

#[test]
fn the_room_to_be_shown() {
    let read_one = |value: &str| {
        let config = read(&[&format!("SHMGUARD_ADVERTISE={value}")]);
        (config.advertise, config.complaints.len())
    };
    assert_eq!(read_one("16g"), (Some(Advertise::UpTo(16 << 30)), 0));
    assert_eq!(read_one("4096"), (Some(Advertise::UpTo(4096)), 0));
    for value in ["2", "0g", "50%", "all"] {
        assert_eq!(read_one(value), (None, 1), "{value}");
    }
}

#[test]
fn values_that_cannot_be_meant() {
    for (value, default) in [
        ("SHMGUARD_BUDGET=0", "15/16 of the tmpfs"),
        ("SHMGUARD_BUDGET=0m", "15/16 of the tmpfs"),
        ("SHMGUARD_WARN=0,90%", "75%,90%"),
        ("SHMGUARD_REDIRECT=/scratch@0", "/var/tmp:/tmp"),
        ("SHMGUARD_PROGRAMS=pyth[on", "all programs"),
    ] {
        let config = read(&[value]);
        let told = complaints(&config);
        assert_eq!(told.len(), 1, "{value}");
        assert!(told[0].contains("expected") && told[0].contains(default), "{}", told[0]);
        assert_eq!((config.budget, config.programs), (None, Programs::All));
    }
    for pattern in ["[", "a[b", r"torch\", "[]", "[a-"] {
        let config = read(&[&format!("SHMGUARD_KEEP=ring:{pattern}")]);
        assert_eq!((config.keep.len(), config.complaints.len()), (1, 1), "{pattern}");
        assert!(complaints(&config)[0].contains("each [ closed"));
    }
    for pattern in ["[a]", "[]]", "[!]a]", r"\[", "x]", "[[]"] {
        let config = read(&[&format!("SHMGUARD_KEEP={pattern}")]);
        assert_eq!((config.keep.len(), config.complaints.len()), (1, 0), "{pattern}");
    }
}

#[test]
fn guards_that_cannot_be_guarded_are_left_out() {
    let fault = |guard: &CStr| (guard != c"/good" && guard != c"/dev/shm").then_some("it does not exist");
    let mut config = read(&["SHMGUARD_GUARD=/bad:/good"]);
    config.look_at_guards(fault);
    assert_eq!(guards(&config), ["/good"]);
    assert_eq!(
        complaints(&config),
        ["SHMGUARD_GUARD=\"/bad\" cannot be used: it does not exist; expected a directory on a tmpfs; this entry is left out"]
    );
    let mut config = read(&["SHMGUARD_GUARD=/bad", "SHMGUARD_REDIRECT=/dev/shm/x:/y"]);
    config.look_at_guards(fault);
    assert_eq!((guards(&config), targets(&config)), (vec!["/dev/shm"], vec![("/y", None)]));
    assert!(complaints(&config)[0].ends_with("; the default is used: /dev/shm"));
    // Nothing was named: nothing is looked at.
    let mut config = read(&[]);
    config.look_at_guards(|_| Some("it does not exist"));
    assert_eq!((guards(&config), config.complaints.len()), (vec!["/dev/shm"], 0));
}

#[test]
fn a_slip_in_a_name_is_told() {
    let config = read(&["SHMGUARD_REDIRCT=/mnt", "SHMGUARD_XYZZYXYZZY=1"]);
    assert_eq!(
        complaints(&config),
        [
            "SHMGUARD_REDIRCT is no variable of shmguard and is ignored; did you mean SHMGUARD_REDIRECT?",
            "SHMGUARD_XYZZYXYZZY is no variable of shmguard and is ignored; known are SHMGUARD_MODE, BUDGET, REDIRECT, WARN, \
             KEEP, PROGRAMS, LOG, GUARD, STATE, ADVERTISE, HELLO, QUIET",
        ]
    );
}

#[test]
fn nobody_reads_a_hundred_complaints() {
    let entries: Vec<String> = (0..100).map(|number| format!("SHMGUARD_NUMBER{number}=1")).collect();
    let config = Config::from_environ(entries.iter().map(|entry| entry.as_bytes()));
    assert_eq!(config.complaints.len(), MOST_COMPLAINTS + 1);
    assert_eq!(complaints(&config)[MOST_COMPLAINTS], "more variables that cannot be used, not listed here");
}

#[test]
fn the_table_tells_the_real_defaults() {
    let set: Vec<String> = VARIABLES
        .iter()
        .filter(|known| !known.default.contains(' ') && known.default != "unset")
        .map(|known| format!("{}={}", known.name, known.default))
        .collect();
    assert!(set.len() >= 7);
    let mut config = Config::from_environ(set.iter().map(|entry| entry.as_bytes()));
    assert_eq!(config.targets_from, Source::Redirect);
    config.targets_from = Source::Default;
    config.guards_named = false;
    assert_eq!(config, read(&[]));
}

#[test]
fn the_documentation_is_the_table() {
    let mut table = String::from("| variable | default | meaning |\n|---|---|---|\n");
    for known in VARIABLES {
        let default = match known.default {
            words if words.contains(' ') || words == "unset" => words.to_owned(),
            value => format!("`{value}`"),
        };
        table += &format!("| `{}` | {} | {} |\n", known.name, default, known.help.replace('|', "\\|"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/variables.md");
    let page = std::fs::read_to_string(path).expect("docs/variables.md");
    let (begin, end) = ("<!-- table: begin -->\n", "<!-- table: end -->");
    let written = page.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).map(|(table, _)| table);
    assert_eq!(written.expect("both marks"), table, "put this between the marks of docs/variables.md:\n{table}");
}

fn entry() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<&str> = VARIABLES.iter().map(|known| known.name).chain(["SHMGUARD_RUN", "SHMGUARD_X"]).collect();
    let value = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        "(/|\\.\\.|a|:|@|[0-9]{1,20}|g|%|,|!|\\*|\\[|\\\\|none|/dev/shm| ){0,20}".prop_map(String::into_bytes),
    ];
    (proptest::sample::select(names), value).prop_map(|(name, value)| [name.as_bytes(), b"=", &value].concat())
}

proptest! {
    #[test]
    fn noise_still_gives_a_configuration(entries in proptest::collection::vec(entry(), 0..10)) {
        let config = Config::from_environ(entries.iter().map(Vec::as_slice));
        prop_assert!(!config.guards.is_empty());
        prop_assert!(config.complaints.len() <= MOST_COMPLAINTS + 1 && config.warn.len() <= MOST_LEVELS);
        for complaint in &config.complaints {
            let line = complaint.to_string();
            prop_assert!(line.len() <= 400 && !line.chars().any(char::is_control), "{}", line);
        }
        let paths = config.targets.iter().map(|target| &target.path).chain(&config.log).chain(&config.state);
        for path in paths {
            prop_assert!(path.to_bytes().starts_with(b"/"));
            for guard in &config.guards {
                prop_assert!(!path::inside(path.to_bytes(), guard.to_bytes()));
            }
        }
        let _ = (config.applies_to(b"python3"), config.keeps(b"torch_1"), config.budget_bytes(64 << 20));
    }
}
