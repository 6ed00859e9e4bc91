//! Looks up the versions of the pages of a host, a domain or a prefix one by one: for a dump of a
//! small part of the store, instead of a pass over the value log.

use std::sync::Arc;

use filemap_core::Version;
use filemap_core::list::Direction;

use super::PageStore;
use crate::access::Scope;
use crate::access::keys::spans_of;
use crate::error::{Error, Result};
use crate::page::key;
use crate::page::order::Class;
use crate::page::version::StoredVersion;

/// Up to this many keys in a scope, lookups always pay.
const FEW: u64 = 4096;
/// Above this many keys they never do: keys and versions are held in memory.
const MANY: u64 = 1 << 20;
/// Lookups read less than the pass for up to one key in this many: one lookup costs about as much
/// as reading this many records in sequence.
const ONE_IN: u64 = 32;

type Versions = Box<dyn Iterator<Item = Result<StoredVersion>>>;

/// Versions to read, with their keys; and errors of keys that cannot be read.
#[derive(Default)]
struct Chosen {
    versions: Vec<(Version, Arc<[u8]>)>,
    lost: Vec<Error>,
}

impl PageStore {
    /// The versions of the pages in `scope`, of their variants and of the records beside them, in
    /// the order in which they were put; with `newest_only` the newest of pages and variants
    /// alone. `None` if a pass over the value log reads less: for all pages, for a store without
    /// key order, or for many pages.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::keys_in`].
    pub(crate) fn looked_up(&self, scope: &Scope, newest_only: bool) -> Result<Option<Versions>> {
        if scope.is_all() || !self.engine().has_key_order() {
            return Ok(None);
        }
        let classes = &Class::ALL[..if newest_only { 2 } else { 3 }];
        let ranges: Vec<_> =
            classes.iter().flat_map(|class| spans_of(scope, *class)).map(|span| span.range.into()).collect();
        let mut keys = 0;
        for range in &ranges {
            keys += self.engine().count_in(range)?;
        }
        if !self.is_worth_looking_up(keys) {
            return Ok(None);
        }
        let (takes, mut chosen) = (scope.filter(), Chosen::default());
        for range in ranges {
            for key in self.engine().keys_in(range, Direction::Forward)? {
                let key = key?;
                if takes(key::url(&key)) && !key::is_hidden(&key) {
                    self.choose(key, newest_only, &mut chosen)?;
                }
            }
        }
        chosen.versions.sort_by_key(|(version, _)| version.sequence);
        let store = self.clone();
        let read = move |(version, key): (Version, Arc<[u8]>)| match store.value_of(&key, version) {
            Ok(value) => value.map(|value| store.stored_version(key.to_vec(), value)),
            Err(error) => Some(Err(error)),
        };
        let lost = chosen.lost.into_iter().map(Err);
        Ok(Some(Box::new(lost.chain(chosen.versions.into_iter().filter_map(read)))))
    }

    /// Returns whether looking up this many keys reads less than a pass over the value log.
    pub(super) fn is_worth_looking_up(&self, keys: u64) -> bool {
        keys <= (self.keys() / ONE_IN).clamp(FEW, MANY)
    }

    /// Number of keys. Keys put again since the last checkpoint count twice.
    pub(super) fn keys(&self) -> u64 {
        let stats = self.engine().stats();
        stats.indexed_keys + stats.memtable_entries
    }

    fn choose(&self, key: Vec<u8>, newest_only: bool, chosen: &mut Chosen) -> Result<()> {
        let versions = match self.engine().versions_of(&key).map_err(Error::from) {
            Err(error) if error.is_damage() => {
                chosen.lost.push(error);
                return Ok(());
            }
            versions => versions?,
        };
        let number = if newest_only { 1 } else { versions.len() };
        let key: Arc<[u8]> = key.into();
        chosen.versions.extend(versions.into_iter().take(number).map(|version| (version, Arc::clone(&key))));
        Ok(())
    }
}
