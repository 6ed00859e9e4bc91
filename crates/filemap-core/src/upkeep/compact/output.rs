//! The segments that compaction writes: filled one after the other, synced before the index may
//! lead to them, and removed if it never will.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::location::{Extent, Location, UNIT_BYTES};
use crate::format::value::{self, Header};
use crate::logs::segments::{FIRST_RECORD, OpenSegment, Segment, Segments};

/// Buffered bytes worth a write.
const FLUSH_BYTES: usize = 1 << 20;
/// Bytes between two syncs while writing, so that the kernel never has much to write at once.
const SYNC_BYTES: u64 = 32 << 20;

/// A written segment, and the units of its tombstones.
pub(super) struct Written {
    pub(super) segment: Arc<Segment>,
    pub(super) tombstone_units: u64,
}

/// The output of one run.
pub(super) struct Output<'s> {
    segments: &'s Segments,
    floor: u64,
    level: u8,
    segment_bytes: u64,
    current: Option<OpenSegment>,
    buffer: Vec<u8>,
    /// File offset at which the buffer will be written.
    offset: u64,
    unsynced: u64,
    tombstone_units: u64,
    written: Vec<Written>,
    bytes: u64,
}

impl<'s> Output<'s> {
    /// An output whose segments get this `floor` and `level`. No record written to it may be an
    /// earlier version of a tombstone with a sequence below `floor`.
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

    /// Every record that compaction moves here has a lower sequence.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Bytes of records written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a complete record with this header, sealed for its new place. Returns its extent.
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
        file.write_at(&self.buffer, self.offset).map_err(Error::io("write", segment.name()))?;
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
            file.sync().map_err(Error::io("sync", segment.name()))?;
        }
        self.unsynced = 0;
        Ok(())
    }

    /// Ends the segment being written and makes it durable.
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

    /// Ends the last segment, after which all are durable.
    pub(super) fn complete(&mut self) -> Result<()> {
        self.finish()
    }

    /// Hands the segments to the caller, who points the index to them: from now on they stay.
    pub(super) fn give(&mut self) -> Vec<Written> {
        std::mem::take(&mut self.written)
    }
}

impl Drop for Output<'_> {
    /// Removes the segments that were not handed over: nothing will lead there.
    fn drop(&mut self) {
        let mut gone: Vec<Arc<Segment>> = self.written.drain(..).map(|w| w.segment).collect();
        gone.extend(self.current.take().map(|(segment, _)| segment));
        if !gone.is_empty() {
            // If the removal fails, the next writer removes the files when it opens the store.
            let _ = self.segments.remove(&gone);
        }
    }
}
