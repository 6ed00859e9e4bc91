//! Lines on standard error, and how numbers are put into words.

use std::fmt::Display;
use std::io::{self, Write};

use crate::plain::plain;

/// Says a line on standard error.
pub fn say(words: impl Display) {
    let _ = writeln!(io::stderr(), "{}", plain(words.to_string().as_bytes()));
}

/// Bytes as people read them: `17.3 MB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if scaled < 999.95 {
            break;
        }
        scaled /= 1000.0;
        unit = next;
    }
    format!("{scaled:.1} {unit}")
}

/// A count with its noun: `1 page`, `2 pages`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_carry_a_unit_that_fits() {
        let pairs = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (17_300_000, "17.3 MB"), (999_999, "1.0 MB")];
        for (bytes, words) in pairs {
            assert_eq!(size(bytes), words);
        }
        assert_eq!(size(u64::MAX), "18446.7 PB");
    }

    #[test]
    fn counts_agree_with_their_noun() {
        assert_eq!(count(1, "page"), "1 page");
        assert_eq!(count(0, "page"), "0 pages");
    }
}
