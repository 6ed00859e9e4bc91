//! What the threads of one handle share: the parts of a store, the memtables, the end of the log; and how they are read
//! and appended to. Checkpoints, background threads and the public face work on this.
//!
//! Invariants: readers take no lock of `WriteSide`; whatever a read looks for is entered in the later of active table, frozen
//! table and index before it leaves the earlier, and reads look in that order.

mod admission;
mod append;
mod compacting;
pub(crate) mod follow;
mod lost;
mod read;
pub(crate) mod recover;
mod retention;
pub(crate) mod rules;
mod sample;
mod space;
mod training;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use filemap_io::{Access, Dir};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::failpoint::{Fault, planted};
use crate::format::names;
use crate::format::rules::Rules;
use crate::format::superblock::{Superblock, Tail};
use crate::format::verified::{self, Verified};
use crate::handle::recover::Absent;
use crate::index::address::{Index, IndexWriter};
use crate::index::memtable::Memtable;
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::{KeyAppender, KeyLog};
use crate::logs::segments::Segment;
use crate::logs::values::ValueLog;
use crate::logs::values::append::Appender;
use crate::logs::values::cache::ValueCache;
use crate::options::{Durability, Options};
use crate::stats::{Counters, Stats};
use crate::sync::gate::Gate;
use crate::sync::primitive::{ArcSwap, AtomicBool, AtomicI64, AtomicU64, Ordering};
use crate::sync::{Bell, GroupSync, Poison, Ranked, Turns, lock, rank};

pub use admission::Admission;
pub(crate) use append::late_bytes;
pub(crate) use compacting::Cleaning;
pub(crate) use follow::Follower;
pub(crate) use read::{Spot, sort_versions};
pub use retention::Needed;
pub(crate) use retention::{Dropped, Retention};
pub use sample::RecompressionEstimate;
pub(crate) use training::{Recompressed, Training};

/// The tables that a read looks into before the index, newest first.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Takes new entries.
    pub(crate) active: Arc<Memtable>,
    /// Being merged by a checkpoint.
    pub(crate) frozen: Option<Arc<Memtable>>,
}

/// The end of the log, behind the append lock.
pub(crate) struct Log {
    pub(crate) appender: Appender,
    pub(crate) next_sequence: u64,
    /// Units of the removals since the last checkpoint, by segment.
    pub(crate) tombstones: BTreeMap<u16, u64>,
    pub(crate) pins: Pins,
    /// Position of the appender when the last checkpoint froze its table.
    pub(crate) frozen_at: u64,
}

/// Chunks that no list in the index names yet: compaction must leave the segments alone in which they lie.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// Of each body that is being put, the ordinal of its first chunk's segment.
    streams: BTreeMap<u64, u64>,
    last_stream: u64,
    /// The least such ordinal of the lists in the active table, and in the frozen one.
    active: Option<u64>,
    frozen: Option<u64>,
}

impl Pins {
    /// Those of what a recovery has entered in the active table.
    pub(crate) fn of(active: Option<u64>) -> Pins {
        Pins { active, ..Pins::default() }
    }

    /// A body of several chunks begins in a segment. Returns what to name it by.
    fn begin(&mut self, ordinal: u64) -> u64 {
        self.last_stream += 1;
        self.streams.insert(self.last_stream, ordinal);
        self.last_stream
    }

    /// The body's list is in the table, or it was given up.
    pub(crate) fn end(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }

    /// A list was entered in the active table whose first chunk lies in a segment.
    pub(crate) fn list(&mut self, ordinal: u64) {
        self.active = Some(self.active.map_or(ordinal, |a| a.min(ordinal)));
    }

    /// The active table was frozen.
    pub(crate) fn freeze(&mut self) {
        self.frozen = self.active.take();
    }

    /// The frozen table is in the index.
    pub(crate) fn merged(&mut self) {
        self.frozen = None;
    }

