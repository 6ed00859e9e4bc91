//! Iteration over pages in the order of the log.
//!
//! A version moved by compaction meanwhile is returned exactly once: it keeps its sequence, which
//! is marked when it is returned. A segment removed before its turn has left its live versions to
//! segments begun since. So these are scanned, too, until no more segments are removed and no more
//! outputs of compaction get names.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::location::{Extent, Location};
use crate::format::superblock::Tail;
use crate::format::value::{self, Kind};
use crate::handle::reading::Reading;
use crate::handle::spot::Spot;
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::logs::values::read::Want;
use crate::record::{Head, Value, Version};
use crate::sequences::Sequences;
use crate::store::Store;
use crate::store::ranks::{FEW, Ranks};
use crate::store::splits::Split;

impl Store {
    /// The newest version of each live key as of now, in the order of the log: a sequential read
    /// of the whole value log. Ignores pages put meanwhile. Pages removed meanwhile may be
    /// missing; so may replaced ones, if earlier versions are not kept and compaction came first.
    /// No page is returned twice, except one put again after it was returned, if a checkpoint then
    /// drops the version returned. Damaged records are returned as errors, and the iteration
    /// continues; it ends with an error for each missing file ([`Store::absent`]). Takes one bit
    /// of memory for each version.
    pub fn pages(&self) -> Pages {
        Pages::new(Arc::clone(&self.reading), None, true)
    }

    /// [`Store::pages`] with every live version of each key.
    pub fn versions(&self) -> Pages {
        Pages::new(Arc::clone(&self.reading), None, false)
    }
}

/// Iterates over pages; see [`Store::pages`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// for page in store.pages() {
///     let (key, value) = page?;
///     println!("{} bytes of key, {} of body", key.len(), value.body.len());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pages {
    reading: Arc<Reading>,
    newest_only: bool,
    /// The part of the store to read; `None` for all.
    split: Option<Split>,
    /// Filter of the versions to read, by key and version.
    only: Option<Only>,
    /// Filter of the versions to decompress, by key and head.
    wanted: Option<Wanted>,
    /// End of the log when the iteration began, and below it the next sequence there. Anything
    /// later is ignored.
    end: Tail,
    before: u64,
    segments: IntoIter<Arc<Segment>>,
    /// Ordinals of all segments scanned or to be scanned.
    met: HashSet<u64>,
    /// [`Segments::changes`](crate::logs::segments::Segments::changes) when `segments` was chosen.
    changes: u64,
    current: Option<(Arc<Segment>, u64)>,
    handed_out: Sequences,
    /// Hashes of keys returned in a later version: the one at the beginning is no longer kept.
    replaced: HashSet<u64>,
    /// Ranks in keys with many versions.
    ranks: Ranks,
    /// Versions found and not judged yet, and damage.
    batch: IntoIter<Result<(Vec<u8>, Spot)>>,
    /// The iteration is over: closed, cancelled, or listing more segments failed, which was
    /// reported.
    is_ended: bool,
    /// Cancellation check, called by `advance`.
    going: Option<Going>,
    /// Errors for missing files, returned at the end.
    missed: Option<IntoIter<Error>>,
}

type Going = Box<dyn FnMut() -> ControlFlow<()> + Send>;
type Only = Box<dyn Fn(&[u8], Version) -> bool + Send>;
type Wanted = Box<dyn Fn(&[u8], &Head) -> bool + Send>;

filemap_io::debug_fields!(Pages: newest_only);

/// Bytes of log scanned for one batch.
const BATCH_BYTES: u64 = 1 << 20;

/// Returns true if a superblock names an output of compaction; otherwise it may be incomplete. A
/// follower may know of the file before it reads that superblock.
pub(super) fn is_named(reading: &Reading, output: &Segment) -> bool {
    reading.segment_table().names(output.id, output.ordinal)
}

impl Pages {
    /// All pages as of now, or those of a split as of when it was made.
    pub(super) fn new(reading: Arc<Reading>, split: Option<Split>, newest_only: bool) -> Pages {
        let changes = reading.values().segments.changes();
        let (end, before) = split.as_ref().map_or_else(|| reading.log_end(), |s| (s.end, s.before));
        let log = split.as_ref().map_or(0..=end.ordinal, |s| s.from.ordinal..=s.to.ordinal);
        let is_part = |s: &Segment| if s.is_output { is_named(&reading, s) } else { log.contains(&s.ordinal) };
        let all = reading.values().segments.all();
        let segments: Vec<Arc<Segment>> = all.iter().filter(|s| is_part(s)).map(Arc::clone).collect();
        Pages {
            newest_only,
            split,
            only: None,
            wanted: None,
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
            going: None,
            missed: None,
            reading,
        }
    }

