//! Times and lengths of time: the one parser of every verb, and how they are printed.
//!
//! A time is milliseconds since 1970 (UTC). Accepted are that number and every date that
//! [`filemap::date`] reads: RFC 3339, a bare date (its first millisecond), and the 14 digits of
//! WARC and CDX files or their first 4, 6, 8, 10 or 12. A number of that many digits is always a
//! date. Every printed time is accepted.
//!
//! A length of time is a number with a unit: `ms`, `s`, `m`, `h`, `d`, `w`, `y` (365.25 days).

use std::time::{Duration, SystemTime};

use crate::amount;

/// Units of time in milliseconds.
const UNITS: [(&str, u64); 7] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
    ("y", 31_557_600_000),
];

/// The furthest time from 1970 that is accepted: about 9,000 years.
const YEARS_MS: i64 = 9_000 * 366 * 86_400_000;

/// Reads a time; the error is a sentence for the user.
pub fn parse(text: &str) -> Result<i64, String> {
    let number = || text.parse::<i64>().ok();
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let time_ms = match text.len() {
        4 | 6 | 8 | 10 | 12 | 14 if digits => filemap::date::parse(&filled(text)),
        _ => number().or_else(|| filemap::date::parse(text)),
    };
    let time_ms = time_ms.filter(|ms| (-YEARS_MS..=YEARS_MS).contains(ms));
    time_ms.ok_or_else(|| {
        format!(
            "`{text}` is not a time; write 2024-05-01T12:00:00Z, 2024-05-01, 20240501120000, or milliseconds since 1970"
        )
    })
}

/// The 14 digits of a shortened stamp: its first second.
fn filled(stamp: &str) -> String {
    format!("{stamp}{}", &"00000101000000"[stamp.len()..])
}

/// Reads a length of time above 0: `500ms`, `30s`, `1.5h`, `90d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let ms = amount::read(text, &UNITS).filter(|ms| *ms > 0);
    ms.map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is not a length of time; write for example 500ms, 30s, 2h or 90d"))
}

/// Reads an age, 0 included, or a time; returns a time.
pub fn past(text: &str) -> Result<i64, String> {
    match amount::read(text, &UNITS).and_then(|age| i64::try_from(age).ok()) {
        Some(age) => Ok(now_ms().saturating_sub(age)),
        None => parse(text).map_err(|_| {
            format!("`{text}` is not an age; write for example 90d, 12h or 2w, or a time such as 2024-05-01T12:00:00Z")
        }),
    }
}

/// Prints a time: RFC 3339 in UTC.
pub fn print(time_ms: i64) -> String {
    filemap::date::format(time_ms)
}

/// The time now, by the system's clock.
pub fn now_ms() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_MS: i64 = 1_714_564_800_000;

    #[test]
    fn every_accepted_form_of_one_moment_reads_alike() {
        let forms = ["1714564800000", "2024-05-01T12:00:00Z", "2024-05-01T14:00:00+02:00", "20240501120000"];
        for form in forms {
            assert_eq!(parse(form), Ok(NOON_MS), "{form}");
        }
        assert_eq!(parse("2024-05-01"), Ok(NOON_MS - 12 * 3_600_000));
        assert_eq!(parse("20240501"), parse("2024-05-01"));
        assert_eq!(parse("202405"), parse("2024-05-01"), "a stamp may be shortened, as CDX files do");
        assert_eq!(parse("2024"), parse("2024-01-01"));
        assert_eq!(parse("202405011200"), Ok(NOON_MS));
        assert_eq!(parse("12345"), Ok(12_345), "any other number is milliseconds");
        assert_eq!(parse("-1"), Ok(-1));
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for time_ms in [0, -1, NOON_MS, NOON_MS + 7] {
            assert_eq!(parse(&print(time_ms)), Ok(time_ms), "{}", print(time_ms));
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_forms_that_are() {
        for bad in
            ["", "yesterday", "20241301000000", "2024-13-01", "12:00", "99999999999999999999", "20240501120000123"]
        {
            assert!(parse(bad).is_err_and(|words| words.contains("2024-05-01T12:00:00Z")), "{bad}");
        }
    }

    #[test]
    fn a_length_of_time_has_a_unit() {
        let rows = [("500ms", 500), ("30s", 30_000), ("2h", 7_200_000), ("1.5 h", 5_400_000), ("90d", 90 * 86_400_000)];
        for (text, ms) in rows {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "x", "0", "0s", "d", "-3d", "90", "2024-05-01", "99999999999999GiB"] {
            assert!(duration(bad).is_err_and(|words| words.contains("90d")), "{bad}");
        }
    }

    #[test]
    fn an_age_counts_back_from_now_and_a_time_is_one() {
        let now = now_ms();
        for (text, age) in [("0s", 0), ("90d", 90 * 86_400_000), ("2w", 14 * 86_400_000), ("12h", 12 * 3_600_000)] {
            let read = past(text).unwrap();
            assert!((now - age..=now - age + 60_000).contains(&read), "{text}");
        }
        assert_eq!(past("2024-05-01"), parse("2024-05-01"));
        for bad in ["", "d", "-3d", "soon", "999999999999999999y"] {
            assert!(past(bad).is_err_and(|words| words.contains("90d")), "{bad}");
        }
    }
}