    /// Segments of the log from this ordinal on are not to be taken.
    pub(crate) fn least(&self) -> u64 {
        let pins = self.streams.values().copied().chain(self.active).chain(self.frozen);
        pins.min().unwrap_or(u64::MAX)
    }
}

/// What compactions know of segments. Only the one whose turn it is changes it.
#[derive(Clone, Default)]
pub(crate) struct Compactor {
    /// Ordinals of segments that were to be emptied and are not, and whether damage was met in them: else something was put
    /// meanwhile that needs what they hold.
    pub(crate) stuck: HashMap<u64, bool>,
    /// Emptied while a backup needed their files.
    pub(crate) emptied: Vec<Arc<Segment>>,
    /// While something is being erased, what no copy may take along.
    pub(crate) cleaning: Option<Arc<Cleaning>>,
}

/// Says of a key whether it is meant.
pub type KeyFilter = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What only the writer has.
pub(crate) struct WriteSide {
    pub(crate) log: Ranked<{ rank::APPEND }, Log>,
    /// One compaction runs at a time, of values, of keys or of the index.
    pub(crate) compacting: Turns,
    pub(crate) compactor: Ranked<{ rank::COMPACTOR }, Compactor>,
    pub(crate) checkpointer: Ranked<{ rank::CHECKPOINT }, Checkpointer>,
    pub(crate) group: GroupSync,
    pub(crate) poison: Arc<Poison>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) sync_bell: Bell,
    pub(crate) checkpoint_bell: Bell,
    pub(crate) compact_bell: Bell,
    /// Position of the appender at which compaction was last asked to look.
    pub(crate) looked_at: AtomicU64,
    /// Beyond this position of the appender puts are held back, for compaction to keep up.
    pub(crate) space_limit: AtomicU64,
    pub(crate) training: Training,
    pub(crate) checkpoint_due: AtomicBool,
    /// Raised by each freeze that took long: a put that waited while it changed was held up by a checkpoint.
    pub(crate) slow_freezes: AtomicU64,
    pub(crate) free_space: FreeSpace,
    /// Ordinals of segments of the key log that compaction could not empty.
    pub(crate) kept_keys: Ranked<{ rank::KEPT_KEYS }, BTreeSet<u64>>,
    /// As in the file RULES.
    pub(crate) rules: Ranked<{ rank::RULES }, Rules>,
    /// Who is asked about everything that is put.
    pub(crate) admission: ArcSwapOption<Arc<dyn Admission>>,
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
    pub(crate) values: Arc<ValueLog>,
    pub(crate) keys: Arc<KeyLog>,
    pub(crate) index: Arc<Index>,
    pub(crate) superblock: SuperblockFile,
    /// The last superblock that was written or read.
    pub(crate) latest: ArcSwap<Superblock>,
    pub(crate) tables: ArcSwap<Tables>,
    /// The segment table of that superblock.
    pub(crate) segment_table: ArcSwap<SegmentTable>,
    /// No version in the index has a greater time than this.
    pub(crate) indexed_time_ms: AtomicI64,
    /// While a checkpoint runs, versions with lower times may go though they are their keys' newest: nothing may be made to
    /// refer to one. `i64::MIN` when none can.
    pub(crate) expiring_ms: AtomicI64,
    pub(crate) counters: Counters,
    pub(crate) writer: Option<WriteSide>,
    pub(crate) follower: Option<Follower>,
    /// What of the store is gone, as far as that is known.
    pub(crate) absent: ArcSwap<Vec<Absent>>,
    pub(crate) closed: AtomicBool,
}

