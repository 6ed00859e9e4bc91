//! Merges the versions of one key in the memtable, and the moves of compaction, into its slot and
//! its chain of key records, and updates the segment table.
//!
//! The head of a chain is its newest version. The rest may be in any order, and a version may
//! occur twice (readers drop the second). So a put with an older time is chained behind a restated
//! head, and nothing already written is changed.

use crate::error::Result;
use crate::failpoint::{Fault, planted};
use crate::format::key::KeyRecord;
use crate::format::leaf::Slot;
use crate::format::location::Extent;
use crate::format::value::Kind;
use crate::handle::retention::Dropped;
use crate::handle::spot::Spot;
use crate::handle::spot::{is_readable, sort_versions};
use crate::index::memtable::{Entry, Found};
use crate::index::segment_table::SegmentTable;
use crate::logs::keys::KeyAppender;
use crate::logs::values::ValueLog;
use crate::logs::values::read::Want;
use crate::options::CountedOf;
use crate::sync::primitive::{AtomicBool, Ordering};
use crate::upkeep::checkpoint::chain::{Chain, without};
use crate::upkeep::checkpoint::work::{Keeping, Op, Task, moved};
use crate::upkeep::gathered::{Gathered, News};

pub(super) struct Merge<'a> {
    pub(super) keys: &'a mut KeyAppender,
    pub(super) values: &'a ValueLog,
    pub(super) segment_table: &'a mut SegmentTable,
    pub(super) retention: Keeping,
    pub(super) dropped: &'a mut Dropped,
    pub(super) replayed_below: u64,
    /// See [`Limits::chain_count`](crate::limits::Limits::chain_count).
    pub(super) chain_count: u32,
    /// Set when the handle is being closed, which waits for the checkpoint: the rest of the task
    /// is then left undone. `None`: the task must be completed.
    pub(super) closed: Option<&'a AtomicBool>,
    /// Set if part of the task was left undone.
    pub(super) is_cut: &'a mut bool,
    pub(super) counts: Option<CountedOf>,
    /// Change in the number of counted keys of the leaf; `None` if unknown.
    pub(super) counted: Option<i64>,
    pub(super) gathered: Option<&'a mut Gathered>,
    /// The runs of keys in order may not reflect the state of the table's keys.
    pub(super) settles_order: bool,
    /// Change in the existence of the key being merged: 1 if it came, -1 if it went, 0 otherwise.
    pub(super) came: i64,
}

/// Key records between two checks for closing: less than about a tenth of a millisecond.
const SOME_RECORDS: usize = 256;

/// Tells whether a chain may be left unchanged while the handle is being closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Duty {
    /// The chain must be merged.
    Must,
    /// The chain may wait.
    May,
}

/// A key's slot among those of its leaf.
struct Existing {
    at: usize,
    head: KeyRecord,
    /// Address of the key record; 0 when that is damaged and was reconstructed from the value
    /// record.
    address: u64,
}

