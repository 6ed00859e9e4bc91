//! What the handlers of one server share: the store behind its pool, options, counters, locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use filemap::{AsyncPageStore, PageStore};

use super::counters::Counters;
use super::options::ServerOptions;

/// Locks for pages that are put: pages that share one wait for each other.
const LOCKS: usize = 64;

/// The state of one server.
pub(super) struct Backend {
    pub(super) store: AsyncPageStore,
    pub(super) options: ServerOptions,
    pub(super) counters: Counters,
    putting: [Mutex<()>; LOCKS],
}

impl Backend {
    pub(super) fn new(store: PageStore, options: ServerOptions) -> Backend {
        let store = AsyncPageStore::new(store, options.max_calls);
        let putting = std::array::from_fn(|_| Mutex::new(()));
        Backend { store, options, counters: Counters::new(), putting }
    }

    /// Keeps other puts of the page with this key out, from a condition to the put.
    pub(super) fn putting(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        let lock = &self.putting[(xxhash_rust::xxh3::xxh3_64(key) % LOCKS as u64) as usize];
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether clients come by HTTPS.
    pub(super) fn is_secure(&self) -> bool {
        self.options.secure
    }

    /// Gives the operator's log a line.
    pub(super) fn log(&self, words: &str) {
        (self.options.log)(words);
    }
}
