//! Entity tags and conditional requests (RFC 9110, 13).
//!
//! The tag is the body's digest, which is in the head of each record. A compressed response has
//! the coding appended: the tag is strong, and different bytes are another representation.

use axum::http::header::{
    CONTENT_ENCODING, ETAG, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE,
};
use axum::http::{HeaderMap, StatusCode};

use super::super::refusal::Refusal;

/// Content codings of responses.
const CODINGS: [&str; 3] = ["gzip", "br", "zstd"];

/// The entity tag of a body, without quotes.
pub(super) fn tag(digest: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(digest))
}

/// The tags of a header: `*` unchanged, others without quotes; and whether each is weak.
fn tags<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = (&'h str, bool)> + use<'h> {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim).filter(|text| !text.is_empty()).map(|text| {
        let (text, is_weak) = text.strip_prefix("W/").map_or((text, false), |text| (text, true));
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        (text, is_weak)
    })
}

/// Returns whether `given` is the tag of the body, with any coding.
fn is_of(given: &str, tag: &str) -> bool {
    let coding = given.strip_prefix(tag);
    coding.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(|coding| CODINGS.contains(&coding)))
}

/// Checks whether the client already has this body: returns the tag by which it knows it, or an
/// empty one if it knows only the time.
pub(super) fn known(headers: &HeaderMap, tag: &str, time_ms: i64) -> Option<String> {
    if headers.contains_key(IF_NONE_MATCH) {
        let mut given = tags(headers, &IF_NONE_MATCH);
        let found = given.find(|(given, _)| *given == "*" || is_of(given, tag))?;
        return Some(if found.0 == "*" { tag.to_owned() } else { found.0.to_owned() });
    }
    let since = headers.get(IF_MODIFIED_SINCE)?.to_str().ok()?;
    let since = httpdate::parse_http_date(since).ok()?;
    let since = since.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    (time_ms.div_euclid(1000) <= i64::try_from(since).unwrap_or(i64::MAX)).then(String::new)
}

/// Returns whether a range may be sent: always, unless `If-Range` names another body.
pub(super) fn may_range(headers: &HeaderMap, tag: &str, last_modified: Option<&HeaderValue>) -> bool {
    let Some(asked) = headers.get(IF_RANGE) else { return true };
    let is_tag = tags(headers, &IF_RANGE).any(|(given, is_weak)| !is_weak && given == tag);
    is_tag || last_modified == Some(asked)
}

/// Tag and time of the page, if the store has it.
type There<'t> = Option<(&'t str, i64)>;

fn failed(words: &str, there: There<'_>) -> Refusal {
    let there =
        there.map_or("the store has no such page".to_owned(), |(tag, _)| format!("the stored page is \"{tag}\""));
    Refusal::new(StatusCode::PRECONDITION_FAILED, format!("{words}: {there}"))
}

/// Checks that the page is still the client's.
///
/// # Errors
///
/// 412.
pub(super) fn check_unchanged(headers: &HeaderMap, there: There<'_>) -> Result<(), Refusal> {
    if headers.contains_key(IF_MATCH) {
        let fits = |(given, is_weak): (&str, bool)| {
            there.is_some_and(|(tag, _)| given == "*" || (!is_weak && is_of(given, tag)))
        };
        return match tags(headers, &IF_MATCH).any(fits) {
            true => Ok(()),
            false => Err(failed("`If-Match` failed", there)),
        };
    }
    let since = headers.get(IF_UNMODIFIED_SINCE).and_then(|since| httpdate::parse_http_date(since.to_str().ok()?).ok());
    let since = since.and_then(|since| since.duration_since(std::time::UNIX_EPOCH).ok());
    let Some(since) = since.and_then(|since| i64::try_from(since.as_secs()).ok()) else { return Ok(()) };
    match there {
        Some((_, time_ms)) if time_ms.div_euclid(1000) > since => Err(failed("`If-Unmodified-Since` failed", there)),
        _ => Ok(()),
    }
}

