//! Times on the command line: what is accepted, and how they are printed.
//!
//! Inside, a time is milliseconds since 1970 (UTC). Accepted are that number and every date that [`filemap::date`]
//! reads: RFC 3339, a bare date (its first millisecond, UTC), and the 14 digits of WARC and CDX files, which may be shortened
//! to 4, 6, 8, 10 or 12. So many digits are always a date. What is printed is accepted back.

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
            "`{text}` is no time; write 2024-05-01T12:00:00Z, 2024-05-01, 20240501120000, or milliseconds since 1970"
        )
    })
}

/// No time lies further from 1970 than this: some 9,000 years.
const YEARS_MS: i64 = 9_000 * 366 * 86_400_000;

/// The 14 digits that a shortened stamp stands for: its first second.
fn filled(stamp: &str) -> String {
    format!("{stamp}{}", &"00000101000000"[stamp.len()..])
}

/// Prints a time: RFC 3339 in UTC.
pub fn print(time_ms: i64) -> String {
    filemap::date::format(time_ms)
}

/// Milliseconds since 1970, now.
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
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
}
