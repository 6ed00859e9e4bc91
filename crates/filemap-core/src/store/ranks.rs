//! Cache of an iteration for keys with many versions: the ranks of their live versions. Their
//! chains are walked once instead of once per record.

use std::collections::HashMap;

use crate::handle::spot::Spot;

/// A key is cached if more than this many of its versions were looked up, live or not.
pub(super) const FEW: usize = 8;
/// Most versions cached, at 16 bytes each; more if a single key has more than half as many.
const MOST: usize = 1 << 20;

/// Ranks of versions by key hash.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    by_hash: HashMap<u64, Known>,
    noted: usize,
    longest: usize,
}

/// The live versions of a key.
#[derive(Debug)]
struct Known {
    key: Vec<u8>,
    /// Pairs of sequence and rank, sorted by sequence.
    ranks: Vec<(u64, u32)>,
    /// Segment changes when cached: once a segment is removed, its versions have moved and are
    /// looked up again.
    changes: u64,
}

impl Ranks {
    /// Rank of a version of a key, 0 for the newest: `None` if not cached, `Some(None)` if it is
    /// not live.
    pub(super) fn get(&self, hash: u64, key: &[u8], sequence: u64, changes: u64) -> Option<Option<usize>> {
        let known = self.by_hash.get(&hash).filter(|k| k.key == key && k.changes == changes)?;
        let found = known.ranks.binary_search_by_key(&sequence, |r| r.0);
        Some(found.ok().map(|nth| known.ranks[nth].1 as usize))
    }

    /// Caches the live versions of a key, newest first: all of them, or only the newest if no
    /// other matters.
    pub(super) fn note(&mut self, hash: u64, key: &[u8], live: &[Spot], changes: u64) {
        self.noted += FEW + live.len();
        self.longest = self.longest.max(live.len());
        if self.noted > MOST.max(2 * self.longest) {
            self.by_hash.clear();
            self.noted = live.len();
        }
        let mut ranks: Vec<(u64, u32)> = live.iter().map(|s| s.version.sequence).zip(0..).collect();
        ranks.sort_unstable();
        self.by_hash.insert(hash, Known { key: key.to_vec(), ranks, changes });
    }

    /// Forgets a key whose ranks were wrong.
    pub(super) fn forget(&mut self, hash: u64) {
        self.by_hash.remove(&hash);
    }
}
