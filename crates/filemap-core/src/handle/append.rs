//! Appends: a record that the caller's thread has built is placed, written and entered in the memtable under the append
//! lock; before that, the checks and the back-pressure.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::format::value::{self, ChunkEntry, Kind};
use crate::handle::{Log, Shared, WriteSide};
use crate::index::memtable::Entry;
use crate::logs::values::append::Draft;
use crate::logs::values::draft::check_limits;
use crate::record::{MAX_VALUE_BYTES, Version};
use crate::stats::Counters;
use crate::sync::primitive::{AtomicU64, Ordering, sleep};
use crate::sync::{Held, Inside, lock};

/// The free space is measured again after this many bytes.
const MEASURE_EVERY_BYTES: u64 = 16 << 20;
/// A put is slowed down by at most this, unless the memtable is twice as full as it should be.
const SLOWEST: Duration = Duration::from_millis(10);
/// Compaction looks at the log whenever this much was appended, so it may be late by as much.
pub(crate) fn late_bytes(segment_bytes: u64) -> u64 {
    segment_bytes / 16
}

/// A put is held back by at most this for compaction to keep up.
const HOLD_BACK: Duration = Duration::from_micros(4000);

impl Shared {
    /// All that can be refused before anything is done.
    pub(crate) fn check_put(&self, key: &[u8], meta: &[u8], body_bytes: u64) -> Result<()> {
        self.check_open()?;
        let writer = self.write_side()?;
        check_limits(key, meta)?;
        if body_bytes > MAX_VALUE_BYTES {
            return Err(Error::ValueTooLarge { len: body_bytes });
        }
        writer.poison.check()?;
        self.check_space(writer)
    }

    /// # Errors
    /// `NoSpace` below the floor.
    pub(crate) fn check_space(&self, writer: &WriteSide) -> Result<()> {
        let floor = self.options.free_space_floor;
        let appended = Counters::get(&self.counters.appended_bytes);
        let measured = writer.free_space.measured_at.load(Ordering::Relaxed);
        let used_since = appended.saturating_sub(measured);
        let free = writer.free_space.bytes.load(Ordering::Relaxed).saturating_sub(used_since);
        if floor == 0 || (free >= floor && used_since < MEASURE_EVERY_BYTES) {
            return Ok(());
        }
        self.measure_free_space();
        writer.free_space.measured_at.store(appended, Ordering::Relaxed);
        let free_bytes = writer.free_space.bytes.load(Ordering::Relaxed);
        if free_bytes < floor { Err(Error::NoSpace { free_bytes, floor_bytes: floor }) } else { Ok(()) }
    }

