//! An importer's memory of the versions of frequent keys.
//!
//! For every page an importer asks whether the store holds this very version. The engine answers
//! by reading the key's versions, which is quadratic for a file with many visits to one URL. So
//! after [`HOT_LOOKUPS`] lookups of a key its versions are read once and kept here as fingerprints
//! of 128 bits; versions put later are added. The latest bodies that unchanged versions refer to
//! are kept, too.
//!
//! Invariants: every fingerprint is of a version that was in the store during this import; memory
//! is bounded by [`MAX_KEYS`], [`MAX_PRINTS`] and [`MAX_ORIGINAL_BYTES`]. Entries dropped at a
//! bound are read again.

use std::collections::{HashMap, HashSet, VecDeque};

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Number of lookups of a key before its versions are kept.
const HOT_LOOKUPS: u8 = 8;
/// Marks a key whose versions are kept.
const LOADED: u8 = u8::MAX;
/// Maximum number of keys with a count: 16 MiB with the free slots of a hash table.
const MAX_KEYS: usize = 1 << 19;
/// Maximum number of fingerprints, three a version: 36 MiB, and 18 MiB more while the table grows.
const MAX_PRINTS: usize = 1_800_000;
/// Maximum number and bytes of the bodies of originals.
const MAX_ORIGINALS: usize = 1 << 14;
const MAX_ORIGINAL_BYTES: usize = 16 << 20;

/// The fingerprints of a version, one for each [`Sameness`](super::Sameness).
pub(super) type Prints = [u128; 3];

/// Fingerprints of the versions of frequent keys, and bodies of recent originals.
#[derive(Default)]
pub(crate) struct Known {
    keys: HashMap<u64, u8>,
    prints: HashSet<u128>,
    /// Fingerprints of versions in the store that cannot be read.
    unreadable: HashSet<u128>,
    originals: HashMap<u128, Vec<u8>>,
    /// Fingerprints of `originals`, the oldest first.
    original_order: VecDeque<u128>,
    original_bytes: usize,
    /// Versions read from the store: a measure of time.
    #[cfg(test)]
    pub(super) looked_at: u64,
}

/// Knowledge about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heat {
    /// Nothing: ask the store.
    Cold,
    /// Nothing, but it is looked up often: [load](Known::load) its versions now.
    Hot,
    /// Every version.
    Loaded,
}

impl Known {
    /// Counts a lookup of `key`.
    pub(super) fn ask(&mut self, key: &[u8]) -> Heat {
        if self.keys.len() >= MAX_KEYS || self.prints.len() + self.unreadable.len() >= MAX_PRINTS {
            self.keys.clear();
            self.prints.clear();
            self.unreadable.clear();
        }
        let lookups = self.keys.entry(xxh3_64(key)).or_insert(0);
        match *lookups {
            LOADED => Heat::Loaded,
            HOT_LOOKUPS => Heat::Hot,
            _ => {
                *lookups += 1;
                Heat::Cold
            }
        }
    }

    /// Keeps the fingerprints of all versions of `key`, unless there are too many.
    pub(super) fn load(&mut self, key: &[u8], prints: impl ExactSizeIterator<Item = u128>) {
        if self.prints.len() + prints.len() <= MAX_PRINTS {
            self.prints.extend(prints);
            self.keys.insert(xxh3_64(key), LOADED);
        }
    }

    pub(super) fn contains(&self, print: u128) -> bool {
        self.prints.contains(&print)
    }

    /// Keeps the fingerprints of versions in the store that cannot be read.
    pub(super) fn add_unreadable(&mut self, prints: impl IntoIterator<Item = u128>) {
        self.unreadable.extend(prints);
    }

    pub(super) fn is_unreadable(&self, print: u128) -> bool {
        self.unreadable.contains(&print)
    }

    /// Adds a version that was put.
    pub(super) fn add(&mut self, key: &[u8], prints: Prints) {
        if self.keys.get(&xxh3_64(key)) == Some(&LOADED) {
            self.prints.extend(prints);
        }
    }

    /// The body kept under this fingerprint.
    pub(super) fn original(&self, print: u128) -> Option<&[u8]> {
        self.originals.get(&print).map(Vec::as_slice)
    }

    pub(super) fn keep_original(&mut self, print: u128, body: &[u8]) {
        if body.len() > MAX_ORIGINAL_BYTES || self.originals.contains_key(&print) {
            return;
        }
        self.original_bytes += body.len();
        self.originals.insert(print, body.to_vec());
        self.original_order.push_back(print);
        while self.original_bytes > MAX_ORIGINAL_BYTES || self.originals.len() > MAX_ORIGINALS {
            let Some(oldest) = self.original_order.pop_front() else { break };
            self.original_bytes -= self.originals.remove(&oldest).map_or(0, |body| body.len());
        }
    }

    #[cfg(test)]
    pub(super) fn count(&mut self, versions: usize) {
        self.looked_at += versions as u64;
    }

    #[cfg(not(test))]
    pub(super) fn count(&mut self, _versions: usize) {}
}

/// The fingerprint of these parts of a version.
pub(super) fn print(kind: u8, key: &[u8], time_ms: i64, parts: [&[u8]; 2]) -> u128 {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&time_ms.to_le_bytes());
    bytes.extend_from_slice(&(key.len() as u64).to_le_bytes());
    for part in [key, parts[0], parts[1]] {
        bytes.extend_from_slice(part);
    }
    xxh3_128(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_loaded_once_and_forgotten_at_the_bound() {
        let mut known = Known::default();
        for _ in 0..HOT_LOOKUPS {
            assert_eq!(known.ask(b"key"), Heat::Cold);
        }
        known.add(b"key", [1, 2, 6]);
        assert_eq!((known.ask(b"key"), known.contains(1)), (Heat::Hot, false));
        known.load(b"key", [3].into_iter());
        known.add(b"key", [4, 5, 7]);
        assert!(known.ask(b"key") == Heat::Loaded && known.contains(3) && known.contains(5));
        known.load(b"big", (0..MAX_PRINTS).map(|print| print as u128));
        assert_eq!(known.ask(b"big"), Heat::Cold);
        known.load(b"next", (10..MAX_PRINTS).map(|print| print as u128));
        known.add(b"next", [10 << 100, 11 << 100, 12 << 100]);
        known.add(b"next", [13 << 100, 14 << 100, 15 << 100]);
        known.add(b"next", [16 << 100, 17 << 100, 18 << 100]);
        known.add(b"next", [19 << 100, 20 << 100, 21 << 100]);
        assert!(known.ask(b"key") == Heat::Cold && known.prints.is_empty());
    }

    #[test]
    fn the_last_originals_are_kept() {
        let mut known = Known::default();
        for print in 0..100 {
            known.keep_original(print, &vec![print as u8; 1 << 20]);
        }
        assert_eq!(known.original(99).map(<[u8]>::len), Some(1 << 20));
        assert!(known.original(80).is_none() && known.original_bytes <= MAX_ORIGINAL_BYTES);
        known.keep_original(100, &vec![0; MAX_ORIGINAL_BYTES + 1]);
        assert!(known.original(100).is_none() && known.original(99).is_some());
    }
}
