//! Makes pages from the engine's values: with the body, without it, as a stream; several at once.
//! Lookups by URL and variant are in `variants`.
//!
//! A revisit that is returned with its body gets that of its original (see `revisit`). Heads are
//! as stored.

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

use filemap_core::body::{Reader, SharedBody};
use filemap_core::{Head, Value, Version};
#[cfg(feature = "warc")]
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh3::xxh3_128;

use super::PageStore;
use crate::error::{Error, Result};
use crate::page::version::PageHead;
use crate::page::{InPlace, Page, RecordKind, key, meta};
#[cfg(feature = "warc")]
use crate::spool::{Payload, PayloadReader};

/// Reads the body of a page; see [`PageStore::get_reader`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let (page, mut body) = store.get_reader("http://example.com/")?.expect("just put");
/// assert_eq!(page.status, Some(200));
/// std::io::copy(&mut body, &mut std::io::stdout())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PageReader {
    source: Source,
    digest: [u8; 16],
    version: Version,
}

#[derive(Debug)]
enum Source {
    /// The body begins at `body_at`, after a part of the description.
    Engine {
        reader: Box<Reader>,
        body_at: u64,
    },
    Memory(Cursor<Vec<u8>>),
    /// A large body of an archive, in a temporary file.
    #[cfg(feature = "warc")]
    Aside(Box<PayloadReader>),
}

impl PageReader {
    /// The version being read.
    pub fn version(&self) -> Version {
        self.version
    }

    /// A digest that differs if two bodies of the page differ: XXH3-128 of the body, and of the
    /// headers if they did not fit into the description.
    pub fn digest(&self) -> [u8; 16] {
        self.digest
    }

    /// Number of bytes of the body not yet read.
    pub fn remaining(&self) -> u64 {
        match &self.source {
            Source::Engine { reader, .. } => reader.remaining(),
            Source::Memory(bytes) => (bytes.get_ref().len() as u64).saturating_sub(bytes.position()),
            #[cfg(feature = "warc")]
            Source::Aside(body) => body.remaining(),
        }
    }

    /// The unread part of the body, if it is in memory as a whole: always so for a body that is
    /// stored in one piece.
    pub fn in_memory(&self) -> Option<&[u8]> {
        match &self.source {
            Source::Engine { reader, .. } => reader.in_memory(),
            Source::Memory(bytes) => bytes.get_ref().get(bytes.position() as usize..),
            #[cfg(feature = "warc")]
            Source::Aside(_) => None,
        }
    }

    /// As [`PageReader::in_memory`], without a copy: the value cache's own bytes, or a vector that
    /// the reader had; empty after the end.
    ///
    /// # Errors
    ///
    /// The reader, if a part of the body is not in memory.
    pub fn into_memory(self) -> std::result::Result<SharedBody, PageReader> {
        let PageReader { source, digest, version } = self;
        match source {
            Source::Engine { reader, body_at } => reader.into_memory().map_err(|reader| {
                let source = Source::Engine { reader, body_at };
                PageReader { source, digest, version }
            }),
            Source::Memory(bytes) => {
                let at = usize::try_from(bytes.position()).unwrap_or(usize::MAX);
                let mut body = SharedBody::from(bytes.into_inner());
                body.advance(at);
                Ok(body)
            }
            #[cfg(feature = "warc")]
            aside => Err(PageReader { source: aside, digest, version }),
        }
    }
}

impl Read for PageReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Engine { reader, .. } => reader.read(out),
            Source::Memory(bytes) => bytes.read(out),
            #[cfg(feature = "warc")]
            Source::Aside(body) => body.read(out),
        }
    }
}

/// Skipped parts of a large body are not read.
impl Seek for PageReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match (&mut self.source, to) {
            (Source::Memory(bytes), to) => bytes.seek(to),
            #[cfg(feature = "warc")]
            (Source::Aside(body), to) => body.seek(to),
            (Source::Engine { reader, body_at }, SeekFrom::Start(at)) => {
                let at = body_at.checked_add(at).ok_or(io::ErrorKind::InvalidInput)?;
                Ok(reader.seek(SeekFrom::Start(at))? - *body_at)
            }
            (Source::Engine { reader, body_at }, to) => {
                let before = reader.stream_position()?;
                let at = reader.seek(to)?;
                if at < *body_at {
                    reader.seek(SeekFrom::Start(before))?;
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                Ok(at - *body_at)
            }
        }
    }
}

/// A URL on its way through [`PageStore::get_ahead`].
struct Sought<U> {
    url: U,
    key: Result<Vec<u8>>,
}

impl<U> AsRef<[u8]> for Sought<U> {
    /// A URL without a key is looked up under the empty key, which no page has.
    fn as_ref(&self) -> &[u8] {
        self.key.as_deref().unwrap_or_default()
    }
}

