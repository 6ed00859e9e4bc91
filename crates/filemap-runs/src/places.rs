//! Where the parts of a run lie in its file: the header, groups of blocks with their filters
//! behind them, the index.

use crate::format::{BLOCK_BYTES, CHUNK_BLOCKS};

/// Offsets of the parts of a run in its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Blocks so far.
    pub(crate) blocks: u64,
    /// Bytes of a filter; 0 if the run has no filters.
    pub(crate) filter_bytes: u64,
}

impl Places {
    /// Offset of a block.
    pub(crate) fn block(self, number: u64) -> u64 {
        let filters = number / CHUNK_BLOCKS as u64 * CHUNK_BLOCKS as u64;
        (1 + number) * BLOCK_BYTES as u64 + filters * self.filter_bytes
    }

    /// Offset of a block's filter.
    pub(crate) fn filter(self, number: u64) -> u64 {
        let first = number / CHUNK_BLOCKS as u64 * CHUNK_BLOCKS as u64;
        let end = (first + CHUNK_BLOCKS as u64).min(self.blocks);
        self.block(first) + (end - first) * BLOCK_BYTES as u64 + (number - first) * self.filter_bytes
    }

    /// Offset of the index.
    pub(crate) fn index(self) -> u64 {
        (1 + self.blocks) * BLOCK_BYTES as u64 + self.blocks * self.filter_bytes
    }

    /// Length of the file, in bytes.
    pub(crate) fn len(self) -> u64 {
        self.index() + 8 * self.blocks
    }
}

/// End of a block's group, after which the group's filters lie.
pub(crate) fn group_end(block: u64) -> u64 {
    (block / CHUNK_BLOCKS as u64 + 1) * CHUNK_BLOCKS as u64
}
