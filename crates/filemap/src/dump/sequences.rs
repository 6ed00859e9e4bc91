//! A bit set of sequences: the versions that a dump has written.
//!
//! An unchanged version is written as a reference only to an earlier record. The log is mostly,
//! but not always, in the order of sequences: whatever moves records may change it.

use std::collections::BTreeMap;

/// Sequences of one block.
const BLOCK: u64 = 1 << 15;
const WORDS: usize = (BLOCK / 64) as usize;

/// A set of sequences, in blocks; empty blocks are absent.
#[derive(Default)]
pub(super) struct Sequences(BTreeMap<u64, Box<[u64; WORDS]>>);

impl Sequences {
    pub(super) fn insert(&mut self, sequence: u64) {
        let block = self.0.entry(sequence / BLOCK).or_insert_with(|| Box::new([0; WORDS]));
        let (word, bit) = place(sequence);
        block[word] |= bit;
    }

    pub(super) fn contains(&self, sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        self.0.get(&(sequence / BLOCK)).is_some_and(|block| block[word] & bit != 0)
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let at = sequence % BLOCK;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it_and_nothing_else() {
        let mut set = Sequences::default();
        let some = [0, 1, 63, 64, BLOCK - 1, BLOCK, 7 * BLOCK + 5, u64::MAX];
        some.into_iter().for_each(|sequence| set.insert(sequence));
        for sequence in (0..3 * BLOCK).chain(6 * BLOCK..8 * BLOCK).chain([u64::MAX - 1, u64::MAX]) {
            assert_eq!(set.contains(sequence), some.contains(&sequence), "{sequence}");
        }
    }
}