impl PageStore {
    /// The newest versions of several pages, read together. For more pages than fit in memory use
    /// [`PageStore::get_ahead`].
    ///
    /// # Errors
    ///
    /// As [`PageStore::get`], for the first that fails.
    pub fn get_many<U: AsRef<[u8]>>(&self, urls: &[U]) -> Result<Vec<Option<Page>>> {
        let keys: Vec<Vec<u8>> = urls.iter().map(|url| self.key(url)).collect::<Result<_>>()?;
        let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let values = self.engine().get_many(&borrowed)?;
        let pages = keys.iter().zip(values);
        pages.map(|(key, value)| value.map(|value| self.resolved(key, value)).transpose()).collect()
    }

    /// The newest versions of pages, one for each URL of an iterator, with the URL, in its order.
    /// `depth` reads are always in flight, as with [`filemap_core::Store::get_ahead`]: pages come
    /// as fast as the device delivers them, and only a few are in memory.
    ///
    /// # Errors
    ///
    /// Each item has its own error, as [`PageStore::get`]; an error does not end the iteration.
    pub fn get_ahead<U, I>(
        &self,
        urls: I,
        depth: usize,
    ) -> impl Iterator<Item = (U, Result<Option<Page>>)> + use<'_, U, I>
    where
        U: AsRef<[u8]>,
        I: IntoIterator<Item = U>,
    {
        let sought = urls.into_iter().map(|url| Sought { key: self.key(&url), url });
        self.engine().get_ahead(sought, depth).map(|(Sought { url, key }, value)| {
            let page = || {
                let (key, value) = (key?, value?);
                value.map(|value| self.resolved(&key, value)).transpose()
            };
            (url, page())
        })
    }

    /// A page from the engine's reader, with a reader of its body.
    pub(super) fn page_reader(&self, key: &[u8], mut reader: Reader) -> Result<(Page, PageReader)> {
        let head = reader.head().clone();
        let mut spill = vec![0; self.spill_bytes(key, &head)?];
        let read = reader.read_exact(&mut spill).map_err(|source| match source.downcast::<filemap_core::Error>() {
            Ok(error) => unreadable(key, Some(head.version), error.into()),
            Err(source) => Error::Read { what: shown_url(key), offset: 0, source },
        });
        read?;
        let mut page = self.decode(key, &head, &spill)?;
        let (version, body_at) = (head.version, spill.len() as u64);
        if let Some(place) = page.in_place {
            return self.archive_reader(key, page, place, version).map_err(|e| unreadable(key, Some(version), e));
        }
        if page.kind != RecordKind::Revisit {
            let source = Source::Engine { reader: Box::new(reader), body_at };
            return Ok((page, PageReader { source, digest: head.digest, version }));
        }
        self.resolve(key, &mut page)?;
        Ok(in_memory(page, version))
    }

