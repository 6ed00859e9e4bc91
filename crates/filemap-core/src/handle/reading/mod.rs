//! What a read needs: the memtables, the index, the key log, the value log, and as of which superblock they are.
//!
//! Invariants: a read takes no lock that a put, a checkpoint or a compaction holds; a version is entered in the later of active
//! memtable, frozen memtable and index before it leaves the earlier, and reads look in that order.

pub(crate) mod follow;
mod get;
mod lost;
mod packing;
mod sample;
mod space;
mod stats;

use std::ops::Deref;
use std::sync::Arc;

use filemap_io::Dir;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::superblock::{Superblock, Tail};
use crate::handle::log::Log;
use crate::handle::recover::Absent;
use crate::index::address::Index;
use crate::index::memtable::Memtable;
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::KeyLog;
use crate::logs::values::ValueLog;
use crate::options::Options;
use crate::stats::Counters;
use crate::sync::primitive::{ArcSwap, AtomicBool, AtomicI64, Ordering};
use crate::sync::{Ranked, lock, rank};

use follow::Follower;
pub(crate) use packing::Recompressed;
pub use sample::RecompressionEstimate;

/// The tables that a read looks into before the index, newest first.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Takes new entries.
    pub(crate) active: Arc<Memtable>,
    /// Being merged by a checkpoint.
    pub(crate) frozen: Option<Arc<Memtable>>,
}

/// Who knows where the log ends.
pub(crate) enum End {
    /// This handle appends to it.
    Writer(Arc<Ranked<{ rank::APPEND }, Log>>),
    /// Another process does, and this handle follows.
    Follower(Follower),
}

/// The opened parts of a store.
pub(crate) struct Opened {
    pub(crate) dir: Arc<dyn Dir>,
    pub(crate) options: Options,
    /// The superblock as of which they were opened.
    pub(crate) current: Superblock,
    pub(crate) values: Arc<ValueLog>,
    pub(crate) keys: Arc<KeyLog>,
    pub(crate) index: Arc<Index>,
    pub(crate) superblock: SuperblockFile,
    pub(crate) segment_table: SegmentTable,
    /// Versions since that superblock.
    pub(crate) active: Arc<Memtable>,
    pub(crate) absent: Vec<Absent>,
    pub(crate) end: End,
}

/// See the module.
pub(crate) struct Reading {
    dir: Arc<dyn Dir>,
    options: Options,
    /// The superblock as of which the handle was opened. What is fixed when a store is created is read from it.
    birth: Superblock,
    values: Arc<ValueLog>,
    keys: Arc<KeyLog>,
    index: Arc<Index>,
    superblock: SuperblockFile,
    /// The last superblock that was written or read.
    latest: ArcSwap<Superblock>,
    tables: ArcSwap<Tables>,
    /// The segment table of that superblock.
    segment_table: ArcSwap<SegmentTable>,
    /// No version in the index has a greater time than this.
    indexed_time_ms: AtomicI64,
    /// While a checkpoint runs, versions with lower times may go though they are their keys' newest: nothing may be made to
    /// refer to one. `i64::MIN` when none can.
    expiring_ms: AtomicI64,
    counters: Counters,
    end: End,
    /// Files of the store that are known to be gone.
    absent: ArcSwap<Vec<Absent>>,
    closed: AtomicBool,
}

impl Reading {
    pub(crate) fn new(opened: Opened) -> Reading {
        let tables = Tables { active: opened.active, frozen: None };
        Reading {
            dir: opened.dir,
            options: opened.options,
            values: opened.values,
            keys: opened.keys,
            index: opened.index,
            superblock: opened.superblock,
            latest: ArcSwap::from_pointee(opened.current.clone()),
            tables: ArcSwap::from_pointee(tables),
            segment_table: ArcSwap::from_pointee(opened.segment_table),
            indexed_time_ms: AtomicI64::new(opened.current.max_time_ms),
            expiring_ms: AtomicI64::new(i64::MIN),
            counters: Counters::default(),
            end: opened.end,
            absent: ArcSwap::from_pointee(opened.absent),
            closed: AtomicBool::new(false),
            birth: opened.current,
        }
    }

