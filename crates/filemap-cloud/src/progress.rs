//! The progress of commits, and the number of unsynced bytes: `sync` and puts that wait for room
//! use it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The progress of commits, with its waiters.
#[derive(Default)]
pub(crate) struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of segments, in sealing order, that are durable and in the index.
    durable: u64,
    /// Bytes of records in later segments.
    unsynced: usize,
    /// The error that ended all commits.
    failed: Option<Arc<Error>>,
}

impl State {
    fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |source| Err(Error::Failed { source: Arc::clone(source) }))
    }
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error if an earlier commit failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.lock().check()
    }

    /// Returns whether an earlier commit failed because another writer has the store.
    pub(crate) fn is_fenced(&self) -> bool {
        let failed = self.lock().failed.clone();
        failed.is_some_and(|error| matches!(*error, Error::Fenced { .. }))
    }

    /// Counts a record's bytes, if they fit under the bound; the first record always fits.
    pub(crate) fn try_add(&self, bytes: usize, bound: usize) -> Result<bool> {
        let mut state = self.lock();
        state.check()?;
        let has_room = state.unsynced == 0 || state.unsynced.saturating_add(bytes) <= bound;
        state.unsynced += if has_room { bytes } else { 0 };
        Ok(has_room)
    }

    /// Waits until there may be room for `bytes` more.
    pub(crate) fn wait_for_room(&self, bytes: usize, bound: usize) -> Result<()> {
        let mut state = self.lock();
        while state.failed.is_none() && state.unsynced > 0 && state.unsynced.saturating_add(bytes) > bound {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.check()
    }

    /// Waits until this many segments are durable.
    pub(crate) fn wait_for(&self, segments: u64) -> Result<()> {
        let mut state = self.lock();
        while state.failed.is_none() && state.durable < segments {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.durable >= segments { Ok(()) } else { state.check() }
    }

    /// Notes that the `nth` segment, with `bytes` bytes of records, and all before it are durable.
    pub(crate) fn committed(&self, nth: u64, bytes: usize) {
        let mut state = self.lock();
        state.durable = nth;
        state.unsynced = state.unsynced.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Notes the error that ends all commits.
    pub(crate) fn fail(&self, error: Error) {
        self.lock().failed.get_or_insert(Arc::new(error));
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_durable_is_told_also_after_a_failure_and_the_rest_is_not() {
        let progress = Progress::default();
        assert!(progress.try_add(10, 8).expect("open"), "the first always has room");
        assert!(!progress.try_add(1, 8).expect("open"));
        progress.committed(1, 10);
        assert!(progress.try_add(1, 8).expect("open"));
        progress.fail(Error::Closed { location: "here".to_owned() });
        assert!(progress.wait_for(1).is_ok());
        assert!(matches!(progress.wait_for(2), Err(Error::Failed { .. })));
        assert!(progress.check().is_err() && progress.try_add(1, 8).is_err() && progress.wait_for_room(9, 8).is_err());
    }
}
