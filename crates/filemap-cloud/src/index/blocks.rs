//! Block cache of the index, for SlateDB. SlateDB's own `foyer` cache also loads a block once for
//! concurrent callers, but adds a disk cache: 25 crates, two of them C.

use std::future::{Future, poll_fn};
use std::hash::RandomState;
use std::pin::pin;
use std::task::Poll;

use async_trait::async_trait;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use slatedb::Error;
use slatedb::db_cache::{CacheFetch, CacheLoader, CachedEntry, CachedKey, DbCache};

/// Number of shards of a large cache, each with a lock: an entry larger than a shard is not kept.
const PARTS: usize = 4;
const SMALL_BYTES: u64 = 16 << 20;
/// Typical size of a block, used to size the cache's own tables.
const USUAL_BYTES: u64 = 4 << 10;

/// Blocks, indexes and filters of tables, in bounded memory. Concurrent calls for the same entry
/// load it once, if that succeeds.
pub(super) struct Blocks {
    entries: Cache<CachedKey, CachedEntry, ByBytes, RandomState>,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<CachedKey, CachedEntry> for ByBytes {
    fn weight(&self, _: &CachedKey, entry: &CachedEntry) -> u64 {
        (size_of::<CachedKey>() + size_of::<CachedEntry>() + entry.size()) as u64
    }
}

impl Blocks {
    /// A cache of at most `bytes`.
    pub(super) fn new(bytes: u64) -> Blocks {
        let usual = usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(usual)
            .weight_capacity(bytes)
            .shards(if bytes < SMALL_BYTES { 1 } else { PARTS })
            .build()
            .expect("both capacities are given");
        let lifecycle = DefaultLifecycle::default();
        Blocks { entries: Cache::with_options(options, ByBytes, RandomState::new(), lifecycle) }
    }

    /// The first caller loads, and the others wait for it. SlateDB may leave the first one
    /// unpolled while it reads a newer table. That cannot deadlock: no read of a newer table waits
    /// for an older one.
    async fn fetch(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        let mut joined = pin!(self.entries.get_value_or_guard_async(&key));
        let at_once = poll_fn(|context| Poll::Ready(joined.as_mut().poll(context))).await;
        let entry = match at_once {
            Poll::Ready(Ok(entry)) => return Ok(CacheFetch::hit(entry)),
            Poll::Ready(Err(place)) => {
                let entry = load().await?;
                // Does nothing if the entry was removed in the meantime.
                let _ = place.insert(entry.clone());
                entry
            }
            Poll::Pending => match joined.await {
                Ok(entry) => return Ok(CacheFetch::hit(entry)),
                // The load that the others waited for has failed: all of them try in parallel. One
                // after the other, the last would wait for the retries of all.
                Err(place) => {
                    drop(place);
                    let entry = load().await?;
                    self.entries.insert(key.clone(), entry.clone());
                    entry
                }
            },
        };
        Ok(CacheFetch::miss(entry))
    }
}

#[async_trait]
impl DbCache for Blocks {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.entries.get(key))
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.entries.get(key))
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.entries.get(key))
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, Error> {
        Ok(self.entries.get(key))
    }

    async fn insert(&self, key: CachedKey, entry: CachedEntry) {
        self.entries.insert(key, entry);
    }

    async fn remove(&self, key: &CachedKey) {
        self.entries.remove(key);
    }

    fn entry_count(&self) -> u64 {
        self.entries.len() as u64
    }

    async fn fetch_block(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        self.fetch(key, load).await
    }

    async fn fetch_index(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        self.fetch(key, load).await
    }

    async fn fetch_filter(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        self.fetch(key, load).await
    }

    async fn fetch_stats(&self, key: CachedKey, load: CacheLoader) -> Result<CacheFetch, Error> {
        self.fetch(key, load).await
    }
}
