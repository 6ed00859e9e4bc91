//! Iteration: pages in the order of the log, and lists of keys from the key log, which read no value.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::Result;
use crate::format::key::segment_of;
use crate::format::leaf::Slot;
use crate::format::location::{Extent, Location};
use crate::format::superblock::Tail;
use crate::format::value::{self, Kind};
use crate::keys::KeyFile;
use crate::log::scan::Item;
use crate::recent::{Found, Recent};
use crate::record::{Value, Version};
use crate::segments::{FIRST_RECORD, Segment};
use crate::state::{Shared, Spot};
use crate::store::Store;
use crate::values::read::Want;

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

    /// All live keys, each once, in no order: a sequential read of the key log, and of no value.
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
    fn new(shared: Arc<Shared>, newest_only: bool) -> Pages {
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
                            extent: Extent::new(Location::new(segment.id, offset), bytes.len() as u64),
                            refers_to: 0,
                            chunked: header.kind == Kind::Chunked,
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
        if !self.is_wanted(&key, spot)? {
            return Ok(None);
        }
        match self.shared.value_at(&key, spot) {
            // Removed since it was judged.
            Err(e) if e.is_corrupt() && !self.is_wanted(&key, spot)? => Ok(None),
            value => value.map(|v| Some((key, v))),
        }
    }

    fn is_wanted(&self, key: &[u8], spot: &Spot) -> Result<bool> {
        let hash = self.shared.hash(key);
        if self.newest_only && self.shared.recent(key, hash) == (None, 0) {
            // The common cases need no read: a slot that leads to this very record is this key's; one that leads elsewhere
            // in the part of the log that counts is newer, if it is the only one with these bits of hash.
            let candidates = self.shared.candidates(hash)?;
            if candidates.iter().any(|s| s.location == spot.extent.location) {
                return Ok(true);
            }
            let mut others = candidates.iter();
            if let (Some(slot), None) = (others.next(), others.next())
                && self.counts(slot.location)
            {
                return Ok(false);
            }
        }
        let spots = self.shared.spots(key)?;
        let mut live = spots.iter().filter(|s| self.counts(s.extent.location));
        if self.newest_only {
            return Ok(live.next().is_some_and(|s| s.extent.location == spot.extent.location));
        }
        Ok(live.any(|s| s.extent.location == spot.extent.location))
    }

    /// Whether a place was part of the log when the iteration began.
    fn counts(&self, location: Location) -> bool {
        let ordinal = self.shared.segments.get(location.segment).map(|s| s.ordinal);
        ordinal.is_ok_and(|ordinal| Tail { ordinal, offset: location.offset() } < self.end)
    }
}

