//! A page: the result of one visit to a URL.
//!
//! The body is bytes and is never re-coded: no character set is guessed or converted. Everything
//! else that a fetch or an archive knows about the visit is kept beside it, unchanged.
//!
//! Invariant: a `Page` read from a store equals the one that was put, except for
//! `Revisit::original` and the body of a revisit, which reading fills in.

pub(crate) mod digest;
pub mod encoding;
pub(crate) mod headers;
pub(crate) mod key;
pub mod meta;
pub(crate) mod variant;
pub(crate) mod version;

use std::net::IpAddr;

use crate::page::digest::Digest;
use crate::page::headers::Headers;
use crate::page::variant::Variant;

/// The kind of a record; WARC has the same.
///
/// ```
/// use filemap::RecordKind;
/// assert_eq!(RecordKind::named("Metadata"), Some(RecordKind::Metadata));
/// assert!(RecordKind::Resource.is_page() && !RecordKind::Request.is_page());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordKind {
    /// A server's answer with its headers.
    #[default]
    Response,
    /// A file without a protocol around it.
    Resource,
    /// A visit that brought the same as an earlier one: it has headers of its own, and refers to
    /// the body.
    Revisit,
    /// Notes about a page (WARC `metadata`). Kept beside the page, never in its place.
    Metadata,
    /// What was sent to get a page. Kept beside the page, never in its place.
    Request,
    /// The page in another form, such as its text (WARC `conversion`). Kept beside the page, never
    /// in its place.
    Conversion,
}

impl RecordKind {
    /// Every kind, in the order of the codes in [`meta`].
    pub const ALL: [RecordKind; 6] = [
        RecordKind::Response,
        RecordKind::Resource,
        RecordKind::Revisit,
        RecordKind::Metadata,
        RecordKind::Request,
        RecordKind::Conversion,
    ];

    /// The WARC name of this kind.
    pub fn name(self) -> &'static str {
        match self {
            RecordKind::Response => "response",
            RecordKind::Resource => "resource",
            RecordKind::Revisit => "revisit",
            RecordKind::Metadata => "metadata",
            RecordKind::Request => "request",
            RecordKind::Conversion => "conversion",
        }
    }

    /// The kind with this WARC name, in any case.
    pub fn named(name: &str) -> Option<RecordKind> {
        RecordKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Whether a record of this kind is a version of the page itself, not a record beside it.
    pub fn is_page(self) -> bool {
        matches!(self, RecordKind::Response | RecordKind::Resource | RecordKind::Revisit)
    }
}

/// The protocol of a message, as in its first line.
///
/// ```
/// use filemap::HttpVersion;
/// assert_eq!(HttpVersion::from_token("HTTP/2.0"), HttpVersion::Http2);
/// assert_eq!(HttpVersion::Http11.as_str(), "HTTP/1.1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HttpVersion {
    /// `HTTP/1.0`
    Http10,
    /// `HTTP/1.1`
    Http11,
    /// `HTTP/2` or `HTTP/2.0`
    Http2,
    /// `HTTP/3` or `HTTP/3.0`
    Http3,
    /// Anything else, as written (`HTTP/0.9`, `ICY`).
    Other(String),
}

impl HttpVersion {
    /// All but `Other`, in the order of the codes in [`meta`].
    pub(crate) const KNOWN: [HttpVersion; 4] =
        [HttpVersion::Http10, HttpVersion::Http11, HttpVersion::Http2, HttpVersion::Http3];

    /// Reads a protocol token; `HTTP/2.0` and `HTTP/3.0` are the same as `HTTP/2` and `HTTP/3`.
    pub fn from_token(token: &str) -> HttpVersion {
        let short = if matches!(token, "HTTP/2.0" | "HTTP/3.0") { &token[..6] } else { token };
        let known = HttpVersion::KNOWN.into_iter().find(|version| version.as_str() == short);
        known.unwrap_or_else(|| HttpVersion::Other(token.to_owned()))
    }

    /// The token of a status line.
    pub fn as_str(&self) -> &str {
        match self {
            HttpVersion::Http10 => "HTTP/1.0",
            HttpVersion::Http11 => "HTTP/1.1",
            HttpVersion::Http2 => "HTTP/2",
            HttpVersion::Http3 => "HTTP/3",
            HttpVersion::Other(token) => token,
        }
    }
}

/// Why a visit counts as a repetition of an earlier one.
///
/// ```
/// use filemap::{Revisit, RevisitProfile};
///
/// fn is_304(revisit: &Revisit) -> bool {
///     revisit.profile == RevisitProfile::ServerNotModified
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RevisitProfile {
    /// The payload was the same, byte for byte.
    IdenticalPayload,
    /// The server answered that nothing had changed (304).
    ServerNotModified,
    /// Another profile, by its URI.
    Other(String),
}

