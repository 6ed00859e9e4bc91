//! Crawler traps: URLs generated without end, with repeating paths or dates far in the future.
//!
//! If a page answers under every path, a relative link on it makes `/a/b/a/b/a/b/...`; a calendar
//! always has a next month. URLs that pass these rules still get only their fair share of a crawl
//! (`frontier`).

use crate::failure::{Failure, Reason};

/// The maximum length, in segments, of a repeated part.
const PART_SEGMENTS: usize = 8;
/// Days of a year.
const YEAR_DAYS: f64 = 365.2425;

/// The reason to refuse a URL, if any: a part of its path is repeated more than `repeats_max`
/// times in a row, or it contains a date more than `years_max` years after `now_ms`. 0 means no
/// limit.
pub fn refusal(url: &str, repeats_max: u8, years_max: u16, now_ms: i64) -> Option<Failure> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = &rest[rest.find('/').unwrap_or(rest.len())..];
    if repeats_max > 0 && repeats(path.split(['?', '#']).next().unwrap_or_default()) > usize::from(repeats_max) {
        return Some(Failure::new(Reason::RepeatedPath, "a part of its path repeats itself"));
    }
    let year = 1970 + (now_ms as f64 / 86_400_000.0 / YEAR_DAYS).floor() as i64;
    let latest = year.saturating_add(i64::from(years_max));
    let dated = (years_max > 0).then(|| years(path).find(|year| i64::from(*year) > latest)).flatten();
    dated.map(|year| Failure::new(Reason::FarDate, format!("a date in the year {year}")))
}

/// The maximum number of consecutive repetitions of a part of a path. Parts of digits alone do not
/// count: `/1/1/1/1` may be a map tile.
fn repeats(path: &str) -> usize {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut most = 0;
    for len in 1..=PART_SEGMENTS.min(segments.len() / 2) {
        // The number of consecutive segments equal to the one `len` before.
        let mut equal = 0;
        for at in len..segments.len() {
            equal = if segments[at] == segments[at - len] { equal + 1 } else { 0 };
            let part = &segments[at + 1 - len..=at];
            let has_letters = part.iter().any(|segment| segment.bytes().any(|byte| !byte.is_ascii_digit()));
            if has_letters {
                most = most.max(equal / len + 1);
            }
        }
    }
    most
}

/// The years of dates in a path with its query: `2031-05`, `2031/05`, `year=2031`.
fn years(path: &str) -> impl Iterator<Item = u16> {
    let bytes = path.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    (0..bytes.len().saturating_sub(3)).filter_map(move |at| {
        let is_number = (at..at + 4).all(is_digit) && !is_digit(at + 4) && (at == 0 || !is_digit(at - 1));
        let year = is_number.then(|| path[at..at + 4].parse().ok()).flatten()?;
        let month = path.get(at + 5..at + 7).and_then(|month| month.parse::<u8>().ok());
        let has_month = matches!(bytes.get(at + 4), Some(b'-' | b'/')) && !is_digit(at + 7);
        let is_date = has_month && month.is_some_and(|month| (1..=12).contains(&month));
        let is_named = path[..at].to_ascii_lowercase().ends_with("year=");
        (is_date || is_named).then_some(year)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of November 2026.
    const NOW_MS: i64 = 1_796_000_000_000;

    fn reason(url: &str) -> Option<Reason> {
        refusal(url, 3, 5, NOW_MS).map(|failure| failure.reason)
    }

    #[test]
    fn a_path_that_repeats_itself_is_refused_and_one_that_has_equal_parts_is_not() {
        for url in [
            "http://a/x/x/x/x/",
            "http://a/b/x/x/x/x",
            "http://a/x/y/x/y/x/y/x/y/z",
            "http://a/1/x/1/x/1/x/1/x",
            "http://a/a/b/c/d/e/f/g/h/a/b/c/d/e/f/g/h/a/b/c/d/e/f/g/h/a/b/c/d/e/f/g/h",
        ] {
            assert_eq!(reason(url), Some(Reason::RepeatedPath), "{url}");
        }
        for url in [
            "http://a/x/x/x/",
            "http://a/x/y/x/y/x/y/x/z",
            "http://a/x/a/x/b/x/c/x/d/x/e",
            "http://a/1/1/1/1/1/1",
            "http://a/q?p=/x/x/x/x/x",
            "http://a",
            "http://a/",
        ] {
            assert_eq!(reason(url), None, "{url}");
        }
        assert!(refusal("http://a/x/x/x/x/x/", 0, 5, NOW_MS).is_none());
    }

    #[test]
    fn a_date_far_ahead_is_refused_and_a_number_that_is_none_is_not() {
        for url in [
            "http://a/calendar/2032/01/",
            "http://a/calendar/2032-01-30",
            "http://a/events?month=2099-12",
            "http://a/events?Year=2032&m=1",
            "http://a/9999/12/31",
        ] {
            assert_eq!(reason(url), Some(Reason::FarDate), "{url}");
        }
        for url in [
            "http://a/calendar/2031/12/31",
            "http://a/2032/13/",
            "http://a/2032/010/",
            "http://a/20320/01/",
            "http://a/12032/01/",
            "http://a/part-2032",
            "http://a/1850/01/01",
            "http://2032-01.example/",
            "http://a/é2032",
        ] {
            assert_eq!(reason(url), None, "{url}");
        }
        assert!(refusal("http://a/9999/12/31", 3, 0, NOW_MS).is_none());
    }
}
