//! Records of a file that stay in it: their descriptions are stored.

use filemap_core::Put;

use super::report::ImportReport;
use crate::error::Result;
use crate::page::{ArchiveId, InPlace, Page, RecordKind};
use crate::store::PageStore;
use crate::warc::Place;
use crate::warc::capture::Capture;

/// The file, and the store that knows where it is.
pub(super) struct LeftIn<'a> {
    location: &'a str,
    /// The store's folder: pages may go to several.
    known: Option<(std::path::PathBuf, ArchiveId)>,
}

impl<'a> LeftIn<'a> {
    pub(super) fn new(location: &'a str) -> LeftIn<'a> {
        LeftIn { location, known: None }
    }

    /// Whether the record can be read from its offset alone, and has a body worth leaving.
    pub(super) fn can_have(page: &Capture) -> bool {
        page.reads_alone
            && page.stored.is_none()
            && page.digests.wrong == 0
            && (page.body.len() > 0 || page.page.kind == RecordKind::Revisit)
    }

    /// Stores the description of a page. `None` if the store has the visit.
    pub(super) fn describe(
        &mut self,
        store: &PageStore,
        page: &mut Capture,
        place: Place,
        report: &mut ImportReport,
    ) -> Result<Option<Put>> {
        report.digests.add(page.digests);
        let archive = self.archive(store)?;
        let in_place = Some(InPlace { archive, offset: place.offset, length: 0 });
        let described = Page { in_place, body: Vec::new(), ..page.page.description() };
        let key = store.key_of_page(&described)?;
        let put = match store.holds_visit(&key, &described)? {
            true => None,
            false => Some(Put::Stored(store.put_description(&described)?)),
        };
        if described.kind == RecordKind::Revisit {
            report.unresolved.push(store, &key, &described, page.body.len())?;
        }
        report.count_in_place(&described, put.is_some());
        Ok(put)
    }

    fn archive(&mut self, store: &PageStore) -> Result<ArchiveId> {
        let path = store.engine().path();
        if let Some((_, id)) = self.known.as_ref().filter(|(known, _)| known == path) {
            return Ok(*id);
        }
        let id = store.put_archive(self.location)?;
        self.known = Some((path.to_owned(), id));
        Ok(id)
    }
}

impl ImportReport {
    /// Counts a description that was put, or that the store had.
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
