//! The end of the value log: places records and rolls segments. One appender, behind the append
//! lock.

use std::sync::Arc;

use filemap_io::{File, Identity};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::location::{Extent, Location, UNIT_BYTES};
use crate::format::superblock::Tail;
use crate::format::value::{self, Header};
use crate::logs::segments::{FIRST_RECORD, OpenSegment, Segment, Segments};

/// A record that lacks only its place and sequence.
pub(crate) struct Draft {
    pub(crate) header: Header,
    /// The whole record: room for the fixed part, then key, meta, payload and padding.
    pub(crate) bytes: Vec<u8>,
}

/// Location and length of an appended record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) extent: Extent,
}

/// The appender of the value log.
pub(crate) struct Appender {
    segments: Arc<Segments>,
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    offset: u64,
    segment_bytes: u64,
    /// Segments rolled since the last sync.
    unsynced: Vec<OpenSegment>,
    appended_bytes: u64,
}

impl Appender {
    /// Continues at `offset` of the last segment of the log.
    pub(crate) fn new(
        segments: Arc<Segments>,
        segment: Arc<Segment>,
        offset: u64,
        segment_bytes: u64,
    ) -> Result<Appender> {
        let file = segments.writable(&segment)?;
        Ok(Appender { segments, segment, file, offset, segment_bytes, unsynced: Vec::new(), appended_bytes: 0 })
    }

    /// Position of the next record.
    pub(crate) fn tail(&self) -> Tail {
        Tail { ordinal: self.segment.ordinal, offset: self.offset }
    }

    /// Name and identity of the file being appended to.
    pub(crate) fn identity(&self) -> (String, Option<Identity>) {
        (self.segment.name(), self.file.identity())
    }

    /// Length at which a segment is closed.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes appended through this appender: a position for group commit.
    pub(crate) fn position(&self) -> u64 {
        self.appended_bytes
    }

    /// Begins a new segment if the current one lacks room for `bytes`, or, if no segment is that
    /// long, unless it is empty. Returns true if it began one.
    ///
    /// # Errors
    /// Those of [`Segments::begin`]; the log is then unchanged.
    pub(crate) fn make_room(&mut self, bytes: u64, sequence: u64) -> Result<bool> {
        let is_full = self.offset + bytes.min(self.segment_bytes - FIRST_RECORD) > self.segment_bytes;
        if is_full {
            self.roll(sequence)?;
        }
        Ok(is_full)
    }

    /// Seals a draft with its place and writes it. Its sequence must be set.
    ///
    /// # Errors
    /// `Io`: the log may then end in part of the record, and this handle must not append any more.
    /// Those of [`Segments::begin`] if it rolls.
    pub(crate) fn append(&mut self, draft: &mut Draft) -> Result<Appended> {
        self.make_room(draft.header.total_bytes(), draft.header.sequence)?;
        let appended = self.seal(draft, self.offset);
        self.write(&draft.bytes)?;
        Ok(appended)
    }

    /// Appends all drafts, in order, with one write. There must be room for `total`, the sum of
    /// their lengths.
    ///
    /// # Errors
    /// `Io`: the log may then end in some of the records, and this handle must not append any
    /// more.
    pub(crate) fn append_all<'d>(
        &mut self,
        drafts: impl Iterator<Item = &'d mut Draft>,
        total: u64,
    ) -> Result<Vec<Appended>> {
        let mut bytes = Vec::with_capacity(total as usize);
        let mut one = |draft: &'d mut Draft| {
            let appended = self.seal(draft, self.offset + bytes.len() as u64);
            bytes.extend_from_slice(&draft.bytes);
            appended
        };
        let all = drafts.map(&mut one).collect();
        self.write(&bytes)?;
        Ok(all)
    }

    fn seal(&self, draft: &mut Draft, offset: u64) -> Appended {
        let total = draft.header.total_bytes();
        assert_eq!(total, draft.bytes.len() as u64, "a draft has its whole length");
        assert!(offset >= FIRST_RECORD && offset.is_multiple_of(UNIT_BYTES), "records begin at units");
        value::seal_head(&draft.header, self.segment.seed, offset, &mut draft.bytes);
        Appended { extent: Extent::new(Location::new(self.segment.id, offset), total) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, self.offset).map_err(Error::io("write", self.segment.name()))?;
        self.offset += bytes.len() as u64;
        self.appended_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Begins a new segment unless the current one is empty.
    pub(crate) fn roll_if_used(&mut self, sequence: u64) -> Result<()> {
        if self.offset > FIRST_RECORD { self.roll(sequence) } else { Ok(()) }
    }

    fn roll(&mut self, sequence: u64) -> Result<()> {
        let (next, file) = self.segments.begin(sequence)?;
        let old = std::mem::replace(&mut self.segment, next);
        old.seal(self.offset);
        let old_file = std::mem::replace(&mut self.file, file);
        if !planted(Fault::RolledSegmentForgotten) {
            self.unsynced.push((old, old_file));
        }
        self.offset = FIRST_RECORD;
        Ok(())
    }

    /// Returns true if the next segment should be created now, ahead of the next roll.
    pub(crate) fn wants_prepared(&self) -> bool {
        self.offset > self.segment_bytes / 2 && !self.segments.is_prepared()
    }

    /// Returns the files to sync for everything appended so far, oldest first, and the position
    /// that this covers.
    pub(crate) fn to_sync(&self) -> (Vec<OpenSegment>, u64) {
        let mut files = self.unsynced.clone();
        files.push((Arc::clone(&self.segment), Arc::clone(&self.file)));
        (files, self.appended_bytes)
    }

    /// Called after the files of a `to_sync` were synced. The last of them was current when that
    /// began: if it was rolled since, its end is not durable, so it stays listed.
    pub(crate) fn synced(&mut self, files: &[OpenSegment]) {
        let complete = &files[..files.len().saturating_sub(1)];
        self.unsynced.retain(|(s, _)| complete.iter().all(|(f, _)| f.ordinal != s.ordinal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::segments::Bounds;
    use crate::logs::values::VALUES;
    use filemap_io::{Access, OsDir};

    #[test]
    fn a_segment_that_was_rolled_while_it_was_synced_is_synced_again() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Arc::new(OsDir::open(temp.path()).unwrap());
        let segments = Arc::new(
            Segments::open(&VALUES, dir, [1; 16], Access::Write, Bounds { open_files: 8, numbers: 9 }).unwrap(),
        );
        let (first, _) = segments.begin(0).unwrap();
        let mut appender = Appender::new(Arc::clone(&segments), first, FIRST_RECORD, 4096).unwrap();
        let listed = |a: &Appender| a.to_sync().0.iter().map(|(s, _)| s.ordinal).collect::<Vec<_>>();
        let put = |appender: &mut Appender| {
            let header = Header::plain(value::Kind::Tombstone, 1);
            let mut draft = Draft { bytes: vec![b'k'; header.total_bytes() as usize], header };
            appender.append(&mut draft).unwrap();
        };
        put(&mut appender);
        let (syncing, _) = appender.to_sync(); // segment 0 is current, and its sync takes a while
        while listed(&appender).len() < 3 {
            put(&mut appender); // until it is full, and the next one too
        }
        appender.synced(&syncing);
        assert_eq!(listed(&appender), [0, 1, 2], "what was appended to segment 0 meanwhile is not durable");
        let (syncing, _) = appender.to_sync();
        appender.synced(&syncing);
        assert_eq!(listed(&appender), [2]);
    }
}
