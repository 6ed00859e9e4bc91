//! The writing side of a handle: records get their sequences and go into a segment; a full segment
//! is sealed and handed to the commits.
//!
//! A rewrite copies live records of segments into a new one, and then moves the rows of those not
//! removed meanwhile: see `compact`.
//!
//! Locks, outermost first: the row-move lock, so that a rewrite moves no row that a change has
//! read; the stripe of a URL, which makes a check and its put atomic; the segment being filled. No
//! segment lock is held during a request to object storage.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use filemap_core::Version;
use tokio::sync::mpsc::UnboundedSender;
use xxhash_rust::xxh3::xxh3_64;

use crate::commit::Sealed;
use crate::draft::Draft;
use crate::due::Due;
use crate::error::{Error, Result};
use crate::failpoint::Fault;
use crate::format::record::{Place, Record};
use crate::format::row::{self, Row};
use crate::format::segment::{Builder, SegmentId, Summary};
use crate::format::sources::{self, Sources};
use crate::index::Changes;
use crate::pending::Pending;
use crate::progress::Progress;

/// The maximum length of a segment name in a tombstone.
const HOLDER_BYTES: usize = 20;
/// Number of stripes of the URL locks.
const STRIPES: usize = 64;

/// Takes records into segments, and rewrites segments.
pub(crate) struct Writer {
    pub(crate) epoch: u64,
    /// The first uncommitted sequence when the store was opened.
    base: u64,
    segment_bytes: usize,
    unsynced_bytes: usize,
    location: String,
    pub(crate) fault: Option<Fault>,
    pub(crate) pending: Arc<Pending>,
    pub(crate) progress: Arc<Progress>,
    /// Held by the running compaction.
    pub(crate) compacting: Mutex<()>,
    pub(crate) closing: AtomicBool,
    pub(crate) due: Arc<Due>,
    moving: RwLock<()>,
    stripes: [Mutex<()>; STRIPES],
    filling: Mutex<Filling>,
}

struct Filling {
    /// `None` if nothing was put since the last seal.
    segment: Option<Builder>,
    changes: Changes,
    unsynced: usize,
    next_sequence: u64,
    last_number: u64,
    /// Number of segments sealed so far; commits follow in this order.
    sealed: u64,
    rewriting: Option<Rewriting>,
    /// `None` when the handle is closed.
    commits: Option<UnboundedSender<Sealed>>,
}

impl Filling {
    /// Encodes the segments that hold these versions, for a tombstone.
    fn holders(&self, versions: &[(Version, Row)]) -> Vec<u8> {
        let mut segments: BTreeSet<SegmentId> = versions.iter().map(|(_, row)| row.segment()).collect();
        if let Some(rewriting) = &self.rewriting
            && !segments.is_disjoint(&rewriting.sources)
        {
            segments.insert(rewriting.id);
        }
        sources::holders(&segments)
    }
}

/// A running rewrite.
struct Rewriting {
    id: SegmentId,
    sources: BTreeSet<SegmentId>,
    /// Rows of versions removed since it began.
    removed: HashSet<Vec<u8>>,
}

/// A segment of copied live records, complete except for the names of the segments it replaces.
pub(crate) struct Rewritten {
    pub(crate) segment: Builder,
    pub(crate) sources: Sources,
    /// The new rows of its versions.
    pub(crate) rows: BTreeMap<Vec<u8>, Row>,
    /// The time, in ms since 1970.
    pub(crate) now_ms: u64,
}

/// Locks out other changes of a URL, and prevents its rows from being moved.
pub(crate) struct Locked<'a> {
    _moving: RwLockReadGuard<'a, ()>,
    _stripe: MutexGuard<'a, ()>,
}

/// The parameters of a writer.
pub(crate) struct Begin {
    pub(crate) epoch: u64,
    pub(crate) base: u64,
    pub(crate) segment_bytes: usize,
    pub(crate) unsynced_bytes: usize,
    pub(crate) location: String,
    pub(crate) fault: Option<Fault>,
}

