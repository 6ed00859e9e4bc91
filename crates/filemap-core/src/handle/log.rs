//! The end of the value log, which puts and checkpoints share behind the append lock.

use std::collections::BTreeMap;

use crate::logs::values::append::Appender;

/// The end of the log, behind the append lock.
pub(crate) struct Log {
    pub(crate) appender: Appender,
    pub(crate) next_sequence: u64,
    /// Units of the tombstones since the last checkpoint, by segment.
    pub(crate) tombstones: BTreeMap<u16, u64>,
    pub(crate) pins: Pins,
    /// Position of the appender when the last checkpoint froze its memtable.
    pub(crate) frozen_at: u64,
}

/// Chunks that no list in the index names yet: compaction must leave the segments alone in which they lie.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// Of each body that is being put, the ordinal of its first chunk's segment.
    streams: BTreeMap<u64, u64>,
    last_stream: u64,
    /// The least such ordinal of the lists in the active table, and in the frozen one.
    active: Option<u64>,
    frozen: Option<u64>,
}

impl Pins {
    /// Those of what a recovery has entered in the active table.
    pub(crate) fn of(active: Option<u64>) -> Pins {
        Pins { active, ..Pins::default() }
    }

    /// A body of several chunks begins in a segment. Returns what to name it by.
    pub(crate) fn begin(&mut self, ordinal: u64) -> u64 {
        self.last_stream += 1;
        self.streams.insert(self.last_stream, ordinal);
        self.last_stream
    }

    /// The body's list is in the table, or it was given up.
    pub(crate) fn end(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }

    /// A list was entered in the active table whose first chunk lies in a segment.
    pub(crate) fn list(&mut self, ordinal: u64) {
        self.active = Some(self.active.map_or(ordinal, |a| a.min(ordinal)));
    }

    /// The active table was frozen.
    pub(crate) fn freeze(&mut self) {
        self.frozen = self.active.take();
    }

    /// The frozen table is in the index.
    pub(crate) fn merged(&mut self) {
        self.frozen = None;
    }

    /// Segments of the log from this ordinal on are not to be taken.
    pub(crate) fn least(&self) -> u64 {
        let pins = self.streams.values().copied().chain(self.active).chain(self.frozen);
        pins.min().unwrap_or(u64::MAX)
    }
}
