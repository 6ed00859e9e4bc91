//! Iteration over pages, in the order of the log.
//!
//! What compaction moves meanwhile is met once and not missed: a version is known by its sequence, which it keeps, and which is
//! marked when it is handed out. A segment that is gone when its turn comes has left its live versions to segments that were
//! begun since, so as long as segments go, what compaction has written is looked through too.

use std::collections::HashSet;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::{Error, Result};
use crate::format::location::{Extent, Location};
use crate::format::superblock::Tail;
use crate::format::value::{self, Kind};
use crate::handle::{Shared, Spot};
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::logs::values::read::Want;
use crate::record::{Head, Value, Version};
use crate::sequences::Sequences;
use crate::store::Store;
use crate::store::ranks::Ranks;

impl Store {
    /// The newest version of each live key as of now, in the order of the log: a sequential read of the whole value log. What
    /// is put meanwhile does not count; what is removed meanwhile may be missed, and so may what is replaced meanwhile if earlier
    /// versions are not kept and compaction has been there first; no page is met twice. Damaged records come as errors, and iteration goes on after
    /// them; at the end so does each file that is absent ([`Store::absent`]). Takes one bit of memory for each version.
    pub fn pages(&self) -> Pages {
        Pages::new(Arc::clone(&self.shared), true)
    }

    /// As [`Store::pages`], with every live version of each key.
    pub fn versions(&self) -> Pages {
        Pages::new(Arc::clone(&self.shared), false)
    }
}

/// Iterates over pages; see [`Store::pages`].
pub struct Pages {
    shared: Arc<Shared>,
    newest_only: bool,
    /// Where the log ended when the iteration began, and the next sequence there: what is later does not count.
    end: Tail,
    before: u64,
    segments: IntoIter<Arc<Segment>>,
    /// Ordinals of all segments that were looked through, or are to be.
    met: HashSet<u64>,
    /// [`Segments::changes`](crate::logs::segments::Segments::changes) when those that are looked through were chosen.
    changes: u64,
    current: Option<(Arc<Segment>, u64)>,
    handed_out: Sequences,
    /// Hashes of keys of which a later version was handed out, as the one of then is not kept.
    replaced: HashSet<u64>,
    /// Of keys with many versions.
    ranks: Ranks,
    /// Versions that were found and not judged yet, and damage.
    batch: IntoIter<Result<(Vec<u8>, Spot)>>,
    /// Nothing more comes: what would be needed to know of more segments failed, which was told.
    is_ended: bool,
    /// Files that are absent, told at the end.
    missed: Option<IntoIter<Error>>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("newest_only", &self.newest_only).finish_non_exhaustive()
    }
}

/// Bytes of log that are looked through for one batch.
const BATCH_BYTES: u64 = 1 << 20;

impl Pages {
    pub(super) fn new(shared: Arc<Shared>, newest_only: bool) -> Pages {
        let changes = shared.values.segments.changes();
        let (end, before) = shared.log_end();
        let is_old = |s: &&Arc<Segment>| s.is_output || s.ordinal <= end.ordinal;
        let segments: Vec<Arc<Segment>> = shared.values.segments.all().iter().filter(is_old).map(Arc::clone).collect();
        Pages {
            newest_only,
            end,
            before,
            met: segments.iter().map(|s| s.ordinal).collect(),
            segments: segments.into_iter(),
            changes,
            current: None,
            handed_out: Sequences::default(),
            replaced: HashSet::new(),
            ranks: Ranks::default(),
            batch: Vec::new().into_iter(),
            is_ended: false,
            missed: None,
            shared,
        }
    }

    /// Whether the version of a sequence was handed out.
    pub(super) fn has_met(&self, sequence: u64) -> bool {
        self.handed_out.contains(sequence)
    }

