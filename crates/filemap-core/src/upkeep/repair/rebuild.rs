//! Reads segments record by record, once, and enters all records that count in the memtable of a
//! store without keys; checkpoints move them to the index, batch by batch.
//!
//! Segments outside the log's order come first: output of compaction, and segments without a
//! header. All their tombstones are kept, since a version that one hides may follow, and versions
//! that need something not yet read wait. In the log proper every record follows those it needs,
//! and a tombstone follows the versions it removes.
//!
//! Memory: a batch; 50 bytes for each tombstone outside the log, or of one version, and for each
//! waiting version; 16 bytes a chunk; a bit a record. Nothing grows with the bytes of the store.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use filemap_io::{File, Progress};

use crate::error::{Result, unless_cancelled};
use crate::failpoint::{Fault, planted};
use crate::format::Flaw;
use crate::format::location::{Extent, Location};
use crate::format::names;
use crate::format::superblock::Tail;
use crate::format::value::{self, Header, Kind, Removed};
use crate::handle::recover;
use crate::logs::scan::{Item, Scan};
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::logs::values::append::Appender;
use crate::logs::values::read::{Raw, Want};
use crate::logs::values::{HeadFraming, ValueFraming};
use crate::record::{MAX_SEQUENCE, Version};
use crate::sequences::Sequences;
use crate::sync::lock;
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoint::Task;
use crate::upkeep::remove::OneOf;
use crate::upkeep::repair::{Loss, RepairProgress};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Bytes between two progress reports.
const TELL_BYTES: u64 = 4 << 20;

/// Findings of one segment.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Offset and length of gaps between intact records.
    pub(crate) gaps: Vec<(u64, u64)>,
    /// End of the last intact record.
    pub(crate) end: u64,
}

/// Totals of all segments.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) tombstones: u64,
    pub(crate) losses: Vec<Loss>,
    pub(crate) outdated: u64,
    pub(crate) unfinished_bytes: u64,
    /// Dictionaries that records name.
    pub(crate) dictionaries: BTreeSet<u32>,
}

/// A version read before the records it needs.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    extent: Extent,
    /// Sequence of the version that holds the body; 0 for a list of chunks.
    holder: u64,
}

/// A rebuild in progress.
pub(crate) struct Rebuild<'a> {
    upkeep: &'a Upkeep,
    /// Called when the active table is full; returns once there is room.
    make_room: &'a dyn Fn(&Upkeep) -> Result<()>,
    progress: &'a mut Progress<'a, RepairProgress>,
    total_bytes: u64,
    /// Log position from which writes may be unfinished.
    vouched: Option<Tail>,
    next_sequence: u64,
    /// Last tombstone by hash of the key: of keys removed outside the log's order, and of watched
    /// keys (0 if none was seen).
    tombstones: HashMap<u128, u64>,
    /// Removed single versions by their sequence, with hashes of their keys.
    removed: HashMap<u64, OneOf>,
    /// Intact chunks, with hashes of their keys.
    chunks: HashMap<Location, u64>,
    /// Versions that hold bodies.
    holders: Sequences,
    waiting: Vec<Waiting>,
    /// Lists of chunks that wait: a reference to one must wait too.
    awaited: Sequences,
    /// Versions that are incomplete.
    unwhole: Vec<Extent>,
    /// Evidence of a surviving index on versions.
    living: Option<Living>,
    found: Found,
}

/// Versions that were live in a surviving index, for when tombstones are lost.
#[derive(Debug)]
pub(crate) struct Living {
    pub(crate) sequences: Sequences,
    /// The index covers sequences below this one.
    pub(crate) below: u64,
}

impl Living {
    fn is_dead(&self, sequence: u64) -> bool {
        sequence < self.below && !self.sequences.contains(sequence)
    }
}

