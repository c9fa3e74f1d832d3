//! The options of `run` that stand for variables: made from the library's own table, so that none is missing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use shmguard_core::config::{variable, Config, Variable, VARIABLES};

/// Variables set by options, in the order of the table.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name and value.
    pub set: Vec<(&'static str, OsString)>,
}

impl clap::Args for Options {
    fn augment_args(command: Command) -> Command {
        let mut command = command;
        for variable in VARIABLES {
            let Some(option) = variable.option else { continue };
            // What it is called, and whether it may be left out.
            let (value, alone) = value_name(variable);
            let switch = value.is_empty();
            // In the table a switch's text begins with its value.
            let text = variable.help.strip_prefix("1: ").filter(|_| switch).unwrap_or(variable.help);
            let first = text.chars().take(1).flat_map(char::to_uppercase);
            let sentence: String = first.chain(text.chars().skip(1)).collect();
            let text = if switch { sentence.as_str() } else { text };
            let default = if switch { String::new() } else { format!(" [default: {}]", variable.default) };
            let long = format!("{text}{default} [{}]", variable.name);
            let mut argument = Arg::new(option)
                .long(option)
                .help(variable.short)
                .long_help(long)
                .help_heading("Settings (each is a variable too: --mode is SHMGUARD_MODE)");
            argument = if switch {
                argument.action(ArgAction::SetTrue)
            } else {
                argument.value_name(value).value_parser(clap::value_parser!(OsString))
            };
            if alone && !switch {
                argument = argument.num_args(0..=1).require_equals(true).default_missing_value("1");
            }
            command = command.arg(argument);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Options, clap::Error> {
        let mut set = Vec::new();
        for variable in VARIABLES {
            let Some(option) = variable.option else { continue };
            let value = if value_name(variable).0.is_empty() {
                matches.get_flag(option).then(|| OsString::from("1"))
            } else {
                matches.get_one::<OsString>(option).cloned()
            };
            if let Some(value) = value {
                set.push((variable.name, value));
            }
        }
        // The library would only complain and go on; on a command line that is wrong usage. Taken together, for one value may
        // depend on another: no target inside a guarded directory.
        let entries: Vec<Vec<u8>> = set.iter().map(|(name, value)| entry(name.as_ref(), value)).collect();
        let config = Config::from_environ(entries.iter().map(Vec::as_slice));
        match config.complaints.first() {
            None => Ok(Options { set }),
            Some(complaint) => {
                let (value, fault) = (complaint.value(), complaint.fault());
                let text = match variable(complaint.name()).and_then(|variable| Some((variable, variable.option?))) {
                    Some((variable, option)) => {
                        let (name, alone) = value_name(variable);
                        let name = if alone { format!("[=<{name}>]") } else { format!(" <{name}>") };
                        format!("invalid value '{value}' for '--{option}{name}': {fault}")
                    }
                    None => complaint.to_string(),
                };
                Err(clap::Error::raw(ErrorKind::ValueValidation, text))
            }
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What an option's value is called (empty: it takes none), and whether it may stand alone.
fn value_name(variable: &Variable) -> (&'static str, bool) {
    match variable.metavar.strip_prefix("[=").and_then(|name| name.strip_suffix(']')) {
        Some(name) => (name, true),
        None => (variable.metavar, variable.metavar.is_empty()),
    }
}

/// `NAME=value` as in an environment.
pub fn entry(name: &OsStr, value: &OsStr) -> Vec<u8> {
    [name.as_bytes(), b"=", value.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn parse(words: &[&str]) -> Result<Options, clap::Error> {
        let command = Options::augment_args(Command::new("run"));
        Options::from_arg_matches(&command.try_get_matches_from([&["run"], words].concat())?)
    }

    #[test]
    fn every_variable_has_an_option() {
        let command = Options::augment_args(Command::new("run"));
        for variable in VARIABLES.iter().filter(|variable| variable.name.starts_with("SHMGUARD_")) {
            let option = variable.option.expect("an option");
            assert!(command.get_arguments().any(|argument| argument.get_long() == Some(option)), "{option}");
        }
    }

    #[test]
    fn values_become_variables_and_wrong_ones_are_refused() {
        let options = parse(&["--mode", "observe", "--hello"]).expect("right");
        assert_eq!(options.set, [("SHMGUARD_MODE", "observe".into()), ("SHMGUARD_HELLO", "1".into())]);
        for (option, name, value) in [
            ("mode", " <MODE>", "sideways"),
            ("budget", " <SIZE>", "5q"),
            ("budget", " <SIZE>", "0"),
            ("redirect", " <DIRS>", "relative"),
            ("redirect", " <DIRS>", "/dev/shm/sub"),
            ("warn", " <LEVELS>", "high"),
            ("keep", " <PATTERNS>", "["),
            ("programs", " <PATTERNS>", "a:!b"),
            ("log", " <DIR>", "/dev/shm/log"),
            ("guard", " <DIRS>", "/"),
            ("state", " <DIR>", "state"),
            ("advertise", "[=<SIZE>]", "2"),
        ] {
            let error = parse(&[&format!("--{option}={value}")]).expect_err("wrong").to_string();
            let begin = format!("error: invalid value '{value}' for '--{option}{name}': expected ");
            assert!(error.starts_with(&begin) && !error.contains("SHMGUARD"), "{error}");
        }
        assert!(parse(&[]).expect("right").set.is_empty());
    }

    #[test]
    fn a_switch_may_have_a_value() {
        assert_eq!(parse(&["--advertise"]).expect("right").set, [("SHMGUARD_ADVERTISE", "1".into())]);
        assert_eq!(parse(&["--advertise=16g"]).expect("right").set, [("SHMGUARD_ADVERTISE", "16g".into())]);
    }
}
