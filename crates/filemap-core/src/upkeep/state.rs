//! State that checkpoints and compactions keep between runs, behind their locks.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use filemap_runs::ordered::Info;

use crate::format::key_runs::Behind;
use crate::format::superblock::Superblock;
use crate::handle::retention::{Dropped, KeyFilter, Retention};
use crate::index::address::IndexWriter;
use crate::index::segment_table::SegmentTable;
use crate::logs::keys::KeyAppender;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::options::KeyOrder;
use crate::sync::{Ranked, rank};
use crate::upkeep::gathered::Gathered;

/// State of checkpoints, behind the checkpoint lock.
pub(crate) struct Checkpointer {
    pub(crate) index: IndexWriter,
    pub(crate) keys: KeyAppender,
    /// Matches the current index, which is ahead of the last superblock during a checkpoint.
    pub(crate) segment_table: SegmentTable,
    /// The last durable superblock; a running checkpoint prepares the next one here.
    pub(crate) current: Superblock,
    /// Number of backups that hold a superblock: nothing that it names is removed or overwritten.
    pub(crate) holds: u32,
    /// Retention of the running checkpoint, and what it has dropped.
    pub(crate) retention: Retention,
    pub(crate) dropped: Dropped,
    /// The dropped versions that a superblock has announced to followers.
    pub(crate) told_versions: u64,
    /// True if the running checkpoint left part of its task undone because the handle is being
    /// closed.
    pub(crate) is_cut: bool,
    /// Entries with a lower sequence were replayed: an interrupted checkpoint may have entered
    /// them before.
    pub(crate) replayed_below: u64,
    /// Gathered changes of keys in order, if the store has an order.
    pub(crate) gathered: Option<Gathered>,
    /// The runs may lack keys of the replayed table: see [`Gathered`].
    pub(crate) settles_order: bool,
    /// The table of the running checkpoint.
    pub(crate) behind: Option<Behind>,
    /// Runs were written whose names are not durable yet.
    pub(crate) has_new_runs: bool,
    /// Runs being joined.
    pub(crate) joined: Vec<Info>,
    /// Numbers of damaged runs, which are no longer merged or joined.
    pub(crate) damaged_runs: BTreeSet<u64>,
    /// Numbers of runs that the next superblock does not name.
    pub(crate) left_runs: Vec<u64>,
    /// Backups may hold runs with lower numbers; 0 without any.
    pub(crate) held_runs_below: u64,
}

impl Checkpointer {
    /// State as of the superblock `current`. Entries with a sequence below `replayed_below` were
    /// replayed.
    pub(crate) fn new(
        index: IndexWriter,
        keys: KeyAppender,
        segment_table: SegmentTable,
        current: Superblock,
        replayed_below: u64,
        order: Option<KeyOrder>,
    ) -> Checkpointer {
        let named = segment_table.order.as_ref();
        let gathered = order.filter(|_| named.is_some()).map(Gathered::new);
        let settles_order = named.is_some_and(|named| named.behind.is_some());
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
            gathered,
            settles_order,
            behind: None,
            has_new_runs: false,
            joined: Vec::new(),
            damaged_runs: BTreeSet::new(),
            left_runs: Vec::new(),
            held_runs_below: 0,
        }
    }
}

/// Records that compaction drops or rewrites during an erasure.
pub(crate) struct Cleaning {
    /// Records that name these dictionaries are recompressed.
    pub(crate) retired: BTreeSet<u32>,
    /// Filter of erased keys: their tombstones below this sequence are dropped, since none of the
    /// versions that they hide is left.
    pub(crate) tombstones: Option<(KeyFilter, u64)>,
    /// Retired dictionaries still needed by records that cannot be decompressed and so move
    /// unchanged.
    pub(crate) needed: Ranked<{ rank::NEEDED }, BTreeSet<u32>>,
}

impl Cleaning {
    /// Returns true if a tombstone must be dropped.
    pub(crate) fn drops(&self, key: &[u8], sequence: u64) -> bool {
        self.tombstones.as_ref().is_some_and(|(is_meant, below)| sequence < *below && is_meant(key))
    }
}

/// Position at which the next run continues in a segment.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) offset: u64,
    /// Damage kept something before that position from being copied.
    pub(crate) met_damage: bool,
    /// The segment is being processed for the second time: a concurrent put may have kept it from
    /// being emptied.
    pub(crate) is_second: bool,
}

impl Default for Cut {
    fn default() -> Cut {
        Cut { offset: FIRST_RECORD, met_damage: false, is_second: false }
    }
}

/// Knowledge of compactions about segments. Changed only by the compaction that has the turn.
#[derive(Clone, Default)]
pub(crate) struct Compactor {
    /// Ordinals of segments that could not be emptied; true if because of damage, false if a
    /// concurrent put needs a record in one.
    pub(crate) stuck: HashMap<u64, bool>,
    /// Segments that a run left in the middle, by ordinal.
    pub(crate) cut: HashMap<u64, Cut>,
    /// Segments emptied while a backup needed their files.
    pub(crate) emptied: Vec<Arc<Segment>>,
    /// The erasure in progress, if any.
    pub(crate) cleaning: Option<Arc<Cleaning>>,
}
