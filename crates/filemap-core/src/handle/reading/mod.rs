//! The read state of a handle: memtables, index, key log, value log, and their superblock.
//!
//! Invariants:
//! - A get takes no lock that a put, a checkpoint or a compaction holds. Lists and statistics take
//!   the append lock once, to read the log's end.
//! - A version moves from active memtable to frozen memtable to index, and is entered in the next
//!   before it leaves the last. Reads search in that order.

mod count;
pub(crate) mod follow;
mod get;
mod in_memory;
mod lost;
mod order;
mod packing;
mod sample;
mod space;
mod stats;

use std::ops::Deref;
use std::sync::Arc;

use filemap_io::Dir;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::failpoint::{Fault, planted};
use crate::format::superblock::{Superblock, Tail};
use crate::handle::log::Log;
use crate::handle::recover::Absent;
use crate::index::address::Index;
use crate::index::key_runs::KeyRunFiles;
use crate::index::memtable::{Grouping, Memtable};
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::KeyLog;
use crate::logs::values::ValueLog;
use crate::options::Options;
use crate::stats::Counters;
use crate::sync::primitive::{ArcSwap, AtomicBool, AtomicI64, Ordering};
use crate::sync::{Ranked, lock, rank};

use count::LastCount;
use follow::Follower;
pub(crate) use get::Loaded;
use in_memory::InMemory;
pub use order::KeyRange;
pub(crate) use order::Walk;
pub(crate) use packing::Recompressed;
pub use sample::RecompressionEstimate;

/// The memtables, which reads search before the index, newest first.
#[derive(Debug)]
pub(crate) struct Tables {
    /// The table that takes new entries.
    pub(crate) active: Arc<Memtable>,
    /// The table that a checkpoint is merging into the index.
    pub(crate) frozen: Option<Arc<Memtable>>,
}

/// Source of the log's end.
pub(crate) enum End {
    /// This handle appends to the log.
    Writer(Arc<Ranked<{ rank::APPEND }, Log>>),
    /// Another process appends, and this handle follows.
    Follower(Follower),
}

/// Opened parts of a store.
pub(crate) struct Opened {
    pub(crate) dir: Arc<dyn Dir>,
    pub(crate) options: Options,
    /// Their superblock.
    pub(crate) current: Superblock,
    pub(crate) values: Arc<ValueLog>,
    pub(crate) keys: Arc<KeyLog>,
    pub(crate) index: Arc<Index>,
    pub(crate) superblock: SuperblockFile,
    pub(crate) segment_table: SegmentTable,
    /// Versions after that superblock.
    pub(crate) active: Arc<Memtable>,
    pub(crate) absent: Vec<Absent>,
    pub(crate) end: End,
}

/// Shared read state of a handle.
pub(crate) struct Reading {
    dir: Arc<dyn Dir>,
    options: Options,
    /// The superblock at opening: source of everything fixed at creation.
    birth: Superblock,
    values: Arc<ValueLog>,
    keys: Arc<KeyLog>,
    index: Arc<Index>,
    key_runs: KeyRunFiles,
    superblock: SuperblockFile,
    /// The last superblock written or read.
    latest: ArcSwap<Superblock>,
    tables: ArcSwap<Tables>,
    /// The segment table of `latest`.
    segment_table: ArcSwap<SegmentTable>,
    /// Upper bound on the times of versions in the index.
    indexed_time_ms: AtomicI64,
    /// A running checkpoint may drop versions older than this even if they are their keys' newest:
    /// no new reference may name one. `i64::MIN` for none.
    expiring_ms: AtomicI64,
    counters: Counters,
    last_count: Ranked<{ rank::LAST_COUNT }, LastCount>,
    in_memory: Ranked<{ rank::IN_MEMORY }, InMemory>,
    end: End,
    /// Files of the store known to be missing.
    absent: ArcSwap<Vec<Absent>>,
    closed: AtomicBool,
}

impl Reading {
    pub(crate) fn new(opened: Opened) -> Reading {
        let tables = Tables { active: opened.active, frozen: None };
        let key_runs = KeyRunFiles::new(Arc::clone(&opened.dir), opened.current.store_id);
        Reading {
            dir: opened.dir,
            options: opened.options,
            values: opened.values,
            keys: opened.keys,
            index: opened.index,
            key_runs,
            superblock: opened.superblock,
            latest: ArcSwap::from_pointee(opened.current.clone()),
            tables: ArcSwap::from_pointee(tables),
            segment_table: ArcSwap::from_pointee(opened.segment_table),
            indexed_time_ms: AtomicI64::new(opened.current.max_time_ms),
            expiring_ms: AtomicI64::new(i64::MIN),
            counters: Counters::default(),
            last_count: Ranked::default(),
            in_memory: Ranked::default(),
            end: opened.end,
            absent: ArcSwap::from_pointee(opened.absent),
            closed: AtomicBool::new(false),
            birth: opened.current,
        }
    }

