//! Reads: recent table, else one index page, then the value record, whose own key confirms the match.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::format::leaf::Slot;
use crate::format::location::{Location, SizeClass};
use crate::format::value::Kind;
use crate::index::{Candidates, Lookup};
use crate::recent::Entry;
use crate::record::{Head, Place, Value, Version};
use crate::stats::Counters;
use crate::store::{Inner, Store};
use crate::values::read::{Body, Raw, Reader, Want};

/// How often a lookup in a foreign index may find that the writer has moved on before it gives up.
const RETRIES: u32 = 100;

/// A version of a key, by what index, key log and recent table say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) version: Version,
    pub(crate) location: Location,
    pub(crate) size: SizeClass,
    pub(crate) refers_to: u64,
}

impl From<Entry> for Spot {
    fn from(e: Entry) -> Spot {
        Spot { version: e.version, location: e.location, size: e.size, refers_to: e.refers_to }
    }
}

/// A version that was read: its body, or which version holds it.
struct Loaded {
    head: Head,
    body: Option<Body>,
}

impl Store {
    /// The newest version of a key. Cold, that is one page of the index and one read of the value log.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes on disk are damaged: never a wrong page. [`Error::Io`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let Some(loaded) = self.inner.newest(key)? else { return Ok(None) };
        self.inner.value(loaded, Vec::new()).map(Some)
    }

    /// As [`Store::get`], with the body in the caller's buffer, which is cleared first and keeps its memory.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_into(&self, key: &[u8], body: &mut Vec<u8>) -> Result<Option<Head>> {
        body.clear();
        let Some(loaded) = self.inner.newest(key)? else { return Ok(None) };
        let value = self.inner.value(loaded, std::mem::take(body))?;
        *body = value.body;
        Ok(Some(value.head))
    }

    /// The version with the greatest time that is not after `time_ms`.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_at(&self, key: &[u8], time_ms: i64) -> Result<Option<Value>> {
        let spot = self.inner.spots(key)?.into_iter().find(|s| s.version.time_ms <= time_ms);
        spot.map(|s| self.inner.value(self.inner.load(key, &s)?, Vec::new())).transpose()
    }

    /// One version of a key, as [`Store::history`] names it.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_version(&self, key: &[u8], version: Version) -> Result<Option<Value>> {
        let spot = self.inner.spots(key)?.into_iter().find(|s| s.version == version);
        spot.map(|s| self.inner.value(self.inner.load(key, &s)?, Vec::new())).transpose()
    }

    /// A range of the newest version's body, clipped to its length. Of a large body only the chunks that it meets are read.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn get_range(&self, key: &[u8], range: Range<u64>) -> Result<Option<Vec<u8>>> {
        let Some(loaded) = self.inner.newest(key)? else { return Ok(None) };
        let mut out = Vec::new();
        self.inner.body(&loaded)?.range(&self.inner.segments, range, &mut out)?;
        Ok(Some(out))
    }

    /// The newest version, to be read front to back in bounded memory.
    ///
    /// # Errors
    /// As [`Store::get`]; damage further on comes when it is reached.
    pub fn get_reader(&self, key: &[u8]) -> Result<Option<Reader>> {
        let Some(mut loaded) = self.inner.newest(key)? else { return Ok(None) };
        let body = match loaded.body.take() {
            Some(body) => body,
            None => self.inner.body_of(key, loaded.head.unchanged_since)?,
        };
        Ok(Some(Reader::new(Arc::clone(&self.inner.segments), loaded.head, body)))
    }

    /// All of the newest version but its body, which is not read.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn head(&self, key: &[u8]) -> Result<Option<Head>> {
        self.inner.check_open()?;
        let head = self.inner.with_newest(key, Want::Head, |raw| raw.head())?;
        self.inner.counted(head)
    }

    /// As [`Store::head`], of the version with the greatest time that is not after `time_ms`.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn head_at(&self, key: &[u8], time_ms: i64) -> Result<Option<Head>> {
        let spot = self.inner.spots(key)?.into_iter().find(|s| s.version.time_ms <= time_ms);
        spot.map(|s| self.inner.with_spot(key, &s, Want::Head, |raw| raw.head())).transpose()
    }

    /// All versions of a key, newest first. Reads one key record and one head for each.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn history(&self, key: &[u8]) -> Result<Vec<Head>> {
        let spots = self.inner.spots(key)?;
        spots.iter().map(|s| self.inner.with_spot(key, s, Want::Head, |raw| raw.head())).collect()
    }

    /// Whether a key has a version. Reads no value.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.inner.check_open()?;
        self.inner.follow_if_due();
        let hash = self.inner.hash(key);
        let (best, floor) = self.inner.recent(key, hash);
        let found = if best.is_some() {
            true
        } else if floor > 0 {
            false
        } else {
            self.inner.indexed(key, hash)?.is_some()
        };
        Ok(self.inner.counted(found.then_some(()))?.is_some())
    }

    /// Where the newest version of a key should lie, by memory and one page of the index alone. Not confirmed: for a key
    /// that is absent it names some place about once in a million times.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the index page is damaged.
    pub fn locate(&self, key: &[u8]) -> Result<Option<Place>> {
        let hash = self.inner.hash(key);
        let (best, floor) = self.inner.recent(key, hash);
        let location = match best {
            Some(entry) => Some(entry.location),
            None if floor > 0 => None,
            None => self.inner.candidates(hash)?.iter().next().map(|s| s.location),
        };
        Ok(location.map(|l| Place { segment: l.segment, offset: l.offset() }))
    }
}

