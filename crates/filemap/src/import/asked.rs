//! Request records: method and URL as text, and the variant of their answer.
//!
//! Invariant: a request with an unreadable head makes no variant and is reported.

use super::pair::Role;
use crate::error::Result;
use crate::page::headers::Headers;
use crate::page::variant::Variant;
use crate::page::{Page, RecordKind};
use crate::warc::capture::Capture;
use crate::warc::digest::digest_of;

/// Method and URL of a request, as text.
pub(super) fn asked_for(request: &Page) -> String {
    format!("{} {}", request.method.as_deref().unwrap_or("?"), String::from_utf8_lossy(&request.url))
}

/// The variant of a request's answer; `None` for a plain `GET` or an unknown method.
fn variant(request: &mut Capture) -> Result<Option<Variant>> {
    let Some(method) = &request.page.method else { return Ok(None) };
    let headers = &request.page.headers;
    let bytes = sent_bytes(method, headers, request.body.len());
    if bytes > Variant::MAX_PARSED_BYTES {
        return Ok(Some(Variant::of_large_request(method, digest_of(&mut request.body, bytes)?)));
    }
    let body = request.body.prefix(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    Ok(Variant::of_request(method, headers.get("Content-Type"), &body))
}

/// The role of a page's record.
pub(super) fn role(capture: &mut Capture) -> Result<Role> {
    Ok(match capture.page.kind {
        RecordKind::Response | RecordKind::Revisit => Role::Answer,
        // A request with an unreadable head belongs to no answer.
        RecordKind::Request if capture.page.method.is_none() => Role::Other,
        RecordKind::Request => Role::Request(variant(capture)?),
        RecordKind::Metadata | RecordKind::Conversion => Role::Beside,
        RecordKind::Resource => Role::Other,
    })
}

/// Length of a request's body: some writers put another line after the head of a `GET`.
fn sent_bytes(method: &str, headers: &Headers, bytes: u64) -> u64 {
    let text = |name: &str| headers.text(name);
    match text("Content-Length").map(|length| length.trim().parse::<u64>()) {
        Some(Ok(length)) => length.min(bytes),
        _ if method == "GET" && text("Transfer-Encoding").or(text("X-Crawler-Transfer-Encoding")).is_none() => 0,
        _ => bytes,
    }
}

/// The problem of an HTTP request with an unreadable head.
pub(super) fn unread(request: &Capture) -> Option<String> {
    let page = &request.page;
    let is_http = page.url.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http"));
    if page.kind != RecordKind::Request || page.method.is_some() || request.stored.is_some() || !is_http {
        return None;
    }
    let url = String::from_utf8_lossy(&page.url);
    Some(format!(
        "{url}: unreadable request head: its variant is unknown, and its answer counts as the page of its URL"
    ))
}
