//! Counters of a handle, and the statistics that `Store::stats` returns.

use std::time::Duration;

use crate::sync::primitive::{AtomicU64, Ordering};
use crate::sync::{Ranked, lock, rank};

/// Live counters of a handle; they only grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) puts: AtomicU64,
    pub(crate) unchanged_puts: AtomicU64,
    pub(crate) removes: AtomicU64,
    pub(crate) gets: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) raw_bytes: AtomicU64,
    pub(crate) appended_bytes: AtomicU64,
    pub(crate) dictionary_records: AtomicU64,
    pub(crate) body_bytes: AtomicU64,
    pub(crate) payload_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_us: AtomicU64,
    pub(crate) index_pages_written: AtomicU64,
    pub(crate) key_bytes_written: AtomicU64,
    pub(crate) slow_downs: AtomicU64,
    pub(crate) slow_down_us: AtomicU64,
    pub(crate) puts_over_1ms: AtomicU64,
    pub(crate) puts_over_1ms_by_checkpoint: AtomicU64,
    pub(crate) puts_over_1ms_by_write: AtomicU64,
    pub(crate) longest_put_us: AtomicU64,
    pub(crate) refreshes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_copied_bytes: AtomicU64,
    pub(crate) compaction_freed_bytes: AtomicU64,
    pub(crate) held_back: AtomicU64,
    pub(crate) held_back_us: AtomicU64,
    pub(crate) last_error: Ranked<{ rank::LAST_ERROR }, Option<String>>,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    /// Records a put: total time, time in the append, and whether a checkpoint delayed it.
    pub(crate) fn put_took(&self, all: Duration, write: Duration, checkpoint_in_the_way: bool) {
        let us = all.as_micros() as u64;
        self.longest_put_us.fetch_max(us, Ordering::Relaxed);
        if us < 1000 {
            return;
        }
        Counters::add(&self.puts_over_1ms, 1);
        if checkpoint_in_the_way {
            Counters::add(&self.puts_over_1ms_by_checkpoint, 1);
        }
        if write >= Duration::from_millis(1) {
            Counters::add(&self.puts_over_1ms_by_write, 1);
        }
    }

    pub(crate) fn failed(&self, error: &crate::Error) {
        *lock(&self.last_error) = Some(error.to_string());
    }
}

/// Value of a field in [`Stats::fields`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// for (name, value, _) in store.stats().fields() {
///     println!("{name}: {value:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum StatValue {
    /// A total; only grows while the handle is open.
    Counter(u64),
    /// A level; rises and falls.
    Gauge(u64),
    /// A text.
    Text(String),
}

macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $kind:ident,)*) => {
        /// Statistics of a store. Counters start at 0 when the handle is opened.
        ///
        /// ```
        /// # let temp = tempfile::tempdir()?;
        /// # let at = temp.path().join("a");
        /// # let store = filemap_core::Store::create(at, filemap_core::Options::new())?;
        /// store.put(&filemap_core::Record::new(b"http://a.example/", b"A page."))?;
        /// let stats = store.stats();
        /// assert_eq!((stats.puts, stats.removes), (1, 0));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Stats {
            /// All fields in order: name, value, description.
            pub fn fields(&self) -> Vec<(&'static str, StatValue, &'static str)> {
                vec![$((stringify!($name), stats!(@value $kind self.$name), concat!($($doc),+).trim())),*]
            }
        }
    };
    (@value counter $e:expr) => { StatValue::Counter($e) };
    (@value gauge $e:expr) => { StatValue::Gauge($e) };
    (@value text $e:expr) => { StatValue::Text($e.clone()) };
    (@value maybe $e:expr) => { StatValue::Text($e.clone().unwrap_or_default()) };
}

