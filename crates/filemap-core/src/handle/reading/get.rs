//! Gets: memtable, else one index page, then the value record, whose own key confirms the match.

use crate::error::{Error, Result, StorageError};
use crate::failpoint::{Fault, planted, step};
use crate::format::key::KeyRecord;
use crate::format::leaf::{Slot, kept_bits};
use crate::format::superblock::Tail;
use crate::format::value::Kind;
use crate::format::{PAGE_BYTES, names};
use crate::handle::reading::Reading;
use crate::handle::retention::Retention;
use crate::handle::spot::{Spot, sort_versions};
use crate::index::address::{Candidates, LastLeaf, Lookup};
use crate::index::memtable::Entry;
use crate::logs::keys::KeyFile;
use crate::logs::values::read::{Body, Raw, Want};
use crate::record::{Head, Value, Version};
use crate::stats::Counters;
use crate::sync::primitive::Ordering;

/// Error text for a slot that leads to a key of another hash.
const MISLED: &str = "index slot points to a key of another hash: address.idx is damaged";

/// Key records read between two checks for a closed handle.
const SOME_RECORDS: usize = 256;

/// Change counters; equal before and after means that the read was consistent.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moment {
    /// Value segments added or removed.
    segment_changes: u64,
    /// Epoch of the index.
    epoch: u64,
    /// Key segments removed.
    key_removals: u64,
}

/// A loaded version; without a body if it is a reference.
pub(crate) struct Loaded {
    pub(crate) head: Head,
    pub(crate) body: Option<Body>,
}

impl Reading {
    /// Calls `read` again if it fails with `Corrupt`, or if a key segment was removed meanwhile:
    /// what led to the place may have changed. The same error twice with nothing changed is real
    /// damage. [`Reading::all_spots`] does so itself; a read that needs a body's holder does not.
    ///
    /// # Errors
    /// Those of `read`; `Closed` if the handle was closed meanwhile.
    pub(crate) fn looking_again<T>(&self, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        let mut last = None;
        loop {
            let before = self.moment();
            match read() {
                Err(e) if planted(Fault::StaleKeysBelieved) && is_of_keys(&e) => return Err(e),
                Err(e) if e.is_corrupt() => {
                    self.check_open()?;
                    let is_begun_anew = self.catch_up()?;
                    let is_same = self.moment() == before;
                    let what = e.to_string();
                    if !is_begun_anew && is_same && last.replace(what.clone()) == Some(what) {
                        return Err(e);
                    }
                }
                // The index led into a removed segment of the key log, perhaps to another key's
                // record.
                Ok(_) if self.keys.removals() != before.key_removals && !planted(Fault::StaleKeysBelieved) => {}
                result => return result,
            }
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            segment_changes: self.values.segments.changes(),
            epoch: self.index.epoch(),
            key_removals: self.keys.removals(),
        }
    }

    /// Counts a get. Fails if the handle was closed: another writer may have changed what was
    /// read.
    pub(crate) fn counted<T>(&self, found: Option<T>) -> Result<Option<T>> {
        self.check_open()?;
        Counters::add(&self.counters.gets, 1);
        if found.is_some() {
            Counters::add(&self.counters.hits, 1);
        }
        Ok(found)
    }

    /// Newest version in memory, and the sequence of the last tombstone there (0 for none).
    pub(crate) fn in_memtables(&self, key: &[u8], hash: u64) -> (Option<Entry>, u64) {
        let tables = self.tables.load();
        let mut best: Option<Entry> = None;
        let mut floor = 0;
        for table in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten() {
            let Some(found) = table.find(hash, key) else { continue };
            floor = floor.max(found.floor);
            // The newer memtable comes first: its tombstones hide versions of the older one.
            let live = found.best.filter(|e| e.version.sequence > floor);
            best = [best, live].into_iter().flatten().max_by_key(|e| e.version);
        }
        (best, floor)
    }

