//! Compaction of the key log: rewrites the chains with a record in a mostly dead segment at the
//! end of the log; the checkpoint that enters them removes the segment.
//!
//! Invariants: the choice of the segment depends on the segment table alone. A segment that a
//! damaged chain leads to is kept, since its live bytes never reach 0, and not tried again by the
//! same handle.

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

/// A key-log segment, as the plan sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    ordinal: u64,
    live_bytes: u64,
    /// Its length without the header.
    bytes: u64,
}

impl Candidate {
    fn dead_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.live_bytes)
    }
}

/// Chooses the segment to empty: the one with the greatest dead share, if enough of the log is
/// dead.
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

/// Frees the space of one key-log segment, if that pays. Returns true if it did something. Takes
/// the time to read the segment and rewrite its live chains; other threads continue meanwhile.
///
/// # Errors
/// As of a checkpoint.
pub(crate) fn compact_keys(upkeep: &Upkeep) -> Result<bool> {
    let _turn = upkeep.turn_to_compact()?;
    if lock(&upkeep.checkpointer).holds > 0 {
        // A backup holds the segments that would be removed.
        return Ok(false);
    }
    let all = candidates(upkeep, &lock(&upkeep.kept_keys))?;
    let Some(victim) = plan(&all, &upkeep.reading.options().limits) else { return Ok(false) };
    empty(upkeep, victim.ordinal, Way::Make).map(|()| true)
}

/// For tests: empties the key-log segment with index `pick` modulo their number, however little
/// that frees.
///
/// # Errors
/// As of a checkpoint.
#[cfg(feature = "sim")]
pub(crate) fn empty_any(upkeep: &Upkeep, pick: usize) -> Result<()> {
    let _turn = upkeep.turn_to_compact()?;
    let all = candidates(upkeep, &lock(&upkeep.kept_keys))?;
    all.get(pick % all.len().max(1)).map_or(Ok(()), |victim| empty(upkeep, victim.ordinal, Way::Make))
}

/// Returns ordinal and name of the segments up to `last` that may hold bytes of erased keys: those
/// with dead bytes, and `last`, where interrupted checkpoints may have left bytes.
///
/// # Errors
/// `Io`.
pub(super) fn tainted(upkeep: &Upkeep, last: u64) -> Result<Vec<(u64, String)>> {
    let all = candidates(upkeep, &BTreeSet::new())?;
    let is_tainted = |c: &&Candidate| c.ordinal <= last && (c.dead_bytes() > 0 || c.ordinal == last);
    Ok(all.iter().filter(is_tainted).map(|c| (c.ordinal, names::keys(c.ordinal as u16))).collect())
}

/// Empties the segment with this ordinal.
///
/// # Errors
/// As of a checkpoint.
pub(super) fn empty_one(upkeep: &Upkeep, ordinal: u64) -> Result<()> {
    let _turn = upkeep.turn_to_compact()?;
    empty(upkeep, ordinal, Way::Keep)
}

/// Tells whether key-log compaction ends early when puts wait for compaction of the value log.
/// Work done is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Make,
    /// The caller waits for the segment to be empty.
    Keep,
}

/// Rewrites all chains that have a record in a segment.
fn empty(upkeep: &Upkeep, ordinal: u64, way: Way) -> Result<()> {
    let is_live = || upkeep.reading.segment_table().live_key_bytes(ordinal) > 0;
    for want in [Want::Heads, Want::All] {
        let mut from = Some(FIRST_RECORD);
        // At least once, even if nothing is live: the segment may still be appended to.
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

/// The segments of the key log, except those that could not be emptied.
fn candidates(upkeep: &Upkeep, kept: &BTreeSet<u64>) -> Result<Vec<Candidate>> {
    let segment_table = Arc::clone(&upkeep.reading.segment_table());
    let lengths = upkeep.reading.keys().lengths()?.into_iter().filter(|(ordinal, _)| !kept.contains(ordinal));
    let candidate = |(ordinal, len): (u64, u64)| {
        let bytes = len.saturating_sub(FIRST_RECORD);
        Candidate { ordinal, live_bytes: segment_table.live_key_bytes(ordinal), bytes }
    };
    Ok(lengths.map(candidate).collect())
}

/// Chains to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Keys whose newest record is in the segment. They are known without another read, and are
    /// nearly all.
    Heads,
    /// All live keys with a record in the segment.
    All,
}

/// Returns hashes of keys whose chains may have a record in a segment, from an offset on, as many
/// as one checkpoint handles, and the offset from which to continue.
fn gather(upkeep: &Upkeep, ordinal: u64, want: Want, from: u64) -> Result<(Vec<u64>, Option<u64>)> {
    let mut hashes = Vec::new();
    let Some((segment, file)) = upkeep.reading.keys().file(ordinal)? else { return Ok((hashes, None)) };
    let mut scan = upkeep.reading.keys().scan(&segment, &*file, from..upkeep.reading.keys().until(ordinal))?;
    while let Some(item) = scan.next()? {
        let Item::Record { offset, bytes } = item else { continue };
        let (_, key) = upkeep.reading.keys().decode(&segment, bytes, offset)?;
        let hash = upkeep.reading.hash(key);
        // If the index page is damaged, the chain is left unchanged, and so the segment stays.
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
            "what cannot be is not a reason"
        );
    }
}
