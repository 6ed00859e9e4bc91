//! The store of a crawl's pages: a local folder, or a shard of a remote store.

use std::sync::Arc;

use filemap::access::PutRule;
use filemap::canonical::Canonicalizer;
use filemap::page::RecordKind;
use filemap::{Error, Lookup, Page, PageHead, PageStore, PageWrite, Put, Result};

use crate::shard::{Body, Shard};

/// The maximum length of a chain of references.
const REFERENCES: usize = 4;

/// The store of a crawl's pages.
///
/// ```
/// use crawl::pages::Pages;
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("pages.fm");
/// let pages = Pages::Local(filemap::PageStore::create(path, filemap::Options::new())?);
/// pages.put_page(&filemap::Page::new("http://example.com/", 7, 200, "hello"))?;
/// assert_eq!(pages.get("http://example.com/")?.expect("it is there").body, b"hello");
/// assert!(pages.local().is_some() && !pages.is_lost());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub enum Pages {
    /// A local folder.
    Local(PageStore),
    /// A shard of a remote store.
    Shard(Arc<dyn Shard>),
}

impl Pages {
    /// The store, if it is a local folder.
    pub fn local(&self) -> Option<&PageStore> {
        match self {
            Pages::Local(store) => Some(store),
            Pages::Shard(_) => None,
        }
    }

    /// Returns whether another owner has taken the shard.
    pub fn is_lost(&self) -> bool {
        matches!(self, Pages::Shard(shard) if shard.is_lost())
    }

    /// The canonicaliser that makes the keys.
    pub fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
        match self {
            Pages::Local(store) => store.canonicalizer(),
            Pages::Shard(shard) => shard.canonicalizer(),
        }
    }

    /// The key of a URL.
    ///
    /// # Errors
    /// The URL has no key.
    pub fn key(&self, url: &(impl AsRef<[u8]> + ?Sized)) -> Result<Vec<u8>> {
        match self {
            Pages::Local(store) => store.key(url),
            Pages::Shard(shard) => shard.pages().key(url.as_ref()),
        }
    }

    /// The newest version of a page, without its body.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn head(&self, url: &(impl AsRef<[u8]> + ?Sized)) -> Result<Option<PageHead>> {
        match self {
            Pages::Local(store) => store.head(url),
            Pages::Shard(shard) => waiting(|| shard.pages().head(&Lookup::new(url))),
        }
    }

    /// The number of versions of a page.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn versions(&self, url: &(impl AsRef<[u8]> + ?Sized)) -> Result<u64> {
        match self {
            Pages::Local(store) => Ok(store.versions_of(url)?.len() as u64),
            Pages::Shard(shard) => waiting(|| Ok(shard.pages().versions(&Lookup::new(url))?.len() as u64)),
        }
    }

    /// The newest version of a page; a reference gets the body of its original.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn get(&self, url: &(impl AsRef<[u8]> + ?Sized)) -> Result<Option<Page>> {
        match self {
            Pages::Local(store) => store.get(url),
            Pages::Shard(shard) => waiting(|| whole(shard.pages(), url.as_ref())),
        }
    }

    /// The newest record of a kind beside a page.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn get_beside(&self, url: &(impl AsRef<[u8]> + ?Sized), kind: RecordKind) -> Result<Option<Page>> {
        match self {
            Pages::Local(store) => store.get_beside(url, kind),
            Pages::Shard(shard) => waiting(|| shard.beside(&Lookup::new(url), kind)),
        }
    }

    /// The digest, length and time of the newest body of a key, without reading the body.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn body(&self, key: &[u8]) -> Result<Option<Body>> {
        match self {
            Pages::Local(store) => {
                let head = store.engine().head(key)?;
                let body = |head: filemap_core::Head| Body {
                    digest: head.digest,
                    bytes: head.body_bytes,
                    time_ms: head.version.time_ms,
                };
                Ok(head.map(body))
            }
            Pages::Shard(shard) => waiting(|| shard.body(&Lookup::new(key))),
        }
    }

    /// Puts a page.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn put_page(&self, page: &Page) -> Result<()> {
        match self {
            Pages::Local(store) => store.put_page(page).map(drop),
            Pages::Shard(shard) => waiting(|| shard.pages().put(page, PutRule::Always).map(drop)),
        }
    }

    /// Puts a page, or records that it is unchanged.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn put_page_if_changed(&self, page: &Page) -> Result<Put> {
        match self {
            Pages::Local(store) => store.put_page_if_changed(page),
            Pages::Shard(shard) => {
                let put = waiting(|| shard.pages().put(page, PutRule::IfChanged))?;
                put.ok_or(Error::Unsupported { what: "version for a page that was put" })
            }
        }
    }

    /// The last sequence of any version.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn last_sequence(&self) -> Result<u64> {
        match self {
            Pages::Local(store) => Ok(store.engine().stats().last_sequence),
            Pages::Shard(shard) => shard.last_sequence(),
        }
    }

    /// Makes all puts durable; in a shard this happens in the commit of the crawl's files.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn sync(&self) -> Result<()> {
        self.local().map_or(Ok(()), |store| store.sync())
    }

    /// Closes it.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn close(self) -> Result<()> {
        match self {
            Pages::Local(store) => store.close(),
            Pages::Shard(shard) => shard.pages().close(),
        }
    }
}

/// Runs a call that may wait for object storage: other tasks of this thread move elsewhere.
fn waiting<T>(call: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(call)
}

/// The newest version of a page; a reference gets the body of its original.
fn whole(shard: &dyn PageWrite, url: &[u8]) -> Result<Option<Page>> {
    let Some(mut page) = shard.get(&Lookup::new(url))? else { return Ok(None) };
    let mut at = page.revisit.clone();
    for _ in 0..REFERENCES {
        let Some((url, time_ms)) = at.and_then(|to| to.refers_to_url.zip(to.refers_to_ms)) else { break };
        let Some(original) = shard.get(&Lookup::new(&url).at(time_ms))? else { break };
        at = original.revisit;
        page.body = original.body;
    }
    Ok(Some(page))
}
