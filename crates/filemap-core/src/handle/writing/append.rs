//! Appends: checks a put, then places, writes and enters the finished record under the append
//! lock.

use std::time::Instant;

use crate::error::{Error, Result, StorageError};
use crate::event::Event;
use crate::format::value::{self, ChunkEntry, Kind, Removed};
use crate::handle::log::Log;
use crate::handle::reading::Reading;
use crate::handle::writing::Writing;
use crate::index::memtable::Entry;
use crate::logs::values::append::{Appended, Draft};
use crate::logs::values::draft::check_limits;
use crate::record::{MAX_VALUE_BYTES, Version, now_ms};
use crate::stats::Counters;
use crate::sync::{Held, Inside, lock};

impl Writing {
    /// Runs all checks that can refuse a put, before anything is done.
    pub(crate) fn check_put(&self, key: &[u8], meta: &[u8], body_bytes: u64) -> Result<()> {
        self.reading.check_open()?;
        check_limits(key, meta)?;
        if body_bytes > MAX_VALUE_BYTES {
            return Err(Error::ValueTooLarge { len: body_bytes });
        }
        self.poison.check()?;
        self.check_space()
    }

    /// Announces an append to the group commit, if puts are synced.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        self.is_sync().then(|| self.group.enter())
    }

    /// Appends a record and enters it in the memtable if `condition` holds under the append lock.
    pub(crate) fn append_if(
        &self,
        mut draft: Draft,
        key: &[u8],
        refers_to: u64,
        condition: impl FnOnce(&Reading) -> bool,
    ) -> Result<Option<Version>> {
        let start = Instant::now();
        let freezes = self.pace.slow_freezes();
        let (mut log, slowed) = self.lock_log(draft.header.kind != Kind::Tombstone)?;
        if !condition(&self.reading) {
            return Ok(None);
        }
        let locked = Instant::now();
        let version = self.append_locked(&mut log, &mut draft, key, refers_to)?;
        let write = locked.elapsed();
        let all = start.elapsed();
        self.after_append(log)?;
        draft.recycle();
        let held_up = slowed || self.pace.slow_freezes() != freezes;
        self.reading.counters().put_took(all, write, held_up);
        Ok(Some(version))
    }

    /// Rolls the log if it has no room for `bytes`.
    ///
    /// # Errors
    /// The log is then unchanged and the handle stays usable, unless a sync failed, which is never
    /// retried.
    pub(crate) fn make_room(&self, log: &mut Log, bytes: u64) -> Result<()> {
        let sequence = log.next_sequence;
        if log.appender.make_room(bytes, sequence).inspect_err(|e| self.roll_failed(e))? {
            self.reading.emit(&Event::SegmentRolled { segment: log.appender.tail().ordinal as u16 });
        }
        Ok(())
    }

    /// Handles a failure to begin a segment.
    pub(crate) fn roll_failed(&self, error: &Error) {
        match error {
            Error::Storage(StorageError::Io { op: "sync", .. }) => self.poison(error),
            _ => self.reading.counters().failed(error),
        }
    }

    /// Places, writes and enters one record.
    pub(crate) fn append_locked(
        &self,
        log: &mut Held<'_, Log>,
        draft: &mut Draft,
        key: &[u8],
        refers_to: u64,
    ) -> Result<Version> {
        self.poison.check()?;
        self.reading.check_open()?;
        self.without_retired(draft)?;
        draft.header.sequence = log.next_sequence;
        self.make_room(log, draft.header.total_bytes())?;
        let appended = log.appender.append(draft).inspect_err(|e| self.poison(e))?;
        Ok(self.entered(log, draft, key, refers_to, appended))
    }

    /// Places, writes and enters records with their keys, with one write. There must be room for
    /// all of them in a segment and in the memtable.
    pub(crate) fn append_group(&self, log: &mut Held<'_, Log>, group: &mut [(Draft, &[u8])]) -> Result<Vec<Version>> {
        if let [(draft, key)] = group {
            return Ok(vec![self.append_locked(log, draft, key, 0)?]);
        }
        self.poison.check()?;
        self.reading.check_open()?;
        for ((draft, _), sequence) in group.iter_mut().zip(log.next_sequence..) {
            self.without_retired(draft)?;
            draft.header.sequence = sequence;
        }
        let total = group.iter().map(|(draft, _)| draft.header.total_bytes()).sum();
        self.make_room(log, total)?;
        let drafts = group.iter_mut().map(|(draft, _)| draft);
        let appended = log.appender.append_all(drafts, total).inspect_err(|e| self.poison(e))?;
        let each = group.iter().zip(appended);
        Ok(each.map(|((draft, key), appended)| self.entered(log, draft, key, 0, appended)).collect())
    }

    /// Enters a written record.
    fn entered(&self, log: &mut Log, draft: &Draft, key: &[u8], refers_to: u64, appended: Appended) -> Version {
        let sequence = draft.header.sequence;
        log.next_sequence = sequence + 1;
        if draft.header.kind == Kind::Tombstone {
            *log.tombstones.entry(appended.extent.location.segment).or_default() += u64::from(appended.extent.units);
        }
        if draft.header.kind == Kind::Chunked {
            log.pins.list(self.first_chunk(draft));
        }
        let version = Version { time_ms: draft.header.time_ms, sequence };
        if draft.header.is_entry() {
            let entry = Entry {
                version,
                extent: appended.extent,
                refers_to,
                chunked: draft.header.kind == Kind::Chunked,
                tombstone: draft.header.kind == Kind::Tombstone,
            };
            self.reading.tables().active.insert(self.reading.hash(key), key, &entry);
        }
        self.note_put(key, &draft.header, appended.extent.location, appended.extent.size());
        Counters::add(&self.reading.counters().appended_bytes, draft.bytes.len() as u64);
        version
    }

    /// Appends a tombstone of one version of a key. It removes nothing by itself: see
    /// [`Upkeep::remove_version`](crate::upkeep::Upkeep::remove_version).
    pub(crate) fn append_removed(&self, key: &[u8], removed: &Removed) -> Result<()> {
        // The memtable gets no entry for it, so it need not wait for room there.
        let mut log = lock(&self.log);
        let mut draft = Draft::removed(key, removed, now_ms());
        self.append_locked(&mut log, &mut draft, key, 0)?;
        draft.recycle();
        self.ring_bells(&log);
        Ok(())
    }

    /// Ordinal of the first segment with chunks of a list.
    fn first_chunk(&self, draft: &Draft) -> u64 {
        let payload = &draft.bytes[draft.header.payload_at()..][..draft.header.payload_bytes as usize];
        let chunks = value::decode_chunks(payload, draft.header.raw_bytes).unwrap_or_default();
        let ordinals =
            chunks.iter().map(|c| self.reading.values().segments.get(c.location.segment).map_or(0, |s| s.ordinal));
        ordinals.min().unwrap_or(u64::MAX)
    }

    /// Appends a chunk of a large body. It is in no memtable; a later record lists it. `stream` is
    /// the body's pin, set with its first chunk.
    pub(crate) fn append_chunk(&self, mut draft: Draft, stream: &mut Option<u64>) -> Result<ChunkEntry> {
        self.check_space()?;
        let mut log = lock(&self.log);
        self.poison.check()?;
        self.reading.check_open()?;
        self.without_retired(&mut draft)?;
        draft.header.sequence = log.next_sequence;
        self.make_room(&mut log, draft.header.total_bytes())?;
        let appended = log.appender.append(&mut draft).inspect_err(|e| self.poison(e))?;
        log.next_sequence += 1;
        if stream.is_none() {
            let ordinal = log.appender.tail().ordinal;
            *stream = Some(log.pins.begin(ordinal));
        }
        self.count_packed(&draft.header);
        Counters::add(&self.reading.counters().appended_bytes, draft.bytes.len() as u64);
        self.ring_bells(&log);
        let entry = ChunkEntry {
            location: appended.extent.location,
            raw_bytes: draft.header.raw_bytes as u32,
            units: appended.extent.units,
        };
        drop(log);
        draft.recycle();
        Ok(entry)
    }

    /// Rings the bells that are due and, with durability `Sync`, waits for the sync.
    pub(crate) fn after_append(&self, log: Held<'_, Log>) -> Result<()> {
        self.ring_bells(&log);
        let position = log.appender.position();
        drop(log);
        if self.is_sync() { self.sync_with_others(position) } else { Ok(()) }
    }

    pub(super) fn ring_bells(&self, log: &Log) {
        let position = log.appender.position();
        let tables = self.reading.tables();
        let due = position - log.frozen_at >= self.reading.options().checkpoint_bytes
            || tables.active.bytes() >= self.reading.options().memtable_bytes;
        if due && tables.frozen.is_none() {
            self.ask_for_checkpoint();
        }
        if self.pace.is_look_due(position, log.appender.segment_bytes()) {
            self.bells.compact.ring();
        }
        let unwritten = position.saturating_sub(self.group.synced());
        if unwritten >= self.reading.options().writeback_bytes || log.appender.wants_prepared() {
            self.bells.sync.ring();
        }
    }
}
