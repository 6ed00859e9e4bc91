//! [`PageRead`] and [`PageWrite`] for the local store: its capabilities, and calls to its own
//! methods.

use std::io::Read;
use std::ops::ControlFlow;

use filemap_core::{Durability, Put, Version};

use super::PageStore;
use crate::access::{
    Capabilities, Contents, Cursor, Fetched, ListKind, Listed, Loading, Lookup, PageRead, PageWrite, PutRule, Removed,
    RemovedVersions, Results, Scope, Streamed, Survives, heads_of_listed,
};
use crate::error::Result;
use crate::page::Page;
use crate::page::variant::Variant;
use crate::page::version::{BodyForm, PageHead};

impl PageRead for PageStore {
    /// A put survives if the store was opened with [`Durability::Sync`]. Listings are in order and
    /// have cursors if the store keeps its keys in order. A store of an older FileMap, or one
    /// opened without (see [`page_options`](crate::store::page_options)), does not.
    fn capabilities(&self) -> Capabilities {
        let syncs_each_put = self.engine().stats().durability == Durability::Sync.to_string();
        let survives = if syncs_each_put { Survives::Put } else { Survives::Sync };
        let is_ordered = self.engine().has_key_order();
        Capabilities {
            has_history: true,
            has_upkeep: true,
            lists_in_order: is_ordered,
            lists_from_cursor: is_ordered,
            ..Capabilities::new(survives)
        }
    }

    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        PageStore::get(self, *lookup)
    }

    fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        PageStore::get_version(self, *lookup, version)
    }

    /// In bounded memory, except for the body of a revisit.
    fn get_reader<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Option<Streamed<'s>>> {
        let found = PageStore::get_reader(self, *lookup)?;
        Ok(found.map(|(page, reader)| (page, Box::new(reader) as Box<dyn Read>)))
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

    /// Reads one record of key.dat for each version.
    fn versions(&self, lookup: &Lookup<'_>) -> Result<Vec<Version>> {
        self.versions_of(*lookup)
    }

    fn variants<'s>(&'s self, url: &[u8]) -> Result<Results<'s, Variant>> {
        Ok(Box::new(PageStore::variants(self, url)?.map(|found| Ok(found?.1))))
    }

    fn may_have_variants(&self, url: &[u8]) -> Result<bool> {
        PageStore::may_have_variants(self, url)
    }

    fn key(&self, url: &[u8]) -> Result<Vec<u8>> {
        PageStore::key(self, url)
    }

    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>> {
        Ok(Box::new(self.listing(scope, after)?))
    }

    fn cursor(&self, url: &[u8]) -> Result<Cursor> {
        PageStore::cursor(self, url)
    }

    fn count(&self, scope: &Scope) -> Result<u64> {
        PageStore::count(self, scope)
    }

    /// All pages: one sequential read of the value log. A host, a prefix, or all backwards: one
    /// read for each page.
    fn heads<'s>(&'s self, scope: &Scope) -> Result<Results<'s, PageHead>> {
        Ok(match (scope.is_all() && !scope.is_backwards, scope.kind) {
            (true, ListKind::Pages) => Box::new(PageStore::heads(self)),
            (true, ListKind::Variants) => Box::new(self.variant_heads()),
            (false, _) => heads_of_listed(self, scope)?,
        })
    }

    fn contents(&self) -> Result<Contents> {
        let stats = self.engine().stats();
        let keys = stats.indexed_keys + stats.memtable_entries;
        Ok(Contents { keys: Some(keys), bytes: Some(stats.disk_bytes) })
    }
}

impl PageWrite for PageStore {
    fn put(&self, page: &Page, rule: PutRule) -> Result<Option<Put>> {
        match rule {
            PutRule::Always => self.put_page(page).map(|version| Some(Put::Stored(version))),
            PutRule::IfChanged => self.put_page_if_changed(page).map(Some),
            PutRule::IfNew | PutRule::Restore | PutRule::RestoreUnchanged => self.load()(page, rule),
        }
    }

    fn load(&self) -> Loading<'_> {
        let mut loader = super::Loader::default();
        Box::new(move |page, rule| match rule {
            PutRule::IfNew => loader.put_page_if_new(self, page),
            PutRule::Restore => loader.put_stored_if_new(self, page, BodyForm::Whole),
            PutRule::RestoreUnchanged => loader.put_stored_if_new(self, page, BodyForm::Reference),
            PutRule::Always | PutRule::IfChanged => self.put(page, rule),
        })
    }

    fn put_reader(&self, page: &Page, body: &mut dyn Read) -> Result<Version> {
        self.put_page_reader(page, body)
    }

    fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool> {
        match variant {
            None => PageStore::remove(self, url),
            Some(variant) => self.remove_variant(url, variant),
        }
    }

    fn remove_at(&self, url: &[u8], variant: Option<&Variant>, time_ms: i64) -> Result<Option<RemovedVersions>> {
        PageStore::remove_at(self, Lookup::new(url).variant(variant), time_ms)
    }

    /// One append for each key. Finds the keys through the key order, or by a pass over key.dat if
    /// the store has none.
    fn remove_all(&self, scope: &Scope, each: &mut dyn FnMut(Result<Removed<'_>>) -> ControlFlow<()>) -> Result<u64> {
        self.remove_in(scope, each)
    }

    fn sync(&self) -> Result<()> {
        PageStore::sync(self)
    }

    fn close(&self) -> Result<()> {
        self.clone().close()
    }
}
