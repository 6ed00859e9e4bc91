//! Sizes in bytes: the one parser of every verb, and how they are printed.
//!
//! `kB`, `MB`, `GB`, `TB` and the letters `k`, `m`, `g`, `t` are powers of 1000; `KiB`, `MiB`,
//! `GiB`, `TiB` are powers of 1024. A number without a unit is bytes. Case does not matter, a
//! space may precede the unit, and a number with a unit may have a fraction. Sizes are printed in
//! powers of 1000.

use crate::amount;

/// Units and their bytes.
const UNITS: [(&str, u64); 14] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("b", 1),
    ("", 1),
];

/// Reads a size, 0 included: `500000`, `20GB`, `1.5 GiB`, `1g`. The error is a sentence for the
/// user.
pub fn parse(text: &str) -> Result<u64, String> {
    amount::read(&text.to_ascii_lowercase(), &UNITS)
        .ok_or_else(|| format!("`{text}` is not a size; write for example 500000, 20GB or 1.5GiB"))
}

/// Reads a size above 0.
pub fn parse_positive(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err(format!("`{text}`: the size must be above 0")),
        bytes => Ok(bytes),
    }
}

/// Reads bytes a second, above 0: a size, with or without `/s`.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    parse_positive(text.strip_suffix("/s").unwrap_or(text))
}

/// Bytes for people: `17.3 MB`.
pub fn print(bytes: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_size_is_read() {
        let rows = [
            ("0", 0),
            ("7", 7),
            ("500000", 500_000),
            ("7b", 7),
            ("1k", 1000),
            ("1g", 1_000_000_000),
            ("2 kb", 2000),
            ("500MB", 500_000_000),
            ("2 gb", 2_000_000_000),
            ("20GB", 20_000_000_000),
            ("1.5GB", 1_500_000_000),
            ("0.5t", 500_000_000_000),
            ("16MiB", 16 << 20),
            ("64MiB", 64 << 20),
            ("1.5 GiB", 3 << 29),
            (" 1TiB ", 1 << 40),
        ];
        for (text, bytes) in rows {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for bad in ["", "GB", "MB", "-1", "1.5", "1.5b", "x", "many", "1 parsec", "99999999999TB", "nanGB", "infGB"] {
            assert!(parse(bad).is_err_and(|words| words.contains("20GB")), "{bad}");
        }
    }

    #[test]
    fn a_positive_size_is_not_0_and_a_rate_may_say_per_second() {
        assert!(parse_positive("0").is_err() && parse_positive("0 MB").is_err() && parse_rate("0/s").is_err());
        assert_eq!((parse_rate("50MB/s"), parse_rate("50MB")), (Ok(50_000_000), Ok(50_000_000)));
        assert!(parse_rate("50MB/h").is_err() && parse_positive("99999999999999GiB").is_err());
    }

    #[test]
    fn sizes_are_printed_with_a_unit_that_fits() {
        let pairs = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (17_300_000, "17.3 MB"), (999_999, "1.0 MB")];
        for (bytes, words) in pairs {
            assert_eq!(print(bytes), words);
        }
        assert_eq!(print(u64::MAX), "18446.7 PB");
    }
}
