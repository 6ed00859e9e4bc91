//! An open store: bucket, index, writer, and reading records through them.
//!
//! A follower may look up a row whose segment the writer is rewriting: the object is then missing.
//! The index is refreshed and the row looked up once more; a second miss is damage.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use filemap::access::keys;
use filemap::canonical::url_of_key;
use filemap::page::meta;
use filemap::{Page, PageHead, Version};
use tokio::runtime::Handle;
use urlindex::Canonicalizer;

use crate::bucket::Bucket;
use crate::commit;
use crate::dictionaries::{Dictionaries, Unpacked};
use crate::error::{Error, Result};
use crate::format::chunks::Table;
use crate::format::dictionary;
use crate::format::record::{Kind, Record};
use crate::format::row::{self, Row};
use crate::index::Index;
use crate::options::CloudOptions;
use crate::rows::Rows;
use crate::runtime;
use crate::writer::Writer;

/// The parts of an open store that reading and writing share.
pub(crate) struct Core {
    pub(crate) bucket: Bucket,
    pub(crate) index: Arc<Index>,
    pub(crate) canonicalizer: Arc<dyn Canonicalizer>,
    pub(crate) runtime: Handle,
    pub(crate) options: CloudOptions,
    pub(crate) dictionaries: Dictionaries,
    /// `None` for a follower.
    pub(crate) writer: Option<Writer>,
}

/// The way to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// Through the cache on disk, if there is one.
    Cache,
    /// Past it, after damage: the cache gets the answer.
    Bucket,
}

/// A version and its row.
pub(crate) type Found = (Version, Row);

