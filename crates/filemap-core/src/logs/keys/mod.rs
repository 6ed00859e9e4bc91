//! The key log: key records in rolled segments, appended by checkpoints, read for chains and
//! lists.
//!
//! Invariants:
//! - an address is never assigned twice while anything may lead to it. If bytes lie beyond the end
//!   that a superblock names, another segment is begun. A segment that reuses a number has another
//!   ordinal, which seeds its checksums;
//! - a segment is removed only when the durable superblock leads to nothing in it.

mod append;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use filemap_io::{Access, Advice, Dir, File, files};

use crate::error::{Error, Result, StorageError};
use crate::files::drop_failed_writes;
use crate::format::header::{FileHeader, Kind};
use crate::format::key::{self, KeyRecord, PEEK_BYTES, UNIT_BYTES};
use crate::format::superblock::{Superblock, Tail};
use crate::format::{Flaw, names};
use crate::logs::scan::{Extent, Framing, Scan};
use crate::logs::segments::{Bounds, FIRST_RECORD, Family, OpenSegment, Segment, Segments};
use crate::sync::{Ranked, lock, rank};

pub(crate) use append::KeyAppender;

pub(crate) static KEYS: Family = Family {
    kind: Kind::Keys,
    name: names::keys,
    parse: names::parse_keys,
    seed: key::seed,
    longest: key::MAX_SEGMENT_BYTES,
};

/// First read of a record, in bytes, while its key's length is unknown.
const GUESS_BYTES: usize = 256;
/// The least difference between the ordinals of two segments with one number.
const NUMBERS: u64 = 1 << 16;

/// The readers' view of the key log.
#[derive(Debug)]
pub(crate) struct KeyLog {
    segments: Segments,
    counted: Ranked<{ rank::KEY_END }, Counted>,
}

/// The part of the log that counts. The rest is being written, or was left by interrupted
/// checkpoints; a list of keys would take it for the records that the index led to when the list
/// began.
#[derive(Debug)]
struct Counted {
    /// End of the log. It never runs ahead of the index, so a list meets each key once: records
    /// that the index leads to later lie beyond it.
    end: Tail,
    /// Ends of the earlier segments, by ordinal. In a segment that is not listed nothing counts.
    sealed: BTreeMap<u64, u64>,
}

impl Counted {
    /// End of the part of a segment that counts; `None` if nothing does.
    fn until(&self, ordinal: u64) -> Option<u64> {
        if ordinal == self.end.ordinal {
            return Some(self.end.offset);
        }
        self.sealed.get(&ordinal).copied().filter(|_| ordinal < self.end.ordinal)
    }
}

/// A segment of the key log to be read from front to end, even if it is removed meanwhile.
pub(crate) struct KeyFile {
    pub(crate) segment: Arc<Segment>,
    /// `None` if it is missing.
    pub(crate) file: Option<Arc<dyn File>>,
    /// End of the part that counts.
    pub(crate) end: u64,
}

/// The framing of a key-log segment.
pub(crate) struct KeyFraming {
    seed: u32,
}

impl KeyFraming {
    pub(crate) fn new(seed: u32) -> KeyFraming {
        KeyFraming { seed }
    }
}

impl Framing for KeyFraming {
    const UNIT_BYTES: u64 = UNIT_BYTES;
    const PEEK_BYTES: usize = PEEK_BYTES;

    fn peek(&self, b: &[u8]) -> std::result::Result<usize, Flaw> {
        KeyRecord::peek(b).map(|r| r.total_bytes() as usize)
    }

    fn head(&self, b: &[u8], offset: u64) -> std::result::Result<Extent, Flaw> {
        KeyRecord::decode(b, self.seed, offset).map(|(r, _)| Extent::Record(r.total_bytes()))
    }

    fn check(&self, _: &[u8]) -> std::result::Result<(), Flaw> {
        Ok(())
    }
}