    /// The next sequence when the iteration began: what is later does not count.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// The segment to go on with, and from where.
    fn next_segment(&mut self) -> Result<Option<(Arc<Segment>, u64)>> {
        if let Some(current) = self.current.take() {
            return Ok(Some(current));
        }
        loop {
            if let Some(segment) = self.segments.next() {
                // Of what compaction has written only what a superblock names is known to be whole.
                if !segment.is_output || self.shared.segment_table.load().names(segment.id, segment.ordinal) {
                    return Ok(Some((segment, FIRST_RECORD)));
                }
                self.met.remove(&segment.ordinal);
                continue;
            }
            self.is_ended = true;
            self.shared.catch_up()?;
            self.is_ended = false;
            let changes = self.shared.values.segments.changes();
            if changes == self.changes {
                return Ok(None);
            }
            self.changes = changes;
            let all = self.shared.values.segments.all();
            let more: Vec<_> =
                all.iter().filter(|s| s.is_output && self.met.insert(s.ordinal)).map(Arc::clone).collect();
            self.segments = more.into_iter();
        }
    }

    /// Reads on through about a batch's bytes of one segment.
    fn fill(&mut self) -> Result<bool> {
        if self.is_ended {
            return Ok(false);
        }
        let Some((segment, from)) = self.next_segment()? else { return Ok(false) };
        let file = match self.shared.values.segments.file(&segment) {
            // Compaction has removed it: what lived in it is met elsewhere.
            Err(e) if e.is_corrupt() && self.is_gone(&segment)? => return Ok(true),
            file => file?,
        };
        let is_last = !segment.is_output && segment.ordinal == self.end.ordinal;
        let end = if is_last { self.end.offset } else { u64::MAX };
        let mut scan = self.shared.values.scan(&segment, &*file, from, end)?.once();
        let mut batch = Vec::new();
        while scan.offset() < from + BATCH_BYTES {
            match scan.next()? {
                None => break,
                Some(Item::Filler { .. }) => {}
                Some(Item::Gap { offset, what, .. }) => batch.push(Err(segment.corrupt(offset, what))),
                Some(Item::Record { offset, bytes }) => {
                    let Ok(header) = value::peek(bytes) else { continue };
                    if header.kind.is_version() {
                        let key = bytes[header.key_at()..header.meta_at()].to_vec();
                        let spot = Spot {
                            version: Version { time_ms: header.time_ms, sequence: header.sequence },
                            extent: Extent::new(Location::new(segment.id, offset), bytes.len() as u64),
                            refers_to: 0,
                            chunked: header.kind == Kind::Chunked,
                        };
                        batch.push(Ok((key, spot)));
                    }
                }
            }
        }
        if scan.offset() > from {
            let at = scan.offset();
            self.current = Some((segment, at));
        }
        self.batch = batch.into_iter();
        Ok(true)
    }

    fn is_gone(&self, segment: &Segment) -> Result<bool> {
        self.shared.catch_up()?;
        Ok(!self.shared.values.segments.get(segment.id).is_ok_and(|s| s.ordinal == segment.ordinal))
    }

    /// The page of a version that was found, if it is one to be met.
    fn judge(&mut self, key: Vec<u8>, spot: &Spot) -> Result<Option<(Vec<u8>, Value)>> {
        let shared = Arc::clone(&self.shared);
        let value = self.met(&key, spot, |_, now| shared.value_at(&key, now))?;
        Ok(value.map(|v| (key, v)))
    }

    /// What `read` makes of a version that was found, given its rank and where it lies now, if it is one to be met.
    pub(super) fn met<T>(
        &mut self,
        key: &[u8],
        spot: &Spot,
        mut read: impl FnMut(usize, &Spot) -> Result<T>,
    ) -> Result<Option<T>> {
        let sequence = spot.version.sequence;
        if sequence >= self.before || self.handed_out.contains(sequence) {
            return Ok(None);
        }
        let shared = Arc::clone(&self.shared);
        let found = shared.looking_again(|| {
            let Some((rank, now)) = self.rank(key, spot)? else { return Ok(None) };
            let read = read(rank, &now);
            if matches!(&read, Err(e) if e.is_corrupt()) {
                self.ranks.forget(shared.hash(key));
                if self.rank(key, spot)?.is_none() {
                    // Removed since it was judged.
                    return Ok(None);
                }
            }
            read.map(|read| Some((read, now.version.sequence)))
        });
        let Some((read, now)) = found? else { return Ok(None) };
        self.handed_out.insert(sequence);
        let is_again = now >= self.before && !self.replaced.insert(self.shared.hash(key));
        Ok((!is_again).then_some(read))
    }

