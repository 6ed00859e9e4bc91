//! Iteration: pages in the order of the log, and lists of keys from the key log, which read no value.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::Result;
use crate::format::key::UNIT_BYTES;
use crate::format::leaf::Slot;
use crate::format::location::{Location, SizeClass};
use crate::format::superblock::Tail;
use crate::format::value;
use crate::log::scan::Item;
use crate::recent::{Found, Recent};
use crate::record::{Head, Value, Version};
use crate::state::{Shared, Spot};
use crate::store::Store;
use crate::values::read::Want;
use crate::values::segments::{FIRST_RECORD, Segment};

type Filter = Box<dyn Fn(&[u8]) -> bool + Send>;

impl Store {
    /// The newest version of each live key as of now, in the order of the log: a sequential read of the whole value log. What
    /// is put meanwhile does not count; what is removed meanwhile may be missed. Damaged records come as errors, and iteration goes on after
    /// them.
    pub fn pages(&self) -> Pages {
        Pages::new(Arc::clone(&self.shared), true)
    }

    /// As [`Store::pages`], with every live version of each key.
    pub fn versions(&self) -> Pages {
        Pages::new(Arc::clone(&self.shared), false)
    }

    /// All live keys, each once, in no order: a sequential read of key.dat, and of no value.
    pub fn keys(&self) -> Keys {
        self.keys_where(|_| true)
    }

    /// The live keys that start with `prefix`; costs as much as [`Store::keys`].
    pub fn keys_with_prefix(&self, prefix: &[u8]) -> Keys {
        let prefix = prefix.to_vec();
        self.keys_where(move |key| key.starts_with(&prefix))
    }

    /// The live keys that `filter` accepts; costs as much as [`Store::keys`].
    pub fn keys_where(&self, filter: impl Fn(&[u8]) -> bool + Send + 'static) -> Keys {
        Keys::new(Arc::clone(&self.shared), Box::new(filter))
    }
}

/// Iterates over pages; see [`Store::pages`].
pub struct Pages {
    shared: Arc<Shared>,
    newest_only: bool,
    /// Where the log ended when the iteration began: what lies further does not count.
    end: Tail,
    segments: IntoIter<Arc<Segment>>,
    current: Option<(Arc<Segment>, u64)>,
    /// Versions that were found and not judged yet, and damage.
    batch: IntoIter<Result<(Vec<u8>, Spot)>>,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("newest_only", &self.newest_only).finish_non_exhaustive()
    }
}

/// Bytes of log that are looked through for one batch.
const BATCH_BYTES: u64 = 1 << 20;

impl Pages {
    pub(super) fn new(shared: Arc<Shared>, newest_only: bool) -> Pages {
        let end = shared.log_end();
        let segments: Vec<Arc<Segment>> =
            shared.segments.all().iter().filter(|s| s.ordinal <= end.ordinal).map(Arc::clone).collect();
        Pages { shared, newest_only, end, segments: segments.into_iter(), current: None, batch: Vec::new().into_iter() }
    }

    /// Reads on through about a batch's bytes of one segment.
    fn fill(&mut self) -> Result<bool> {
        if self.current.is_none() {
            self.current = self.segments.next().map(|s| (s, FIRST_RECORD));
        }
        let Some((segment, from)) = self.current.take() else { return Ok(false) };
        let file = self.shared.segments.file(&segment)?;
        let end = if segment.ordinal == self.end.ordinal { self.end.offset } else { u64::MAX };
        let mut scan = self.shared.segments.scan(&segment, &*file, from, end)?;
        let mut batch = Vec::new();
        while scan.offset() < from + BATCH_BYTES {
            match scan.next()? {
                None => break,
                Some(Item::Filler { .. }) => {}
                Some(Item::Gap { offset, what, .. }) => batch.push(Err(segment.corrupt(offset, what))),
                Some(Item::Record { offset, bytes }) => {
                    let Ok(header) = value::peek(bytes) else { continue };
                    if header.kind.is_version() {
                        let key = bytes[header.key_at()..header.meta_at()].to_vec();
                        let spot = Spot {
                            version: Version { time_ms: header.time_ms, sequence: header.sequence },
                            location: Location::new(segment.id, offset),
                            size: SizeClass::of(bytes.len() as u64),
                            refers_to: 0,
                        };
                        batch.push(Ok((key, spot)));
                    }
                }
            }
        }
        if scan.offset() > from {
            let at = scan.offset();
            self.current = Some((segment, at));
        }
        self.batch = batch.into_iter();
        Ok(true)
    }

