//! Words for people, on standard error; and how numbers are put into words.
//!
//! Nothing here is data, so nothing here may fail the program: a standard error that was closed is ignored. Words carry
//! no character that a terminal would obey, whatever URL is in them.

use std::fmt::Display;
use std::io::{self, Write};

use crate::plain::plain;

/// Says a line on standard error.
pub fn say(words: impl Display) {
    let _ = writeln!(io::stderr(), "{}", plain(words.to_string().as_bytes()));
}

/// Says what went wrong, with the program's name.
pub fn complain(words: impl Display) {
    say(format_args!("fm-crawl: {words}"));
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
    fn sizes_carry_a_unit_that_fits_and_counts_agree_with_their_noun() {
        let pairs = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (17_300_000, "17.3 MB"), (999_999, "1.0 MB")];
        for (bytes, words) in pairs {
            assert_eq!(size(bytes), words);
        }
        assert_eq!((count(1, "page"), count(2, "page")), ("1 page".to_owned(), "2 pages".to_owned()));
    }
}
