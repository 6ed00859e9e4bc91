//! Replay: reads the log from the last checkpoint's tail into the memtable, and repairs the holes
//! that a power loss left.
//!
//! After the checkpoint every whole record counts, wherever it lies: unsynced writes reach the
//! disk in any order. Holes between whole records are covered by fillers, and bytes after the last
//! one are cut off, so that they are not taken for rot later. Nothing else is changed, so
//! replaying again after another crash gives the same result. Before it returns, everything it
//! relied on is durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use filemap_io::{Advice, Dir, File, files};

use crate::error::{Error, Result};
use crate::event::RecoveryReport;
use crate::failpoint::{Fault, planted};
use crate::format::location::UNIT_BYTES;
use crate::format::superblock::{Superblock, Tail};
use crate::format::value::{self, ChunkEntry, Header, Kind, Removed};
use crate::handle::recover::{Met, enter, remove_spares};
use crate::index::memtable::Memtable;
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::logs::values::ValueLog;

/// Result of a replay: where the log continues, and what was found.
pub(crate) struct Replay {
    pub(crate) segment: Arc<Segment>,
    pub(crate) offset: u64,
    pub(crate) next_sequence: u64,
    /// Units of the replayed tombstones, by segment.
    pub(crate) tombstones: BTreeMap<u16, u64>,
    /// Single versions that were removed, with their keys' hashes.
    pub(crate) removed: Vec<(u64, Removed)>,
    /// Least ordinal of a segment with chunks that the replayed chunk lists name.
    pub(crate) pinned: Option<u64>,
    /// True if something was cut off or covered that followers may have seen.
    pub(crate) has_dropped: bool,
    /// True unless the ordered runs are behind by a table that was not replayed whole.
    pub(crate) has_order: bool,
    /// Epoch of the next superblock.
    pub(crate) next_epoch: u64,
    pub(crate) report: RecoveryReport,
}

/// Sequences reserved for each segment whose loss is accepted: the most records it had room for.
const LOST_SEQUENCES: u64 = 1 << 24;

/// The superblock that a recovery begins from.
#[derive(Clone, Copy)]
pub(crate) struct Base<'a> {
    pub(crate) file: &'a SuperblockFile,
    /// The superblock on the disk.
    pub(crate) current: &'a Superblock,
    /// Epoch of the newest copy in the cache.
    pub(crate) seen: u64,
}

impl Base<'_> {
    /// Returns whether followers may have seen a superblock whose sync failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.seen != self.current.epoch
    }

    /// Epoch of the first superblock that this recovery writes; later ones continue from it.
    /// Followers may have seen those up to `seen`, and the one after `current` though the cache
    /// has lost it too; the one after that would overwrite the newest copy.
    fn first_epoch(&self) -> u64 {
        (self.current.epoch + 3).max(self.seen + 2)
    }
}