    /// The page of a version that was found, if it is one to be met.
    fn judge(&self, key: Vec<u8>, spot: &Spot) -> Result<Option<(Vec<u8>, Value)>> {
        let value = self.met(&key, spot, |_| self.shared.value_at(&key, spot))?;
        Ok(value.map(|v| (key, v)))
    }

    /// What `read` makes of a version that was found and of its rank, if it is one to be met.
    pub(super) fn met<T>(&self, key: &[u8], spot: &Spot, read: impl FnOnce(usize) -> Result<T>) -> Result<Option<T>> {
        let Some(rank) = self.rank(key, spot)? else { return Ok(None) };
        match read(rank) {
            // Removed since it was judged.
            Err(e) if e.is_corrupt() && self.rank(key, spot)?.is_none() => Ok(None),
            value => value.map(Some),
        }
    }

    /// Which of its key's live versions a spot is, the newest being 0; `None` when it is not one to be met.
    fn rank(&self, key: &[u8], spot: &Spot) -> Result<Option<usize>> {
        let hash = self.shared.hash(key);
        if self.shared.recent(key, hash) == (None, 0) {
            // The common cases need no read: a slot that leads to this very record is this key's; one that leads elsewhere
            // in the part of the log that counts is newer, if it is the only one with these bits of hash.
            let candidates = self.shared.candidates(hash)?;
            if candidates.iter().any(|s| s.location == spot.location) {
                return Ok(Some(0));
            }
            let mut others = candidates.iter();
            if self.newest_only
                && let (Some(slot), None) = (others.next(), others.next())
                && self.counts(slot.location)
            {
                return Ok(None);
            }
        }
        let spots = self.shared.spots(key)?;
        let mut live = spots.iter().filter(|s| self.counts(s.location));
        let rank = live.position(|s| s.location == spot.location);
        Ok(rank.filter(|rank| *rank == 0 || !self.newest_only))
    }

    /// The head of a version that was found.
    pub(super) fn read_head(&self, key: &[u8], spot: &Spot) -> Result<Head> {
        self.shared.with_spot(key, spot, Want::Head, |raw| raw.head())
    }

    /// Whether a place was part of the log when the iteration began.
    fn counts(&self, location: Location) -> bool {
        let ordinal = self.shared.segments.get(location.segment).map(|s| s.ordinal);
        ordinal.is_ok_and(|ordinal| Tail { ordinal, offset: location.offset() } < self.end)
    }
}

impl Pages {
    /// The next version that `judge` wants.
    pub(super) fn advance<T>(
        &mut self,
        judge: impl Fn(&Pages, Vec<u8>, &Spot) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        loop {
            match self.batch.next() {
                Some(Err(e)) => return Some(Err(e)),
                Some(Ok((key, spot))) => {
                    if let Some(page) = judge(self, key, &spot).transpose() {
                        return Some(page);
                    }
                }
                None => match self.fill() {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(e) => return Some(Err(e)),
                },
            }
        }
    }
}

impl Iterator for Pages {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(Pages::judge)
    }
}

/// A table, and what of it was there when the iteration began.
struct Known {
    table: Arc<Recent>,
    mark: u32,
}

impl Known {
    fn knew(&self, hash: u64, key: &[u8]) -> bool {
        self.table.find(hash, key).is_some_and(|f| self.table.knew(&f, self.mark))
    }
}

