//! Listing: URLs without reading bodies, pages and what they take in the order of the log; and
//! what is done to all that a filter names.
//!
//! Keys that are not pages' (variants, records beside them) are left out of everything but
//! [`PageStore::versions`], [`PageStore::stored_newest`], [`PageStore::sizes`] and
//! [`PageStore::remove_where`].

use std::ops::ControlFlow;

use filemap_core::Value;
use filemap_core::list::Keys;

use super::PageStore;
use crate::access::{Removed, Scope};
use crate::error::Result;
use crate::page::Page;
use crate::page::key;
use crate::page::version::{PageHead, StoredVersion};

/// The canonical URLs of pages, none twice, in no promised order.
pub struct Urls(Keys);

impl Iterator for Urls {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        loop {
            match self.0.next()? {
                Ok(key) if !key::is_page(&key) => {}
                Ok(key) => return Some(Ok(key)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// The newest version of every page, in the order of the log. An item that fails does not end the
/// iteration.
pub struct Pages {
    store: PageStore,
    values: filemap_core::list::Pages,
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        loop {
            match self.values.next()? {
                Ok((key, _)) if !key::is_page(&key) => {}
                Ok((key, value)) => return Some(self.store.resolved(&key, value)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// Every live version of every page, of its variants and of the records beside them, as stored, in
/// the order of the log.
pub struct Versions {
    store: PageStore,
    values: filemap_core::list::Pages,
}

impl Iterator for Versions {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        loop {
            match self.values.next()? {
                Ok((key, _)) if key::is_mark(&key) => {}
                Ok((key, value)) => return Some(self.store.stored(&key, value)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// The newest version of every page without its body, in the order of the log. An item that fails
/// does not end the iteration.
pub struct Heads {
    store: PageStore,
    heads: filemap_core::list::Heads,
}

impl Iterator for Heads {
    type Item = Result<PageHead>;

    fn next(&mut self) -> Option<Result<PageHead>> {
        loop {
            match self.heads.next()? {
                Ok(listed) if !key::is_page(&listed.key) => {}
                Ok(listed) => return Some(self.store.page_head(&listed.key, listed.head)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// Versions as they lie in the store, in the order of the log. An item that fails does not end the
/// iteration.
pub struct StoredVersions {
    store: PageStore,
    values: filemap_core::list::Pages,
    newest: bool,
}

impl Iterator for StoredVersions {
    type Item = Result<StoredVersion>;

    fn next(&mut self) -> Option<Result<StoredVersion>> {
        loop {
            match self.values.next()? {
                Ok((key, _)) if key::is_mark(&key) => {}
                Ok((key, _)) if self.newest && !key::is_page(&key) && !key::is_variant(&key) => {}
                Ok((key, value)) => return Some(self.store.stored_version(key, value)),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// What one version takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionSize {
    /// The canonical URL of its page.
    pub url: Vec<u8>,
    /// Whether it is a version of the page itself rather than of a variant or of a record beside
    /// it.
    pub is_page: bool,
    /// Whether it is a version of a variant.
    pub is_variant: bool,
    /// Whether it is the newest of its page, its variant, or the record beside it.
    pub is_newest: bool,
    /// When it was fetched, in ms since 1970.
    pub time_ms: i64,
    /// The length of its body in bytes, stored again or not; with the description, where that is
    /// too large for its place.
    pub body_bytes: u64,
    /// What it takes in the value log, in bytes.
    pub stored_bytes: u64,
}

/// What every live version takes; see [`PageStore::sizes`].
pub struct Sizes(filemap_core::list::Heads);

impl Iterator for Sizes {
    type Item = Result<VersionSize>;

    fn next(&mut self) -> Option<Result<VersionSize>> {
        let size = |listed: filemap_core::list::Listed| VersionSize {
            is_page: key::is_page(&listed.key),
            is_variant: key::is_variant(&listed.key),
            is_newest: listed.is_newest,
            time_ms: listed.head.version.time_ms,
            body_bytes: listed.head.body_bytes,
            stored_bytes: listed.head.stored_bytes,
            url: key::url(&listed.key).to_vec(),
        };
        self.0.next().map(|listed| listed.map(size).map_err(Into::into))
    }
}

impl PageStore {
    /// The newest version of every page without its body: a sequential read of the value log,
    /// which decompresses no body.
    pub fn heads(&self) -> Heads {
        Heads { store: self.clone(), heads: self.engine().heads() }
    }

    /// What every live version takes, of pages, of variants and of the records beside them: a
    /// sequential read of the value log, which decompresses no body, and of the records in key.dat
    /// of pages that have earlier versions.
    pub fn sizes(&self) -> Sizes {
        Sizes(self.engine().version_heads())
    }

    /// How many versions a page has. Reads one record of key.dat for each, and no value.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Url`], and those of [`filemap_core::Store::versions_of`].
    pub fn version_count(&self, url: impl AsRef<[u8]>) -> Result<u64> {
        self.variant_version_count(url, None)
    }

    /// Removes every page whose canonical URL passes `filter`, with all its versions, its variants
    /// and the records beside it, also those that are left without a page. `each` gets every
    /// removal and all damage found, and may end the work there. Returns the number of pages
    /// removed. One pass over key.dat and one append for each key.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::remove`]: what `each` got before is removed.
    pub fn remove_where(
        &self,
        filter: impl Fn(&[u8]) -> bool + Send + 'static,
        each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut pages = 0;
        for found in self.engine().keys_where(move |key| filter(key::url(key))) {
            let told = match found {
                Ok(key) => {
                    self.engine().remove(&key)?;
                    let (is_page, is_variant) = (key::is_page(&key), key::is_variant(&key));
                    pages += u64::from(is_page);
                    each(Ok(Removed::new(key::url(&key), is_page, is_variant)))
                }
                Err(error) => each(Err(error.into())),
            };
            if told.is_break() {
                break;
            }
        }
        Ok(pages)
    }

    /// The URLs of all pages.
    pub fn urls(&self) -> Urls {
        Urls(self.engine().keys())
    }

    /// The URLs of the pages of one host, as a person writes it (`Example.com`, `bücher.example`).
    pub fn urls_of_host(&self, host: &str) -> Urls {
        self.urls_where(Scope::new().host(host).filter())
    }

    /// The URLs of the pages whose canonical URL begins with these bytes.
    pub fn urls_with_prefix(&self, prefix: impl AsRef<[u8]>) -> Urls {
        self.urls_where(Scope::new().prefix(prefix.as_ref()).filter())
    }

    /// The URLs of the pages whose canonical URL passes `filter`.
    pub fn urls_where(&self, filter: impl Fn(&[u8]) -> bool + Send + 'static) -> Urls {
        Urls(self.engine().keys_where(move |key| key::is_page(key) && filter(key)))
    }

    /// The newest version of every page; revisits with the body of their original.
    pub fn pages(&self) -> Pages {
        Pages { store: self.clone(), values: self.engine().pages() }
    }

    /// Every live version of every page, of its variants and of the records beside them, as
    /// stored: a revisit without its original's body.
    pub fn versions(&self) -> Versions {
        Versions { store: self.clone(), values: self.engine().versions() }
    }

    /// As [`PageStore::versions`], with what the store knows of each.
    pub fn stored_versions(&self) -> StoredVersions {
        StoredVersions { store: self.clone(), values: self.engine().versions(), newest: false }
    }

    /// The newest version of every page and of every variant, with what the store knows of each;
    /// as stored, unlike [`PageStore::pages`].
    pub fn stored_newest(&self) -> StoredVersions {
        StoredVersions { store: self.clone(), values: self.engine().pages(), newest: true }
    }

    /// The version that a value of this key is.
    pub(crate) fn stored_version(&self, key: Vec<u8>, value: Value) -> Result<StoredVersion> {
        let (version, unchanged_since) = (value.head.version, value.head.unchanged_since);
        let stored_bytes = value.head.stored_bytes;
        let page = self.stored(&key, value)?;
        Ok(StoredVersion { key, page, version, unchanged_since, stored_bytes })
    }
}
