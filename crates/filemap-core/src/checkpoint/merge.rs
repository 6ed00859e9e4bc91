//! What the versions of one key in the recent table make of its slot and its chain of key records.
//!
//! The head of a chain is its newest version; the rest may be in any order, and a version may stand in it twice (readers
//! drop the second). So a put of an older time is chained behind a restated head, and nothing written is ever changed.

use std::collections::HashSet;
use std::sync::Arc;

use crate::buggify::{Fault, planted};
use crate::error::Result;
use crate::format::key::KeyRecord;
use crate::format::leaf::Slot;
use crate::keys::KeyAppender;
use crate::recent::{Entry, Found};
use crate::state::{Spot, chain, sort_versions};
use crate::values::read::Want;
use crate::values::segments::Segments;

pub(super) struct Merge<'a> {
    pub(super) keys: &'a mut KeyAppender,
    pub(super) segments: &'a Arc<Segments>,
    pub(super) keep: Option<u32>,
    pub(super) replayed_below: u64,
}

/// A key's place among a leaf's slots.
struct Existing {
    at: usize,
    head: KeyRecord,
    address: u64,
}

impl Merge<'_> {
    /// Asks for the key records that merging keys with these hash bits will read.
    pub(super) fn read_ahead(&self, slots: &[Slot], hashes: impl Iterator<Item = u64>) {
        for hash in hashes {
            let first = slots.partition_point(|s| s.hash < hash);
            slots[first..].iter().take_while(|s| s.hash == hash).for_each(|s| self.keys.will_need(s.key));
        }
    }

    /// Merges one key: `found` and `versions` are what the recent table knows of it, `slots` those of its leaf.
    pub(super) fn key(
        &mut self,
        slots: &mut Vec<Slot>,
        hash: u64,
        key: &[u8],
        found: &Found,
        versions: Vec<Entry>,
    ) -> Result<()> {
        let existing = self.find(slots, hash, key)?;
        let mut new: Vec<Spot> = versions.into_iter().map(Spot::from).collect();
        let chained = if found.floor > 0 && !planted(Fault::TombstonesNotMerged) {
            None
        } else {
            existing.as_ref().map(|e| (e.address, e.head))
        };
        let replayed = chained.is_some() && new.iter().any(|s| s.version.sequence < self.replayed_below);
        if let (Some((address, head)), true) = (chained, replayed) {
            let there: HashSet<u64> = self.chain(address, head)?.iter().map(|s| s.version.sequence).collect();
            new.retain(|s| !there.contains(&s.version.sequence));
        }
        sort_versions(&mut new);
        new.reverse();
        let at = existing.map(|e| e.at);
        let newest = match (new.last(), chained) {
            (None, None) => {
                if let Some(at) = at {
                    slots.remove(at);
                }
                return Ok(());
            }
            (None, Some(_)) => return Ok(()),
            (Some(last), Some((_, head))) if head.version > last.version => Spot::from(&head),
            (Some(last), _) => *last,
        };
        let address = self.extend(key, chained, new, replayed)?;
        let slot = Slot { hash, key: address, location: newest.location, size: newest.size };
        match at {
            Some(at) => slots[at] = slot,
            None => slots.insert(slots.partition_point(|s| s.hash < hash), slot),
        }
        Ok(())
    }

    /// The slot of a key among those of its leaf. Its identity is the key in its key record or, when that is damaged, in its
    /// value record; when both are, the slot is left alone.
    fn find(&self, slots: &[Slot], hash: u64, key: &[u8]) -> Result<Option<Existing>> {
        let first = slots.partition_point(|s| s.hash < hash);
        for (at, slot) in slots.iter().enumerate().skip(first).take_while(|(_, s)| s.hash == hash) {
            match self.keys.read(slot.key) {
                Ok((head, k)) if k == key => return Ok(Some(Existing { at, head, address: slot.key })),
                Ok(_) => {}
                Err(e) if e.is_corrupt() => {
                    if let Some(head) = self.record_by_value(slot, key)? {
                        return Ok(Some(Existing { at, head, address: 0 }));
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// A key record as the value record tells it, for when the key record is lost: the chain behind it is lost too.
    fn record_by_value(&self, slot: &Slot, key: &[u8]) -> Result<Option<KeyRecord>> {
        let read = self.segments.with_record(slot.location, slot.size, Want::Head, |raw| {
            let refers_to = if raw.header.kind == crate::format::value::Kind::Reference { raw.refers_to() } else { 0 };
            let record = KeyRecord {
                key_bytes: key.len() as u32,
                version: raw.version(),
                location: slot.location,
                size: slot.size,
                previous: 0,
                chain: 1,
                refers_to,
                holder: 0,
            };
            Ok((raw.key() == key).then_some(record))
        });
        match read {
            Err(e) if e.is_corrupt() => Ok(None),
            read => read,
        }
    }

    fn chain(&self, address: u64, head: KeyRecord) -> Result<Vec<Spot>> {
        if address == 0 {
            return Ok(vec![Spot::from(&head)]);
        }
        chain(address, head, |at| match self.keys.read(at) {
            Ok((record, _)) => Ok(Some(record)),
            // What lies behind a damaged record is lost to readers too; it must not keep the rest from being merged.
            Err(e) if e.is_corrupt() => Ok(None),
            Err(e) => Err(e),
        })
    }

    /// Appends key records for the new versions, oldest first, behind what is chained; the address of the newest.
    /// Of versions that were `replayed` an interrupted checkpoint may have dropped some, with what they refer to: those must
    /// not come back.
    fn extend(&mut self, key: &[u8], chained: Option<(u64, KeyRecord)>, new: Vec<Spot>, replayed: bool) -> Result<u64> {
        let length = chained.map_or(0, |(_, h)| h.chain) as usize + new.len();
        let (mut address, mut count, records) = match (chained, self.keep) {
            (Some((address, head)), Some(keep)) if replayed || length > 2 * keep as usize => {
                let mut all = self.chain(address, head)?;
                all.extend(new);
                (0, 0, kept(all, keep as usize))
            }
            // A head whose record is damaged is written again.
            (Some((0, head)), _) => (0, 0, in_order(Some(Spot::from(&head)), new)),
            (Some((address, head)), _) => {
                let newest = new.last().map(|s| s.version);
                let restated = newest.is_some_and(|n| head.version > n) || new.iter().any(|s| s.version < head.version);
                let head_spot = restated.then(|| Spot::from(&head));
                (address, head.chain, in_order(head_spot, new))
            }
            (None, Some(keep)) => (0, 0, kept(new, keep as usize)),
            (None, None) => (0, 0, new),
        };
        let mut holders = Holders::new(chained);
        for spot in records {
            count += 1;
            let record = KeyRecord {
                key_bytes: key.len() as u32,
                version: spot.version,
                location: spot.location,
                size: spot.size,
                previous: address,
                chain: count,
                refers_to: spot.refers_to,
                holder: holders.find(spot.refers_to),
            };
            address = self.keys.append(&record, key)?;
            holders.add(spot.version.sequence, address);
        }
        Ok(address)
    }
}

/// Addresses of the versions that hold bodies, as far as they are at hand: those just appended, the former head, and the one
/// that the former head named.
struct Holders {
    known: Vec<(u64, u64)>,
}

impl Holders {
    fn new(chained: Option<(u64, KeyRecord)>) -> Holders {
        let known = chained.map(|(address, h)| vec![(h.version.sequence, address), (h.refers_to, h.holder)]);
        Holders { known: known.unwrap_or_default() }
    }

    fn add(&mut self, sequence: u64, address: u64) {
        // Only the latest are worth remembering: a reader that finds none walks the chain.
        if self.known.len() >= 64 {
            self.known.remove(0);
        }
        self.known.push((sequence, address));
    }

    /// The address of the version with a sequence; 0 when it is not known, or for no version.
    fn find(&self, sequence: u64) -> u64 {
        let found = self.known.iter().rev().find(|k| sequence != 0 && k.0 == sequence);
        found.map_or(0, |k| k.1)
    }
}

/// Oldest first.
fn in_order(head: Option<Spot>, mut new: Vec<Spot>) -> Vec<Spot> {
    new.extend(head);
    new.sort_by_key(|s| s.version);
    new
}

/// The newest `keep` versions and those that hold the bodies of any of them, oldest first.
fn kept(mut all: Vec<Spot>, keep: usize) -> Vec<Spot> {
    sort_versions(&mut all);
    let holders: Vec<u64> = all.iter().take(keep).map(|s| s.refers_to).filter(|&r| r != 0).collect();
    let mut kept: Vec<Spot> = Vec::new();
    for (i, spot) in all.iter().enumerate() {
        if i < keep || holders.contains(&spot.version.sequence) {
            kept.push(*spot);
        }
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::location::{Location, SizeClass};
    use crate::record::Version;

    fn spot(time_ms: i64, sequence: u64, refers_to: u64) -> Spot {
        let version = Version { time_ms, sequence };
        Spot { version, location: Location::new(0, 64 * sequence), size: SizeClass(0), refers_to }
    }

    #[test]
    fn what_a_kept_version_refers_to_is_kept_with_it() {
        let all = vec![spot(1, 1, 0), spot(2, 2, 0), spot(3, 3, 1), spot(3, 3, 1)];
        let sequences = |keep| kept(all.clone(), keep).iter().map(|s| s.version.sequence).collect::<Vec<_>>();
        assert_eq!(sequences(1), [1, 3]);
        assert_eq!(sequences(2), [1, 2, 3]);
    }
}
