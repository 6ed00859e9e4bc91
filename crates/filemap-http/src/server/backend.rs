//! What the handlers of one server share: the store behind its pool, options, counters, locks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use filemap::{AsyncPageStore, PageStore, Result};

use super::counters::Counters;
use super::options::ServerOptions;

/// Locks for pages that are put: pages that share one wait for each other.
const LOCKS: usize = 64;

/// A read that took longer came from the device, or its body is large.
const QUICK: Duration = Duration::from_micros(150);
/// Whether reads are slow: each slow one adds `SLOWER`, each quick one takes 1 off. One in fifty
/// is slow where another process has taken the processor; from the device nearly all are.
const SLOWER: u32 = 4;
const TOO_SLOW: u32 = 32;
/// Reads that go to the pool then, before one is tried here again.
const POOLED: u32 = 64;

/// The state of one server.
pub(super) struct Backend {
    pub(super) store: AsyncPageStore,
    direct: PageStore,
    slowness: AtomicU32,
    pooled: AtomicU32,
    pub(super) options: ServerOptions,
    pub(super) counters: Counters,
    putting: [Mutex<()>; LOCKS],
}

impl Backend {
    pub(super) fn new(store: PageStore, options: ServerOptions) -> Backend {
        let (direct, store) = (store.clone(), AsyncPageStore::new(store, options.max_calls));
        let putting = std::array::from_fn(|_| Mutex::new(()));
        Backend {
            store,
            direct,
            slowness: AtomicU32::new(0),
            pooled: AtomicU32::new(0),
            options,
            counters: Counters::new(),
            putting,
        }
    }

    /// A read of one page. What is in memory takes 10 us, less than it takes to hand a call to
    /// another thread and back: so it is done here, unless reads turn out to be slow; they go to
    /// the pool then.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&PageStore) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // Lost updates of either number do no harm.
        let pooled = self.pooled.load(Ordering::Relaxed);
        if pooled > 0 {
            self.pooled.store(pooled - 1, Ordering::Relaxed);
            return self.store.call(read).await;
        }
        let begun = Instant::now();
        let found = read(&self.direct);
        let slowness = self.slowness.load(Ordering::Relaxed);
        if begun.elapsed() <= QUICK {
            self.slowness.store(slowness.saturating_sub(1), Ordering::Relaxed);
        } else if slowness + SLOWER < TOO_SLOW {
            self.slowness.store(slowness + SLOWER, Ordering::Relaxed);
        } else {
            self.pooled.store(POOLED, Ordering::Relaxed);
        }
        found
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
