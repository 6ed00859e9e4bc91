//! What the leaves do not have, told without a look at them: a Bloom filter in memory, a few words for each entry of the directory.
//!
//! An entry serves 90 to 250 keys by turns: 6 to 17 bits for each, by which 0.5 to 9% of the keys that are not there are looked for in vain.
//!
//! Nothing of it is on disk. The words of an entry are made anew when its leaf is written, and filled when that is checked for the first time. So
//! a slot that goes takes its bits along (a reader that was late to check the old leaf may bring them back, until the leaf is written again). A lookup
//! that comes between new words and the entry that names the new leaf may be told that such a slot is gone, a moment before it is. A slot that
//! both leaves have is in the old words and in the new ones.

use filemap_io::{LargeWords, Word};

use crate::format::leaf::MAX_DEPTH;
use crate::index::bloom;
use crate::sync::primitive::Ordering;

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

    /// Adds hash bits (see [`bits`]) to those of their entries.
    pub(super) fn add(&self, all: impl Iterator<Item = (usize, u64)>) {
        each_entry(all, |entry, masks| {
            for (word, mask) in self.words(entry).iter().zip(masks) {
                word.fetch_or(*mask, Ordering::Relaxed);
            }
        });
    }

    /// Makes hash bits all that their entries have, each of which must have its own side by side; entries without any stay as they are. Only for
    /// one thread at a time.
    pub(super) fn set(&self, all: impl Iterator<Item = (usize, u64)>) {
        each_entry(all, |entry, masks| {
            for (word, mask) in self.words(entry).iter().zip(masks) {
                word.store(*mask, Ordering::Relaxed);
            }
        });
    }

    fn words(&self, entry: usize) -> &[Word] {
        &self.0[entry * WORDS..][..WORDS]
    }

    /// Whether those may be there.
    pub(super) fn may_have(&self, entry: usize, bits: u64) -> bool {
        let (word, mask) = bloom::place(bits, WORDS);
        self.0[entry * WORDS + word].load(Ordering::Relaxed) & mask == mask
    }
}

/// Calls `put` with the words of each entry, whose bits stand together: all at once, as a word that others may change takes longer than all
/// else here.
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

/// The bits of a hash that directory and slots have together.
pub(super) fn bits(hash: u64) -> u64 {
    hash >> (64 - MAX_DEPTH)
}
