//! Reads a list of keys a few at a time beside other work. No key may come twice, and each that
//! was there from beginning to end must come.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use filemap_core::Store;
use filemap_core::list::Keys;

use crate::drive::{Driver, now};
use crate::judge::Trouble;
use filemap_oracle::Oracle;

/// See the module.
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

    /// Reads so many keys on; whether it came to the end, and was judged.
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

impl Driver {
    /// Begins a list of keys, or reads one on.
    pub(crate) fn list(&mut self) -> Result<(), Trouble> {
        let oracle = now(&self.oracle);
        let listing = Arc::clone(&self.listing);
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *listing {
            Some(list) => match list.advance(self.rng.usize(1..3), &oracle) {
                Ok(false) => {}
                Ok(true) => *listing = None,
                Err(e) => {
                    // After an error it ends.
                    *listing = None;
                    return Err(e);
                }
            },
            None => {
                *listing = match &self.reader {
                    Some(reader) if self.rng.u8(..4) == 0 => Some(Listing::behind(reader, &oracle)),
                    _ => Some(Listing::begin(self.store()?, &oracle)),
                }
            }
        }
        Ok(())
    }

    /// What goes on from now on may take keys from a list that was begun.
    pub(crate) fn list_may_lack(&self) {
        if let Some(list) = &mut *self.listing.lock().unwrap_or_else(PoisonError::into_inner) {
            list.may_lack_any();
        }
    }

    /// Reads no more of a list that was begun.
    pub(crate) fn forget_list(&self) {
        *self.listing.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reads a list that was begun to its end.
    ///
    /// # Errors
    /// What a read returned, or what is wrong.
    pub fn end_list(&self) -> Result<(), Trouble> {
        let list = self.listing.lock().unwrap_or_else(PoisonError::into_inner).take();
        match list.map(|mut list| list.advance(usize::MAX, &now(&self.oracle))) {
            Some(Err(Trouble::Error(_))) if self.has_failed() => Ok(()),
            Some(Err(e)) => Err(e),
            _ => Ok(()),
        }
    }
}
