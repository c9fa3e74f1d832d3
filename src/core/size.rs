//! Sizes as users write them and as messages show them. Powers of 1024 throughout, integers only.

use core::fmt;

/// An amount of memory: absolute, or a share of a whole that is known only later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// A share in per cent. [`parse`] yields 1 to 100 only.
    Percent(u8),
}

impl Amount {
    /// The amount in bytes when `whole` (bytes) is the whole. A share is rounded down; an absolute
    /// amount is returned as it is, also when it exceeds the whole.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => {
                let share = u128::from(whole).saturating_mul(u128::from(percent)) / 100;
                u64::try_from(share).unwrap_or(u64::MAX)
            }
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Bytes(bytes) => Human(*bytes).fmt(f),
            Amount::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Digits of a fraction that count; the rest is less than a byte in every unit.
const FRACTION_DIGITS: u32 = 18;

/// Reads `4096`, `64k`, `64m`, `2g`, `1.5g`, `64MiB`, `64MB`, `80%`: letters in either case, blanks
/// around the whole allowed, a fraction only in front of a unit and rounded down to a byte.
///
/// `None`: anything else, more than `u64::MAX` bytes, or a share outside 1 to 100 per cent.
pub fn parse(text: &[u8]) -> Option<Amount> {
    let text = text.trim_ascii();
    if let Some(number) = text.strip_suffix(b"%") {
        let percent = u8::try_from(whole_number(number)?).ok()?;
        return (1..=100).contains(&percent).then_some(Amount::Percent(percent));
    }
    let end = text.iter().position(u8::is_ascii_alphabetic).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let unit = unit(suffix)?;
    let mut parts = number.splitn(2, |&byte| byte == b'.');
    let mut bytes = whole_number(parts.next()?)?.checked_mul(unit)?;
    if let Some(fraction) = parts.next() {
        if unit == 1 {
            return None;
        }
        bytes = bytes.checked_add(fraction_of(fraction, unit)?)?;
    }
    Some(Amount::Bytes(bytes))
}

/// One or more digits and nothing else.
fn whole_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.is_ascii_digit().then(|| byte.wrapping_sub(b'0'))?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// `unit` bytes times the decimal fraction whose digits are given, rounded down.
fn fraction_of(digits: &[u8], unit: u64) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let counted = digits.get(..FRACTION_DIGITS as usize).unwrap_or(digits);
    let numerator = u128::from(whole_number(counted)?);
    let denominator = 10u128.checked_pow(u32::try_from(counted.len()).ok()?)?;
    let bytes = numerator.checked_mul(u128::from(unit))?.checked_div(denominator)?;
    u64::try_from(bytes).ok()
}

/// Bytes of the unit that a suffix names; no suffix and `b` are bytes.
fn unit(suffix: &[u8]) -> Option<u64> {
    let (&first, rest) = match suffix.split_first() {
        None => return Some(1),
        Some(parts) => parts,
    };
    let power = match first.to_ascii_lowercase() {
        b'b' if rest.is_empty() => return Some(1),
        b'k' => 1,
        b'm' => 2,
        b'g' => 3,
        b't' => 4,
        b'p' => 5,
        _ => return None,
    };
    let known = rest.is_empty() || rest.eq_ignore_ascii_case(b"b") || rest.eq_ignore_ascii_case(b"ib");
    known.then(|| 1024u64.checked_pow(power)).flatten()
}

/// Shows bytes for people: `0 B`, `900 B`, `64.0 MiB`, `1.5 GiB`, rounded to the nearest tenth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Human(pub u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut unit = 1u128;
        for name in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
            unit = unit.saturating_mul(1024);
            // In tenths, half a tenth up. 1023.97 KiB is shown as 1.0 MiB, not as 1024.0 KiB.
            let tenths = (u128::from(self.0).saturating_mul(10).saturating_add(unit / 2)) / unit;
            if tenths < 10240 || name == "EiB" {
                return write!(f, "{}.{} {name}", tenths / 10, tenths % 10);
            }
        }
        Ok(())
    }
}