impl Merge<'_> {
    /// Merges one key. `found` and `versions` are from the memtable, `slots` are those of the
    /// key's leaf.
    pub(super) fn key(
        &mut self,
        slots: &mut Vec<Slot>,
        hash: u64,
        key: &[u8],
        found: &Found,
        versions: Vec<Entry>,
    ) -> Result<()> {
        let existing = self.find(slots, hash, key)?;
        let was_there = existing.is_some();
        self.came = 0;
        self.merge_key(slots, hash, (key, existing), found, versions)?;
        let Some(gathered) = &mut self.gathered else { return Ok(()) };
        match self.came {
            came if self.settles_order => gathered.note(key, News::Is(i64::from(was_there) + came > 0)),
            1 => gathered.note(key, News::Came),
            -1 => gathered.note(key, News::Went),
            _ => {}
        }
        Ok(())
    }

    fn merge_key(
        &mut self,
        slots: &mut Vec<Slot>,
        hash: u64,
        (key, existing): (&[u8], Option<Existing>),
        found: &Found,
        versions: Vec<Entry>,
    ) -> Result<()> {
        let retention = self.retention.of(hash);
        let mut new: Vec<Spot> = versions.into_iter().map(Spot::from).collect();
        sort_versions(&mut new);
        let Some(existing) = existing else {
            let kept = retention.kept(new);
            return self.rewrite(slots, hash, key, (None, Chain::default()), &kept, Duty::Must);
        };
        let floor = if planted(Fault::TombstonesNotMerged) { 0 } else { found.floor };
        let replayed = new.iter().any(|s| s.version.sequence < self.replayed_below);
        let length = match existing.head.chain {
            // The count is capped: the chain may have any length from there on.
            counted if counted >= self.chain_count => usize::MAX,
            counted => counted as usize + new.len(),
        };
        if floor > 0 || existing.address == 0 || replayed || retention.may_drop(length) {
            let Some(mut chain) = self.chain(&existing, Duty::Must)? else { return Ok(()) };
            let is_news = floor > 0 || new.iter().any(|s| !chain.has(s));
            if !is_news && existing.address != 0 {
                return Ok(());
            }
            if floor > 0 {
                // Versions behind the damage were put before the tombstone.
                chain.behind = (0, 0);
            }
            // Index entries first: if a version occurs twice, keep the location that the segment
            // table already counts.
            let mut all = chain.spots().to_vec();
            all.extend(new);
            all.retain(|s| s.version.sequence > floor);
            let kept = retention.kept(all);
            let loses_damage = chain.behind != (0, 0) && retention.is_satisfied(kept.len());
            let loses_versions = without(chain.spots(), &kept, Spot::eq).next().is_some();
            // Bounds the records that restate a version to the number of versions.
            let is_long = chain.records().count() > 2 * chain.spots().len();
            let loses = loses_damage || loses_versions || is_long && !retention.keeps_all();
            if floor == 0 && existing.address != 0 && !loses {
                let added: Vec<Spot> = without(&kept, chain.spots(), Spot::eq).copied().collect();
                return if added.is_empty() { Ok(()) } else { self.extend(slots, hash, key, &existing, added) };
            }
            return self.rewrite(slots, hash, key, (Some(existing.at), chain), &kept, Duty::Must);
        }
        if new.is_empty() { Ok(()) } else { self.extend(slots, hash, key, &existing, new) }
    }

    /// Applies the task to all keys with these hash bits: moves of their versions, and work that
    /// needs the whole chain.
    pub(super) fn restate(&mut self, slots: &mut Vec<Slot>, hash: u64, ops: &[Op], task: &Task) -> Result<()> {
        let first = slots.partition_point(|s| s.hash < hash);
        let mut at = first;
        while slots.get(at).is_some_and(|s| s.hash == hash) {
            let len = slots.len();
            match self.at(slots, at)? {
                Some((existing, key)) => self.restate_key(slots, hash, (&existing, &key), ops, task)?,
                None => self.dropped.hidden += 1,
            }
            at += usize::from(slots.len() == len);
        }
        Ok(())
    }

    fn restate_key(
        &mut self,
        slots: &mut Vec<Slot>,
        hash: u64,
        (existing, key): (&Existing, &[u8]),
        ops: &[Op],
        task: &Task,
    ) -> Result<()> {
        let Some(chain) = self.chain(existing, Duty::May)? else { return Ok(()) };
        let mut all = chain.spots().to_vec();
        for spot in &mut all {
            spot.extent = moved(ops, spot);
        }
        let kept = self.retention.kept(hash, all, task);
        let (kept, is_damaged) = match task.spared.covers(key) {
            true => {
                let is_readable = |spot: &Spot| is_readable(self.values, key, spot, &kept);
                task.retention.kept_readable(&kept, &task.spared.needed, is_readable)?
            }
            false => (kept, false),
        };
        let kept = task.without_erased(kept);
        let mut dropped = self.dropped_from(chain.spots(), &kept)?;
        dropped.hidden = u64::from(chain.behind != (0, 0) || existing.address == 0 || is_damaged);
        if kept != chain.spots() || chain.records().any(|(address, _)| task.evacuates(address)) {
            self.came = 0;
            self.rewrite(slots, hash, key, (Some(existing.at), chain), &kept, Duty::May)?;
            if self.came < 0
                && let Some(gathered) = &mut self.gathered
            {
                // The log has no record of it: a crash after this stage must find it in a run.
                gathered.note(key, News::Went);
                if !planted(Fault::DropsNotDue) {
                    gathered.be_due();
                }
            }
        }
        if !*self.is_cut {
            self.dropped.add(dropped);
        }
        Ok(())
    }

    /// Counts the versions of a chain that are not kept, and their bytes.
    fn dropped_from(&self, before: &[Spot], kept: &[Spot]) -> Result<Dropped> {
        let mut dropped = Dropped::default();
        if kept.len() == before.len() {
            return Ok(dropped);
        }
        for spot in without(before, kept, |_, _| true) {
            dropped.versions += 1;
            dropped.bytes += spot.extent.bytes() + self.chunks(spot)?.iter().map(|e| e.bytes()).sum::<u64>();
        }
        dropped.keys += u64::from(kept.is_empty());
        Ok(dropped)
    }

    /// Returns the head and the key of the slot at an index.
    fn at(&self, slots: &[Slot], at: usize) -> Result<Option<(Existing, Vec<u8>)>> {
        let slot = &slots[at];
        match self.keys.read(slot.key) {
            Ok((head, key)) => Ok(Some((Existing { at, head, address: slot.key }, key))),
            Err(e) if e.is_corrupt() => {
                let found = self.record_by_value(slot)?;
                Ok(found.map(|(head, key)| (Existing { at, head, address: 0 }, key)))
            }
            Err(e) => Err(e),
        }
    }

    /// Finds the slot of a key in its leaf. A slot's key is in its key record or, if that is
    /// damaged, in its value record. If both are damaged, the slot is left unchanged.
    fn find(&self, slots: &[Slot], hash: u64, key: &[u8]) -> Result<Option<Existing>> {
        let first = slots.partition_point(|s| s.hash < hash);
        for (at, _) in slots.iter().enumerate().skip(first).take_while(|(_, s)| s.hash == hash) {
            if let Some((existing, _)) = self.at(slots, at)?.filter(|(_, k)| k == key) {
                return Ok(Some(existing));
            }
        }
        Ok(None)
    }

    /// Reconstructs a lost key record from the value record. The chain behind it is lost.
    fn record_by_value(&self, slot: &Slot) -> Result<Option<(KeyRecord, Vec<u8>)>> {
        let read = self.values.with_record(slot.location, slot.size, Want::Head, |raw| {
            let refers_to = if raw.header.kind == Kind::Reference { raw.refers_to() } else { 0 };
            let record = KeyRecord {
                key_bytes: raw.key().len() as u32,
                version: raw.version(),
                extent: Extent::new(slot.location, raw.header.total_bytes()),
                chunked: raw.header.kind == Kind::Chunked,
                previous: 0,
                chain: 1,
                refers_to,
                holder: 0,
            };
            Ok(Some((record, raw.key().to_vec())))
        });
        match read {
            Err(e) if e.is_corrupt() => Ok(None),
            read => read,
        }
    }

    /// Reads all records of a chain. `None` if it may wait and the handle is being closed.
    fn chain(&mut self, existing: &Existing, duty: Duty) -> Result<Option<Chain>> {
        let mut chain = Chain::default();
        chain.push(existing.address, &existing.head);
        let (mut address, mut last) = (existing.address, existing.head);
        for nth in 1.. {
            if self.stops(nth, duty) {
                return Ok(None);
            }
            let behind = (last.previous, last.chain.saturating_sub(1));
            if last.previous == 0 {
                return Ok(Some(chain.ended((0, 0))));
            }
            match self.keys.read(last.previous) {
                Ok((record, _)) if self.keys.is_before(last.previous, address) => {
                    chain.push(last.previous, &record);
                    (address, last) = (last.previous, record);
                }
                Ok(_) => return Ok(Some(chain.ended(behind))),
                // Readers report that everything behind a damaged record is lost. It must not
                // block the merge of the rest.
                Err(e) if e.is_corrupt() => return Ok(Some(chain.ended(behind))),
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Returns true if the rest of a task must be left undone.
    pub(super) fn stops_task(&mut self) -> bool {
        self.stops(0, Duty::May)
    }

    /// Returns true if work that may wait must stop before the nth record.
    fn stops(&mut self, nth: usize, duty: Duty) -> bool {
        let stops = duty == Duty::May
            && nth.is_multiple_of(SOME_RECORDS)
            && self.closed.is_some_and(|closed| closed.load(Ordering::Acquire));
        *self.is_cut |= stops;
        stops
    }

    /// Replaces a key's chain and slot, if any, by a new chain of the versions in `kept`, newest
    /// first.
    fn rewrite(
        &mut self,
        slots: &mut Vec<Slot>,
        hash: u64,
        key: &[u8],
        (at, chain): (Option<usize>, Chain),
        kept: &[Spot],
        duty: Duty,
    ) -> Result<()> {
        // Keep the damaged part, which readers report, unless its versions would not be kept.
        let behind = if self.retention.of(hash).is_satisfied(kept.len()) { (0, 0) } else { chain.behind };
        let Some(address) = self.append(key, behind, kept, Holders::default(), duty)? else { return Ok(()) };
        for spot in without(chain.spots(), kept, Spot::eq) {
            self.leave(spot)?;
        }
        for spot in without(kept, chain.spots(), Spot::eq) {
            self.enter(spot)?;
        }
        for (address, bytes) in chain.records() {
            self.segment_table.debit_key(address, bytes);
        }
        match (kept.first(), at) {
            (Some(newest), at) => {
                self.set(slots, at, slot(hash, address, newest));
                if at.is_none() {
                    self.count(key, 1);
                }
            }
            (None, Some(at)) => {
                slots.remove(at);
                if !planted(Fault::RemovedKeysCounted) {
                    self.count(key, -1);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Counts a key that has gained or lost its slot.
    fn count(&mut self, key: &[u8], more: i64) {
        self.came += more;
        let more = self.counts.map(|is_counted| if is_counted(key) { more } else { 0 });
        self.counted = self.counted.zip(more).map(|(counted, more)| counted + more);
    }

    /// Appends the new versions, newest first, to a chain.
    fn extend(
        &mut self,
        slots: &mut Vec<Slot>,
        hash: u64,
        key: &[u8],
        existing: &Existing,
        new: Vec<Spot>,
    ) -> Result<()> {
        let head = Spot::from(&existing.head);
        for spot in &new {
            self.enter(spot)?;
        }
        let mut records = new;
        if records.iter().any(|s| s.version < head.version) {
            records.push(head);
        }
        sort_versions(&mut records);
        let behind = (existing.address, existing.head.chain);
        if let Some(address) = self.append(key, behind, &records, Holders::of(existing), Duty::Must)? {
            self.set(slots, Some(existing.at), slot(hash, address, &records[0]));
        }
        Ok(())
    }

    fn set(&self, slots: &mut Vec<Slot>, at: Option<usize>, slot: Slot) {
        match at {
            Some(at) => slots[at] = slot,
            None => slots.insert(slots.partition_point(|s| s.hash < slot.hash), slot),
        }
    }

    /// Appends key records for versions, given newest first, oldest first behind a chain (its
    /// address and length). Returns the newest record's address. `None` if this may wait and the
    /// handle is being closed: then nothing leads to the appended records.
    fn append(
        &mut self,
        key: &[u8],
        behind: (u64, u32),
        versions: &[Spot],
        mut holders: Holders,
        duty: Duty,
    ) -> Result<Option<u64>> {
        let (mut address, mut chain) = behind;
        let (mut live, mark): (Vec<(u64, u64, u64)>, _) = (Vec::new(), self.keys.mark());
        for (nth, spot) in versions.iter().rev().enumerate() {
            if self.stops(nth, duty) {
                self.keys.abandon(mark);
                return Ok(None);
            }
            chain = (chain + 1).min(self.chain_count);
            let record = KeyRecord {
                key_bytes: key.len() as u32,
                version: spot.version,
                extent: spot.extent,
                chunked: spot.chunked,
                previous: address,
                chain,
                refers_to: spot.refers_to,
                holder: holders.find(spot.refers_to),
            };
            let ordinal;
            (address, ordinal) = self.keys.append(&record, key)?;
            match live.last_mut().filter(|segment| segment.1 == ordinal) {
                Some(segment) => segment.2 += record.total_bytes(),
                None => live.push((address, ordinal, record.total_bytes())),
            }
            holders.add(spot.version.sequence, address);
        }
        for (address, ordinal, bytes) in live {
            self.segment_table.credit_key(address, ordinal, bytes);
        }
        Ok(Some(address))
    }

    /// Counts a version as live: the index now leads to it.
    fn enter(&mut self, spot: &Spot) -> Result<()> {
        for extent in self.chunks(spot)?.into_iter().chain([spot.extent]) {
            let ordinal = self.values.segments.get(extent.location.segment).ok().map(|s| s.ordinal);
            self.segment_table.credit(extent, ordinal);
        }
        Ok(())
    }

    /// Counts a version as dead.
    fn leave(&mut self, spot: &Spot) -> Result<()> {
        for extent in self.chunks(spot)?.into_iter().chain([spot.extent]) {
            self.segment_table.debit(extent);
        }
        Ok(())
    }

    /// Returns the records of a version's chunks. Those of a damaged list are unknown.
    fn chunks(&self, spot: &Spot) -> Result<Vec<Extent>> {
        if !spot.chunked {
            return Ok(Vec::new());
        }
        let (location, size) = (spot.extent.location, spot.extent.size());
        match self.values.with_record(location, size, Want::Whole, |raw| raw.chunks()) {
            Ok(chunks) => Ok(chunks.iter().map(|c| Extent { location: c.location, units: c.units }).collect()),
            Err(e) if e.is_corrupt() => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }
}

fn slot(hash: u64, address: u64, newest: &Spot) -> Slot {
    Slot { hash, key: address, location: newest.extent.location, size: newest.extent.size() }
}

/// Addresses of versions that hold bodies, as far as known: those just appended, the former head,
/// and the version that the former head refers to.
#[derive(Default)]
struct Holders {
    known: Vec<(u64, u64)>,
}

impl Holders {
    fn of(existing: &Existing) -> Holders {
        let head = &existing.head;
        Holders { known: vec![(head.refers_to, head.holder), (head.version.sequence, existing.address)] }
    }

    fn add(&mut self, sequence: u64, address: u64) {
        // Only the latest are worth keeping: a reader that finds no address walks the chain.
        if self.known.len() >= 64 {
            self.known.remove(0);
        }
        self.known.push((sequence, address));
    }

    /// Returns the address of the version with a sequence; 0 if unknown, or for sequence 0.
    fn find(&self, sequence: u64) -> u64 {
        let found = self.known.iter().rev().find(|k| sequence != 0 && k.0 == sequence);
        found.map_or(0, |k| k.1)
    }
}
