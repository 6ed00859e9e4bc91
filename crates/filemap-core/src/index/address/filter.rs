//! Bloom filter over the index leaves, in memory only: one 192-byte block per directory entry.
//!
//! An entry serves 90 to 250 keys, so 6 to 17 bits a key; 0.5 to 9% of lookups of absent keys still
//! read the leaf.
//!
//! The words of an entry are replaced when its leaf is written, and filled when the leaf is first
//! checked. So a deleted slot loses its bits; a reader that checks the old leaf late may bring them
//! back until the leaf is written again. A lookup between new words and the entry that names the
//! new leaf may miss a deleted slot a moment early. A slot in both leaves is in the old words and
//! the new ones.

use filemap_io::{LargeWords, Word};

use crate::format::bloom;
use crate::format::leaf::MAX_DEPTH;
use crate::sync::primitive::Ordering;

/// Words per directory entry.
const WORDS: usize = if cfg!(filemap_loom) { 1 } else { 24 };

/// The filter's words.
#[derive(Debug)]
pub(super) struct Filter(LargeWords);

impl Filter {
    /// An empty filter for a directory of `entries`. `None` if it needs more than `bytes_max`, or
    /// if the memory is not available.
    pub(super) fn new(entries: usize, bytes_max: u64) -> Option<Filter> {
        let words = entries * WORDS;
        if words as u64 * 8 > bytes_max {
            return None;
        }
        LargeWords::zeroed(words).ok().map(Filter)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
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

    fn each_word(&self, all: impl Iterator<Item = (usize, u64)>, put: impl Fn(&Word, u64)) {
        each_entry(all, |entry, masks| {
            self.0[entry * WORDS..][..WORDS].iter().zip(masks).for_each(|(word, mask)| put(word, *mask));
        });
    }

    /// Returns false if the hash is certainly absent.
    pub(super) fn may_have(&self, entry: usize, bits: u64) -> bool {
        let (word, mask) = bloom::place(bits, WORDS);
        self.0[entry * WORDS + word].load(Ordering::Relaxed) & mask == mask
    }
}

/// Calls `put` once per entry, with the collected words of its adjacent bits: an atomic update per
/// hash would dominate the cost.
fn each_entry(all: impl Iterator<Item = (usize, u64)>, mut put: impl FnMut(usize, &[u64; WORDS])) {
    let (mut at, mut masks) = (None, [0; WORDS]);
    for (entry, bits) in all {
        if let Some(at) = at.replace(entry).filter(|at| *at != entry) {
            put(at, &std::mem::replace(&mut masks, [0; WORDS]));
        }
        let (word, mask) = bloom::place(bits, WORDS);
        masks[word] |= mask;
    }
    if let Some(at) = at {
        put(at, &masks);
    }
}

/// The bits of a hash that directory and slots keep between them.
pub(super) fn bits(hash: u64) -> u64 {
    hash >> (64 - MAX_DEPTH)
}
