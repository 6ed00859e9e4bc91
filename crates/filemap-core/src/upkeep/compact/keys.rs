//! Compaction of the key log: the chains that still have a record in a segment that is mostly dead are written anew at the log's
//! end; the checkpoint that enters them removes the segment.
//!
//! Invariants: which segment it is follows from the segment table alone; a segment into which a damaged chain leads is kept,
//! since its live bytes never come to nothing, and not tried again through the same handle.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::Result;
use crate::failpoint::step;
use crate::format::names;
use crate::format::superblock::Tail;
use crate::limits::Limits;
use crate::logs::scan::Item;
use crate::logs::segments::FIRST_RECORD;
use crate::sync::lock;
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoint::Task;

/// What a plan needs to know of a segment of the key log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    ordinal: u64,
    live_bytes: u64,
    /// Its length, without the header.
    bytes: u64,
}

impl Candidate {
    fn dead_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.live_bytes)
    }
}

/// Which segment is worth being emptied now, if any: when much of the log is dead, the one of which most is.
fn plan(segments: &[Candidate], limits: &Limits) -> Option<Candidate> {
    let bytes: u64 = segments.iter().map(|s| s.bytes).sum();
    let dead_bytes: u64 = segments.iter().map(Candidate::dead_bytes).sum();
    if dead_bytes <= limits.key_dead_bytes
        || u128::from(dead_bytes) * 100 <= u128::from(bytes) * limits.key_dead_percent
    {
        return None;
    }
    let share = |s: &Candidate| u128::from(s.dead_bytes()) * u128::from(u32::MAX) / u128::from(s.bytes.max(1));
    segments.iter().filter(|s| s.dead_bytes() > 0).max_by_key(|s| share(s)).copied()
}

/// Gives back the space of one segment of the key log, if that is worth it; whether it did something. Takes as long as it takes
/// to read the segment and to write what of it is live: other threads go on meanwhile.
///
/// # Errors
/// As of a checkpoint.
pub(crate) fn compact_keys(upkeep: &Upkeep) -> Result<bool> {
    let _turn = upkeep.turn_to_compact()?;
    if lock(&upkeep.checkpointer).holds > 0 {
        // A backup keeps what would be removed.
        return Ok(false);
    }
    let all = candidates(upkeep, &lock(&upkeep.kept_keys))?;
    let Some(victim) = plan(&all, &upkeep.reading.options().limits) else { return Ok(false) };
    empty(upkeep, victim.ordinal, Way::Make).map(|()| true)
}

/// Empties one segment of the key log, whichever the caller picks of so many, however little it gives back: for tests.
///
/// # Errors
/// As of a checkpoint.
#[cfg(feature = "sim")]
pub(crate) fn empty_any(upkeep: &Upkeep, pick: usize) -> Result<()> {
    let _turn = upkeep.turn_to_compact()?;
    let all = candidates(upkeep, &lock(&upkeep.kept_keys))?;
    all.get(pick % all.len().max(1)).map_or(Ok(()), |victim| empty(upkeep, victim.ordinal, Way::Make))
}

/// Segments that may hold bytes of keys that are no more, by ordinal and name: those in which anything is dead, and all that
/// lies from `last` on, where interrupted checkpoints may have left something.
///
/// # Errors
/// `Io`.
pub(super) fn tainted(upkeep: &Upkeep, last: u64) -> Result<Vec<(u64, String)>> {
    let all = candidates(upkeep, &BTreeSet::new())?;
    let is_tainted = |c: &&Candidate| c.ordinal <= last && (c.dead_bytes() > 0 || c.ordinal == last);
    Ok(all.iter().filter(is_tainted).map(|c| (c.ordinal, names::keys(c.ordinal as u16))).collect())
}

/// Empties the segment with an ordinal.
///
/// # Errors
/// As of a checkpoint.
pub(super) fn empty_one(upkeep: &Upkeep, ordinal: u64) -> Result<()> {
    let _turn = upkeep.turn_to_compact()?;
    empty(upkeep, ordinal, Way::Keep)
}

/// Whether compaction of the key log ends early where puts wait for that of the value log. What was done need not be done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Make,
    /// Somebody waits for the segment to be empty.
    Keep,
}

