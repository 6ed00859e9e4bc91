//! Conditions on the time of a capture, in pywb's terms. One of the four applies, in this order:
//! `before`, `after`, `newer`, `older`.

use serde_json::{Map, Value};

use crate::date;

/// The longest span, in each of its units, so that nothing overflows.
const MOST: u64 = 100_000;
const DAY_MS: i64 = 86_400_000;

/// Condition on the time of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Captures before this second.
    Before(i64),
    /// Captures after this second.
    After(i64),
    /// Captures younger than the span.
    Newer(Span),
    /// Captures older than the span.
    Older(Span),
}

/// A span of the calendar: a month back from the 31st is the end of the month before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    months: i64,
    days: i64,
}

impl Span {
    fn before(self, time_ms: i64) -> i64 {
        let time_ms = date::nearest_with_four_digit_year(time_ms);
        date::months_before(time_ms, self.months) - self.days * DAY_MS
    }

    fn is_nothing(self) -> bool {
        self.months == 0 && self.days == 0
    }
}

impl When {
    pub(super) fn holds(&self, time_ms: i64, now_ms: i64) -> bool {
        // An index has seconds.
        let second = time_ms.div_euclid(1000);
        match self {
            When::Before(time) => second < *time,
            When::After(time) => second > *time,
            When::Newer(span) => span.before(now_ms) < second.saturating_mul(1000),
            When::Older(span) => span.before(now_ms) > second.saturating_mul(1000),
        }
    }

    /// The condition among these fields, if there is one. As in pywb an empty one does not count;
    /// in an embargo (`skips_nothing`) neither does a span of zero.
    pub(super) fn read(fields: &Map<String, Value>, skips_nothing: bool) -> Result<Option<When>, String> {
        for name in ["before", "after"] {
            if let Some(text) = fields.get(name).filter(|value| !is_empty(value)) {
                let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
                let second = second(&text).ok_or_else(|| {
                    format!("`{name}` is a time of 4 to 14 digits, such as 20240501 or 20240501120000, not `{text}`")
                })?;
                return Ok(Some(if name == "before" { When::Before(second) } else { When::After(second) }));
            }
        }
        for name in ["newer", "older"] {
            if let Some(value) = fields.get(name).filter(|value| !is_empty(value)) {
                let span = span(value).map_err(|what| format!("`{name}`: {what}"))?;
                if !(skips_nothing && span.is_nothing()) {
                    return Ok(Some(if name == "newer" { When::Newer(span) } else { When::Older(span) }));
                }
            }
        }
        Ok(None)
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn span(value: &Value) -> Result<Span, String> {
    let wanted = || format!("give years, months, weeks or days, each of 0 to {MOST}, not {value}");
    let (mut months, mut days) = (0, 0);
    for (name, number) in value.as_object().ok_or_else(wanted)? {
        let number = number.as_u64().filter(|number| *number <= MOST).ok_or_else(wanted)? as i64;
        match name.as_str() {
            "years" => months += 12 * number,
            "months" => months += number,
            "weeks" => days += 7 * number,
            "days" => days += number,
            _ => return Err(wanted()),
        }
    }
    Ok(Span { months, days })
}

/// A time in seconds since 1970. Missing fields take their last value, and values out of range the
/// nearest in it, as in pywb: `2024` is the end of that year.
fn second(text: &str) -> Option<i64> {
    if !(4..=14).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // With five digits, the fifth is followed by that of the last month.
    let text = if text.len() == 5 { format!("{text}2") } else { text.to_owned() };
    let field = |from: usize, to: usize, least: i64, most: i64| {
        let number = text.get(from..to).and_then(|digits| digits.parse::<i64>().ok());
        number.map_or(most, |number| number.clamp(least, most))
    };
    let (year, month) = (field(0, 4, 1900, 2999), field(4, 6, 1, 12));
    let day = field(6, 8, 1, date::days_in_month(year, month)?);
    let (hour, minute, second) = (field(8, 10, 0, 23), field(10, 12, 0, 59), field(12, 14, 0, 59));
    let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}");
    Some(date::parse(&text)?.div_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_cut_means_its_last_second() {
        // Values of warcio 1.8.1, which pywb uses to read them.
        for (text, whole) in [
            ("20141226095010", "20141226095010"),
            ("201412260950", "20141226095059"),
            ("2014122609", "20141226095959"),
            ("20141226", "20141226235959"),
            ("2014122", "20141231235959"),
            ("201402", "20140228235959"),
            ("20141", "20141231235959"),
            ("2014", "20141231235959"),
            ("20131709005601", "20131209005601"),
            ("20130231", "20130228235959"),
        ] {
            assert_eq!(second(text), date::parse(whole).map(|ms| ms / 1000), "{text}");
        }
        for none in ["", "201", "2014-01-01", "201412260950101"] {
            assert_eq!(second(none), None, "{none}");
        }
    }

    #[test]
    fn a_span_goes_back_by_the_calendar() {
        let before = |months, days, text: &str| date::format(Span { months, days }.before(date::parse(text).unwrap()));
        assert_eq!(before(1, 0, "2024-03-31T12:00:00Z"), "2024-02-29T12:00:00Z");
        assert_eq!(before(13, 1, "2024-03-31T12:00:00Z"), "2023-02-27T12:00:00Z");
        assert_eq!(before(12, 0, "2024-02-29T00:00:00Z"), "2023-02-28T00:00:00Z");
        assert_eq!(before(0, 7, "2024-03-01T00:00:00.5Z"), "2024-02-23T00:00:00.500Z");
    }
}