impl<'a> Rebuild<'a> {
    pub(crate) fn new(
        upkeep: &'a Upkeep,
        make_room: &'a dyn Fn(&Upkeep) -> Result<()>,
        progress: &'a mut Progress<'a, RepairProgress>,
        total_bytes: u64,
        vouched: Option<Tail>,
    ) -> Rebuild<'a> {
        Rebuild {
            upkeep,
            make_room,
            progress,
            total_bytes,
            vouched,
            next_sequence: 1,
            tombstones: HashMap::new(),
            removed: HashMap::new(),
            chunks: HashMap::new(),
            holders: Sequences::default(),
            waiting: Vec::new(),
            awaited: Sequences::default(),
            unwhole: Vec::new(),
            living: None,
            found: Found::default(),
        }
    }

    /// Leaves out versions that were not live.
    pub(crate) fn believe(&mut self, living: Option<Living>) {
        self.living = living;
    }

    /// Reads one segment. Those outside the log's order must come first, then the log in order.
    /// `file` is read once, front to back; `again` reads parts of it a second time. `name` is used
    /// in reports.
    ///
    /// # Errors
    /// `Cancelled` when the caller cancels; `Io`; those of checkpoints.
    pub(crate) fn segment(
        &mut self,
        segment: &Segment,
        file: &dyn File,
        again: &dyn File,
        name: &str,
    ) -> Result<Scanned> {
        let mut scan = self.upkeep.reading.values().scan(segment, file, FIRST_RECORD, u64::MAX)?.once();
        let mut scanned = Scanned { gaps: Vec::new(), end: FIRST_RECORD };
        let mut told = 0;
        self.found.segments += 1;
        while let Some(item) = scan.next()? {
            match item {
                Item::Gap { offset, bytes, what } => {
                    scanned.gaps.push((offset, bytes));
                    self.gap(segment, again, name, (offset, bytes), what)?;
                }
                Item::Filler { .. } => {}
                Item::Record { offset, bytes } => {
                    self.found.records += 1;
                    self.record(segment, offset, bytes)?;
                }
            }
            let at = scan.offset();
            if scanned.gaps.last().is_none_or(|g| g.0 + g.1 < at) {
                scanned.end = at;
            }
            if at - told >= TELL_BYTES {
                self.found.bytes += at - told;
                told = at;
                self.tell(name)?;
            }
        }
        self.found.bytes += scan.offset() - told;
        // Bytes after the last intact record are cut off, not covered.
        scanned.gaps.retain(|g| g.0 < scanned.end);
        self.tell(name)?;
        Ok(scanned)
    }

    fn tell(&mut self, name: &str) -> Result<()> {
        let told = (self.progress)(RepairProgress {
            file: name.to_owned(),
            done_bytes: self.found.bytes.min(self.total_bytes),
            total_bytes: self.total_bytes,
            losses: self.found.losses.len() as u64,
        });
        unless_cancelled(told)
    }

    /// Adds a loss found by the caller.
    pub(crate) fn lost(&mut self, loss: Loss) {
        self.found.losses.push(loss);
    }

    /// Reports the losses in a gap: records with intact heads by key, the rest by place.
    fn gap(&mut self, segment: &Segment, file: &dyn File, name: &str, gap: (u64, u64), what: Flaw) -> Result<()> {
        let (offset, bytes) = gap;
        let here = Tail { ordinal: segment.ordinal, offset };
        if !segment.is_output && self.vouched.is_some_and(|tail| here >= tail) {
            self.found.unfinished_bytes += bytes;
            return Ok(());
        }
        let framing = HeadFraming(ValueFraming { seed: segment.seed });
        let mut scan = Scan::new(file, name.to_owned(), framing, offset, offset + bytes)?;
        while let Some(item) = scan.next()? {
            let (offset, bytes, head) = match item {
                Item::Gap { offset, bytes, .. } => (offset, bytes, None),
                // The scan that found the gap would have skipped a filler.
                Item::Filler { .. } => continue,
                Item::Record { offset, bytes } => {
                    (offset, bytes.len() as u64, value::peek(bytes).ok().map(|h| (h, bytes)))
                }
            };
            let key = head.map(|(h, b)| b[h.key_at()..h.meta_at()].to_vec());
            let version = head.map(|(h, _)| version(&h));
            let what = if head.is_some() { "its payload is damaged" } else { what };
            let (file, what) = (name.to_owned(), what.to_owned());
            self.lost(Loss { file, offset, bytes, key, version, what });
        }
        Ok(())
    }

    fn record(&mut self, segment: &Segment, offset: u64, bytes: &[u8]) -> Result<()> {
        let Ok(header) = value::peek(bytes) else { return Ok(()) };
        self.next_sequence = self.next_sequence.max(header.sequence + 1).min(MAX_SEQUENCE);
        if header.dictionary != 0 {
            self.found.dictionaries.insert(header.dictionary);
        }
        if header.kind.is_version() && self.living.as_ref().is_some_and(|l| l.is_dead(header.sequence)) {
            return Ok(());
        }
        let key = &bytes[header.key_at()..header.meta_at()];
        let extent = Extent::new(Location::new(segment.id, offset), bytes.len() as u64);
        let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
        let whole = match header.kind {
            Kind::Filler => return Ok(()),
            Kind::Chunk => {
                self.chunks.insert(extent.location, self.upkeep.reading.hash(key));
                return Ok(());
            }
            Kind::Tombstone => {
                self.removal(segment, key, (&header, bytes), extent);
                true
            }
            Kind::Page => {
                self.holders.insert(header.sequence);
                true
            }
            Kind::Chunked => {
                let is_whole = self.has_chunks(key, &header, payload);
                if is_whole {
                    self.holders.insert(header.sequence);
                }
                is_whole
            }
            Kind::Reference => self.holders.contains(value::referred_to(payload)),
        };
        if whole {
            return self.enter(segment, offset, bytes, key, &header);
        }
        self.tombstones.entry(self.hash128(key)).or_insert(0);
        let holder = if header.kind == Kind::Reference { value::referred_to(payload) } else { 0 };
        if segment.is_output || self.awaited.contains(holder) {
            self.waiting.push(Waiting { extent, holder });
            if holder == 0 {
                self.awaited.insert(header.sequence);
            }
        } else {
            self.unwhole.push(extent);
        }
        Ok(())
    }

    /// Counts a tombstone, and keeps it if a version that it hides may follow.
    fn removal(&mut self, segment: &Segment, key: &[u8], (header, bytes): (&Header, &[u8]), extent: Extent) {
        self.found.tombstones += 1;
        let mut log = lock(self.upkeep.writing.log());
        *log.tombstones.entry(segment.id).or_default() += u64::from(extent.units);
        drop(log);
        if let Some(removed) = Removed::of(header, bytes) {
            if !planted(Fault::OneRemovedForgotten) {
                let hash = self.upkeep.reading.hash(key);
                let (_, known) = self.removed.entry(removed.version.sequence).or_insert((hash, removed));
                known.parted_below = removed.parted_below.max(known.parted_below);
            }
            return;
        }
        let hash = self.hash128(key);
        if segment.is_output {
            let last = self.tombstones.entry(hash).or_insert(0);
            *last = header.sequence.max(*last);
        } else if let Some(last) = self.tombstones.get_mut(&hash) {
            *last = header.sequence.max(*last);
        }
    }

    fn hash128(&self, key: &[u8]) -> u128 {
        xxh3_128_with_seed(key, self.upkeep.reading.birth().hash_seed)
    }

    fn has_chunks(&self, key: &[u8], header: &Header, payload: &[u8]) -> bool {
        let hash = self.upkeep.reading.hash(key);
        let chunks = value::decode_chunks(payload, header.raw_bytes);
        chunks.is_ok_and(|list| list.iter().all(|c| self.chunks.get(&c.location) == Some(&hash)))
    }

    /// Returns true if a tombstone kept here hides a version of a key.
    fn is_removed(&self, key: &[u8], sequence: u64) -> bool {
        !planted(Fault::TombstonesForgotten)
            && !self.tombstones.is_empty()
            && self.tombstones.get(&self.hash128(key)).is_some_and(|last| *last > sequence)
    }

    /// Enters a complete version or tombstone in the table.
    fn enter(&mut self, segment: &Segment, offset: u64, bytes: &[u8], key: &[u8], header: &Header) -> Result<()> {
        if header.kind != Kind::Tombstone && self.is_removed(key, header.sequence) {
            return Ok(());
        }
        let reading = &self.upkeep.reading;
        let log = lock(self.upkeep.writing.log());
        let table = Arc::clone(&reading.tables().active);
        recover::enter(&table, segment.id, offset, bytes, |key| reading.hash(key));
        drop(log);
        if table.bytes() >= reading.options().memtable_bytes || table.is_exhausted() {
            (self.make_room)(self.upkeep)?;
        }
        Ok(())
    }

    /// Enters waiting versions that turned out complete, sets the end of the log, and makes the
    /// index durable.
    ///
    /// # Errors
    /// As [`Rebuild::segment`].
    pub(crate) fn finish(mut self, appender: Appender) -> Result<Found> {
        self.enter_late()?;
        let reading = &self.upkeep.reading;
        {
            let mut log = lock(self.upkeep.writing.log());
            log.appender = appender;
            // Above all earlier sequences: whoever noted the place of the old store sees that this
            // one differs.
            self.next_sequence = (self.next_sequence + 1).min(MAX_SEQUENCE);
            log.next_sequence = self.next_sequence;
        }
        // A tombstone may have been in a damaged part.
        lock(&self.upkeep.checkpointer).current.removals_from = self.next_sequence;
        let registry = &reading.values().dictionaries;
        // A missing dictionary's id is not reused, and its loss is recorded.
        registry.pass_over(self.found.dictionaries.last().copied().unwrap_or(0));
        let gone = self.found.dictionaries.iter().filter(|id| registry.flaw(**id).is_some());
        lock(&self.upkeep.checkpointer).segment_table.dictionaries.extend(gone.map(|id| (*id, true)));
        self.upkeep.checkpoint_with(Task { is_due: true, ..Task::default() })?;
        let removed: Vec<OneOf> = self.removed.values().copied().collect();
        self.upkeep.end_removals(&removed)?;
        self.judge_unwhole()?;
        recover::remove_orphans(&reading.values().segments, &reading.segment_table(), true)?;
        Ok(self.found)
    }

    fn enter_late(&mut self) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        // In order of place, but possible holders of bodies before references.
        waiting.sort_unstable_by_key(|w| (w.holder != 0, w.extent.location));
        for one in waiting {
            let segment = self.upkeep.reading.values().segments.get(one.extent.location.segment)?;
            let offset = one.extent.location.offset();
            let record = self.with_record(one.extent, |raw| Ok(raw.bytes[..one.extent.bytes() as usize].to_vec()))?;
            let Ok(header) = value::peek(&record) else { continue };
            let key = &record[header.key_at()..header.meta_at()];
            let payload = &record[header.payload_at()..][..header.payload_bytes as usize];
            let is_whole = match header.kind {
                Kind::Chunked => self.has_chunks(key, &header, payload),
                _ => self.holders.contains(one.holder),
            };
            if is_whole {
                self.holders.insert(header.sequence);
                self.enter(&segment, offset, &record, key, &header)?;
            } else {
                self.unwhole.push(one.extent);
            }
        }
        Ok(())
    }

    fn with_record<T>(&self, extent: Extent, f: impl FnOnce(&Raw<'_>) -> Result<T>) -> Result<T> {
        self.upkeep.reading.values().with_record(extent.location, extent.size(), Want::Whole, f)
    }

    /// Decides for each incomplete version whether it is lost or outdated.
    fn judge_unwhole(&mut self) -> Result<()> {
        for extent in std::mem::take(&mut self.unwhole) {
            let place = extent.location;
            let (key, version, holder) = self.with_record(extent, |raw| {
                let is_reference = raw.header.kind == Kind::Reference;
                Ok((raw.key().to_vec(), raw.version(), is_reference.then(|| raw.refers_to())))
            })?;
            let one = self.removed.get(&version.sequence).or_else(|| self.removed.get(&holder?));
            let is_removed = self.is_removed(&key, version.sequence)
                || one.is_some_and(|(_, one)| one.removes(version.sequence, holder.unwrap_or(0)));
            let kept = self.upkeep.reading.all_spots(&key, self.upkeep.reading.hash(&key))?;
            // The same version may exist elsewhere, complete.
            if is_removed || kept.first().is_some_and(|s| s.version >= version) {
                self.found.outdated += 1;
                continue;
            }
            let what = match holder {
                None => "some of its chunks are missing",
                Some(_) => "the version that holds its body is missing",
            };
            let (file, offset, bytes) = (names::segment(place.segment), place.offset(), extent.bytes());
            self.lost(Loss { file, offset, bytes, key: Some(key), version: Some(version), what: what.into() });
        }
        Ok(())
    }
}

fn version(header: &Header) -> Version {
    Version { time_ms: header.time_ms, sequence: header.sequence }
}
