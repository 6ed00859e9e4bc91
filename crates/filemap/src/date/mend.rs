//! Times of invalid dates.
//!
//! Archives contain dates that no strict parser accepts. A page is never dropped for that: the
//! first of these rules that yields a time is used, and the import reports it.
//!
//! | rule | when | time |
//! |---|---|---|
//! | `day-of-year` | the day is a day of the year (ClueWeb09: `2008-10-294T05:21:46-0700`) | that day |
//! | `repaired` | the numbers are in another format | each clamped to its range; UTC without a zone |
//! | `http-date` | the response has a valid `Date` header | the time of that header |
//! | `neighbour` | an earlier record of the file has a date | the time of the last such record |
//! | `none` | otherwise | 1970-01-01T00:00:00Z |
//!
//! `repaired` accepts: other separators or none, single digits, `24:00`, days and hours out of
//! range, text after the date, dates of HTTP and e-mail (`Mon, 06 Mar 2017 04:02:06 GMT`,
//! `06-Mar-17`, `Mar 6 2017`), twelve to eighteen digits, and seconds or milliseconds since 1970.
//!
//! Invariant: the time depends on the file only, so a repeated import finds the same page.

use std::fmt;

use super::{compose, days_in_month, month_and_day};

filemap_io::named_enum! {
    /// The rule that yielded the time of an invalid date.
    ///
    /// ```
    /// use filemap::date::{DateRule, mend, parse};
    ///
    /// let day_294 = "2008-10-294T05:21:46-0700";
    /// assert_eq!((parse(day_294), mend(day_294)), (None, Some((1_224_505_306_000, DateRule::DayOfYear))));
    /// assert_eq!(DateRule::DayOfYear.to_string(), "day-of-year");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum DateRule {
        /// The day is a day of the year.
        DayOfYear => "day-of-year",
        /// Numbers in another format, or out of range.
        Repaired => "repaired",
        /// The `Date` header of the response.
        HttpDate => "http-date",
        /// The date of an earlier record.
        Neighbour => "neighbour",
        /// The start of 1970.
        None => "none",
    }
}

impl fmt::Display for DateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// The time of a text that [`super::parse`] rejects, by the rule `day-of-year` or `repaired`. Its
/// year has four digits.
pub fn mend(text: &str) -> Option<(i64, DateRule)> {
    let (time_ms, rule) = mended(text)?;
    Some((super::nearest_with_four_digit_year(time_ms), rule))
}

fn mended(text: &str) -> Option<(i64, DateRule)> {
    let text = text.trim();
    if text.len() > 100 || !text.is_ascii() {
        return None;
    }
    if let Some(time_ms) = super::parse(text) {
        return Some((time_ms, DateRule::Repaired));
    }
    if let Some(time_ms) = since_1970(text) {
        return Some((time_ms, DateRule::Repaired));
    }
    let words = text.to_ascii_lowercase();
    let month = words.split(|sign: char| !sign.is_ascii_alphabetic()).find_map(month_of);
    match month {
        Some(month) => worded(&words, month).map(|time_ms| (time_ms, DateRule::Repaired)),
        None => numbered(&words),
    }
}

/// Nine or ten digits that are not a date are seconds since 1970, thirteen are milliseconds.
fn since_1970(text: &str) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let is_date = matches!(text.get(4..6), Some(month) if ("01"..="12").contains(&month));
    let is_day = text.len() < 8 || matches!(text.get(6..8), Some(day) if ("01"..="31").contains(&day));
    match text.len() {
        9 => text.parse::<i64>().ok().map(|seconds| seconds * 1000),
        10 if !(is_date && is_day) => text.parse::<i64>().ok().map(|seconds| seconds * 1000),
        13 if !(is_date && is_day) => text.parse().ok(),
        _ => None,
    }
}

fn month_of(word: &str) -> Option<i64> {
    MONTHS.iter().position(|name| word.starts_with(name)).map(|month| month as i64 + 1)
}

