//! Reads segments record by record, once, and enters all that counts in the memtable of a store without keys, from where
//! checkpoints lead it to the index, batch by batch.
//!
//! Segments that are not in the log's order come first: what compaction has written, and what has lost its header. Of these all
//! removals are remembered, since a version that one of them hides may be met later, and versions that need something not
//! met yet wait. In the log everything comes after what it needs, and a removal after what it removes.
//!
//! Memory: a batch; 50 bytes for each removal outside of the log and each version that waits; 16 bytes a chunk; a bit a
//! record. Nothing grows with the bytes of the store.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_io::File;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::Flaw;
use crate::format::location::{Extent, Location};
use crate::format::names;
use crate::format::superblock::Tail;
use crate::format::value::{self, Header, Kind};
use crate::handle::Shared;
use crate::handle::recover;
use crate::logs::scan::{Item, Scan};
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::logs::values::append::Appender;
use crate::logs::values::read::{Raw, Want};
use crate::logs::values::{HeadFraming, ValueFraming};
use crate::record::{MAX_SEQUENCE, Version};
use crate::sequences::Sequences;
use crate::sync::lock;
use crate::upkeep::checkpoint::Task;
use crate::upkeep::repair::{Loss, RepairProgress};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// After so many bytes the caller is told.
const TELL_BYTES: u64 = 4 << 20;

type Progress<'a> = dyn FnMut(RepairProgress) -> ControlFlow<()> + 'a;

/// What was found in one segment.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// Offsets and lengths of what lies between whole records and is none.
    pub(crate) gaps: Vec<(u64, u64)>,
    /// Where its last whole record ends.
    pub(crate) end: u64,
}

/// Totals of all segments.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) removals: u64,
    pub(crate) losses: Vec<Loss>,
    pub(crate) outdated: u64,
    pub(crate) unfinished_bytes: u64,
    /// Dictionaries that records name.
    pub(crate) dictionaries: BTreeSet<u32>,
}

/// A version that was met before what it needs.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    extent: Extent,
    /// Sequence of the version that holds the body; 0 for a list of chunks.
    holder: u64,
}

/// See the module.
pub(crate) struct Rebuild<'a> {
    shared: &'a Shared,
    /// Called when the active table is full; returns when there is room.
    make_room: &'a dyn Fn(&Shared) -> Result<()>,
    progress: &'a mut Progress<'a>,
    total_bytes: u64,
    /// What lies after it may never have been written to the end.
    vouched: Option<Tail>,
    next_sequence: u64,
    /// By hashes of keys: of those that were removed outside of the log the last removal, and of those that are watched, or 0.
    removals: HashMap<u128, u64>,
    /// Whole chunks, and hashes of their keys.
    chunks: HashMap<Location, u64>,
    /// Versions that hold bodies.
    holders: Sequences,
    waiting: Vec<Waiting>,
    /// Lists of chunks that wait: what refers to one must wait, too.
    awaited: Sequences,
    /// Versions that are not whole.
    unwhole: Vec<Extent>,
    /// What an index that is left says of versions.
    living: Option<Living>,
    found: Found,
}

/// Which versions lived as of an index that is left, for when removals are lost.
#[derive(Debug)]
pub(crate) struct Living {
    pub(crate) sequences: Sequences,
    /// It knows of those with lower sequences.
    pub(crate) below: u64,
}

impl Living {
    fn is_dead(&self, sequence: u64) -> bool {
        sequence < self.below && !self.sequences.contains(sequence)
    }
}

