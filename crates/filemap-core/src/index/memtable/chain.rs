//! Chains of a memtable: the keys of a group, linked, latest first. A list of one group, such as
//! the URLs of a host, follows a chain instead of sorting all keys of the table.
//!
//! Invariant: an entry is published in its chain after its words are stored, and before the
//! table's mark covers it. So a reader that has taken a mark meets each entry before it once.

use super::{CHAIN_BUCKETS, Memtable};
use crate::options::Options;
use crate::sync::primitive::{AtomicU32, Ordering};

/// The groups whose keys a table links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grouping {
    of_key: fn(&[u8]) -> &[u8],
    seed: u64,
}

impl Grouping {
    /// The groups of the order in the options. `seed` is the store's, so that nobody can choose
    /// groups that share a chain.
    pub(crate) fn of(options: &Options, seed: u64) -> Option<Grouping> {
        let groups = options.key_order?.groups?;
        Some(Grouping { of_key: groups.of_key, seed })
    }

    #[cfg(test)]
    pub(crate) fn new(of_key: fn(&[u8]) -> &[u8]) -> Grouping {
        Grouping { of_key, seed: 0 }
    }
}

/// The heads of the chains, by the hash of a group. Groups may share a chain.
#[derive(Debug)]
pub(super) struct Chains {
    grouping: Grouping,
    heads: Box<[AtomicU32]>,
}

impl Chains {
    /// Chains for a table with this many buckets, a power of two.
    pub(super) fn new(grouping: Grouping, buckets: usize) -> Chains {
        let heads = (buckets / CHAIN_BUCKETS).max(1);
        Chains { grouping, heads: (0..heads).map(|_| AtomicU32::new(0)).collect() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.heads.len() * 4
    }

    /// The head of the chain of a key's group: the address of its latest entry, 0 for none.
    pub(super) fn of_key(&self, key: &[u8]) -> &AtomicU32 {
        self.of_group((self.grouping.of_key)(key))
    }

    fn of_group(&self, group: &[u8]) -> &AtomicU32 {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(group, self.grouping.seed);
        &self.heads[hash as usize & (self.heads.len() - 1)]
    }
}

impl Memtable {
    /// Calls `f` with each key of a group that was first put between two marks, the latest first.
    /// Returns the number of links that it followed. `None` if the table has no chains, or if more
    /// than `most` links lead to the first mark: `f` may have been called then.
    pub(crate) fn each_in_group(
        &self,
        group: &[u8],
        (from, to): (u32, u32),
        most: usize,
        mut f: impl FnMut(&[u8]),
    ) -> Option<usize> {
        let chains = self.chains.as_ref()?;
        let (mut links, mut key) = (0, Vec::new());
        let mut at = chains.of_group(group).load(Ordering::Acquire);
        while at >= from.max(1) {
            links += 1;
            if links > most {
                return None;
            }
            if at < to {
                self.read_key(at, &mut key);
                if (chains.grouping.of_key)(&key) == group {
                    f(&key);
                }
            }
            let before = self.linked(at);
            debug_assert!(before < at, "a chain leads to earlier entries");
            at = before;
        }
        Some(links)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Entry;
    use super::*;
    use crate::format::location::{Extent, Location};
    use crate::record::Version;

    /// The first byte of a key.
    fn first(key: &[u8]) -> &[u8] {
        &key[..1]
    }

    fn put(table: &Memtable, key: &[u8], sequence: u64, tombstone: bool) {
        let extent = Extent { location: Location::new(1, 64 * sequence), units: 5 };
        let version = Version { time_ms: sequence.cast_signed(), sequence };
        // Keys share hashes, so entries of other keys stand between those of one.
        let hash = u64::from(key[key.len() - 1]);
        table.insert(hash, key, &Entry { version, extent, refers_to: 0, chunked: false, tombstone });
    }

    fn of_group(table: &Memtable, group: &[u8], marks: (u32, u32)) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        table.each_in_group(group, marks, usize::MAX, |key| keys.push(key.to_vec())).unwrap();
        keys
    }

