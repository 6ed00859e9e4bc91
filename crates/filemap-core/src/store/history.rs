//! Pages through the versions of a key: only one page is in memory, however many versions exist.
//!
//! A chain of key records is nearly always in order, newest first, but not always. So the first
//! page walks the whole chain, keeps the greatest versions, and checks the order. If the chain is
//! in order, the next page continues where the last one ended. Chains grow at their head, so a
//! position in one is valid while its former head is still in the chain.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::{Error, Result};
use crate::format::key::KeyRecord;
use crate::format::leaf::Slot;
use crate::handle::reading::Reading;
use crate::handle::retention::Retention;
use crate::handle::spot::Spot;
use crate::logs::values::read::Want;
use crate::record::{Head, Version};
use crate::store::Store;

/// Versions in a page of the iterator: some megabytes.
const PAGE: usize = 1 << 16;
/// Key records read between two checks for a closed handle.
const SOME_RECORDS: usize = 256;

impl Store {
    /// The versions of a key, newest first: [`Store::history`] in bounded memory. Reads all their
    /// key records before it returns the first version, then one key record and one head for each.
    ///
    /// Versions put meanwhile may or may not be included; versions removed or dropped meanwhile
    /// may be missing. A damaged version is returned as an error, and the iteration continues
    /// after it. Damage in the key log ends the iteration: it is returned as an error, after the
    /// versions that the key records before it lead to.
    pub fn history_iter(&self, key: &[u8]) -> History {
        History::new(Arc::clone(&self.reading), key, None, PAGE)
    }

    /// At most `limit` versions of a key, newest first, older than `before` if given: pass the
    /// last one of a page to get the next. Each page reads the key records of all versions;
    /// [`Store::history_iter`] does so once.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn history_page(&self, key: &[u8], before: Option<Version>, limit: usize) -> Result<Vec<Head>> {
        History::new(Arc::clone(&self.reading), key, before, limit.min(PAGE)).take(limit).collect()
    }
}

/// Iterates over the versions of a key; see [`Store::history_iter`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// for head in store.history_iter(b"http://a.example/") {
///     println!("{}", head?.version.time_ms);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct History {
    reading: Arc<Reading>,
    key: Vec<u8>,
    hash: u64,
    /// The last version returned.
    before: Option<Version>,
    page: IntoIter<Spot>,
    most: usize,
    /// The position where the chain continues, if it is in order.
    resume: Option<Place>,
    /// Segment changes and index epoch when the page was gathered.
    as_of: (u64, u64),
    /// Damage in the key log that ended the chain: returned after the versions before it.
    damage: Option<Error>,
    is_over: bool,
}

/// A position in a chain.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Address of the head at that time.
    head: u64,
    /// Address of a record that is not newer than the last version returned.
    at: u64,
}

/// Collects a page: the greatest versions, with the addresses of their key records (0 in memory).
struct Greatest {
    most: usize,
    before: Option<Version>,
    floor: u64,
    heap: BinaryHeap<Reverse<Met>>,
}

/// A candidate for the page.
#[derive(Clone, Copy, Debug)]
struct Met {
    spot: Spot,
    address: u64,
}

/// Result of a walk over memtables and chain.
struct Walked {
    /// Newest first.
    met: Vec<Met>,
    /// The position where the next page may continue.
    resume: Option<Place>,
    /// Damage that ended the chain.
    damage: Option<Error>,
}

impl Ord for Met {
    fn cmp(&self, other: &Met) -> std::cmp::Ordering {
        (self.spot.version, self.address).cmp(&(other.spot.version, other.address))
    }
}

