//! Times on the command line: what is accepted, and how they are printed.
//!
//! Inside, a time is milliseconds since 1970 (UTC). Accepted are that number and every date that [`filemap::date`]
//! reads: RFC 3339, a bare date (its first millisecond, UTC), and the 14 digits of WARC and CDX files. Fourteen digits
//! are always a date: as milliseconds they would lie after the year 2286. What is printed is accepted back.

/// Reads a time; the error is a sentence for the user.
pub fn parse(text: &str) -> Result<i64, String> {
    let number = || text.parse::<i64>().ok();
    let cdx = text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit());
    let time_ms = if cdx { filemap::date::parse(text) } else { number().or_else(|| filemap::date::parse(text)) };
    time_ms.ok_or_else(|| {
        format!(
            "`{text}` is no time; write 2024-05-01T12:00:00Z, 2024-05-01, 20240501120000, or milliseconds since 1970"
        )
    })
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
        assert_eq!(parse("2024"), Ok(2024), "a number is milliseconds");
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
        for bad in ["", "yesterday", "20241301000000", "2024-13-01", "12:00", "99999999999999999999"] {
            assert!(parse(bad).is_err_and(|words| words.contains("2024-05-01T12:00:00Z")), "{bad}");
        }
    }
}