stats! {
    /// Keys in the index: live keys as of the last checkpoint.
    indexed_keys: u64 = gauge,
    /// Versions indexed by checkpoints since the store was created, removed ones included.
    indexed_versions: u64 = gauge,
    /// Sequence of the last record: each put, tombstone and chunk of a large body takes the next.
    last_sequence: u64 = gauge,
    /// Memtable entries: puts and removes since the last checkpoint.
    memtable_entries: u64 = gauge,
    /// Memory of the memtables, in bytes.
    memtable_bytes: u64 = gauge,
    /// Memory of the index's directory, in bytes.
    directory_bytes: u64 = gauge,
    /// Greatest memory of the index's Bloom filter, in bytes; 0 if there is none.
    filter_bytes: u64 = gauge,
    /// Changes of the index that wait in runs until they settle in leaves.
    waiting_changes: u64 = gauge,
    /// Memory of summaries of those runs, in bytes.
    summary_bytes: u64 = gauge,
    /// Segments of the value log.
    segments: u64 = gauge,
    /// Length of the value log in bytes.
    value_bytes: u64 = gauge,
    /// Length of the key log in bytes.
    key_bytes: u64 = gauge,
    /// Length of address.idx in bytes.
    index_bytes: u64 = gauge,
    /// Runs of keys in order.
    key_runs: u64 = gauge,
    /// Their length in bytes.
    key_run_bytes: u64 = gauge,
    /// Bytes read of runs of keys in order.
    key_run_bytes_read: u64 = counter,
    /// Bytes written of them: by checkpoints, and when they are joined.
    key_run_bytes_written: u64 = counter,
    /// Disk space of all files of the store, in bytes.
    disk_bytes: u64 = gauge,
    /// Leaf pages of the index.
    index_leaves: u64 = gauge,
    /// Usable dictionaries.
    dictionaries: u64 = gauge,
    /// Length of the dictionary files in bytes.
    dictionary_bytes: u64 = gauge,
    /// Memory of digested dictionaries, in bytes.
    dictionary_memory_bytes: u64 = gauge,
    /// Memory of the value cache, in bytes.
    value_cache_bytes: u64 = gauge,
    /// What it may take at present, in bytes; 0 if there is none.
    value_cache_bound_bytes: u64 = gauge,
    /// Value cache hits.
    value_cache_hits: u64 = counter,
    /// Value cache misses; gets without a cache are none.
    value_cache_misses: u64 = counter,
    /// Puts that returned.
    puts: u64 = counter,
    /// Puts of an unchanged body: only a reference was stored.
    unchanged_puts: u64 = counter,
    /// Removes of a key that existed.
    removes: u64 = counter,
    /// Reads of a key, of any kind.
    gets: u64 = counter,
    /// Reads that found their key.
    hits: u64 = counter,
    /// Bytes of bodies put, uncompressed.
    raw_bytes: u64 = counter,
    /// Bytes appended to the value log.
    appended_bytes: u64 = counter,
    /// Records compressed with a dictionary.
    dictionary_records: u64 = counter,
    /// Bytes of bodies stored as pages or chunks, uncompressed.
    body_bytes: u64 = counter,
    /// Bytes of the same bodies as stored.
    payload_bytes: u64 = counter,
    /// Syncs of the value log.
    syncs: u64 = counter,
    /// Checkpoints finished.
    checkpoints: u64 = counter,
    /// Time spent in checkpoints, in microseconds.
    checkpoint_us: u64 = counter,
    /// Index pages written by checkpoints.
    index_pages_written: u64 = counter,
    /// Bytes appended to the key log by checkpoints.
    key_bytes_written: u64 = counter,
    /// Puts slowed down because the memtable filled faster than a checkpoint merged the frozen
    /// one.
    slow_downs: u64 = counter,
    /// Total delay of these puts, in microseconds.
    slow_down_us: u64 = counter,
    /// Puts that took over 1 ms.
    puts_over_1ms: u64 = counter,
    /// Puts over 1 ms that a checkpoint or growth of the index delayed.
    puts_over_1ms_by_checkpoint: u64 = counter,
    /// Puts over 1 ms that the operating system's write delayed.
    puts_over_1ms_by_write: u64 = counter,
    /// Longest put, in microseconds.
    longest_put_us: u64 = gauge,
    /// Times a follower followed the writer.
    refreshes: u64 = counter,
    /// Live bytes of the value log: what the index leads to, as of the last checkpoint.
    live_bytes: u64 = gauge,
    /// Bytes of tombstones in the value log, kept while an earlier version of their keys may
    /// exist.
    tombstone_bytes: u64 = gauge,
    /// Dead bytes of the value log as of the last checkpoint: replaced, removed, never referred
    /// to.
    dead_bytes: u64 = gauge,
    /// Bytes of the value log after the last checkpoint.
    unindexed_bytes: u64 = gauge,
    /// Bytes of the value log per 1000 live or unindexed ones; the default bound is 1250.
    space_amplification_permille: u64 = gauge,
    /// Runs of compaction that moved or removed something.
    compactions: u64 = counter,
    /// Bytes copied by compaction.
    compaction_copied_bytes: u64 = counter,
    /// Bytes freed by compaction.
    compaction_freed_bytes: u64 = counter,
    /// Puts held back because compaction could not keep up.
    held_back: u64 = counter,
    /// Total delay of these puts, in microseconds.
    held_back_us: u64 = counter,
    /// End of the last full verification noted in the store, in ms since 1970; 0 if unknown.
    verified_ms: u64 = gauge,
    /// Damaged places found by it.
    verified_problems: u64 = gauge,
    /// Durability of puts.
    durability: String = text,
    /// Last error of background work, or the one that stopped writes.
    last_error: Option<String> = maybe,
}