impl Writer {
    pub(crate) fn new(
        begin: Begin,
        pending: Arc<Pending>,
        progress: Arc<Progress>,
        due: Arc<Due>,
        commits: UnboundedSender<Sealed>,
    ) -> Writer {
        let Begin { epoch, base, segment_bytes, unsynced_bytes, location, fault } = begin;
        let filling = Filling {
            segment: None,
            changes: Changes::default(),
            unsynced: 0,
            next_sequence: base,
            last_number: 0,
            sealed: 0,
            rewriting: None,
            commits: Some(commits),
        };
        Writer {
            epoch,
            base,
            segment_bytes,
            unsynced_bytes,
            location,
            fault,
            pending,
            progress,
            compacting: Mutex::default(),
            closing: AtomicBool::new(false),
            due,
            moving: RwLock::default(),
            stripes: std::array::from_fn(|_| Mutex::default()),
            filling: Mutex::new(filling),
        }
    }

    /// Locks out other changes of a URL.
    pub(crate) fn lock(&self, canonical_url: &[u8]) -> Locked<'_> {
        let nth = xxh3_64(canonical_url) as usize % STRIPES;
        let moving = self.moving.read().unwrap_or_else(PoisonError::into_inner);
        Locked { _moving: moving, _stripe: self.stripes[nth].lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Waits for running changes, and locks out all others.
    fn no_changes(&self) -> RwLockWriteGuard<'_, ()> {
        self.moving.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn filling(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a version. Waits while too much is unsynced.
    pub(crate) fn put(&self, draft: &Draft) -> Result<Version> {
        let mut filling = self.room(draft.record(0).bytes())?;
        // An erasure may have retired its dictionary since it was compressed.
        let plain = draft.without_retired().transpose().map_err(|what| self.failed("a put", what))?;
        let record = draft.record(filling.next_sequence);
        let record = plain.as_ref().map_or(record, |plain| plain.in_record(&record));
        let place = self.append(&mut filling, &record);
        let row = Row::of_record(&record, place, record.bytes() as u64);
        self.set(&mut filling, row::of_version(&draft.form, record.version), Some(row));
        self.seal_if_full(&mut filling);
        Ok(record.version)
    }

    /// Removes all versions of a key, or only these, each by a separate tombstone.
    pub(crate) fn remove(&self, key: &[u8], form: &[u8], versions: &[(Version, Row)], is_all: bool) -> Result<()> {
        let records = if is_all { 1 } else { versions.len() };
        let bytes = Record::tombstone(key, 0, b"").bytes() * records + HOLDER_BYTES * (versions.len() + records);
        let mut filling = self.room(bytes)?;
        let is_forgotten = Fault::TombstonesForgotten.is_planted(self.fault);
        if is_all && !is_forgotten {
            let (sequence, holders) = (filling.next_sequence, filling.holders(versions));
            self.append(&mut filling, &Record::tombstone(key, sequence, &holders));
        }
        for found in versions {
            let (version, row) = found;
            if !is_all && !is_forgotten {
                let (sequence, holders) = (filling.next_sequence, filling.holders(std::slice::from_ref(found)));
                self.append(&mut filling, &Record::version_tombstone(key, sequence, *version, &holders));
            }
            let dead = row::Bytes { dead: row.bytes, ..row::Bytes::default() };
            let of_segment = filling.changes.segments.entry(row.segment()).or_default();
            *of_segment = of_segment.plus(dead);
            let key = row::of_version(form, *version);
            if let Some(rewriting) = &mut filling.rewriting {
                rewriting.removed.insert(key.clone());
            }
            self.set(&mut filling, key, None);
        }
        self.seal_if_full(&mut filling);
        Ok(())
    }

    /// Begins a segment for the live records of `sources`. Removals from here on are recorded, and
    /// their tombstones name the new segment too.
    pub(crate) fn begin_rewrite(&self, sources: BTreeSet<SegmentId>) -> Result<Builder> {
        let _no_changes = self.no_changes();
        let mut filling = self.filling();
        if filling.commits.is_none() {
            return Err(self.closed());
        }
        filling.last_number += 1;
        let id = SegmentId { epoch: self.epoch, number: filling.last_number };
        filling.rewriting = Some(Rewriting { id, sources, removed: HashSet::new() });
        Ok(Builder::new(id, self.base, self.segment_bytes))
    }

    /// Abandons a rewrite.
    pub(crate) fn abandon_rewrite(&self) {
        self.filling().rewriting = None;
    }

    /// Moves the rows that are still where the rewrite found them, and hands the segment to the
    /// commits. Returns its position among them.
    pub(crate) fn end_rewrite(&self, rewritten: Rewritten) -> Result<u64> {
        let Rewritten { mut segment, sources, rows, now_ms } = rewritten;
        let _no_changes = self.no_changes();
        let mut filling = self.filling();
        let Some(Rewriting { id, mut removed, .. }) = filling.rewriting.take() else { return Err(self.closed()) };
        if Fault::MovedUnchecked.is_planted(self.fault) {
            removed.clear();
        }
        // Sequences are committed in order: earlier ones belong to the previous segment.
        self.seal(&mut filling);
        if filling.commits.is_none() {
            return Err(self.closed());
        }
        let sequence = filling.next_sequence;
        filling.next_sequence += 1;
        if !Fault::SourcesUnnamed.is_planted(self.fault) {
            segment.push(&Record::rewrite(sequence, &sources.encode()));
        }
        let written = (segment.len() - Summary::HEADER_BYTES as usize) as u64;
        let mut of_segment = row::Bytes { written, dead: 0, notes: segment.note_bytes() };
        let mut changes = Changes { next: filling.next_sequence, ..Changes::default() };
        for (key, row) in rows {
            if removed.contains(&key) {
                of_segment.dead += row.bytes;
                continue;
            }
            self.pending.set(key.clone(), Some(row), id.number);
            changes.rows.insert(key, Some(row));
        }
        changes.segments.insert(id, of_segment);
        changes.need(&segment);
        changes.rewritten = sources.segments.iter().map(|source| (*source, now_ms)).collect();
        self.hand_over(&mut filling, (segment.id(), segment.finish()), changes, 0);
        Ok(filling.sealed)
    }

    /// Locks the segment being filled, once there is room for `bytes` more.
    fn room(&self, bytes: usize) -> Result<MutexGuard<'_, Filling>> {
        loop {
            let mut filling = self.filling();
            if filling.commits.is_none() {
                return Err(self.closed());
            }
            if self.progress.try_add(bytes, self.unsynced_bytes)? {
                filling.unsynced += bytes;
                let is_full = |segment: &Builder| segment.len() + bytes > self.segment_bytes;
                if filling.segment.as_ref().is_some_and(is_full) {
                    // The bytes just counted do not belong to the segment that is sealed.
                    filling.unsynced -= bytes;
                    self.seal(&mut filling);
                    filling.unsynced += bytes;
                }
                return Ok(filling);
            }
            // The bytes waited for may be in the segment being filled.
            self.seal(&mut filling);
            drop(filling);
            self.progress.wait_for_room(bytes, self.unsynced_bytes)?;
        }
    }

    fn append(&self, filling: &mut Filling, record: &Record<'_>) -> Place {
        let Filling { segment, last_number, changes, .. } = filling;
        let segment = segment.get_or_insert_with(|| {
            *last_number += 1;
            Builder::new(SegmentId { epoch: self.epoch, number: *last_number }, self.base, self.segment_bytes)
        });
        let (place, bytes) = segment.push(record);
        let of_segment = changes.segments.entry(segment.id()).or_default();
        of_segment.written += bytes as u64;
        of_segment.notes += if record.kind.is_version() { 0 } else { bytes as u64 };
        filling.next_sequence += 1;
        filling.changes.next = filling.next_sequence;
        place
    }

    fn set(&self, filling: &mut Filling, key: Vec<u8>, row: Option<Row>) {
        let number = filling.segment.as_ref().map_or(filling.last_number + 1, |segment| segment.id().number);
        self.pending.set(key.clone(), row, number);
        filling.changes.rows.insert(key, row);
    }

    fn seal_if_full(&self, filling: &mut Filling) {
        if filling.segment.as_ref().is_some_and(|segment| segment.len() >= self.segment_bytes) {
            self.seal(filling);
        }
    }

    /// Hands the segment being filled to the commits.
    fn seal(&self, filling: &mut Filling) {
        let Some(segment) = filling.segment.take() else { return };
        let (mut changes, unsynced) = (std::mem::take(&mut filling.changes), std::mem::take(&mut filling.unsynced));
        changes.need(&segment);
        self.hand_over(filling, (segment.id(), segment.finish()), changes, unsynced);
    }

    fn hand_over(&self, filling: &mut Filling, (id, bytes): (SegmentId, Vec<u8>), changes: Changes, unsynced: usize) {
        let bytes = Bytes::from(bytes);
        self.pending.seal(id.number, bytes.clone());
        filling.sealed += 1;
        let sealed = Sealed { id, nth: filling.sealed, bytes, changes, unsynced };
        if let Some(commits) = &filling.commits {
            // After a failed commit nobody receives; waiting callers get its error.
            let _ = commits.send(sealed);
        }
    }

    /// A range of a record that this writer has not uploaded yet; `None` if it is in object
    /// storage.
    pub(crate) fn record(&self, row: &Row, bytes: Range<u64>) -> Option<Bytes> {
        if row.place.epoch != self.epoch {
            return None;
        }
        let offset = row.place.offset.checked_add(bytes.start)?;
        let length = bytes.end.checked_sub(bytes.start)?;
        let filling = self.filling();
        if let Some(segment) = filling.segment.as_ref().filter(|segment| segment.id() == row.segment()) {
            return segment.slice(offset, length).map(Bytes::copy_from_slice);
        }
        drop(filling);
        let sealed = self.pending.sealed(row.place.segment)?;
        let from = usize::try_from(offset).ok()?;
        let end = from.checked_add(usize::try_from(length).ok()?)?;
        (end <= sealed.len()).then(|| sealed.slice(from..end))
    }

    /// Makes all earlier puts durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.synced(None)
    }