/// A date with the name of a month: a day, a year, and perhaps a time.
fn worded(text: &str, month: i64) -> Option<i64> {
    let (mut day, mut year, mut clock, mut offset) = (None, None, [0; 3], 0);
    for word in text.split([' ', ',', '\t']).flat_map(split_dashes) {
        if word.contains(':') {
            let mut parts = word.split(':').map(|part| part.parse::<i64>().unwrap_or(0));
            clock.iter_mut().for_each(|field| *field = parts.next().unwrap_or(0));
        } else if word.starts_with(['+', '-']) && year.is_some() {
            offset = zone_minutes(word).unwrap_or(0);
        } else if let Some(number) = word.parse::<i64>().ok().filter(|_| word.bytes().all(|b| b.is_ascii_digit())) {
            match (word.len(), day) {
                (1 | 2, None) => day = Some(number),
                (2, Some(_)) if year.is_none() => year = Some(if number < 70 { 2000 + number } else { 1900 + number }),
                (4, _) if year.is_none() => year = Some(number),
                _ => {}
            }
        }
    }
    ranged([year?, month, day?, clock[0], clock[1], clock[2]], 0, offset)
}

/// Splits `06-Mar-17` into three words; a zone such as `-0700` stays one.
fn split_dashes(word: &str) -> impl Iterator<Item = &str> {
    let is_zone = word.starts_with(['+', '-']);
    word.split(move |sign| sign == '-' && !is_zone).filter(|word| !word.is_empty())
}

/// A numeric date, with any separators or none.
fn numbered(text: &str) -> Option<(i64, DateRule)> {
    let (text, offset) = split_zone(text);
    let mut groups: Vec<&str> = Vec::new();
    for group in text.split(|sign: char| !sign.is_ascii_digit()).filter(|group| !group.is_empty()) {
        split_group(group, &mut groups);
    }
    let year = groups.first().filter(|year| year.len() == 4)?;
    let number = |at: usize, otherwise: i64| {
        groups.get(at).map_or(otherwise, |group| group.get(..4).unwrap_or(group).parse().unwrap_or(otherwise))
    };
    let year: i64 = year.parse().ok()?;
    let fields = [year, number(1, 1), number(2, 1), number(3, 0), number(4, 0), number(5, 0)];
    let ms = groups.get(6).map_or(0, |group| super::millis(group).unwrap_or(0));
    let day_text = groups.get(2).map_or(0, |group| group.len());
    let (month, day) = (fields[1], fields[2]);
    if day > days_in_month(year, month).unwrap_or(0)
        && let Some((real_month, real_day)) = month_and_day(year, day)
        && (real_month == month || day_text == 3)
    {
        let fields = [year, real_month, real_day, fields[3], fields[4], fields[5]];
        return ranged(fields, ms, offset).map(|time_ms| (time_ms, DateRule::DayOfYear));
    }
    ranged(fields, ms, offset).map(|time_ms| (time_ms, DateRule::Repaired))
}

/// Splits digits without separators, such as `20170306` and `040206`.
fn split_group<'a>(group: &'a str, groups: &mut Vec<&'a str>) {
    let mut rest = group;
    let widths: &[usize] = match (groups.len(), group.len()) {
        (0, 5..) => &[4, 2, 2, 2, 2, 2],
        (3, 3..) => &[2, 2, 2],
        _ => &[],
    };
    for &width in widths {
        if rest.len() <= width {
            break;
        }
        let (field, after) = rest.split_at(width);
        groups.push(field);
        rest = after;
    }
    groups.push(rest);
}

/// Splits off a zone such as `-0700` after the time; returns the text before it, and the zone in
/// minutes.
fn split_zone(text: &str) -> (&str, i64) {
    let clock = text.find([':', 't']).unwrap_or(text.len());
    match text[clock..].rfind(['+', '-']).map(|at| clock + at) {
        Some(at) => (&text[..at], zone_minutes(&text[at..]).unwrap_or(0)),
        None => (text, 0),
    }
}

fn zone_minutes(zone: &str) -> Option<i64> {
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    let minutes = match digits.len() {
        1 | 2 => digits.parse::<i64>().ok()? * 60,
        4 => digits[..2].parse::<i64>().ok()? * 60 + digits[2..].parse::<i64>().ok()?,
        _ => return None,
    };
    (minutes <= 24 * 60).then_some(if zone.starts_with('-') { -minutes } else { minutes })
}

