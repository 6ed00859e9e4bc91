//! What checkpoints and compactions keep between two runs, behind their locks.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::format::superblock::Superblock;
use crate::handle::retention::{Dropped, Retention};
use crate::index::address::IndexWriter;
use crate::index::segment_table::SegmentTable;
use crate::logs::keys::KeyAppender;
use crate::logs::segments::Segment;
use crate::sync::{Ranked, rank};

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

/// What compaction leaves behind while something is being erased.
pub(crate) struct Cleaning {
    /// Records that name these dictionaries are compressed anew.
    pub(crate) retired: BTreeSet<u32>,
    /// Removals of such keys go if their sequence is below this: nothing that they hide is left.
    pub(crate) removals: Option<(KeyFilter, u64)>,
    /// Those of the retired that records still name, which cannot be expanded and move as they are.
    pub(crate) needed: Ranked<{ rank::NEEDED }, BTreeSet<u32>>,
}

impl Cleaning {
    /// Whether a removal is to go.
    pub(crate) fn drops(&self, key: &[u8], sequence: u64) -> bool {
        self.removals.as_ref().is_some_and(|(is_meant, below)| sequence < *below && is_meant(key))
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
