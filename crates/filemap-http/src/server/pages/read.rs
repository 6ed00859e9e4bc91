//! `GET` and `HEAD` of a page: its body with metadata in headers, or its full description followed
//! by the body.

use std::io::{Seek, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED, RANGE,
    VARY,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use filemap::Page;
use filemap::dump::jsonl;
use filemap::page::RecordKind;
use filemap::store::PageReader;

use super::super::backend::Backend;
use super::super::guard::Allowed;
use super::super::lookup::Asked;
use super::super::refusal::{Answer, Refusal};
use super::super::shown::Shown;
use super::{condition, range, send};
use crate::query::Query;
use crate::wire::{self, PAGE_TYPE};

/// Prefix of a page's own headers.
pub(super) const ORIGINAL: &str = "x-archive-orig-";
/// Maximum number of bytes of a page's own headers in a response.
const MAX_HEADERS: usize = 64 << 10;
/// Most headers of a response that are not the page's own, and of the page's own for which room is
/// made in advance.
const OTHERS: usize = 20;
const EXPECTED: usize = 100;
const MEMENTO_DATETIME: HeaderName = HeaderName::from_static("memento-datetime");
/// The last second of the year 9999, after which HTTP has no dates.
const LAST_SECOND: i64 = 253_402_300_799;

/// The routes' handler.
pub(crate) async fn get(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    request: Request,
) -> Answer {
    let (Parts { method, uri, mut headers, .. }, _) = request.into_parts();
    if method == Method::HEAD {
        // `Range` is only for a GET.
        headers.remove(RANGE);
    }
    let query = Query::parse(uri.query(), &[&Asked::PARAMETERS[..], &["format"]].concat())?;
    let asked = Asked::of(&query)?;
    let with_description = query.read("format", "`body` or `page`", |format| match format {
        "body" => Some(false),
        "page" => Some(true),
        _ => None,
    })?;
    let is_of_time = asked.is_of_time();
    // A replica receives large bodies only by version, and fetches them without access rules.
    let sees_all = asked.version().is_some() && allowed.has_admin_token(&backend);
    let open = move |shown: &Shown| {
        let all = sees_all.then(|| shown.without_rules());
        let found = all.as_ref().unwrap_or(shown).open(asked.lookup(), asked.version())?;
        Ok((found.or_refused()?, asked))
    };
    let (found, asked) = if is_of_time { backend.call(open).await? } else { backend.read(open).await? };
    let Some((page, reader)) = found else { return Err(backend.absent(asked.absent())) };
    if with_description == Some(true) {
        return described(&backend, &page, reader);
    }
    if reader.remaining() == 0 && page.lacks_body() {
        return Err(backend.absent(format!(
            "{}: this version is a revisit, and its original is not in the store; `format=page` has its headers",
            String::from_utf8_lossy(&page.url)
        )));
    }
    alone(&backend, &page, reader, &headers)
}

/// A page's description and body.
fn described(backend: &Arc<Backend>, page: &Page, reader: PageReader) -> Answer {
    let mut line = Vec::new();
    jsonl::write_description(page, &mut line)?;
    let bytes = reader.remaining();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PAGE_TYPE));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(line.len() as u64 + bytes));
    headers.insert("filemap-version", value(&wire::version(reader.version()))?);
    Ok(response(StatusCode::OK, headers, send::body(backend, &page.url, line, reader, bytes)))
}

