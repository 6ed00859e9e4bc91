//! `Retry-After`: seconds, or a date (RFC 9110, 10.2.3).

use std::time::Duration;

/// The wait counted from `now_ms`; zero for a past date. `None` if it cannot be parsed.
pub fn parse(value: &[u8], now_ms: i64) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let wait = date_ms(text)?.saturating_sub(now_ms);
    Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` in ms since 1970.
fn date_ms(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
    filemap::date::parse(&format!("{year}-{month:02}-{day:0>2}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_others_are_none() {
        let now = 784_111_777_000 - 5_000;
        let rows: [(&[u8], Option<u64>); 6] = [
            (b" 120 ", Some(120)),
            (b"99999999999999999999999", Some(u64::from(u32::MAX))),
            (b"Sun, 06 Nov 1994 08:49:37 GMT", Some(5)),
            (b"Sun, 06 Nov 1993 08:49:37 GMT", Some(0)),
            (b"soon", None),
            (b"", None),
        ];
        for (value, seconds) in rows {
            assert_eq!(parse(value, now), seconds.map(Duration::from_secs), "{}", String::from_utf8_lossy(value));
        }
    }
}
