//! What an iteration has found out about keys with many versions: which of them live, and which is the newest. So their chains
//! are walked once and not for each of their records.

use std::collections::HashMap;

use crate::handle::spot::Spot;

/// Chains of so many versions are walked each time.
const FEW: usize = 8;
/// So many versions are noted at most, in 16 bytes each, or twice as many as the key with the most has.
const MOST: usize = 1 << 20;

/// See the module.
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
    /// Sequences and ranks, in the order of sequences.
    ranks: Vec<(u64, u32)>,
    /// How often segments had been removed: what lay elsewhere then is looked for again.
    changes: u64,
}

impl Ranks {
    /// The rank of the version of a key with a sequence, the newest being 0, if that is known: `Some(None)` when it does not live.
    pub(super) fn get(&self, hash: u64, key: &[u8], sequence: u64, changes: u64) -> Option<Option<usize>> {
        let known = self.by_hash.get(&hash).filter(|k| k.key == key && k.changes == changes)?;
        let found = known.ranks.binary_search_by_key(&sequence, |r| r.0);
        Some(found.ok().map(|nth| known.ranks[nth].1 as usize))
    }

    /// Notes the live versions of a key, newest first, if they are many; of all of them or of the newest only.
    pub(super) fn note(&mut self, hash: u64, key: &[u8], live: &[Spot], newest_only: bool, changes: u64) {
        if live.len() <= FEW {
            return;
        }
        let wanted = if newest_only { 1 } else { live.len() };
        self.noted += FEW + wanted;
        self.longest = self.longest.max(wanted);
        if self.noted > MOST.max(2 * self.longest) {
            self.by_hash.clear();
            self.noted = wanted;
        }
        let mut ranks: Vec<(u64, u32)> = live[..wanted].iter().map(|s| s.version.sequence).zip(0..).collect();
        ranks.sort_unstable();
        self.by_hash.insert(hash, Known { key: key.to_vec(), ranks, changes });
    }

    /// Forgets what is known of a key: what it said was not so.
    pub(super) fn forget(&mut self, hash: u64) {
        self.by_hash.remove(&hash);
    }
}
