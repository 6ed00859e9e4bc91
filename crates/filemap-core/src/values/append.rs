//! The end of the value log: places records, rolls segments. One appender, behind the append lock.

use std::sync::Arc;

use filemap_io::File;

use crate::error::{Error, Result};
use crate::format::location::{Location, SizeClass};
use crate::format::superblock::Tail;
use crate::format::value::{self, Header};
use crate::values::segments::{FIRST_RECORD, Segment, Segments};

/// A record that is ready but for its place and sequence.
pub(crate) struct Draft {
    pub(crate) header: Header,
    /// Room for the fixed part, then key, meta, payload and padding: the whole record.
    pub(crate) bytes: Vec<u8>,
}

/// Where a record was appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) location: Location,
    pub(crate) size: SizeClass,
    /// Whether a segment was begun for it.
    pub(crate) rolled: bool,
}

/// A segment and its file, which stays open however many others are read.
pub(crate) type OpenSegment = (Arc<Segment>, Arc<dyn File>);

/// See the module.
pub(crate) struct Appender {
    segments: Arc<Segments>,
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    offset: u64,
    segment_bytes: u64,
    /// Segments that were rolled and not synced since.
    unsynced: Vec<OpenSegment>,
    appended_bytes: u64,
}

impl Appender {
    /// Goes on at `offset` of the last segment of the log.
    pub(crate) fn new(
        segments: Arc<Segments>,
        segment: Arc<Segment>,
        offset: u64,
        segment_bytes: u64,
    ) -> Result<Appender> {
        let file = segments.file(&segment)?;
        Ok(Appender { segments, segment, file, offset, segment_bytes, unsynced: Vec::new(), appended_bytes: 0 })
    }

    /// Where the next record goes.
    pub(crate) fn tail(&self) -> Tail {
        Tail { ordinal: self.segment.ordinal, offset: self.offset }
    }

    /// Bytes appended since the appender was made: a position for group commit.
    pub(crate) fn position(&self) -> u64 {
        self.appended_bytes
    }

    /// Seals a draft with its place and writes it. Its sequence must be set.
    ///
    /// # Errors
    /// `Io`: the log may then end in a part of the record, and nothing more may be appended through this handle.
    pub(crate) fn append(&mut self, draft: &mut Draft) -> Result<Appended> {
        let total = draft.header.total_bytes();
        assert_eq!(total, draft.bytes.len() as u64, "a draft has its whole length");
        let rolled = self.offset + total > self.segment_bytes;
        if rolled {
            self.roll()?;
        }
        value::seal_head(&draft.header, self.segment.seed, self.offset, &mut draft.bytes);
        self.file.write_at(&draft.bytes, self.offset).map_err(|e| Error::io("write", self.segment.name(), e))?;
        let location = Location::new(self.segment.id, self.offset);
        self.offset += total;
        self.appended_bytes += total;
        Ok(Appended { location, size: SizeClass::of(total), rolled })
    }

    fn roll(&mut self) -> Result<()> {
        let next = self.segments.begin(self.segment.ordinal + 1)?;
        let file = self.segments.file(&next)?;
        let old = std::mem::replace(&mut self.segment, next);
        let old_file = std::mem::replace(&mut self.file, file);
        self.unsynced.push((old, old_file));
        self.offset = FIRST_RECORD;
        Ok(())
    }

    /// The ordinal of the segment that should be created now, ahead of the next roll, if any.
    pub(crate) fn wants_prepared(&self) -> Option<u64> {
        let next = self.segment.ordinal + 1;
        (self.offset > self.segment_bytes / 2 && !self.segments.is_prepared(next)).then_some(next)
    }

    /// What must be synced for all that was appended so far to be durable, oldest first, and up to which position.
    pub(crate) fn to_sync(&self) -> (Vec<OpenSegment>, u64) {
        let mut files = self.unsynced.clone();
        files.push((Arc::clone(&self.segment), Arc::clone(&self.file)));
        (files, self.appended_bytes)
    }

    /// Those rolled segments of a `to_sync` are durable.
    pub(crate) fn synced(&mut self, files: &[OpenSegment]) {
        self.unsynced.retain(|(s, _)| files.iter().all(|(f, _)| f.ordinal != s.ordinal));
    }
}
