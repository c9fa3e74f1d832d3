//! One event, one JSON line, made on the stack. `docs/log.md` describes the fields; `shmguard report` reads them.

use std::fmt::Display;

use crate::process::Owner;
use crate::text::Text;

/// Longest line of the log, in bytes. A field that does not fit is left out, so that the line stays JSON.
pub const LINE: usize = 1536;

/// A JSON object that is being written. Its methods take it by reference: there are stacks of 16 KiB.
pub struct Event {
    text: Text<LINE>,
    /// Length up to which the text is whole: everything after a field that did not fit is dropped.
    whole: usize,
}

impl Event {
    /// Begins an event of this kind: time, process and kind are in every line.
    pub fn new(kind: &str, of: &Owner, command: &[u8]) -> Event {
        let now = crate::raw::clock(libc::CLOCK_REALTIME);
        let mut event = Event { text: Text::new(), whole: 0 };
        event.text.add(format_args!("{{\"t\":{}.{:06}", now.tv_sec, now.tv_nsec / 1000));
        event.whole = event.text.bytes().len();
        event
            .word("ev", kind)
            .number("pid", of.pid as u64)
            .number("start", of.start)
            .number("ppid", of.parent as u64)
            .bytes("comm", command);
        event
    }

    /// Adds a number.
    pub fn number(&mut self, name: &str, value: u64) -> &mut Event {
        self.add(format_args!(",\"{name}\":{value}"))
    }

    /// Adds a number if it is known.
    pub fn maybe(&mut self, name: &str, value: Option<u64>) -> &mut Event {
        match value {
            Some(value) => self.number(name, value),
            None => self,
        }
    }

    /// Adds a word of ours (no escaping needed).
    pub fn word(&mut self, name: &str, value: &str) -> &mut Event {
        self.bytes(name, value.as_bytes())
    }

    /// Adds true or false.
    pub fn flag(&mut self, name: &str, value: bool) -> &mut Event {
        self.add(format_args!(",\"{name}\":{value}"))
    }

    /// Adds a string that somebody else chose. Bytes that are not UTF-8 become U+FFFD.
    pub fn bytes(&mut self, name: &str, value: &[u8]) -> &mut Event {
        self.add(format_args!(",\"{name}\":\"{}\"", Escaped(value)))
    }

    fn add(&mut self, arguments: std::fmt::Arguments<'_>) -> &mut Event {
        // Two bytes are kept for the closing brace and the newline.
        self.text.add(arguments);
        if self.text.bytes().len() <= LINE - 2 {
            self.whole = self.text.bytes().len();
        } else {
            self.text.truncate(self.whole);
        }
        self
    }

    /// The finished line without a newline.
    pub fn finish(&mut self) -> &str {
        self.text.truncate(self.whole);
        self.text.add_bytes(b"}");
        self.text.as_str()
    }
}

/// A string inside JSON quotes (RFC 8259, section 7).
struct Escaped<'a>(&'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '"' | '\\' => write!(f, "\\{character}")?,
                    control if control < ' ' || control == '\u{7f}' => write!(f, "\\u{:04x}", control as u32)?,
                    other => f.write_char(other)?,
                }
            }
            if !chunk.invalid().is_empty() {
                f.write_char('\u{fffd}')?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_strings_are_escaped() {
        let mut event = Event::new("create", &Owner::default(), b"a\"b\\c\n\x7f\xff");
        let line = event.number("bytes", 7).finish();
        assert!(line.contains(r#""comm":"a\"b\\c\u000a\u007f�""#), "{line}");
        assert!(line.ends_with("\"bytes\":7}"));
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let mut event = Event::new("create", &Owner::default(), b"x");
        let line = event.bytes("long", &[b'n'; LINE]).number("bytes", 7).finish();
        assert!(!line.contains("long"));
        assert!(line.ends_with("\"bytes\":7}"));
    }
}
