//! A page's captures on a calendar: a year at a time, a table for each month.
//!
//! Invariant: days and years are computed for every possible time of a version; a remote time is
//! shown as it is, and costs no more than another.

use std::collections::BTreeMap;
use std::ops::Range;

use filemap::Version;
use maud::{Markup, html};

use super::layout::number;

const DAY_MS: i64 = 86_400_000;
/// Maximum number of years in the list.
const YEARS: usize = 60;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEK: [(&str, &str); 7] = [
    ("Mo", "Monday"),
    ("Tu", "Tuesday"),
    ("We", "Wednesday"),
    ("Th", "Thursday"),
    ("Fr", "Friday"),
    ("Sa", "Saturday"),
    ("Su", "Sunday"),
];

/// A day of the Gregorian calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) year: i64,
    month: i64,
    day: i64,
}

impl Day {
    /// The day `days` days after 1970-01-01. Years are counted from March, so that the leap day is
    /// their last; the calendar repeats every 400 years.
    fn of_number(days: i64) -> Day {
        let since = days + 719_468;
        let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Day { year, month, day: of_year - (153 * from_march + 2) / 5 + 1 }
    }

    /// Days since 1970-01-01.
    fn number(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let from_march = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let of_year = (153 * from_march + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// Parses year, month and day with hyphens between them.
    pub(super) fn parse(text: &str) -> Option<Day> {
        let (rest, day) = text.rsplit_once('-')?;
        let (year, month) = rest.rsplit_once('-')?;
        let day = Day { year: parse_year(year)?, month: month.parse().ok()?, day: day.parse().ok()? };
        ((1..=12).contains(&day.month) && Day::of_number(day.number()) == day).then_some(day)
    }

    /// The form that [`Day::parse`] reads.
    pub(super) fn text(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    /// The form that people read.
    pub(super) fn words(self) -> String {
        format!("{} {} {}", self.day, MONTHS[(self.month - 1) as usize], self.year)
    }

    /// Its range of milliseconds.
    pub(super) fn times(self) -> Range<i64> {
        self.number().saturating_mul(DAY_MS)..(self.number() + 1).saturating_mul(DAY_MS)
    }
}

/// Parses a year within the range of times.
pub(super) fn parse_year(text: &str) -> Option<i64> {
    text.parse().ok().filter(|year: &i64| year.unsigned_abs() < 300_000_000)
}

/// The range of milliseconds of a year.
pub(super) fn times_of(year: i64) -> Range<i64> {
    let begins = |year| Day { year, month: 1, day: 1 }.times().start;
    begins(year)..begins(year + 1)
}

/// Captures by day.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    days: BTreeMap<i64, u64>,
    years: BTreeMap<i64, u64>,
}

impl Calendar {
    /// The calendar of these versions.
    pub(super) fn of(versions: &[Version]) -> Calendar {
        let mut calendar = Calendar::default();
        for version in versions {
            let day = version.time_ms.div_euclid(DAY_MS);
            *calendar.days.entry(day).or_insert(0) += 1;
            *calendar.years.entry(Day::of_number(day).year).or_insert(0) += 1;
        }
        calendar
    }

    /// The latest year with a capture.
    pub(super) fn latest(&self) -> Option<i64> {
        self.years.last_key_value().map(|(year, _)| *year)
    }

    /// A year as markup; its days link to the captures of `of_page`.
    pub(super) fn shown(&self, of_page: &str, year: i64, chosen: Option<Day>) -> Markup {
        let left_out = self.years.len().saturating_sub(YEARS);
        html! {
            h2 id="calendar" { "Calendar of " (year) }
            nav aria-label="Years" class="years" {
                @for (other, captures) in self.years.iter().rev().take(YEARS) {
                    a href={ "/captures?" (of_page) "&year=" (other) "#calendar" } aria-current=[(*other == year).then_some("true")] {
                        (other) " " span class="quiet" { "(" (number(*captures)) ")" }
                    } " "
                }
            }
            @if left_out > 0 { p { (number(left_out as u64)) " earlier years are not listed: append `&year=` to the address." } }
            p class="quiet" { "Times are UTC. A day links to its captures; the more it has, the darker it is." }
            div class="calendar" { @for month in 1..=12 { (self.month(of_page, year, month, chosen)) } }
        }
    }

    fn month(&self, of_page: &str, year: i64, month: i64, chosen: Option<Day>) -> Markup {
        let first = Day { year, month, day: 1 }.number();
        let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        let end = Day { year: next.0, month: next.1, day: 1 }.number();
        // 1970-01-01 was a Thursday.
        let monday = first - (first + 3).rem_euclid(7);
        let weeks = (end - monday + 6) / 7;
        let captures: u64 = self.days.range(first..end).map(|(_, captures)| captures).sum();
        html! {
            table {
                caption {
                    (MONTHS[(month - 1) as usize])
                    @if captures > 0 { span class="quiet" { ", " (number(captures)) } }
                }
                thead { tr { @for (short, name) in WEEK { th scope="col" abbr=(name) { (short) } } } }
                tbody {
                    @for week in 0..weeks {
                        tr {
                            @for day in (0..7).map(|day| monday + week * 7 + day) {
                                td { @if (first..end).contains(&day) { (self.day(of_page, Day::of_number(day), chosen)) } }
                            }
                        }
                    }
                }
            }
        }
    }

    fn day(&self, of_page: &str, day: Day, chosen: Option<Day>) -> Markup {
        let Some(captures) = self.days.get(&day.number()) else { return html! { span { (day.day) } } };
        let class = match captures {
            1 => "d1",
            2..=4 => "d2",
            5..=19 => "d3",
            _ => "d4",
        };
        let words =
            format!("{}: {} {}", day.words(), number(*captures), if *captures == 1 { "capture" } else { "captures" });
        html! {
            a class=(class) href={ "/captures?" (of_page) "&day=" (day.text()) "#captures" } aria-label=(words) title=(words)
                aria-current=[(chosen == Some(day)).then_some("date")] { (day.day) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day_of(time_ms: i64) -> Day {
        Day::of_number(time_ms.div_euclid(DAY_MS))
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (time_ms, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_400_000, "2000-02-29"),
            (1_700_000_000_000, "2023-11-14"),
            (4_107_542_400_000, "2100-03-01"),
            (-62_167_219_200_001, "-001-12-31"),
        ] {
            let day = day_of(time_ms);
            assert_eq!(day.text(), text);
            assert_eq!(Day::parse(text), Some(day));
            assert!(day.times().contains(&time_ms), "{text}");
        }
        for none in
            ["2023-02-29", "2100-02-29", "2023-00-01", "2023-13-01", "2023-1", "", "x-01-01", "999999999999-01-01"]
        {
            assert_eq!(Day::parse(none), None, "{none}");
        }
        for time_ms in [i64::MIN, i64::MAX] {
            let day = day_of(time_ms);
            assert_eq!(Day::parse(&day.text()), Some(day));
            assert!(times_of(day.year).contains(&time_ms) || time_ms == i64::MAX, "{}", day.text());
        }
        let mut next = day_of(times_of(1896).start);
        for number in next.number()..day_of(times_of(2401).end).number() {
            assert_eq!((Day::of_number(number), next.number()), (next, number));
            next = Day::of_number(number + 1);
        }
    }

    #[test]
    fn each_day_of_a_year_stands_in_its_month_once() {
        let at = |text: &str| Version { time_ms: Day::parse(text).unwrap().times().start, sequence: 1 };
        let calendar = Calendar::of(&[at("2024-02-29"), at("2024-02-29"), at("2024-12-31"), at("2021-01-01")]);
        assert_eq!(calendar.latest(), Some(2024));
        let shown = calendar.shown("url=x", 2024, Day::parse("2024-12-31")).into_string();
        assert_eq!(shown.matches("<table>").count(), 12);
        assert_eq!(shown.matches("<td><span").count() + shown.matches("<td><a").count(), 366);
        assert!(shown.contains("day=2024-02-29#captures\" aria-label=\"29 February 2024: 2 captures\""), "{shown}");
        assert_eq!(shown.matches("aria-current=\"date\"").count(), 1);
        // 29 February 2024 was a Thursday.
        let week = shown.split("<tr>").find(|row| row.contains("2024-02-29")).unwrap();
        assert_eq!(week.split("<td>").position(|cell| cell.contains("2024-02-29")), Some(4));
    }
}
