//! Converts dates of WARC and JSON Lines (ISO 8601, UTC) to and from times.
//!
//! Parsing is total: any text yields a time or `None`. The calendar is the proleptic Gregorian
//! one, by Howard Hinnant's `days_from_civil` and `civil_from_days`.

mod mend;

pub use mend::{DateRule, mend};

const DAY_MS: i64 = 86_400_000;
/// The first millisecond of the year 0, and the last of the year 9999.
const FIRST_MS: i64 = -62_167_219_200_000;
const LAST_MS: i64 = 253_402_300_799_999;

/// Parses `2017-03-06T04:03:53Z`, also with fractions of a second (truncated to ms), with an
/// offset such as `+01:00`, or with less precision (`2017`, `2017-03`, `2017-03-06`,
/// `2017-03-06T04:03Z`), and the fourteen digits of older archives.
///
/// ```
/// assert_eq!(filemap::date::parse("2017-03-06T05:04:03.5+01:00"), Some(1_488_773_043_500));
/// ```
pub fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let of = |from: usize, to: usize| text[from..to].parse().ok();
        return compose([of(0, 4)?, of(4, 6)?, of(6, 8)?, of(8, 10)?, of(10, 12)?, of(12, 14)?], 0, 0);
    }
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text.trim_end_matches(['Z', 'z']), None),
    };
    let mut fields = [0, 1, 1, 0, 0, 0];
    let widths = [4, 2, 2];
    let parts: Vec<&str> = date.split('-').collect();
    if parts.len() > widths.len() {
        return None;
    }
    for (at, part) in parts.iter().enumerate() {
        fields[at] = digits(part, widths[at])?;
    }
    let Some(time) = time else { return compose(fields, 0, 0) };
    let (clock, offset_minutes) = split_zone(time)?;
    let (clock, fraction) = clock.split_once('.').map_or((clock, ""), |(clock, fraction)| (clock, fraction));
    let parts: Vec<&str> = clock.split(':').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    for (at, part) in parts.iter().enumerate() {
        fields[3 + at] = digits(part, 2)?;
    }
    compose(fields, millis(fraction)?, offset_minutes)
}

/// Formats as `2017-03-06T04:03:53Z`, with milliseconds as `.123` before the `Z` unless they are
/// 0. Years after 9999 or before 0 have a sign, as in ISO 8601.
///
/// ```
/// assert_eq!(filemap::date::format(1_488_773_043_500), "2017-03-06T04:04:03.500Z");
/// ```
pub fn format(time_ms: i64) -> String {
    let (days, of_day) = (time_ms.div_euclid(DAY_MS), time_ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil_from_days(days);
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let year = if (0..=9999).contains(&year) { format!("{year:04}") } else { format!("{year:+05}") };
    let fraction = if ms == 0 { String::new() } else { format!(".{ms:03}") };
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Formats as the fourteen digits of archives' indexes (`20170306040353`), for the nearest time
/// with a year of four digits.
///
/// ```
/// assert_eq!(filemap::date::stamp(1_488_773_043_500), "20170306040403");
/// ```
pub fn stamp(time_ms: i64) -> String {
    let text = format(time_ms.clamp(FIRST_MS, LAST_MS));
    text.bytes().take(19).filter(u8::is_ascii_digit).map(char::from).collect()
}

/// Returns whether [`format()`] yields a year of four digits, which [`parse`] and other programs
/// can read.
pub(crate) fn has_four_digit_year(time_ms: i64) -> bool {
    (FIRST_MS..=LAST_MS).contains(&time_ms)
}

/// The nearest time whose year has four digits.
pub(crate) fn nearest_with_four_digit_year(time_ms: i64) -> i64 {
    time_ms.clamp(FIRST_MS, LAST_MS)
}

fn digits(text: &str, width: usize) -> Option<i64> {
    let fits = text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

fn millis(fraction: &str) -> Option<i64> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut value = 0;
    for at in 0..3 {
        value = value * 10 + i64::from(fraction.as_bytes().get(at).map_or(0, |byte| byte - b'0'));
    }
    Some(value)
}

/// The time of day, and its offset from UTC in minutes; 0 without a zone.
fn split_zone(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let zone = time[at + 1..].replace(':', "");
    let minutes = digits(zone.get(..2)?, 2)? * 60 + digits(zone.get(2..)?, 2)?;
    Some((&time[..at], if time.as_bytes()[at] == b'-' { -minutes } else { minutes }))
}

fn compose(fields: [i64; 6], ms: i64, offset_minutes: i64) -> Option<i64> {
    let [year, month, day, hour, minute, second] = fields;
    let last = days_in_month(year, month)?;
    if !(1..=last).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let of_day = ((hour * 60 + minute - offset_minutes) * 60 + second) * 1000 + ms;
    Some(days_from_civil(year, month, day) * DAY_MS + of_day)
}

/// The time `months` calendar months earlier. If that month lacks the day, uses its last day.
pub(crate) fn months_before(time_ms: i64, months: i64) -> i64 {
    let (days, of_day) = (time_ms.div_euclid(DAY_MS), time_ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil_from_days(days);
    let months = year * 12 + month - 1 - months;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let day = days_in_month(year, month).map_or(day, |last| day.min(last));
    days_from_civil(year, month, day) * DAY_MS + of_day
}

/// Number of days in a month; `None` for an invalid month.
pub(crate) fn days_in_month(year: i64, month: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    days.get(usize::try_from(month).ok()?.checked_sub(1)?).copied()
}

/// Month and day of a day of the year, counted from 1; `None` if the year has no such day.
fn month_and_day(year: i64, day_of_year: i64) -> Option<(i64, i64)> {
    let (found, month, day) = civil_from_days(days_from_civil(year, 1, 1) + day_of_year - 1);
    (found == year && day_of_year >= 1).then_some((month, day))
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_of_warc_files_are_read() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("2017-03-06T04:03:53Z", 1_488_773_033_000),
            ("2017-03-06T04:03:53.123456789Z", 1_488_773_033_123),
            ("2017-03-06T05:03:53+01:00", 1_488_773_033_000),
            ("20170306040353", 1_488_773_033_000),
            ("2016-02-29", 1_456_704_000_000),
            ("2016", 1_451_606_400_000),
            ("1969-12-31T23:59:59.999Z", -1),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_nothing() {
        for text in
            ["", "yesterday", "2017-02-29", "2017-13-01", "2017-03-06T", "2017-03-06T24:00Z", "2017-03-06T04:03:53+"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_stamp_has_fourteen_digits_whatever_the_year() {
        assert_eq!(stamp(1_488_773_033_999), "20170306040353");
        assert_eq!(stamp(i64::MIN), "00000101000000");
        assert_eq!(stamp(i64::MAX), "99991231235959");
        assert!(!has_four_digit_year(LAST_MS + 1) && has_four_digit_year(FIRST_MS));
    }

    proptest! {
        #[test]
        fn a_written_date_reads_back(time_ms in FIRST_MS..=LAST_MS) {
            prop_assert_eq!(parse(&format(time_ms)), Some(time_ms));
        }

        #[test]
        fn any_text_is_a_date_or_nothing(text in "\\PC*", time_ms: i64) {
            let _ = parse(&text);
            let _ = format(time_ms);
        }
    }
}
