//! An entry of requests-cache as pages: the response, and the responses that redirected to it.
//!
//! A response is a mapping in a pickle or in JSON. Its body was decoded when it was cached, but
//! its headers still name the coding. A response to a `GET` without a body is the page itself;
//! others are variants of their URL.
//!
//! Not kept: the expiry, cookies, the duration, and the request except for its method.

use base64::Engine as _;
use filemap_io::layout::try_get;

use super::data::{Data, View};
use super::json::dumped;
use super::page::{CacheError, CachedPage, Codings, fail, fields_of, status};
use super::pickle;
use crate::date;
use crate::page::Page;
use crate::page::variant::Variant;

/// Maximum number of redirects of one response that are kept; requests follows 30.
const MAX_HISTORY: usize = 200;
/// Number of bytes that the pages of an entry may have beyond twice the size of the entry.
const ROOM: usize = 1 << 20;

/// Reads a value of table `responses`, or a file: the response first, then its redirects in order.
///
/// ```
/// let value = br#"{"url": "http://a.example/", "status_code": 200, "_content": "aGVsbG8=",
///     "created_at": "2026-11-25T19:00:00", "request": {"method": "GET"}}"#;
/// let pages = filemap::import::cache::requests_entries(value).unwrap();
/// assert_eq!((pages.len(), &*pages[0].page.body), (1, &b"hello"[..]));
/// ```
///
/// # Errors
///
/// The part of the entry that cannot be read; for an unsupported serializer, its name.
pub fn requests_entries(value: &[u8]) -> Result<Vec<CachedPage>, CacheError> {
    let (data, is_json) = match value.trim_ascii_start().first() {
        Some(0x80) => (pickle::read(value)?, false),
        Some(b'{') => {
            let json = serde_json::from_slice(value).map_err(|error| CacheError(format!("it is not JSON: {error}")))?;
            (Data::of_json(json), true)
        }
        None => return fail("it is empty: it was cut off"),
        _ => return fail(other_serializer(value)),
    };
    let response = data.view();
    let mut room = value.len().saturating_mul(2).saturating_add(ROOM);
    let mut pages = vec![page_of(response, is_json, &mut room)?];
    for (number, redirect) in response.get("history").and_then(View::items).into_iter().flatten().enumerate() {
        if number >= MAX_HISTORY {
            return fail(format!("it has over {MAX_HISTORY} redirects"));
        }
        pages.push(page_of(redirect, is_json, &mut room)?);
    }
    Ok(pages)
}

/// Describes a value of an unsupported serializer.
fn other_serializer(value: &[u8]) -> String {
    let length = try_get::<u32>(value, 0).map(|length| length as usize);
    let name = match length == Some(value.len()) {
        true => "bson",
        false if std::str::from_utf8(value).is_ok() => "yaml",
        false => "an unknown serializer, or is signed or encrypted",
    };
    format!(
        "it is written by {name}; copy the cache into one of the serializer pickle or json first: \
         `new.update(old)` of requests_cache.backends does"
    )
}

fn page_of(response: View<'_>, is_json: bool, room: &mut usize) -> Result<CachedPage, CacheError> {
    let request = response.get("request");
    let asked = |name: &str| request.and_then(|request| request.get(name)).filter(|value| !value.is_none());
    let url = response.get("url").and_then(View::text).or_else(|| asked("url").and_then(View::text));
    let Some(url) = url else { return fail("the response has no URL") };
    let Some(status) = status(response.get("status_code").and_then(View::int)) else {
        return fail(format!("the response of {url} has no status"));
    };
    let Some(time_ms) = response.get("created_at").and_then(created_ms) else {
        return fail(format!("the response of {url} does not say when it was cached"));
    };
    let body =
        body_of(response, is_json, *room).ok_or_else(|| CacheError(format!("the body of {url} cannot be read")))?;
    // Escapes in dumped text take more room than the value.
    *room =
        room.checked_sub(body.len() / 4).ok_or_else(|| CacheError(format!("the response of {url} repeats itself")))?;
    let mut page = Page::new(url, time_ms, status, body);
    if let Some(headers) = response.get("headers").filter(|headers| !headers.is_none()) {
        page.headers = fields_of(headers)?;
        let bytes: usize = page.headers.iter().map(|field| field.name.len() + field.value.len()).sum();
        *room = room.checked_sub(bytes).ok_or_else(|| CacheError(format!("the headers of {url} repeat themselves")))?;
    }
    page.reason = response.get("reason").and_then(View::text).unwrap_or_default().as_bytes().to_vec();
    // Fields with their usual values may be left out.
    let method = asked("method").and_then(View::text).unwrap_or("GET").to_owned();
    let content_type = asked("headers").and_then(|headers| fields_of(headers).ok());
    let content_type = content_type.as_ref().and_then(|headers| headers.get("Content-Type"));
    let sent = asked("body").map(|body| bytes_of(body, is_json));
    let Some(sent) = sent.unwrap_or(Some(Vec::new())) else {
        return fail(format!("the body of the request of {url} cannot be read"));
    };
    // Versions before 1.0 wrote `None` for no body.
    let sent = if sent == b"None" { Vec::new() } else { sent };
    page.variant = Variant::of_request(&method, content_type, &sent);
    page.method = Some(method);
    Ok(CachedPage { page, lost: Vec::new(), damage: None, codings: Codings::Undone, note: None, stand_in: None })
}

