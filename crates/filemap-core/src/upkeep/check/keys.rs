//! Verification of the key log: every record is intact, and every chain is followed from the head
//! that the index leads to.

use std::collections::HashSet;

use filemap_io::File;

use crate::error::{Error, Result, StorageError};
use crate::format::key::{KeyRecord, UNIT_BYTES as KEY_UNIT, offset_of, segment_of};
use crate::format::leaf::kept_bits;
use crate::format::location::{Extent, Location};
use crate::format::names;
use crate::format::superblock::Tail;
use crate::index::address::LastLeaf;
use crate::logs::keys::KeyFile;
use crate::logs::scan::Item;
use crate::logs::segments::{FIRST_RECORD, Segment};
use crate::upkeep::check::starts::Starts;
use crate::upkeep::check::{Check, not_read};
use std::sync::Arc;

impl Check<'_, '_> {
    /// Scans the key log. Returns the number of records that are the head of a key's chain in the
    /// index.
    pub(super) fn keys(&mut self) -> Result<u64> {
        let mut heads = 0;
        // Each key is looked up, and each leaf is verified afterwards.
        let _ = self.reading.index().will_need_all();
        for KeyFile { segment, file, end } in std::mem::take(&mut self.key_files) {
            match file {
                Some(file) => heads += self.key_segment(&segment, &*file, end)?,
                None => self.problem(segment.name(), 0, "the segment is missing"),
            }
        }
        let segment_table = Arc::clone(&self.reading.segment_table());
        for (id, row) in &segment_table.keys {
            let is_missing = row.live_units > 0 && row.ordinal <= self.key_end.ordinal;
            if is_missing && !self.keys.contains_key(id) && !self.has_moved() {
                self.problem(names::keys(*id), 0, "the segment is missing");
            }
        }
        Ok(heads)
    }

    fn key_segment(&mut self, segment: &Segment, file: &dyn File, end: u64) -> Result<u64> {
        let reading = self.reading;
        let name = segment.name();
        let (mut heads, mut read) = (0, 0);
        // A checkpoint writes records in hash order.
        let mut last = LastLeaf::default();
        self.report.files += 1;
        self.keys.insert(segment.id, Starts::default());
        let mut scan = reading.keys().scan(segment, file, FIRST_RECORD..end)?.once();
        while let Some(item) = scan.next()? {
            match item {
                // Interrupted checkpoints leave these bytes. They are damage only if something
                // leads to them.
                Item::Gap { bytes, .. } | Item::Filler { bytes } => {
                    read += bytes;
                    self.report.unused_key_bytes += bytes;
                }
                Item::Record { offset, bytes } => {
                    read += bytes.len() as u64;
                    self.report.key_records += 1;
                    self.keys.entry(segment.id).or_default().add(offset / KEY_UNIT);
                    let (record, key) = reading.keys().decode(segment, bytes, offset)?;
                    let hash = reading.hash(key);
                    let found = reading.looking_again(|| reading.candidates_near(hash, &mut last));
                    let candidates = match found {
                        Ok(candidates) => candidates,
                        // The walk over the leaves reports the damage.
                        Err(error) => {
                            not_read(&error)?;
                            continue;
                        }
                    };
                    let here = Tail { ordinal: segment.ordinal, offset };
                    for slot in candidates.iter().filter(|s| reading.keys().position(s.key) == Some(here)) {
                        heads += 1;
                        self.count(key);
                        self.head_hashes = self.head_hashes.wrapping_add(hash);
                        if slot.location != record.extent.location || slot.hash != kept_bits(hash) {
                            self.problem(&name, offset, "its slot in the index leads elsewhere");
                        }
                        self.chain(key, slot.key, &record)?;
                    }
                }
            }
            if read >= self.piece_bytes() {
                self.read(&name, std::mem::take(&mut read))?;
            }
        }
        self.read(&name, read)?;
        Ok(heads)
    }

    /// Counts a key in the index, if the option `counted` counts it.
    fn count(&mut self, key: &[u8]) {
        let is_counted = self.reading.options().counted.is_some_and(|is_counted| is_counted(key));
        self.counted = self.counted.map(|counted| counted + u64::from(is_counted));
    }