/// Iterates over keys; see [`Store::keys`].
pub struct Keys {
    shared: Arc<Shared>,
    filter: Filter,
    /// Newest first.
    known: Vec<Known>,
    recent: IntoIter<(usize, u64, Found)>,
    at: u64,
    end: u64,
    batch: IntoIter<Result<Vec<u8>>>,
    /// Stretches of key.dat that hold no whole record.
    gaps: Vec<Range<u64>>,
    /// The last damage that was told: a bad page of the index is one piece of news, not one for each of its keys.
    told: Option<String>,
    /// Keys that were met while a checkpoint replaced their newest record.
    moved: HashSet<Vec<u8>>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("at", &self.at).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Keys {
    fn new(shared: Arc<Shared>, filter: Filter) -> Keys {
        shared.follow_if_due();
        let tables = shared.tables.load_full();
        // The active table goes on to grow: only what it knows now is met in memory, the rest in the index.
        let known: Vec<Known> = [Some(&tables.active), tables.frozen.as_ref()]
            .into_iter()
            .flatten()
            .map(|t| Known { table: Arc::clone(t), mark: t.mark() })
            .collect();
        let mut recent = Vec::new();
        for (nth, k) in known.iter().enumerate() {
            let keys = k.table.keys().filter(|(_, f)| f.best.is_some() && k.table.knew(f, k.mark));
            recent.extend(keys.map(|(hash, found)| (nth, hash, found)));
        }
        let end = shared.keys.bytes();
        Keys {
            shared,
            filter,
            known,
            recent: recent.into_iter(),
            at: crate::format::header::BYTES as u64,
            end,
            batch: Vec::new().into_iter(),
            gaps: Vec::new(),
            told: None,
            moved: HashSet::new(),
        }
    }

    /// The next key from memory that is wanted.
    fn next_recent(&mut self) -> Option<Vec<u8>> {
        for (nth, hash, found) in self.recent.by_ref() {
            let key = self.known[nth].table.key_of(&found);
            // A newer table has the last word: the key was met there, or is removed.
            if self.known[..nth].iter().any(|k| k.knew(hash, &key)) {
                continue;
            }
            if (self.filter)(&key) {
                return Some(key);
            }
        }
        None
    }

    /// Scans on through about a megabyte of key.dat.
    fn fill(&mut self) -> Result<bool> {
        if self.at >= self.end {
            self.batch = self.lost()?.into_iter();
            return Ok(self.batch.len() > 0);
        }
        let shared = Arc::clone(&self.shared);
        let mut scan = shared.keys.scan_from(self.at)?;
        let mut batch = Vec::new();
        while scan.offset() < (self.at + BATCH_BYTES).min(self.end) {
            let Some(item) = scan.next()? else { break };
            let (offset, bytes) = match item {
                Item::Record { offset, bytes } => (offset, bytes),
                Item::Gap { offset, bytes, .. } => {
                    self.gaps.push(offset..offset + bytes);
                    continue;
                }
                Item::Filler { .. } => continue,
            };
            let (_, key) = shared.keys.decode(bytes, offset)?;
            if !(self.filter)(key) {
                continue;
            }
            match self.is_head(key, offset) {
                Ok(true) => batch.push(Ok(key.to_vec())),
                Ok(false) => {}
                Err(e) if self.told.as_ref() == Some(&e.to_string()) => {}
                Err(e) => {
                    self.told = Some(e.to_string());
                    batch.push(Err(e));
                }
            }
        }
        self.at = scan.offset().max(self.at + 1);
        self.batch = batch.into_iter();
        Ok(true)
    }

    /// Keys whose record lies in a gap of key.dat: their value records tell them. A gap to which no slot leads is what an
    /// interrupted checkpoint left.
    fn lost(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let gaps = std::mem::take(&mut self.gaps);
        let mut lost: Vec<Slot> = Vec::new();
        if gaps.is_empty() {
            return Ok(Vec::new());
        }
        let in_gap = |slot: &&Slot| {
            let offset = slot.key * UNIT_BYTES;
            let next = gaps.partition_point(|g| g.end <= offset);
            gaps.get(next).is_some_and(|g| g.start <= offset)
        };
        let shared = Arc::clone(&self.shared);
        let mut slots = |slots: &[Slot]| lost.extend(slots.iter().filter(in_gap));
        // Bad pages were told when their keys were met.
        shared.index.check(&mut || shared.follow_writer(), &mut slots, &mut |_, _| {})?;
        let mut keys = Vec::new();
        for slot in lost {
            match shared.segments.with_record(slot.location, slot.size, Want::Head, |raw| Ok(raw.key().to_vec())) {
                Ok(key) => {
                    let hash = shared.hash(&key);
                    if (self.filter)(&key) && !self.known.iter().any(|k| k.knew(hash, &key)) {
                        keys.push(Ok(key));
                    }
                }
                Err(e) => keys.push(Err(e)),
            }
        }
        Ok(keys)
    }

    /// Whether the record at `offset` is its key's newest in the index, and no table in memory knows better.
    fn is_head(&mut self, key: &[u8], offset: u64) -> Result<bool> {
        let hash = self.shared.hash(key);
        if self.known.iter().any(|k| k.knew(hash, key)) {
            return Ok(false);
        }
        let address = offset / UNIT_BYTES;
        let mut newer = false;
        for slot in self.shared.candidates(hash)?.iter() {
            if slot.key == address {
                return Ok(!self.moved.contains(key));
            }
            newer |= slot.key * UNIT_BYTES >= self.end;
        }
        Ok(newer && self.shared.indexed(key, hash)?.is_some() && self.moved.insert(key.to_vec()))
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(key) = self.next_recent() {
            return Some(Ok(key));
        }
        loop {
            if let Some(key) = self.batch.next() {
                return Some(key);
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => {
                    self.at = self.end;
                    self.gaps.clear();
                    return Some(Err(e));
                }
            }
        }
    }
}
