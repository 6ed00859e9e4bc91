//! The local store as [`PageRead`] and [`PageWrite`]: what it promises, and its own methods behind
//! theirs.

use filemap_core::{Durability, Put};

use super::PageStore;
use crate::access::{
    Capabilities, Contents, Cursor, Fetched, Listed, Lookup, PageRead, PageWrite, PutRule, Results, Scope, Survives,
};
use crate::error::{Error, Result};
use crate::page::Page;
use crate::page::variant::Variant;
use crate::page::version::PageHead;

impl PageRead for PageStore {
    /// A put survives if the store was opened with [`Durability::Sync`]. Listings are in the order
    /// of the log.
    fn capabilities(&self) -> Capabilities {
        let syncs_each_put = self.engine().stats().durability == Durability::Sync.to_string();
        let survives = if syncs_each_put { Survives::Put } else { Survives::Sync };
        Capabilities { has_history: true, has_upkeep: true, ..Capabilities::new(survives) }
    }

    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        PageStore::get(self, *lookup)
    }

    fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        PageStore::head(self, *lookup)
    }

    fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        PageStore::contains(self, *lookup)
    }

    fn get_many(&self, urls: &[&[u8]]) -> Result<Vec<Option<Page>>> {
        PageStore::get_many(self, urls)
    }

    fn get_ahead<'s>(&'s self, urls: Box<dyn Iterator<Item = Vec<u8>> + 's>, depth: usize) -> Fetched<'s> {
        Box::new(PageStore::get_ahead(self, urls, depth))
    }

    fn history<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Results<'s, PageHead>> {
        Ok(Box::new(self.history_iter(*lookup)?))
    }

    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>> {
        if after.is_some() {
            return Err(Error::Unsupported { what: "cursors" });
        }
        let urls: Results<'s, Vec<u8>> = match scope {
            Scope::All => Box::new(self.urls()),
            Scope::Host(host) => Box::new(self.urls_of_host(host)),
            Scope::Prefix(prefix) => Box::new(self.urls_with_prefix(prefix)),
        };
        Ok(Box::new(urls.map(|url| Ok(Listed::new(url?, None)))))
    }

    fn contents(&self) -> Result<Contents> {
        let stats = self.engine().stats();
        Ok(Contents { keys: Some(stats.indexed_keys), bytes: Some(stats.disk_bytes) })
    }
}

impl PageWrite for PageStore {
    fn put(&self, page: &Page, rule: PutRule) -> Result<Option<Put>> {
        match rule {
            PutRule::Always => self.put_page(page).map(|version| Some(Put::Stored(version))),
            PutRule::IfChanged => self.put_page_if_changed(page).map(Some),
            PutRule::IfNew => self.put_page_if_new(page),
        }
    }

    /// As [`PageWrite::put`] of each, in linear time also for many versions of one URL.
    fn put_many(&self, pages: &[Page], rule: PutRule) -> Result<Vec<Option<Put>>> {
        let mut loader = super::Loader::default();
        let put = |page| match rule {
            PutRule::IfNew => loader.put_page_if_new(self, page),
            _ => self.put(page, rule),
        };
        pages.iter().map(put).collect()
    }

    fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        match variant {
            None => PageStore::remove(self, url),
            Some(variant) => self.remove_variant(url, variant),
        }
    }

    fn sync(&self) -> Result<()> {
        PageStore::sync(self)
    }

    fn close(&self) -> Result<()> {
        self.clone().close()
    }
}
