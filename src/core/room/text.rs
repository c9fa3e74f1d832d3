//! Numbers out of the kernel's texts. Whatever is not as expected is `None`.

/// A line of digits, blanks around it allowed. `None` for anything else, `max` included.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The number behind `name` in a text of lines `name number`, as in memory.stat.
pub(super) fn field(text: &[u8], name: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| number(line.strip_prefix(name)?.strip_prefix(b" ")?))
}

/// The value in bytes behind `name` in a text of lines `name  number kB`, as in /proc/meminfo,
/// whose kB are kibibytes.
pub(super) fn kibibytes(text: &[u8], name: &[u8]) -> Option<u64> {
    let value = lines(text).find_map(|line| line.strip_prefix(name))?;
    number(value.trim_ascii().strip_suffix(b"kB")?)?.checked_mul(1024)
}

/// The lines of a text, without their ends.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMINFO: &[u8] = b"MemTotal:       24684084 kB\nMemFree:        24030900 kB\n\
        MemAvailable:   24312832 kB\nHugePages_Total:       0\n";

    #[test]
    fn reads_meminfo() {
        assert_eq!(kibibytes(MEMINFO, b"MemTotal:"), Some(24_684_084 << 10));
        assert_eq!(kibibytes(MEMINFO, b"MemAvailable:"), Some(24_312_832 << 10));
        assert_eq!(kibibytes(MEMINFO, b"HugePages_Total:"), None);
        assert_eq!(kibibytes(MEMINFO, b"Absent:"), None);
        assert_eq!(kibibytes(b"MemTotal: 18446744073709551615 kB", b"MemTotal:"), None);
    }

    #[test]
    fn reads_fields_by_their_whole_name() {
        let stat = b"inactive_file_x 1\ninactive_file 4096\ntotal_inactive_file 8192\n";
        assert_eq!(field(stat, b"inactive_file"), Some(4096));
        assert_eq!(field(stat, b"total_inactive_file"), Some(8192));
        assert_eq!(field(stat, b"active_file"), None);
    }

    #[test]
    fn reads_numbers_only() {
        assert_eq!(number(b"18446744073709551615\n"), Some(u64::MAX));
        for text in [b"".as_slice(), b"max\n", b"-1\n", b"18446744073709551616", b"1 2"] {
            assert_eq!(number(text), None);
        }
    }

    proptest! {
        #[test]
        fn noise_is_no_danger(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (number(&text), field(&text, b"a"), kibibytes(&text, b"a"));
        }

        #[test]
        fn noise_among_the_words_is_no_danger(
            parts in proptest::collection::vec(
                prop_oneof![Just("MemTotal:"), Just(" kB"), Just("\n"), Just("9999999999"), Just(" "), Just("a ")],
                0..40,
            ),
        ) {
            let text = parts.concat();
            let _ = (number(text.as_bytes()), field(text.as_bytes(), b"a"), kibibytes(text.as_bytes(), b"MemTotal:"));
        }
    }
}
