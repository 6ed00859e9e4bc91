//! Pages by URL, by the names that a store in one folder has for them: for callers that know they
//! have a store over several folders.

use filemap_core::{Put, Version};

use super::{ShardedStore, named};
use crate::access::{Lookup, PageRead, Scope};
use crate::error::Result;
use crate::page::Page;

impl ShardedStore {
    /// Stores a page in the member of its host: see [`PageStore::put_page`](crate::PageStore).
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::put_page`](crate::PageStore::put_page), with the path of the member.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, Page, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// let page = store.get_page("http://example.com/")?.expect("just put");
    /// assert_eq!((page.body, store.count_pages()?), (b"hello".to_vec(), 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_page(&self, page: &Page) -> Result<Version> {
        let member = self.member_of(&page.url)?;
        named(member, member.put_page(page))
    }

    /// As [`ShardedStore::put_page`], but a body equal to that of the newest version is not stored
    /// again.
    ///
    /// # Errors
    ///
    /// As [`ShardedStore::put_page`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, Page, sharded::ShardedStore};
    /// use filemap::Put;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// # let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// let again = Page::new("http://example.com/", 1_700_000_001_000, 200, "hello");
    /// assert!(matches!(store.put_page_if_changed(&again)?, Put::Unchanged(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_page_if_changed(&self, page: &Page) -> Result<Put> {
        let member = self.member_of(&page.url)?;
        named(member, member.put_page_if_changed(page))
    }

    /// As [`ShardedStore::put_page_if_changed`]; `None` if the store has this very version. For
    /// many pages use [`PageWrite::load`](crate::PageWrite::load).
    ///
    /// # Errors
    ///
    /// As [`ShardedStore::put_page`]; those of
    /// [`PageStore::history`](crate::PageStore::history).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, Page, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// # let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
    /// assert!(store.put_page_if_new(&page)?.is_some());
    /// assert!(store.put_page_if_new(&page)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_page_if_new(&self, page: &Page) -> Result<Option<Put>> {
        let member = self.member_of(&page.url)?;
        named(member, member.put_page_if_new(page))
    }

    /// The newest version of a page, or the one that the lookup selects: [`PageRead::get`] without
    /// a [`Lookup`] to be made.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, Page, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// # let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// assert!(store.get_page("http://example.com/")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_page<'l>(&self, lookup: impl Into<Lookup<'l>>) -> Result<Option<Page>> {
        PageRead::get(self, &lookup.into())
    }

    /// Number of URLs that have a page: see [`PageStore::count_pages`](crate::PageStore).
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::count_pages`](crate::PageStore::count_pages), with the path of the
    /// member.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// # let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// assert_eq!(store.count_pages()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_pages(&self) -> Result<u64> {
        PageRead::count(self, &Scope::new())
    }
}