    /// The index slots of a hash.
    ///
    /// # Errors
    /// `Corrupt` if the page is damaged or, in a follower, was overwritten by the writer.
    pub(crate) fn candidates(&self, hash: u64) -> Result<Candidates> {
        self.candidates_near(hash, &mut LastLeaf::default())
    }

    /// [`Reading::candidates`] for many hashes in roughly ascending order.
    ///
    /// # Errors
    /// Those of [`Reading::candidates`].
    pub(crate) fn candidates_near(&self, hash: u64, last: &mut LastLeaf) -> Result<Candidates> {
        match self.index.lookup(hash, last)? {
            Lookup::Found(found) => Ok(found),
            Lookup::Stale(page) => {
                let what = "the page does not match its directory";
                Err(Error::corrupt(names::INDEX, u64::from(page) * PAGE_BYTES as u64, what))
            }
        }
    }

    /// Slot and newest key record of a key in the index. Confirmed by the key record.
    pub(crate) fn indexed(&self, key: &[u8], hash: u64) -> Result<Option<(Slot, KeyRecord)>> {
        self.looking_again(|| self.indexed_now(key, hash))
    }

    /// The key log's open segments, and its end. They include every segment that the index leads
    /// to before that end, unless it is damaged.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn key_files(&self) -> Result<(Vec<KeyFile>, Tail)> {
        let complete = self.looking_again(|| {
            let (files, end) = self.keys.files()?;
            let segment_table = self.segment_table.load();
            let live = segment_table.keys.values().filter(|a| a.live_units > 0 && a.ordinal <= end.ordinal);
            let has = |ordinal| files.iter().any(|f| f.segment.ordinal == ordinal && f.file.is_some());
            match live.map(|a| a.ordinal).find(|ordinal| !has(*ordinal)) {
                Some(missing) => Err(Error::corrupt(names::keys(missing as u16), 0, "the segment is missing")),
                None => Ok((files, end)),
            }
        });
        match complete {
            Err(e) if e.is_corrupt() => self.keys.files(),
            complete => complete,
        }
    }

    /// All versions of a key in the index.
    pub(crate) fn indexed_chain(&self, key: &[u8], hash: u64) -> Result<Option<Vec<Spot>>> {
        self.looking_again(|| self.indexed_now(key, hash)?.map(|head| self.chain(head)).transpose())
    }

    /// [`Reading::indexed`] without retry if a key segment is removed meanwhile.
    pub(crate) fn indexed_now(&self, key: &[u8], hash: u64) -> Result<Option<(Slot, KeyRecord)>> {
        self.indexed_near(key, hash, &mut LastLeaf::default())
    }

    /// [`Reading::indexed_now`] for many hashes in roughly ascending order.
    pub(super) fn indexed_near(&self, key: &[u8], hash: u64, last: &mut LastLeaf) -> Result<Option<(Slot, KeyRecord)>> {
        let mut damage = None;
        for slot in self.candidates_near(hash, last)?.iter() {
            let (record, found) = self.keys.read(slot.key)?;
            if found == key {
                return Ok(Some((*slot, record)));
            }
            if !self.is_slot_of(slot, &found) {
                damage = Some(self.keys.corrupt(slot.key, MISLED));
            }
        }
        damage.map_or(Ok(None), Err)
    }

    /// Returns true if a slot may belong to a key. If not, the index is damaged, and the key that
    /// the slot was meant for must not be reported as absent.
    fn is_slot_of(&self, slot: &Slot, key: &[u8]) -> bool {
        kept_bits(self.hash(key)) == slot.hash
    }

    /// Passes the newest version's record to `f`.
    pub(crate) fn with_newest<T>(
        &self,
        key: &[u8],
        want: Want,
        mut f: impl FnMut(&Raw<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.follow_if_due();
        loop {
            if let Some(newest) = self.newest_now(key, want, &mut f)? {
                return Ok(newest);
            }
        }
    }

    /// [`Reading::with_newest`] once. `None` if the memtable's version was removed before the
    /// index was read: the newest of the two may never have been the newest.
    fn newest_now<T>(
        &self,
        key: &[u8],
        want: Want,
        f: &mut impl FnMut(&Raw<'_>) -> Result<T>,
    ) -> Result<Option<Option<T>>> {
        let hash = self.hash(key);
        let (best, floor) = self.in_memtables(key, hash);
        step();
        let is_newest = |e: &Entry| floor > 0 || e.version.time_ms >= self.indexed_time_ms.load(Ordering::Acquire);
        match best {
            Some(entry) if is_newest(&entry) => {
                return self.with_spot(key, &entry.into(), want, f).map(|t| Some(Some(t)));
            }
            None if floor > 0 => return Ok(Some(None)),
            _ => {}
        }
        let mut damage = None;
        for slot in self.candidates(hash)?.iter() {
            // Damage to an older value must not hide the newer one.
            if best.is_some_and(|b| self.is_older(slot, key, b.version)) {
                break;
            }
            let read = self.values.with_record(slot.location, slot.size, want, |raw| {
                if raw.key() != key {
                    return if self.is_slot_of(slot, raw.key()) { Ok(None) } else { Err(raw.flaw(MISLED)) };
                }
                raw.check_version()?;
                let older = best.is_some_and(|b| b.version > raw.version());
                Ok(Some(if older { None } else { Some(f(raw)?) }))
            });
            match read {
                Ok(None) => {}
                Ok(Some(Some(result))) => return Ok(Some(Some(result))),
                Ok(Some(None)) => break,
                // A slot of another key with the same 47 hash bits must not make this key
                // unreadable.
                Err(e) if e.is_corrupt() && self.is_slot_of_another(slot, key) => {}
                Err(e) => damage = Some(e),
            }
        }
        match (best, damage) {
            (_, Some(e)) => Err(e),
            (Some(_), None) if self.in_memtables(key, hash) != (best, floor) => Ok(None),
            (Some(entry), None) => self.with_spot(key, &entry.into(), want, f).map(|t| Some(Some(t))),
            (None, None) => Ok(Some(None)),
        }
    }

    /// Returns whether a slot is the key's and its newest version is older than `version`, by its
    /// key record.
    fn is_older(&self, slot: &Slot, key: &[u8], version: Version) -> bool {
        self.keys.read(slot.key).is_ok_and(|(record, found)| found == key && record.version < version)
    }

    fn is_slot_of_another(&self, slot: &Slot, key: &[u8]) -> bool {
        self.keys.read(slot.key).is_ok_and(|(_, found)| found != key && self.is_slot_of(slot, &found))
    }

    /// Passes the record of a known version to `f`.
    pub(crate) fn with_spot<T>(
        &self,
        key: &[u8],
        spot: &Spot,
        want: Want,
        f: impl FnOnce(&Raw<'_>) -> Result<T>,
    ) -> Result<T> {
        self.values.with_record(spot.extent.location, spot.extent.size(), want, |raw| {
            if raw.key() != key || raw.version() != spot.version {
                let location = spot.extent.location;
                let name = names::segment(location.segment);
                return Err(Error::corrupt(name, location.offset(), "it is not the record that the index names"));
            }
            raw.check_version()?;
            f(raw)
        })
    }

    /// Versions of a key that retention shows, newest first.
    pub(crate) fn spots(&self, key: &[u8]) -> Result<Vec<Spot>> {
        let mut spots = self.reachable(key)?;
        self.hide_surplus(&mut spots);
        Ok(spots)
    }

    /// [`Reading::spots`] with surplus versions that no checkpoint has dropped yet.
    ///
    /// # Errors
    /// Those of [`Reading::spots`].
    pub(crate) fn reachable(&self, key: &[u8]) -> Result<Vec<Spot>> {
        self.check_open()?;
        self.follow_if_due();
        let spots = self.all_spots(key, self.hash(key))?;
        self.counted(spots.first().map(|_| ()))?;
        Ok(spots)
    }

    /// Leaves out the surplus versions of a key, never the newest.
    pub(crate) fn hide_surplus(&self, spots: &mut Vec<Spot>) {
        let retention = Retention::of(&self.options);
        let mut nth = 0;
        spots.retain(|spot| {
            nth += 1;
            retention.shows(nth - 1, spot)
        });
    }

    /// All reachable versions of a key, newest first, surplus ones included.
    pub(crate) fn all_spots(&self, key: &[u8], hash: u64) -> Result<Vec<Spot>> {
        loop {
            let before = self.in_memtables(key, hash);
            let spots = self.all_spots_now(key, hash)?;
            // As in `newest_now`: versions in memory count only if they were not removed
            // meanwhile.
            if before == (None, 0) || self.in_memtables(key, hash) == before {
                return Ok(spots);
            }
        }
    }

    fn all_spots_now(&self, key: &[u8], hash: u64) -> Result<Vec<Spot>> {
        let tables = self.tables.load_full();
        let mut spots: Vec<Spot> = Vec::new();
        let mut floor = 0;
        for table in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten() {
            if let Some(found) = table.find(hash, key) {
                floor = floor.max(found.floor);
                spots.extend(table.versions(&found).into_iter().map(Spot::from));
            }
        }
        step();
        if floor == 0 {
            spots.extend(self.indexed_chain(key, hash)?.unwrap_or_default());
        }
        spots.retain(|s| s.version.sequence > floor);
        sort_versions(&mut spots);
        Ok(spots)
    }

    /// The newest version. A body of one page uses the memory of `spare`.
    ///
    /// # Errors
    /// `Corrupt`, also if the key was removed while the version that holds the body was read.
    pub(crate) fn newest(&self, key: &[u8], spare: &mut Vec<u8>) -> Result<Option<Loaded>> {
        self.check_open()?;
        let Some(mut loaded) = self.with_newest(key, Want::Cached, |raw| loaded(raw, spare))? else {
            return self.counted(None);
        };
        if loaded.body.is_none() {
            loaded.body = Some(self.body_of(key, &loaded.head, Want::Cached, spare)?);
        }
        self.counted(Some(loaded))
    }

    pub(crate) fn load(&self, key: &[u8], spot: &Spot) -> Result<Loaded> {
        let mut spare = Vec::new();
        let mut l = self.with_spot(key, spot, Want::Whole, |raw| loaded(raw, &mut spare))?;
        if l.body.is_none() {
            l.body = Some(self.body_of(key, &l.head, Want::Whole, &mut spare)?);
        }
        Ok(l)
    }

    /// Body of the version that a reference with this head names.
    pub(crate) fn body_of(&self, key: &[u8], head: &Head, want: Want, spare: &mut Vec<u8>) -> Result<Body> {
        let corrupt = |what: &str| Error::corrupt(names::segment(head.place.segment), head.place.offset, what);
        let spot = self
            .holder(key, head.unchanged_since.unwrap_or(0))?
            .ok_or_else(|| corrupt("it refers to a missing version"))?;
        self.with_spot(key, &spot, want, |raw| {
            if raw.header.digest != head.digest || raw.header.raw_bytes != head.body_bytes {
                return Err(corrupt("it refers to a version with another body"));
            }
            loaded(raw, spare)?.body.ok_or_else(|| corrupt("it refers to a reference"))
        })
    }

    /// Finds the version of a key with a sequence. The newest key record names the holder of its
    /// body, so this takes two reads of the key log, however long the chain between them.
    fn holder(&self, key: &[u8], sequence: u64) -> Result<Option<Spot>> {
        let hash = self.hash(key);
        let tables = self.tables.load_full();
        for table in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten() {
            let Some(found) = table.find(hash, key) else { continue };
            if let Some(entry) = table.version(&found, sequence) {
                return Ok(Some(entry.into()));
            }
            if found.floor > sequence {
                return Ok(None);
            }
        }
        let Some((slot, head)) = self.indexed_now(key, hash)? else { return Ok(None) };
        if head.refers_to == sequence && head.holder != 0 {
            let (record, found) = self.keys.read(head.holder)?;
            if found == key && record.version.sequence == sequence {
                return Ok(Some(Spot::from(&record)));
            }
        }
        let spots = self.chain((slot, head))?;
        Ok(spots.into_iter().find(|s| s.version.sequence == sequence))
    }

    /// Reads a chain of key records from its head. It ends, since each record lies before the
    /// previous one read in the key log. `Closed` if the handle is closed meanwhile.
    fn chain(&self, (slot, head): (Slot, KeyRecord)) -> Result<Vec<Spot>> {
        let (mut address, mut record) = (slot.key, head);
        let mut spots = vec![Spot::from(&record)];
        while let Some(earlier) = self.earlier(address, &record)? {
            if spots.len().is_multiple_of(SOME_RECORDS) {
                self.check_open()?;
            }
            (address, record) = (record.previous, earlier);
            spots.push(Spot::from(&record));
        }
        Ok(spots)
    }

    /// The next record of a chain; `None` at its end.
    ///
    /// # Errors
    /// `Corrupt` if no record lies where the chain leads, or the chain does not lead back.
    pub(crate) fn earlier(&self, address: u64, record: &KeyRecord) -> Result<Option<KeyRecord>> {
        if record.previous == 0 {
            return Ok(None);
        }
        let (earlier, _) = self.keys.read(record.previous)?;
        match self.keys.is_before(record.previous, address) {
            true => Ok(Some(earlier)),
            false => Err(self.keys.corrupt(address, "the chain of a key does not lead back")),
        }
    }

    pub(crate) fn body<'l>(&self, loaded: &'l Loaded) -> Result<&'l Body> {
        loaded.body.as_ref().ok_or(Error::Closed)
    }

    /// Reads a version at a known spot.
    pub(crate) fn value_at(&self, key: &[u8], spot: &Spot) -> Result<Value> {
        self.value(self.load(key, spot)?, Vec::new())
    }

    /// Reads a version at a known spot if `wanted` accepts its head; otherwise its body is not
    /// decompressed.
    pub(crate) fn value_if(&self, key: &[u8], spot: &Spot, wanted: impl Fn(&Head) -> bool) -> Result<Option<Value>> {
        let loaded = self.with_spot(key, spot, Want::Whole, |raw| {
            let head = raw.head()?;
            if !wanted(&head) {
                return Ok(None);
            }
            let is_reference = raw.header.kind == Kind::Reference;
            let body = if is_reference { None } else { Some(Body::of(raw, &mut Vec::new())?) };
            Ok(Some(Loaded { head, body }))
        })?;
        let Some(mut loaded) = loaded else { return Ok(None) };
        if loaded.body.is_none() {
            loaded.body = Some(self.body_of(key, &loaded.head, Want::Whole, &mut Vec::new())?);
        }
        self.value(loaded, Vec::new()).map(Some)
    }

    /// Reads the whole version. Chunks, or a copy of a cached body, go into `spare`, which is
    /// cleared.
    pub(crate) fn value(&self, loaded: Loaded, spare: Vec<u8>) -> Result<Value> {
        let body = match loaded.body {
            Some(Body::Whole(whole)) => whole.into_vec_in(spare),
            Some(chunks) => chunks.whole(&self.values, spare)?.into_vec(),
            None => Vec::new(),
        };
        Ok(Value { head: loaded.head, body })
    }
}

fn is_of_keys(error: &Error) -> bool {
    matches!(error, Error::Storage(StorageError::Corrupt { file, .. }) if names::parse_keys(file).is_some())
}

fn loaded(raw: &Raw<'_>, spare: &mut Vec<u8>) -> Result<Loaded> {
    let body = if raw.header.kind == Kind::Reference { None } else { Some(Body::of(raw, spare)?) };
    let head = raw.head()?;
    if let Some(Body::Whole(body)) = &body {
        raw.keep(&head.meta, body);
    }
    Ok(Loaded { head, body })
}
