//! Checks whether the store already holds a visit: with its body, or in place in a readable file.

use filemap_core::Version;

use crate::error::Result;
use crate::page::digest::Digest;
use crate::page::{ArchiveId, Page, RecordKind};
use crate::store::PageStore;

/// The store's copies of a visit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// A copy can be read, as far as is known.
    pub(crate) is_here: bool,
    /// A copy is described in this very place.
    pub(crate) is_same_place: bool,
    /// Versions in place whose files are missing: this visit replaces them.
    pub(crate) gone: Vec<Version>,
}

impl PageStore {
    /// Finds the store's copies of a visit to `key`. `body` is the digest of the body as stored,
    /// if known; `is_there` returns whether an archive can be opened.
    pub(crate) fn held(
        &self,
        key: &[u8],
        page: &Page,
        body: Option<[u8; 16]>,
        is_there: &mut dyn FnMut(ArchiveId) -> Result<bool>,
    ) -> Result<Held> {
        let mut held = Held::default();
        if self.head_of_time(key, page.fetched_at_ms)?.is_none() {
            return Ok(held);
        }
        for (_, head) in self.each_head(key.to_vec()) {
            let head = match head {
                Ok(head) if head.version.time_ms < page.fetched_at_ms => break,
                Ok(head) if head.version.time_ms > page.fetched_at_ms => continue,
                Ok(head) => head,
                Err(error) if error.is_damage() => continue,
                Err(error) => return Err(error),
            };
            let stored = self.describe(key, &head)?;
            match stored.in_place {
                Some(place) if Some(place) == page.in_place => held.is_same_place = true,
                // Without digests, a record at the same offset is that of a copy of the file.
                Some(place)
                    if is_alike(&stored, page, || page.in_place.is_some_and(|own| own.offset == place.offset)) =>
                {
                    match is_there(place.archive)? {
                        true => held.is_here = true,
                        false => held.gone.push(head.version),
                    }
                }
                None if is_alike(&stored, page, || body.is_none_or(|body| body == head.digest)) => held.is_here = true,
                _ => {}
            }
        }
        held.is_here |= held.is_same_place;
        Ok(held)
    }
}

/// Returns whether two descriptions of one URL and time are of one visit: statuses and digests do
/// not contradict each other. Without two comparable digests, `otherwise` decides.
fn is_alike(stored: &Page, page: &Page, otherwise: impl FnOnce() -> bool) -> bool {
    let digest = |page: &Page| page.digest.as_deref().and_then(Digest::parse);
    let statuses = stored.status.zip(page.status);
    // A revisit has no body that could replace a response of the same second. A revisit that was
    // given a body still says that it was one.
    let is_revisit = |page: &Page| page.kind == RecordKind::Revisit || page.revisit.is_some();
    if stored.kind.is_page() != page.kind.is_page()
        || is_revisit(stored) != is_revisit(page)
        || statuses.is_some_and(|(a, b)| a != b)
    {
        return false;
    }
    match (digest(stored), digest(page)) {
        (Some(own), Some(other)) if own.is_comparable(&other) => own == other,
        _ => otherwise(),
    }
}