    /// Returns true if key-log segments were removed since the pass began: then a chain that ends
    /// in a missing segment is not damaged.
    pub(super) fn has_moved(&self) -> bool {
        self.reading.keys().removals() != self.removals
    }

    /// Follows a key's chain from its second record on. Each record must be intact, belong to the
    /// same key, and lead to a value; each version referred to must be in the chain.
    fn chain(&mut self, key: &[u8], first: u64, head: &KeyRecord) -> Result<()> {
        let (mut last, mut address, mut chain) = (first, head.previous, head.chain);
        let most = self.reading.options().limits.chain_count;
        let ordinal = |address| self.reading.keys().position(address).map_or(0, |place| place.ordinal);
        self.found.credit_key(first, ordinal(first), head.total_bytes());
        self.version(head);
        self.note_whose(key, head.extent.location);
        let mut versions = HashSet::from([head.version.sequence]);
        let mut holders = vec![(head.extent.location, head.refers_to)];
        while address != 0 {
            let (name, offset) = (names::keys(segment_of(address)), offset_of(address));
            let read = match self.reading.keys().read(address) {
                _ if self.has_moved() => return Ok(()),
                Ok((_, found)) if found == key && !self.reading.keys().is_before(address, last) => {
                    Err("the chain that leads here does not lead back".to_owned())
                }
                Ok((record, found)) if found == key && (record.chain < chain || chain >= most) => Ok(record),
                Ok((_, found)) if found == key => Err("the chain that leads here does not grow shorter".to_owned()),
                Ok(_) => Err("the chain of another key leads here".to_owned()),
                Err(Error::Storage(StorageError::Corrupt { what, .. })) => {
                    Err(format!("a chain leads here, but {what}"))
                }
                Err(e) => return Err(e),
            };
            let record = match read {
                Ok(record) => record,
                Err(what) => {
                    self.problem_with(name, offset, what, vec![key.to_vec()]);
                    return Ok(());
                }
            };
            let location = record.extent.location;
            self.note_whose(key, location);
            if self.places.were_scanned(location) && !self.places.has(location) {
                let what = "an earlier version should be here, but there is no intact record";
                self.problem(names::segment(location.segment), location.offset(), what);
            }
            self.found.credit_key(address, ordinal(address), record.total_bytes());
            if versions.insert(record.version.sequence) {
                self.version(&record);
            }
            holders.push((location, record.refers_to));
            (last, address, chain) = (address, record.previous, record.chain);
        }
        for (location, holder) in holders {
            if holder != 0 && !versions.contains(&holder) {
                let what = format!("it refers to version {holder}, which is missing");
                self.problem(names::segment(location.segment), location.offset(), what);
            }
        }
        Ok(())
    }

    /// Counts the bytes that a version keeps alive, and checks that the chunks of a large body
    /// exist. Reads check the owner and the content of the chunks.
    fn version(&mut self, record: &KeyRecord) {
        let place = record.extent.location;
        let chunks = if record.chunked { self.lists.get(&place) } else { None };
        for extent in [record.extent].iter().chain(chunks.into_iter().flatten()) {
            let ordinal = self.reading.values().segments.get(extent.location.segment).ok().map(|s| s.ordinal);
            self.found.credit(*extent, ordinal);
        }
        let has = |l: Location| self.chunks.get(&l.segment).is_some_and(|s| s.has(u64::from(l.unit)));
        let is_lost = |c: &Extent| self.places.were_scanned(c.location) && !has(c.location);
        if chunks.is_some_and(|list| list.iter().any(is_lost)) {
            self.problem(names::segment(place.segment), place.offset(), "it lists a chunk that is missing");
        }
    }

    /// Returns true if an intact key record starts at an address, or if that cannot be known.
    pub(super) fn has_key(&self, address: u64) -> bool {
        let place = self.reading.keys().position(address);
        let met = |address| self.keys.get(&segment_of(address)).is_some_and(|s| s.has(offset_of(address) / KEY_UNIT));
        self.has_moved() || place.is_some_and(|place| place >= self.key_end) || met(address)
    }
}