    /// Tells the others that wait for a sync that this thread is about to append, and to want one too, if it is.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        self.writer.as_ref().filter(|_| self.is_sync()).map(|writer| writer.group.enter())
    }

    /// Appends a record and enters it in the memtable, if `condition` holds under the append lock.
    pub(crate) fn append_if(
        &self,
        mut draft: Draft,
        key: &[u8],
        refers_to: u64,
        condition: impl FnOnce(&Shared) -> bool,
    ) -> Result<Option<Version>> {
        let writer = self.write_side()?;
        let start = Instant::now();
        let freezes = writer.slow_freezes.load(Ordering::Relaxed);
        let (mut log, slowed) = self.lock_log(writer, draft.header.kind != Kind::Tombstone)?;
        if !condition(self) {
            return Ok(None);
        }
        let locked = Instant::now();
        let version = self.append_locked(writer, &mut log, &mut draft, key, refers_to)?;
        let write = locked.elapsed();
        let all = start.elapsed();
        self.after_append(writer, log)?;
        draft.recycle();
        let held_up = slowed || writer.slow_freezes.load(Ordering::Relaxed) != freezes;
        self.counters.put_took(all, write, held_up);
        Ok(Some(version))
    }

    /// Rolls the log if it has no room for so many bytes.
    ///
    /// # Errors
    /// The log has not changed, and the handle stays usable; unless a sync failed, which is never tried again.
    pub(crate) fn make_room(&self, log: &mut Log, bytes: u64) -> Result<()> {
        let sequence = log.next_sequence;
        if log.appender.make_room(bytes, sequence).inspect_err(|e| self.roll_failed(e))? {
            self.emit(&Event::SegmentRolled { segment: log.appender.tail().ordinal as u16 });
        }
        Ok(())
    }

    /// A segment could not be begun.
    pub(crate) fn roll_failed(&self, error: &Error) {
        match error {
            Error::Io { op: "sync", .. } => self.poison(error),
            _ => self.counters.failed(error),
        }
    }

    /// Places, writes and enters one record.
    pub(crate) fn append_locked(
        &self,
        writer: &WriteSide,
        log: &mut Held<'_, Log>,
        draft: &mut Draft,
        key: &[u8],
        refers_to: u64,
    ) -> Result<Version> {
        writer.poison.check()?;
        self.check_open()?;
        self.without_retired(draft)?;
        let sequence = log.next_sequence;
        draft.header.sequence = sequence;
        self.make_room(log, draft.header.total_bytes())?;
        let appended = log.appender.append(draft).inspect_err(|e| self.poison(e))?;
        log.next_sequence += 1;
        if draft.header.kind == Kind::Tombstone {
            *log.tombstones.entry(appended.extent.location.segment).or_default() += u64::from(appended.extent.units);
        }
        if draft.header.kind == Kind::Chunked {
            log.pins.list(self.first_chunk(draft));
        }
        let version = Version { time_ms: draft.header.time_ms, sequence };
        let entry = Entry {
            version,
            extent: appended.extent,
            refers_to,
            chunked: draft.header.kind == Kind::Chunked,
            tombstone: draft.header.kind == Kind::Tombstone,
        };
        self.tables.load().active.insert(self.hash(key), key, &entry);
        self.note_put(writer, key, &draft.header, appended.extent.location, appended.extent.size());
        Counters::add(&self.counters.appended_bytes, draft.bytes.len() as u64);
        Ok(version)
    }

    /// The ordinal of the first segment in which a list's chunks lie.
    fn first_chunk(&self, draft: &Draft) -> u64 {
        let payload = &draft.bytes[draft.header.payload_at()..][..draft.header.payload_bytes as usize];
        let chunks = value::decode_chunks(payload, draft.header.raw_bytes).unwrap_or_default();
        let ordinals = chunks.iter().map(|c| self.values.segments.get(c.location.segment).map_or(0, |s| s.ordinal));
        ordinals.min().unwrap_or(u64::MAX)
    }

    /// Takes the append lock when there is room in the active table; whether that was slowed down.
    pub(crate) fn lock_log<'w>(&self, writer: &'w WriteSide, is_put: bool) -> Result<(Held<'w, Log>, bool)> {
        let (mut slowed, mut held_back) = (false, false);
        loop {
            slowed |= self.slow_down(writer)?;
            let log = lock(&writer.log);
            let over = log.appender.position().saturating_sub(writer.space_limit.load(Ordering::Relaxed));
            if over > 0 && !held_back && is_put {
                // Once, and the longer the more there is too much: never so long that it could be called a stall.
                let share = over as f64 / (log.appender.segment_bytes() / 4) as f64;
                drop(log);
                self.hold_back_for(HOLD_BACK.mul_f64(share.min(1.0)));
                (held_back, slowed) = (true, true);
                continue;
            }
            if !self.tables.load().active.is_exhausted() {
                return Ok((log, slowed));
            }
            self.ring_bells(writer, &log);
            drop(log);
            // The checkpoint that the bell asked for may not have begun yet, or never will.
            self.check_open()?;
            writer.poison.check()?;
            sleep(Duration::from_millis(1));
            slowed = true;
        }
    }

    /// Appends a chunk of a large body: it enters no table, only a later record that lists it does.
    /// `stream` names the body once it has a chunk.
    pub(crate) fn append_chunk(&self, mut draft: Draft, stream: &mut Option<u64>) -> Result<ChunkEntry> {
        let writer = self.write_side()?;
        self.check_space(writer)?;
        let mut log = lock(&writer.log);
        writer.poison.check()?;
        self.check_open()?;
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
        Counters::add(&self.counters.appended_bytes, draft.bytes.len() as u64);
        self.ring_bells(writer, &log);
        let entry = ChunkEntry {
            location: appended.extent.location,
            raw_bytes: draft.header.raw_bytes as u32,
            units: appended.extent.units,
        };
        drop(log);
        draft.recycle();
        Ok(entry)
    }

    /// Rings the bells that are due and, if so wished, waits for the device.
    pub(crate) fn after_append(&self, writer: &WriteSide, log: Held<'_, Log>) -> Result<()> {
        self.ring_bells(writer, &log);
        let position = log.appender.position();
        drop(log);
        if self.is_sync() { self.sync_with_others(position) } else { Ok(()) }
    }

    fn ring_bells(&self, writer: &WriteSide, log: &Log) {
        let position = log.appender.position();
        let tables = self.tables.load();
        let due = position - log.frozen_at >= self.options.checkpoint_bytes
            || tables.active.bytes() >= self.options.memtable_bytes;
        if due && tables.frozen.is_none() && !writer.checkpoint_due.swap(true, Ordering::AcqRel) {
            writer.checkpoint_bell.ring();
        }
        let looked_at = writer.looked_at.load(Ordering::Relaxed);
        if position.saturating_sub(looked_at) >= late_bytes(log.appender.segment_bytes()) {
            writer.looked_at.store(position, Ordering::Relaxed);
            writer.compact_bell.ring();
        }
        let unwritten = position.saturating_sub(writer.group.synced());
        if unwritten >= self.options.writeback_bytes || log.appender.wants_prepared() {
            writer.sync_bell.ring();
        }
    }

    /// Back-pressure: when the active table is over its bound because a checkpoint still merges the other, puts wait a
    /// little, and the more the fuller it is. Returns whether this one did.
    fn slow_down(&self, writer: &WriteSide) -> Result<bool> {
        let mut slowed = false;
        loop {
            let tables = self.tables.load();
            let (bytes, bound) = (tables.active.bytes(), self.options.memtable_bytes);
            if bytes <= bound || tables.frozen.is_none() {
                return Ok(slowed);
            }
            drop(tables);
            let over = (bytes - bound) as f64 / bound as f64;
            let wait = SLOWEST.mul_f64(over.min(1.0));
            if !slowed {
                Counters::add(&self.counters.slow_downs, 1);
                if over > 0.9 {
                    self.emit(&Event::SlowedDown { fill_percent: (100.0 * (over + 1.0)) as u64 });
                }
            }
            let start = Instant::now();
            sleep(wait);
            add_us(&self.counters.slow_down_us, start.elapsed());
            slowed = true;
            writer.poison.check()?;
            if over < 1.0 {
                return Ok(slowed);
            }
        }
    }
}

impl Shared {
    fn hold_back_for(&self, wait: Duration) {
        let start = Instant::now();
        sleep(wait);
        Counters::add(&self.counters.held_back, 1);
        add_us(&self.counters.held_back_us, start.elapsed());
    }
}

fn add_us(counter: &AtomicU64, time: Duration) {
    Counters::add(counter, time.as_micros() as u64);
}