    /// Which of its key's live versions a found one is, the newest being 0, and where it lies now; `None` when it is not one
    /// to be met.
    fn rank(&mut self, key: &[u8], spot: &Spot) -> Result<Option<(usize, Spot)>> {
        let hash = self.shared.hash(key);
        let (in_memory, floor) = self.shared.in_memtables(key, hash);
        if floor > spot.version.sequence {
            return Ok(None);
        }
        let changes = self.shared.values.segments.changes();
        if let Some(rank) = self.ranks.get(hash, key, spot.version.sequence, changes) {
            return Ok(rank.map(|rank| (rank, *spot)));
        }
        if (in_memory, floor) == (None, 0) {
            // The common cases need no read: a slot that leads to this very record is this key's; one that leads elsewhere
            // in the part of the log that counts is newer, if it is the only one with these bits of hash.
            let candidates = self.shared.candidates(hash)?;
            if candidates.iter().any(|s| s.location == spot.extent.location) {
                return Ok(Some((0, *spot)));
            }
            let mut others = candidates.iter();
            if self.newest_only
                && let (Some(slot), None) = (others.next(), others.next())
                && self.is_met_later(slot.location, spot.extent.location)
            {
                return Ok(None);
            }
        }
        let mut spots = self.shared.spots(key)?;
        if spots.iter().any(|s| s.version.sequence < self.before) {
            spots.retain(|s| s.version.sequence < self.before);
            self.ranks.note(hash, key, &spots, self.newest_only, changes);
        }
        let mut live = spots.iter().filter(|s| s.version.sequence < self.before).enumerate();
        if self.newest_only {
            return Ok(match live.next() {
                Some(newest) => Some(newest).filter(|n| n.1.version == spot.version),
                // It was replaced meanwhile, and is not kept: the page is what it is now.
                None => spots.first().map(|s| (0, s)),
            }
            .map(|(rank, s)| (rank, *s)));
        }
        Ok(live.find(|(_, s)| s.version == spot.version).map(|(rank, s)| (rank, *s)))
    }

    /// The head of a version that was found.
    pub(super) fn read_head(shared: &Shared, key: &[u8], spot: &Spot) -> Result<Head> {
        shared.with_spot(key, spot, Want::Head, |raw| raw.head())
    }

    /// Whether a place is another one in the part of the log that is looked through in any case.
    fn is_met_later(&self, place: Location, other: Location) -> bool {
        let segment = self.shared.values.segments.get(place.segment);
        segment.is_ok_and(|s| {
            let at = Tail { ordinal: s.ordinal, offset: place.offset() };
            place != other && !s.is_output && at < self.end
        })
    }
}

impl Pages {
    /// The next version that `judge` wants.
    pub(super) fn advance<T>(
        &mut self,
        judge: impl Fn(&mut Pages, Vec<u8>, &Spot) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        loop {
            if let Err(e) = self.shared.check_open() {
                // Once, and then nothing more.
                self.batch = Vec::new().into_iter();
                return (!std::mem::replace(&mut self.is_ended, true)).then_some(Err(e));
            }
            match self.batch.next() {
                Some(Err(e)) => return Some(Err(e)),
                Some(Ok((key, spot))) => {
                    if let Some(page) = judge(self, key, &spot).transpose() {
                        return Some(page);
                    }
                }
                None => match self.fill() {
                    Ok(true) => {}
                    Ok(false) => {
                        let missed = || self.shared.missed().into_iter();
                        return self.missed.get_or_insert_with(missed).next().map(Err);
                    }
                    Err(e) => return Some(Err(e)),
                },
            }
        }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl Iterator for Pages {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(Pages::judge)
    }
}
