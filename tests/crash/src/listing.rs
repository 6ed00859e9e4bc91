//! Reads a list of keys a few at a time beside other work. No key may come twice, and each that
//! was there from beginning to end must come.

use std::collections::BTreeSet;

use filemap_core::Store;
use filemap_core::list::Keys;

use crate::trouble::Trouble;
use filemap_oracle::Oracle;

/// A list of keys in progress, with the oracle of what it may show.
pub struct Listing {
    keys: Keys,
    /// Whoever lists keys holds on to the handle, or it may be closed.
    _store: Store,
    /// The number of the next operation when it began.
    begun: u64,
    /// Keys that were there then, unless it is not known.
    there: Vec<Vec<u8>>,
    named: BTreeSet<Vec<u8>>,
}

impl Listing {
    /// Begins a list of a handle that writes.
    pub fn begin(store: &Store, oracle: &Oracle) -> Listing {
        let is_there = |key: &&Vec<u8>| oracle.is_certain(key) && oracle.newest(key).is_some();
        let there = oracle.keys().filter(is_there).cloned().collect();
        Listing { keys: store.keys(), _store: store.clone(), begun: oracle.next(), there, named: BTreeSet::new() }
    }

    /// The same for a handle that may lag behind its writer, whose list may lack any key.
    pub fn behind(reader: &Store, oracle: &Oracle) -> Listing {
        Listing {
            keys: reader.keys(),
            _store: reader.clone(),
            begun: oracle.next(),
            there: Vec::new(),
            named: BTreeSet::new(),
        }
    }

    /// Any key may go from now on.
    pub fn may_lack_any(&mut self) {
        self.there.clear();
    }

    /// Reads this number of keys. Returns whether it reached the end and was judged.
    ///
    /// # Errors
    /// What a read returned, or what is wrong.
    pub fn advance(&mut self, keys: usize, oracle: &Oracle) -> Result<bool, Trouble> {
        for _ in 0..keys {
            let Some(key) = self.keys.next() else { return self.judge(oracle).map(|()| true) };
            let key = key?;
            let name = String::from_utf8_lossy(&key).into_owned();
            if !oracle.keys().any(|k| *k == key) {
                return Err(Trouble::Wrong(format!("a list names {name}, which was never put")));
            }
            if !self.named.insert(key) {
                return Err(Trouble::Wrong(format!("a list names {name} twice")));
            }
        }
        Ok(false)
    }

    fn judge(&self, oracle: &Oracle) -> Result<(), Trouble> {
        let stayed = |key: &&Vec<u8>| {
            oracle.is_certain(key) && oracle.newest(key).is_some() && !oracle.was_removed_since(key, self.begun)
        };
        match self.there.iter().filter(stayed).find(|key| !self.named.contains(*key)) {
            None => Ok(()),
            Some(key) => Err(Trouble::Wrong(format!("a list lacks {}", String::from_utf8_lossy(key)))),
        }
    }
}
