//! Failpoints: bugs that the simulation must catch. Compiled out without feature `sim`.

/// A bug that is planted in a store on request.
///
/// ```
/// use filemap_cloud::{CloudOptions, Fault};
/// let options = CloudOptions::new().fault(Fault::TombstonesForgotten);
/// # let _ = options;
/// // Some have their own tests.
/// assert!(!Fault::ALL.contains(&Fault::ClockAhead));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// `sync` returns before the rows are in the index.
    AcknowledgedBeforeCommit,
    /// The rows are in the index before the segment is uploaded.
    CommittedBeforeUpload,
    /// A removal deletes rows from the index but writes no tombstone.
    TombstonesForgotten,
    /// A repair counts uncommitted uploads of fenced writers.
    OrphansTaken,
    /// A collection deletes segments that its own writer is about to commit.
    OwnCollected,
    /// A compaction moves rows that were removed while it copied.
    MovedUnchecked,
    /// A compaction deletes segments before the rows that name them are changed.
    DeletedBeforeMoved,
    /// A compaction drops tombstones whose versions are still in other segments.
    TombstonesDropped,
    /// A rewritten segment does not name the segments it replaces.
    SourcesUnnamed,
    /// A compaction deletes segments that a checkpoint needs.
    CheckpointsIgnored,
    /// A checkpoint is stored after its view of the index was opened.
    CheckpointLate,
    /// A dictionary is stored after records that name it.
    DictionaryLate,
    /// A collection deletes dictionaries that segments name.
    DictionariesCollected,
    /// Kept files are committed before the pages they belong to.
    KeptBeforePages,
    /// The index collects the fences of its write-ahead log.
    FencesCollected,
    /// The task that commits panics.
    CommitPanics,
    /// Not a bug in the code: this machine's clock is three hours ahead.
    ClockAhead,
}

impl Fault {
    /// The faults that the simulation catches. The others have their own tests.
    #[cfg(feature = "sim")]
    pub const ALL: [Fault; 9] = [
        Fault::AcknowledgedBeforeCommit,
        Fault::CommittedBeforeUpload,
        Fault::TombstonesForgotten,
        Fault::OrphansTaken,
        Fault::OwnCollected,
        Fault::MovedUnchecked,
        Fault::DeletedBeforeMoved,
        Fault::TombstonesDropped,
        Fault::SourcesUnnamed,
    ];

    /// Returns whether this fault is the planted one.
    pub(crate) fn is_planted(self, planted: Option<Fault>) -> bool {
        cfg!(feature = "sim") && planted == Some(self)
    }
}
