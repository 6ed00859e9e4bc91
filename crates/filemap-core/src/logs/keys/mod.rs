//! The key log: key records in rolled segments, appended by checkpoints, read for chains and lists.
//!
//! Invariants: an address once given out is never given out again while anything may lead to it: where something lies behind the end
//! that a superblock names, another segment is begun; a segment whose number is used again has another ordinal, which seeds its
//! checksums. A segment goes when a durable superblock leads to nothing in it.

mod append;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use filemap_io::{Access, Advice, Dir, File};

use crate::error::{Error, Result};
use crate::files::drop_failed_writes;
use crate::format::header::{FileHeader, Kind};
use crate::format::key::{self, KeyRecord, PEEK_BYTES, UNIT_BYTES};
use crate::format::superblock::{Superblock, Tail};
use crate::format::{Flaw, names};
use crate::logs::scan::{Extent, Framing, Scan};
use crate::logs::segments::{Bounds, FIRST_RECORD, Family, OpenSegment, Segment, Segments};
use crate::sync::{Ranked, lock, rank};

pub(crate) use append::KeyAppender;

/// The segments of the key log.
pub(crate) static KEYS: Family = Family {
    kind: Kind::Keys,
    name: names::keys,
    parse: names::parse_keys,
    seed: key::seed,
    longest: key::MAX_SEGMENT_BYTES,
};

/// How many bytes a read of a record asks for before its key's length is known.
const GUESS_BYTES: usize = 256;
/// Of two segments of one number the ordinals differ at least by this.
const NUMBERS: u64 = 1 << 16;

/// The readable side.
#[derive(Debug)]
pub(crate) struct KeyLog {
    segments: Segments,
    counted: Ranked<{ rank::KEY_END }, Counted>,
}

/// What counts of the log. All else is being written, or is what interrupted checkpoints have left: to a list of keys it would look
/// like the record that the index led to when the list began.
#[derive(Debug)]
struct Counted {
    /// Where it ends. It never runs ahead of the index: a list that begins meets each key once, since what the index leads to
    /// later lies beyond.
    end: Tail,
    /// Where the segments before that one end, by their ordinals. One that is not here holds nothing that counts.
    sealed: BTreeMap<u64, u64>,
}

impl Counted {
    /// Where what counts of a segment ends.
    fn until(&self, ordinal: u64) -> Option<u64> {
        if ordinal == self.end.ordinal {
            return Some(self.end.offset);
        }
        self.sealed.get(&ordinal).copied().filter(|_| ordinal < self.end.ordinal)
    }
}

/// A segment of the key log to be read from front to end, though it may be removed meanwhile.
pub(crate) struct KeyFile {
    pub(crate) segment: Arc<Segment>,
    /// `None` when it is missing.
    pub(crate) file: Option<Arc<dyn File>>,
    /// Where what counts of it ends.
    pub(crate) end: u64,
}

