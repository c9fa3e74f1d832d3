//! Text made on the stack: a line that stops growing when it is full, never an allocation, never a panic.

use std::fmt;

/// A line of at most `N` bytes.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Text<N> {
    /// An empty line.
    pub const fn new() -> Self {
        Text { bytes: [0; N], length: 0 }
    }

    /// Adds formatted text; what does not fit is cut off.
    pub fn add(&mut self, arguments: fmt::Arguments<'_>) {
        let _ = fmt::write(self, arguments);
    }

    /// Adds bytes as they are; what does not fit is cut off.
    pub fn add_bytes(&mut self, more: &[u8]) {
        let room = N.saturating_sub(self.length);
        let take = more.len().min(room);
        if let (Some(place), Some(source)) = (self.bytes.get_mut(self.length..self.length + take), more.get(..take)) {
            place.copy_from_slice(source);
            self.length += take;
        }
    }

    /// Everything added so far.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }

    /// Everything added so far as text; bytes that are not UTF-8 end it.
    pub fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes()) {
            Ok(text) => text,
            Err(error) => {
                self.bytes().get(..error.valid_up_to()).and_then(|good| std::str::from_utf8(good).ok()).unwrap_or("")
            }
        }
    }

    /// Was anything cut off, or is the line exactly full?
    pub fn is_full(&self) -> bool {
        self.length == N
    }

    /// Shortens the line to `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.add_bytes(more.as_bytes());
        Ok(())
    }
}

/// Bytes of a name that somebody else chose, printable in a message: control bytes, quotes and what is not ASCII as `\xNN`.
pub struct Printable<'a>(pub &'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for byte in self.0 {
            match byte {
                b' '..=b'~' if *byte != b'"' && *byte != b'\\' => f.write_char(char::from(*byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}
