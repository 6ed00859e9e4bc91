//! Lists URLs without reading bodies, pages and their sizes in the order of the log; removes all
//! keys that a filter accepts.
//!
//! Only [`PageStore::versions`], [`PageStore::stored_versions`], [`PageStore::stored_newest`],
//! [`PageStore::sizes`], [`PageStore::remove_where`] and [`PageStore::remove_in`] cover the keys
//! of variants and of the records beside pages.

use std::ops::ControlFlow;

use filemap_core::list::{Direction, Keys, Split};
use filemap_core::{Value, Version};

use super::PageStore;
use super::listing::{self, Listing};
use crate::access::{Cursor, Removed, Results, Scope, keys};
use crate::error::{Error, Result};
use crate::page::version::{PageHead, StoredVersion};
use crate::page::{Page, key};

/// The canonical URLs of pages, each once. They come in order if the store keeps one, except from
/// [`PageStore::urls_where`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let urls: Vec<Vec<u8>> = store.urls_of_host("Example.com").collect::<Result<_, _>>()?;
/// assert_eq!(urls, [b"http://example.com/"]);
/// # Ok(())
/// # }
/// ```
pub struct Urls(Found);

enum Found {
    Listed(Listing),
    Scanned(Keys),
    /// The error of a listing that could not start: returned once.
    Failed(Option<Error>),
}

impl Urls {
    /// The place where a [`PageStore::listing`] continues after the last URL returned; `None`
    /// before the first, and in a store without key order.
    pub fn cursor(&self) -> Option<Cursor> {
        match &self.0 {
            Found::Listed(listing) => listing.cursor(),
            _ => None,
        }
    }
}

impl Iterator for Urls {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        match &mut self.0 {
            Found::Listed(listing) => listing.next_key(usize::MAX)?,
            Found::Scanned(keys) => Some(keys.next()?.map_err(Into::into)),
            Found::Failed(error) => error.take().map(Err),
        }
    }
}

/// Sizes of one version; see [`PageStore::sizes`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let size = store.sizes().next().expect("a version")?;
/// assert!(size.is_page && size.is_newest && size.body_bytes == 5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionSize {
    /// The canonical URL.
    pub url: Vec<u8>,
    /// True for a version of the page itself, not of a variant or of a record beside it.
    pub is_page: bool,
    /// True for a version of a variant.
    pub is_variant: bool,
    /// True for the newest version of its page, variant, or record beside them.
    pub is_newest: bool,
    /// Time of the fetch, in ms since 1970.
    pub time_ms: i64,
    /// Length of its body in bytes, also if it refers to an earlier body; with the description, if
    /// that does not fit into the meta.
    pub body_bytes: u64,
    /// Bytes in the value log.
    pub stored_bytes: u64,
}

impl VersionSize {
    /// The size of a version of a key, for an implementation of a store.
    ///
    /// ```
    /// use filemap::Version;
    /// use filemap::store::VersionSize;
    /// let version = Version { time_ms: 1_700_000_000_000, sequence: 7 };
    /// let size = VersionSize::new(b"http://example.com/\0request", true, version, (90, 120));
    /// assert!(size.url == b"http://example.com/" && !size.is_page && size.stored_bytes == 120);
    /// ```
    pub fn new(key: &[u8], is_newest: bool, version: Version, (body_bytes, stored_bytes): (u64, u64)) -> VersionSize {
        let (is_page, is_variant, time_ms) = (key::is_page(key), key::is_variant(key), version.time_ms);
        VersionSize { url: key::url(key).to_vec(), is_page, is_variant, is_newest, time_ms, body_bytes, stored_bytes }
    }
}

/// Maps the items of an engine's list with `take`, and omits those for which it returns `None`.
pub(super) fn taken<T, U>(
    found: impl Iterator<Item = filemap_core::Result<T>>,
    take: impl Fn(T) -> Option<Result<U>>,
) -> impl Iterator<Item = Result<U>> {
    found.filter_map(move |found| found.map_or_else(|error| Some(Err(error.into())), &take))
}

impl PageStore {
    /// The newest version of every page without its body, in the order of the log: a sequential
    /// read of the value log, which decompresses no body. A failed item does not end the
    /// iteration.
    pub fn heads(&self) -> impl Iterator<Item = Result<PageHead>> + use<> {
        let store = self.clone();
        taken(self.engine().heads(), move |listed| {
            key::is_page(&listed.key).then(|| store.page_head(&listed.key, listed.head))
        })
    }

