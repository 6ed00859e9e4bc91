//! A leaf as the writer of the index sees it, and what it remembers of leaves that have lost slots.

use crate::format::leaf::{CAPACITY, MIN_DEPTH, Slot};

/// A leaf as the writer sees it.
pub(crate) struct OldLeaf {
    pub(crate) prefix: u64,
    pub(crate) depth: u8,
    pub(crate) slots: Vec<Slot>,
    pub(super) page: u32,
}

impl OldLeaf {
    /// Whether a hash belongs to this leaf.
    pub(crate) fn covers(&self, hash: u64) -> bool {
        hash >> (64 - self.depth) == self.prefix
    }
}

/// Two leaves are merged when together they fill so much of a page: few enough that the next puts do not split it again.
pub(super) const MERGED_PERCENT: usize = 60;

/// What the writer remembers of shrinking.
#[derive(Debug, Default)]
pub(super) struct Shrinking {
    /// First hashes of leaves that have lost slots and may be merged, in rising order.
    pub(super) smaller: Vec<u64>,
    /// A leaf as deep as the directory was merged.
    pub(super) may_halve: bool,
    /// Leaves are being moved.
    pub(super) is_sweeping: bool,
    /// No more leaves are moved: what is free from this page on can be punched out.
    pub(super) swept: Option<u32>,
    /// The file system has no holes.
    pub(super) is_refused: bool,
}

impl Shrinking {
    /// A leaf has so many slots now.
    pub(super) fn note(&mut self, leaf: &OldLeaf, slots: usize) {
        if slots <= CAPACITY * MERGED_PERCENT / 100 && leaf.depth > MIN_DEPTH {
            self.smaller.push(leaf.first_hash());
        }
    }
}

impl OldLeaf {
    /// The least hash that it serves.
    pub(super) fn first_hash(&self) -> u64 {
        self.prefix << (64 - self.depth)
    }

    /// The greatest.
    pub(super) fn last_hash(&self) -> u64 {
        self.first_hash() | u64::MAX >> self.depth
    }
}