/// The framing of a segment of the key log.
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
        let file = dir.open(&name, Access::Create).map_err(|e| Error::io("create", &name, e))?;
        let header = FileHeader::new(Kind::Keys, store_id, 0, created_ms).encode();
        file.write_at(&header, 0).map_err(|e| Error::io("write", &name, e))?;
        file.sync().map_err(|e| Error::io("sync", &name, e))
    }

    /// Removes all files of a key log, if there are any.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove(dir: &dyn Dir) -> Result<()> {
        let names = dir.list().map_err(|e| Error::io("list", dir.path().display().to_string(), e))?;
        for name in names.iter().filter(|name| names::parse_keys(name).is_some()) {
            match dir.remove(name) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io("remove", name, e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens the key log as of a superblock. What its segments hold counts once their ends are told by [`KeyLog::learn`].
    ///
    /// # Errors
    /// `Corrupt` when the segment of its tail is missing or shorter than that, or a segment is another store's.
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

    /// The file of the segment in which a superblock's key tail lies.
    fn check_tail(&self, tail: Tail) -> Result<Arc<dyn File>> {
        let id = tail.ordinal as u16;
        let segment = self.segments.get(id)?;
        if segment.ordinal != tail.ordinal {
            return Err(segment.corrupt(0, "its header is that of another segment"));
        }
        let file = self.segments.file(&segment)?;
        let len = file.len().map_err(|e| Error::io("measure", segment.name(), e))?;
        if len < tail.offset {
            return Err(segment.corrupt(len, "the file is shorter than the superblock says"));
        }
        Ok(file)
    }

    /// Its files.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Length of the segment with an ordinal, at least so much if it has that; `None` when it is not there.
    pub(crate) fn length(&self, ordinal: u64, least: u64) -> Option<Result<u64>> {
        let segment = self.segments.get(ordinal as u16).ok().filter(|s| s.ordinal == ordinal)?;
        Some(self.segments.length(&segment, least))
    }

    /// Why the segment of a number is not there.
    pub(crate) fn why(&self, id: u16) -> String {
        match self.segments.get(id) {
            Ok(_) => "the segment is missing; another one has its name".into(),
            Err(Error::Corrupt { what, .. }) => what,
            Err(e) => e.to_string(),
        }
    }

    /// Where what counts ends.
    pub(crate) fn end(&self) -> Tail {
        lock(&self.counted).end
    }

    /// Takes over the ordinals of segments, and where they end, from the segment table of the superblock.
    pub(crate) fn learn(&self, ends: impl Iterator<Item = (u64, u64)>) {
        lock(&self.counted).sealed = ends.collect();
    }

    /// Where what counts of the segment with an ordinal ends, which is at its first record if nothing does.
    pub(crate) fn until(&self, ordinal: u64) -> u64 {
        lock(&self.counted).until(ordinal).unwrap_or(FIRST_RECORD)
    }

    /// Learns of the segments of a newer superblock, before its index is used, for handles that follow another process.
    ///
    /// # Errors
    /// `Corrupt` when its last segment is missing: damage, or there is a newer superblock still.
    pub(crate) fn rescan(&self, newer: &Superblock) -> Result<()> {
        let (old, new) = (self.end(), newer.key_tail);
        // What lay after the old end may have been removed, and its number used again.
        self.segments.rescan(|s| s.ordinal <= old.ordinal && s.ordinal + NUMBERS > new.ordinal)?;
        self.check_tail(new).map(|_| ())
    }

    /// Takes over what a newer superblock and its segment table vouch for, once its index is used.
    pub(crate) fn follow(&self, newer: &Superblock, ends: impl Iterator<Item = (u64, u64)>) {
        let mut counted = lock(&self.counted);
        counted.end = newer.key_tail;
        counted.sealed = ends.collect();
    }

    /// How often segments were removed. What was read by an address that was found before the number changed proves nothing.
    pub(crate) fn removals(&self) -> u64 {
        self.segments.changes()
    }

    /// Where an address lies in the order of the log; `None` when its segment is gone.
    pub(crate) fn position(&self, address: u64) -> Option<Tail> {
        let segment = self.segments.get(key::segment_of(address)).ok()?;
        Some(Tail { ordinal: segment.ordinal, offset: key::offset_of(address) })
    }

    /// Whether an address lies before another in the order of the log, as each record of a chain does that follows another.
    pub(crate) fn is_before(&self, address: u64, other: u64) -> bool {
        if key::segment_of(address) == key::segment_of(other) {
            return key::offset_of(address) < key::offset_of(other);
        }
        match (self.position(address), self.position(other)) {
            (Some(place), Some(other)) => place < other,
            _ => false,
        }
    }

    /// The record at an address, and its key. One read, two for keys over 200 bytes.
    ///
    /// # Errors
    /// `Corrupt` when there is no whole record.
    pub(crate) fn read(&self, address: u64) -> Result<(KeyRecord, Vec<u8>)> {
        let segment = self.segments.get(key::segment_of(address))?;
        let (file, offset) = (self.segments.file(&segment)?, key::offset_of(address));
        let mut b = vec![0; GUESS_BYTES];
        let n = file.read_at(&mut b, offset).map_err(|e| Error::io("read", segment.name(), e))?;
        b.truncate(n);
        let total = KeyRecord::peek(&b).map_err(|what| segment.corrupt(offset, what))?.total_bytes() as usize;
        if total > GUESS_BYTES {
            b.resize(total, 0);
            let n = file.read_at(&mut b, offset).map_err(|e| Error::io("read", segment.name(), e))?;
            b.truncate(n);
        }
        let (record, key) = self.decode(&segment, &b, offset)?;
        Ok((record, key.to_vec()))
    }

    /// The damage that an address leads to.
    pub(crate) fn corrupt(&self, address: u64, what: &str) -> Error {
        Error::corrupt(names::keys(key::segment_of(address)), key::offset_of(address), what)
    }

    /// All segments of which something counts, and where the log ends now. They stay readable when they are removed.
    ///
    /// # Errors
    /// `Io` when one cannot be opened.
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
            // One that was removed meanwhile is not missing: what was in it lies elsewhere.
            if self.removals() == removals {
                return Ok((files, end));
            }
        }
    }

    /// A scan of a segment between two offsets.
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

    /// The segment of an ordinal and its file, which stays readable; `None` when it is gone.
    ///
    /// # Errors
    /// `Io`; `Corrupt` when it is missing.
    pub(crate) fn file(&self, ordinal: u64) -> Result<Option<OpenSegment>> {
        let found = self.segments.get(ordinal as u16).ok().filter(|s| s.ordinal == ordinal);
        found.map(|segment| self.segments.file(&segment).map(|file| (segment, file))).transpose()
    }

    /// The ordinals of the segments up to the end and how long they are, in bytes, as far as that is known.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn lengths(&self) -> Result<Vec<(u64, u64)>> {
        let end = self.end();
        let mut lengths = Vec::new();
        for segment in self.segments.all().iter().filter(|s| s.ordinal <= end.ordinal) {
            let len = match self.segments.file(segment) {
                // A missing one has nothing that could be given back.
                Err(e) if e.is_corrupt() => continue,
                file => file?.len().map_err(|e| Error::io("measure", segment.name(), e))?,
            };
            lengths.push((segment.ordinal, if segment.ordinal == end.ordinal { end.offset } else { len }));
        }
        Ok(lengths)
    }

    /// Length of all segments in bytes, and what they take on the device.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        self.segments.bytes()
    }

    /// Starts reading a record, without waiting.
    fn will_need(&self, address: u64) {
        if let Ok(segment) = self.segments.get(key::segment_of(address))
            && let Ok(file) = self.segments.file(&segment)
        {
            file.advise(Advice::WillNeed, key::offset_of(address), GUESS_BYTES as u64);
        }
    }

    /// Removes the segments to whose records a superblock that is durable does not lead: those before its key tail in which
    /// there are no live bytes, which `live_bytes` tells of an ordinal.
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