    /// Sizes of every live version of pages, variants and the records beside them: a sequential
    /// read of the value log, which decompresses no body, and of the key records of pages that
    /// have earlier versions.
    pub fn sizes(&self) -> impl Iterator<Item = Result<VersionSize>> + use<> {
        taken(self.engine().version_heads(), |listed| {
            (!key::is_hidden(&listed.key)).then(|| {
                let bytes = (listed.head.body_bytes, listed.head.stored_bytes);
                Ok(VersionSize::new(&listed.key, listed.is_newest, listed.head.version, bytes))
            })
        })
    }

    /// Removes every page whose canonical URL passes `filter`, with all its versions, its variants
    /// and the records beside it; also variants and records without a page. Calls `each` with
    /// every removal and all damage found; `Break` cancels the work. Returns the number of pages
    /// removed. Takes one pass over the key log and one append for each key.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::remove`]: the removals that `each` got before are done.
    pub fn remove_where(
        &self,
        filter: impl Fn(&[u8]) -> bool + Send + 'static,
        each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let keys = self.engine().keys_where(move |key| !key::is_own(key) && filter(key::url(key)));
        self.remove_keys(&mut keys.map(|key| key.map_err(Into::into)), each)
    }

    /// As [`PageStore::remove_where`], for `scope`. If the store keeps its keys in order, it reads
    /// only the keys of the host, domain or prefix, as [`PageStore::listing`] does.
    ///
    /// # Errors
    ///
    /// As [`PageStore::remove_where`].
    pub fn remove_in(
        &self,
        scope: &Scope,
        each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>,
    ) -> Result<u64> {
        if scope.is_all() || !self.engine().has_key_order() {
            return self.remove_where(scope.filter(), each);
        }
        let takes = scope.filter();
        let ranges = keys::ranges_of_all(scope).into_iter();
        let mut keys = ranges.flat_map(|range| match self.engine().keys_in(range.into(), Direction::Forward) {
            Ok(keys) => Box::new(keys.map(|key| key.map_err(Into::into))) as Results<'_, Vec<u8>>,
            Err(error) => Box::new(std::iter::once(Err(error.into()))),
        });
        let is_of = |key: &[u8]| !key::is_own(key) && takes(key::url(key));
        let mut keys = keys.by_ref().filter(|key| key.as_ref().map_or(true, |key| is_of(key)));
        self.remove_keys(&mut keys, each)
    }