impl<'a> Rebuild<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        make_room: &'a dyn Fn(&Shared) -> Result<()>,
        progress: &'a mut Progress<'a>,
        total_bytes: u64,
        vouched: Option<Tail>,
    ) -> Rebuild<'a> {
        Rebuild {
            shared,
            make_room,
            progress,
            total_bytes,
            vouched,
            next_sequence: 1,
            removals: HashMap::new(),
            chunks: HashMap::new(),
            holders: Sequences::default(),
            waiting: Vec::new(),
            awaited: Sequences::default(),
            unwhole: Vec::new(),
            living: None,
            found: Found::default(),
        }
    }

    /// Leaves out the versions that did not live.
    pub(crate) fn believe(&mut self, living: Option<Living>) {
        self.living = living;
    }

    /// Reads one segment. Those that are not in the log's order must come first, and the log in its order. `file` is read once,
    /// from front to end; `again` is for looking once more at what was. `name` is what the caller calls it.
    ///
    /// # Errors
    /// `Interrupted` when the caller says so; `Io`; what checkpoints return.
    pub(crate) fn segment(
        &mut self,
        segment: &Segment,
        file: &dyn File,
        again: &dyn File,
        name: &str,
    ) -> Result<Scanned> {
        let mut scan = self.shared.values.scan(segment, file, FIRST_RECORD, u64::MAX)?.once();
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
        // What follows the last whole record is cut off, not covered.
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
        if told.is_break() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Adds what the caller has found out.
    pub(crate) fn lost(&mut self, loss: Loss) {
        self.found.losses.push(loss);
    }

    /// Tells what was lost in a gap: records whose heads are whole by their keys, the rest by its place.
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
                // The scan that found the gap would have passed over it.
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
                self.chunks.insert(extent.location, self.shared.hash(key));
                return Ok(());
            }
            Kind::Tombstone => {
                self.removal(segment, key, &header, extent)?;
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
            Kind::Reference => self.holders.contains(holder(payload)),
        };
        if whole {
            return self.enter(segment, offset, bytes, key, &header);
        }
        self.removals.entry(self.hash128(key)).or_insert(0);
        let holder = if header.kind == Kind::Reference { holder(payload) } else { 0 };
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

    /// Counts a removal, and remembers it if something that it hides may follow.
    fn removal(&mut self, segment: &Segment, key: &[u8], header: &Header, extent: Extent) -> Result<()> {
        self.found.removals += 1;
        let mut log = lock(&self.shared.write_side()?.log);
        *log.tombstones.entry(segment.id).or_default() += u64::from(extent.units);
        drop(log);
        let hash = self.hash128(key);
        if segment.is_output {
            let last = self.removals.entry(hash).or_insert(0);
            *last = header.sequence.max(*last);
        } else if let Some(last) = self.removals.get_mut(&hash) {
            *last = header.sequence.max(*last);
        }
        Ok(())
    }

    fn hash128(&self, key: &[u8]) -> u128 {
        xxh3_128_with_seed(key, self.shared.birth.hash_seed)
    }

    fn has_chunks(&self, key: &[u8], header: &Header, payload: &[u8]) -> bool {
        let hash = self.shared.hash(key);
        let chunks = value::decode_chunks(payload, header.raw_bytes);
        chunks.is_ok_and(|list| list.iter().all(|c| self.chunks.get(&c.location) == Some(&hash)))
    }

    /// Whether a removal that is remembered hides a version of a key with a sequence.
    fn is_removed(&self, key: &[u8], sequence: u64) -> bool {
        !planted(Fault::RemovalsForgotten)
            && !self.removals.is_empty()
            && self.removals.get(&self.hash128(key)).is_some_and(|last| *last > sequence)
    }

    /// Enters a whole version or removal in the table.
    fn enter(&mut self, segment: &Segment, offset: u64, bytes: &[u8], key: &[u8], header: &Header) -> Result<()> {
        if header.kind != Kind::Tombstone && self.is_removed(key, header.sequence) {
            return Ok(());
        }
        let shared = self.shared;
        let log = lock(&shared.write_side()?.log);
        let table = Arc::clone(&shared.tables.load().active);
        recover::enter(&table, segment.id, offset, bytes, |key| shared.hash(key));
        drop(log);
        if table.bytes() >= shared.options.memtable_bytes || table.is_exhausted() {
            (self.make_room)(shared)?;
        }
        Ok(())
    }

    /// Enters what has waited and is whole after all, ends the log at a place, and makes the index durable.
    ///
    /// # Errors
    /// As [`Rebuild::segment`].
    pub(crate) fn finish(mut self, appender: Appender) -> Result<Found> {
        self.enter_late()?;
        let shared = self.shared;
        {
            let mut log = lock(&shared.write_side()?.log);
            log.appender = appender;
            log.next_sequence = self.next_sequence;
        }
        let registry = &shared.values.dictionaries;
        // The number of one that is gone is given to no other, and it is missed.
        registry.pass_over(self.found.dictionaries.last().copied().unwrap_or(0));
        let gone = self.found.dictionaries.iter().filter(|id| registry.flaw(**id).is_some());
        lock(&shared.write_side()?.checkpointer).segment_table.dictionaries.extend(gone.map(|id| (*id, true)));
        shared.checkpoint_with(Task { is_due: true, ..Task::default() })?;
        self.judge_unwhole()?;
        recover::remove_orphans(&shared.values.segments, &shared.segment_table.load(), true)?;
        Ok(self.found)
    }

    fn enter_late(&mut self) -> Result<()> {
        let mut waiting = std::mem::take(&mut self.waiting);
        // In the order of their places, and what may hold a body before what refers to it.
        waiting.sort_unstable_by_key(|w| (w.holder != 0, w.extent.location));
        for one in waiting {
            let segment = self.shared.values.segments.get(one.extent.location.segment)?;
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
        self.shared.values.with_record(extent.location, extent.size(), Want::Whole, f)
    }

    /// Says of each version that is not whole whether it is lost, or nobody would read it any more.
    fn judge_unwhole(&mut self) -> Result<()> {
        for extent in std::mem::take(&mut self.unwhole) {
            let place = extent.location;
            let (key, version, kind) =
                self.with_record(extent, |raw| Ok((raw.key().to_vec(), raw.version(), raw.header.kind)))?;
            let is_removed = self.is_removed(&key, version.sequence);
            let kept = self.shared.all_spots(&key, self.shared.hash(&key))?;
            // The same one may have come from elsewhere, whole.
            if is_removed || kept.first().is_some_and(|s| s.version >= version) {
                self.found.outdated += 1;
                continue;
            }
            let what = match kind {
                Kind::Chunked => "not all of its chunks are there",
                _ => "the version that holds its body is not there",
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

/// The sequence that a reference names.
fn holder(payload: &[u8]) -> u64 {
    payload.first_chunk().map_or(0, |s| u64::from_le_bytes(*s))
}
