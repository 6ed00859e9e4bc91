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

/// Something that happened in the background, or on open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The store was opened and what followed the last checkpoint was read again.
    Recovered(RecoveryReport),
    /// A checkpoint began to merge this many entries into the index.
    CheckpointStarted {
        /// Entries of the recent table.
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
    /// Puts are being slowed down, because the recent table fills faster than the checkpoint empties the other one.
    SlowedDown {
        /// Fill of the recent table, in per cent of its bound.
        fill_percent: u64,
    },
    /// A write or sync failed: the handle takes no more writes.
    Poisoned {
        /// What failed.
        cause: String,
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
            Event::SlowedDown { fill_percent } => write!(f, "puts slowed down: recent table {fill_percent}% full"),
            Event::Poisoned { cause } => write!(f, "no more writes: {cause}"),
            Event::SegmentRolled { segment } => write!(f, "value log rolled to segment {segment}"),
        }
    }
}
