//! `verify`: reads every byte of a store, and says of each that is wrong where it is. It stops at nothing.

mod expand;
mod report;
mod starts;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use filemap_io::File;

use crate::accounts::{Account, Accounts};
use crate::error::{Error, Result};
use crate::format::key::{KeyRecord, UNIT_BYTES as KEY_UNIT, offset_of, segment_of};
use crate::format::leaf::{Slot, kept_bits};
use crate::format::location::{Extent, Location, UNIT_BYTES};
use crate::format::superblock::{COPIES, Tail};
use crate::format::{PAGE_BYTES, names};
use crate::keys::KeyFile;
use crate::log::scan::Item;
use crate::recover;
use crate::segments::{FIRST_RECORD, Segment};
use crate::state::Shared;
use expand::{Flaw, Part, expand};
use starts::Starts;

pub use report::{Problem, VerifyProgress, VerifyReport};

struct Check<'a> {
    shared: &'a Shared,
    report: VerifyReport,
    total_bytes: u64,
    values: HashMap<u16, Starts>,
    /// The chunks among them.
    chunks: HashMap<u16, Starts>,
    /// Where lists of chunks lie, and what they list.
    lists: HashMap<Location, Vec<Extent>>,
    /// What was found to be live, and the removals below `tail`.
    found: Accounts,
    tail: Tail,
    /// Records that need a dictionary that cannot be read, by its id, and why.
    unread: BTreeMap<u32, (u64, Error)>,
    keys: HashMap<u16, Starts>,
    /// Where the scans end: what the index leads to beyond was written since.
    value_end: Tail,
    key_end: Tail,
    /// The key log's segments, and how often some were removed when they were opened: what is led by addresses then and
    /// now is compared only while that stays so.
    key_files: Vec<KeyFile>,
    removals: u64,
    progress: &'a mut dyn FnMut(VerifyProgress),
}

impl Shared {
    /// See [`Store::verify`](crate::Store::verify).
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        self.check_open()?;
        if self.writer.is_some() {
            // The tables then hold only what is put while this runs.
            self.checkpoint()?;
        } else {
            self.follow_writer()?;
        }
        let stats = self.stats();
        let removals = self.keys.removals();
        let (key_files, key_end) = self.key_files()?;
        let mut check = Check {
            shared: self,
            report: VerifyReport::default(),
            total_bytes: stats.value_bytes
                + stats.dictionary_bytes
                + stats.key_bytes
                + stats.index_leaves * PAGE_BYTES as u64,
            values: HashMap::new(),
            chunks: HashMap::new(),
            lists: HashMap::new(),
            found: Accounts::default(),
            tail: self.latest.load().tail,
            unread: BTreeMap::new(),
            keys: HashMap::new(),
            value_end: self.log_end().0,
            key_end,
            key_files,
            removals,
            progress,
        };
        let settled = self.settled();
        check.superblock()?;
        check.dictionaries();
        check.values()?;
        check.unread();
        let heads = check.keys()?;
        check.index(heads, settled)?;
        Ok(check.report)
    }

    /// Something that stays the same for as long as the index is that of the latest superblock; `None` while it is not.
    fn settled(&self) -> Option<(u64, u64)> {
        let epoch = self.latest.load().epoch;
        let settled = self.index.settled()?;
        (self.writer.is_some() || settled == epoch).then_some((settled, epoch))
    }
}

