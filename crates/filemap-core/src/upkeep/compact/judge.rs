//! Judges the records that compaction finds in a victim.
//!
//! A verdict need not hold later: the checkpoint that follows checks again, and moves only
//! versions whose old place the index still names.

use std::collections::HashSet;

use crate::error::Result;
use crate::format::location::Location;
use crate::format::value::Header;
use crate::handle::reading::Reading;
use crate::handle::retention::Retention;
use crate::handle::spot::Spot;
use crate::logs::values::read::Want;
use crate::upkeep::compact::chains::{Chains, FEW, Owner, Verdict};

/// Judges a page, a reference or a list of chunks at a given place. `is_led_to`: a slot of the
/// index led there a moment ago. Notes the versions of keys that have many.
pub(super) fn judge(
    reading: &Reading,
    key: &[u8],
    header: &Header,
    (at, is_led_to): (Location, bool),
    retention: Retention,
    chains: &mut Chains,
) -> Result<Verdict> {
    let hash = reading.hash(key);
    let (in_memory, floor) = reading.in_memtables(key, hash);
    if floor > header.sequence {
        return Ok(Verdict::Dead);
    }
    if let Some(verdict) = chains.verdict(hash, key, header.sequence, at) {
        return Ok(verdict);
    }
    if retention.since_ms.is_none() && in_memory.is_none() && floor == 0 {
        // The common case needs no key record: the slot leads here.
        if is_led_to {
            return Ok(Verdict::Live);
        }
        match reading.candidates(hash) {
            Ok(found) if found.iter().any(|s| s.location == at) => return Ok(Verdict::Live),
            Ok(found) if found.iter().next().is_none() => return Ok(Verdict::Dead),
            Ok(_) => {}
            Err(e) if e.is_corrupt() => return Ok(Verdict::Unknown),
            Err(e) => return Err(e),
        }
    }
    let is_it = |s: &Spot| s.version.sequence == header.sequence && s.extent.location == at;
    if in_memory.is_some() && is_before_memtables(reading, header.sequence) {
        // A key that was put often has many records here, and many entries in memory that do not
        // lead to them.
        match reading.indexed_chain(key, hash) {
            Ok(chain) if chain.as_ref().is_some_and(|c| c.len() > FEW) => {}
            Ok(chain) if !chain.iter().flatten().any(is_it) => return Ok(Verdict::Dead),
            Ok(_) if retention.keeps_all() => return Ok(Verdict::Live),
            Ok(_) => {}
            Err(e) if e.is_corrupt() => return Ok(Verdict::Unknown),
            Err(e) => return Err(e),
        }
    }
    let spots = match reading.all_spots(key, hash) {
        Err(e) if e.is_corrupt() => {
            chains.note(hash, key, at, None);
            return Ok(Verdict::Unknown);
        }
        spots => spots?,
    };
    if spots.len() > FEW {
        chains.note(hash, key, at, Some((&spots, &retention.kept(spots.clone()))));
    }
    if !spots.iter().any(is_it) {
        return Ok(Verdict::Dead);
    }
    Ok(if retention.kept(spots).iter().any(is_it) { Verdict::Live } else { Verdict::Expired })
}

/// Returns true if no record with this sequence can be in a memtable, so that a later lookup in
/// the index finds it, if it exists.
fn is_before_memtables(reading: &Reading, sequence: u64) -> bool {
    let tables = reading.tables();
    let both = [Some(&tables.active), tables.frozen.as_ref()];
    both.into_iter().flatten().all(|table| sequence < table.least_sequence())
}

/// Returns the versions of a key with a chunk at a place in a victim. `None`: unknown because of
/// damage.
pub(super) fn owners(
    reading: &Reading,
    key: &[u8],
    chunk: Location,
    retention: Retention,
    (victims, chains): (&HashSet<u16>, &mut Chains),
) -> Result<Option<Vec<Owner>>> {
    let hash = reading.hash(key);
    if let Some(owners) = chains.owners(hash, key, chunk) {
        return Ok(owners);
    }
    let all = match all_owners(reading, key, hash, retention, victims) {
        Err(e) if e.is_corrupt() => None,
        all => Some(all?),
    };
    let is_it = |o: &&Owner| o.chunk == chunk;
    let owners = all.as_ref().map(|all| all.iter().filter(is_it).copied().collect());
    chains.note_owners(hash, key, all);
    Ok(owners)
}

/// Returns all chunks in victims that belong to versions of a key.
fn all_owners(
    reading: &Reading,
    key: &[u8],
    hash: u64,
    retention: Retention,
    victims: &HashSet<u16>,
) -> Result<Vec<Owner>> {
    let spots = reading.all_spots(key, hash)?;
    let kept = retention.kept(spots.clone());
    let mut owners = Vec::new();
    for spot in spots.into_iter().filter(|s| s.chunked) {
        reading.check_open()?;
        let is_kept = kept.binary_search_by(|k| spot.version.cmp(&k.version)).is_ok();
        let list = reading.with_spot(key, &spot, Want::Whole, |raw| raw.chunks())?;
        let here = list.iter().map(|c| c.location).filter(|l| victims.contains(&l.segment));
        owners.extend(here.map(|chunk| Owner { chunk, spot, is_kept }));
    }
    Ok(owners)
}
