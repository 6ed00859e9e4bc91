//! The end of the key log: places records and rolls segments. One appender, owned by checkpoints.
//!
//! Records become readable with [`KeyAppender::flush`] and durable with [`KeyAppender::sync`],
//! which syncs every segment written since the last sync.

use std::collections::HashMap;
use std::sync::Arc;

use filemap_io::{File, Identity};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::key::{self, KeyRecord, MAX_SEGMENT_BYTES, UNIT_BYTES};
use crate::format::superblock::Tail;
use crate::limits::Limits;
use crate::logs::keys::KeyLog;
use crate::logs::segments::{FIRST_RECORD, OpenSegment, Segment};
use crate::sync::lock;

/// The buffer is written at the latest when it has this many times `flush_bytes`.
const FLUSHES: usize = 16;

/// The appender of the key log.
pub(crate) struct KeyAppender {
    log: Arc<KeyLog>,
    /// `None` until the next record begins a segment.
    current: Option<Current>,
    /// Segments rolled since the last sync.
    unsynced: Vec<OpenSegment>,
    /// Ordinals and ends of rolled segments, until [`KeyAppender::publish`] makes them count.
    rolled: Vec<(u64, u64)>,
    segment_bytes: u64,
    /// Buffered bytes worth a write.
    flush_bytes: usize,
    buffer: Vec<u8>,
    /// End of the written part, once anything was written.
    written: Option<Tail>,
    appended_bytes: u64,
    /// Records read ahead, by address.
    pub(super) ahead: HashMap<u64, (KeyRecord, Vec<u8>)>,
}

/// The segment being appended to.
struct Current {
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    /// File offset at which the buffer will be written.
    offset: u64,
}

impl Current {
    fn end(&self) -> Tail {
        Tail { ordinal: self.segment.ordinal, offset: self.offset }
    }
}

