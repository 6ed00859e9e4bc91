//! Notes of a compaction run on keys with many versions, so that it walks a key's chain once and
//! not for each of its records.
//!
//! Memory is bounded: per key only versions in the segment being read are noted, from the current
//! place on, and up to a limit. The notes may be outdated in two ways. A version was removed:
//! nothing will lead to its copy. A version is new: it does not lie in a victim, which was sealed
//! before a checkpoint entered all of it. If a live record in a victim is taken for dead, the
//! segment table shows it, and the victim stays.

use std::collections::HashMap;
use std::ops::Range;

use crate::format::location::Location;
use crate::handle::spot::Spot;

/// Chains of at most this many versions are walked each time.
pub(super) const FEW: usize = 8;

/// Greatest number of versions and chunks noted; 24 and 56 bytes each.
const MOST: usize = 1 << 20;

/// Verdict on a record in a victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A version that is kept.
    Live,
    /// A version in its chain that is not kept: the chain must be examined.
    Expired,
    /// Nothing leads to it.
    Dead,
    /// Undecidable because of damage: the record stays where it is.
    Unknown,
}

/// Notes on keys with many versions.
#[derive(Debug)]
pub(super) struct Chains {
    by_hash: HashMap<u64, Known>,
    owners: HashMap<u64, Owners>,
    noted: usize,
    most: usize,
}

/// The versions of a key in part of a segment.
#[derive(Debug)]
struct Known {
    key: Vec<u8>,
    segment: u16,
    offsets: Range<u64>,
    /// Offset, sequence and whether it is kept, sorted by offset. `None`: unknown because of
    /// damage.
    versions: Option<Vec<(u64, u64, bool)>>,
}

/// The versions of a key that have chunks in victims.
#[derive(Debug)]
struct Owners {
    key: Vec<u8>,
    /// Sorted by location of the chunk. `None`: unknown because of damage.
    chunks: Option<Vec<Owner>>,
}

/// A version, and the location of one of its chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) chunk: Location,
    pub(super) spot: Spot,
    pub(super) is_kept: bool,
}

impl Default for Chains {
    fn default() -> Chains {
        Chains { by_hash: HashMap::new(), owners: HashMap::new(), noted: 0, most: MOST }
    }
}

impl Chains {
    /// Returns the verdict on the record of a key with this sequence and place, if it was noted.
    pub(super) fn verdict(&self, hash: u64, key: &[u8], sequence: u64, at: Location) -> Option<Verdict> {
        let known = self.by_hash.get(&hash).filter(|k| k.key == key && k.segment == at.segment)?;
        if !known.offsets.contains(&at.offset()) {
            return None;
        }
        let Some(versions) = &known.versions else { return Some(Verdict::Unknown) };
        let found = versions.binary_search_by_key(&(at.offset(), sequence), |v| (v.0, v.1));
        Some(match found.map(|nth| versions[nth].2) {
            Ok(true) => Verdict::Live,
            Ok(false) => Verdict::Expired,
            Err(_) => Verdict::Dead,
        })
    }

    /// Notes the versions of a key, and which are kept (both newest first), if they lie in the
    /// segment of `from`, from there on. `None`: unknown because of damage.
    pub(super) fn note(&mut self, hash: u64, key: &[u8], from: Location, found: Option<(&[Spot], &[Spot])>) {
        let mut end = u64::MAX;
        let mut here = found.map(|(all, kept)| {
            let is_here = |s: &&Spot| s.extent.location.segment == from.segment;
            let after = |s: &&Spot| s.extent.location.offset() >= from.offset();
            let here = all.iter().filter(is_here).filter(after);
            let is_kept = |s: &Spot| kept.binary_search_by(|k| s.version.cmp(&k.version)).is_ok();
            here.map(|s| (s.extent.location.offset(), s.version.sequence, is_kept(s))).collect::<Vec<_>>()
        });
        if let Some(versions) = &mut here {
            versions.sort_unstable();
            if let Some(next) = versions.get(self.most) {
                end = next.0;
                versions.retain(|v| v.0 < end);
                versions.shrink_to_fit();
            }
        }
        self.make_room(FEW + here.as_ref().map_or(0, Vec::len));
        let known = Known { key: key.to_vec(), segment: from.segment, offsets: from.offset()..end, versions: here };
        self.by_hash.insert(hash, known);
    }

    /// Returns the versions of a key with a chunk at a place, if noted: `Some(None)` if unknown
    /// because of damage.
    pub(super) fn owners(&self, hash: u64, key: &[u8], chunk: Location) -> Option<Option<Vec<Owner>>> {
        let owners = self.owners.get(&hash).filter(|o| o.key == key)?;
        Some(owners.chunks.as_ref().map(|all| {
            let first = all.partition_point(|o| o.chunk < chunk);
            all[first..].iter().take_while(|o| o.chunk == chunk).copied().collect()
        }))
    }

    /// Notes all versions of a key that have chunks in victims. `None`: unknown because of damage.
    pub(super) fn note_owners(&mut self, hash: u64, key: &[u8], mut chunks: Option<Vec<Owner>>) {
        chunks.iter_mut().for_each(|all| all.sort_unstable_by_key(|o| o.chunk));
        self.make_room(FEW + chunks.as_ref().map_or(0, Vec::len));
        self.owners.insert(hash, Owners { key: key.to_vec(), chunks });
    }

    /// Forgets everything if `more` notes would exceed the limit.
    fn make_room(&mut self, more: usize) {
        self.noted += more;
        if self.noted > self.most {
            self.by_hash.clear();
            self.owners.clear();
            self.noted = more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::location::Extent;
    use crate::record::Version;

    fn spot(sequence: u64, segment: u16, units: u64) -> Spot {
        let extent = Extent { location: Location::new(segment, 64 * units), units: 1 };
        Spot { version: Version { time_ms: 5, sequence }, extent, refers_to: 0, chunked: false }
    }

    #[test]
    fn what_is_known_of_a_chain_is_told_of_its_records_and_of_no_others() {
        let mut chains = Chains { most: 20, ..Chains::default() };
        let all: Vec<Spot> = (1..=30).rev().map(|n| spot(n, (n % 2) as u16, n)).collect();
        let kept = &all[..10];
        chains.note(7, b"k", Location::new(1, 64 * 5), Some((&all, kept)));
        let verdict = |chains: &Chains, sequence, segment, units: u64| {
            chains.verdict(7, b"k", sequence, Location::new(segment, 64 * units))
        };
        assert_eq!(verdict(&chains, 29, 1, 29), Some(Verdict::Live));
        assert_eq!(verdict(&chains, 7, 1, 7), Some(Verdict::Expired));
        assert_eq!(verdict(&chains, 8, 1, 8), Some(Verdict::Dead), "it lies elsewhere");
        assert_eq!(verdict(&chains, 27, 1, 29), Some(Verdict::Dead), "the place is another's");
        assert_eq!(verdict(&chains, 3, 1, 3), None, "it lies before what was looked at");
        assert_eq!(verdict(&chains, 28, 0, 28), None);
        assert_eq!(chains.verdict(7, b"other", 29, Location::new(1, 64 * 29)), None);
        // Above the limit only the first part is noted.
        chains.most = 4;
        chains.note(7, b"k", Location::new(1, 64), Some((&all, kept)));
        assert_eq!(verdict(&chains, 7, 1, 7), Some(Verdict::Expired));
        assert_eq!(verdict(&chains, 9, 1, 9), None);
        chains.note(7, b"k", Location::new(1, 64), None);
        assert_eq!(verdict(&chains, 29, 1, 29), Some(Verdict::Unknown));
    }
}