    /// The store's directory.
    pub(crate) fn dir(&self) -> &dyn Dir {
        &*self.dir
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The superblock as of which the handle was opened: for what is fixed when a store is created.
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

    pub(crate) fn superblock(&self) -> &SuperblockFile {
        &self.superblock
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The last superblock that was written or read.
    pub(crate) fn latest(&self) -> impl Deref<Target = Arc<Superblock>> {
        self.latest.load()
    }

    /// The segment table of the last superblock.
    pub(crate) fn segment_table(&self) -> impl Deref<Target = Arc<SegmentTable>> {
        self.segment_table.load()
    }

    /// The memtables.
    pub(crate) fn tables(&self) -> impl Deref<Target = Arc<Tables>> {
        self.tables.load()
    }

    /// Files of the store that are known to be gone.
    pub(crate) fn absent(&self) -> impl Deref<Target = Arc<Vec<Absent>>> {
        self.absent.load()
    }

    /// Set when the handle is closed.
    pub(crate) fn closed(&self) -> &AtomicBool {
        &self.closed
    }

    /// # Errors
    /// `Closed` after `close`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Whether this handle writes, and does not follow another process.
    pub(crate) fn is_writer(&self) -> bool {
        matches!(self.end, End::Writer(_))
    }

    fn follower(&self) -> Option<&Follower> {
        match &self.end {
            End::Writer(_) => None,
            End::Follower(follower) => Some(follower),
        }
    }

    /// The end of the log as this handle knows it, and the next sequence there.
    pub(crate) fn log_end(&self) -> (Tail, u64) {
        match &self.end {
            End::Writer(log) => {
                let log = lock(log);
                (log.appender.tail(), log.next_sequence)
            }
            End::Follower(follower) => follower.position(),
        }
    }

    /// Puts a fresh memtable in place of the active one, which is frozen and returned. The caller holds the append lock.
    ///
    /// # Panics
    /// When there is a frozen one: a checkpoint that did not finish has poisoned the handle.
    pub(crate) fn freeze(&self, fresh: Arc<Memtable>) -> Arc<Memtable> {
        let tables = self.tables.load();
        assert!(tables.frozen.is_none(), "a checkpoint that did not finish has poisoned the handle");
        let frozen = Arc::clone(&tables.active);
        self.tables.store(Arc::new(Tables { active: fresh, frozen: Some(Arc::clone(&frozen)) }));
        frozen
    }

    /// Lets go of the frozen memtable, which is merged into the index.
    pub(crate) fn merged(&self) {
        let active = Arc::clone(&self.tables.load().active);
        self.tables.store(Arc::new(Tables { active, frozen: None }));
    }

    /// A superblock and its segment table are durable.
    pub(crate) fn publish(&self, superblock: &Superblock, segment_table: &SegmentTable) {
        self.latest.store(Arc::new(superblock.clone()));
        self.publish_table(segment_table);
    }

    /// Segments have gone in which nothing lived as of the last superblock.
    pub(crate) fn publish_table(&self, segment_table: &SegmentTable) {
        self.segment_table.store(Arc::new(segment_table.clone()));
    }

    /// No version in the index has a greater time than this.
    pub(crate) fn indexed_time_ms(&self) -> i64 {
        self.indexed_time_ms.load(Ordering::Acquire)
    }

    /// From now on the index may hold versions as late as this.
    pub(crate) fn will_index(&self, time_ms: i64) {
        self.indexed_time_ms.fetch_max(time_ms, Ordering::AcqRel);
    }

    /// Versions with lower times may be dropped just now, though they are their keys' newest.
    pub(crate) fn expiring_ms(&self) -> i64 {
        self.expiring_ms.load(Ordering::Acquire)
    }

    /// Versions with lower times may be dropped from now on; `i64::MIN` for none.
    pub(crate) fn expire_before(&self, time_ms: i64) {
        self.expiring_ms.store(time_ms, Ordering::Release);
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

    /// A mistake of a checkpoint, for the model checker to find.
    #[cfg(all(test, filemap_shuttle))]
    pub(crate) fn replace_tables(&self, tables: Arc<Tables>) {
        self.tables.store(tables);
    }
}
