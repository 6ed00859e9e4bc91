//! Records that stay in their file: only their descriptions are stored.

use std::collections::{HashMap, HashSet};

use filemap_core::{Put, Version};

use super::report::ImportReport;
use crate::error::Result;
use crate::page::{ArchiveId, InPlace, Page, RecordKind};
use crate::store::{Held, PageStore, kept_digest};
use crate::warc::Place;
use crate::warc::capture::Capture;

/// Number of descriptions dropped at once.
const BATCH_VERSIONS: usize = 4096;

/// Puts descriptions into one store, or into several in turn.
#[derive(Default)]
pub(super) struct Describing {
    /// The store of the last page.
    store: Option<PageStore>,
    /// Archives that the store has registered, and whether those that it knows can be opened.
    told: HashSet<ArchiveId>,
    there: HashMap<ArchiveId, bool>,
    /// Versions in place whose files are missing: the same visits are described again.
    replaced: Vec<(Vec<u8>, Version)>,
}

impl Describing {
    /// Puts a description. `body` is the digest of the body that the store would keep, if it is
    /// known; `location` is that of the file. Returns `None` if the store has the visit.
    pub(super) fn put(
        &mut self,
        store: &PageStore,
        page: &Page,
        location: &str,
        body: Option<[u8; 16]>,
    ) -> Result<Option<Put>> {
        let key = store.key_of_page(page)?;
        let held = self.held(store, &key, page, location, body)?;
        let put = (!held.is_here).then(|| store.put_description(&key, page)).transpose()?;
        self.replace(&key, held.gone)?;
        Ok(put.map(Put::Stored))
    }

    /// Returns what the store has of a visit, for callers that put many at once. Registers the
    /// location of the file in the store. Replace the missing versions only after the new
    /// description was put.
    pub(super) fn held(
        &mut self,
        store: &PageStore,
        key: &[u8],
        page: &Page,
        location: &str,
        body: Option<[u8; 16]>,
    ) -> Result<Held> {
        if !self.is_of(store) {
            self.settle()?;
            self.told.clear();
            self.there.clear();
            self.store = Some(store.clone());
        }
        let there = &mut self.there;
        let mut is_there = |id: ArchiveId| {
            if let Some(known) = there.get(&id) {
                return Ok(*known);
            }
            let found = store.archive(id)?.is_some_and(|archive| store.is_there(&archive.location));
            there.insert(id, found);
            Ok(found)
        };
        let held = store.held(key, page, body, &mut is_there)?;
        if !held.is_here || held.is_same_place {
            self.tell(store, page, location)?;
        }
        Ok(held)
    }

    /// Returns whether the last page was of this store.
    pub(super) fn is_of(&self, store: &PageStore) -> bool {
        self.store.as_ref().is_some_and(|last| last.engine().path() == store.engine().path())
    }

    /// Registers the location of a page's file in the store, once.
    fn tell(&mut self, store: &PageStore, page: &Page, location: &str) -> Result<()> {
        if let Some(id) = page.in_place.map(|place| place.archive).filter(|id| !self.told.contains(id)) {
            store.put_archive(location)?;
            self.told.insert(id);
            self.there.remove(&id);
        }
        Ok(())
    }

    /// Notes versions of a key to be dropped: their replacement was put.
    pub(super) fn replace(&mut self, key: &[u8], gone: Vec<Version>) -> Result<()> {
        self.replaced.extend(gone.into_iter().map(|version| (key.to_vec(), version)));
        if self.replaced.len() >= BATCH_VERSIONS { self.settle() } else { Ok(()) }
    }

    /// Drops the versions that were described again, once the new ones are durable.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(store) = self.store.as_ref().filter(|_| !self.replaced.is_empty()) else { return Ok(()) };
        store.sync()?;
        let replaced = self.replaced.iter().map(|(key, version)| (key.as_slice(), *version));
        store.engine().drop_versions(replaced)?;
        self.replaced.clear();
        Ok(())
    }

    /// The store of the last page.
    pub(super) fn store(&self) -> Option<&PageStore> {
        self.store.as_ref()
    }
}

/// The file in which records stay.
pub(super) struct LeftIn<'a> {
    location: &'a str,
    archive: ArchiveId,
    pub(super) describing: Describing,
}

impl<'a> LeftIn<'a> {
    pub(super) fn new(location: &'a str) -> LeftIn<'a> {
        LeftIn { location, archive: ArchiveId::of(location), describing: Describing::default() }
    }

    /// Returns whether the record can be read from its offset alone, and has a body worth leaving
    /// there.
    pub(super) fn can_have(page: &Capture) -> bool {
        let is_sound = page.reads_alone && page.stored.is_none() && page.digests.wrong == 0;
        is_sound && (page.body.len() > 0 || page.page.kind == RecordKind::Revisit)
    }

    /// Stores the description of a page. Returns `None` if the store has the visit.
    pub(super) fn describe(
        &mut self,
        store: &PageStore,
        page: &mut Capture,
        place: Place,
        report: &mut ImportReport,
    ) -> Result<Option<Put>> {
        page.body.take_back()?;
        report.digests.add(page.digests);
        // The description alone does not show what its body is.
        store.admits_body(&page.page, &mut page.body)?;
        let in_place = Some(InPlace { archive: self.archive, offset: place.offset, length: 0 });
        let described = Page { in_place, ..page.page.description() };
        let key = store.key_of_page(&described)?;
        let body = kept_digest(&page.page, &key, &mut page.body)?;
        let put = self.describing.put(store, &described, self.location, Some(body))?;
        if described.kind == RecordKind::Revisit {
            report.unresolved.push(store, &key, &described, page.body.len());
        }
        report.count_in_place(&described, put.is_some());
        Ok(put)
    }
}

impl ImportReport {
    /// Counts a description that was put, or that the store already had.
    pub(super) fn count_in_place(&mut self, page: &Page, is_put: bool) {
        if !is_put {
            self.already_there += 1;
            return;
        }
        let is_page = page.kind.is_page();
        self.stored += 1;
        self.in_place += 1;
        self.beside += u64::from(!is_page);
        self.variants += u64::from(page.variant.is_some() && is_page);
    }
}
