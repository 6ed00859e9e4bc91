//! Puts and removals; a put of an unchanged body stores a reference.

use std::iter::Peekable;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::value::Kind;
use crate::handle::reading::Reading;
use crate::logs::values::append::Draft;
use crate::logs::values::draft::digest;
use crate::logs::values::read::Want;
use crate::record::{Put, Record, Version, now_ms};
use crate::stats::Counters;
use crate::store::Store;

/// Greatest number of bytes of records in one write, unless a single record is larger.
const GROUP_BYTES: u64 = 256 << 10;
/// Greatest number of bytes of their keys, each with its overhead in the memtable: as much as for
/// the longest single key, for which the memtable has room.
const GROUP_KEY_BYTES: usize = Record::MAX_KEY_BYTES;
const ENTRY_BYTES: usize = 128;

/// The next records to write together: at least one.
fn next_group<'k>(
    drafts: &mut Peekable<impl Iterator<Item = (Draft, &'k [u8])>>,
    segment_bytes: u64,
) -> Vec<(Draft, &'k [u8])> {
    let mut group: Vec<(Draft, &[u8])> = Vec::new();
    let (mut bytes, mut key_bytes) = (0, 0);
    while let Some(next) = drafts.next_if(|(draft, key)| {
        bytes += draft.header.total_bytes();
        key_bytes += key.len() + ENTRY_BYTES;
        let is_first = bytes == draft.header.total_bytes();
        is_first || bytes <= GROUP_BYTES.min(segment_bytes / 4) && key_bytes <= GROUP_KEY_BYTES
    }) {
        group.push(next);
    }
    group
}

impl Store {
    /// Stores a version of a key. With [`Durability::Sync`](crate::Durability::Sync) it is durable
    /// on return; otherwise it survives a process crash at once, and a power loss after the next
    /// sync. One append and one memtable entry; touches no index page.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::MetaTooLarge`], [`Error::ValueTooLarge`], [`Error::Refused`]
    /// and [`Error::NoSpace`], with nothing written; `Io` and, from then on,
    /// `Poisoned`; [`Error::ReadOnly`], [`Error::Closed`].
    pub fn put(&self, record: &Record<'_>) -> Result<Version> {
        self.writing()?.check_put(record.key, record.meta, record.body.len() as u64)?;
        self.check_admission(record)?;
        self.put_checked(record, None)
    }

    /// Stores a version of a key. If its newest version has the same body, stores only a small
    /// version that refers to that one, with its own time and meta. Bodies are compared by their
    /// 128-bit digest; one head is read.
    ///
    /// # Errors
    /// As [`Store::put`], and those of reading.
    pub fn put_if_changed(&self, record: &Record<'_>) -> Result<Put> {
        self.writing()?.check_put(record.key, record.meta, record.body.len() as u64)?;
        self.check_admission(record)?;
        let digest = digest(record.body);
        match self.put_reference(record, digest, record.body.len() as u64)? {
            Some(version) => Ok(Put::Unchanged(version)),
            None => self.put_checked(record, Some(digest)).map(Put::Stored),
        }
    }

    /// Stores a reference to the newest version if its body has this digest and length. Ignores
    /// the record's own body.
    pub(super) fn put_reference(
        &self,
        record: &Record<'_>,
        digest: [u8; 16],
        body_bytes: u64,
    ) -> Result<Option<Version>> {
        let _inside = self.writing()?.enter();
        loop {
            let checkpoints = Counters::get(&self.reading.counters().checkpoints);
            let expiring_ms = self.reading.expiring_ms();
            let hash = self.reading.hash(record.key);
            let before = self.reading.in_memtables(record.key, hash);
            let newest = self.reading.looking_again(|| {
                self.reading.with_newest(record.key, Want::Head, |raw| {
                    let same = raw.header.digest == digest && raw.header.raw_bytes == body_bytes;
                    let stays = raw.header.time_ms >= expiring_ms || planted(Fault::ExpiringReferredTo);
                    let holder = if raw.header.kind == Kind::Reference { raw.refers_to() } else { raw.header.sequence };
                    Ok((same && stays).then_some(holder))
                })
            });
            let newest = match newest {
                // A damaged body does not count as the same: storing this one repairs the page.
                Err(e) if e.is_corrupt() => None,
                newest => newest?.flatten(),
            };
            let Some(holder) = newest else { return Ok(None) };
            let draft = Draft::reference(record, body_bytes, digest, holder, &self.reading.packing(record.key));
            // The body referred to must not have been removed or dropped since it was read, nor be
            // about to be.
            let still_there = |reading: &Reading| {
                reading.in_memtables(record.key, hash) == before
                    && Counters::get(&reading.counters().checkpoints) == checkpoints
                    && (reading.expiring_ms() <= expiring_ms || planted(Fault::ExpiringReferredTo))
            };
            if let Some(version) = self.writing()?.append_if(draft, record.key, holder, still_there)? {
                Counters::add(&self.reading.counters().unchanged_puts, 1);
                return Ok(Some(version));
            }
        }
    }