/// What only checkpoints touch, behind the checkpoint lock.
pub(crate) struct Checkpointer {
    pub(crate) index: IndexWriter,
    pub(crate) keys: KeyAppender,
    /// As of what the index is led to just now.
    pub(crate) segment_table: SegmentTable,
    /// The last durable superblock.
    pub(crate) current: Superblock,
    /// Backups that count on the files and the index pages of a superblock: what it names is neither removed nor written over.
    pub(crate) holds: u32,
    /// What the running checkpoint keeps, and what it has dropped.
    pub(crate) retention: Retention,
    pub(crate) dropped: Dropped,
    /// Of the dropped versions, those that a superblock has told readers of.
    pub(crate) told_versions: u64,
    /// Whether the running checkpoint has left a part of its task undone, as the handle is being closed.
    pub(crate) is_cut: bool,
    /// Entries with a lower sequence were replayed: an interrupted checkpoint may have entered them before.
    pub(crate) replayed_below: u64,
}

impl Checkpointer {
    /// As of the superblock `current`; entries with a sequence below `replayed_below` were replayed.
    pub(crate) fn new(
        index: IndexWriter,
        keys: KeyAppender,
        segment_table: SegmentTable,
        current: Superblock,
        replayed_below: u64,
    ) -> Checkpointer {
        let (retention, dropped) = (Retention::default(), Dropped::default());
        Checkpointer {
            index,
            keys,
            segment_table,
            current,
            holds: 0,
            retention,
            dropped,
            told_versions: 0,
            is_cut: false,
            replayed_below,
        }
    }
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

