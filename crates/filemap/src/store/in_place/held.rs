//! Whether a store has a visit that is to be described: whole, or in place where it can be read.

use filemap_core::Version;

use crate::error::Result;
use crate::page::digest::Digest;
use crate::page::{ArchiveId, Page};
use crate::store::PageStore;

/// What the store has of a visit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Not,
    /// It can be read, as far as is known.
    Here,
    /// It is in place in a file that is not there.
    Gone(Version),
}

impl PageStore {
    /// What the store has of a visit to `key`. `body` is the digest of what the store would keep
    /// as its body, if that is known; `is_there` tells whether an archive can be opened.
    pub(crate) fn held(
        &self,
        key: &[u8],
        page: &Page,
        body: Option<[u8; 16]>,
        is_there: &mut dyn FnMut(ArchiveId) -> Result<bool>,
    ) -> Result<Held> {
        if self.head_of_time(key, page.fetched_at_ms)?.is_none() {
            return Ok(Held::Not);
        }
        let mut held = Held::Not;
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
                Some(place) if Some(place) == page.in_place => return Ok(Held::Here),
                Some(place) if is_alike(&stored, page, || stored.digest == page.digest) => {
                    if is_there(place.archive)? {
                        return Ok(Held::Here);
                    }
                    held = Held::Gone(head.version);
                }
                None if is_alike(&stored, page, || body.is_none_or(|body| body == head.digest)) => {
                    return Ok(Held::Here);
                }
                _ => {}
            }
        }
        Ok(held)
    }
}

/// Whether two descriptions of one URL and time are of one visit: no status and no digest
/// contradicts; without two digests that can be compared, `otherwise` tells.
fn is_alike(stored: &Page, page: &Page, otherwise: impl FnOnce() -> bool) -> bool {
    let digest = |page: &Page| page.digest.as_deref().and_then(Digest::parse);
    let statuses = stored.status.zip(page.status);
    if stored.kind.is_page() != page.kind.is_page() || statuses.is_some_and(|(a, b)| a != b) {
        return false;
    }
    match (digest(stored), digest(page)) {
        (Some(own), Some(other)) if own.is_comparable(&other) => own == other,
        _ => otherwise(),
    }
}
