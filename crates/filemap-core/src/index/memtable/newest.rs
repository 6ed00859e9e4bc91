//! What a checkpoint reads of a memtable: the newest entry of each key, in the order of the index.

use super::{HEAD_WORDS, Memtable};
use crate::format::location::Extent;

/// Entries read and sorted in about a tenth of a millisecond.
const SOME_ENTRIES: usize = 1024;

impl Memtable {
    /// The newest entry of each key, with the key's hash, in hash order; and the total bytes of
    /// the records of all entries in the value log. For a table that is no longer added to. Reads
    /// entries in memory order, not by buckets: a table is larger than the processor's caches.
    /// Takes 16 bytes an entry.
    pub(crate) fn newest(&self, make_way: &dyn Fn()) -> (Vec<(u64, u32)>, u64) {
        let (mut all, mut bytes) = (Vec::with_capacity(self.entries() as usize), 0);
        for change in self.changes(0, self.mark()) {
            if all.len().is_multiple_of(SOME_ENTRIES) {
                make_way();
            }
            all.push((change.hash, change.address));
            bytes += Extent::unpack(self.word(change.address, 5)).bytes();
        }
        debug_assert_eq!(all.len() as u64, self.entries());
        sort(&mut all, make_way);
        // An entry is not the newest if a later entry, which has the same hash, names it.
        let mut kept = 0;
        for at in 0..all.len() {
            if at.is_multiple_of(SOME_ENTRIES) {
                make_way();
            }
            let (hash, address) = all[at];
            let mut later = all[at + 1..].iter().take_while(|later| later.0 == hash);
            if !later.any(|(_, later)| self.entry_before(*later) == address) {
                all[kept] = (hash, address);
                kept += 1;
            }
        }
        all.truncate(kept);
        (all, bytes)
    }

    /// Reads two words of each of these entries, so that the processor loads many of them into its
    /// caches at once instead of one after the other.
    pub(crate) fn touch(&self, entries: &[(u64, u32)]) {
        let words = entries.iter().map(|(_, address)| self.word(*address, 0) ^ self.word(*address, HEAD_WORDS - 1));
        std::hint::black_box(words.fold(0, |all, word| all ^ word));
    }
}

/// Sorts entries by hash, then address, making way between parts.
fn sort(entries: &mut [(u64, u32)], make_way: &dyn Fn()) {
    make_way();
    if entries.len() <= SOME_ENTRIES {
        return entries.sort_unstable();
    }
    let (less, _, greater) = entries.select_nth_unstable(entries.len() / 2);
    sort(less, make_way);
    sort(greater, make_way);
}