/// Replays the log after the superblock's tail into `table`. `has_tail` is false if the tail's
/// segment is lost and that was accepted: the log continues after it. It also continues after
/// segment `lost`, in a new segment and with sequences that the lost ones cannot have: should they
/// come back, later puts are newer.
///
/// # Errors
/// `Corrupt` if the tail's segment is missing or shorter than the tail: synced bytes are lost.
/// `Io`.
pub(crate) fn replay(
    dir: &dyn Dir,
    values: &ValueLog,
    base: Base<'_>,
    table: &Memtable,
    segment_table: &SegmentTable,
    (has_tail, lost): (bool, Option<u64>),
) -> Result<Replay> {
    let start = Instant::now();
    let mut run = Run::new(values, base, table);
    let behind = segment_table.order.as_ref().and_then(|named| named.behind);
    run.behind_before = behind.map_or(0, |behind| behind.before);
    if !planted(Fault::RecoveredNamesNotSynced) {
        files::sync_folder(dir)?;
    }
    if !planted(Fault::RecoveredSuperblockNotSynced) {
        base.file.sync()?;
    }
    let all = values.segments.log();
    let tail = base.current.tail;
    let mut end = Tail { ordinal: tail.ordinal, offset: if has_tail { tail.offset } else { FIRST_RECORD } };
    let mut last = None;
    if has_tail && !all.iter().any(|s| s.ordinal == tail.ordinal) {
        let name = crate::format::names::segment(tail.ordinal as u16);
        return Err(Error::corrupt(name, 0, "the segment of the last checkpoint is missing"));
    }
    for segment in all.iter().filter(|s| s.ordinal > tail.ordinal || (has_tail && s.ordinal == tail.ordinal)) {
        let is_first = segment.ordinal == tail.ordinal;
        let offset = run.segment(segment, if is_first { tail.offset } else { FIRST_RECORD })?;
        segment.seal(offset);
        // A segment without a record was created ahead: its header may be in the cache only.
        if is_first || offset > FIRST_RECORD {
            end = Tail { ordinal: segment.ordinal, offset };
            last = Some(Arc::clone(segment));
        }
    }
    remove_spares(dir, &values.segments, end.ordinal, segment_table)?;
    if let Some(lost) = lost {
        run.next_sequence += (lost + 1 - tail.ordinal) * LOST_SEQUENCES;
        last = last.filter(|_| lost <= end.ordinal);
    }
    let last = match last {
        Some(last) => last,
        None => {
            let (begun, _) = values.segments.begin(run.next_sequence)?;
            end = Tail { ordinal: begun.ordinal, offset: FIRST_RECORD };
            begun
        }
    };
    // The log continues in this segment.
    last.seal(0);
    run.report.elapsed = start.elapsed();
    Ok(Replay {
        next_epoch: base.first_epoch() + u64::from(run.has_told),
        segment: last,
        offset: end.offset,
        next_sequence: run.next_sequence,
        tombstones: run.tombstones,
        removed: run.removed,
        pinned: run.pinned,
        has_order: behind.is_none_or(|behind| run.behind_entries == behind.entries),
        has_dropped: run.has_told,
        report: run.report,
    })
}

struct Run<'a> {
    values: &'a ValueLog,
    base: Base<'a>,
    /// True once a superblock has told followers that something is dropped.
    has_told: bool,
    table: &'a Memtable,
    next_sequence: u64,
    met: Met,
    tombstones: BTreeMap<u16, u64>,
    removed: Vec<(u64, Removed)>,
    pinned: Option<u64>,
    /// Entries with a lower sequence are counted.
    behind_before: u64,
    behind_entries: u64,
    report: RecoveryReport,
}

