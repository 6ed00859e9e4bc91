//! Mistakes that the simulation must catch. Compiled out without feature `sim`.

/// A mistake that a store makes on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mistake {
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
}

impl Mistake {
    /// All of them.
    #[cfg(feature = "sim")]
    pub const ALL: [Mistake; 5] = [
        Mistake::AcknowledgedBeforeCommit,
        Mistake::CommittedBeforeUpload,
        Mistake::TombstonesForgotten,
        Mistake::OrphansTaken,
        Mistake::OwnCollected,
    ];

    /// Whether it is the one that is planted.
    pub(crate) fn is_planted(self, planted: Option<Mistake>) -> bool {
        cfg!(feature = "sim") && planted == Some(self)
    }
}