    /// Names of all files in the store's folder.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.dir.list().map_err(|e| Error::io("list", self.dir.path().display().to_string(), e))
    }

    /// What is absent and missed, as damage at the end of a list. A dictionary hides nothing from one: what needs it is met.
    pub(crate) fn missed(&self) -> Vec<Error> {
        self.absent.load().iter().filter(|a| a.is_missed() && !a.is_dictionary()).map(Absent::error).collect()
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
            writer.compacting.wake();
            writer.compact_bell.stop();
            writer.training.bell.stop();
            writer.checkpoint_bell.stop();
            writer.sync_bell.stop();
        }
    }

    /// After a failed write or sync: no more writes through this handle. What the gate has refused because the handle is closed is
    /// no failure.
    pub(crate) fn poison(&self, error: &Error) {
        if matches!(error, Error::Closed) {
            return;
        }
        self.counters.failed(error);
        self.poison_because(error.to_string());
    }

    /// No more writes through this handle, for a reason that is no error.
    pub(crate) fn poison_because(&self, cause: String) {
        if let Some(writer) = &self.writer
            && writer.poison.set_cause(cause.clone())
        {
            self.emit(&Event::Poisoned { cause });
        }
    }

    /// Returns when the log is durable up to a position of the appender. Threads that wait together share a sync.
    pub(crate) fn sync_to(&self, position: u64) -> Result<()> {
        self.sync_group(position, false)
    }

    /// As [`Shared::sync_to`], by a thread that has entered the group.
    pub(crate) fn sync_with_others(&self, position: u64) -> Result<()> {
        self.sync_group(position, true)
    }

    fn sync_group(&self, position: u64, gathers: bool) -> Result<()> {
        let writer = self.write_side()?;
        writer.group.wait_for(position, gathers, || {
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

    /// Sequence of the last record that was appended here, or followed; 0 for none.
    fn last_sequence(&self) -> u64 {
        match (&self.writer, &self.follower) {
            (Some(writer), _) => lock(&writer.log).next_sequence.saturating_sub(1),
            (None, Some(follower)) => follower.last_sequence(),
            (None, None) => 0,
        }
    }

    /// Length of address.idx, and what it takes on the device; 0 where that cannot be told.
    fn index_bytes(&self) -> (u64, u64) {
        let file = self.dir.open(names::INDEX, Access::Read);
        file.map_or((0, 0), |f| (f.len().unwrap_or(0), f.allocated_bytes().unwrap_or(0)))
    }

    pub(crate) fn stats(&self) -> Stats {
        let (c, tables) = (&self.counters, self.tables.load());
        let both = || [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten();
        let (value_bytes, value_disk) = self.values.segments.bytes();
        let (key_bytes, key_disk) = self.keys.bytes();
        let (index_bytes, index_disk) = self.index_bytes();
        let current = self.latest.load();
        let (space, get, verified) = (self.space(), Counters::get, self.verified());
        let (dictionaries, dictionary_bytes) = self.values.dictionaries.size();
        let cache = self.values.cache.as_ref().map_or((0, 0, 0), ValueCache::usage);
        Stats {
            indexed_keys: current.index.keys,
            indexed_versions: current.versions,
            last_sequence: self.last_sequence(),
            memtable_entries: both().map(|t| t.entries()).sum(),
            memtable_bytes: both().map(|t| t.bytes() as u64).sum(),
            directory_bytes: self.index.directory_bytes(),
            filter_bytes: self.index.filter_bytes(),
            segments: self.values.segments.all().len() as u64,
            value_bytes,
            key_bytes,
            index_bytes,
            disk_bytes: value_disk + dictionary_bytes + index_disk + key_disk + self.small_disk_bytes(),
            index_leaves: current.index.leaves,
            dictionaries,
            dictionary_bytes,
            dictionary_memory_bytes: self.values.dictionaries.memory_bytes(),
            value_cache_bytes: cache.0,
            value_cache_hits: cache.1,
            value_cache_misses: cache.2,
            puts: get(&c.puts),
            unchanged_puts: get(&c.unchanged_puts),
            removes: get(&c.removes),
            gets: get(&c.gets),
            hits: get(&c.hits),
            raw_bytes: get(&c.raw_bytes),
            appended_bytes: get(&c.appended_bytes),
            dictionary_records: get(&c.dictionary_records),
            body_bytes: get(&c.body_bytes),
            payload_bytes: get(&c.payload_bytes),
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
            live_bytes: space.live_bytes,
            removal_bytes: space.removal_bytes,
            dead_bytes: space.dead_bytes,
            unindexed_bytes: space.unindexed_bytes,
            space_amplification_permille: space.amplification_permille(),
            compactions: get(&c.compactions),
            compaction_copied_bytes: get(&c.compaction_copied_bytes),
            compaction_freed_bytes: get(&c.compaction_freed_bytes),
            held_back: get(&c.held_back),
            held_back_us: get(&c.held_back_us),
            verified_ms: verified.map_or(0, |v| v.ended_ms.max(0).cast_unsigned()),
            verified_problems: verified.map_or(0, |v| v.problems),
            durability: self.options.durability.to_string(),
            last_error: lock(&c.last_error).clone(),
        }
    }

    /// What the files of fixed length take on the device.
    fn small_disk_bytes(&self) -> u64 {
        let small = [names::SUPERBLOCK, names::LOCK, names::VERIFIED];
        let small = small.iter().filter_map(|name| self.dir.open(name, Access::Read).ok());
        small.map(|f| f.allocated_bytes().unwrap_or(0)).sum()
    }

    /// What was noted of the last verification of everything, if that can be read.
    fn verified(&self) -> Option<Verified> {
        let file = self.dir.open(names::VERIFIED, Access::Read).ok()?;
        let mut b = [0; verified::BYTES];
        let n = file.read_at(&mut b, 0).ok()?;
        Verified::decode(&b[..n]).ok().filter(|v| v.store_id == self.birth.store_id)
    }

    /// Whether every put must be on the device before it returns.
    pub(crate) fn is_sync(&self) -> bool {
        self.options.durability == Durability::Sync
    }
}

impl Shared {
    /// The end of the log as this handle knows it, and the next sequence there.
    pub(crate) fn log_end(&self) -> (Tail, u64) {
        match (&self.writer, &self.follower) {
            (Some(writer), _) => {
                let log = lock(&writer.log);
                (log.appender.tail(), log.next_sequence)
            }
            (None, Some(follower)) => follower.position(),
            (None, None) => (Tail { ordinal: u64::MAX, offset: u64::MAX }, u64::MAX),
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
