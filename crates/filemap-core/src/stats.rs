//! What a handle counts while it works, and what of that a monitor is told.

use std::time::Duration;

use crate::sync::primitive::{AtomicU64, Ordering};
use crate::sync::{Ranked, lock, rank};

/// Live counters of a handle. Each is only ever added to.
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

    /// A put took this long, of which it waited for the append lock and wrote so long.
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

/// A number or a text of [`Stats::fields`].
#[derive(Clone, Debug, PartialEq)]
pub enum StatValue {
    /// A total that only grows while the handle is open.
    Counter(u64),
    /// A level that rises and falls.
    Gauge(u64),
    /// A text.
    Text(String),
}

macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $kind:ident,)*) => {
        /// What a store has done and holds. Counters start at 0 when the handle is opened.
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $name: $type,)*
        }

        impl Stats {
            /// All fields in order: name, value, and what it means.
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
    /// Versions that checkpoints have entered into the index since the store was created, removed ones included.
    indexed_versions: u64 = gauge,
    /// Sequence of the last record that the handle knows of: each put, removal and chunk of a large body has the next.
    last_sequence: u64 = gauge,
    /// Entries put or removed since the last checkpoint, still in memory.
    memtable_entries: u64 = gauge,
    /// Memory that they take, in bytes.
    memtable_bytes: u64 = gauge,
    /// Memory that the index's directory takes, in bytes.
    directory_bytes: u64 = gauge,
    /// Memory that the index's filter takes at most, in bytes; 0 if there is none.
    filter_bytes: u64 = gauge,
    /// Segments of the value log.
    segments: u64 = gauge,
    /// Length of the value log in bytes.
    value_bytes: u64 = gauge,
    /// Length of the key log in bytes.
    key_bytes: u64 = gauge,
    /// Length of address.idx in bytes.
    index_bytes: u64 = gauge,
    /// What all files of the store take on the device, in bytes.
    disk_bytes: u64 = gauge,
    /// Leaf pages of the index.
    index_leaves: u64 = gauge,
    /// Dictionaries that can be used.
    dictionaries: u64 = gauge,
    /// Length of their files in bytes.
    dictionary_bytes: u64 = gauge,
    /// Memory that digested dictionaries take, in bytes.
    dictionary_memory_bytes: u64 = gauge,
    /// Memory that expanded pages take in the value cache, in bytes.
    value_cache_bytes: u64 = gauge,
    /// Reads that found their page there.
    value_cache_hits: u64 = counter,
    /// Reads that looked for it there and went to the file.
    value_cache_misses: u64 = counter,
    /// Puts that returned.
    puts: u64 = counter,
    /// Puts whose body was unchanged, so that only a reference was stored.
    unchanged_puts: u64 = counter,
    /// Removals of a key that was there.
    removes: u64 = counter,
    /// Reads of a key, of any sort.
    gets: u64 = counter,
    /// Reads that found it.
    hits: u64 = counter,
    /// Bytes of the bodies that were put, uncompressed.
    raw_bytes: u64 = counter,
    /// Bytes appended to the value log.
    appended_bytes: u64 = counter,
    /// Records that were compressed with a dictionary.
    dictionary_records: u64 = counter,
    /// Bytes of the bodies of pages that were put and of chunks, uncompressed.
    body_bytes: u64 = counter,
    /// Bytes of the same as they are stored.
    payload_bytes: u64 = counter,
    /// Syncs of the value log.
    syncs: u64 = counter,
    /// Checkpoints that finished.
    checkpoints: u64 = counter,
    /// Time that checkpoints took, in microseconds.
    checkpoint_us: u64 = counter,
    /// Index pages that checkpoints wrote.
    index_pages_written: u64 = counter,
    /// Bytes that checkpoints appended to the key log.
    key_bytes_written: u64 = counter,
    /// Puts that were slowed down because the memtable filled faster than a checkpoint could empty the other.
    slow_downs: u64 = counter,
    /// By how much in all, in microseconds.
    slow_down_us: u64 = counter,
    /// Puts that took over 1 ms.
    puts_over_1ms: u64 = counter,
    /// Those of them that a checkpoint or growth of the index held up.
    puts_over_1ms_by_checkpoint: u64 = counter,
    /// Those of them that the operating system's write held up.
    puts_over_1ms_by_write: u64 = counter,
    /// The longest put, in microseconds.
    longest_put_us: u64 = gauge,
    /// Times that a read-only handle followed the writer.
    refreshes: u64 = counter,
    /// Bytes of the value log that live: what the index leads to, as of the last checkpoint.
    live_bytes: u64 = gauge,
    /// Bytes of removals in the value log, which stay until no earlier version of their keys can be left.
    removal_bytes: u64 = gauge,
    /// Bytes of the value log that are dead as of the last checkpoint: replaced, removed, never referred to.
    dead_bytes: u64 = gauge,
    /// Bytes of the value log that no checkpoint has seen yet.
    unindexed_bytes: u64 = gauge,
    /// Bytes of the value log for each thousand that live or are not known yet: 1250 is the default's bound.
    space_amplification_permille: u64 = gauge,
    /// Runs of compaction that moved or removed something.
    compactions: u64 = counter,
    /// Bytes that compaction has copied.
    compaction_copied_bytes: u64 = counter,
    /// Bytes that compaction has given back.
    compaction_freed_bytes: u64 = counter,
    /// Puts that were held back because compaction could not keep up with them.
    held_back: u64 = counter,
    /// By how much in all, in microseconds.
    held_back_us: u64 = counter,
    /// When the last verification of everything ended that was noted in the store, in ms since 1970; 0 if none is known.
    verified_ms: u64 = gauge,
    /// Damaged places that it found.
    verified_problems: u64 = gauge,
    /// When a put is on the device.
    durability: String = text,
    /// The last error of the background work, or the one that stopped writes.
    last_error: Option<String> = maybe,
}
