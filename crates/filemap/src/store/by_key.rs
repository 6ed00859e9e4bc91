//! Iterator over every version of every key, grouped by key, for copying into another store.
//!
//! Keys come in the order of the log, by their newest version: a sequential read. If damage hides
//! the newest version of a key, a pass over the key log finds its other versions at the end.

use std::vec::IntoIter;

use filemap_core::list::{Keys, Pages, Sequences};
use filemap_core::{Value, Version};

use super::PageStore;
use crate::error::{Error, Result};
use crate::page::key;
use crate::page::version::StoredVersion;

impl PageStore {
    /// Every live version of every page, variant and record beside them, as stored (a revisit
    /// without its original's body). Versions of one key are grouped, in the order in which they
    /// were put. Takes a sequential read of the value log and one index lookup for each key.
    /// Damage is an error in its place; the iteration continues.
    pub fn stored_by_key(&self) -> impl Iterator<Item = Result<StoredVersion>> + use<> {
        ByKey {
            pages: Some(self.engine().pages()),
            store: self.clone(),
            met: Sequences::default(),
            is_damaged: false,
            rest: None,
            key: Vec::new(),
            versions: Vec::new().into_iter(),
            newest: None,
        }
    }
}

struct ByKey {
    store: PageStore,
    /// `None` after the last page.
    pages: Option<Pages>,
    /// Sequences of the newest versions that were read.
    met: Sequences,
    is_damaged: bool,
    /// All keys, to find those whose newest version was not read.
    rest: Option<Keys>,
    /// The current key, whose versions are being returned.
    key: Vec<u8>,
    versions: IntoIter<Version>,
    /// Its newest version, already read.
    newest: Option<Value>,
}

impl ByKey {
    /// The next version of the key.
    fn version(&mut self) -> Option<Result<StoredVersion>> {
        loop {
            let version = self.versions.next()?;
            let value = match self.newest.take_if(|newest| newest.head.version == version) {
                Some(newest) => Ok(Some(newest)),
                None => self.store.value_of(&self.key, version),
            };
            match value {
                // Removed or pruned meanwhile.
                Ok(None) => {}
                Ok(Some(value)) => return Some(self.store.stored_version(self.key.clone(), value)),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Starts another key. Returns an error if only the version already read is available.
    fn begin(&mut self, key: Vec<u8>, newest: Option<Value>) -> Result<()> {
        let found = self.store.engine().versions_of(&key);
        let met = newest.as_ref().map(|newest| newest.head.version);
        (self.key, self.newest) = (key, newest);
        let (mut versions, told) = match found {
            Ok(versions) => (versions, Ok(())),
            Err(error) => (met.into_iter().collect(), Err(error.into())),
        };
        versions.sort_unstable_by_key(|version| version.sequence);
        self.versions = versions.into_iter();
        told
    }

    /// Starts the next key; `None` at the end.
    fn advance(&mut self) -> Option<Result<()>> {
        while let Some(pages) = &mut self.pages {
            match pages.next() {
                Some(Ok((key, value))) => {
                    self.met.insert(value.head.version.sequence);
                    if !key::is_hidden(&key) {
                        return Some(self.begin(key, Some(value)));
                    }
                }
                Some(Err(error)) => {
                    self.is_damaged |= error.is_corrupt();
                    return Some(Err(error.into()));
                }
                None => {
                    self.pages = None;
                    self.rest = self.is_damaged.then(|| self.store.engine().keys());
                }
            }
        }
        loop {
            // Damage of the key log has been reported already.
            let key = match self.rest.as_mut()?.next()? {
                Ok(key) if !key::is_hidden(&key) => key,
                Ok(_) => continue,
                Err(error) if error.is_corrupt() => continue,
                Err(error) => return Some(Err(error.into())),
            };
            match self.hidden(key) {
                Ok(false) => {}
                found => return Some(found.map(|_| ())),
            }
        }
    }

    /// Starts a key if its newest version was not read; else returns false.
    fn hidden(&mut self, key: Vec<u8>) -> Result<bool> {
        let newest = match self.store.engine().versions_of(&key).map_err(Error::from) {
            Err(error) if error.is_damage() => None,
            versions => versions?.first().copied(),
        };
        if newest.is_none_or(|newest| self.met.contains(newest.sequence)) {
            return Ok(false);
        }
        self.begin(key, None).map(|()| true)
    }
}

impl Iterator for ByKey {
    type Item = Result<StoredVersion>;

    fn next(&mut self) -> Option<Result<StoredVersion>> {
        loop {
            if let Some(version) = self.version() {
                return Some(version);
            }
            if let Err(error) = self.advance()? {
                return Some(Err(error));
            }
        }
    }
}
