//! The segments that compaction writes: filled one after the other, synced before anything may lead to them, removed when
//! nothing will.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::location::{Extent, Location, UNIT_BYTES};
use crate::format::value::{self, Header};
use crate::logs::segments::{FIRST_RECORD, OpenSegment, Segment, Segments};

/// Bytes that wait before they are handed to the file.
const FLUSH_BYTES: usize = 1 << 20;
/// Bytes after which the file is synced in passing, so that the kernel never has much to write at once.
const SYNC_BYTES: u64 = 32 << 20;

/// A segment that was written, and the units of the removals in it.
pub(super) struct Written {
    pub(super) segment: Arc<Segment>,
    pub(super) tombstone_units: u64,
}

/// See the module.
pub(super) struct Output<'s> {
    segments: &'s Segments,
    floor: u64,
    level: u8,
    segment_bytes: u64,
    current: Option<OpenSegment>,
    buffer: Vec<u8>,
    /// Where the buffer goes.
    offset: u64,
    unsynced: u64,
    tombstone_units: u64,
    written: Vec<Written>,
    bytes: u64,
}

impl<'s> Output<'s> {
    /// No record that is to be written is an earlier version of a removal with a sequence below `floor`; pages are compressed
    /// anew at `level`, unless that is 0.
    pub(super) fn new(segments: &'s Segments, floor: u64, level: u8, segment_bytes: u64) -> Output<'s> {
        Output {
            segments,
            floor,
            level,
            segment_bytes,
            current: None,
            buffer: Vec::new(),
            offset: FIRST_RECORD,
            unsynced: 0,
            tombstone_units: 0,
            written: Vec::new(),
            bytes: 0,
        }
    }

    /// Bytes of records that were written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a whole record with this header, sealed for its new place; where that is.
    pub(super) fn append(&mut self, header: &Header, record: &[u8]) -> Result<Extent> {
        let total = header.total_bytes();
        assert_eq!(total, record.len() as u64, "a record has its whole length");
        if self.current.is_some() && self.next() + total > self.segment_bytes {
            self.finish()?;
        }
        if self.current.is_none() {
            self.current = Some(self.segments.begin_output(self.floor, self.level)?);
            self.offset = FIRST_RECORD;
        }
        let at = self.next();
        let start = self.buffer.len();
        self.buffer.extend_from_slice(record);
        let extent = {
            let (segment, _) = self.open()?;
            value::seal_head(header, segment.seed, at, &mut self.buffer[start..]);
            Extent::new(Location::new(segment.id, at), total)
        };
        if header.kind == value::Kind::Tombstone {
            self.tombstone_units += total / UNIT_BYTES;
        }
        self.bytes += total;
        if self.buffer.len() >= FLUSH_BYTES {
            self.flush()?;
        }
        Ok(extent)
    }

    fn next(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    fn open(&self) -> Result<OpenSegment> {
        self.current.clone().ok_or(Error::Closed)
    }

    fn flush(&mut self) -> Result<()> {
        let (segment, file) = self.open()?;
        file.write_at(&self.buffer, self.offset).map_err(|e| Error::io("write", segment.name(), e))?;
        self.offset += self.buffer.len() as u64;
        self.unsynced += self.buffer.len() as u64;
        self.buffer.clear();
        if self.unsynced >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let (segment, file) = self.open()?;
        if !planted(Fault::OutputNotSynced) {
            file.sync().map_err(|e| Error::io("sync", segment.name(), e))?;
        }
        self.unsynced = 0;
        Ok(())
    }

    /// Ends the segment that is being written: it is durable.
    fn finish(&mut self) -> Result<()> {
        if self.current.is_none() {
            return Ok(());
        }
        self.flush()?;
        self.sync()?;
        if let Some((segment, _)) = self.current.take() {
            segment.seal(self.offset);
            self.written.push(Written { segment, tombstone_units: std::mem::take(&mut self.tombstone_units) });
        }
        Ok(())
    }

    /// Ends the last segment. All that was written is durable; the caller sees to it that something leads there.
    pub(super) fn complete(&mut self) -> Result<Vec<Written>> {
        self.finish()?;
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for Output<'_> {
    /// Removes what was not completed: nothing leads there, and nothing will.
    fn drop(&mut self) {
        let mut gone: Vec<Arc<Segment>> = self.written.drain(..).map(|w| w.segment).collect();
        gone.extend(self.current.take().map(|(segment, _)| segment));
        if !gone.is_empty() {
            // What cannot be removed now, the next writer removes when it opens the store.
            let _ = self.segments.remove(&gone);
        }
    }
}
