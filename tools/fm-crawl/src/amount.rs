//! Amounts on the command line: bytes with a unit, lengths of time, numbers of which 0 means "no bound".

use std::time::Duration;

/// Units of bytes, and how many bytes each is. Without a unit it is bytes.
const SIZES: [(&str, u64); 7] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("b", 1),
];

/// Units of time in milliseconds.
const TIMES: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// Reads a number of bytes, at least 1: `500000`, `16MiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) =
        SIZES.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?, *bytes))).unwrap_or((lower.as_str(), 1));
    let bytes =
        number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("`{text}` is no size; write for instance 500000 or 16MiB"))
}

/// Reads a length of time: `500ms`, `30s`, `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let lower = text.trim();
    let ms = TIMES.iter().find_map(|(unit, ms)| lower.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*ms));
    ms.filter(|ms| *ms > 0)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is no length of time; write for instance 500ms, 30s or 2h"))
}

/// Reads requests a second: 0 or more.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1e6).contains(rate));
    rate.ok_or_else(|| {
        format!("`{text}` is no number of requests a second; write for instance 0.5, 1 or 0 for no limit")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_what_is_none_is_refused_with_an_example() {
        assert_eq!((bytes("7"), bytes("16MiB"), bytes("2 kb")), (Ok(7), Ok(16 << 20), Ok(2000)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!((rate("0"), rate("0.5")), (Ok(0.0), Ok(0.5)));
        for bad in ["", "x", "-1", "0", "99999999999999GiB"] {
            assert!(bytes(bad).is_err() && duration(bad).is_err(), "{bad}");
        }
        assert!(rate("-1").is_err() && rate("nan").is_err());
    }
}
