//! Copies live records in the victims to the output, and notes the new place of each version.
//!
//! A version moves whole: a live list of chunks takes its chunks in victims with it and names
//! their new places, wherever the list itself lies. Sequence, time and body stay the same.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::location::{Extent, Location, SizeClass, UNIT_BYTES};
use crate::format::value::{self, ChunkEntry, Header, Kind};
use crate::handle::reading::Reading;
use crate::handle::reading::Recompressed;
use crate::handle::retention::Retention;
use crate::handle::spot::Spot;
use crate::logs::segments::Segment;
use crate::logs::values::cache::ValueCache;
use crate::logs::values::read::Want;
use crate::sync::{lock, make_way};
use crate::upkeep::checkpoint::{Op, Task};
use crate::upkeep::compact::chains::{Chains, Verdict};
use crate::upkeep::compact::judge::{judge, owners};
use crate::upkeep::compact::output::Output;
use crate::upkeep::compact::window::Window;
use crate::upkeep::state::Cleaning;

/// Bytes copied in about a tenth of a millisecond.
const MAKE_WAY_BYTES: u64 = 32 << 10;

/// Copies live records from victims to the output.
pub(super) struct Copier<'s> {
    reading: &'s Reading,
    pub(super) output: Output<'s>,
    pub(super) task: Task,
    /// Old and new places of records copied unchanged, for the value cache, if the store has one.
    /// Excludes recompressed records: a get shows their stored length.
    pub(super) unchanged: Vec<(Location, Location)>,
    retention: Retention,
    chains: Chains,
    /// Level at which pages are recompressed, 0 to copy them as they are.
    level: u8,
    most_ops: usize,
    /// The index is too long to be read ahead as a whole.
    is_long: bool,
    victims: HashSet<u16>,
    /// Floor and ordinal of the two segments with the least floors.
    least: [(u64, u64); 2],
    /// Sequences of moved lists, and the old places of their chunks.
    lists: HashSet<u64>,
    chunks: HashSet<Location>,
    /// Called with the bytes read; an error cancels the run.
    pause: &'s dyn Fn(u64) -> Result<()>,
    /// The erasure in progress, if any.
    pub(super) cleaning: Option<Arc<Cleaning>>,
    /// Tombstones from this time on stay, in ms since 1970: readers of the changes may not have
    /// seen them yet.
    removals_since_ms: i64,
    /// No tombstone with this sequence or a later one was dropped.
    pub(super) removals_from: u64,
    /// Damage kept something from being copied.
    pub(super) met_damage: bool,
    /// Number of records to recompress that could not be decompressed.
    pub(super) unexpanded: u64,
}