impl<'a> Run<'a> {
    fn new(values: &'a ValueLog, base: Base<'a>, table: &'a Memtable) -> Run<'a> {
        Run {
            values,
            base,
            has_told: false,
            table,
            next_sequence: base.current.next_sequence,
            met: Met::since(base.current),
            tombstones: BTreeMap::new(),
            removed: Vec::new(),
            pinned: None,
            behind_before: 0,
            behind_entries: 0,
            report: RecoveryReport::default(),
        }
    }

    /// Tells followers, before the first change, that they may have seen records that are
    /// dropped: if this recovery is interrupted, the next one does not find what it has repaired.
    fn tell(&mut self) -> Result<()> {
        if !self.has_told {
            let epoch = self.base.first_epoch();
            self.base.file.write(&Superblock { epoch, dropped_epoch: epoch, ..self.base.current.clone() })?;
            self.has_told = true;
        }
        Ok(())
    }

    /// Replays one segment from an offset. Returns the end of its last whole record.
    fn segment(&mut self, segment: &Segment, from: u64) -> Result<u64> {
        let file = self.values.segments.writable(segment)?;
        // Pages left in the cache by a failed sync may differ from the disk. Only clean pages can
        // be dropped, so sync first.
        if !planted(Fault::CacheTrusted) {
            if !planted(Fault::RecoveredTailNotSynced) {
                file.sync().map_err(Error::io("sync", segment.name()))?;
            }
            file.advise(Advice::DropCache, from, 0);
        }
        let len = file.len().map_err(Error::io("measure", segment.name()))?;
        if len < from {
            return Err(segment.corrupt(len, "the file is shorter than the last checkpoint had synced"));
        }
        let mut end = from;
        let mut hole = None;
        let mut fillers = Vec::new();
        let mut scan = self.values.scan(segment, &*file, from, u64::MAX)?;
        while let Some(item) = scan.next()? {
            match item {
                Item::Gap { .. } if planted(Fault::StoppedAtTheFirstHole) => break,
                Item::Gap { offset, .. } => hole = hole.or(Some(offset)),
                Item::Filler { .. } => {}
                Item::Record { offset, bytes } => {
                    if !self.met.is_whole(bytes, &self.values.segments, self.table, |key| self.hash(key)) {
                        hole = hole.or(Some(offset));
                        continue;
                    }
                    if let Some(hole) = hole.take() {
                        fillers.push((hole, offset - hole));
                    }
                    self.record(segment, offset, bytes);
                    end = offset + bytes.len() as u64;
                }
            }
        }
        let mends = !fillers.is_empty() || len > end;
        for (offset, bytes) in fillers.into_iter().filter(|_| !planted(Fault::HolesNotFilled)) {
            self.report.skipped_bytes += bytes;
            self.tell()?;
            fill(&*file, segment, offset, bytes)?;
        }
        if len > end && !planted(Fault::TailNotCut) && !planted(Fault::StoppedAtTheFirstHole) {
            self.report.truncated_bytes += len - end;
            self.tell()?;
            file.set_len(end).map_err(Error::io("truncate", segment.name()))?;
        }
        if mends && !planted(Fault::RecoveredTailNotSynced) {
            file.sync().map_err(Error::io("sync", segment.name()))?;
        }
        self.report.replayed_bytes += end - from;
        Ok(end)
    }

    fn record(&mut self, segment: &Segment, offset: u64, bytes: &[u8]) {
        let sequence = enter(self.table, segment.id, offset, bytes, |key| self.hash(key));
        if !planted(Fault::SequencesReused) {
            self.next_sequence = self.next_sequence.max(sequence + 1);
        }
        if sequence < self.behind_before && value::peek(bytes).is_ok_and(|h| h.is_entry()) {
            self.behind_entries += 1;
        }
        match value::peek(bytes) {
            Ok(h) if h.kind == Kind::Tombstone => {
                *self.tombstones.entry(segment.id).or_default() += bytes.len() as u64 / UNIT_BYTES;
                let removed = Removed::of(&h, bytes).filter(|_| !planted(Fault::OneRemovedNotReplayed));
                let hash = self.hash(&bytes[h.key_at()..h.meta_at()]);
                self.removed.extend(removed.map(|removed| (hash, removed)));
            }
            Ok(h) if h.kind == Kind::Chunked => {
                let chunks = value::decode_chunks(&bytes[h.payload_at()..][..h.payload_bytes as usize], h.raw_bytes);
                let of = |c: &ChunkEntry| self.values.segments.get(c.location.segment).map_or(0, |s| s.ordinal);
                self.pinned = chunks.unwrap_or_default().iter().map(of).chain(self.pinned).min();
            }
            _ => {}
        }
        self.report.replayed_records += 1;
        self.met.add(segment, offset, bytes);
    }

    fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.base.current.hash_seed)
    }
}

/// Covers a hole with a filler record.
pub(crate) fn fill(file: &dyn File, segment: &Segment, offset: u64, bytes: u64) -> Result<()> {
    let mut head = [0; UNIT_BYTES as usize];
    value::seal_head(&Header::filler(bytes), segment.seed, offset, &mut head);
    file.write_at(&head[..value::FIXED_BYTES], offset).map_err(Error::io("write", segment.name()))
}