impl Inner {
    fn counted<T>(&self, found: Option<T>) -> Result<Option<T>> {
        Counters::add(&self.counters.gets, 1);
        if found.is_some() {
            Counters::add(&self.counters.hits, 1);
        }
        Ok(found)
    }

    /// The newest version in memory, and the sequence of the last removal there (0 for none).
    pub(crate) fn recent(&self, key: &[u8], hash: u64) -> (Option<Entry>, u64) {
        let tables = self.tables.load();
        let mut best: Option<Entry> = None;
        let mut floor = 0;
        for table in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten() {
            let Some(found) = table.find(hash, key) else { continue };
            floor = floor.max(found.floor);
            best = [best, found.best].into_iter().flatten().max_by_key(|e| e.version);
        }
        (best.filter(|e| e.version.sequence > floor), floor)
    }

    /// The index's slots with a hash, following the writer if it is another process.
    pub(crate) fn candidates(&self, hash: u64) -> Result<Candidates> {
        for _ in 0..RETRIES {
            match self.index.lookup(hash)? {
                Lookup::Found(found) => return Ok(found),
                Lookup::Stale => self.follow_writer()?,
            }
        }
        Err(Error::corrupt(
            crate::format::names::INDEX,
            0,
            "a page does not match its directory, however often it is read",
        ))
    }

    /// The slot of a key and its newest key record, if the key is in the index. Confirmed by the key record.
    pub(crate) fn indexed(&self, key: &[u8], hash: u64) -> Result<Option<(Slot, crate::format::key::KeyRecord)>> {
        for slot in self.candidates(hash)?.iter() {
            let (record, found) = self.keys.read(slot.key)?;
            if found == key {
                return Ok(Some((*slot, record)));
            }
        }
        Ok(None)
    }