/// Writes anew all chains that have a record in a segment.
fn empty(upkeep: &Upkeep, ordinal: u64, way: Way) -> Result<()> {
    let is_live = || upkeep.reading.segment_table().live_key_bytes(ordinal) > 0;
    for want in [Want::Heads, Want::All] {
        let mut from = Some(FIRST_RECORD);
        // Once at least, even if nothing is live: the segment may be the one that is appended to.
        while let Some(at) = from.filter(|at| is_live() || (want == Want::Heads && *at == FIRST_RECORD)) {
            if upkeep.writing.bells().checkpoint.is_stopped() {
                return Ok(());
            }
            let (chains, next) = gather(upkeep, ordinal, want, at)?;
            step();
            upkeep.checkpoint_with(Task { chains, evacuated: Some(ordinal as u16), ..Task::default() })?;
            if way == Way::Make && upkeep.writing.is_over_space() {
                return Ok(());
            }
            from = next;
        }
    }
    if is_live() {
        lock(&upkeep.kept_keys).insert(ordinal);
    }
    Ok(())
}

/// The segments of the key log, but those that cannot be emptied.
fn candidates(upkeep: &Upkeep, kept: &BTreeSet<u64>) -> Result<Vec<Candidate>> {
    let segment_table = Arc::clone(&upkeep.reading.segment_table());
    let lengths = upkeep.reading.keys().lengths()?.into_iter().filter(|(ordinal, _)| !kept.contains(ordinal));
    let candidate = |(ordinal, len): (u64, u64)| {
        let bytes = len.saturating_sub(FIRST_RECORD);
        Candidate { ordinal, live_bytes: segment_table.live_key_bytes(ordinal), bytes }
    };
    Ok(lengths.map(candidate).collect())
}

/// Whose chains are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Keys whose newest record is there: they are told without another read, and nearly always they are all.
    Heads,
    /// All keys that have a record there, and are live.
    All,
}

/// Hashes of keys whose chains may have a record in a segment, from an offset on, and where to go on: as many as are looked
/// at in one checkpoint.
fn gather(upkeep: &Upkeep, ordinal: u64, want: Want, from: u64) -> Result<(Vec<u64>, Option<u64>)> {
    let mut hashes = Vec::new();
    let Some((segment, file)) = upkeep.reading.keys().file(ordinal)? else { return Ok((hashes, None)) };
    let mut scan = upkeep.reading.keys().scan(&segment, &*file, from..upkeep.reading.keys().until(ordinal))?;
    while let Some(item) = scan.next()? {
        let Item::Record { offset, bytes } = item else { continue };
        let (_, key) = upkeep.reading.keys().decode(&segment, bytes, offset)?;
        let hash = upkeep.reading.hash(key);
        // With a page of the index that is damaged the chain is left alone, and so the segment stays.
        let Ok(slots) = upkeep.reading.candidates(hash) else { continue };
        let here = Some(Tail { ordinal, offset });
        let is_wanted = match want {
            Want::Heads => slots.iter().any(|s| upkeep.reading.keys().position(s.key) == here),
            Want::All => slots.iter().next().is_some(),
        };
        if is_wanted {
            hashes.push(hash);
        }
        if hashes.len() >= upkeep.reading.options().limits.key_round {
            return Ok((hashes, Some(scan.offset())));
        }
    }
    Ok((hashes, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_worth_it_until_much_is_dead_and_then_what_is_most() {
        let limits = Limits { key_dead_bytes: 100, key_dead_percent: 33, ..Limits::default() };
        let segment = |ordinal, live_bytes, bytes| Candidate { ordinal, live_bytes, bytes };
        assert_eq!(plan(&[], &limits), None);
        assert_eq!(plan(&[segment(1, 0, 100)], &limits), None, "too little");
        assert_eq!(plan(&[segment(1, 700, 1000)], &limits), None, "too small a part");
        assert_eq!(plan(&[segment(1, 600, 1000)], &limits), Some(segment(1, 600, 1000)));
        let three = [segment(1, 500, 1000), segment(2, 10, 400), segment(3, 100, 2000), segment(4, 0, 0)];
        assert_eq!(plan(&three, &limits), Some(segment(2, 10, 400)));
        assert_eq!(
            plan(&[segment(1, 1000, 1000), segment(2, 2000, 1000)], &limits),
            None,
            "what cannot be is no reason"
        );
    }
}