    /// The page of a description in place, with a reader of its body.
    #[cfg(feature = "warc")]
    fn archive_reader(&self, key: &[u8], page: Page, place: InPlace, version: Version) -> Result<(Page, PageReader)> {
        let (mut page, mut body) = self.of_archive_in_parts(key, page, place)?;
        if page.kind == RecordKind::Revisit || matches!(body, Payload::Memory(_)) {
            page.body = body.into_bytes()?;
            self.resolve(key, &mut page)?;
            return Ok(in_memory(page, version));
        }
        let mut hasher = Xxh3::new();
        body.chunks(|bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        let (digest, source) = (hasher.digest128().to_be_bytes(), Source::Aside(Box::new(body.into_reader())));
        Ok((page, PageReader { source, digest, version }))
    }

    #[cfg(not(feature = "warc"))]
    fn archive_reader(&self, key: &[u8], page: Page, place: InPlace, version: Version) -> Result<(Page, PageReader)> {
        self.of_archive(key, page, place).map(|page| in_memory(page, version))
    }

    /// The versions of a key, newest first, each with its head or with the error of reading it. An
    /// error without a version is the last item.
    pub(super) fn each_head(&self, key: Vec<u8>) -> impl Iterator<Item = (Option<Version>, Result<Head>)> + use<> {
        let mut heads = self.engine().history_iter(&key);
        std::iter::from_fn(move || {
            let head = heads.next()?;
            let version = heads.version();
            Some((version, head.map_err(|error| unreadable(&key, version, error.into()))))
        })
    }

    /// As [`PageStore::each_head`], as page heads.
    pub(super) fn each_page_head(&self, key: Vec<u8>) -> impl Iterator<Item = Result<PageHead>> + use<> {
        let store = self.clone();
        self.each_head(key.clone())
            .map(move |(version, head)| store.page_head(&key, head?).map_err(|error| unreadable(&key, version, error)))
    }

    /// The result of a read. If it is damage, the error names the newest version of the key for
    /// which `is_wanted` is true.
    pub(super) fn telling<T>(
        &self,
        key: &[u8],
        read: filemap_core::Result<T>,
        is_wanted: impl Fn(&Version) -> bool,
    ) -> Result<T> {
        read.map_err(|error| {
            let versions = if error.is_corrupt() { self.engine().versions_of(key).ok() } else { None };
            let version = versions.and_then(|versions| versions.into_iter().find(is_wanted));
            unreadable(key, version, error.into())
        })
    }

    /// Decodes a value into a page, as stored; a page in place is read from its archive.
    pub(crate) fn stored(&self, key: &[u8], value: Value) -> Result<Page> {
        let version = value.head.version;
        let page = self.own_part(key, value)?;
        match page.in_place {
            None => Ok(page),
            Some(place) => self.of_archive(key, page, place).map_err(|error| unreadable(key, Some(version), error)),
        }
    }

    /// Decodes a value into a page; a page in place has no body.
    fn own_part(&self, key: &[u8], mut value: Value) -> Result<Page> {
        let spill = self.spill_bytes(key, &value.head)?;
        let body = value.body.split_off(spill.min(value.body.len()));
        let page = self.decode(key, &value.head, &value.body)?;
        Ok(Page { body, ..page })
    }

    /// Decodes a value into a page; a revisit gets the body of its original.
    pub(super) fn resolved(&self, key: &[u8], value: Value) -> Result<Page> {
        let mut page = self.stored(key, value)?;
        self.resolve(key, &mut page)?;
        Ok(page)
    }

    /// The page of a head, without its body.
    pub(crate) fn describe(&self, key: &[u8], head: &Head) -> Result<Page> {
        if self.spill_bytes(key, head)? == 0 {
            return self.decode(key, head, &[]);
        }
        // Rare: a header section too large for the meta precedes the body.
        match self.engine().get_version(key, head.version)? {
            Some(value) => Ok(Page { body: Vec::new(), ..self.own_part(key, value)? }),
            None => self.decode(key, head, &[]),
        }
    }

    /// The page of a head, if the head alone describes it.
    #[cfg(feature = "arrow")]
    pub(crate) fn describe_alone(&self, key: &[u8], head: &Head) -> Option<Page> {
        self.spill_bytes(key, head).ok().filter(|bytes| *bytes == 0)?;
        self.decode(key, head, &[]).ok()
    }

    pub(crate) fn page_head(&self, key: &[u8], head: Head) -> Result<PageHead> {
        Ok(PageHead {
            page: self.describe(key, &head)?,
            version: head.version,
            body_bytes: self.body_bytes(key, &head)?,
            stored_bytes: head.stored_bytes,
            unchanged_since: head.unchanged_since,
        })
    }

    /// Length of a version's body, without the part of the description before it.
    pub(crate) fn body_bytes(&self, key: &[u8], head: &Head) -> Result<u64> {
        Ok(head.body_bytes.saturating_sub(self.spill_bytes(key, head)? as u64))
    }

    fn spill_bytes(&self, key: &[u8], head: &Head) -> Result<usize> {
        meta::spill_bytes(&head.meta).map(|bytes| bytes as usize).map_err(|source| meta_error(key, head, source))
    }

    fn decode(&self, key: &[u8], head: &Head, spill: &[u8]) -> Result<Page> {
        let decoded = meta::decode(&head.meta, spill, key::url(key), head.version.time_ms);
        let page = decoded.map_err(|source| meta_error(key, head, source))?;
        Ok(Page { variant: key::variant(key), ..page })
    }
}

/// A page with a reader of its body, which is in memory.
fn in_memory(mut page: Page, version: Version) -> (Page, PageReader) {
    let body = std::mem::take(&mut page.body);
    let digest = xxh3_128(&body).to_be_bytes();
    (page, PageReader { source: Source::Memory(Cursor::new(body)), digest, version })
}

/// Adds the version to an error, if the error is damage, or if a rule refuses a body in place.
pub(super) fn unreadable(key: &[u8], version: Option<Version>, error: Error) -> Error {
    let is_lost = error.is_damage() || error.refused_by().is_some();
    let Some(version) = version.filter(|_| is_lost) else { return error };
    Error::Unreadable { url: shown_url(key), version, source: Arc::new(error) }
}

/// The URL of a key as text for messages.
pub(super) fn shown_url(key: &[u8]) -> String {
    String::from_utf8_lossy(key::url(key)).into_owned()
}

fn meta_error(key: &[u8], head: &Head, source: meta::MetaError) -> Error {
    Error::Meta { key: String::from_utf8_lossy(key).into_owned(), time_ms: head.version.time_ms, source }
}
