//! What the threads of one handle share: the parts of a store, the recent tables, the end of the log; and how they are read
//! and appended to. Checkpoints, background threads and the public face work on this.
//!
//! Invariants: readers take no lock of `WriteSide`; whatever a read looks for is entered in the later of active table, frozen
//! table and index before it leaves the earlier, and reads look in that order.

mod append;
mod draft;
pub(crate) mod follow;
mod read;
mod retention;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use filemap_io::{Access, Dir, Lock};

use crate::accounts::Accounts;
use crate::buggify::{Fault, planted};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::names;
use crate::format::superblock::{Superblock, Tail};
use crate::index::{Index, IndexWriter};
use crate::keys::{KeyAppender, KeyLog};
use crate::options::{Durability, Options};
use crate::primitive::{ArcSwap, AtomicBool, AtomicI64, AtomicU64, Mutex, Ordering};
use crate::recent::Recent;
use crate::segments::Segments;
use crate::stats::{Counters, Stats};
use crate::superblock::SuperblockFile;
use crate::sync::{Bell, GroupSync, Poison, lock};
use crate::values::append::Appender;

pub(crate) use draft::{check_limits, digest};
pub(crate) use follow::Follower;
pub(crate) use read::{Spot, sort_versions};
pub(crate) use retention::Retention;

/// The tables that a read looks into before the index, newest first.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Takes new entries.
    pub(crate) active: Arc<Recent>,
    /// Being merged by a checkpoint.
    pub(crate) frozen: Option<Arc<Recent>>,
}

/// The end of the log, behind the append lock.
pub(crate) struct Log {
    pub(crate) appender: Appender,
    pub(crate) next_sequence: u64,
    /// Units of the removals since the last checkpoint, by segment.
    pub(crate) tombstones: BTreeMap<u16, u64>,
    /// Position of the appender when the last checkpoint froze its table.
    pub(crate) frozen_at: u64,
}

/// What only the writer has.
pub(crate) struct WriteSide {
    pub(crate) log: Mutex<Log>,
    pub(crate) checkpointer: Mutex<Checkpointer>,
    pub(crate) group: GroupSync,
    pub(crate) poison: Poison,
    pub(crate) sync_bell: Bell,
    pub(crate) checkpoint_bell: Bell,
    pub(crate) checkpoint_due: AtomicBool,
    /// Raised by each freeze that took long: a put that waited while it changed was held up by a checkpoint.
    pub(crate) slow_freezes: AtomicU64,
    pub(crate) free_space: FreeSpace,
    /// Ordinals of segments of the key log that compaction could not empty.
    pub(crate) kept_keys: Mutex<BTreeSet<u64>>,
    /// Given up by `close`, whichever clones live on.
    pub(crate) held: Mutex<Option<Box<dyn Lock>>>,
}

/// What the file system has left, measured now and then.
#[derive(Debug, Default)]
pub(crate) struct FreeSpace {
    pub(crate) bytes: AtomicU64,
    pub(crate) measured_at: AtomicU64,
}

/// Everything that threads share.
pub(crate) struct Shared {
    pub(crate) dir: Arc<dyn Dir>,
    pub(crate) options: Options,
    /// What was fixed when the store was created.
    pub(crate) birth: Superblock,
    pub(crate) segments: Arc<Segments>,
    pub(crate) keys: Arc<KeyLog>,
    pub(crate) index: Arc<Index>,
    pub(crate) superblock: SuperblockFile,
    /// The last superblock that was written or read.
    pub(crate) latest: ArcSwap<Superblock>,
    pub(crate) tables: ArcSwap<Tables>,
    /// The segment table of that superblock.
    pub(crate) accounts: ArcSwap<Accounts>,
    /// No version in the index has a greater time than this.
    pub(crate) indexed_time_ms: AtomicI64,
    pub(crate) counters: Counters,
    pub(crate) writer: Option<WriteSide>,
    pub(crate) follower: Option<Follower>,
    pub(crate) closed: AtomicBool,
}

/// What only checkpoints touch, behind the checkpoint lock.
pub(crate) struct Checkpointer {
    pub(crate) index: IndexWriter,
    pub(crate) keys: KeyAppender,
    /// As of what the index is led to just now.
    pub(crate) accounts: Accounts,
    /// The last durable superblock.
    pub(crate) current: Superblock,
    /// Entries with a lower sequence were replayed: an interrupted checkpoint may have entered them before.
    pub(crate) replayed_below: u64,
}

impl Shared {
    /// # Errors
    /// `Closed` after `close`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// # Errors
    /// `ReadOnly` for a handle that was opened so.
    pub(crate) fn write_side(&self) -> Result<&WriteSide> {
        self.writer.as_ref().ok_or(Error::ReadOnly)
    }

