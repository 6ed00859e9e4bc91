//! Converts an entry of another program's cache to a page: decodes the body, adjusts the headers,
//! puts it.

use std::borrow::Cow;

use filemap_core::Put;
use urlindex::Canonicalizer;

use super::data::View;
use crate::error::Result;
use crate::http::body::{self, BodyRules};
use crate::http::coding::Coding;
use crate::import::options::ImportOptions;
use crate::import::report::ImportReport;
use crate::page::Page;
use crate::page::headers::{Header, Headers};
use crate::spool::Payload;
use crate::store::{Loader, PageStore};

/// The longest URL that a store of Scrapy's pages keeps under its own key.
const MAX_URL_BYTES: usize = 60_000;

/// The longest headers of an entry, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 20;

/// State of a body's content codings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codings {
    /// As received: they must be undone.
    Received,
    /// Undone, but the headers still name them.
    Undone,
}

/// A page that another program had cached.
///
/// ```
/// use filemap::import::cache;
/// let meta = b"{'url': 'http://a.example/', 'method': 'GET', 'status': 200, \
///     'response_url': 'http://a.example/', 'timestamp': 1700000000.25}";
/// let files = cache::ScrapyFiles::new(meta, b"Server: a", b"hello".to_vec());
/// let entry = cache::scrapy_entry(Some("docs"), "0a", files).unwrap();
/// assert_eq!((&*entry.page.url, entry.page.status), (&b"http://a.example/"[..], Some(200)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CachedPage {
    /// The page, its body as cached.
    pub page: Page,
    /// Parts of the entry that could not be kept, a sentence each.
    pub lost: Vec<String>,
    /// Damage of the body, if the page is kept despite it.
    pub damage: Option<String>,
    pub(super) codings: Codings,
    /// The last header, after those about the body.
    pub(super) note: Option<Header>,
    /// Replaces the URL in the key if the store refuses the URL.
    pub(super) stand_in: Option<Vec<u8>>,
}

impl CachedPage {
    /// The URL under which a store with this canonicaliser keeps the page: its own, or its
    /// stand-in if the store refuses that.
    pub fn key_url(&self, canonicalizer: &dyn Canonicalizer) -> &[u8] {
        let is_refused = || self.page.url.len() > MAX_URL_BYTES || canonicalizer.canonicalize(&self.page.url).is_err();
        self.stand_in.as_deref().filter(|_| is_refused()).unwrap_or(&self.page.url)
    }
}

/// Puts cached pages into a store, in linear time over all of them.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::import::{ImportOptions, ImportReport, cache};
/// use filemap::{Options, PageStore};
///
/// # let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let meta = b"{'url': 'http://a.example/', 'method': 'GET', 'status': 200, \
///     'response_url': 'http://a.example/', 'timestamp': 1700000000.25}";
/// let mut loader = cache::CacheLoader::new(ImportOptions::new());
/// let mut report = ImportReport::default();
/// for _ in 0..2 {
///     let files = cache::ScrapyFiles::new(meta, b"Server: a", b"hello".to_vec());
///     loader.put(&store, cache::scrapy_entry(None, "0a", files)?, &mut report)?;
/// }
/// assert_eq!((report.stored, report.already_there, report.variants), (1, 1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct CacheLoader {
    loader: Loader,
    options: ImportOptions,
}

impl CacheLoader {
    /// A loader; of the options, only those of bodies are used.
    pub fn new(options: ImportOptions) -> CacheLoader {
        CacheLoader { loader: Loader::default(), options }
    }

    /// Puts a page, unless the store already has this version, and counts it.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::put_page_if_new`], and [`crate::Error::Spool`].
    pub fn put(&mut self, store: &PageStore, entry: CachedPage, report: &mut ImportReport) -> Result<()> {
        let key_url = entry.key_url(&**store.canonicalizer()).to_vec();
        let CachedPage { mut page, codings, note, .. } = entry;
        let (decoded, as_received) = settle(&mut page, codings, &self.options.body_rules)?;
        page.headers.0.extend(note);
        page.url = key_url;
        let Some(put) = self.loader.put_page_if_new(store, &page)? else {
            report.already_there += 1;
            return Ok(());
        };
        report.stored += 1;
        report.unchanged += u64::from(matches!(put, Put::Unchanged(_)));
        report.variants += u64::from(page.variant.is_some());
        report.decoded += u64::from(decoded);
        report.kept_as_received += u64::from(as_received);
        report.body_bytes += page.body.len() as u64;
        Ok(())
    }
}

/// Makes body and headers of a page agree. Returns whether codings were undone, and whether some
/// could not be.
fn settle(page: &mut Page, codings: Codings, rules: &BodyRules) -> Result<(bool, bool)> {
    if codings == Codings::Undone {
        tell_undone(&mut page.headers, page.body.len() as u64);
        return Ok((false, false));
    }
    let payload = Payload::Memory(std::mem::take(&mut page.body));
    let body = body::undo_content_only(&mut page.headers, payload, rules)?;
    page.body = body.payload.into_bytes()?;
    Ok((body.decoded, body.as_received))
}

/// Renames the fields of a body as received, for a body that has since been decoded.
fn tell_undone(headers: &mut Headers, bytes: u64) {
    let codings = headers.items("Content-Encoding");
    if codings.iter().any(|coding| !Coding::named(coding).is_empty()) {
        headers.rename("Content-Encoding", "X-Crawler-Content-Encoding");
        headers.set_length(bytes);
    }
}

/// A time in seconds as milliseconds, truncated like Python's `int`; `None` if it is not a time.
pub(super) fn time_ms(seconds: f64) -> Option<i64> {
    let ms = seconds * 1000.0;
    // Within the years that a page's time can have.
    (ms.abs() < 2.5e14).then_some(ms as i64)
}

/// A status code.
pub(super) fn status(number: Option<i64>) -> Option<u16> {
    number.and_then(|number| u16::try_from(number).ok()).filter(|status| *status > 0)
}

/// Headers of a mapping of names to values or lists of values.
pub(super) fn fields_of(headers: View<'_>) -> std::result::Result<Headers, CacheError> {
    let mut fields = Headers::new();
    let (mut room, mut named) = (MAX_HEADER_BYTES, MAX_HEADER_BYTES);
    let mut push = |name: &[u8], value: View<'_>| {
        let value = value.bytes()?;
        room = room.checked_sub(name.len() + value.len() + 64)?;
        fields.push(name, value.as_ref());
        Some(())
    };
    for (name, value) in headers.pairs().ok_or_else(|| CacheError("its headers are not a mapping".to_owned()))? {
        let pushed = name.bytes().and_then(|name| {
            named = named.checked_sub(name.len())?;
            match value.items() {
                Some(mut values) => values.try_for_each(|value| push(&name, value)),
                None if value.is_none() => Some(()),
                None => push(&name, value),
            }
        });
        if pushed.is_none() {
            return fail(format!("its headers are not text, or over {} MiB", MAX_HEADER_BYTES >> 20));
        }
    }
    Ok(fields)
}

/// Bytes as text for a message, shortened.
pub(super) fn shown(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)])
}

impl From<String> for CacheError {
    fn from(what: String) -> CacheError {
        CacheError(what)
    }
}

/// Reason why a cache entry cannot be read.
///
/// ```
/// let error = filemap::import::cache::scrapy_dbm_entry(None, "0a", b"", b"1.5").unwrap_err();
/// assert!(error.to_string().contains("ends early"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CacheError(pub(super) String);

/// Returns an error with this message.
pub(super) fn fail<T>(what: impl Into<String>) -> std::result::Result<T, CacheError> {
    Err(CacheError(what.into()))
}
