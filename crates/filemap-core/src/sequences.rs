//! A bit set of sequences, in pages that are allocated on demand. A store's sequences are dense,
//! but a damaged or forged record may claim any.

use std::collections::HashMap;

/// Words of a page: 4096 sequences.
const WORDS: usize = 64;

/// A set of versions, by sequence.
///
/// ```
/// use filemap_core::list::Sequences;
///
/// let mut written = Sequences::default();
/// written.insert(7);
/// assert!(written.contains(7) && !written.contains(8));
/// ```
#[derive(Debug, Default)]
pub struct Sequences {
    pages: HashMap<u64, Box<[u64; WORDS]>>,
}

impl Sequences {
    fn place(sequence: u64) -> (u64, usize, u64) {
        (sequence / (64 * WORDS as u64), (sequence / 64) as usize % WORDS, 1 << (sequence % 64))
    }

    /// Adds a sequence; takes up to 560 bytes if no nearby sequence is in the set.
    pub fn insert(&mut self, sequence: u64) {
        let (page, word, bit) = Sequences::place(sequence);
        self.pages.entry(page).or_insert_with(|| Box::new([0; WORDS]))[word] |= bit;
    }

    /// Returns whether a sequence is in the set.
    pub fn contains(&self, sequence: u64) -> bool {
        let (page, word, bit) = Sequences::place(sequence);
        self.pages.get(&page).is_some_and(|p| p[word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_and_nothing_else() {
        let mut set = Sequences::default();
        let added = [0, 1, 63, 64, 4095, 4096, 1 << 40, (1 << 56) - 1];
        added.iter().for_each(|s| set.insert(*s));
        for sequence in added.iter().flat_map(|s| [s.saturating_sub(1), *s, s + 1]) {
            assert_eq!(set.contains(sequence), added.contains(&sequence), "{sequence}");
        }
    }
}
