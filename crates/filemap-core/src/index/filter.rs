//! What the leaves do not have, told without a look at them: a Bloom filter in memory, a few words for each entry of the directory.
//!
//! An entry serves 90 to 250 keys by turns: 6 to 17 bits for each, by which 0.5 to 9% of the keys that are not there are looked for in vain.
//!
//! Nothing of it is on disk. The words of an entry are filled when its leaf is, or when that is checked for the first time; a slot
//! that goes leaves its bits until the directory doubles or halves.

use filemap_io::LargeWords;

use crate::bloom;
use crate::format::leaf::MAX_DEPTH;
use crate::primitive::Ordering;

/// For each entry of the directory.
const WORDS: usize = if cfg!(filemap_loom) { 1 } else { 24 };

/// See the module.
#[derive(Debug)]
pub(super) struct Filter(LargeWords);

impl Filter {
    /// Of a directory of so many entries, empty; `None` if that would take more than `bytes_max` of memory, or there is none.
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

    /// Adds hash bits (see [`bits`]) to those of their entries, in order of these.
    pub(super) fn add(&self, all: impl Iterator<Item = (usize, u64)>) {
        // An entry's all at once: a word that others may change takes longer than all else here.
        let (mut at, mut masks) = (0, [0; WORDS]);
        for (entry, bits) in all {
            if entry != at {
                self.put(at, std::mem::replace(&mut masks, [0; WORDS]));
                at = entry;
            }
            let (word, mask) = bloom::place(bits, WORDS);
            masks[word] |= mask;
        }
        self.put(at, masks);
    }

    fn put(&self, entry: usize, masks: [u64; WORDS]) {
        for (word, mask) in self.0[entry * WORDS..].iter().zip(masks) {
            // A leaf that is written anew has most of its slots as before.
            if word.load(Ordering::Relaxed) & mask != mask {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    /// Whether those may be there.
    pub(super) fn may_have(&self, entry: usize, bits: u64) -> bool {
        let (word, mask) = bloom::place(bits, WORDS);
        self.0[entry * WORDS + word].load(Ordering::Relaxed) & mask == mask
    }
}

/// The bits of a hash that directory and slots have together.
pub(super) fn bits(hash: u64) -> u64 {
    hash >> (64 - MAX_DEPTH)
}