    /// As [`Writer::sync`], with this row of kept files in the last batch.
    pub(crate) fn sync_with(&self, kept: Vec<u8>) -> Result<()> {
        self.synced(Some(kept))
    }

    fn synced(&self, kept: Option<Vec<u8>>) -> Result<()> {
        self.progress.check()?;
        let nth = {
            let mut filling = self.filling();
            if filling.commits.is_none() {
                return Err(self.closed());
            }
            let is_nothing = filling.segment.is_none();
            if let Some(kept) = kept {
                filling.changes.kept = Some(kept);
                if is_nothing {
                    self.hand_over_changes(&mut filling);
                }
            }
            self.seal(&mut filling);
            filling.sealed
        };
        self.progress.wait_for(nth)
    }

    /// Hands changes without a segment to the commits.
    fn hand_over_changes(&self, filling: &mut Filling) {
        let changes = Changes { next: filling.next_sequence, ..std::mem::take(&mut filling.changes) };
        filling.last_number += 1;
        let id = SegmentId { epoch: self.epoch, number: filling.last_number };
        self.hand_over(filling, (id, Vec::new()), changes, 0);
    }

    /// The last assigned sequence.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.filling().next_sequence.saturating_sub(1)
    }

    /// Makes all puts durable, and accepts no more: concurrent ones are either included or fail
    /// because the handle is closed.
    pub(crate) fn finish(&self) -> Result<()> {
        let nth = {
            let mut filling = self.filling();
            self.seal(&mut filling);
            filling.commits = None;
            filling.sealed
        };
        self.progress.wait_for(nth)
    }

    /// Asks a running compaction to stop.
    pub(crate) fn stop_upkeep(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.due.wake();
    }

    /// Accepts no more puts. The commits end after all sealed segments are committed.
    pub(crate) fn end(&self) {
        self.filling().commits = None;
    }

    /// Runs something while no record is appended.
    pub(crate) fn between_puts<T>(&self, act: impl FnOnce() -> T) -> T {
        let _filling = self.filling();
        act()
    }

    fn failed(&self, operation: &str, what: String) -> Error {
        let (location, operation) = (self.location.clone(), operation.to_owned());
        Error::Unavailable { location, operation, retries: 0, what }
    }

    fn closed(&self) -> Error {
        Error::Closed { location: self.location.clone() }
    }
}
