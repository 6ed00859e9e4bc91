//! Failpoints: faults that the simulation must catch. Compiled out without feature `sim`.

/// A fault that is planted in a store on demand.
///
/// ```
/// use filemap_cloud::{CloudOptions, Fault};
/// let options = CloudOptions::new().fault(Fault::TombstonesForgotten);
/// # let _ = options;
/// // Some have tests of their own.
/// assert!(!Fault::ALL.contains(&Fault::ClockAhead));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// `sync` returns before the rows are in the index.
    AcknowledgedBeforeCommit,
    /// The rows are in the index before the segment is uploaded.
    CommittedBeforeUpload,
    /// A removal takes rows from the index and writes no tombstone.
    TombstonesForgotten,
    /// A repair takes what fenced writers uploaded and did not commit.
    OrphansTaken,
    /// A collection takes what its own writer is about to commit.
    OwnCollected,
    /// A compaction moves rows that were removed while it copied.
    MovedUnchecked,
    /// A compaction deletes segments before the rows that name them are changed.
    DeletedBeforeMoved,
    /// A compaction drops tombstones whose versions are still in other segments.
    TombstonesDropped,
    /// A rewritten segment does not name those whose place it takes.
    SourcesUnnamed,
    /// Files count before the pages that they are of.
    KeptBeforePages,
    /// The index collects the fences of its write-ahead log.
    FencesCollected,
    /// The task of the commits panics.
    CommitPanics,
    /// No fault of the code: the clock of this machine is three hours ahead.
    ClockAhead,
}

impl Fault {
    /// Those that the simulation catches. Those left out have tests of their own.
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

    /// Whether it is the one that is planted.
    pub(crate) fn is_planted(self, planted: Option<Fault>) -> bool {
        cfg!(feature = "sim") && planted == Some(self)
    }
}