    /// Hands the newest version's record to `f`.
    pub(crate) fn with_newest<T>(
        &self,
        key: &[u8],
        want: Want,
        mut f: impl FnMut(&Raw<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.follow_if_due();
        let hash = self.hash(key);
        let (best, floor) = self.recent(key, hash);
        let is_newest = |e: &Entry| floor > 0 || e.version.time_ms >= self.indexed_time_ms.load(Ordering::Acquire);
        match best {
            Some(entry) if is_newest(&entry) => return self.with_spot(key, &entry.into(), want, f).map(Some),
            None if floor > 0 => return Ok(None),
            _ => {}
        }
        let mut damage = None;
        for slot in self.candidates(hash)?.iter() {
            let read = self.segments.with_record(slot.location, slot.size, want, |raw| {
                if raw.key() != key {
                    return Ok(None);
                }
                let older = best.is_some_and(|b| b.version > raw.version());
                Ok(Some(if older { None } else { Some(f(raw)?) }))
            });
            match read {
                Ok(None) => {}
                Ok(Some(Some(result))) => return Ok(Some(result)),
                Ok(Some(None)) => break,
                // A slot of another key with the same 47 bits of hash must not make this key unreadable.
                Err(e) if e.is_corrupt() && self.keys.read(slot.key).is_ok_and(|(_, k)| k != key) => {}
                Err(e) => damage = Some(e),
            }
        }
        match (best, damage) {
            (_, Some(e)) => Err(e),
            (Some(entry), None) => self.with_spot(key, &entry.into(), want, f).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Hands the record of a known version to `f`.
    pub(crate) fn with_spot<T>(
        &self,
        key: &[u8],
        spot: &Spot,
        want: Want,
        f: impl FnOnce(&Raw<'_>) -> Result<T>,
    ) -> Result<T> {
        self.segments.with_record(spot.location, spot.size, want, |raw| {
            if raw.key() != key || raw.version() != spot.version {
                let name = crate::format::names::segment(spot.location.segment);
                return Err(Error::corrupt(name, spot.location.offset(), "it is not the record that the index names"));
            }
            f(raw)
        })
    }

    /// All versions of a key, newest first; at most as many as are kept.
    pub(crate) fn spots(&self, key: &[u8]) -> Result<Vec<Spot>> {
        let mut spots = self.all_spots(key)?;
        if let Some(keep) = self.options.keep_versions {
            spots.truncate(keep as usize);
        }
        Ok(spots)
    }

    /// All versions of a key that are still reachable, newest first, those beyond the number kept too.
    fn all_spots(&self, key: &[u8]) -> Result<Vec<Spot>> {
        self.check_open()?;
        self.follow_if_due();
        let hash = self.hash(key);
        let tables = self.tables.load_full();
        let mut spots: Vec<Spot> = Vec::new();
        let mut floor = 0;
        for table in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten() {
            if let Some(found) = table.find(hash, key) {
                floor = floor.max(found.floor);
                spots.extend(table.versions(&found).into_iter().map(Spot::from));
            }
        }
        if floor == 0
            && let Some((slot, record)) = self.indexed(key, hash)?
        {
            spots.extend(chain(slot.key, record, |address| self.keys.read(address).map(|r| r.0))?);
        }
        spots.retain(|s| s.version.sequence > floor);
        sort_versions(&mut spots);
        self.counted(spots.first().map(|_| ()))?;
        Ok(spots)
    }

    fn newest(&self, key: &[u8]) -> Result<Option<Loaded>> {
        self.check_open()?;
        let loaded = self.with_newest(key, Want::Whole, loaded)?;
        match self.counted(loaded)? {
            Some(mut l) if l.body.is_none() => {
                l.body = Some(self.body_of(key, l.head.unchanged_since)?);
                Ok(Some(l))
            }
            l => Ok(l),
        }
    }

    fn load(&self, key: &[u8], spot: &Spot) -> Result<Loaded> {
        let mut l = self.with_spot(key, spot, Want::Whole, loaded)?;
        if l.body.is_none() {
            l.body = Some(self.body_of(key, l.head.unchanged_since)?);
        }
        Ok(l)
    }

    /// The body of the version with a sequence, to which another one refers.
    fn body_of(&self, key: &[u8], sequence: Option<u64>) -> Result<Body> {
        let spot = self.all_spots(key)?.into_iter().find(|s| Some(s.version.sequence) == sequence);
        let spot = spot.ok_or_else(|| {
            Error::corrupt(crate::format::names::KEYS, 0, "a version refers to one that is not there")
        })?;
        self.with_spot(key, &spot, Want::Whole, Body::of)
    }

    fn body<'l>(&self, loaded: &'l Loaded) -> Result<&'l Body> {
        loaded.body.as_ref().ok_or(Error::Closed)
    }

    /// Reads the version that a location holds, whichever key it is of; for iteration.
    pub(crate) fn value_at(&self, key: &[u8], spot: &Spot) -> Result<Value> {
        self.value(self.load(key, spot)?, Vec::new())
    }

    fn value(&self, loaded: Loaded, mut body: Vec<u8>) -> Result<Value> {
        match loaded.body {
            Some(Body::Whole(whole)) if body.capacity() < whole.len() => body = whole,
            Some(Body::Whole(whole)) => body.extend_from_slice(&whole),
            Some(chunks) => chunks.range(&self.segments, 0..u64::MAX, &mut body)?,
            None => {}
        }
        Ok(Value { head: loaded.head, body })
    }
}

fn loaded(raw: &Raw<'_>) -> Result<Loaded> {
    let body = if raw.header.kind == Kind::Reference { None } else { Some(Body::of(raw)?) };
    Ok(Loaded { head: raw.head()?, body })
}

/// Walks a chain of key records from its head. Addresses fall from one to the next, so it ends.
pub(crate) fn chain(
    address: u64,
    head: crate::format::key::KeyRecord,
    read: impl Fn(u64) -> Result<crate::format::key::KeyRecord>,
) -> Result<Vec<Spot>> {
    let mut spots = Vec::new();
    let (mut at, mut record) = (address, head);
    loop {
        spots.push(Spot {
            version: record.version,
            location: record.location,
            size: record.size,
            refers_to: record.refers_to,
        });
        if record.previous == 0 || record.previous >= at {
            return Ok(spots);
        }
        at = record.previous;
        record = read(at)?;
    }
}

/// Newest first, each sequence once: an interrupted checkpoint's key records are written again.
pub(crate) fn sort_versions(spots: &mut Vec<Spot>) {
    spots.sort_by_key(|s| std::cmp::Reverse(s.version));
    spots.dedup_by_key(|s| s.version.sequence);
}
