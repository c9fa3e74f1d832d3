//! What is said about a value that cannot be used.

use super::variables::{variable, VARIABLES};
use core::fmt;

/// A variable that was not understood, in whole or in part. Shown as one line of at most
/// 400 bytes, without `shmguard: ` in front and without a line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub(super) name: Box<[u8]>,
    /// The value, or that entry of a list that is meant.
    pub(super) value: Box<[u8]>,
    pub(super) problem: Problem,
    pub(super) instead: Instead,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// No variable of this name.
    Unknown,
    /// The value is none of the expected ones.
    Unreadable,
    /// The path lies in this guarded directory, or is it.
    Guarded(Box<[u8]>),
    /// The path cannot be guarded, for this reason.
    NoGuard(&'static str),
    /// More complaints than anybody reads.
    TooMany,
}

/// What happens instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instead {
    /// The variable's default is used.
    Default,
    /// That entry of the list is left out.
    Dropped,
    /// As if it were not set.
    Ignored,
}

/// Bytes of a name or a guarded directory, and of a value, that are shown.
const NAME_SHOWN: usize = 48;
const VALUE_SHOWN: usize = 80;

impl Complaint {
    /// The variable's name, as it was found.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The value, or the entry of a list that is meant, on one line.
    pub fn value(&self) -> impl fmt::Display + '_ {
        Escaped(&self.value, VALUE_SHOWN)
    }

    /// What is wrong with the value and what was expected, without what happens instead.
    pub fn fault(&self) -> impl fmt::Display + '_ {
        Fault(self)
    }
}

struct Fault<'a>(&'a Complaint);

impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.problem {
            Problem::NoGuard(fault) => write!(f, "{fault}; expected a directory on a tmpfs"),
            Problem::Guarded(guard) => {
                write!(f, "expected a directory outside of the guarded {}", Escaped(guard, NAME_SHOWN))
            }
            Problem::Unknown | Problem::Unreadable | Problem::TooMany => {
                let expected = variable(&self.0.name).map_or("an absolute directory", |known| known.expected);
                write!(f, "expected {expected}")
            }
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Escaped(&self.name, NAME_SHOWN);
        match &self.problem {
            Problem::TooMany => return f.write_str("more variables that cannot be used, not listed here"),
            Problem::Unknown => {
                write!(f, "{name} is no variable of shmguard and is ignored; ")?;
                return match nearest(&self.name) {
                    Some(known) => write!(f, "did you mean {known}?"),
                    None => known_names(f),
                };
            }
            Problem::Unreadable | Problem::Guarded(_) | Problem::NoGuard(_) => {
                write!(f, "{name}=\"{}\" cannot be used: {}", self.value(), self.fault())?;
            }
        }
        match (self.instead, variable(&self.name)) {
            (Instead::Default, Some(known)) => {
                write!(f, "; the default is used: {}", known.default)
            }
            (Instead::Dropped, _) => f.write_str("; this entry is left out"),
            (Instead::Default | Instead::Ignored, _) => f.write_str("; it is used as if it were not set"),
        }
    }
}

fn known_names(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("known are SHMGUARD_")?;
    let names = VARIABLES.iter().filter_map(|known| known.name.strip_prefix("SHMGUARD_"));
    for (index, name) in names.enumerate() {
        write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
    }
    Ok(())
}

/// The known variable that is fewest edits away from `name`, when that is near enough to be meant.
fn nearest(name: &[u8]) -> Option<&'static str> {
    // Longer than any known name and its possible slips: not worth a quadratic comparison.
    if name.len() > NAME_SHOWN {
        return None;
    }
    let prefix = b"SHMGUARD_".len();
    let distance = |known: &str| edits(&name.to_ascii_uppercase(), known.as_bytes());
    let (distance, known) = VARIABLES
        .iter()
        .filter(|known| known.name.starts_with("SHMGUARD_"))
        .map(|known| (distance(known.name), known.name))
        .min()?;
    let half = known.len().max(name.len()).saturating_sub(prefix) / 2;
    (distance <= half).then_some(known)
}

