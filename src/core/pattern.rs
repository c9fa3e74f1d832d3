//! Shell patterns on bytes, for names of segments and programs.
//!
//! `*` any bytes, also none and also a leading dot; `?` one byte; `[a-z]` one of a set, `[!a-z]` or
//! `[^a-z]` one outside it, `]` first in the set meaning itself; `\x` the byte x. A `[` that is not
//! closed means itself. As `fnmatch(3)` without flags in the C locale, without its `[:class:]`
//! forms; a test compares the two.

/// Whether the whole of `name` matches `pattern`.
///
/// Time at most the product of both lengths, for any input; no recursion, no allocation: on a
/// mismatch only the last `*` needs to be tried again, one byte further on.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut at = 0usize;
    let mut read = 0usize;
    // Behind the last `*`, and where in the name what follows it is being tried.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at = at.saturating_add(1);
            star = Some((at, read));
            continue;
        }
        let Some(&byte) = name.get(read) else {
            return at == pattern.len();
        };
        if let Some(next) = one(pattern, at, byte) {
            at = next;
            read = read.saturating_add(1);
        } else if let Some((behind, tried)) = star {
            at = behind;
            read = tried.saturating_add(1);
            star = Some((behind, read));
        } else {
            return false;
        }
    }
}

/// Whether every `[` is closed and no backslash stands alone at the end. Where not, `matches` still has an answer, but hardly
/// the one that was meant.
pub fn is_well_formed(pattern: &[u8]) -> bool {
    let mut at = 0usize;
    while let Some(&byte) = pattern.get(at) {
        at = match byte {
            b'[' => match set(pattern, at.saturating_add(1), 0) {
                Some((end, _)) => end,
                None => return false,
            },
            b'\\' if at.saturating_add(1) == pattern.len() => return false,
            b'\\' => at.saturating_add(2),
            _ => at.saturating_add(1),
        };
    }
    true
}

/// Matches one byte against the element of the pattern at `at` (not a `*`): where the next
/// element starts, or `None` for no match or the end of the pattern.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    let next = at.saturating_add(1);
    match *pattern.get(at)? {
        b'?' => Some(next),
        // A lone backslash at the end matches nothing, as in fnmatch.
        b'\\' => (*pattern.get(next)? == byte).then_some(next.saturating_add(1)),
        b'[' => match set(pattern, next, byte) {
            Some((end, true)) => Some(end),
            Some((_, false)) => None,
            None => (byte == b'[').then_some(next),
        },
        literal => (literal == byte).then_some(next),
    }
}

/// Reads the set whose first byte is at `start`: the position behind its `]`, and whether `byte`
/// belongs to it. `None`: it is not closed.
fn set(pattern: &[u8], start: usize, byte: u8) -> Option<(usize, bool)> {
    let outside = matches!(pattern.get(start), Some(b'!' | b'^'));
    let mut at = if outside { start.saturating_add(1) } else { start };
    let first = at;
    let mut found = false;
    loop {
        if *pattern.get(at)? == b']' && at != first {
            return Some((at.saturating_add(1), found != outside));
        }
        let (low, next) = member(pattern, at)?;
        let (high, next) = match (pattern.get(next), pattern.get(next.saturating_add(1))) {
            // A `-` in front of the closing bracket means itself.
            (Some(b'-'), Some(&end)) if end != b']' => member(pattern, next.saturating_add(1))?,
            _ => (low, next),
        };
        found |= (low..=high).contains(&byte);
        at = next;
    }
}

/// One byte of a set, a backslash in front of it taken away, and where the next one starts.
fn member(pattern: &[u8], at: usize) -> Option<(u8, usize)> {
    match *pattern.get(at)? {
        b'\\' => {
            let at = at.saturating_add(1);
            Some((*pattern.get(at)?, at.saturating_add(1)))
        }
        byte => Some((byte, at.saturating_add(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;
    use proptest::prelude::*;
    use std::ffi::CString;

    #[test]
    fn knows_every_form() {
        for (pattern, name) in [
            ("", ""),
            ("*", ""),
            ("*", ".org.chromium.Xy"),
            ("torch_*", "torch_12_34"),
            ("PostgreSQL.*", "PostgreSQL.1804289383"),
            ("p?m_*", "psm_0a1b"),
            ("a*b*c", "a-b-b-c"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[^a-c]x", "dx"),
            ("[]a]", "]"),
            ("[!]a]", "b"),
            ("[a-]", "-"),
            ("[", "["),
            ("a[b", "a[b"),
            (r"\*", "*"),
            (r"[\]]", "]"),
            (r"a\:b", "a:b"),
            ("**", "x"),
            ("[\u{e0}]*", "\u{e0}"),
        ] {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("?", ""),
            ("torch_*", "xtorch_1"),
            ("torch_", "torch_1"),
            ("a*b*c", "a-c-b"),
            ("[a-c]x", "dx"),
            ("[c-a]", "b"),
            ("[!a]", "a"),
            (r"\", "\\"),
            (r"\*", "x"),
        ] {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let name = [b'a'; 255];
        let pattern = b"*a".repeat(120);
        assert!(matches(&pattern, &name));
        let pattern = [pattern.as_slice(), b"*b"].concat();
        assert!(!matches(&pattern, &name));
    }

    /// The C library's answer; tests never call setlocale, so it works on bytes.
    #[allow(unsafe_code)]
    fn fnmatch(pattern: &[u8], name: &[u8]) -> bool {
        let pattern = CString::new(pattern).expect("no NUL in the alphabet");
        let name = CString::new(name).expect("no NUL in the alphabet");
        // SAFETY: both are NUL-terminated strings that live through the call.
        unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn agrees_with_fnmatch(
            pattern in r"(a|b|\*|\?|\[ab\]|\[a-b\]|\[!a\]|\[!a-b\]|\\\*|\\a|-|\]){0,9}",
            name in r"[abc!^*?\[\]\\-]{0,7}",
        ) {
            prop_assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                fnmatch(pattern.as_bytes(), name.as_bytes())
            );
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_danger(
            pattern in proptest::collection::vec(any::<u8>(), 0..64),
            name in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let _ = matches(&pattern, &name);
        }
    }
}