/// The body, which may be stored as text or as a JSON value.
fn body_of(response: View<'_>, is_json: bool, room: usize) -> Option<Vec<u8>> {
    let decoded = response.get("_decoded_content").filter(|decoded| !decoded.is_none());
    let content = response.get("_content").filter(|content| !content.is_none());
    match (decoded, content) {
        (Some(decoded), _) => match decoded.text() {
            Some(text) => Some(text.as_bytes().to_vec()),
            None => dumped(decoded, room.saturating_mul(4)).map(String::into_bytes),
        },
        (None, Some(content)) => bytes_of(content, is_json),
        (None, None) => Some(Vec::new()),
    }
}

/// Decodes bytes, which JSON holds in base 64, or in base 85 before version 1.3.
fn bytes_of(value: View<'_>, is_json: bool) -> Option<Vec<u8>> {
    if !is_json {
        return value.bytes().map(|bytes| bytes.into_owned());
    }
    let text = value.text()?;
    let base_64 = base64::engine::general_purpose::STANDARD.decode(text).ok();
    let is_text = |bytes: &Vec<u8>| std::str::from_utf8(bytes).is_ok();
    match base_64 {
        // A short text may be either.
        Some(bytes) if !is_text(&bytes) => base_85(text.as_bytes()).filter(is_text).or(Some(bytes)),
        Some(bytes) => Some(bytes),
        None => base_85(text.as_bytes()),
    }
}

/// Decodes base 85 like Python's `b85decode`, as written by versions before 1.3.
fn base_85(text: &[u8]) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    let mut values = [u32::MAX; 256];
    for (value, digit) in (0..).zip(DIGITS) {
        values[usize::from(*digit)] = value;
    }
    let mut out = Vec::with_capacity(text.len() / 5 * 4 + 4);
    for group in text.chunks(5) {
        let digits = group.iter().map(|digit| Some(values[usize::from(*digit)]).filter(|value| *value < 85));
        let mut number = 0u32;
        for digit in digits.chain(std::iter::repeat_n(Some(84), 5 - group.len())) {
            number = number.checked_mul(85)?.checked_add(digit?)?;
        }
        out.extend_from_slice(&number.to_be_bytes()[..group.len().checked_sub(1)?]);
    }
    Some(out)
}

/// A time in ISO 8601 (UTC if it names no zone), or in seconds.
fn created_ms(value: View<'_>) -> Option<i64> {
    match value.text() {
        Some(text) => date::parse(text),
        None => value.number().and_then(super::page::time_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base_85_is_read_as_python_writes_it() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Xk~0{Zv", b"hello"),
            ("009C61O)~M2nh-c3=Iws", b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"),
        ] {
            assert_eq!(base_85(text.as_bytes()).as_deref(), Some(bytes), "{text}");
        }
        assert!(base_85(b"\"\"").is_none() && base_85(b"~~~~~").is_none());
    }

    #[test]
    fn serializers_that_are_not_read_are_named() {
        for (value, name) in [(&b"\x07\0\0\0abc"[..], "bson"), (b"_content: x\n", "yaml"), (b"\xff\xfe", "unknown")] {
            assert!(requests_entries(value).is_err_and(|error| error.to_string().contains(name)), "{name}");
        }
    }

    #[test]
    fn a_request_with_a_body_makes_a_variant_and_redirects_are_pages() {
        let of = |url: &str, code: u16, more: &str| {
            format!(r#"{{"url": "{url}", "status_code": {code}, "created_at": "2026-11-25T19:00:00.5+00:00"{more}}}"#)
        };
        let request = r#", "request": {"method": "POST", "body": "cT1hK2I=", "headers":
            {"content-type": "application/x-www-form-urlencoded"}}"#;
        let first = of("http://a/1", 302, "");
        let last =
            of("http://a/2", 200, &format!(r#", "_decoded_content": {{"a": [1]}}, "history": [{first}]{request}"#));
        let pages = requests_entries(last.as_bytes()).expect("a response");
        let query = pages[0].page.variant.as_ref().and_then(Variant::query);
        assert_eq!((pages.len(), query, &*pages[0].page.body), (2, Some("q=a b"), &br#"{"a": [1]}"#[..]));
        assert_eq!((pages[1].page.status, &pages[1].page.variant), (Some(302), &None));
        assert_eq!(pages[0].page.fetched_at_ms % 1000, 500);
        for broken in ["{}", r#"{"url": "http://a/"}"#, r#"{"url": "http://a/", "status_code": 99999999}"#, "{"] {
            assert!(requests_entries(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_pages_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = requests_entries(&bytes);
            let _ = base_85(&bytes);
        }
    }
}