/// What a revisit refers to.
///
/// ```
/// use filemap::{Page, RecordKind, Revisit, RevisitProfile};
/// let revisit = Revisit {
///     profile: RevisitProfile::IdenticalPayload,
///     refers_to_url: Some(b"http://example.com/".to_vec()),
///     refers_to_ms: Some(1_700_000_000_000),
///     refers_to_id: None,
///     original: None,
/// };
/// let page = Page {
///     kind: RecordKind::Revisit,
///     revisit: Some(revisit),
///     ..Page::new("http://example.com/", 1_700_000_900_000, 200, "")
/// };
/// assert!(page.lacks_body());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revisit {
    /// Why it is a revisit.
    pub profile: RevisitProfile,
    /// The URL of the original, if the record names one; its own URL otherwise.
    pub refers_to_url: Option<Vec<u8>>,
    /// When the original was fetched.
    pub refers_to_ms: Option<i64>,
    /// The record id of the original.
    pub refers_to_id: Option<String>,
    /// Where the body was found; filled in by reading, never stored. `None` if it was not looked
    /// for or is not in the store: then the body is the record's own (mostly empty).
    pub original: Option<Original>,
}

/// The version that a revisit's body comes from.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore, RecordKind, Revisit, RevisitProfile};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let first = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// store.put_page(&first)?;
/// let profile = RevisitProfile::ServerNotModified;
/// let revisit =
///     Revisit { profile, refers_to_url: None, refers_to_ms: None, refers_to_id: None, original: None };
/// let again = Page::new("http://example.com/", 1_700_000_900_000, 304, "");
/// store.put_page(&Page { kind: RecordKind::Revisit, revisit: Some(revisit), ..again })?;
/// let page = store.get("http://example.com/")?.expect("just put");
/// assert_eq!(page.body, b"hello");
/// assert_eq!(page.revisit.and_then(|revisit| revisit.original).map(|found| found.fetched_at_ms), Some(first.fetched_at_ms));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Original {
    /// Its key.
    pub key: Vec<u8>,
    /// When it was fetched.
    pub fetched_at_ms: i64,
}

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
    /// The variant that it is, or is beside; `None` for the page itself, the answer to a plain
    /// `GET`.
    pub variant: Option<Variant>,
    /// When it was fetched.
    pub fetched_at_ms: i64,
    /// What kind of record it is.
    pub kind: RecordKind,
    /// The status code of the answer, 1 or more; `None` for what has none (a resource, a request).
    pub status: Option<u16>,
    /// The reason phrase, as sent.
    pub reason: Vec<u8>,
    /// The protocol of the answer or request.
    pub http_version: Option<HttpVersion>,
    /// The method of the request, if it is known.
    pub method: Option<String>,
    /// The address that answered.
    pub ip: Option<IpAddr>,
    /// The header fields. A resource or metadata record has its `Content-Type` here.
    pub headers: Headers,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// Why the body is truncated (WARC has `length`, `time`, `disconnect`, `unspecified`); `None`
    /// if it is whole.
    pub truncated: Option<String>,
    /// The payload digest of the source (`sha1:...`): of the bytes on the wire, so not of `body`
    /// if that was decoded. Never checked.
    pub digest: Option<String>,
    /// The record id of the source (`<urn:uuid:...>`).
    pub record_id: Option<String>,
    /// The reference to the original, if it is a revisit.
    pub revisit: Option<Revisit>,
}

impl Page {
    /// A page with this URL, time, status and body.
    pub fn new(url: impl Into<Vec<u8>>, fetched_at_ms: i64, status: u16, body: impl Into<Vec<u8>>) -> Page {
        Page { url: url.into(), fetched_at_ms, status: Some(status), body: body.into(), ..Page::default() }
    }

    /// Whether its body is missing: it is a revisit that was read with its body, and its original
    /// is not in the store. False if the payload digest is that of no bytes.
    pub fn lacks_body(&self) -> bool {
        let is_resolved = self.revisit.as_ref().is_some_and(|revisit| revisit.original.is_some());
        self.kind == RecordKind::Revisit && !is_resolved && self.body.is_empty() && !self.is_of_no_bytes()
    }

    /// Whether its payload digest is that of no bytes.
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
    fn kinds_are_found_by_their_warc_name() {
        for kind in RecordKind::ALL {
            assert_eq!(RecordKind::named(&kind.name().to_uppercase()), Some(kind));
        }
        assert_eq!(RecordKind::named("warcinfo"), None);
    }

    #[test]
    fn a_http_head_reads_as_it_was_sent() {
        let mut page = Page::new("http://a/", 0, 200, "x");
        page.reason = b"OK".to_vec();
        page.headers.push("A", b"\xe9".to_vec());
        page.headers.push("A", "2");
        assert_eq!(page.http_head(), b"HTTP/1.1 200 OK\r\nA: \xe9\r\nA: 2\r\n\r\n");
    }
}
