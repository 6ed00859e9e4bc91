//! Stores that are one together, each with the pages of some hosts ([`crate::sharded`]).
//!
//! A handle of such a store knows the others. Each key is looked up where the host of its URL
//! belongs, so the original of a revisit is the one that a store in one folder would give,
//! wherever it is.
//!
//! Invariant: a revisit that is not where its host belongs is resolved in its own store alone.

use std::borrow::Cow;
use std::sync::Arc;

use filemap_core::Version;

use super::PageStore;
use crate::error::{Error, Result};
use crate::page::version::StoredVersion;
use crate::page::{Page, key};

/// The stores that are one with that of a handle, which is one of them.
#[derive(Clone, Debug)]
pub(crate) struct Siblings {
    /// In their order; these handles know of no others.
    all: Arc<[PageStore]>,
    /// The number of the handle's own.
    number: usize,
}

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

/// Handles of these stores, in their order, that are one together.
pub(crate) fn joined(stores: &[PageStore]) -> Vec<PageStore> {
    if stores.len() < 2 {
        return stores.iter().map(PageStore::alone).collect();
    }
    let all: Arc<[PageStore]> = stores.iter().map(PageStore::alone).collect();
    let join = |(number, store): (usize, &PageStore)| PageStore {
        siblings: Some(Siblings { all: Arc::clone(&all), number }),
        ..store.clone()
    };
    stores.iter().enumerate().map(join).collect()
}

/// The original of a version in the store with the number `own`, if the version is a revisit with
/// its original in the stores, which [`joined`] gave.
pub(crate) fn original_among(stores: &[PageStore], own: usize, key: &[u8], page: &Page) -> Result<Option<Origin>> {
    let Some((version, steps)) = stores[own].original_and_steps(key, page)? else { return Ok(None) };
    let is_at_home = stores[own].is_home(key);
    let store = if is_at_home { number_of(key::url(&version.key), stores.len()) } else { own };
    Ok(Some(Origin { store, version, steps }))
}

impl PageStore {
    /// A handle that knows of no other store.
    pub(crate) fn alone(&self) -> PageStore {
        PageStore { siblings: None, ..self.clone() }
    }

    /// The stores that are one with this one, in their order, and its own number among them.
    pub(crate) fn together(&self) -> (Vec<PageStore>, usize) {
        match &self.siblings {
            None => (vec![self.clone()], 0),
            Some(siblings) => (joined(&siblings.all), siblings.number),
        }
    }

    /// The handle by which revisits under a key of this store are resolved: away from their home
    /// in this store alone.
    pub(crate) fn resolving(&self, own_key: &[u8]) -> Cow<'_, PageStore> {
        if self.is_home(own_key) { Cow::Borrowed(self) } else { Cow::Owned(self.alone()) }
    }

    /// The number of this store among those that are one with it.
    pub(crate) fn own_number(&self) -> usize {
        self.siblings.as_ref().map_or(0, |siblings| siblings.number)
    }

    /// The number of [`PageStore::home`].
    pub(crate) fn home_number(&self, key: &[u8]) -> usize {
        self.siblings.as_ref().map_or(0, |siblings| number_of(key::url(key), siblings.all.len()))
    }

    /// The store that has, or gets, what is under a key.
    pub(crate) fn home(&self, key: &[u8]) -> &PageStore {
        match &self.siblings {
            None => self,
            Some(siblings) => &siblings.all[self.home_number(key)],
        }
    }

    /// Returns whether this store has what is under a key.
    pub(crate) fn is_home(&self, key: &[u8]) -> bool {
        self.siblings.as_ref().is_none_or(|siblings| siblings.number == self.home_number(key))
    }

    /// An error of [`PageStore::home`], with the path of that store if it is another.
    pub(crate) fn of_home(&self, key: &[u8], error: Error) -> Error {
        if self.is_home(key) { error } else { error.of_member(self.home(key).engine().path()) }
    }

    /// A version of a key, wherever the host of its URL belongs.
    pub(crate) fn version_at_home(&self, key: &[u8], version: Version) -> Result<Option<StoredVersion>> {
        let home = self.home(key);
        let value = home.value_of(key, version);
        let stored = value.and_then(|value| value.map(|value| home.stored_version(key.to_vec(), value)).transpose());
        stored.map_err(|error| self.of_home(key, error))
    }
}
