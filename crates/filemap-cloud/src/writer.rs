//! The writing side of a handle: records get their sequences and go into a segment; a full one is
//! sealed and handed to the commits.
//!
//! Locks, outermost first: the stripe of a URL, which keeps a check and its put together; the
//! segment that is filled. No lock of a segment is held while object storage is asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use filemap_core::Version;
use tokio::sync::mpsc::UnboundedSender;
use xxhash_rust::xxh3::xxh3_64;

use crate::commit::Sealed;
use crate::draft::Draft;
use crate::error::{Error, Result};
use crate::failpoint::Mistake;
use crate::format::record::{Place, Record};
use crate::format::row::{self, Row};
use crate::format::segment::{Builder, SegmentId};
use crate::index::Changes;
use crate::pending::Pending;
use crate::progress::Progress;

/// Locks of URLs.
const STRIPES: usize = 64;

/// See the module.
pub(crate) struct Writer {
    pub(crate) epoch: u64,
    /// The first sequence that was not committed when the store was opened.
    base: u64,
    segment_bytes: usize,
    unsynced_bytes: usize,
    location: String,
    pub(crate) mistake: Option<Mistake>,
    pub(crate) pending: Arc<Pending>,
    pub(crate) progress: Arc<Progress>,
    stripes: [Mutex<()>; STRIPES],
    filling: Mutex<Filling>,
}

struct Filling {
    /// `None` when nothing was put since the last seal.
    segment: Option<Builder>,
    changes: Changes,
    unsynced: usize,
    next_sequence: u64,
    last_number: u64,
    /// `None` when the handle is closed.
    commits: Option<UnboundedSender<Sealed>>,
}

/// What a writer is made of.
pub(crate) struct Begin {
    pub(crate) epoch: u64,
    pub(crate) base: u64,
    pub(crate) segment_bytes: usize,
    pub(crate) unsynced_bytes: usize,
    pub(crate) location: String,
    pub(crate) mistake: Option<Mistake>,
}

impl Writer {
    pub(crate) fn new(
        begin: Begin,
        pending: Arc<Pending>,
        progress: Arc<Progress>,
        commits: UnboundedSender<Sealed>,
    ) -> Writer {
        let Begin { epoch, base, segment_bytes, unsynced_bytes, location, mistake } = begin;
        let filling = Filling {
            segment: None,
            changes: Changes::default(),
            unsynced: 0,
            next_sequence: base,
            last_number: 0,
            commits: Some(commits),
        };
        Writer {
            epoch,
            base,
            segment_bytes,
            unsynced_bytes,
            location,
            mistake,
            pending,
            progress,
            stripes: std::array::from_fn(|_| Mutex::default()),
            filling: Mutex::new(filling),
        }
    }

    /// Keeps other changes of a URL away.
    pub(crate) fn lock(&self, canonical_url: &[u8]) -> MutexGuard<'_, ()> {
        let nth = xxh3_64(canonical_url) as usize % STRIPES;
        self.stripes[nth].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn filling(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a version. Waits while too much is not safe yet.
    pub(crate) fn put(&self, draft: &Draft) -> Result<Version> {
        let bytes = draft.record(0).bytes();
        let mut filling = self.room(bytes)?;
        let sequence = filling.next_sequence;
        let record = draft.record(sequence);
        let place = self.append(&mut filling, &record);
        let row = Row::of_record(&record, place, bytes as u64);
        self.set(&mut filling, row::of_version(&draft.form, record.version), Some(row));
        self.seal_if_full(&mut filling);
        Ok(record.version)
    }

    /// Removes versions of a key: all of them, or these alone, each by a record of its own.
    pub(crate) fn remove(&self, key: &[u8], form: &[u8], versions: &[(Version, Row)], is_all: bool) -> Result<()> {
        let records = if is_all { 1 } else { versions.len() };
        let bytes = Record::tombstone(key, 0).bytes() * records;
        let mut filling = self.room(bytes)?;
        if is_all && !Mistake::TombstonesForgotten.is_planted(self.mistake) {
            let sequence = filling.next_sequence;
            self.append(&mut filling, &Record::tombstone(key, sequence));
        }
        for (version, row) in versions {
            if !is_all && !Mistake::TombstonesForgotten.is_planted(self.mistake) {
                let sequence = filling.next_sequence;
                self.append(&mut filling, &Record::version_tombstone(key, sequence, *version));
            }
            let dead = row::Bytes { written: 0, dead: row.bytes };
            let of_segment = filling.changes.segments.entry(row.segment()).or_default();
            *of_segment = of_segment.plus(dead);
            self.set(&mut filling, row::of_version(form, *version), None);
        }
        self.seal_if_full(&mut filling);
        Ok(())
    }

    /// The segment that is filled, once there is room for so many bytes.
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
                    // The bytes just counted are not of the segment that is sealed.
                    filling.unsynced -= bytes;
                    self.seal(&mut filling);
                    filling.unsynced += bytes;
                }
                return Ok(filling);
            }
            // What is awaited may be in the segment that is filled.
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
        filling.next_sequence += 1;
        filling.changes.next = filling.next_sequence;
        place
    }

    fn set(&self, filling: &mut Filling, key: Vec<u8>, row: Option<Row>) {
        self.pending.set(key.clone(), row, filling.last_number);
        filling.changes.rows.insert(key, row);
    }

    fn seal_if_full(&self, filling: &mut Filling) {
        if filling.segment.as_ref().is_some_and(|segment| segment.len() >= self.segment_bytes) {
            self.seal(filling);
        }
    }

    /// Hands the segment that is filled to the commits.
    fn seal(&self, filling: &mut Filling) {
        let Some(segment) = filling.segment.take() else { return };
        let id = segment.id();
        let bytes = Bytes::from(segment.finish());
        self.pending.seal(id.number, bytes.clone());
        let changes = std::mem::take(&mut filling.changes);
        let sealed = Sealed { id, bytes, changes, unsynced: std::mem::take(&mut filling.unsynced) };
        if let Some(commits) = &filling.commits {
            // Nobody receives after a failed commit: whoever waits is told of that.
            let _ = commits.send(sealed);
        }
    }

    /// Bytes of a record of this writer that is not in object storage; `None` if it is there.
    pub(crate) fn record(&self, row: &Row, bytes: u64) -> Option<Bytes> {
        if row.place.epoch != self.epoch {
            return None;
        }
        let filling = self.filling();
        if let Some(segment) = filling.segment.as_ref().filter(|segment| segment.id() == row.segment()) {
            return segment.slice(row.place.offset, bytes).map(Bytes::copy_from_slice);
        }
        drop(filling);
        let sealed = self.pending.sealed(row.place.segment)?;
        let from = usize::try_from(row.place.offset).ok()?;
        let end = from.checked_add(usize::try_from(bytes).ok()?)?;
        (end <= sealed.len()).then(|| sealed.slice(from..end))
    }

    /// Makes durable what was put before.
    pub(crate) fn sync(&self) -> Result<()> {
        self.progress.check()?;
        let number = {
            let mut filling = self.filling();
            if filling.commits.is_none() {
                return Err(self.closed());
            }
            self.seal(&mut filling);
            filling.last_number
        };
        self.progress.wait_for(number)
    }

    /// Takes no more puts. The commits end when they have done what was sealed.
    pub(crate) fn end(&self) {
        self.filling().commits = None;
    }

    fn closed(&self) -> Error {
        Error::Closed { location: self.location.clone() }
    }
}
