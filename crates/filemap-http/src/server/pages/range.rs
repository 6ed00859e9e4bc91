//! A range of a body (RFC 9110, 14).

use std::ops::Range;

/// The request of a `Range` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All: there is no `Range` header, or it requests several ranges or uses another unit, which
    /// a server may ignore.
    All,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes beyond the body.
    Outside,
}

/// The request of `header`, for a body of `bytes` bytes.
pub(super) fn wanted(header: Option<&str>, bytes: u64) -> Wanted {
    let Some(ranges) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else { return Wanted::All };
    if ranges.contains(',') {
        return Wanted::All;
    }
    let Some((first, last)) = ranges.trim().split_once('-') else { return Wanted::All };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => return Wanted::All,
        (Some(first), Some(last)) => first..last.saturating_add(1).min(bytes),
        (Some(first), None) if last.is_empty() => first..bytes,
        (None, Some(of_end)) if first.is_empty() => bytes.saturating_sub(of_end)..bytes,
        _ => return Wanted::All,
    };
    if range.start >= bytes { Wanted::Outside } else { Wanted::Part(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped_and_what_is_none_is_ignored() {
        for (header, expected) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("bytes=2-", Wanted::Part(2..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-30", Wanted::Part(0..10)),
            ("bytes=5-500", Wanted::Part(5..10)),
            ("bytes=9-99999999999999999999999", Wanted::Part(9..10)),
            ("bytes=10-", Wanted::Outside),
            ("bytes=-0", Wanted::Outside),
            ("bytes=99999999999999999999999-", Wanted::Outside),
            ("bytes=3-2", Wanted::All),
            ("bytes=a-b", Wanted::All),
            ("bytes=-", Wanted::All),
            ("bytes=1", Wanted::All),
            ("bytes=+1-2", Wanted::All),
            ("bytes=0-1,3-4", Wanted::All),
            ("lines=0-1", Wanted::All),
        ] {
            assert_eq!(wanted(Some(header), 10), expected, "{header}");
        }
        assert_eq!((wanted(None, 10), wanted(Some("bytes=0-"), 0)), (Wanted::All, Wanted::Outside));
    }
}
