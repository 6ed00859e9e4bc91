//! Originals in other stores. Of stores that are one together, each with the pages of some hosts
//! ([`crate::sharded`]), another than its own may have the original of a revisit.
//!
//! Invariant: the store of the revisit is asked first, then that of the URL which the revisit
//! names, and no other. So it is found wherever one of these two finds it alone.

use super::PageStore;
use crate::error::Result;
use crate::page::version::StoredVersion;
use crate::page::{Page, RecordKind};

/// The original of a revisit.
pub(crate) struct Origin {
    /// The number of the store that has it.
    pub(crate) store: usize,
    pub(crate) version: StoredVersion,
    /// Length of the path to it.
    pub(crate) steps: usize,
}

/// The number of the store, of this many, that has the pages of a canonical URL.
pub(crate) fn number_of(canonical_url: &[u8], stores: usize) -> usize {
    urlindex::shard(canonical_url, stores as u32) as usize
}

/// The number of the store that has the pages of the URL that a revisit names, if that is another
/// than `own`, which has the revisit.
pub(crate) fn elsewhere(stores: &[PageStore], own: usize, page: &Page) -> Option<usize> {
    let revisit = page.revisit.as_ref().filter(|_| page.kind == RecordKind::Revisit)?;
    let named = stores.get(own)?.key(revisit.refers_to_url.as_deref()?).ok()?;
    let number = number_of(&named, stores.len());
    (number != own).then_some(number)
}

/// The original of a version in the store with the number `own`, if the version is a revisit with
/// its original in the stores.
pub(crate) fn original_among(stores: &[PageStore], own: usize, key: &[u8], page: &Page) -> Result<Option<Origin>> {
    let origin = |store: usize| -> Result<Option<Origin>> {
        let found = stores[store].original_and_steps(key, page)?;
        Ok(found.map(|(version, steps)| Origin { store, version, steps }))
    };
    let found = origin(own)?;
    match elsewhere(stores, own, page) {
        Some(other) if found.is_none() => origin(other),
        _ => Ok(found),
    }
}