/// The time of fields clamped to their ranges; `24:00` is the start of the next day.
fn ranged(fields: [i64; 6], ms: i64, offset_minutes: i64) -> Option<i64> {
    let [year, month, day, hour, minute, second] = fields;
    let month = month.clamp(1, 12);
    let day = day.clamp(1, days_in_month(year, month)?);
    let is_midnight = hour == 24 && minute == 0 && second == 0;
    let clock = if is_midnight { [0, 0, 0] } else { [hour.min(23), minute.min(59), second.min(60)] };
    let time_ms = compose([year, month, day, clock[0], clock[1], clock[2]], ms, offset_minutes)?;
    Some(time_ms + if is_midnight { super::DAY_MS } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::format;
    use proptest::prelude::*;

    #[test]
    fn clueweb09s_days_are_those_of_the_year() {
        for (text, expected) in [
            ("2008-10-294T05:21:46-0700", "2008-10-20T12:21:46Z"),
            ("2009-03-65T08:43:19-0800", "2009-03-06T16:43:19Z"),
            ("2009-02-32T00:00:00-0800", "2009-02-01T08:00:00Z"),
            ("2008-12-366T00:00:00Z", "2008-12-31T00:00:00Z"),
        ] {
            let (time_ms, rule) = mend(text).expect(text);
            assert_eq!((format(time_ms).as_str(), rule), (expected, DateRule::DayOfYear), "{text}");
        }
        // In January the day of the year is the day of the month.
        assert_eq!(crate::date::parse("2009-01-05T08:00:00-0800").map(format).as_deref(), Some("2009-01-05T16:00:00Z"));
    }

    #[test]
    fn every_broken_date_gives_a_time_by_a_named_rule() {
        for (text, expected) in [
            ("2017-3-6T4:2:6Z", "2017-03-06T04:02:06Z"),
            ("2017/03/06 04:02:06", "2017-03-06T04:02:06Z"),
            ("2017.03.06 04.02.06", "2017-03-06T04:02:06Z"),
            ("2017-03-06_04-02-06", "2017-03-06T04:02:06Z"),
            ("20170306T040206Z", "2017-03-06T04:02:06Z"),
            ("2017-03-06T040206Z", "2017-03-06T04:02:06Z"),
            ("20170306 04:02", "2017-03-06T04:02:00Z"),
            ("201703060402", "2017-03-06T04:02:00Z"),
            ("20170306040206123", "2017-03-06T04:02:06.123Z"),
            ("201404010000000000", "2014-04-01T00:00:00Z"),
            ("2017-03-06T04:02:06,5Z", "2017-03-06T04:02:06.500Z"),
            ("2017-03-06T04:02:06Z garbage", "2017-03-06T04:02:06Z"),
            ("2017-03-06T04:02:06 GMT", "2017-03-06T04:02:06Z"),
            ("2017-03-06T04:02:06-08", "2017-03-06T12:02:06Z"),
            ("2017-03-06T04:02:06+", "2017-03-06T04:02:06Z"),
            ("2017-03-06T24:00:00Z", "2017-03-07T00:00:00Z"),
            ("2017-03-06T25:61:61Z", "2017-03-07T00:00:00Z"),
            ("2017-02-30T00:00:00Z", "2017-02-28T00:00:00Z"),
            ("2017-00-00T00:00:00Z", "2017-01-01T00:00:00Z"),
            ("2017-13-06T00:00:00Z", "2017-12-06T00:00:00Z"),
            ("2017-03-06T", "2017-03-06T00:00:00Z"),
            ("Mon, 06 Mar 2017 04:02:06 GMT", "2017-03-06T04:02:06Z"),
            ("Monday, 06-Mar-17 04:02:06 GMT", "2017-03-06T04:02:06Z"),
            ("Mon Mar  6 04:02:06 2017", "2017-03-06T04:02:06Z"),
            ("Mon, 06 Mar 2017 04:02:06 -0800", "2017-03-06T12:02:06Z"),
            ("March 6, 2017", "2017-03-06T00:00:00Z"),
            ("1488772926", "2017-03-06T04:02:06Z"),
            ("1488772926123", "2017-03-06T04:02:06.123Z"),
        ] {
            let (time_ms, rule) = mend(text).expect(text);
            assert_eq!((format(time_ms).as_str(), rule), (expected, DateRule::Repaired), "{text}");
        }
    }

    #[test]
    fn what_holds_no_date_gives_none() {
        for text in ["", "-", "soon", "0", "12", "12:34", "T04:02:06Z", "May", "2\u{661}17-01-01", &"2017-".repeat(40)]
        {
            assert_eq!(mend(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_mended_or_not(text in "\\PC*", digits in "[0-9TZ:+ -]{0,40}") {
            let _ = mend(&text);
            let _ = mend(&digits);
        }
    }
}
