//! The operations of a driver on a list of keys that it reads beside other work.

use std::sync::{Arc, PoisonError};

use crate::drive::{Driver, now};
use crate::listing::Listing;
use crate::trouble::Trouble;

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

    /// From now on, work in progress may take keys from a list that was begun.
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