impl<'s> Copier<'s> {
    /// A copier for the victims, with an output of this `floor` and `level`.
    pub(super) fn new(
        reading: &'s Reading,
        victims: &[Arc<Segment>],
        floor: u64,
        level: u8,
        pause: &'s dyn Fn(u64) -> Result<()>,
    ) -> Copier<'s> {
        let mut floors: Vec<(u64, u64)> =
            reading.values().segments.all().iter().map(|s| (s.floor, s.ordinal)).collect();
        floors.sort_unstable();
        floors.resize(floors.len().max(2), (u64::MAX, u64::MAX));
        Copier {
            reading,
            output: Output::new(&reading.values().segments, floor, level, u64::from(reading.birth().segment_bytes)),
            task: Task::default(),
            unchanged: Vec::new(),
            retention: Retention::of(reading.options()),
            chains: Chains::default(),
            level,
            // Compression takes a hundred times as long as copying.
            most_ops: reading.options().limits.compact_ops / if level == 0 { 1 } else { 64 } + 1,
            is_long: !reading.index().will_need_all(),
            victims: victims.iter().map(|s| s.id).collect(),
            least: [floors[0], floors[1]],
            lists: HashSet::new(),
            chunks: HashSet::new(),
            pause,
            cleaning: None,
            removals_since_ms: reading.options().keeps_removals_since(),
            removals_from: 0,
            met_damage: false,
            unexpanded: 0,
        }
    }

    /// Copies the live records of one victim, from an offset on. Returns the offset where it
    /// stopped early, with as much work as one checkpoint should do.
    pub(super) fn segment(&mut self, segment: &Arc<Segment>, from: u64) -> Result<Option<u64>> {
        if self.is_full() {
            return Ok(Some(from));
        }
        let file = self.reading.values().segments.file(segment)?;
        let mut scan = self.reading.values().scan(segment, &*file, from, u64::MAX)?.once();
        let (mut window, mut read) = (Window::default(), 0);
        while window.fill(&mut scan)? {
            window.look_up(self.reading, segment.id, self.is_long);
            for item in &window.items {
                if let Some(bytes) = window.record(item) {
                    self.record(segment, item.offset, bytes, item.is_led_to)?;
                }
                // Damaged bytes stay: if the index leads there, the victim is not removed.
                self.met_damage |= item.is_gap;
                if item.is_gap {
                    // The damaged bytes may have held a tombstone.
                    self.removals_from = self.removals_from.max(self.output.floor());
                }
                if self.is_full() {
                    return Ok(Some(item.end));
                }
                if item.offset / MAKE_WAY_BYTES != item.end / MAKE_WAY_BYTES {
                    make_way();
                }
                read += item.end - item.offset;
                if read >= 256 << 10 {
                    (self.pause)(std::mem::take(&mut read))?;
                }
            }
        }
        (self.pause)(read)?;
        Ok(None)
    }

    /// Returns whether the task holds as much work as one checkpoint should do.
    fn is_full(&self) -> bool {
        self.task.ops.len() + self.task.chains.len() >= self.most_ops
    }

    fn record(&mut self, segment: &Segment, offset: u64, bytes: &[u8], is_led_to: bool) -> Result<()> {
        let Ok(header) = value::peek(bytes) else { return Ok(()) };
        let key = &bytes[header.key_at()..header.meta_at()];
        let at = Location::new(segment.id, offset);
        match header.kind {
            Kind::Filler => {}
            Kind::Tombstone => {
                let is_erased = self.cleaning.as_ref().is_some_and(|c| c.drops(key, header.sequence));
                if !is_erased && !self.is_obsolete(&header, segment) {
                    self.output.append(&header, bytes)?;
                } else if !planted(Fault::DroppedRemovalsNotTold) {
                    self.removals_from = self.removals_from.max(header.sequence + 1);
                }
            }
            Kind::Chunk => {
                if !self.chunks.contains(&at) {
                    self.chunk(key, at)?;
                }
            }
            Kind::Page | Kind::Reference | Kind::Chunked => {
                match judge(self.reading, key, &header, (at, is_led_to), self.retention, &mut self.chains)? {
                    Verdict::Live if header.kind == Kind::Chunked => {
                        let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
                        // The scan has verified the record; a list that does not add up is
                        // unreadable anyway.
                        if let Ok(list) = value::decode_chunks(payload, header.raw_bytes) {
                            self.list(key, at, &header, bytes, list)?;
                        }
                    }
                    Verdict::Live => {
                        let to = self.append(at, &header, bytes)?;
                        let hash = self.reading.hash(key);
                        self.task.ops.push(Op { hash, sequence: header.sequence, from: at, to });
                    }
                    Verdict::Expired => self.expired(key),
                    Verdict::Dead => {}
                    Verdict::Unknown => self.met_damage = true,
                }
            }
        }
        Ok(())
    }

    /// Appends a record, recompressed if that is wanted and makes it shorter, or if its dictionary
    /// is retired.
    fn append(&mut self, at: Location, header: &Header, bytes: &[u8]) -> Result<Extent> {
        let must = self.must_repack(header);
        if (self.level > 0 || must)
            && let Some(new) = self.repacked(at, header, bytes)?
            && (must || new.header.total_bytes() < header.total_bytes())
        {
            let key = &bytes[header.key_at()..header.meta_at()];
            return self.output.append(&new.header, &new.record(key));
        }
        let to = self.output.append(header, bytes)?;
        if self.reading.values().cache.as_ref().is_some_and(ValueCache::is_in_use) {
            self.unchanged.push((at, to.location));
        }
        Ok(to)
    }

    /// Returns true if the record names a retired dictionary.
    fn must_repack(&self, header: &Header) -> bool {
        let is_retired = self.cleaning.as_ref().is_some_and(|c| c.retired.contains(&header.dictionary));
        is_retired && !planted(Fault::RetiredDictionariesNamed)
    }

    /// Recompresses a record. `None` if it cannot be decompressed, perhaps because its dictionary
    /// is missing: then it moves unchanged, and is counted.
    fn repacked(&mut self, at: Location, header: &Header, bytes: &[u8]) -> Result<Option<Recompressed>> {
        let level = if self.level > 0 { i32::from(self.level) } else { self.reading.options().compression_level };
        let (key, meta) = (&bytes[header.key_at()..header.meta_at()], &bytes[header.meta_at()..header.payload_at()]);
        let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
        match self.reading.repack(at, key, header, (meta, payload), level) {
            Err(e) if e.is_corrupt() => {
                self.unexpanded += 1;
                Ok(None)
            }
            new => new,
        }
        .inspect(|new| self.note_need(header, new.is_none()))
    }

    /// Notes that a retired dictionary is still needed, if the record moves unchanged.
    fn note_need(&self, header: &Header, moves_as_it_is: bool) {
        if let Some(cleaning) = self.cleaning.as_ref().filter(|_| moves_as_it_is && self.must_repack(header)) {
            lock(&cleaning.needed).insert(header.dictionary);
        }
    }

    /// Returns true if a tombstone is old enough, and no earlier version of the key can exist
    /// outside its own segment: every other segment has a higher floor. A victim counts until its
    /// file is removed.
    fn is_obsolete(&self, tombstone: &Header, own: &Segment) -> bool {
        if planted(Fault::TombstonesDropped) {
            return true;
        }
        let others = if self.least[0].1 == own.ordinal { self.least[1] } else { self.least[0] };
        others.0 > tombstone.sequence && tombstone.time_ms < self.removals_since_ms
    }

    /// Notes that a key's chain has a version that is not kept.
    fn expired(&mut self, key: &[u8]) {
        let hash = self.reading.hash(key);
        // A key that was put often has many such records in a row.
        if self.task.chains.last() != Some(&hash) {
            self.task.chains.push(hash);
        }
    }

    /// Handles a chunk: moves the versions that list it.
    fn chunk(&mut self, key: &[u8], at: Location) -> Result<()> {
        let known = (&self.victims, &mut self.chains);
        let Some(owners) = owners(self.reading, key, at, self.retention, known)? else {
            self.met_damage = true;
            return Ok(());
        };
        for owner in owners {
            if owner.is_kept {
                let (header, bytes) = self.whole(key, &owner.spot)?;
                let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
                if let Ok(list) = value::decode_chunks(payload, header.raw_bytes) {
                    self.list(key, owner.spot.extent.location, &header, &bytes, list)?;
                }
            } else {
                self.expired(key);
            }
        }
        Ok(())
    }

    fn whole(&self, key: &[u8], spot: &Spot) -> Result<(Header, Vec<u8>)> {
        self.reading.with_spot(key, spot, Want::Whole, |raw| {
            Ok((raw.header, raw.bytes[..raw.header.total_bytes() as usize].to_vec()))
        })
    }

    /// Moves a list of chunks, with those of its chunks that lie in victims.
    fn list(&mut self, key: &[u8], from: Location, header: &Header, bytes: &[u8], list: Vec<ChunkEntry>) -> Result<()> {
        if !self.lists.insert(header.sequence) {
            return Ok(());
        }
        let mut record = bytes.to_vec();
        let mut at = header.payload_at();
        for mut entry in list {
            if self.victims.contains(&entry.location.segment) {
                let (chunk, bytes) = match self.read_chunk(key, &entry) {
                    // Without one of its chunks the version is damaged, and stays where it is.
                    Err(e) if e.is_corrupt() => {
                        self.met_damage = true;
                        return Ok(());
                    }
                    read => read?,
                };
                let to = self.append(entry.location, &chunk, &bytes)?;
                self.chunks.insert(entry.location);
                (entry.location, entry.units) = (to.location, to.units);
            }
            record[at..at + value::CHUNK_ENTRY_BYTES].copy_from_slice(&entry.encode());
            at += value::CHUNK_ENTRY_BYTES;
        }
        let payload_crc = crc32fast::hash(&record[header.payload_at()..at]);
        let header = &Header { payload_crc, ..*header };
        let repacked = if self.must_repack(header) { self.repacked(from, header, &record)? } else { None };
        let to = match repacked {
            Some(new) => self.output.append(&new.header, &new.record(key))?,
            None => self.output.append(header, &record)?,
        };
        self.task.ops.push(Op { hash: self.reading.hash(key), sequence: header.sequence, from, to });
        Ok(())
    }

    fn read_chunk(&self, key: &[u8], entry: &ChunkEntry) -> Result<(Header, Vec<u8>)> {
        let size = SizeClass::of(u64::from(entry.units) * UNIT_BYTES);
        self.reading.values().with_record(entry.location, size, Want::Whole, |raw| {
            if raw.header.kind != Kind::Chunk || raw.key() != key {
                return Err(raw.flaw("it is not the chunk that its list names"));
            }
            Ok((raw.header, raw.bytes[..raw.header.total_bytes() as usize].to_vec()))
        })
    }
}

/// The error that `pause` returns when the handle is closed or poisoned, or to make way.
pub(super) fn stopped() -> Error {
    Error::Closed
}