impl KeyLog {
    /// Creates the first segment with its header, and syncs it.
    pub(crate) fn create(dir: &dyn Dir, store_id: [u8; 16], created_ms: i64) -> Result<()> {
        let name = names::keys(0);
        Ok(files::create(dir, &name, &FileHeader::new(Kind::Keys, store_id, 0, created_ms).encode())?)
    }

    /// Removes all files of a key log.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove(dir: &dyn Dir) -> Result<()> {
        let names = dir.list().map_err(Error::io("list", dir.path().display()))?;
        for name in names.iter().filter(|name| names::parse_keys(name).is_some()) {
            files::remove(dir, name)?;
        }
        Ok(())
    }

    /// Opens the key log named by a superblock. Segments before the tail count once
    /// [`KeyLog::learn`] sets their ends.
    ///
    /// # Errors
    /// `Corrupt` if the segment of the tail is missing, shorter than the tail, or of another
    /// store; `NewerFormat`; `Io`.
    pub(crate) fn open(dir: Arc<dyn Dir>, access: Access, current: &Superblock, bounds: Bounds) -> Result<Arc<KeyLog>> {
        let segments = Segments::open(&KEYS, dir, current.store_id, access, bounds)?;
        let counted = Counted { end: current.key_tail, sealed: BTreeMap::new() };
        let this = KeyLog { segments, counted: Ranked::new(counted) };
        let file = this.check_tail(current.key_tail)?;
        if access == Access::Write {
            drop_failed_writes(&*file, current.key_tail.offset);
        }
        Ok(Arc::new(this))
    }

    /// Opens the segment of a superblock's key tail.
    fn check_tail(&self, tail: Tail) -> Result<Arc<dyn File>> {
        let id = tail.ordinal as u16;
        let segment = self.segments.get(id)?;
        if segment.ordinal != tail.ordinal {
            return Err(segment.corrupt(0, "its header is that of another segment"));
        }
        let file = self.segments.file(&segment)?;
        let len = file.len().map_err(|e| Error::io("measure", segment.name())(e))?;
        if len < tail.offset {
            return Err(segment.corrupt(len, "the file is shorter than the superblock says"));
        }
        Ok(file)
    }

    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Returns the length of the segment with an ordinal; `None` if it is missing. Measured again
    /// only if the known length is below `least`.
    pub(crate) fn length(&self, ordinal: u64, least: u64) -> Option<Result<u64>> {
        let segment = self.segments.get(ordinal as u16).ok().filter(|s| s.ordinal == ordinal)?;
        Some(self.segments.length(&segment, least))
    }

    /// Returns why the segment with a number is missing.
    pub(crate) fn why(&self, id: u16) -> String {
        match self.segments.get(id) {
            Ok(_) => "the segment is missing; another one has its name".into(),
            Err(Error::Storage(StorageError::Corrupt { what, .. })) => what,
            Err(e) => e.to_string(),
        }
    }

    /// Returns the end of the log.
    pub(crate) fn end(&self) -> Tail {
        lock(&self.counted).end
    }

    /// Takes the ordinals and ends of segments from the superblock's segment table.
    pub(crate) fn learn(&self, ends: impl Iterator<Item = (u64, u64)>) {
        lock(&self.counted).sealed = ends.collect();
    }

    /// Returns the end of the counting part of the segment with an ordinal: its first record if
    /// nothing counts.
    pub(crate) fn until(&self, ordinal: u64) -> u64 {
        lock(&self.counted).until(ordinal).unwrap_or(FIRST_RECORD)
    }

    /// Finds the segments of a newer superblock, before its index is used. For followers.
    ///
    /// # Errors
    /// `Corrupt` if the segment of its tail is missing: damage, or there is an even newer
    /// superblock.
    pub(crate) fn rescan(&self, newer: &Superblock) -> Result<()> {
        let (old, new) = (self.end(), newer.key_tail);
        // Segments after the old end may have been removed, and their numbers reused.
        self.segments.rescan(|s| s.ordinal <= old.ordinal && s.ordinal + NUMBERS > new.ordinal)?;
        self.check_tail(new).map(|_| ())
    }

    /// Takes over the ends from a newer superblock and its segment table, once its index is used.
    pub(crate) fn follow(&self, newer: &Superblock, ends: impl Iterator<Item = (u64, u64)>) {
        let mut counted = lock(&self.counted);
        counted.end = newer.key_tail;
        counted.sealed = ends.collect();
    }

    /// Counts removals of segments. If the count has changed since an address was found, a read at
    /// that address proves nothing.
    pub(crate) fn removals(&self) -> u64 {
        self.segments.changes()
    }

    /// Returns the position of an address in the order of the log; `None` if its segment was
    /// removed.
    pub(crate) fn position(&self, address: u64) -> Option<Tail> {
        let segment = self.segments.get(key::segment_of(address)).ok()?;
        Some(Tail { ordinal: segment.ordinal, offset: key::offset_of(address) })
    }

    /// Returns true if an address precedes another in the order of the log. Each record of a chain
    /// precedes the one that names it.
    pub(crate) fn is_before(&self, address: u64, other: u64) -> bool {
        if key::segment_of(address) == key::segment_of(other) {
            return key::offset_of(address) < key::offset_of(other);
        }
        match (self.position(address), self.position(other)) {
            (Some(place), Some(other)) => place < other,
            _ => false,
        }
    }

    /// Reads the record at an address with its key: one read, two for keys over 200 bytes.
    ///
    /// # Errors
    /// `Corrupt` if there is no whole record; `Io`.
    pub(crate) fn read(&self, address: u64) -> Result<(KeyRecord, Vec<u8>)> {
        let segment = self.segments.get(key::segment_of(address))?;
        let (file, offset) = (self.segments.file(&segment)?, key::offset_of(address));
        let read = |b: &mut [u8]| file.read_at(b, offset).map_err(|e| Error::io("read", segment.name())(e));
        let mut guess = [0; GUESS_BYTES];
        let n = read(&mut guess)?;
        let guess = &guess[..n];
        let total = KeyRecord::peek(guess).map_err(|what| segment.corrupt(offset, what))?.total_bytes() as usize;
        let mut whole = Vec::new();
        if total > GUESS_BYTES {
            whole.resize(total, 0);
            let n = read(&mut whole)?;
            whole.truncate(n);
        }
        let (record, key) = self.decode(&segment, if whole.is_empty() { guess } else { &whole }, offset)?;
        Ok((record, key.to_vec()))
    }

    /// Prefetches a record without waiting.
    pub(crate) fn will_need(&self, address: u64) {
        if let Ok(segment) = self.segments.get(key::segment_of(address))
            && let Ok(file) = self.segments.file(&segment)
        {
            file.advise(Advice::WillNeed, key::offset_of(address), GUESS_BYTES as u64);
        }
    }

    /// Reads the record at an address if it is in memory; otherwise prefetches it, without
    /// waiting.
    pub(crate) fn read_ahead(&self, address: u64) -> Option<(KeyRecord, Vec<u8>)> {
        let segment = self.segments.get(key::segment_of(address)).ok()?;
        let (file, offset) = (self.segments.file(&segment).ok()?, key::offset_of(address));
        let mut guess = [0; GUESS_BYTES];
        let Some(n) = file.read_now_at(&mut guess, offset) else {
            self.will_need(address);
            return None;
        };
        let (record, key) = self.decode(&segment, &guess[..n], offset).ok()?;
        Some((record, key.to_vec()))
    }

    /// Damage at an address.
    pub(crate) fn corrupt(&self, address: u64, what: &str) -> Error {
        Error::corrupt(names::keys(key::segment_of(address)), key::offset_of(address), what)
    }

    /// Returns all segments that count, and the end of the log. Their files stay readable after
    /// they are removed.
    ///
    /// # Errors
    /// `Io` if one cannot be opened.
    pub(crate) fn files(&self) -> Result<(Vec<KeyFile>, Tail)> {
        loop {
            let removals = self.removals();
            let (end, ends) = {
                let counted = lock(&self.counted);
                let all = self.segments.all();
                let ends: Vec<_> = all.iter().map(|s| (Arc::clone(s), counted.until(s.ordinal))).collect();
                (counted.end, ends)
            };
            let mut files = Vec::new();
            for (segment, until) in &ends {
                let Some(until) = *until else { continue };
                let file = match self.segments.file(segment) {
                    Ok(file) => Some(file),
                    Err(e) if e.is_corrupt() => None,
                    Err(e) => return Err(e),
                };
                files.push(KeyFile { segment: Arc::clone(segment), file, end: until });
            }
            // A segment removed meanwhile is not missing: its records lie elsewhere.
            if self.removals() == removals {
                return Ok((files, end));
            }
        }
    }

    /// Scans a segment between two offsets.
    pub(crate) fn scan<'f>(
        &self,
        segment: &Segment,
        file: &'f dyn File,
        range: Range<u64>,
    ) -> Result<Scan<'f, KeyFraming>> {
        self.segments.scan_framed(segment, file, KeyFraming { seed: segment.seed }, range)
    }

    /// Decodes a record that a scan has checked.
    pub(crate) fn decode<'b>(&self, segment: &Segment, bytes: &'b [u8], offset: u64) -> Result<(KeyRecord, &'b [u8])> {
        KeyRecord::decode(bytes, segment.seed, offset).map_err(|what| segment.corrupt(offset, what))
    }

    /// Returns the segment of an ordinal and its file, which stays readable; `None` if it was
    /// removed.
    ///
    /// # Errors
    /// `Io`; `Corrupt` if its file is missing.
    pub(crate) fn file(&self, ordinal: u64) -> Result<Option<OpenSegment>> {
        let found = self.segments.get(ordinal as u16).ok().filter(|s| s.ordinal == ordinal);
        found.map(|segment| self.segments.file(&segment).map(|file| (segment, file))).transpose()
    }

    /// Returns ordinals and byte lengths of the segments up to the end, except missing ones.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn lengths(&self) -> Result<Vec<(u64, u64)>> {
        let end = self.end();
        let mut lengths = Vec::new();
        for segment in self.segments.all().iter().filter(|s| s.ordinal <= end.ordinal) {
            let len = match self.segments.file(segment) {
                // A missing segment has no space to free.
                Err(e) if e.is_corrupt() => continue,
                file => file?.len().map_err(|e| Error::io("measure", segment.name())(e))?,
            };
            lengths.push((segment.ordinal, if segment.ordinal == end.ordinal { end.offset } else { len }));
        }
        Ok(lengths)
    }

    /// Total length of all segments in bytes, and their allocated bytes on the device.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        self.segments.bytes()
    }

    /// Removes the segments that a durable superblock does not lead to: those before its key tail
    /// without live bytes. `live_bytes` takes an ordinal.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove_dead(&self, tail: Tail, live_bytes: impl Fn(u64) -> u64) -> Result<()> {
        let is_dead = |s: &Segment| s.ordinal < tail.ordinal && live_bytes(s.ordinal) == 0;
        let dead: Vec<_> = self.segments.all().iter().filter(|s| is_dead(s)).map(Arc::clone).collect();
        if dead.is_empty() {
            return Ok(());
        }
        let is_dead = |ordinal: u64| dead.iter().any(|s| s.ordinal == ordinal);
        lock(&self.counted).sealed.retain(|ordinal, _| !is_dead(*ordinal));
        self.segments.remove(&dead)
    }
}

const _: () = assert!(FIRST_RECORD.is_multiple_of(UNIT_BYTES));
