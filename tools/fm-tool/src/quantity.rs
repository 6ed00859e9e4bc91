//! Amounts on the command line: bytes with a unit, and how long ago.

use std::time::Duration;

use crate::time;

/// Units of bytes, and how many bytes each is. Without a unit it is bytes.
const SIZES: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

/// Units of time, in milliseconds.
const AGES: [(&str, i64); 6] =
    [("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000), ("y", 31_557_600_000)];

/// Reads a number of bytes: `500000`, `20GB`, `1.5 GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, unit) =
        SIZES.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?, *bytes))).unwrap_or((lower.as_str(), 1));
    let number = number.trim();
    let whole = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    let part = || number.parse::<f64>().ok().filter(|n| unit > 1 && *n >= 0.0).map(|n| n * unit as f64);
    whole
        .or_else(|| part().filter(|n| *n < u64::MAX as f64).map(|n| n as u64))
        .ok_or_else(|| format!("`{text}` is no size; write for instance 500000, 20GB or 1.5GiB"))
}

/// Reads a length of time: `90d`, `12h`, `2w`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let ms = age_ms(text).and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
    ms.map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is no length of time; write for instance 90d, 12h or 2w"))
}

fn age_ms(text: &str) -> Option<i64> {
    let (number, ms) = AGES.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, *ms)))?;
    number.trim().parse::<i64>().ok().filter(|n| *n >= 0)?.checked_mul(ms)
}

/// Reads how long ago, or a time: milliseconds since 1970.
pub fn past(text: &str) -> Result<i64, String> {
    match age_ms(text) {
        Some(age) => Ok(time::now_ms().saturating_sub(age)),
        None => time::parse(text).map_err(|_| {
            format!("`{text}` is no age; write for instance 90d, 12h or 2w, or a time as 2024-05-01T12:00:00Z")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let rows = [("0", 0), ("500000", 500_000), ("20GB", 20_000_000_000), ("1.5 GiB", 3 << 29), ("7b", 7)];
        for (text, value) in rows {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for bad in ["", "GB", "-1", "1.5", "many", "99999999999TB", "nanGB", "infGB"] {
            assert!(bytes(bad).is_err_and(|words| words.contains("20GB")), "{bad}");
        }
    }

    #[test]
    fn a_length_of_time_has_a_unit() {
        assert_eq!(duration("90d"), Ok(Duration::from_secs(90 * 86_400)));
        for bad in ["", "0s", "d", "-3d", "90", "2024-05-01"] {
            assert!(duration(bad).is_err_and(|words| words.contains("90d")), "{bad}");
        }
    }

    #[test]
    fn an_age_counts_back_from_now_and_a_time_is_one() {
        let now = time::now_ms();
        for (text, age) in [("0s", 0), ("90d", 90 * 86_400_000), ("2w", 14 * 86_400_000), ("12h", 12 * 3_600_000)] {
            let read = past(text).unwrap();
            assert!((now - age..=now - age + 60_000).contains(&read), "{text}");
        }
        assert_eq!(past("2024-05-01"), time::parse("2024-05-01"));
        for bad in ["", "d", "-3d", "soon", "999999999999999999y"] {
            assert!(past(bad).is_err_and(|words| words.contains("90d")), "{bad}");
        }
    }
}
