//! The memtable: fingerprints not in a run yet, in a hash table of bounded size.
//!
//! An entry has two marks in bits outside a fingerprint: the slot is taken; the URL was asked for
//! again since its insert. Such popular URLs go to the cache when the table is written to a run.

use filemap_runs::fixed::mixed;

use super::key::FingerprintBits;

const TAKEN: u128 = 1;
const ASKED: u128 = 2;

/// The memtable.
#[derive(Debug)]
pub(super) struct Table {
    bits: FingerprintBits,
    /// A power of two slots; linear probing.
    slots: Vec<u128>,
    len: usize,
}

impl Table {
    /// A table of at most this many bytes, its sorted copy included.
    pub(super) fn new(bits: FingerprintBits, bytes: u64) -> Table {
        // Three quarters of the slots are used, and copied when the table is written.
        let slots = (bytes as usize / size_of::<u128>() * 4 / 7).max(16);
        Table { bits, slots: vec![0; 1 << slots.ilog2()], len: 0 }
    }

    /// Bytes of a table for this many entries.
    pub(super) fn bytes_for(entries: usize) -> u64 {
        let slots = (entries * 4 / 3 + 2).next_power_of_two() as u64;
        slots * 7 / 4 * size_of::<u128>() as u64 + 64
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Maximum number of entries.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len() / 4 * 3
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        ((self.slots.len() + self.capacity()) * size_of::<u128>()) as u64
    }

    /// The slot of a fingerprint, or the free one where it belongs.
    #[inline]
    fn slot(&self, fingerprint: u128) -> usize {
        let mut slot = (mixed(fingerprint) >> (64 - self.slots.len().ilog2())) as usize;
        while self.slots[slot] != 0 && (self.slots[slot] ^ fingerprint) & self.bits.mask() != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    /// Searches a fingerprint and marks it as asked for; `Some(true)`: it is a tombstone.
    #[inline]
    pub(super) fn ask(&mut self, fingerprint: u128) -> Option<bool> {
        let slot = self.slot(fingerprint);
        let entry = &mut self.slots[slot];
        if *entry == 0 {
            return None;
        }
        *entry |= ASKED;
        Some(*entry & self.bits.tombstone() != 0)
    }

    /// Sets a fingerprint, or its tombstone.
    ///
    /// # Panics
    /// If the table is full: the caller writes it to a run before that.
    pub(super) fn put(&mut self, fingerprint: u128, is_tombstone: bool) {
        let slot = self.slot(fingerprint);
        if self.slots[slot] == 0 {
            assert!(self.len < self.capacity(), "a full table is written before more is put in");
            self.len += 1;
        }
        self.slots[slot] = fingerprint | TAKEN | if is_tombstone { self.bits.tombstone() } else { 0 };
    }

    /// All entries without marks, unordered.
    fn entries(&self) -> impl Iterator<Item = u128> + '_ {
        let kept = self.bits.mask() | self.bits.tombstone();
        self.slots.iter().filter(|entry| **entry != 0).map(move |entry| entry & kept)
    }

    /// All entries without marks, in order.
    pub(super) fn sorted(&self) -> Vec<u128> {
        let mut entries = Vec::with_capacity(self.len);
        entries.extend(self.entries());
        super::sort::sort(&mut entries);
        entries
    }

    /// Fingerprints that are not tombstones, and whether they were asked for again.
    pub(super) fn urls(&self) -> impl Iterator<Item = (u128, bool)> + '_ {
        let is_url = |entry: &&u128| **entry != 0 && **entry & self.bits.tombstone() == 0;
        self.slots.iter().filter(is_url).map(|entry| (entry & self.bits.mask(), entry & ASKED != 0))
    }

    /// Empties the table, and resizes it to at most this many bytes.
    pub(super) fn reset(&mut self, bytes: u64) {
        let slots = self.slots.len();
        self.slots.fill(0);
        self.len = 0;
        let fresh = Table::new(self.bits, bytes);
        if fresh.slots.len() != slots {
            *self = fresh;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_table_holds_what_was_put_last() {
        let bits = FingerprintBits::Bits80;
        let mut table = Table::new(bits, 64 << 10);
        assert!(table.memory_bytes() <= 64 << 10);
        let mut rng = fastrand::Rng::with_seed(1);
        let mut model = BTreeMap::new();
        assert_eq!(table.ask(0), None);
        table.put(0, false);
        model.insert(0, false);
        while table.len() < table.capacity() {
            let fingerprint = u128::from(rng.u16(..)) << 112 & bits.mask();
            let is_tombstone = rng.bool();
            table.put(fingerprint, is_tombstone);
            model.insert(fingerprint, is_tombstone);
        }
        let popular = |table: &Table| table.urls().filter(|(_, is_popular)| *is_popular).count();
        assert_eq!(popular(&table), 0);
        assert!(model.iter().all(|(fingerprint, is_tombstone)| table.ask(*fingerprint) == Some(*is_tombstone)));
        assert_eq!(popular(&table), model.values().filter(|is_tombstone| !**is_tombstone).count());
        let expected = model
            .iter()
            .map(|(fingerprint, is_tombstone)| fingerprint | if *is_tombstone { bits.tombstone() } else { 0 });
        assert!(table.sorted().into_iter().eq(expected));
        table.reset(64 << 10);
        assert_eq!((table.len(), table.ask(0)), (0, None));
    }
}