/// Levenshtein's distance.
fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, &byte) in one.iter().enumerate() {
        // The value up and left of the current one, and the one to the left of it.
        let mut diagonal = index;
        let mut left = index.saturating_add(1);
        for (column, &letter) in other.iter().enumerate() {
            if let Some(first) = row.get_mut(column) {
                *first = left;
            }
            let Some(up) = row.get(column.saturating_add(1)).copied() else {
                break;
            };
            let replaced = diagonal.saturating_add(usize::from(byte != letter));
            diagonal = up;
            left = replaced.min(up.saturating_add(1)).min(left.saturating_add(1));
        }
        if let Some(last) = row.last_mut() {
            *last = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Shows bytes of the environment on one line: what is not a letter, a digit or plain ASCII is
/// escaped, and at most so many bytes are written.
struct Escaped<'a>(&'a [u8], usize);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.1;
        let mut put =
            |f: &mut fmt::Formatter<'_>, shown: fmt::Arguments<'_>, width: usize| match left.checked_sub(width) {
                Some(rest) => {
                    left = rest;
                    f.write_fmt(shown).map(|()| true)
                }
                None => f.write_str("...").map(|()| false),
            };
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                let plain = match letter {
                    '"' | '\\' => false,
                    ' '..='~' => true,
                    _ => letter.is_alphanumeric(),
                };
                let width = if plain { letter.len_utf8() } else { letter.escape_default().len() };
                let more = if plain {
                    put(f, format_args!("{letter}"), width)?
                } else {
                    put(f, format_args!("{}", letter.escape_default()), width)?
                };
                if !more {
                    return Ok(());
                }
            }
            for byte in chunk.invalid() {
                if !put(f, format_args!("\\x{byte:02x}"), 4)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slips_find_what_was_meant() {
        for (name, meant) in [
            ("SHMGUARD_REDIRCT", Some("SHMGUARD_REDIRECT")),
            ("SHMGUARD_BUGDET", Some("SHMGUARD_BUDGET")),
            ("SHMGUARD_mode", Some("SHMGUARD_MODE")),
            ("SHMGUARD_KEEPS", Some("SHMGUARD_KEEP")),
            ("SHMGUARD_PROGRAM", Some("SHMGUARD_PROGRAMS")),
            ("SHMGUARD_WARNINGS", Some("SHMGUARD_WARN")),
            ("SHMGUARD_XYZZYXYZZY", None),
            ("SHMGUARD_", None),
        ] {
            assert_eq!(nearest(name.as_bytes()), meant, "{name}");
        }
    }

    #[test]
    fn counts_edits() {
        for (one, other, count) in [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(edits(one.as_bytes(), other.as_bytes()), count, "{one} {other}");
        }
    }

    #[test]
    fn escapes_what_would_disturb_a_terminal() {
        let shown = |value: &[u8]| Escaped(value, 80).to_string();
        assert_eq!(shown(b"a\n\x1b[31m\"\\"), r#"a\n\u{1b}[31m\"\\"#);
        assert_eq!(shown("größe\u{202e}".as_bytes()), "größe\\u{202e}");
        assert_eq!(shown(b"\xff\xfe"), r"\xff\xfe");
        assert_eq!(Escaped(b"abcdef", 3).to_string(), "abc...");
        assert_eq!(Escaped(b"abc", 3).to_string(), "abc");
    }

    proptest! {
        #[test]
        fn every_complaint_is_one_short_line(
            name in prop_oneof![
                proptest::sample::select(VARIABLES).prop_map(|known| known.name.as_bytes().to_vec()),
                proptest::collection::vec(any::<u8>(), 0..300),
            ],
            value in proptest::collection::vec(any::<u8>(), 0..300),
            guard in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
            unknown in any::<bool>(),
            instead in proptest::sample::select(vec![Instead::Default, Instead::Dropped, Instead::Ignored]),
        ) {
            let problem = match guard {
                Some(guard) => Problem::Guarded(guard.into()),
                None if unknown => Problem::Unknown,
                None => Problem::Unreadable,
            };
            let line = Complaint { name: name.into(), value: value.into(), problem, instead }.to_string();
            prop_assert!(line.len() <= 400, "{} bytes: {}", line.len(), line);
            prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
        }
    }
}