    #[test]
    fn a_chain_has_each_key_of_its_group_once_latest_first_between_any_marks() {
        let table = Memtable::new(1 << 15, 0, Some(Grouping::new(first)));
        let mut random = fastrand::Rng::with_seed(3);
        let (mut firsts, mut marks) = (Vec::<Vec<u8>>::new(), vec![(0, table.mark())]);
        for sequence in 1..4000 {
            // More groups than chains, and most keys again and again, some as tombstones.
            let mut key = vec![random.u8(..), random.u8(..6)];
            key.resize([2, 2, 9, 4000][usize::from(key[1] % 4)], key[1]);
            put(&table, &key, sequence, random.u8(..4) == 0);
            if !firsts.contains(&key) {
                firsts.push(key);
            }
            marks.push((firsts.len(), table.mark()));
        }
        assert!(table.chains.as_ref().unwrap().heads.len() < 256 && firsts.len() > 1200);
        for _ in 0..3000 {
            let mut two = [random.usize(..marks.len()), random.usize(..marks.len())];
            two.sort_unstable();
            let [(from, from_mark), (to, to_mark)] = two.map(|at| marks[at]);
            let group = [random.u8(..)];
            let mut expected: Vec<_> = firsts[from..to].iter().filter(|key| key[..1] == group).cloned().collect();
            expected.reverse();
            assert!(of_group(&table, &group, (from_mark, to_mark)) == expected, "{from}..{to}");
        }
    }

    #[test]
    fn versions_tombstones_and_changes_of_a_key_are_those_of_a_table_without_chains() {
        let tables = [Some(Grouping::new(first)), None].map(|grouping| Memtable::new(1 << 20, 0, grouping));
        let mut random = fastrand::Rng::with_seed(4);
        for sequence in 1..3000 {
            let (key, tombstone) = ([random.u8(..3), random.u8(..40)], random.u8(..5) == 0);
            tables.iter().for_each(|table| put(table, &key, sequence, tombstone));
        }
        let all = |table: &Memtable| {
            let newest = table.newest(&|| {}).0;
            let versions = newest.iter().map(|(hash, address)| {
                let found = table.find(*hash, &table.key(*address)).unwrap();
                (found.best, found.floor, table.versions(&found), table.knew(&found, 1))
            });
            let versions: Vec<_> = versions.collect();
            (table.changes(0, table.mark()).collect::<Vec<_>>(), newest, versions)
        };
        assert!(all(&tables[0]) == all(&tables[1]));
        assert_eq!(tables[0].bytes() - tables[1].bytes(), 512 * 4);
        assert_eq!(tables[1].each_in_group(&[1], (0, u32::MAX), usize::MAX, |_| {}), None);
    }

    #[test]
    fn a_chain_with_more_links_than_wanted_is_not_followed_to_its_end() {
        let table = Memtable::new(1 << 20, 0, Some(Grouping::new(first)));
        (1..=9).for_each(|n| put(&table, &[7, n], u64::from(n), false));
        let (mark, mut calls) = (table.mark(), 0);
        assert_eq!(table.each_in_group(&[7], (0, mark), 9, |_| calls += 1), Some(9));
        assert_eq!(table.each_in_group(&[7], (0, mark), 8, |_| calls += 1), None);
        assert_eq!(calls, 17);
    }

    #[test]
    fn a_key_whose_group_panics_hides_none_that_comes_later() {
        let table = Memtable::new(1 << 20, 0, Some(Grouping::new(first)));
        put(&table, b"a1", 1, false);
        // `put` takes the hash from the last byte, which this key lacks.
        let version = Version { time_ms: 2, sequence: 2 };
        let extent = Extent { location: Location::new(1, 128), units: 5 };
        let entry = Entry { version, extent, refers_to: 0, chunked: false, tombstone: false };
        let empty = std::panic::AssertUnwindSafe(|| table.insert(7, b"", &entry));
        assert!(std::panic::catch_unwind(empty).is_err(), "it has no first byte");
        put(&table, b"a2", 3, false);
        put(&table, b"b1", 4, false);
        assert_eq!(table.changes(0, table.mark()).count(), 3);
        assert_eq!(table.newest(&|| {}).0.len(), 3);
        assert_eq!(of_group(&table, b"a", (0, table.mark())), [b"a2", b"a1"]);
    }
}
