//! What a store tells its owner about its background work.

use std::fmt;
use std::time::Duration;

/// What recovery found when a store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes of value log that were read again: what was written after the last checkpoint.
    pub replayed_bytes: u64,
    /// Whole records among them.
    pub replayed_records: u64,
    /// Bytes between whole records that never reached the disk; covered with fillers.
    pub skipped_bytes: u64,
    /// Bytes after the last whole record that were cut off.
    pub truncated_bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// A dictionary that was made in the background.
#[derive(Clone, Debug, PartialEq)]
pub struct DictionaryMade {
    /// Its number: the file is `dictN.zdict`.
    pub id: u32,
    /// The group of keys that it is for, empty for all.
    pub group: Vec<u8>,
    /// Of how many pages samples were taken for it.
    pub pages: u32,
    /// Compressed to uncompressed bytes of bodies that it was not made of.
    pub body_ratio: f64,
    /// The same without it.
    pub body_ratio_before: f64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Why nothing, or something, is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// More than the bound allows is dead.
    OverBound,
    /// Something is dead, and nothing was to be left.
    Garbage,
    /// Pages are to be compressed better than they were when they came.
    Recompression,
    /// Removals take much room, and old segments keep them from being dropped.
    Removals,
    /// Every byte is live.
    AllLive,
    /// What is dead is within the bound.
    WithinBound,
    /// What is dead lies in the segment that is being written, or in one that a large body is being put to.
    NotYet,
    /// It was told to stop.
    Stopped,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::OverBound => "more is dead than the bound allows",
            Reason::Garbage => "some bytes are dead",
            Reason::Recompression => "pages are to be compressed better",
            Reason::Removals => "removals take much room, and older segments keep them",
            Reason::AllLive => "all is live",
            Reason::WithinBound => "what is dead is within the bound",
            Reason::NotYet => "what is dead lies in segments that are still in use",
            Reason::Stopped => "it was told to stop",
        })
    }
}

/// What one run of compaction has done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compacted {
    /// Why it ran, or why there was nothing to do.
    pub reason: Reason,
    /// Segments that were removed.
    pub removed_segments: u64,
    /// Bytes that were read to find out what lives.
    pub read_bytes: u64,
    /// Bytes that were copied to new segments.
    pub copied_bytes: u64,
    /// Bytes of the segments that were removed.
    pub removed_bytes: u64,
    /// Segments that were to be emptied and stay, since something in them that counts is damaged. So far, of this handle.
    pub stuck_segments: u64,
    /// Records that were to be compressed anew and cannot be expanded, for want of their dictionary perhaps: they moved as they are.
    pub unexpanded_records: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl Compacted {
    pub(crate) fn nothing(reason: Reason) -> Compacted {
        let (removed_segments, elapsed) = (0, Duration::ZERO);
        let (read_bytes, copied_bytes, removed_bytes) = (0, 0, 0);
        let (stuck_segments, unexpanded_records) = (0, 0);
        Compacted {
            reason,
            removed_segments,
            read_bytes,
            copied_bytes,
            removed_bytes,
            stuck_segments,
            unexpanded_records,
            elapsed,
        }
    }

    /// Adds what another run has done. The reason stays.
    pub(crate) fn add(&mut self, other: &Compacted) {
        self.removed_segments += other.removed_segments;
        self.read_bytes += other.read_bytes;
        self.copied_bytes += other.copied_bytes;
        self.removed_bytes += other.removed_bytes;
        self.stuck_segments = self.stuck_segments.max(other.stuck_segments);
        self.unexpanded_records += other.unexpanded_records;
        self.elapsed += other.elapsed;
    }
}

/// Something that happened in the background, or on open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The store was opened and what followed the last checkpoint was read again.
    Recovered(RecoveryReport),
    /// A checkpoint began to merge this many entries into the index.
    CheckpointStarted {
        /// Entries of the memtable.
        entries: u64,
    },
    /// The checkpoint is durable.
    CheckpointFinished {
        /// How long it took.
        elapsed: Duration,
        /// Index pages that were written.
        index_pages: u64,
        /// Bytes appended to the key log.
        key_bytes: u64,
    },
    /// Puts are being slowed down, because the memtable fills faster than the checkpoint empties the other one.
    SlowedDown {
        /// Fill of the memtable, in per cent of its bound.
        fill_percent: u64,
    },
    /// A write or sync failed: the handle takes no more writes.
    Poisoned {
        /// What failed.
        cause: String,
    },
    /// A run of compaction has finished.
    Compacted(Compacted),
    /// A dictionary was made; new pages of its group are compressed with it.
    DictionaryMade(DictionaryMade),
    /// The store was opened for writing, and erasures were begun that did not end: files may still hold what they are about.
    ErasureUnfinished {
        /// Ids of their rules.
        rules: Vec<u32>,
    },
    /// A new segment of the value log was begun.
    SegmentRolled {
        /// Its number.
        segment: u16,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Recovered(r) => write!(
                f,
                "recovered: {} records in {} bytes replayed, {} bytes skipped, {} bytes cut off, {} ms",
                r.replayed_records,
                r.replayed_bytes,
                r.skipped_bytes,
                r.truncated_bytes,
                r.elapsed.as_millis()
            ),
            Event::CheckpointStarted { entries } => write!(f, "checkpoint of {entries} entries started"),
            Event::CheckpointFinished { elapsed, index_pages, key_bytes } => write!(
                f,
                "checkpoint finished in {} ms: {index_pages} index pages, {key_bytes} bytes of key records",
                elapsed.as_millis()
            ),
            Event::SlowedDown { fill_percent } => write!(f, "puts slowed down: memtable {fill_percent}% full"),
            Event::Poisoned { cause } => write!(f, "no more writes: {cause}"),
            Event::Compacted(c) => write!(
                f,
                "compacted in {} ms ({}): {} segments of {} bytes removed, {} bytes copied, {} segments stay for damage",
                c.elapsed.as_millis(),
                c.reason,
                c.removed_segments,
                c.removed_bytes,
                c.copied_bytes,
                c.stuck_segments
            ),
            Event::DictionaryMade(d) => write!(
                f,
                "dictionary {} made of {} pages{}{} in {} ms: {:.3} of the bodies' bytes, {:.3} before",
                d.id,
                d.pages,
                if d.group.is_empty() { "" } else { " of " },
                String::from_utf8_lossy(&d.group),
                d.elapsed.as_millis(),
                d.body_ratio,
                d.body_ratio_before
            ),
            Event::ErasureUnfinished { rules } => {
                write!(f, "erasures that did not end: rules {rules:?}; `fm-tool erase --resume` ends them")
            }
            Event::SegmentRolled { segment } => write!(f, "value log rolled to segment {segment}"),
        }
    }
}
