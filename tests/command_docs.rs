//! Help, man pages, completions and docs/commands.md come from one table, and what is committed is what it says now.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn shmguard(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmguard"));
    command.args(words).env_clear().env("PATH", "/usr/bin:/bin").output().expect("the command runs")
}

fn text(words: &[&str]) -> String {
    let output = shmguard(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The files below a directory by their relative paths.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())).flatten() {
        let name = PathBuf::from(entry.file_name());
        found.push((name, fs::read_to_string(entry.path()).expect("a text")));
    }
    found.sort();
    found
}

fn subcommands() -> Vec<String> {
    let help = text(&["--help"]);
    let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list").to_owned();
    let first = |line: &str| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).map(str::to_owned);
    let names = list.lines().filter_map(first).filter_map(|line| line.split(' ').next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

#[test]
fn what_is_committed_is_up_to_date() {
    let made = tempfile::tempdir().expect("a directory");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    text(&["docs", made.path().to_str().expect("UTF-8")]);
    let how = "docs is not what the command says: cargo run -- docs docs, then commit docs/commands.md and docs/man";
    let page = |directory: &Path| fs::read_to_string(directory.join("commands.md")).unwrap_or_default();
    assert!(page(made.path()) == page(&repository), "{how}");
    assert!(files(&made.path().join("man")) == files(&repository.join("man")), "{how}");
}

#[test]
fn every_subcommand_of_the_contract_is_there_with_an_example() {
    let names = subcommands();
    for name in ["run", "doctor", "status", "top", "report", "estimate", "metrics", "clean", "path"] {
        assert!(names.iter().any(|known| known == name), "{name} is missing in {names:?}");
    }
    for name in &names {
        let help = text(&[name, "--help"]);
        let example = format!("shmguard {name}");
        assert!(help.contains("Example") && help.matches(&example).count() > 1, "{name} --help has no example");
        assert!(!help.contains('\x1b'), "{name} --help is coloured in a pipe");
    }
}

#[test]
fn the_page_keeps_to_80_columns_and_lists_every_subcommand() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md")).expect("the page");
    for name in subcommands() {
        assert!(page.contains(&format!("\n## shmguard {name}\n")), "{name}");
    }
    let in_help = page.split("```").skip(1).step_by(2).flat_map(str::lines);
    // Examples are lines to paste.
    let long: Vec<&str> = in_help.filter(|line| line.chars().count() > 80 && !line.starts_with("  ")).collect();
    assert_eq!(long, [] as [&str; 0]);
}

#[test]
fn man_pages_are_read_without_a_complaint() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/man");
    for (name, page) in files(&directory) {
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{}", name.display());
        // groff's base system is part of every Debian with man; -ww tells every doubt.
        let groff = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(directory.join(&name)).output();
        let groff = groff.unwrap_or_else(|error| panic!("groff ({error}): apt-get install groff-base"));
        assert!(groff.status.success() && groff.stderr.is_empty(), "{}", String::from_utf8_lossy(&groff.stderr));
    }
}

#[test]
fn completions_are_scripts_that_the_shells_take() {
    let bash = text(&["docs", "--completions", "bash"]);
    let mut check = Command::new("bash");
    check.args(["--norc", "-c", "eval \"$1\"; complete -p shmguard; COMP_WORDS=(shmguard doc); COMP_CWORD=1; _shmguard shmguard doc shmguard; echo \"${COMPREPLY[*]}\"", "bash", &bash]);
    let output = check.output().unwrap_or_else(|error| panic!("bash ({error}): apt-get install bash"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("_shmguard") && said.lines().last() == Some("doctor"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text(&["docs", "--completions", "zsh"]).starts_with("#compdef shmguard"));
    assert!(text(&["docs", "--completions", "fish"]).contains("complete -c shmguard"));
    assert_eq!(shmguard(&["docs", "--completions", "csh"]).status.code(), Some(2));
    assert_eq!(shmguard(&["docs"]).status.code(), Some(2));
}

#[test]
fn colour_is_for_terminals_and_not_with_no_color() {
    let on_a_terminal = |line: &str, variables: &[(&str, &str)]| {
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{} {line}", env!("CARGO_BIN_EXE_shmguard")), "/dev/null"]);
        script.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
        let output = script.output().unwrap_or_else(|error| panic!("script ({error}): apt-get install bsdutils"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for line in ["doctor --no-speed", "doctor --help", "--help"] {
        let plain = on_a_terminal(line, &[("NO_COLOR", "1")]);
        assert!(on_a_terminal(line, &[]).contains("\x1b["), "{line}");
        assert!(!plain.contains("\x1b[") && plain.len() > 100, "{line}: {plain}");
    }
}

#[test]
fn wrong_usage_is_2() {
    for words in [&[][..], &["no-such"], &["metrics", "--no-such"], &["clean", "--young", "-1"], &["path", "x"]] {
        let output = shmguard(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}");
    }
}
