//! Events: a store's reports about recovery and background work.

use std::fmt;
use std::time::Duration;

/// Result of the recovery at opening.
///
/// ```
/// # use filemap_core::{Event, Options};
/// let options = Options::new().on_event(|event| {
///     if let Event::Recovered(report) = event {
///         println!("{} records replayed", report.replayed_records);
///     }
/// });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes of the value log replayed: everything after the last checkpoint.
    pub replayed_bytes: u64,
    /// Number of whole records in them.
    pub replayed_records: u64,
    /// Bytes of holes between whole records, never written to disk; now covered by fillers.
    pub skipped_bytes: u64,
    /// Bytes cut off after the last whole record.
    pub truncated_bytes: u64,
    /// Duration.
    pub elapsed: Duration,
}

/// A dictionary made in the background.
///
/// ```
/// # use filemap_core::{Event, Options};
/// let options = Options::new().on_event(|event| {
///     if let Event::DictionaryMade(made) = event {
///         println!("{made:?}");
///     }
/// });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DictionaryMade {
    /// Its number N; the file is `dictN.zdict`.
    pub id: u32,
    /// Its group of keys; empty if it serves all keys.
    pub group: Vec<u8>,
    /// Number of pages it was trained on.
    pub pages: u32,
    /// Hold-out compression ratio of bodies: compressed bytes / uncompressed bytes.
    pub body_ratio: f64,
    /// The same ratio without this dictionary.
    pub body_ratio_before: f64,
    /// Duration.
    pub elapsed: Duration,
}

/// The reason why compaction ran, or did not.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// assert_eq!(store.compact()?.reason, filemap_core::compact::Reason::AllLive);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// Dead bytes exceed the space bound.
    OverBound,
    /// Some bytes are dead, and all dead bytes were to be removed.
    Garbage,
    /// Pages are due for recompression.
    Recompression,
    /// Tombstones take much space, and older segments keep them from being dropped.
    Tombstones,
    /// Every byte is live.
    AllLive,
    /// Dead bytes are within the space bound.
    WithinBound,
    /// All dead bytes lie in segments still in use: the active one, or those of a large body that
    /// is being written.
    NotYet,
    /// Cancelled.
    Cancelled,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::OverBound => "more bytes are dead than the bound allows",
            Reason::Garbage => "some bytes are dead",
            Reason::Recompression => "pages are due for recompression",
            Reason::Tombstones => "older segments hold back many tombstones",
            Reason::AllLive => "all bytes are live",
            Reason::WithinBound => "dead bytes are within the bound",
            Reason::NotYet => "all dead bytes lie in segments still in use",
            Reason::Cancelled => "cancelled",
        })
    }
}

/// Result of one compaction run.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let done = store.compact()?;
/// println!("{} bytes copied, {} bytes removed", done.copied_bytes, done.removed_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compacted {
    /// The reason why it ran, or did nothing.
    pub reason: Reason,
    /// Number of segments removed.
    pub removed_segments: u64,
    /// Bytes read to find live records.
    pub read_bytes: u64,
    /// Bytes copied to new segments.
    pub copied_bytes: u64,
    /// Bytes of the removed segments.
    pub removed_bytes: u64,
    /// Segments that cannot be emptied because a live record in them is damaged: the handle's
    /// total so far.
    pub stuck_segments: u64,
    /// Records that could not be expanded, e.g. because their dictionary is missing: moved without
    /// recompression.
    pub unexpanded_records: u64,
    /// Duration.
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

    /// Adds the result of another run; keeps the reason.
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

/// An event in the background, or at opening.
///
/// ```
/// let options = filemap_core::Options::new().on_event(|event| println!("{event}"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The store was opened and the log after the last checkpoint replayed.
    Recovered(RecoveryReport),
    /// A checkpoint began to merge the memtable into the index.
    CheckpointStarted {
        /// Entries of the memtable.
        entries: u64,
    },
    /// The checkpoint is durable.
    CheckpointFinished {
        /// Duration.
        elapsed: Duration,
        /// Index pages written.
        index_pages: u64,
        /// Bytes appended to the key log.
        key_bytes: u64,
    },
    /// Puts are slowed down: the active memtable fills faster than the checkpoint merges the
    /// frozen one.
    SlowedDown {
        /// Fill of the memtable, in per cent of its limit.
        fill_percent: u64,
    },
    /// A write or sync failed: the handle writes no more.
    Poisoned {
        /// The failure.
        cause: String,
    },
    /// A compaction run ended.
    Compacted(Compacted),
    /// A dictionary was made: new pages of its group are now compressed with it.
    DictionaryMade(DictionaryMade),
    /// The store was opened for writing with unfinished erasures: files may still hold erased
    /// content.
    ErasureUnfinished {
        /// Ids of their rules.
        rules: Vec<u32>,
    },
    /// The store stops keeping its keys in order, until a repair; nothing else is lost.
    OrderEnded {
        /// The reason why its runs could not be kept right.
        why: String,
    },
    /// The value log began a new segment.
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
                "compacted in {} ms ({}): {} segments of {} bytes removed, {} bytes copied, {} segments kept because of damage",
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
                write!(f, "unfinished erasures: rules {rules:?}; run `fm-tool erase --resume`")
            }
            Event::OrderEnded { why } => {
                write!(f, "keys are no longer kept in order, until a repair: {why}")
            }
            Event::SegmentRolled { segment } => write!(f, "value log rolled to segment {segment}"),
        }
    }
}