/// A response with exactly these headers, which are not copied.
fn response(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A page's body, or a range of it.
fn alone(backend: &Arc<Backend>, page: &Page, mut reader: PageReader, asked: &HeaderMap) -> Answer {
    let tag = condition::tag(reader.digest());
    condition::check_unchanged(asked, Some((&tag, page.fetched_at_ms)))?;
    let mut headers = about(page, &reader)?;
    if let Some(known) = condition::known(asked, &tag, page.fetched_at_ms) {
        let known = if known.is_empty() { &tag } else { &known };
        headers.insert(ETAG, value(&format!("\"{known}\""))?);
        headers.remove(CONTENT_TYPE);
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    headers.insert(ETAG, value(&format!("\"{tag}\""))?);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let bytes = reader.remaining();
    let range = asked.get(RANGE).and_then(|range| range.to_str().ok());
    let range = range.filter(|_| condition::may_range(asked, &tag, headers.get(LAST_MODIFIED)));
    match range::wanted(range, bytes) {
        range::Wanted::All => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
            Ok(response(StatusCode::OK, headers, send::body(backend, &page.url, Vec::new(), reader, bytes)))
        }
        range::Wanted::Part(part) => {
            reader.seek(SeekFrom::Start(part.start)).map_err(|error| Refusal::bad(error.to_string()))?;
            let len = part.end - part.start;
            headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
            headers.insert(CONTENT_RANGE, value(&format!("bytes {}-{}/{bytes}", part.start, part.end - 1))?);
            let body = send::body(backend, &page.url, Vec::new(), reader, len);
            Ok(response(StatusCode::PARTIAL_CONTENT, headers, body))
        }
        range::Wanted::Outside => {
            let words = format!("the body has {bytes} bytes, none of which is in this range");
            let refusal = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, words);
            Err(refusal.header(CONTENT_RANGE, value(&format!("bytes */{bytes}"))?))
        }
    }
}

/// A page's metadata as headers.
pub(crate) fn about(page: &Page, reader: &PageReader) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::with_capacity(page.headers.len().min(EXPECTED) + OTHERS);
    let (mut left_out, mut bytes) = (0, 0);
    let mut name = ORIGINAL.as_bytes().to_vec();
    for header in &page.headers {
        name.truncate(ORIGINAL.len());
        name.extend_from_slice(&header.name);
        match (HeaderName::from_bytes(&name), HeaderValue::from_bytes(&header.value)) {
            // No client accepts more than a few hundred kilobytes of headers.
            (Ok(name), Ok(value)) if bytes + name.as_str().len() + value.len() <= MAX_HEADERS => {
                bytes += name.as_str().len() + value.len();
                headers.append(name, value);
            }
            _ => left_out += 1,
        }
    }
    let content_type = page.headers.get("content-type").and_then(|value| HeaderValue::from_bytes(value).ok());
    headers.insert(CONTENT_TYPE, content_type.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(date) = http_date(page.fetched_at_ms) {
        headers.insert(LAST_MODIFIED, date.clone());
        headers.insert(MEMENTO_DATETIME, date);
    }
    headers.insert("filemap-url", escaped(&page.url));
    headers.insert("filemap-version", value(&wire::version(reader.version()))?);
    if let Some(status) = page.status {
        headers.insert("filemap-status", HeaderValue::from(status));
    }
    if page.kind != RecordKind::Response {
        headers.insert("filemap-kind", value(page.kind.name())?);
    }
    if let Some(why) = &page.truncated {
        headers.insert("filemap-truncated", escaped(why.as_bytes()));
    }
    if left_out > 0 {
        // Headers with control characters, or too many; `format=page` has them.
        headers.insert("filemap-headers-left-out", HeaderValue::from(left_out));
    }
    Ok(headers)
}

/// A time as an HTTP date; `None` if HTTP cannot express it.
pub(crate) fn http_date(time_ms: i64) -> Option<HeaderValue> {
    let second = u64::try_from(time_ms.div_euclid(1000)).ok().filter(|_| time_ms / 1000 <= LAST_SECOND)?;
    HeaderValue::try_from(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second))).ok()
}

/// Bytes as a header value: visible ASCII unchanged, the rest as `%41`.
pub(crate) fn escaped(bytes: &[u8]) -> HeaderValue {
    const HIDDEN: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b' ');
    let text = percent_encoding::percent_encode(bytes, HIDDEN).to_string();
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

pub(crate) fn value(text: &str) -> Result<HeaderValue, Refusal> {
    HeaderValue::from_str(text)
        .map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{text:?} is not a header value")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_as_far_as_http_has_them() {
        assert_eq!(http_date(1_700_000_000_999).unwrap(), "Tue, 14 Nov 2023 22:13:20 GMT");
        assert!(http_date(LAST_SECOND * 1000 + 999).is_some() && http_date((LAST_SECOND + 1) * 1000).is_none());
        assert!(http_date(-1).is_none() && http_date(i64::MAX).is_none() && http_date(i64::MIN).is_none());
    }

    #[test]
    fn any_url_is_a_header() {
        assert_eq!(escaped(b"http://a/\xff \r\n?b=%20"), "http://a/%FF%20%0D%0A?b=%20");
    }
}
