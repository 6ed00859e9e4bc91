//! Finds the records of the value log that represent changes, in the order of their sequences.
//!
//! Sequences rise along the log, and each belongs to one record. So the next change lies in the
//! segment of the log that holds its sequence. If compaction has removed that segment, it lies in
//! an output of compaction; the outputs are searched for the sequences missing from the log.

use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted, step};
use crate::format::superblock::Tail;
use crate::format::value::{self, Kind, Removed};
use crate::handle::reading::Reading;
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::record::Version;
use crate::store::pages::is_named;

/// Bytes of the log scanned for one batch.
const BATCH_BYTES: u64 = 1 << 20;
/// Bytes of a segment below which the search for a sequence scans instead of halving again.
const NEAR_BYTES: u64 = 1 << 20;
/// Records read for one batch of those that a search of compaction's outputs has found.
const FOUND_BATCH: usize = 256;

/// A record of the log that represents a change.
pub(super) struct Found {
    pub(super) key: Vec<u8>,
    pub(super) version: Version,
    pub(super) what: What,
}

/// Kind of change.
pub(super) enum What {
    Put,
    /// All versions were removed.
    Removed,
    /// One version was removed.
    RemovedOne(Removed),
}

/// Location of the next sequence.
enum Source {
    Unknown,
    /// At or after this offset of a segment of the log.
    Log(Arc<Segment>, u64),
    /// Among these records of compaction's outputs, sorted by sequence, if it is below the number.
    Moved(VecDeque<Moved>, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moved {
    sequence: u64,
    segment: u16,
    offset: u64,
}

/// Finds records from a given sequence on.
pub(super) struct Since {
    reading: Arc<Reading>,
    /// The place at which the search ends, and the next sequence there.
    pub(super) end: (Tail, u64),
    /// Records found and not popped yet, in order. Every sequence below `covered` is among them or
    /// was popped.
    ahead: VecDeque<Result<Found>>,
    covered: u64,
    source: Source,
}

impl Since {
    /// Starts at sequence `next` and ends at the given end of the log.
    pub(super) fn new(reading: Arc<Reading>, next: u64, end: (Tail, u64)) -> Since {
        Since { reading, end, ahead: VecDeque::new(), covered: next, source: Source::Unknown }
    }

    /// The next record found, or damage; `None` if nothing is buffered.
    pub(super) fn pop(&mut self) -> Option<Result<Found>> {
        self.ahead.pop_front()
    }

    /// Puts a popped record back.
    pub(super) fn unpop(&mut self, found: Found) {
        self.ahead.push_front(Ok(found));
    }

    /// Every record with a lower sequence was found.
    pub(super) fn covered(&self) -> u64 {
        self.covered.min(self.end.1)
    }

    /// Finds the next batch of records, or its location. Records with sequences below `from` were
    /// popped, and none are buffered.
    ///
    /// # Errors
    /// `Corrupt` if a file is missing or was replaced; `Io`; `Closed`. Damage in a file is
    /// buffered like a record, not returned as an error.
    pub(super) fn read_some(&mut self, from: u64) -> Result<()> {
        let reading = Arc::clone(&self.reading);
        reading.looking_again(|| {
            self.reading.check_open()?;
            let done = match std::mem::replace(&mut self.source, Source::Unknown) {
                Source::Unknown => self.find(),
                Source::Log(segment, offset) => self.read_log(segment, offset),
                Source::Moved(moved, until) => self.read_moved(moved, until),
            };
            if done.is_err() {
                (self.source, self.covered) = (Source::Unknown, from);
                self.ahead.clear();
            }
            done
        })
    }

    /// The segments of the log that may hold changes, in order.
    fn log(&self) -> Vec<Arc<Segment>> {
        let mut log = self.reading.values().segments.log();
        log.retain(|s| s.ordinal <= self.end.0.ordinal);
        log
    }

    /// End of the part of a segment that is searched.
    fn end_of(&self, segment: &Segment) -> u64 {
        if segment.ordinal == self.end.0.ordinal { self.end.0.offset } else { u64::MAX }
    }

    /// The sequence of a segment's first record, if it has one.
    fn first_sequence(&self, segment: &Arc<Segment>) -> Result<Option<u64>> {
        let range = FIRST_RECORD..self.length(segment)?;
        Ok(self.reading.values().first_head(segment, range, |_| true)?.map(|(_, sequence)| sequence))
    }

    fn length(&self, segment: &Arc<Segment>) -> Result<u64> {
        let file = self.reading.values().segments.file(segment)?;
        let bytes = file.len().map_err(Error::io("measure", segment.name()))?;
        Ok(bytes.min(self.end_of(segment)))
    }

    /// Finds the segment of the log with the next sequence, and an offset at or before its record;
    /// otherwise searches the outputs of compaction.
    fn find(&mut self) -> Result<()> {
        let mut after = self.end.1;
        for segment in self.log().iter().rev() {
            let Some(first) = self.first_sequence(segment)? else { continue };
            if first <= self.covered {
                let offset = self.place_before(segment)?;
                self.source = Source::Log(Arc::clone(segment), offset);
                return Ok(());
            }
            after = first;
        }
        self.search_moved(after)
    }

    /// Bisects a segment for the offset of a record at or before the next sequence.
    fn place_before(&self, segment: &Arc<Segment>) -> Result<u64> {
        let (mut from, mut to, mut least) = (FIRST_RECORD, self.length(segment)?, 0);
        while to.saturating_sub(from) > NEAR_BYTES {
            let middle = from.midpoint(to);
            match self.reading.values().first_head(segment, middle..to, |_| true)? {
                // Bytes in the middle of a body may look like a head, perhaps an old one.
                Some((offset, sequence)) if (least..=self.covered).contains(&sequence) => {
                    (from, least) = (offset, sequence);
                }
                _ => to = middle,
            }
        }
        Ok(from)
    }

    /// Reads a batch of a segment of the log.
    fn read_log(&mut self, segment: Arc<Segment>, from: u64) -> Result<()> {
        let file = self.reading.values().segments.file(&segment)?;
        let mut scan = self.reading.values().scan(&segment, &*file, from, self.end_of(&segment))?;
        // Damage before records returned earlier was returned with them.
        let mut damage = Vec::new();
        while scan.offset() < from + BATCH_BYTES {
            match scan.next()? {
                None => {
                    let offset = scan.offset();
                    self.ahead.extend(damage.into_iter().map(Err));
                    return self.after_segment(segment, offset);
                }
                Some(Item::Filler { .. }) => {}
                Some(Item::Gap { offset, what, .. }) => damage.push(segment.corrupt(offset, what)),
                Some(Item::Record { bytes, .. }) => {
                    let Ok(header) = value::peek(bytes) else { continue };
                    if header.sequence < self.covered {
                        damage.clear();
                        continue;
                    }
                    self.ahead.extend(damage.drain(..).map(Err));
                    self.covered = header.sequence + 1;
                    self.ahead.extend(found(&header, bytes).map(Ok));
                }
            }
        }
        let offset = scan.offset();
        self.ahead.extend(damage.into_iter().map(Err));
        self.source = Source::Log(segment, offset);
        Ok(())
    }

    /// Continues behind a segment that was read to its end.
    fn after_segment(&mut self, segment: Arc<Segment>, offset: u64) -> Result<()> {
        if segment.ordinal == self.end.0.ordinal {
            self.covered = self.end.1;
            self.source = Source::Log(segment, offset);
            return Ok(());
        }
        for next in self.log().into_iter().filter(|s| s.ordinal > segment.ordinal) {
            let Some(first) = self.first_sequence(&next)? else { continue };
            if first <= self.covered || planted(Fault::MovedNotTold) {
                self.source = Source::Log(next, FIRST_RECORD);
                return Ok(());
            }
            return self.search_moved(first);
        }
        self.search_moved(self.end.1)
    }

    /// Searches the outputs of compaction for the sequences from the next one up to `until`, which
    /// no segment of the log has. Records moved to another output meanwhile are found there.
    fn search_moved(&mut self, until: u64) -> Result<()> {
        let wanted = self.covered..until;
        let (mut next, mut met) = (BinaryHeap::new(), HashSet::new());
        loop {
            let outputs = self.outputs(wanted.start)?;
            let new: Vec<_> = outputs.iter().filter(|s| met.insert(s.ordinal)).collect();
            if new.is_empty() {
                break;
            }
            for segment in new {
                match self.search_output(segment, &wanted, &mut next) {
                    // Its records were moved again, to an output begun since.
                    Err(e) if e.is_corrupt() && self.is_gone(segment)? => {}
                    searched => searched?,
                }
            }
            if planted(Fault::MovedOnceTold) {
                break;
            }
        }
        let is_cut = next.len() >= self.reading.options().limits.moved_found;
        let moved = VecDeque::from(next.into_sorted_vec());
        let end = moved.back().filter(|_| is_cut).map_or(until, |last: &Moved| last.sequence + 1);
        if !wanted.is_empty() && !is_cut {
            // Sequences of a missing file are in no other file.
            self.ahead.extend(self.reading.missed().into_iter().map(Err));
        }
        self.source = Source::Moved(moved, end);
        Ok(())
    }

    /// The outputs of compaction that may hold this sequence or a later one, all as of one moment.
    fn outputs(&self, sequence: u64) -> Result<Vec<Arc<Segment>>> {
        let segments = &self.reading.values().segments;
        loop {
            let changes = segments.changes();
            // A follower may know of files that it does not know to be named, and vice versa.
            self.reading.follow_writer()?;
            let all = segments.all();
            // An output holds only records put before it was begun.
            let may_have = |s: &&Arc<Segment>| s.is_output && s.floor > sequence && is_named(&self.reading, s);
            let outputs = all.iter().filter(may_have).map(Arc::clone).collect();
            if segments.changes() == changes {
                return Ok(outputs);
            }
        }
    }

    /// Returns whether a segment was removed.
    fn is_gone(&self, segment: &Segment) -> Result<bool> {
        self.reading.catch_up()?;
        Ok(!self.reading.values().segments.get(segment.id).is_ok_and(|s| s.ordinal == segment.ordinal))
    }

    /// Adds the records of an output with these sequences: the lowest ones, as many as fit.
    fn search_output(
        &mut self,
        segment: &Arc<Segment>,
        wanted: &Range<u64>,
        next: &mut BinaryHeap<Moved>,
    ) -> Result<()> {
        let most = self.reading.options().limits.moved_found;
        let file = self.reading.values().segments.file(segment)?;
        let mut scan = self.reading.values().scan(segment, &*file, FIRST_RECORD, u64::MAX)?.once();
        while let Some(item) = scan.next()? {
            match item {
                Item::Filler { .. } => {}
                Item::Gap { offset, what, .. } => self.ahead.push_back(Err(segment.corrupt(offset, what))),
                Item::Record { offset, bytes } => {
                    let Ok(header) = value::peek(bytes) else { continue };
                    if wanted.contains(&header.sequence) && header.kind != Kind::Chunk {
                        next.push(Moved { sequence: header.sequence, segment: segment.id, offset });
                        if next.len() > most {
                            next.pop();
                        }
                    }
                }
            }
        }
        step();
        Ok(())
    }

    /// Reads a batch of the records that a search of the outputs has found.
    fn read_moved(&mut self, mut moved: VecDeque<Moved>, until: u64) -> Result<()> {
        for at in moved.drain(..moved.len().min(FOUND_BATCH)).collect::<Vec<_>>() {
            let segment = self.reading.values().segments.get(at.segment)?;
            let file = self.reading.values().segments.file(&segment)?;
            let mut scan = self.reading.values().scan(&segment, &*file, at.offset, u64::MAX)?;
            let record = match scan.next()? {
                Some(Item::Record { offset, bytes }) if offset == at.offset => {
                    value::peek(bytes).ok().filter(|h| h.sequence == at.sequence).map(|h| found(&h, bytes))
                }
                _ => None,
            };
            // Another segment may have reused the number.
            let record = record.ok_or_else(|| segment.corrupt(at.offset, "the record that was here is missing"))?;
            // Two outputs may hold it, until a crashed compaction is cleaned up.
            if at.sequence >= self.covered {
                self.ahead.extend(record.map(Ok));
                self.covered = at.sequence + 1;
            }
        }
        if moved.is_empty() {
            self.covered = self.covered.max(until);
            return Ok(());
        }
        self.source = Source::Moved(moved, until);
        Ok(())
    }
}

/// The change that a record represents; `None` for a part of another record's body.
fn found(header: &value::Header, bytes: &[u8]) -> Option<Found> {
    let what = match (header.kind, Removed::of(header, bytes)) {
        (Kind::Tombstone, Some(removed)) => What::RemovedOne(removed),
        (Kind::Tombstone, None) => What::Removed,
        (kind, _) if kind.is_version() => What::Put,
        _ => return None,
    };
    let version = Version { time_ms: header.time_ms, sequence: header.sequence };
    Some(Found { key: bytes[header.key_at()..header.meta_at()].to_vec(), version, what })
}
