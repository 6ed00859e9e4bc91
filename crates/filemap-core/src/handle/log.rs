//! The end of the value log: the state that puts and checkpoints share behind the append lock.

use std::collections::BTreeMap;

use crate::format::superblock::Tail;
use crate::logs::values::append::Appender;

pub(crate) struct Log {
    pub(crate) appender: Appender,
    pub(crate) next_sequence: u64,
    /// Position up to which the log is known to be durable, and the next sequence there.
    pub(crate) durable: (Tail, u64),
    /// Units of tombstones since the last checkpoint, by segment.
    pub(crate) tombstones: BTreeMap<u16, u64>,
    pub(crate) pins: Pins,
    /// Appender position when the last checkpoint froze its memtable.
    pub(crate) frozen_at: u64,
}

impl Log {
    /// A log that ends, durably, at the appender's position.
    pub(crate) fn new(appender: Appender, next_sequence: u64, tombstones: BTreeMap<u16, u64>, pins: Pins) -> Log {
        let durable = (appender.tail(), next_sequence);
        Log { appender, next_sequence, durable, tombstones, pins, frozen_at: 0 }
    }

    /// The end of the log and the next sequence.
    pub(crate) fn end(&self) -> (Tail, u64) {
        (self.appender.tail(), self.next_sequence)
    }
}

/// Pins: chunks that no list in the index names yet, whose segments compaction must not touch.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// For each body being put, the ordinal of its first chunk's segment.
    streams: BTreeMap<u64, u64>,
    last_stream: u64,
    /// Least ordinal of the chunk lists in the active memtable; below, in the frozen one.
    active: Option<u64>,
    frozen: Option<u64>,
}

impl Pins {
    /// Pins of the entries that a recovery put into the active memtable.
    pub(crate) fn of(active: Option<u64>) -> Pins {
        Pins { active, ..Pins::default() }
    }

    /// Pins a body of several chunks that begins in a segment. Returns its id.
    pub(crate) fn begin(&mut self, ordinal: u64) -> u64 {
        self.last_stream += 1;
        self.streams.insert(self.last_stream, ordinal);
        self.last_stream
    }

    /// Unpins a body: its chunk list is in the memtable, or it was abandoned.
    pub(crate) fn end(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }

    /// Pins a chunk list entered in the active memtable; its first chunk lies in segment
    /// `ordinal`.
    pub(crate) fn list(&mut self, ordinal: u64) {
        self.active = Some(self.active.map_or(ordinal, |a| a.min(ordinal)));
    }

    /// Called when the active memtable is frozen.
    pub(crate) fn freeze(&mut self) {
        self.frozen = self.active.take();
    }

    /// Called when the frozen memtable is in the index.
    pub(crate) fn merged(&mut self) {
        self.frozen = None;
    }

    /// Ordinal from which on compaction must leave the segments of the log alone.
    pub(crate) fn least(&self) -> u64 {
        let pins = self.streams.values().copied().chain(self.active).chain(self.frozen);
        pins.min().unwrap_or(u64::MAX)
    }
}