    fn remove_keys(
        &self,
        keys: &mut dyn Iterator<Item = Result<Vec<u8>>>,
        each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut pages = 0;
        for found in keys {
            let flow = match found {
                Ok(key) => {
                    self.engine().remove(&key)?;
                    let (is_page, is_variant) = (key::is_page(&key), key::is_variant(&key));
                    pages += u64::from(is_page);
                    each(Ok(Removed::new(key::url(&key), is_page, is_variant)))
                }
                Err(error) => each(Err(error)),
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(pages)
    }

    /// Number of URLs that have a page: those that [`PageStore::urls`] lists, at one moment during
    /// the call. Variants and the records beside pages do not count.
    ///
    /// It needs no pass over the keys: the store saves the number with each checkpoint, and looks
    /// up each key put or removed since once, in about a microsecond
    /// ([`filemap_core::Store::counted_keys`]). A store that does not know the number lists its
    /// keys at each call, until it is repaired or copied. Such a store was written by an older
    /// FileMap, or through the engine without [`page_options`](crate::store::page_options).
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::counted_keys`] and, for a store that lists its keys, of
    /// [`filemap_core::Store::keys_where`]: the number is returned only if no key is missed.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use filemap::{Options, Page, PageStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// assert_eq!(store.count_pages()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_pages(&self) -> Result<u64> {
        if let Some(pages) = self.engine().counted_keys()? {
            return Ok(pages);
        }
        self.urls_where(|_| true).try_fold(0, |pages, url| url.map(|_| pages + 1))
    }

    /// The URLs of all pages. [`PageStore::listing`] can also go backwards, and continue.
    pub fn urls(&self) -> Urls {
        self.urls_in(&Scope::new())
    }

    /// The URLs of the pages of one host, in any spelling (`Example.com`, `bücher.example`).
    pub fn urls_of_host(&self, host: impl AsRef<str>) -> Urls {
        self.urls_in(&Scope::new().host(host))
    }

    /// The URLs of the pages of one host and of its subdomains, in any spelling.
    pub fn urls_of_domain(&self, domain: impl AsRef<str>) -> Urls {
        self.urls_in(&Scope::new().domain(domain.as_ref()))
    }

    /// The URLs of the pages whose canonical URL begins with these bytes.
    pub fn urls_with_prefix(&self, prefix: impl AsRef<[u8]>) -> Urls {
        self.urls_in(&Scope::new().prefix(prefix.as_ref()))
    }

    /// An error is returned as the first URL.
    fn urls_in(&self, scope: &Scope) -> Urls {
        Urls(self.listing(scope, None).map_or_else(|error| Found::Failed(Some(error)), Found::Listed))
    }

    /// The place after the page of a URL, whether that page exists or not: [`PageStore::listing`]
    /// continues from it.
    ///
    /// # Errors
    ///
    /// [`Error::Url`]; [`Error::Unsupported`] if the store keeps no order.
    pub fn cursor(&self, url: impl AsRef<[u8]>) -> Result<Cursor> {
        let key = self.key(url)?;
        if self.engine().has_key_order() { Ok(listing::behind(&key)) } else { Err(listing::no_cursors()) }
    }

    /// The URLs of the pages whose canonical URL passes `filter`, in no defined order: a pass over
    /// the key log.
    pub fn urls_where(&self, filter: impl Fn(&[u8]) -> bool + Send + 'static) -> Urls {
        Urls(Found::Scanned(self.engine().keys_where(move |key| key::is_page(key) && filter(key))))
    }

    /// The newest version of every page in the order of the log; revisits have the body of their
    /// original. A failed item does not end the iteration.
    pub fn pages(&self) -> impl Iterator<Item = Result<Page>> + use<> {
        let store = self.clone();
        taken(self.engine().pages(), move |(key, value)| key::is_page(&key).then(|| store.resolved(&key, value)))
    }

    /// As [`PageStore::pages`], for one part of the store ([`filemap_core::Store::splits`]).
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::pages_in`].
    pub fn pages_in(&self, split: &Split) -> Result<impl Iterator<Item = Result<Page>> + Send + use<>> {
        let store = self.clone();
        let pages = self.engine().pages_in(split)?;
        Ok(taken(pages, move |(key, value)| key::is_page(&key).then(|| store.resolved(&key, value))))
    }

    /// As [`PageStore::heads`], for one part of the store ([`filemap_core::Store::splits`]).
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::heads_in`].
    pub fn heads_in(&self, split: &Split) -> Result<impl Iterator<Item = Result<PageHead>> + Send + use<>> {
        let store = self.clone();
        let heads = self.engine().heads_in(split)?;
        Ok(taken(heads, move |listed| key::is_page(&listed.key).then(|| store.page_head(&listed.key, listed.head))))
    }

    /// Every live version of every page, of its variants and of the records beside them, as stored
    /// (a revisit without its original's body), in the order of the log.
    pub fn versions(&self) -> impl Iterator<Item = Result<Page>> + use<> {
        self.stored_versions().map(|version| version.map(|version| version.page))
    }

    /// As [`PageStore::versions`], with key, sequence and stored size of each.
    pub fn stored_versions(&self) -> impl Iterator<Item = Result<StoredVersion>> + use<> {
        let store = self.clone();
        taken(self.engine().versions(), move |(key, value)| {
            (!key::is_hidden(&key)).then(|| store.stored_version(key, value))
        })
    }

    /// The newest version of every page and of every variant, with key, sequence and stored size;
    /// as stored, unlike [`PageStore::pages`].
    pub fn stored_newest(&self) -> impl Iterator<Item = Result<StoredVersion>> + use<> {
        let store = self.clone();
        taken(self.engine().pages(), move |(key, value)| {
            (key::is_page(&key) || key::is_variant(&key)).then(|| store.stored_version(key, value))
        })
    }

    /// Decodes the value of a key into a version.
    pub(crate) fn stored_version(&self, key: Vec<u8>, value: Value) -> Result<StoredVersion> {
        let (version, unchanged_since) = (value.head.version, value.head.unchanged_since);
        let stored_bytes = value.head.stored_bytes;
        let page = self.stored(&key, value)?;
        Ok(StoredVersion { key, page, version, unchanged_since, stored_bytes })
    }
}
