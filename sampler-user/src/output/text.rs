//! Names and numbers as people read them: names of measured programs made harmless, digits grouped.
//!
//! It doesn't lay out anything; `table` does.

use std::fmt::Write;

/// A name that a measured program chose, fit to be shown: what could move the cursor, reorder the
/// line, be invisible, or is no UTF-8 is written as `\x1b`, `\xff` or `\u{200b}`, and a backslash
/// as `\\`, so that no two names look the same. Wide characters are kept.
pub fn escape(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        chunk.valid().chars().for_each(|character| escape_char(character, &mut text));
        chunk.invalid().iter().for_each(|&byte| escape_byte(byte, &mut text));
    }
    text
}

/// A whole number with its digits in groups of three: `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds as milliseconds: `4,083.12 ms`.
pub fn nanos(ns: u64) -> String {
    format!("{} ms", millis(ns))
}

/// Nanoseconds as a number of milliseconds, for where the unit stands elsewhere: `4,083.12`.
pub fn millis(ns: u64) -> String {
    hundredths(ns, 10_000)
}

/// Nanoseconds as seconds: `5.00 s`.
pub fn seconds(ns: u64) -> String {
    format!("{} s", hundredths(ns, 10_000_000))
}

/// A number with two decimals, given what one in the last place is, rounded half up.
fn hundredths(number: u64, one: u64) -> String {
    let rounded = number / one + u64::from(number % one >= one / 2);
    format!("{}.{:02}", thousands(rounded / 100), rounded % 100)
}

fn escape_char(character: char, text: &mut String) {
    match character {
        '"' | '\'' => text.push(character),
        '\0'..='\x1f' | '\x7f' => escape_byte(character as u8, text),
        // Letters to Unicode, but drawn as nothing: the fillers of Hangul.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => {
            text.extend(character.escape_unicode());
        }
        // Keeps what can be seen; not controls, marks, spaces other than ' ' or unassigned code.
        _ => text.extend(character.escape_debug()),
    }
}

fn escape_byte(byte: u8, text: &mut String) {
    // Writing to a string does not fail.
    let _ = write!(text, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_they_are() {
        for name in ["busy-0", "kworker/0:1H", "線程", "naïve", "a b", "it's \"it\"", ""] {
            assert_eq!(escape(name.as_bytes()), name);
        }
    }

    #[test]
    fn names_that_could_do_harm() {
        for (name, shown) in [
            (b"\x1b[2J".as_slice(), r"\x1b[2J"),
            (b"a\nb\tc\r", r"a\x0ab\x09c\x0d"),
            (b"\x7f\x00", r"\x7f\x00"),
            (b"\xff\xfe ok", r"\xff\xfe ok"),
            (b"cut \xe7\xb7", r"cut \xe7\xb7"),
            (b"\\x1b", r"\\x1b"),
            ("a\u{200b}b\u{feff}".as_bytes(), r"a\u{200b}b\u{feff}"),
            ("\u{202e}exe.txt".as_bytes(), r"\u{202e}exe.txt"),
            ("\u{2066}\u{200f}".as_bytes(), r"\u{2066}\u{200f}"),
            ("\u{9b}2J".as_bytes(), r"\u{9b}2J"),
            ("e\u{301}\u{fe0f}".as_bytes(), r"e\u{301}\u{fe0f}"),
            ("\u{a0}\u{3164}\u{ad}".as_bytes(), r"\u{a0}\u{3164}\u{ad}"),
            ("\u{2028}\u{e0041}".as_bytes(), r"\u{2028}\u{e0041}"),
        ] {
            assert_eq!(escape(name), shown);
        }
    }

    #[test]
    fn digits_in_groups() {
        let numbers = [0, 999, 1_000, 12_345, 123_456, 1_234_567, u64::MAX];
        assert_eq!(
            numbers.map(thousands),
            ["0", "999", "1,000", "12,345", "123,456", "1,234,567", "18,446,744,073,709,551,615"]
        );
    }

    #[test]
    fn times_are_rounded_half_up() {
        assert_eq!(nanos(4_083_124_999), "4,083.12 ms");
        assert_eq!(nanos(4_083_125_000), "4,083.13 ms");
        assert_eq!(nanos(999_995), "1.00 ms");
        assert_eq!(nanos(u64::MAX), "18,446,744,073,709.55 ms");
        assert_eq!(seconds(5_004_999_999), "5.00 s");
        assert_eq!(seconds(3_725_000_000_000), "3,725.00 s");
    }
}