impl Check<'_> {
    fn problem(&mut self, file: impl Into<String>, offset: u64, what: impl Into<String>) {
        self.report.problems.push(Problem { file: file.into(), offset, what: what.into() });
    }

    fn read(&mut self, file: &str, bytes: u64) {
        self.report.bytes += bytes;
        (self.progress)(VerifyProgress {
            file: file.to_owned(),
            done_bytes: self.report.bytes.min(self.total_bytes),
            total_bytes: self.total_bytes,
            problems: self.report.problems.len() as u64,
        });
    }

    fn superblock(&mut self) -> Result<()> {
        self.report.files += 1;
        for (copy, offset) in self.shared.superblock.copies()?.iter().zip(COPIES) {
            if let Err(what) = copy {
                self.problem(names::SUPERBLOCK, offset, *what);
            }
        }
        Ok(())
    }

    /// Reads both copies of every dictionary.
    fn dictionaries(&mut self) {
        for id in self.shared.segments.dictionaries.ids() {
            let name = names::dictionary(id);
            self.report.files += 1;
            match self.shared.segments.dictionaries.check(id) {
                Err(e) => self.problem(name, 0, e.to_string()),
                Ok(checked) => {
                    for (offset, what) in checked.problems {
                        self.problem(&name, offset, what);
                    }
                    self.read(&name, checked.bytes);
                }
            }
        }
    }

    /// Scans every segment up to the end of the log.
    fn values(&mut self) -> Result<()> {
        let end = self.value_end;
        let accounts = self.shared.accounts.load_full();
        let counts = |s: &Segment| match s.is_output {
            true => accounts.names(s.id, s.ordinal),
            false => s.ordinal <= end.ordinal,
        };
        for segment in self.shared.segments.all().iter().filter(|s| counts(s)) {
            let name = segment.name();
            self.report.files += 1;
            let file = match self.shared.segments.file(segment) {
                Ok(file) => file,
                Err(e) => {
                    // Compaction may have removed it since; what lived in it is checked at its new place, if that counts.
                    self.shared.catch_up()?;
                    if self.shared.segments.get(segment.id).is_ok_and(|s| s.ordinal == segment.ordinal) {
                        self.problem(name, 0, e.to_string());
                    }
                    continue;
                }
            };
            let is_last = !segment.is_output && segment.ordinal == end.ordinal;
            let to = if is_last { end.offset } else { u64::MAX };
            let mut scan = self.shared.segments.scan(segment, &*file, FIRST_RECORD, to)?;
            let (mut starts, mut chunks) = (Starts::default(), Starts::default());
            let mut expanded = Vec::new();
            let mut read = FIRST_RECORD;
            while let Some(item) = scan.next()? {
                match item {
                    Item::Filler { bytes } => read += bytes,
                    Item::Gap { offset, bytes, what } => {
                        read += bytes;
                        self.problem(&name, offset, format!("{bytes} bytes belong to no whole record: {what}"));
                    }
                    Item::Record { offset, bytes } => {
                        read += bytes.len() as u64;
                        self.report.value_records += 1;
                        match expand(&self.shared.segments.dictionaries, bytes, &mut expanded) {
                            Ok(Part::Chunk) => chunks.add(offset / UNIT_BYTES),
                            Ok(Part::List(list)) => {
                                self.lists.insert(Location::new(segment.id, offset), list);
                            }
                            Ok(Part::Tombstone) => self.tombstone(segment, offset, bytes.len() as u64),
                            Ok(Part::Other) => {}
                            Err(Flaw::Record(what)) => {
                                self.problem(&name, offset, what);
                                continue;
                            }
                            Err(Flaw::Dictionary(id, e)) => {
                                self.unread.entry(id).or_insert((0, e)).0 += 1;
                            }
                        }
                        starts.add(offset / UNIT_BYTES);
                    }
                }
                if read >= 8 << 20 {
                    self.read(&name, std::mem::take(&mut read));
                }
            }
            self.read(&name, read);
            self.values.insert(segment.id, starts);
            self.chunks.insert(segment.id, chunks);
        }
        Ok(())
    }

    /// Reports dictionaries that are missing or damaged once each, however many records need them.
    fn unread(&mut self) {
        for (id, (records, error)) in std::mem::take(&mut self.unread) {
            self.problem(names::dictionary(id), 0, format!("{records} records cannot be expanded without it: {error}"));
        }
    }

    fn tombstone(&mut self, segment: &Segment, offset: u64, bytes: u64) {
        if segment.is_output || (Tail { ordinal: segment.ordinal, offset }) < self.tail {
            self.found.add_tombstones(segment.id, segment.ordinal, bytes / UNIT_BYTES);
        }
    }

    /// Scans the key log; how many of its records are the head of a key's chain, as the index says.
    fn keys(&mut self) -> Result<u64> {
        let mut heads = 0;
        for KeyFile { segment, file } in std::mem::take(&mut self.key_files) {
            match file {
                Some(file) => heads += self.key_segment(&segment, &*file)?,
                None => self.problem(segment.name(), 0, "the segment is missing"),
            }
        }
        let accounts = self.shared.accounts.load_full();
        for (id, account) in &accounts.keys {
            let is_missing = account.live_units > 0 && account.ordinal <= self.key_end.ordinal;
            if is_missing && !self.keys.contains_key(id) && !self.has_moved() {
                self.problem(names::keys(*id), 0, "the segment is missing");
            }
        }
        Ok(heads)
    }

    fn key_segment(&mut self, segment: &Segment, file: &dyn File) -> Result<u64> {
        let shared = self.shared;
        let name = segment.name();
        let (mut heads, mut read) = (0, 0);
        self.report.files += 1;
        self.keys.insert(segment.id, Starts::default());
        let mut scan = shared.keys.scan(segment, file, FIRST_RECORD, self.key_end)?;
        while let Some(item) = scan.next()? {
            match item {
                // An interrupted checkpoint leaves such bytes behind. Damage it is only where something leads to it.
                Item::Gap { bytes, .. } | Item::Filler { bytes } => {
                    read += bytes;
                    self.report.unused_key_bytes += bytes;
                }
                Item::Record { offset, bytes } => {
                    read += bytes.len() as u64;
                    self.report.key_records += 1;
                    self.keys.entry(segment.id).or_default().add(offset / KEY_UNIT);
                    let (record, key) = shared.keys.decode(segment, bytes, offset)?;
                    let hash = shared.hash(key);
                    let Ok(candidates) = shared.candidates(hash) else { continue };
                    let here = Tail { ordinal: segment.ordinal, offset };
                    for slot in candidates.iter().filter(|s| shared.keys.position(s.key) == Some(here)) {
                        heads += 1;
                        if slot.location != record.extent.location || slot.hash != kept_bits(hash) {
                            self.problem(&name, offset, "its slot in the index leads elsewhere");
                        }
                        self.chain(key, slot.key, &record)?;
                    }
                }
            }
            if read >= 8 << 20 {
                self.read(&name, std::mem::take(&mut read));
            }
        }
        self.read(&name, read);
        Ok(heads)
    }

    /// Whether segments of the key log were removed since this began: a chain that ends where there is none is no damage then.
    fn has_moved(&self) -> bool {
        self.shared.keys.removals() != self.removals
    }

    /// Follows a key's chain from its second record on: each must be whole, of the same key, and lead to a value; and what
    /// versions refer to must be among them.
    fn chain(&mut self, key: &[u8], first: u64, head: &KeyRecord) -> Result<()> {
        let (mut address, mut chain) = (head.previous, head.chain);
        let ordinal = |address| self.shared.keys.position(address).map_or(0, |place| place.ordinal);
        self.found.credit_key(first, ordinal(first), head.total_bytes());
        self.version(head);
        let mut versions = vec![head.version.sequence];
        let mut holders = vec![(head.extent.location, head.refers_to)];
        while address != 0 {
            let (name, offset) = (names::keys(segment_of(address)), offset_of(address));
            let record = match self.shared.keys.read(address) {
                _ if self.has_moved() => return Ok(()),
                Ok((record, found)) if found == key && record.chain < chain => record,
                Ok((_, found)) if found == key => {
                    self.problem(name, offset, "the chain that leads here does not grow shorter");
                    return Ok(());
                }
                Ok(_) => {
                    self.problem(name, offset, "the chain of another key leads here");
                    return Ok(());
                }
                Err(Error::Corrupt { what, .. }) => {
                    self.problem(name, offset, format!("a chain leads here, but {what}"));
                    return Ok(());
                }
                Err(e) => return Err(e),
            };
            let location = record.extent.location;
            if self.was_scanned(location) && !self.has_value(location) {
                let what = "an earlier version should be here, but there is no whole record";
                self.problem(names::segment(location.segment), location.offset(), what);
            }
            self.found.credit_key(address, ordinal(address), record.total_bytes());
            if !versions.contains(&record.version.sequence) {
                self.version(&record);
            }
            versions.push(record.version.sequence);
            holders.push((location, record.refers_to));
            (address, chain) = (record.previous, record.chain);
        }
        for (location, holder) in holders {
            if holder != 0 && !versions.contains(&holder) {
                let what = format!("it refers to version {holder}, which is not there");
                self.problem(names::segment(location.segment), location.offset(), what);
            }
        }
        Ok(())
    }

    /// Counts what a version keeps alive, and whether all that a large body lists is there. Whose it is, and that it fits
    /// together, each read finds out.
    fn version(&mut self, record: &KeyRecord) {
        let place = record.extent.location;
        let chunks = if record.chunked { self.lists.get(&place) } else { None };
        for extent in [record.extent].iter().chain(chunks.into_iter().flatten()) {
            let ordinal = self.shared.segments.get(extent.location.segment).map_or(0, |s| s.ordinal);
            self.found.credit(*extent, ordinal);
        }
        let has = |l: Location| self.chunks.get(&l.segment).is_some_and(|s| s.has(u64::from(l.unit)));
        let is_lost = |c: &Extent| self.was_scanned(c.location) && !has(c.location);
        if chunks.is_some_and(|list| list.iter().any(is_lost)) {
            self.problem(names::segment(place.segment), place.offset(), "it lists a chunk that is not there");
        }
    }

    /// Compares the segment table with what was found.
    fn accounts(&mut self) {
        let mut told = Accounts::clone(&self.shared.accounts.load());
        recover::forget_removed(&self.shared.segments, &mut told);
        let of = |accounts: &BTreeMap<u16, Account>, id: u16| {
            accounts.get(&id).map_or((0, 0), |a| (a.live_units, a.tombstone_units))
        };
        let found = std::mem::take(&mut self.found);
        let families = [(&told.values, &found.values, UNIT_BYTES), (&told.keys, &found.keys, KEY_UNIT)];
        for (nth, (told, found, unit)) in families.into_iter().enumerate() {
            let ids: BTreeSet<u16> = told.keys().chain(found.keys()).copied().collect();
            for id in ids.into_iter().filter(|id| of(told, *id) != of(found, *id)) {
                let ((live, removals), (found_live, found_removals)) = (of(told, id), of(found, id));
                let what = format!(
                    "the segment table says {} bytes are live and {} removals, but {} and {} are",
                    live * unit,
                    removals * unit,
                    found_live * unit,
                    found_removals * unit
                );
                let name = if nth == 0 { names::segment(id) } else { names::keys(id) };
                self.problem(name, 0, what);
            }
        }
    }

    fn has_value(&self, location: Location) -> bool {
        self.values.get(&location.segment).is_some_and(|s| s.has(u64::from(location.unit)))
    }

    /// Whether a key record was met at an address, or could not be.
    fn has_key(&self, address: u64) -> bool {
        let place = self.shared.keys.position(address);
        let met = |address| self.keys.get(&segment_of(address)).is_some_and(|s| s.has(offset_of(address) / KEY_UNIT));
        self.has_moved() || place.is_some_and(|place| place >= self.key_end) || met(address)
    }

    /// Whether a place was scanned.
    fn was_scanned(&self, location: Location) -> bool {
        let found = self.shared.segments.get(location.segment).or_else(|_| {
            // A reader may not have heard of what was written since.
            self.shared.catch_up().and_then(|_| self.shared.segments.get(location.segment))
        });
        match found {
            // What compaction has written since was not.
            Ok(s) if s.is_output => self.values.contains_key(&s.id),
            Ok(s) => Tail { ordinal: s.ordinal, offset: location.offset() } < self.value_end,
            Err(_) => true,
        }
    }

    /// Checks every leaf and where its slots lead. `settled` tells which index the heads were counted in.
    fn index(&mut self, heads: u64, settled: Option<(u64, u64)>) -> Result<()> {
        self.report.files += 1;
        let (mut keys, mut bad) = (0, Vec::new());
        let mut slots = |slots: &[Slot]| {
            keys += slots.len() as u64;
            for slot in slots {
                if self.was_scanned(slot.location) && !self.has_value(slot.location) {
                    let name = names::segment(slot.location.segment);
                    bad.push((name, slot.location.offset(), "the index leads here, but there is no whole record"));
                }
                if !self.has_key(slot.key) {
                    let (name, offset) = (names::keys(segment_of(slot.key)), offset_of(slot.key));
                    bad.push((name, offset, "the index leads here, but there is no whole key record"));
                }
            }
        };
        let mut pages = Vec::new();
        let mut follow = || self.shared.follow_writer();
        self.report.index_pages = self.shared.index.check(&mut follow, &mut slots, &mut |page, what| {
            pages.push((page, what.to_owned()));
        })?;
        self.report.indexed_keys = keys;
        self.read(names::INDEX, self.report.index_pages * PAGE_BYTES as u64);
        for (page, what) in pages {
            self.problem(names::INDEX, u64::from(page) * PAGE_BYTES as u64, what);
        }
        for (name, offset, what) in bad {
            self.problem(name, offset, what);
        }
        let latest = self.shared.latest.load();
        let expected = latest.index.keys;
        // Counts can be compared only if no checkpoint changed them meanwhile, not even one that is still under way.
        let unchanged = settled.is_some() && self.shared.settled() == settled;
        if unchanged && self.report.problems.is_empty() && (keys != expected || heads != keys) {
            let what =
                format!("the index has {keys} keys, the superblock says {expected}, the key log has {heads} heads");
            self.problem(names::INDEX, 0, what);
        }
        if unchanged && self.report.problems.is_empty() {
            self.accounts();
        }
        Ok(())
    }
}