    /// Only versions that `only` accepts by key, time and sequence. Of others only the record's
    /// head is read.
    pub fn only(self, only: impl Fn(&[u8], Version) -> bool + Send + 'static) -> Pages {
        Pages { only: Some(Box::new(only)), ..self }
    }

    /// Only pages that `wanted` accepts by key and head. Other bodies are not decompressed.
    pub fn wanted(self, wanted: impl Fn(&[u8], &Head) -> bool + Send + 'static) -> Pages {
        Pages { wanted: Some(Box::new(wanted)), ..self }
    }

    /// Calls `going` repeatedly, also while versions are skipped: before each that may be
    /// returned, and after each mebibyte of the log. After a `Break` the iteration ends with
    /// [`Error::Cancelled`].
    pub fn while_going(self, going: impl FnMut() -> ControlFlow<()> + Send + 'static) -> Pages {
        Pages { going: Some(Box::new(going)), ..self }
    }

    /// The offsets of a segment that are scanned.
    fn range_in(&self, segment: &Segment) -> Range<u64> {
        let (from, to) = self.split.as_ref().map_or((Tail { ordinal: 0, offset: 0 }, self.end), |s| (s.from, s.to));
        let begins = |at: Tail| !segment.is_output && segment.ordinal == at.ordinal;
        let start = if begins(from) { from.offset.max(FIRST_RECORD) } else { FIRST_RECORD };
        start..if begins(to) { to.offset } else { u64::MAX }
    }

    /// Returns true if the version of a sequence was returned.
    pub(super) fn has_met(&self, sequence: u64) -> bool {
        self.handed_out.contains(sequence)
    }

    /// The next sequence when the iteration began: later ones are ignored.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// The next segment and the offset to scan from.
    fn next_segment(&mut self) -> Result<Option<(Arc<Segment>, u64)>> {
        if let Some(current) = self.current.take() {
            return Ok(Some(current));
        }
        loop {
            if let Some(segment) = self.segments.next() {
                let from = self.range_in(&segment).start;
                return Ok(Some((segment, from)));
            }
            self.is_ended = true;
            self.reading.catch_up()?;
            self.is_ended = false;
            let changes = self.reading.values().segments.changes();
            let all = self.reading.values().segments.all();
            let mut is_more = |s: &Segment| s.is_output && is_named(&self.reading, s) && self.met.insert(s.ordinal);
            let more: Vec<_> = all.iter().filter(|s| is_more(s)).map(Arc::clone).collect();
            if changes == self.changes && (more.is_empty() || planted(Fault::OutputsNotAwaited)) {
                return Ok(None);
            }
            self.changes = changes;
            self.segments = more.into_iter();
        }
    }

