//! Single pages as records of a WARC stream, for callers that need a few of them.

use filemap_core::Version;
use serde_json::Value;

use super::files::record;
use crate::access::interface::Lookup;
use crate::error::Result;
use crate::page::RecordKind;
use crate::store::{PageStore, take_body};
use crate::warc::write::{Form, draft, info, warcinfo};

/// The first record of a WARC stream of this name.
///
/// ```
/// let begin = filemap::dump::warc_begin("answer", 1_700_000_000_000);
/// assert!(begin.starts_with(b"WARC/1.1\r\nWARC-Type: warcinfo\r\n"));
/// ```
pub fn warc_begin(name: &str, time_ms: i64) -> Vec<u8> {
    warcinfo(name, time_ms)
}

/// A version of a page as an uncompressed WARC record; `None` if the store does not have it. A
/// revisit is written as an answer with its original's body, because the stream may not contain
/// that. The body is in memory.
///
/// # Errors
///
/// As [`PageStore::get`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let record = filemap::dump::warc_record(&store, "http://example.com/")?.expect("just put");
/// assert!(record.ends_with(b"hello\r\n\r\n"));
/// # Ok(())
/// # }
/// ```
pub fn warc_record<'l>(store: &PageStore, lookup: impl Into<Lookup<'l>>) -> Result<Option<Vec<u8>>> {
    let lookup = lookup.into();
    let Some(head) = store.head(lookup)? else { return Ok(None) };
    warc_record_of(store, lookup, head.version)
}

/// As [`warc_record`], for one of the versions that [`PageStore::history`] lists. The lookup's
/// time is ignored.
///
/// # Errors
///
/// As [`PageStore::get`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let version = store.versions_of("http://example.com/")?[0];
/// let record = filemap::dump::warc_record_of(&store, "http://example.com/", version)?;
/// assert!(record.expect("just put").ends_with(b"hello\r\n\r\n"));
/// # Ok(())
/// # }
/// ```
pub fn warc_record_of<'l>(
    store: &PageStore,
    lookup: impl Into<Lookup<'l>>,
    version: Version,
) -> Result<Option<Vec<u8>>> {
    let lookup = lookup.into();
    let key = store.key_of(lookup.url, RecordKind::Response, lookup.variant)?;
    let Some(value) = store.value_of(&key, version)? else { return Ok(None) };
    let mut version = store.stored_version(key, value)?;
    let mut form = Form::Full;
    if version.page.kind == RecordKind::Revisit {
        match store.original_and_steps(&version.key, &version.page)? {
            Some((original, _)) => {
                take_body(&mut version.page, original);
                version.page.kind = RecordKind::Response;
            }
            None => form = Form::Revisit(None),
        }
    }
    Ok(Some(record(&draft(&version, &form, None), &version.page.body)))
}

/// A JSON note in a WARC stream of this name: a `warcinfo` record, which readers of pages skip.
///
/// ```
/// let said = serde_json::json!({ "url": "http://example.com/", "is_absent": true });
/// let note = filemap::dump::warc_note("answer", 0, &said);
/// assert!(note.starts_with(b"WARC/1.1\r\nWARC-Type: warcinfo\r\n"));
/// ```
pub fn warc_note(name: &str, time_ms: i64, said: &Value) -> Vec<u8> {
    info(name, time_ms, "application/json", &said.to_string())
}