    /// The hash of a key: XXH3-64 with the store's own seed, so that crawled URLs cannot be chosen to collide.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.birth.hash_seed)
    }

    pub(crate) fn emit(&self, event: &Event) {
        if let Some(sink) = &self.options.on_event {
            sink(event);
        }
    }

    /// Tells the background threads to end.
    pub(crate) fn stop_bells(&self) {
        if let Some(writer) = &self.writer {
            writer.checkpoint_bell.stop();
            writer.sync_bell.stop();
        }
    }

    /// After a failed write or sync: no more writes through this handle.
    pub(crate) fn poison(&self, error: &Error) {
        self.counters.failed(error);
        if let Some(writer) = &self.writer
            && writer.poison.set(error)
        {
            self.emit(&Event::Poisoned { cause: error.to_string() });
        }
    }

    /// Returns when the log is durable up to a position of the appender. Threads that wait together share a sync.
    pub(crate) fn sync_to(&self, position: u64) -> Result<()> {
        let writer = self.write_side()?;
        writer.group.wait_for(position, || {
            writer.poison.check()?;
            let (files, to) = lock(&writer.log).appender.to_sync();
            for (segment, file) in files.iter().filter(|_| !planted(Fault::SyncSkipped)) {
                if let Err(e) = file.sync() {
                    let error = Error::io("sync", segment.name(), e);
                    if !planted(Fault::FailedSyncRetried) {
                        self.poison(&error);
                    }
                    return Err(error);
                }
            }
            lock(&writer.log).appender.synced(&files);
            Counters::add(&self.counters.syncs, 1);
            Ok(to)
        })
    }

    pub(crate) fn measure_free_space(&self) {
        if let Some(writer) = &self.writer
            && let Ok(bytes) = self.dir.free_bytes()
        {
            writer.free_space.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let c = &self.counters;
        let tables = self.tables.load();
        let both = || [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten();
        let (value_bytes, value_disk) = self.segments.bytes();
        let (key_bytes, key_disk) = self.keys.bytes();
        let measured = self.dir.open(names::INDEX, Access::Read);
        let (index_bytes, index_disk) =
            measured.map_or((0, 0), |f| (f.len().unwrap_or(0), f.allocated_bytes().unwrap_or(0)));
        let current = self.latest.load();
        let small = [names::SUPERBLOCK, names::LOCK].iter().filter_map(|n| self.dir.open(n, Access::Read).ok());
        let get = Counters::get;
        Stats {
            indexed_keys: current.index.keys,
            indexed_versions: current.versions,
            recent_entries: both().map(|t| t.entries()).sum(),
            recent_bytes: both().map(|t| t.bytes() as u64).sum(),
            directory_bytes: self.index.directory_bytes(),
            segments: self.segments.all().len() as u64,
            value_bytes,
            key_bytes,
            index_bytes,
            disk_bytes: value_disk
                + index_disk
                + key_disk
                + small.map(|f| f.allocated_bytes().unwrap_or(0)).sum::<u64>(),
            index_leaves: current.index.leaves,
            puts: get(&c.puts),
            unchanged_puts: get(&c.unchanged_puts),
            removes: get(&c.removes),
            gets: get(&c.gets),
            hits: get(&c.hits),
            raw_bytes: get(&c.raw_bytes),
            appended_bytes: get(&c.appended_bytes),
            syncs: get(&c.syncs),
            checkpoints: get(&c.checkpoints),
            checkpoint_us: get(&c.checkpoint_us),
            index_pages_written: get(&c.index_pages_written),
            key_bytes_written: get(&c.key_bytes_written),
            slow_downs: get(&c.slow_downs),
            slow_down_us: get(&c.slow_down_us),
            puts_over_1ms: get(&c.puts_over_1ms),
            puts_over_1ms_by_checkpoint: get(&c.puts_over_1ms_by_checkpoint),
            puts_over_1ms_by_write: get(&c.puts_over_1ms_by_write),
            longest_put_us: get(&c.longest_put_us),
            refreshes: get(&c.refreshes),
            durability: self.options.durability.to_string(),
            last_error: lock(&c.last_error).clone(),
        }
    }

    /// Whether every put must be on the device before it returns.
    pub(crate) fn is_sync(&self) -> bool {
        self.options.durability == Durability::Sync
    }
}

impl Shared {
    /// The end of the log as this handle knows it.
    pub(crate) fn log_end(&self) -> Tail {
        match (&self.writer, &self.follower) {
            (Some(writer), _) => lock(&writer.log).appender.tail(),
            (None, Some(follower)) => follower.position(),
            (None, None) => Tail { ordinal: u64::MAX, offset: u64::MAX },
        }
    }
}

/// # Errors
/// `Canonicalizer` when another rule is wanted than the store's.
pub(crate) fn check_canonicalizer(current: &Superblock, options: &Options) -> Result<()> {
    match &options.canonicalizer {
        Some(wanted) if *wanted != current.canonicalizer => {
            Err(Error::Canonicalizer { stored: current.canonicalizer.to_string(), wanted: wanted.to_string() })
        }
        _ => Ok(()),
    }
}