/// Checks the conditions of a put or a removal against the stored page.
///
/// # Errors
///
/// 412.
pub(super) fn check(headers: &HeaderMap, there: There<'_>) -> Result<(), Refusal> {
    check_unchanged(headers, there)?;
    let is_known = |(given, _): (&str, bool)| there.is_some_and(|(tag, _)| given == "*" || is_of(given, tag));
    match tags(headers, &IF_NONE_MATCH).any(is_known) {
        true => Err(failed("`If-None-Match` failed", there)),
        false => Ok(()),
    }
}

/// Returns whether a put or a removal has a condition.
pub(super) fn is_conditional(headers: &HeaderMap) -> bool {
    [IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE].iter().any(|name| headers.contains_key(name))
}

/// Gives a compressed response its own tag.
pub(crate) fn mark_coding(headers: &mut HeaderMap) {
    let coding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
    let Some(coding) = coding.filter(|coding| CODINGS.contains(coding)) else { return };
    let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok()?.strip_suffix('"'));
    let tag = tag.and_then(|tag| HeaderValue::try_from(format!("{tag}-{coding}\"")).ok());
    if let Some(tag) = tag {
        headers.insert(ETAG, tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn a_body_is_known_by_its_tag_in_any_coding_or_by_its_time() {
        let known = |name: HeaderName, value: &str| known(&headers(&[(name, value)]), "ab", 5_999);
        assert_eq!(known(IF_NONE_MATCH, "\"x\", W/\"ab\""), Some("ab".to_owned()));
        assert_eq!(known(IF_NONE_MATCH, "\"ab-zstd\""), Some("ab-zstd".to_owned()));
        assert_eq!(known(IF_NONE_MATCH, "*"), Some("ab".to_owned()));
        for other in ["\"abc\"", "\"a\"", "\"ab-lzma\"", ""] {
            assert_eq!(known(IF_NONE_MATCH, other), None, "{other}");
        }
        assert_eq!(known(IF_MODIFIED_SINCE, "Thu, 01 Jan 1970 00:00:05 GMT"), Some(String::new()));
        assert_eq!(known(IF_MODIFIED_SINCE, "Thu, 01 Jan 1970 00:00:04 GMT"), None);
        assert_eq!(known(IF_MODIFIED_SINCE, "yesterday"), None);
    }

    #[test]
    fn conditions_of_a_put_hold_or_are_refused() {
        let check = |name: HeaderName, value: &str, there| check(&headers(&[(name, value)]), there).is_ok();
        for (name, value, absent, present) in [
            (IF_NONE_MATCH, "*", true, false),
            (IF_NONE_MATCH, "\"ab\"", true, false),
            (IF_NONE_MATCH, "\"cd\"", true, true),
            (IF_MATCH, "*", false, true),
            (IF_MATCH, "\"ab\"", false, true),
            (IF_MATCH, "W/\"ab\"", false, false),
            (IF_MATCH, "\"cd\"", false, false),
            (IF_MATCH, "", false, false),
            (IF_UNMODIFIED_SINCE, "Thu, 01 Jan 1970 00:00:05 GMT", true, true),
            (IF_UNMODIFIED_SINCE, "Thu, 01 Jan 1970 00:00:04 GMT", true, false),
            (IF_UNMODIFIED_SINCE, "yesterday", true, true),
        ] {
            assert_eq!(check(name.clone(), value, None), absent, "{name} {value}");
            assert_eq!(check(name.clone(), value, Some(("ab", 5_999))), present, "{name} {value}");
        }
    }

    #[test]
    fn a_range_of_another_body_is_not_answered() {
        let time = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:05 GMT");
        let may = |value: &str| may_range(&headers(&[(IF_RANGE, value)]), "ab", Some(&time));
        assert!(may("\"ab\"") && may("Thu, 01 Jan 1970 00:00:05 GMT") && may_range(&HeaderMap::new(), "ab", None));
        assert!(!may("\"cd\"") && !may("W/\"ab\"") && !may("Thu, 01 Jan 1970 00:00:06 GMT"));
    }
}