/// Shows bytes as a value for docker's `--shm-size`, rounded up so that it suffices: whole
/// gibibytes as `2g`, all else as `512m`, at least `1m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag(pub u64);

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = self.0.div_ceil(1 << 20).max(1);
        if mebibytes.is_multiple_of(1024) {
            write!(f, "{}g", mebibytes / 1024)
        } else {
            write!(f, "{mebibytes}m")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Option<u64> {
        match parse(text.as_bytes()) {
            Some(Amount::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    #[test]
    fn reads_what_the_contract_lists() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("64k", 64 << 10),
            ("64K", 64 << 10),
            ("64m", 64 << 20),
            ("64MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("64MB", 64 << 20),
            ("2g", 2 << 30),
            ("1.5g", 3 << 29),
            ("0.1k", 102),
            ("3t", 3 << 40),
            ("1p", 1 << 50),
            ("12b", 12),
            (" 64m\n", 64 << 20),
            ("18446744073709551615", u64::MAX),
            // 18 digits of a fraction count: this one is two thousandths of a byte short of 2^64.
            ("16383.999999999999999999999999p", u64::MAX),
        ] {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        assert_eq!(parse(b"80%"), Some(Amount::Percent(80)));
        assert_eq!(parse(b"100%"), Some(Amount::Percent(100)));
    }

    #[test]
    fn refuses_all_else() {
        for text in [
            "",
            " ",
            "k",
            "%",
            "0%",
            "101%",
            "256%",
            "1.5%",
            "-1",
            "+1",
            "1.5",
            "1.5b",
            "64 m",
            "64x",
            "64mm",
            "64mi",
            "64bb",
            "1.g",
            ".5g",
            "1..5g",
            "1.5.5g",
            "0x10",
            "1e3",
            "16384p",
            "18446744073709551616",
            "99999999999999999999999999",
            "6٤m",
            "1_000",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_share_is_rounded_down_and_never_overflows() {
        assert_eq!(Amount::Percent(75).of(64 << 20), 48 << 20);
        assert_eq!(Amount::Percent(1).of(99), 0);
        assert_eq!(Amount::Percent(100).of(u64::MAX), u64::MAX);
        assert_eq!(Amount::Percent(255).of(u64::MAX), u64::MAX);
        assert_eq!(Amount::Bytes(5).of(3), 5);
    }

    #[test]
    fn shows_sizes_for_people() {
        for (bytes, expected) in [
            (0, "0 B"),
            (900, "900 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (64 << 20, "64.0 MiB"),
            (3 << 29, "1.5 GiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            ((1 << 20) - 51, "1.0 MiB"),
            ((1 << 20) - 52, "1023.9 KiB"),
            ((1 << 20) - 103, "1023.9 KiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Human(bytes).to_string(), expected, "{bytes}");
        }
    }

    #[test]
    fn shows_flags_for_docker() {
        for (bytes, expected) in [
            (0, "1m"),
            (1, "1m"),
            (64 << 20, "64m"),
            ((64 << 20) + 1, "65m"),
            (512 << 20, "512m"),
            (1 << 30, "1g"),
            ((1 << 30) - 1, "1g"),
            ((1 << 30) + 1, "1025m"),
            (2 << 30, "2g"),
        ] {
            assert_eq!(Flag(bytes).to_string(), expected, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&text);
        }

        #[test]
        fn plain_numbers_come_back(number in any::<u64>()) {
            prop_assert_eq!(parse(number.to_string().as_bytes()), Some(Amount::Bytes(number)));
        }

        #[test]
        fn a_flag_is_read_back_as_enough(number in 0u64..1 << 50) {
            let flag = Flag(number).to_string();
            let Some(Amount::Bytes(back)) = parse(flag.as_bytes()) else { panic!("{flag}") };
            prop_assert!(back >= number && back - number <= 1 << 20);
        }

        #[test]
        fn shares_stay_below_the_whole(percent in 1u8..=100, whole in any::<u64>()) {
            prop_assert!(Amount::Percent(percent).of(whole) <= whole);
        }

        #[test]
        fn every_amount_is_shown(number in any::<u64>()) {
            let shown = Human(number).to_string();
            prop_assert!(shown.ends_with('B') && shown.len() <= 10, "{}", shown);
        }
    }
}
