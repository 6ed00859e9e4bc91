//! A leaf as the index writer reads it, and the writer's record of leaves that have lost slots.

use crate::format::leaf::{CAPACITY, MIN_DEPTH, Slot};

/// A leaf as the index writer reads it.
pub(crate) struct OldLeaf {
    pub(crate) prefix: u64,
    pub(crate) depth: u8,
    pub(crate) slots: Vec<Slot>,
    pub(super) page: u32,
}

impl OldLeaf {
    /// Returns true if the hash belongs to this leaf.
    pub(crate) fn covers(&self, hash: u64) -> bool {
        hash >> (64 - self.depth) == self.prefix
    }
}

/// Two leaves are merged if together they fill at most this much of a page, so the next puts do
/// not split it again.
pub(super) const MERGED_PERCENT: usize = 60;

/// The writer's notes for shrinking the index.
#[derive(Debug, Default)]
pub(super) struct Shrinking {
    /// First hashes of leaves that have lost slots and may be merged, ascending.
    pub(super) smaller: Vec<u64>,
    /// True if a leaf as deep as the directory was merged.
    pub(super) may_halve: bool,
    /// True while a sweep moves leaves.
    pub(super) is_sweeping: bool,
    /// Set when a sweep is over: free pages from this one on can be punched out.
    pub(super) swept: Option<u32>,
    /// True if the file system does not support holes.
    pub(super) is_refused: bool,
}

impl Shrinking {
    /// Notes that a leaf now has this many `slots`.
    pub(super) fn note(&mut self, leaf: &OldLeaf, slots: usize) {
        if slots <= CAPACITY * MERGED_PERCENT / 100 && leaf.depth > MIN_DEPTH {
            self.smaller.push(leaf.first_hash());
        }
    }
}

impl OldLeaf {
    /// The least hash of the leaf.
    pub(super) fn first_hash(&self) -> u64 {
        self.prefix << (64 - self.depth)
    }

    /// The greatest hash of the leaf.
    pub(super) fn last_hash(&self) -> u64 {
        self.first_hash() | u64::MAX >> self.depth
    }
}