impl PartialOrd for Met {
    fn partial_cmp(&self, other: &Met) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Met {}

impl PartialEq for Met {
    fn eq(&self, other: &Met) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Greatest {
    fn add(&mut self, spot: Spot, address: u64) {
        let is_wanted = self.before.is_none_or(|before| spot.version < before) && spot.version.sequence > self.floor;
        let met = Met { spot, address };
        if !is_wanted || (self.is_full() && self.heap.peek().is_some_and(|least| met <= least.0)) {
            return;
        }
        self.heap.push(Reverse(met));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    fn is_full(&self) -> bool {
        self.heap.len() >= self.most
    }

    /// Returns true if it is full and would reject this version and all older ones.
    fn has_no_room_for(&self, version: Version) -> bool {
        self.is_full() && self.heap.peek().is_some_and(|least| version <= least.0.spot.version)
    }
}

filemap_io::debug_fields!(History: before);

impl History {
    pub(super) fn new(reading: Arc<Reading>, key: &[u8], before: Option<Version>, most: usize) -> History {
        reading.follow_if_due();
        let hash = reading.hash(key);
        History {
            reading,
            key: key.to_vec(),
            hash,
            before,
            page: Vec::new().into_iter(),
            // A version may be both in memory and in the index: one more than `most` ensures
            // progress.
            most: most.max(1) + 1,
            resume: None,
            as_of: (0, 0),
            damage: None,
            is_over: false,
        }
    }

    /// The version returned last, also if as an error; `None` before the first one, and after
    /// damage in the key log.
    pub fn version(&self) -> Option<Version> {
        self.before
    }

    /// Gathers the next page.
    fn gather(&mut self) -> Result<()> {
        self.reading.check_open()?;
        self.as_of = (self.reading.values().segments.changes(), self.reading.index().epoch());
        let Walked { met, resume, damage } = self.walk(self.before, self.most)?;
        (self.resume, self.damage) = (resume, damage);
        let retention = Retention::of(self.reading.options());
        self.page = self.shown(&retention, met.into_iter().map(|met| met.spot).collect())?.into_iter();
        Ok(())
    }

    /// The greatest versions older than `before`. Of a damaged chain, those that come before the
    /// damage.
    fn walk(&self, before: Option<Version>, most: usize) -> Result<Walked> {
        let mut greatest = Greatest { most, before, floor: 0, heap: BinaryHeap::new() };
        let tables = Arc::clone(&self.reading.tables());
        for table in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten() {
            if let Some(found) = table.find(self.hash, &self.key) {
                greatest.floor = greatest.floor.max(found.floor);
                table.each_version(&found, |entry| greatest.add(entry.into(), 0));
            }
        }
        let (mut resume, mut damage) = (None, None);
        if greatest.floor == 0 {
            let in_memory = greatest.heap.clone();
            let indexed = self.reading.looking_again(|| {
                greatest.heap.clone_from(&in_memory);
                self.gather_indexed(&mut greatest)
            });
            match indexed {
                Ok(place) => resume = place,
                Err(e) if e.is_corrupt() => damage = Some(e),
                Err(e) => return Err(e),
            }
        }
        let mut met: Vec<Met> = greatest.heap.into_iter().map(|met| met.0).collect();
        met.sort_unstable_by(|a, b| b.cmp(a));
        if let (Some(resume), Some(last)) = (&mut resume, met.iter().rev().find(|met| met.address != 0)) {
            resume.at = last.address;
        }
        met.dedup_by_key(|met| met.spot.version.sequence);
        Ok(Walked { met, resume, damage })
    }

    /// The versions of a page that retention shows.
    fn shown(&self, retention: &Retention, mut spots: Vec<Spot>) -> Result<Vec<Spot>> {
        if retention.versions.is_some() {
            // The store keeps few more versions than are shown.
            let all = match &self.damage {
                None => self.reading.all_spots(&self.key, self.hash)?,
                // Versions behind the damage are unknown.
                Some(_) => self.walk(None, PAGE)?.met.into_iter().map(|met| met.spot).collect(),
            };
            let place = |spot: &Spot| all.partition_point(|s| s.version > spot.version);
            spots.retain(|spot| retention.shows(place(spot), spot));
        }
        Ok(spots)
    }

    /// Adds the versions in the index. Returns the position where the next page may continue.
    fn gather_indexed(&self, greatest: &mut Greatest) -> Result<Option<Place>> {
        let Some(head) = self.reading.indexed_now(&self.key, self.hash)? else { return Ok(None) };
        let (mut address, mut record, mut in_order) = (head.0.key, head.1, true);
        let resumed = self.resume.map_or(Ok(None), |place| self.go_to(head, place))?;
        if let Some((at, found)) = resumed {
            (address, record) = (at, found);
        }
        for nth in 1usize.. {
            if nth.is_multiple_of(SOME_RECORDS) {
                self.reading.check_open()?;
            }
            greatest.add(Spot::from(&record), address);
            if resumed.is_some() && greatest.has_no_room_for(record.version) {
                // In order: all following records are older.
                break;
            }
            let Some(earlier) = self.reading.earlier(address, &record)? else { break };
            in_order &= earlier.version <= record.version;
            (address, record) = (record.previous, earlier);
        }
        let place = |head: u64| Place { head, at: head };
        Ok(match resumed {
            Some(_) => self.resume.map(|place| Place { head: head.0.key, ..place }),
            None => in_order.then(|| place(head.0.key)),
        })
    }

    /// The record at a position of the chain, if that is still part of it.
    fn go_to(&self, (slot, head): (Slot, KeyRecord), place: Place) -> Result<Option<(u64, KeyRecord)>> {
        let (mut address, mut record) = (slot.key, head);
        while address != place.head {
            let Some(earlier) = self.reading.earlier(address, &record)? else { return Ok(None) };
            (address, record) = (record.previous, earlier);
            if address != place.head && self.reading.keys().is_before(address, place.head) {
                return Ok(None);
            }
        }
        let (found, _) = self.reading.keys().read(place.at)?;
        Ok(Some((place.at, found)))
    }

    /// Head of the next version; `None` if it must be looked up again.
    fn head(&mut self, spot: &Spot) -> Option<Result<Head>> {
        let read = self.reading.with_spot(&self.key, spot, Want::Head, |raw| raw.head());
        if !matches!(&read, Err(e) if e.is_corrupt()) {
            return Some(read);
        }
        // The record was moved, removed or damaged.
        let now = self
            .reading
            .catch_up()
            .map(|begun| (begun, self.reading.values().segments.changes(), self.reading.index().epoch()));
        match now {
            Err(e) => Some(Err(e)),
            Ok((false, changes, epoch)) if (changes, epoch) == self.as_of => Some(read),
            Ok(_) => None,
        }
    }
}

impl Iterator for History {
    type Item = Result<Head>;

    fn next(&mut self) -> Option<Result<Head>> {
        while !self.is_over {
            let Some(spot) = self.page.next() else {
                match self.gather() {
                    Ok(()) if self.page.len() == 0 => {
                        self.is_over = true;
                        let damage = self.damage.take()?;
                        self.before = None;
                        return Some(Err(damage));
                    }
                    Ok(()) => {}
                    Err(e) => {
                        (self.is_over, self.before) = (true, None);
                        return Some(Err(e));
                    }
                }
                continue;
            };
            match self.head(&spot) {
                Some(read) => {
                    self.before = Some(spot.version);
                    return Some(read);
                }
                None => self.page = Vec::new().into_iter(),
            }
        }
        None
    }
}