impl KeyAppender {
    /// Continues at the end of the last segment if the superblock's key tail lies there. If an
    /// interrupted checkpoint left bytes beyond the tail, the next record begins a new segment.
    /// Those bytes stay, for readers already led to them, but do not count.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn new(log: Arc<KeyLog>, limits: &Limits) -> Result<KeyAppender> {
        let end = log.end();
        let mut current = None;
        if let Some(segment) = log.segments.all().last().filter(|s| s.ordinal == end.ordinal) {
            let file = log.segments.writable(segment)?;
            let len = file.len().map_err(Error::io("measure", segment.name()))?;
            if len <= end.offset || planted(Fault::LeftoversCounted) {
                let offset = len.max(end.offset).next_multiple_of(UNIT_BYTES);
                current = Some(Current { segment: Arc::clone(segment), file, offset });
            }
        }
        let rolled = if current.is_none() { vec![(end.ordinal, end.offset)] } else { Vec::new() };
        Ok(KeyAppender {
            log,
            current,
            unsynced: Vec::new(),
            rolled,
            segment_bytes: limits.key_segment_bytes.min(MAX_SEGMENT_BYTES),
            flush_bytes: limits.flush_key_bytes,
            buffer: Vec::new(),
            written: None,
            appended_bytes: 0,
            ahead: HashMap::new(),
        })
    }

    /// Buffers a record. Returns its address and the ordinal of its segment.
    ///
    /// # Errors
    /// `Io` if a segment cannot be begun or written; `Full` if all segment numbers are in use.
    pub(crate) fn append(&mut self, record: &KeyRecord, key: &[u8]) -> Result<(u64, u64)> {
        let total = record.total_bytes();
        let current = match self.current.take() {
            Some(current) if self.has_room(&current, total) => current,
            full => self.roll(full)?,
        };
        let offset = current.offset + self.buffer.len() as u64;
        record.encode(key, current.segment.seed, offset, &mut self.buffer);
        self.appended_bytes += total;
        let place = (key::address(current.segment.id, offset), current.segment.ordinal);
        self.current = Some(current);
        if self.buffer.len() >= FLUSHES * self.flush_bytes {
            // A single key may have any number of records.
            self.flush()?;
        }
        Ok(place)
    }

    /// Returns true if a record fits into the segment. No record crosses a segment's end; one
    /// longer than a segment gets its own.
    fn has_room(&self, current: &Current, total: u64) -> bool {
        let at = self.next(current);
        at + total <= self.segment_bytes || at == FIRST_RECORD
    }

    fn next(&self, current: &Current) -> u64 {
        current.offset + self.buffer.len() as u64
    }

    /// Closes a segment and begins the next one.
    fn roll(&mut self, full: Option<Current>) -> Result<Current> {
        if let Some(mut full) = full {
            self.write(&mut full)?;
            self.rolled.push((full.segment.ordinal, full.offset));
            self.unsynced.push((full.segment, full.file));
        }
        // Its number may be that of a segment from which records were read ahead.
        self.ahead.clear();
        let (segment, file) = self.log.segments.begin(0)?;
        Ok(Current { segment, file, offset: FIRST_RECORD })
    }

    /// Begins another segment if the log ends in `segment`, whose records are to be moved out.
    ///
    /// # Errors
    /// Those of [`KeyAppender::append`].
    pub(crate) fn leave(&mut self, segment: u16) -> Result<()> {
        let left = self.current.take_if(|c| c.segment.id == segment);
        // A segment with leftovers of an interrupted checkpoint is the log's end, but not
        // `current`.
        if left.is_some() || (self.current.is_none() && self.log.end().ordinal as u16 == segment) {
            let next = self.roll(left)?;
            self.written = Some(next.end());
            self.current = Some(next);
        }
        Ok(())
    }

    /// As [`KeyLog::is_before`].
    pub(crate) fn is_before(&self, address: u64, other: u64) -> bool {
        self.log.is_before(address, other)
    }

    /// Reads the record at an address, from the buffer or the file.
    pub(crate) fn read(&self, address: u64) -> Result<(KeyRecord, Vec<u8>)> {
        let offset = key::offset_of(address);
        match &self.current {
            Some(c) if c.segment.id == key::segment_of(address) && offset >= c.offset => {
                let bytes = self.buffer.get((offset - c.offset) as usize..).unwrap_or_default();
                let (record, key) = self.log.decode(&c.segment, bytes, offset)?;
                Ok((record, key.to_vec()))
            }
            _ => self.ahead.get(&address).map_or_else(|| self.log.read(address), |ahead| Ok(ahead.clone())),
        }
    }

    /// Name and identity of the file being appended to.
    pub(crate) fn identity(&self) -> Option<(String, Option<Identity>)> {
        self.current.as_ref().map(|c| (c.segment.name(), c.file.identity()))
    }

    /// Reads records that are in memory, for [`KeyAppender::read`], and prefetches the others
    /// without waiting. Drops what was read ahead before.
    pub(crate) fn read_ahead(&mut self, addresses: impl Iterator<Item = u64>) {
        self.ahead.clear();
        let read = addresses.filter_map(|address| self.log.read_ahead(address).map(|read| (address, read)));
        self.ahead.extend(read);
    }

    /// Returns true if enough is buffered to be worth a write.
    pub(crate) fn wants_flush(&self) -> bool {
        self.buffer.len() >= self.flush_bytes
    }

    /// Writes the buffer. From now on readers may be led to its records.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if let Some(mut current) = self.current.take() {
            self.write(&mut current)?;
            self.current = Some(current);
        }
        Ok(())
    }

    fn write(&mut self, current: &mut Current) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Err(e) = current.file.write_at(&self.buffer, current.offset) {
            // On a full disk, give back the space of the part that fitted, or each retry would
            // take more of what was freed. No reader knows of these bytes.
            let _ = current.file.set_len(current.offset);
            return Err(Error::io("write", current.segment.name())(e));
        }
        current.offset += self.buffer.len() as u64;
        self.written = Some(current.end());
        self.buffer.clear();
        Ok(())
    }

    /// Makes the flushed records count: the index leads to them.
    pub(crate) fn publish(&mut self) {
        if let Some(written) = self.written.take() {
            let mut counted = lock(&self.log.counted);
            counted.end = written;
            counted.sealed.extend(self.rolled.drain(..));
        }
    }

    /// Position of the next record.
    pub(crate) fn mark(&self) -> Tail {
        let end = self.current.as_ref().map(|c| Tail { ordinal: c.segment.ordinal, offset: self.next(c) });
        end.or(self.written).unwrap_or_else(|| self.log.end())
    }

    /// Discards what was appended since a mark, left unfinished.
    pub(crate) fn abandon(&mut self, since: Tail) {
        match &self.current {
            Some(c) if c.segment.ordinal == since.ordinal && c.offset <= since.offset => {
                self.buffer.truncate((since.offset - c.offset) as usize);
            }
            _ => {
                // Part of it is in the file.
                self.buffer.clear();
                if let Some(left) = self.current.take() {
                    self.unsynced.push((left.segment, left.file));
                }
                self.rolled.retain(|(ordinal, _)| *ordinal < since.ordinal);
                self.rolled.push((since.ordinal, since.offset));
                self.written = Some(since);
            }
        }
    }

    /// End of the segment with an ordinal, if known and final.
    pub(crate) fn end_of(&self, ordinal: u64) -> Option<u64> {
        if self.current.as_ref().is_some_and(|c| c.segment.ordinal == ordinal) {
            return None;
        }
        let rolled = self.rolled.iter().find(|(rolled, _)| *rolled == ordinal).map(|(_, end)| *end);
        rolled.or_else(|| lock(&self.log.counted).sealed.get(&ordinal).copied()).filter(|end| *end != u64::MAX)
    }

    /// Makes everything flushed durable, oldest segment first.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let sync = |segment: &Segment, file: &dyn File| file.sync().map_err(Error::io("sync", segment.name()));
        if planted(Fault::KeysNotSynced) {
            return Ok(());
        }
        for (segment, file) in self.unsynced.drain(..).filter(|_| !planted(Fault::RolledKeysNotSynced)) {
            sync(&segment, &*file)?;
        }
        self.current.as_ref().map_or(Ok(()), |c| sync(&c.segment, &*c.file))
    }

    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }
}