impl Iterator for Pages {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.batch.next() {
                Some(Err(e)) => return Some(Err(e)),
                Some(Ok((key, spot))) => {
                    if let Some(page) = self.judge(key, &spot).transpose() {
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
    /// The segments of the key log, opened when the iteration began: they may be removed meanwhile.
    files: IntoIter<KeyFile>,
    current: Option<(KeyFile, u64)>,
    /// Where the key log ended then. What lies further was written since.
    end: Tail,
    batch: IntoIter<Result<Vec<u8>>>,
    /// Stretches of the key log that hold no whole record.
    gaps: Vec<Range<Tail>>,
    /// The last damage that was told: a bad page of the index is one piece of news, not one for each of its keys.
    told: Option<String>,
    /// Keys that were met while a checkpoint replaced their newest record.
    moved: HashSet<Vec<u8>>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("end", &self.end).finish_non_exhaustive()
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
        let (files, end, failed) = match shared.key_files() {
            Ok((files, end)) => (files, end, Vec::new()),
            Err(e) => (Vec::new(), Tail { ordinal: 0, offset: 0 }, vec![Err(e)]),
        };
        let accounts = shared.accounts.load_full();
        let live = accounts.keys.values().filter(|a| a.live_units > 0 && a.ordinal <= end.ordinal);
        let is_missing = |ordinal: &u64| !files.iter().any(|f| f.segment.ordinal == *ordinal && f.file.is_some());
        let gaps = live.map(|a| a.ordinal).filter(is_missing).map(whole).collect();
        Keys {
            shared,
            filter,
            known,
            recent: recent.into_iter(),
            files: files.into_iter(),
            current: None,
            end,
            batch: failed.into_iter(),
            gaps,
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

    /// Scans on through about a megabyte of the key log.
    fn fill(&mut self) -> Result<bool> {
        if self.current.is_none() {
            self.current = self.files.next().map(|f| (f, FIRST_RECORD));
        }
        let Some((key_file, from)) = self.current.take() else {
            self.batch = self.lost()?.into_iter();
            return Ok(self.batch.len() > 0);
        };
        let Some(file) = &key_file.file else { return Ok(true) };
        let (shared, segment) = (Arc::clone(&self.shared), &key_file.segment);
        let mut scan = shared.keys.scan(segment, &**file, from, self.end)?;
        let mut batch = Vec::new();
        while scan.offset() < from + BATCH_BYTES {
            let Some(item) = scan.next()? else { break };
            let here = |offset| Tail { ordinal: segment.ordinal, offset };
            let (offset, bytes) = match item {
                Item::Record { offset, bytes } => (offset, bytes),
                Item::Gap { offset, bytes, .. } => {
                    self.gaps.push(here(offset)..here(offset + bytes));
                    continue;
                }
                Item::Filler { .. } => continue,
            };
            let (_, key) = shared.keys.decode(segment, bytes, offset)?;
            if !(self.filter)(key) {
                continue;
            }
            match self.is_head(key, here(offset)) {
                Ok(true) => batch.push(Ok(key.to_vec())),
                Ok(false) => {}
                Err(e) if self.told.as_ref() == Some(&e.to_string()) => {}
                Err(e) => {
                    self.told = Some(e.to_string());
                    batch.push(Err(e));
                }
            }
        }
        let at = scan.offset();
        if at > from {
            self.current = Some((key_file, at));
        }
        self.batch = batch.into_iter();
        Ok(true)
    }

    /// Keys whose record lies in a gap of the key log: their value records tell them. A gap to which no slot leads is what an
    /// interrupted checkpoint left.
    fn lost(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.sort_unstable_by_key(|g| g.start);
        let mut lost: Vec<Slot> = Vec::new();
        if gaps.is_empty() {
            return Ok(Vec::new());
        }
        let shared = Arc::clone(&self.shared);
        let in_gap = |slot: &&Slot| match shared.keys.position(slot.key) {
            Some(place) => gaps.get(gaps.partition_point(|g| g.end <= place)).is_some_and(|g| g.start <= place),
            None => gaps.iter().any(|g| *g == whole(g.start.ordinal) && g.start.ordinal as u16 == segment_of(slot.key)),
        };
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

    /// Whether the record at a place is its key's newest in the index, and no table in memory knows better.
    fn is_head(&mut self, key: &[u8], here: Tail) -> Result<bool> {
        let shared = &self.shared;
        let hash = shared.hash(key);
        if self.known.iter().any(|k| k.knew(hash, key)) {
            return Ok(false);
        }
        let leads_to = shared.steady(|| {
            let mut newer = false;
            for slot in shared.candidates(hash)?.iter() {
                let place = shared.keys.position(slot.key);
                let place = place.ok_or_else(|| shared.keys.corrupt(slot.key, "the segment is missing"))?;
                if place == here {
                    return Ok(Some(here));
                }
                newer |= place >= self.end;
            }
            Ok(newer.then_some(self.end))
        })?;
        match leads_to {
            Some(place) if place == here => Ok(!self.moved.contains(key)),
            Some(_) => Ok(shared.indexed(key, hash)?.is_some() && self.moved.insert(key.to_vec())),
            None => Ok(false),
        }
    }
}

/// All of a segment.
fn whole(ordinal: u64) -> Range<Tail> {
    Tail { ordinal, offset: 0 }..Tail { ordinal: ordinal + 1, offset: 0 }
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
                    (self.files, self.current) = (Vec::new().into_iter(), None);
                    self.gaps.clear();
                    return Some(Err(e));
                }
            }
        }
    }
}