impl Core {
    /// Runs a request and waits for it.
    pub(crate) fn wait<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Core>) -> F,
    ) -> Result<T> {
        self.wait_for(work(Arc::clone(self)))
    }

    /// As [`Core::wait`], for a future that is already built. Notes the loss of the store, which a
    /// read may find out before a commit does.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let done = runtime::wait(&self.runtime, work);
        let done =
            done.unwrap_or_else(|| Err(self.bucket.unavailable("a request", 0, &"its task ended without an answer")));
        if let (Err(error @ Error::Fenced { .. }), Some(writer)) = (&done, &self.writer) {
            writer.progress.fail(error.clone());
        }
        done
    }

    /// Returns whether the handle is being closed: deferrable work stops.
    pub(crate) fn is_closing(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.closing.load(Ordering::Relaxed))
    }

    /// The canonical key of a URL.
    pub(crate) fn canonical(&self, url: &[u8]) -> filemap::Result<Vec<u8>> {
        self.canonicalizer.canonicalize(url).map_err(|source| {
            let url = String::from_utf8_lossy(url).into_owned();
            filemap::Error::Url { url, source }
        })
    }

    /// The index, among these shards, of the shard of a URL in a store of `of` shards.
    pub(crate) fn place(&self, url: &[u8], of: u32, mut shards: impl Iterator<Item = u32>) -> filemap::Result<usize> {
        if of == 1 {
            return Ok(0);
        }
        let shard = urlindex::shard(&self.canonical(url)?, of);
        let other = || {
            let (location, url) = (self.bucket.location().to_owned(), String::from_utf8_lossy(url).into_owned());
            Error::OtherShard { location, url, shard, own: self.bucket.shard() }
        };
        Ok(shards.position(|has| has == shard).ok_or_else(other)?)
    }

    /// The rows in a range.
    pub(crate) async fn rows(&self, range: Range<Vec<u8>>, is_backwards: bool) -> Result<Rows> {
        let overlay = self.overlay(&range);
        let scan = self.index.scan(range, is_backwards).await?;
        Ok(Rows::new(overlay, scan, is_backwards))
    }

    /// The rows of one key, of versions up to a time.
    pub(crate) async fn rows_of(&self, form: &[u8], time_ms: Option<i64>) -> Result<Rows> {
        let range = row::until_time(form, time_ms);
        let overlay = self.overlay(&range);
        let scan = self.index.scan_key(&row::prefix(form), range).await?;
        Ok(Rows::new(overlay, scan, false))
    }

    fn overlay(&self, range: &Range<Vec<u8>>) -> crate::pending::Overlay {
        self.writer.as_ref().map(|writer| writer.pending.range(range)).unwrap_or_default()
    }

    /// The newest version of a key at or before a time.
    pub(crate) async fn newest(&self, form: &[u8], time_ms: Option<i64>) -> Result<Option<Found>> {
        let found = self.rows_of(form, time_ms).await?.next(&self.bucket).await?;
        Ok(found.map(|(_, version, row)| (version, row)))
    }

    /// All versions of a key at or before a time, newest first.
    pub(crate) async fn versions(&self, form: &[u8], time_ms: Option<i64>) -> Result<Vec<Found>> {
        let mut rows = self.rows_of(form, time_ms).await?;
        let mut found = Vec::new();
        while let Some((_, version, row)) = rows.next(&self.bucket).await? {
            found.push((version, row));
        }
        Ok(found)
    }

    /// The row of one version.
    pub(crate) async fn row(&self, form: &[u8], version: Version) -> Result<Option<Row>> {
        let key = row::of_version(form, version);
        if let Some(row) = self.writer.as_ref().and_then(|writer| writer.pending.row(&key)) {
            return Ok(row);
        }
        let Some(bytes) = self.index.get(key).await? else { return Ok(None) };
        Row::decode(&bytes).map(Some).ok_or_else(|| self.bucket.damaged("the index", "a row does not decode"))
    }

    /// Returns whether damage may be in a cache alone: then the record is read past it.
    pub(crate) fn may_be_cached(&self, error: &Error) -> bool {
        error.is_damage() && self.bucket.cache().is_some()
    }

    /// The page of a row; `None` if its record, or the dictionary that it needs, is missing.
    pub(crate) async fn page(&self, key: &[u8], version: Version, row: &Row) -> Result<Option<Page>> {
        match self.page_via(Via::Cache, key, version, row).await {
            Err(error) if self.may_be_cached(&error) => self.page_via(Via::Bucket, key, version, row).await,
            page => page,
        }
    }

    async fn page_via(&self, via: Via, key: &[u8], version: Version, row: &Row) -> Result<Option<Page>> {
        let Some(bytes) = self.bytes(row, 0..row.bytes, via).await? else { return Ok(None) };
        let record = self.parsed(&bytes, key, version, row, true)?;
        let mut page = self.described(&record)?;
        let body = match row.original {
            None => self.body(&record, row).await?,
            Some(original) => self.body_of(key, original, via).await?,
        };
        let Some(body) = body else { return Ok(None) };
        page.body = body;
        Ok(Some(page))
    }

    /// The body of the version that a reference names; `None` as for [`Core::page`].
    async fn body_of(&self, key: &[u8], original: Version, via: Via) -> Result<Option<Vec<u8>>> {
        let Some(row) = self.row(&keys::form(key), original).await? else { return Ok(None) };
        let Some(bytes) = self.bytes(&row, 0..row.bytes, via).await? else { return Ok(None) };
        let record = self.parsed(&bytes, key, original, &row, true)?;
        self.body(&record, &row).await
    }

    /// Returns whether a version's own body exists and is intact.
    pub(crate) async fn has_body(&self, key: &[u8], version: Version) -> Result<bool> {
        match self.body_of(key, version, Via::Cache).await {
            Err(error) if error.is_damage() => Ok(false),
            body => Ok(body?.is_some()),
        }
    }

    /// A version without its body; `None` if its record is missing.
    pub(crate) async fn head(&self, key: &[u8], version: Version, row: &Row) -> Result<Option<PageHead>> {
        let Some(page) = self.description(key, version, row).await? else { return Ok(None) };
        let head = PageHead::new(page, version, row.body_bytes, row.bytes);
        Ok(Some(head.unchanged_since(row.original.map(|original| original.sequence))))
    }

    /// The description of a version; `None` if its record is missing.
    pub(crate) async fn description(&self, key: &[u8], version: Version, row: &Row) -> Result<Option<Page>> {
        match self.description_via(Via::Cache, key, version, row).await {
            Err(error) if self.may_be_cached(&error) => self.description_via(Via::Bucket, key, version, row).await,
            page => page,
        }
    }

    async fn description_via(&self, via: Via, key: &[u8], version: Version, row: &Row) -> Result<Option<Page>> {
        let Some(bytes) = self.bytes(row, 0..row.head_bytes, via).await? else { return Ok(None) };
        self.described(&self.parsed(&bytes, key, version, row, false)?).map(Some)
    }

    /// A range of a record; `None` if its segment is missing.
    pub(crate) async fn bytes(&self, row: &Row, bytes: Range<u64>, via: Via) -> Result<Option<Bytes>> {
        if let Some(found) = self.writer.as_ref().and_then(|writer| writer.record(row, bytes.clone())) {
            return Ok(Some(found));
        }
        let (offset, Range { start, end }) = (row.place.offset, bytes);
        let range = offset.saturating_add(start)..offset.saturating_add(end);
        let name = commit::object(row.segment());
        match via {
            Via::Cache => self.bucket.range(&name, range).await,
            Via::Bucket => self.bucket.afresh().range(&name, range).await,
        }
    }

    /// The front of the record of a page with a large body: its description and the table of its
    /// chunks, if it is in chunks.
    pub(crate) fn front(&self, bytes: &[u8], key: &[u8], version: Version, row: &Row) -> Result<(Page, Option<Table>)> {
        let record = self.parsed(bytes, key, version, row, false)?;
        if record.kind != Kind::Page {
            return Err(self.damaged_at(key, row, "a reference to a version that has no body"));
        }
        if record.body_bytes != row.body_bytes {
            return Err(self.damaged_at(key, row, "a body of another length than in the index"));
        }
        let (_, table) = Record::take_table(bytes, row.place).map_err(|what| self.damaged_at(key, row, what))?;
        Ok((self.described(&record)?, table))
    }

    /// The error for damage of a record.
    pub(crate) fn damaged_at(&self, key: &[u8], row: &Row, what: &str) -> Error {
        let what = format!("{what} (offset {}, {})", row.place.offset, shown(key));
        self.bucket.damaged(&commit::object(row.segment()), what)
    }

    fn parsed<'b>(
        &self,
        bytes: &'b [u8],
        key: &[u8],
        version: Version,
        row: &Row,
        with_payload: bool,
    ) -> Result<Record<'b>> {
        let damaged = |what: &str| self.damaged_at(key, row, what);
        let (record, _) = Record::take(bytes, row.place, with_payload).map_err(damaged)?;
        let is_meant = record.key == key && record.version == version && record.kind == row.kind;
        if is_meant { Ok(record) } else { Err(damaged("the record of another version")) }
    }

    fn described(&self, record: &Record<'_>) -> Result<Page> {
        let url = url_of_key(record.key);
        let (fixed, spill) = record.meta.split_at(record.meta.len() - record.spill_bytes as usize);
        let page = meta::decode(fixed, spill, url, record.version.time_ms).map_err(|error| Error::Description {
            location: self.bucket.location().to_owned(),
            url: shown(record.key),
            version: record.version,
            what: error.to_string(),
        })?;
        Ok(Page { variant: keys::variant(record.key), ..page })
    }

    /// The body in a record; `None` if the dictionary that it needs is missing.
    async fn body(&self, record: &Record<'_>, row: &Row) -> Result<Option<Vec<u8>>> {
        if record.kind != Kind::Page {
            return Err(self.damaged_at(record.key, row, "a reference to a version that has no body"));
        }
        match self.dictionaries.unpacked(record).await? {
            Unpacked::Body(body) => Ok(Some(body)),
            Unpacked::Damaged(what) => Err(self.damaged_at(record.key, row, &what)),
            Unpacked::Without(_) => Ok(None),
        }
    }

    /// The error for a row that was found twice, and whose record, or that of the version with its
    /// body, or the dictionary that this needs, is missing.
    pub(crate) async fn lost(&self, key: &[u8], row: &Row) -> Error {
        let mut row = *row;
        if let Some(original) = row.original
            && let Ok(Some(_)) = self.bytes(&row, 0..row.head_bytes, Via::Bucket).await
        {
            match self.row(&keys::form(key), original).await {
                Ok(Some(of_original)) => row = of_original,
                Ok(None) => return self.damaged_at(key, &row, "a reference to a missing version"),
                Err(error) => return error,
            }
        }
        if let Ok(Some(bytes)) = self.bytes(&row, 0..row.head_bytes, Via::Bucket).await
            && let Ok((record, _)) = Record::take(&bytes, row.place, false)
            && let Some(id) = record.dictionary()
        {
            return self.bucket.damaged(&dictionary::object(id), "dictionary missing; live versions need it");
        }
        self.gone(&row)
    }

    /// The error for a row whose record is missing.
    pub(crate) fn gone(&self, row: &Row) -> Error {
        self.bucket.damaged(&commit::object(row.segment()), "segment missing; it has live versions")
    }
}

/// The URL of a key, for an error message.
pub(crate) fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(url_of_key(key)).into_owned()
}
