//! The parts of a [`Page`]: kind, protocol, header fields, references of a revisit, place in an
//! archive; its description in a store ([`meta`]) and the character set of its body
//! ([`encoding`]).

pub(crate) mod digest;
pub mod encoding;
pub(crate) mod headers;
pub(crate) mod in_place;
pub(crate) mod key;
pub mod meta;
pub(crate) mod order;
pub(crate) mod variant;
pub(crate) mod version;
pub(crate) mod visit;

pub use headers::{Header, Headers};
pub use in_place::{ArchiveId, InPlace};
pub(crate) use visit::Page;

filemap_io::named_enum! {
    /// The kind of a record, as in WARC.
    ///
    /// ```
    /// use filemap::page::RecordKind;
    /// assert_eq!(RecordKind::named("Metadata"), Some(RecordKind::Metadata));
    /// assert!(RecordKind::Resource.is_page() && !RecordKind::Request.is_page());
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum RecordKind {
        /// A server's response with its headers.
        #[default]
        Response => "response",
        /// A file without a protocol around it.
        Resource => "resource",
        /// A visit with the same result as an earlier one: it has its own headers, and refers
        /// to the body.
        Revisit => "revisit",
        /// Notes about a page (WARC `metadata`). Kept beside the page, never in its place.
        Metadata => "metadata",
        /// The request that was sent for a page. Kept beside the page, never in its place.
        Request => "request",
        /// The page in another form, such as its text (WARC `conversion`). Kept beside the page,
        /// never in its place.
        Conversion => "conversion",
    }
}

impl RecordKind {
    /// The kind with this WARC name, in any case.
    pub fn named(name: &str) -> Option<RecordKind> {
        RecordKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Returns whether a record of this kind is a version of the page itself, not a record beside
    /// it.
    pub fn is_page(self) -> bool {
        matches!(self, RecordKind::Response | RecordKind::Resource | RecordKind::Revisit)
    }
}

/// The protocol of a message, as in its first line.
///
/// ```
/// use filemap::page::HttpVersion;
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
    /// All except `Other`, in the order of the codes in [`meta`].
    pub(crate) const KNOWN: [HttpVersion; 4] =
        [HttpVersion::Http10, HttpVersion::Http11, HttpVersion::Http2, HttpVersion::Http3];

    /// Parses a protocol token; `HTTP/2.0` and `HTTP/3.0` are the same as `HTTP/2` and `HTTP/3`.
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

/// The reason why a visit repeats an earlier one.
///
/// ```
/// use filemap::page::{Revisit, RevisitProfile};
///
/// fn is_304(revisit: &Revisit) -> bool {
///     revisit.profile == RevisitProfile::ServerNotModified
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RevisitProfile {
    /// The payload was identical, byte for byte.
    IdenticalPayload,
    /// The server answered that nothing had changed (304).
    ServerNotModified,
    /// Another profile, by its URI.
    Other(String),
}

/// The references of a revisit to its original.
///
/// ```
/// use filemap::page::{RecordKind, Revisit, RevisitProfile};
/// use filemap::Page;
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
    /// The reason why it is a revisit.
    pub profile: RevisitProfile,
    /// The URL of the original, if the record names one; its own URL otherwise.
    pub refers_to_url: Option<Vec<u8>>,
    /// Time of the fetch of the original, in ms since 1970.
    pub refers_to_ms: Option<i64>,
    /// The record id of the original.
    pub refers_to_id: Option<String>,
    /// Source of the body; set by reading, never stored. `None` if the original was not searched
    /// for or is not in the store: then the body is the record's own (mostly empty).
    pub original: Option<Original>,
}

impl Revisit {
    /// A revisit with the same payload and no references.
    pub(crate) fn unnamed() -> Revisit {
        let profile = RevisitProfile::IdenticalPayload;
        Revisit { profile, refers_to_url: None, refers_to_ms: None, refers_to_id: None, original: None }
    }
}

/// The version that a revisit's body comes from.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::page::{RecordKind, Revisit, RevisitProfile};
/// # use filemap::{Options, Page, PageStore};
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
    /// Time of its fetch, in ms since 1970.
    pub fetched_at_ms: i64,
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
}