    pub(crate) fn dir(&self) -> &dyn Dir {
        &*self.dir
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The superblock at opening, for everything fixed at creation.
    pub(crate) fn birth(&self) -> &Superblock {
        &self.birth
    }

    pub(crate) fn values(&self) -> &Arc<ValueLog> {
        &self.values
    }

    pub(crate) fn keys(&self) -> &KeyLog {
        &self.keys
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// The files of the ordered runs.
    pub(crate) fn key_runs(&self) -> &KeyRunFiles {
        &self.key_runs
    }

    pub(crate) fn superblock(&self) -> &SuperblockFile {
        &self.superblock
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The last superblock written or read.
    pub(crate) fn latest(&self) -> impl Deref<Target = Arc<Superblock>> {
        self.latest.load()
    }

    /// The segment table of [`Reading::latest`].
    pub(crate) fn segment_table(&self) -> impl Deref<Target = Arc<SegmentTable>> {
        self.segment_table.load()
    }

    pub(crate) fn tables(&self) -> impl Deref<Target = Arc<Tables>> {
        self.tables.load()
    }

    /// Returns whether a version of a key with this sequence or a later one is in memory.
    pub(crate) fn has_in_memory_since(&self, key: &[u8], hash: u64, sequence: u64) -> bool {
        let tables = self.tables.load();
        [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten().any(|table| {
            table
                .find(hash, key)
                .is_some_and(|found| table.versions(&found).iter().any(|entry| entry.version.sequence >= sequence))
        })
    }

    /// Files of the store known to be missing.
    pub(crate) fn absent(&self) -> impl Deref<Target = Arc<Vec<Absent>>> {
        self.absent.load()
    }

    pub(crate) fn closed(&self) -> &AtomicBool {
        &self.closed
    }

    /// # Errors
    /// `Closed` after `close`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns true for a writer, false for a follower.
    pub(crate) fn is_writer(&self) -> bool {
        matches!(self.end, End::Writer(_))
    }

    fn follower(&self) -> Option<&Follower> {
        match &self.end {
            End::Writer(_) => None,
            End::Follower(follower) => Some(follower),
        }
    }

    /// End of the log as this handle knows it, and the next sequence.
    pub(crate) fn log_end(&self) -> (Tail, u64) {
        match &self.end {
            End::Writer(log) => lock(log).end(),
            End::Follower(follower) => follower.position(),
        }
    }

    /// The durable part of [`Reading::log_end`]. A follower follows the writer for it, and syncs
    /// what it has found beyond the last superblock.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(crate) fn durable_end(&self) -> Result<(Tail, u64)> {
        match &self.end {
            End::Writer(log) if planted(Fault::UnsyncedToldOf) => Ok(lock(log).end()),
            End::Writer(log) => Ok(lock(log).durable),
            End::Follower(_) => self.durable_position(),
        }
    }

    /// Freezes the active memtable, replaces it by a fresh one, and returns the frozen one. The
    /// caller holds the append lock.
    ///
    /// # Panics
    /// If there is a frozen one: an unfinished checkpoint has poisoned the handle.
    pub(crate) fn freeze(&self, fresh: Arc<Memtable>) -> Arc<Memtable> {
        let tables = self.tables.load();
        assert!(tables.frozen.is_none(), "a checkpoint that did not finish has poisoned the handle");
        let frozen = Arc::clone(&tables.active);
        self.tables.store(Arc::new(Tables { active: fresh, frozen: Some(Arc::clone(&frozen)) }));
        frozen
    }

    /// Drops the frozen memtable, which is merged into the index.
    pub(crate) fn merged(&self) {
        let active = Arc::clone(&self.tables.load().active);
        self.tables.store(Arc::new(Tables { active, frozen: None }));
    }

    /// Publishes a durable superblock and its segment table.
    pub(crate) fn publish(&self, superblock: &Superblock, segment_table: &SegmentTable) {
        self.latest.store(Arc::new(superblock.clone()));
        self.publish_table(segment_table);
    }

    /// Publishes a segment table after segments without live records were removed.
    pub(crate) fn publish_table(&self, segment_table: &SegmentTable) {
        self.segment_table.store(Arc::new(segment_table.clone()));
    }

    /// Upper bound on the times of versions in the index.
    pub(crate) fn indexed_time_ms(&self) -> i64 {
        self.indexed_time_ms.load(Ordering::Acquire)
    }

    /// Announces that versions of up to this time will be indexed.
    pub(crate) fn will_index(&self, time_ms: i64) {
        self.indexed_time_ms.fetch_max(time_ms, Ordering::AcqRel);
    }

    /// Versions older than this may be dropped right now, even if they are their keys' newest.
    pub(crate) fn expiring_ms(&self) -> i64 {
        self.expiring_ms.load(Ordering::Acquire)
    }

    /// Allows versions older than this to be dropped; `i64::MIN` for none.
    pub(crate) fn expire_before(&self, time_ms: i64) {
        self.expiring_ms.store(time_ms, Ordering::Release);
    }

    pub(crate) fn names(&self) -> Result<Vec<String>> {
        self.dir.list().map_err(Error::io("list", self.dir.path().display()))
    }

    /// Errors for missing files, reported at the end of a list. Dictionaries are left out: their
    /// records are in the list, and reading them fails.
    pub(crate) fn missed(&self) -> Vec<Error> {
        self.absent.load().iter().filter(|a| a.is_missed() && a.held_records()).map(Absent::error).collect()
    }

    /// Hash of a key: XXH3-64 under the store's seed, so that nobody can choose URLs that collide.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.birth.hash_seed)
    }

    /// The groups that a fresh memtable links; of a writer `None` if the store keeps no order.
    pub(crate) fn grouping(&self) -> Option<Grouping> {
        let grouping = Grouping::of(&self.options, self.birth.hash_seed);
        grouping.filter(|_| !self.is_writer() || self.has_order())
    }

    pub(crate) fn emit(&self, event: &Event) {
        if let Some(sink) = &self.options.on_event {
            (sink.0)(event);
        }
    }

    /// Failpoint of a checkpoint, for the model checker to find.
    #[cfg(all(test, filemap_shuttle))]
    pub(crate) fn replace_tables(&self, tables: Arc<Tables>) {
        self.tables.store(tables);
    }
}
