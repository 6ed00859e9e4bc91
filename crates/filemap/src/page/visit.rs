//! A page: the result of one visit to a URL.
//!
//! The body is bytes and is never re-coded: no character set is guessed or converted. All other
//! data of the fetch or the archive record is kept beside it, unchanged.
//!
//! Invariant: a `Page` read from a store equals the one that was put, except for
//! `Revisit::original` and the body of a revisit, which reading sets.

use std::net::IpAddr;

use crate::page::digest::Digest;
use crate::page::headers::Headers;
use crate::page::variant::Variant;
use crate::page::{HttpVersion, InPlace, RecordKind, Revisit};

/// One page as it was fetched at one time.
///
/// ```
/// let mut page = filemap::Page::new("http://example.com/", 1_700_000_000_000, 200, "<p>hello");
/// page.headers.push("Content-Type", "text/html");
/// assert_eq!(page.http_head(), b"HTTP/1.1 200 \r\nContent-Type: text/html\r\n\r\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The URL as fetched; the store's key is its canonical form.
    pub url: Vec<u8>,
    /// The variant that it is, or is beside; `None` for the page itself, the response to a plain
    /// `GET`.
    pub variant: Option<Variant>,
    /// Time of the fetch, in ms since 1970.
    pub fetched_at_ms: i64,
    /// The kind of record.
    pub kind: RecordKind,
    /// Status code of the response, 1 or more; `None` for records without one (a resource, a
    /// request).
    pub status: Option<u16>,
    /// The reason phrase, as sent.
    pub reason: Vec<u8>,
    /// The protocol of the response or request.
    pub http_version: Option<HttpVersion>,
    /// The method of the request, if it is known.
    pub method: Option<String>,
    /// IP address of the server.
    pub ip: Option<IpAddr>,
    /// The header fields. A resource or metadata record has its `Content-Type` here.
    pub headers: Headers,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// The reason why the body is truncated (WARC has `length`, `time`, `disconnect`,
    /// `unspecified`); `None` if it is whole.
    pub truncated: Option<String>,
    /// The payload digest from the source (`sha1:...`): of the bytes on the wire, so not of `body`
    /// if that was decoded. Never checked.
    pub digest: Option<String>,
    /// The record id from the source (`<urn:uuid:...>`).
    pub record_id: Option<String>,
    /// The reference to the original, if it is a revisit.
    pub revisit: Option<Revisit>,
    /// The place of its record, if the store left the body in an archive. Only in descriptions: a
    /// page that is read with its body has `None`.
    pub in_place: Option<InPlace>,
}

impl Page {
    /// A page with this URL, time, status and body.
    pub fn new(url: impl Into<Vec<u8>>, fetched_at_ms: i64, status: u16, body: impl Into<Vec<u8>>) -> Page {
        Page { url: url.into(), fetched_at_ms, status: Some(status), body: body.into(), ..Page::default() }
    }

    /// Returns whether its body is missing: it is a revisit that was read with its body, and its
    /// original is not in the store. False if the payload digest is that of no bytes.
    pub fn lacks_body(&self) -> bool {
        let is_resolved = self.revisit.as_ref().is_some_and(|revisit| revisit.original.is_some());
        self.kind == RecordKind::Revisit && !is_resolved && self.body.is_empty() && !self.is_of_no_bytes()
    }

    /// Returns whether its payload digest is that of no bytes.
    pub(crate) fn is_of_no_bytes(&self) -> bool {
        self.digest.as_deref().and_then(Digest::parse).is_some_and(|digest| digest.is_of_nothing())
    }

    /// A copy without the body.
    pub(crate) fn description(&self) -> Page {
        Page {
            url: self.url.clone(),
            variant: self.variant.clone(),
            fetched_at_ms: self.fetched_at_ms,
            kind: self.kind,
            status: self.status,
            reason: self.reason.clone(),
            http_version: self.http_version.clone(),
            method: self.method.clone(),
            ip: self.ip,
            headers: self.headers.clone(),
            body: Vec::new(),
            truncated: self.truncated.clone(),
            digest: self.digest.clone(),
            record_id: self.record_id.clone(),
            revisit: self.revisit.clone(),
            in_place: self.in_place,
        }
    }

    /// The status line and the headers, with the blank line at the end.
    pub fn http_head(&self) -> Vec<u8> {
        let mut head = Vec::new();
        if let Some(status) = self.status {
            let version = self.http_version.as_ref().map_or("HTTP/1.1", HttpVersion::as_str);
            head.extend_from_slice(format!("{version} {status} ").as_bytes());
            head.extend_from_slice(&self.reason);
            head.extend_from_slice(b"\r\n");
        }
        for header in &self.headers {
            head.extend_from_slice(&header.name);
            head.extend_from_slice(b": ");
            head.extend_from_slice(&header.value);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_http_head_reads_as_it_was_sent() {
        let mut page = Page::new("http://a/", 0, 200, "x");
        page.reason = b"OK".to_vec();
        page.headers.push("A", b"\xe9".to_vec());
        page.headers.push("A", "2");
        assert_eq!(page.http_head(), b"HTTP/1.1 200 OK\r\nA: \xe9\r\nA: 2\r\n\r\n");
    }
}
