//! Bloom filter over the index leaves, in memory only: one block of 192 bytes per directory entry,
//! or of 128 or 64 if longer ones exceed the memory bound.
//!
//! An entry serves 90 to 250 keys, so a block of 192 bytes has 6 to 17 bits a key; 0.5 to 9% of
//! lookups of absent keys still read the leaf.
//!
//! The words of an entry are replaced when its leaf is written, and filled when the leaf is first
//! checked. So a deleted slot loses its bits; a reader that checks the old leaf late may bring
//! them back until the leaf is written again. A lookup between the new words and the entry that
//! names the new leaf may miss a deleted slot a moment early. A slot in both leaves is in the old
//! words and in the new ones.

use filemap_io::{LargeWords, Word};

use crate::format::bloom;
use crate::format::leaf::MAX_DEPTH;
use crate::sync::primitive::Ordering;

/// Words of a block, in order of preference.
const BLOCKS: [usize; 3] = if cfg!(filemap_loom) { [1; 3] } else { [24, 16, 8] };

/// The filter.
#[derive(Debug)]
pub(super) struct Filter {
    words: LargeWords,
    /// Words per directory entry.
    block: usize,
}

impl Filter {
    /// An empty filter for a directory of `entries`. `None` if even short blocks need more than
    /// `bytes_max`, or if the memory is not available.
    pub(super) fn new(entries: usize, bytes_max: u64) -> Option<Filter> {
        let block = BLOCKS.into_iter().find(|block| (entries * block * 8) as u64 <= bytes_max)?;
        LargeWords::zeroed(entries * block).ok().map(|words| Filter { words, block })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Adds hash bits (see [`bits`]) to their entries.
    pub(super) fn add(&self, all: impl Iterator<Item = (usize, u64)>) {
        self.each_word(all, |word, mask| {
            word.fetch_or(mask, Ordering::Relaxed);
        });
    }

    /// Replaces the hash bits of each entry that occurs in `all`, where bits of one entry must be
    /// adjacent. Other entries stay as they are. One thread at a time.
    pub(super) fn set(&self, all: impl Iterator<Item = (usize, u64)>) {
        self.each_word(all, |word, mask| word.store(mask, Ordering::Relaxed));
    }

    /// Calls `put` once for each word of each entry in `all`: an atomic update per hash would
    /// dominate the cost.
    fn each_word(&self, all: impl Iterator<Item = (usize, u64)>, put: impl Fn(&Word, u64)) {
        let put_all = |entry: usize, masks: &[u64]| {
            self.words[entry * self.block..].iter().zip(masks).for_each(|(word, mask)| put(word, *mask));
        };
        let (mut at, mut masks) = (None, [0; BLOCKS[0]]);
        let masks = &mut masks[..self.block];
        for (entry, bits) in all {
            if let Some(at) = at.replace(entry).filter(|at| *at != entry) {
                put_all(at, masks);
                masks.fill(0);
            }
            let (word, mask) = bloom::place(bits, self.block);
            masks[word] |= mask;
        }
        if let Some(at) = at {
            put_all(at, masks);
        }
    }

    /// Returns false if the hash is certainly absent.
    pub(super) fn may_have(&self, entry: usize, bits: u64) -> bool {
        let (word, mask) = bloom::place(bits, self.block);
        self.words[entry * self.block + word].load(Ordering::Relaxed) & mask == mask
    }
}

/// The bits of a hash that directory and slots keep between them.
pub(super) fn bits(hash: u64) -> u64 {
    hash >> (64 - MAX_DEPTH)
}