    /// Scans one batch of a segment.
    fn fill(&mut self) -> Result<bool> {
        if self.is_ended {
            return Ok(false);
        }
        let Some((segment, from)) = self.next_segment()? else { return Ok(false) };
        let file = match self.reading.values().segments.file(&segment) {
            // Removed by compaction: its live versions are elsewhere.
            Err(e) if e.is_corrupt() && self.is_gone(&segment)? => return Ok(true),
            file => file?,
        };
        let (range, sequences) = (from..self.range_in(&segment).end, self.split.as_ref().map(Split::sequences));
        let mut scan = self.reading.values().scan_part(&segment, &*file, range, sequences)?.once();
        let mut batch = Vec::new();
        while scan.offset() < from + BATCH_BYTES {
            match scan.next()? {
                None => break,
                Some(Item::Filler { .. }) => {}
                Some(Item::Gap { offset, what, .. }) => batch.push(Err(segment.corrupt(offset, what))),
                Some(Item::Record { offset, bytes }) => {
                    let Ok(header) = value::peek(bytes) else { continue };
                    let version = Version { time_ms: header.time_ms, sequence: header.sequence };
                    let key = &bytes[header.key_at()..header.meta_at()];
                    if header.kind.is_version() && self.only.as_ref().is_none_or(|only| only(key, version)) {
                        let key = key.to_vec();
                        let spot = Spot {
                            version,
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
        self.reading.catch_up()?;
        Ok(!self.reading.values().segments.get(segment.id).is_ok_and(|s| s.ordinal == segment.ordinal))
    }

    /// The page of a version, if it is to be returned.
    fn judge(&mut self, key: Vec<u8>, spot: &Spot) -> Result<Option<(Vec<u8>, Value)>> {
        let (reading, wanted) = (Arc::clone(&self.reading), self.wanted.take());
        let value = self.met(&key, spot, |_, now| match &wanted {
            Some(wanted) => reading.value_if(&key, now, |head| wanted(&key, head)),
            None => reading.value_at(&key, now).map(Some),
        });
        self.wanted = wanted;
        Ok(value?.flatten().map(|v| (key, v)))
    }

    /// Result of `read` for a version, given its rank and current location; `None` if the version
    /// is not to be returned.
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
        let reading = Arc::clone(&self.reading);
        let mut is_first = true;
        let found = reading.looking_again(|| {
            let Some((rank, now)) = self.rank(key, spot, is_first)? else { return Ok(None) };
            let read = read(rank, &now);
            if matches!(&read, Err(e) if e.is_corrupt()) {
                is_first = planted(Fault::OldPlacesBelieved);
                self.ranks.forget(reading.hash(key));
                if self.rank(key, spot, is_first)?.is_none() {
                    // Removed since it was judged.
                    return Ok(None);
                }
            }
            read.map(|read| Some((read, now.version.sequence)))
        });
        let Some((read, now)) = found? else { return Ok(None) };
        self.handed_out.insert(sequence);
        if now < self.before {
            return Ok(Some(read));
        }
        // No other version of the key is to be returned: cache that, so that none is looked up.
        let hash = self.reading.hash(key);
        self.ranks.note(hash, key, &[], self.reading.values().segments.changes());
        Ok(self.replaced.insert(hash).then_some(read))
    }

    /// Rank of a version among its key's live ones (0 is the newest) and its current location;
    /// `None` if it is not to be returned. A cached rank is trusted at first, with the location
    /// where the version was found. Either the version or its chunks may have moved since.
    fn rank(&mut self, key: &[u8], spot: &Spot, is_first: bool) -> Result<Option<(usize, Spot)>> {
        let hash = self.reading.hash(key);
        let (in_memory, floor) = self.reading.in_memtables(key, hash);
        if floor > spot.version.sequence {
            return Ok(None);
        }
        let changes = self.reading.values().segments.changes();
        if is_first && let Some(rank) = self.ranks.get(hash, key, spot.version.sequence, changes) {
            return Ok(rank.map(|rank| (rank, *spot)));
        }
        if (in_memory, floor) == (None, 0) {
            // Common cases without a read. A slot that leads to this very record belongs to this
            // key. A slot that leads elsewhere in the scanned log is newer, if no other slot has
            // these hash bits.
            let candidates = self.reading.candidates(hash)?;
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
        let mut spots = self.reading.reachable(key)?;
        let (is_long, current) = (spots.len() > FEW, spots.first().copied());
        if self.newest_only {
            // As of the beginning: later puts may have pushed it beyond the number kept.
            spots = spots.into_iter().find(|s| s.version.sequence < self.before).into_iter().collect();
            if spots.is_empty() {
                // It was replaced meanwhile, and dropped: return the current version. Not in a
                // split: another split may return it, which is not known here.
                return Ok(current.filter(|_| self.split.is_none()).map(|s| (0, s)));
            }
        } else {
            self.reading.hide_surplus(&mut spots);
            spots.retain(|s| s.version.sequence < self.before);
        }
        if is_long {
            self.ranks.note(hash, key, &spots, changes);
        }
        Ok(spots.iter().enumerate().find(|(_, s)| s.version == spot.version).map(|(rank, s)| (rank, *s)))
    }

    /// The head of a version found.
    pub(super) fn read_head(reading: &Reading, key: &[u8], spot: &Spot) -> Result<Head> {
        reading.with_spot(key, spot, Want::Head, |raw| raw.head())
    }

    /// Returns true if `place` is another place in the part of the log that every iteration scans.
    fn is_met_later(&self, place: Location, other: Location) -> bool {
        let segment = self.reading.values().segments.get(place.segment);
        segment.is_ok_and(|s| {
            let at = Tail { ordinal: s.ordinal, offset: place.offset() };
            place != other && !s.is_output && at < self.end
        })
    }
}

impl Pages {
    /// The next version that `judge` accepts.
    pub(super) fn advance<T>(
        &mut self,
        judge: impl Fn(&mut Pages, Vec<u8>, &Spot) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        loop {
            if let Err(e) = self.reading.check_open() {
                // Report it once, then end.
                self.batch = Vec::new().into_iter();
                return (!std::mem::replace(&mut self.is_ended, true)).then_some(Err(e));
            }
            if self.going.as_mut().is_some_and(|going| going().is_break()) {
                (self.going, self.is_ended) = (None, true);
                self.batch = Vec::new().into_iter();
                self.missed = Some(Vec::new().into_iter());
                return Some(Err(Error::Cancelled));
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
                        let missed = || self.reading.missed().into_iter();
                        return self.missed.get_or_insert_with(missed).next().map(Err);
                    }
                    Err(e) => return Some(Err(e)),
                },
            }
        }
    }

    pub(super) fn reading(&self) -> Arc<Reading> {
        Arc::clone(&self.reading)
    }
}

impl Iterator for Pages {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(Pages::judge)
    }
}