    /// Stores many records under one lock and, with [`Durability::Sync`](crate::Durability::Sync),
    /// with one sync. The batch is not atomic: a crash may keep some of the records. The chunks of
    /// large bodies are written first; no record of the batch is visible until all chunks are
    /// written.
    ///
    /// # Errors
    /// As [`Store::put`], with no record stored. Exceptions: after a failed write, which poisons
    /// the handle, any of them may be stored, visible only to other processes and after reopening;
    /// a batch longer than a segment that could not continue in the next one leaves the records
    /// before.
    pub fn put_batch(&self, records: &[Record<'_>]) -> Result<Vec<Version>> {
        for r in records {
            self.writing()?.check_put(r.key, r.meta, r.body.len() as u64)?;
            self.check_admission(r)?;
        }
        let (reading, writing) = (&*self.reading, self.writing()?);
        let _inside = writing.enter();
        let piece = reading.options().large_value_bytes;
        // The streams pin the chunks until the chunk lists are in the log.
        let mut streams = Vec::new();
        let mut draft = |r: &Record<'_>| match r.body.len() as u64 > piece {
            false => Ok(Draft::page(r, digest(r.body), &reading.packing(r.key))),
            true => {
                let mut stream = self.put_stream(r.key, r.meta, r.time_ms)?;
                stream.push(r.body)?;
                let draft = stream.draft();
                streams.push(stream);
                draft
            }
        };
        let drafts: Vec<Draft> = records.iter().map(&mut draft).collect::<Result<_>>()?;
        let mut versions = Vec::with_capacity(records.len());
        let (mut log, _) = writing.lock_log(true)?;
        let segment_bytes = log.appender.segment_bytes();
        writing.make_room(&mut log, drafts.iter().map(|d| d.header.total_bytes()).sum())?;
        let mut drafts = drafts.into_iter().zip(records.iter().map(|record| record.key)).peekable();
        while drafts.peek().is_some() {
            if reading.tables().active.is_exhausted() {
                drop(log);
                (log, _) = writing.lock_log(true)?;
            }
            let mut group = next_group(&mut drafts, segment_bytes);
            versions.extend(writing.append_group(&mut log, &mut group)?);
            group.into_iter().for_each(|(draft, _)| draft.recycle());
        }
        Counters::add(&reading.counters().raw_bytes, records.iter().map(|record| record.body.len() as u64).sum());
        writing.after_append(log)?;
        Counters::add(&reading.counters().puts, records.len() as u64);
        Ok(versions)
    }

    /// Removes all versions of a key put before. Later puts are visible again. Returns false if
    /// there was none; then nothing is written.
    ///
    /// # Errors
    /// As [`Store::put`], without `NoSpace`.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.reading.check_open()?;
        self.writing()?.poisoned().check()?;
        match self.contains(key) {
            Ok(false) => return Ok(false),
            // An unreadable page can be removed.
            Err(e) if !e.is_corrupt() => return Err(e),
            _ => {}
        }
        let _inside = self.writing()?.enter();
        self.writing()?.append_if(Draft::tombstone(key, now_ms()), key, 0, |_| true)?;
        Counters::add(&self.reading.counters().removes, 1);
        Ok(true)
    }

    pub(super) fn put_checked(&self, record: &Record<'_>, known: Option<[u8; 16]>) -> Result<Version> {
        let reading = &*self.reading;
        if record.body.len() as u64 > reading.options().large_value_bytes {
            let mut writer = self.put_stream(record.key, record.meta, record.time_ms)?;
            writer.push(record.body)?;
            return writer.finish();
        }
        let _inside = self.writing()?.enter();
        let digest = known.unwrap_or_else(|| digest(record.body));
        let draft = Draft::page(record, digest, &reading.packing(record.key));
        self.put_draft(draft, record.key, record.body.len() as u64)
    }

    pub(super) fn put_draft(&self, draft: Draft, key: &[u8], body_bytes: u64) -> Result<Version> {
        let reading = &*self.reading;
        let version = self.writing()?.append_if(draft, key, 0, |_| true)?;
        Counters::add(&reading.counters().puts, 1);
        Counters::add(&reading.counters().raw_bytes, body_bytes);
        version.ok_or(Error::Closed)
    }
}
