//! Lists of keys, read from the key log alone.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::{Error, Result};
use crate::format::superblock::Tail;
use crate::handle::reading::Reading;
use crate::index::memtable::{Found, Memtable};
use crate::logs::keys::KeyFile;
use crate::logs::scan::Item;
use crate::logs::segments::FIRST_RECORD;
use crate::logs::values::read::Want;
use crate::store::Store;

type Filter = Box<dyn Fn(&[u8]) -> bool + Send>;

impl Store {
    /// All live keys, each once, in no order: a sequential read of the key log, without values.
    /// Ends with an error for each missing file ([`Store::absent`]).
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
        Keys::new(Arc::clone(&self.reading), Box::new(filter))
    }
}

impl Store {
    /// Number of live keys that [`Options::counted`](crate::Options::counted) counts at one moment
    /// during the call, as [`Store::keys_where`] would list them then. `None` without that option,
    /// or if the store does not know it.
    ///
    /// The superblock has the number as of the last checkpoint. Keys put or removed since are
    /// looked up in the index once, about a microsecond each. A further call looks up only newer
    /// ones, unless a checkpoint has changed the index.
    ///
    /// # Errors
    /// `Corrupt` if a lookup finds damage; `Io`; `Closed`.
    ///
    /// ```
    /// # use filemap_core::{Options, Record, Store};
    /// # let temp = tempfile::tempdir()?;
    /// let pages_only = Options::new().counted(|key| !key.contains(&0));
    /// let store = Store::create(temp.path().join("a"), pages_only)?;
    /// store.put(&Record::new(b"http://a.example/", b"A page."))?;
    /// store.put(&Record::new(b"http://a.example/\0request", b"How it was asked for."))?;
    /// assert_eq!(store.counted_keys()?, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counted_keys(&self) -> Result<Option<u64>> {
        self.reading.counted_keys()
    }
}

/// A memtable, and its state when the iteration began.
struct Known {
    table: Arc<Memtable>,
    mark: u32,
}

impl Known {
    fn knew(&self, hash: u64, key: &[u8]) -> bool {
        self.table.find(hash, key).is_some_and(|f| self.table.knew(&f, self.mark))
    }
}

/// Iterates over keys; see [`Store::keys`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let keys: Vec<_> = store.keys().collect::<filemap_core::Result<_>>()?;
/// assert_eq!(keys, [b"http://a.example/"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Keys {
    reading: Arc<Reading>,
    filter: Filter,
    /// Newest first.
    known: Vec<Known>,
    in_memory: IntoIter<(usize, u64, Found)>,
    /// Segments of the key log, opened when the iteration began: they may be removed meanwhile.
    files: IntoIter<KeyFile>,
    current: Option<(KeyFile, u64)>,
    /// End of the key log at that time. Records after it are newer than the iteration.
    end: Tail,
    batch: IntoIter<Result<Vec<u8>>>,
    /// Gaps of the key log, without any intact record.
    gaps: Vec<Range<Tail>>,
    /// The last damage reported: a bad index page is reported once, not for each of its keys.
    told: Option<String>,
    /// Keys returned after a checkpoint replaced their newest record.
    moved: HashSet<Vec<u8>>,
    /// The handle was closed, and that was reported.
    is_ended: bool,
    /// Errors for missing files, returned at the end.
    missed: Option<IntoIter<Error>>,
}

filemap_io::debug_fields!(Keys: end);

impl Keys {
    fn new(reading: Arc<Reading>, filter: Filter) -> Keys {
        reading.follow_if_due();
        let tables = Arc::clone(&reading.tables());
        // The active memtable keeps growing: keys known now are returned from memory, the rest
        // from the index.
        let known: Vec<Known> = [Some(&tables.active), tables.frozen.as_ref()]
            .into_iter()
            .flatten()
            .map(|t| Known { table: Arc::clone(t), mark: t.mark() })
            .collect();
        let mut in_memory = Vec::new();
        for (nth, k) in known.iter().enumerate() {
            let keys = k.table.keys().filter(|(_, f)| f.best.is_some() && k.table.knew(f, k.mark));
            in_memory.extend(keys.map(|(hash, found)| (nth, hash, found)));
        }
        let (files, end, failed) = match reading.key_files() {
            Ok((files, end)) => (files, end, Vec::new()),
            Err(e) => (Vec::new(), Tail { ordinal: 0, offset: 0 }, vec![Err(e)]),
        };
        let gaps = reading.missing_keys(&files, end);
        Keys {
            reading,
            filter,
            known,
            in_memory: in_memory.into_iter(),
            files: files.into_iter(),
            current: None,
            end,
            batch: failed.into_iter(),
            gaps,
            told: None,
            moved: HashSet::new(),
            is_ended: false,
            missed: None,
        }
    }

    /// The next key from memory that passes the filter.
    fn next_in_memory(&mut self) -> Option<Vec<u8>> {
        for (nth, hash, found) in self.in_memory.by_ref() {
            let key = self.known[nth].table.key_of(&found);
            // A newer memtable takes precedence: the key was returned from there, or is removed.
            if self.known[..nth].iter().any(|k| k.knew(hash, &key)) {
                continue;
            }
            if (self.filter)(&key) {
                return Some(key);
            }
        }
        None
    }

    /// Scans about a megabyte more of the key log.
    fn fill(&mut self) -> Result<bool> {
        if self.current.is_none() {
            self.current = self.files.next().map(|f| (f, FIRST_RECORD));
        }
        let Some((key_file, from)) = self.current.take() else {
            self.batch = self.lost()?.into_iter();
            return Ok(self.batch.len() > 0);
        };
        let Some(file) = &key_file.file else { return Ok(true) };
        let (reading, segment) = (Arc::clone(&self.reading), &key_file.segment);
        let mut scan = reading.keys().scan(segment, &**file, from..key_file.end)?;
        let mut batch = Vec::new();
        while scan.offset() < from + reading.options().limits.list_bytes {
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
            let (_, key) = reading.keys().decode(segment, bytes, offset)?;
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

    /// Keys whose record lies in a gap of the key log, read from their value records. A gap that
    /// no slot leads to was left by an interrupted checkpoint.
    fn lost(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        let reading = Arc::clone(&self.reading);
        let lost = reading.slots_in(std::mem::take(&mut self.gaps))?;
        let mut keys = Vec::new();
        for slot in lost {
            match reading.values().with_record(slot.location, slot.size, Want::Head, |raw| Ok(raw.key().to_vec())) {
                Ok(key) => {
                    let hash = reading.hash(&key);
                    if (self.filter)(&key) && !self.known.iter().any(|k| k.knew(hash, &key)) {
                        keys.push(Ok(key));
                    }
                }
                Err(e) => keys.push(Err(e)),
            }
        }
        Ok(keys)
    }

    /// Returns true if the record here is its key's newest in the index, and no memtable has the
    /// key.
    fn is_head(&mut self, key: &[u8], here: Tail) -> Result<bool> {
        let reading = &*self.reading;
        let hash = reading.hash(key);
        if self.known.iter().any(|k| k.knew(hash, key)) {
            return Ok(false);
        }
        let leads_to = reading.looking_again(|| {
            let mut newer = false;
            for slot in reading.candidates(hash)?.iter() {
                let place = reading.keys().position(slot.key);
                let place = place.ok_or_else(|| reading.keys().corrupt(slot.key, "the segment is missing"))?;
                if place == here {
                    return Ok(Some(here));
                }
                newer |= place >= self.end;
            }
            Ok(newer.then_some(self.end))
        })?;
        match leads_to {
            Some(place) if place == here => Ok(!self.moved.contains(key)),
            Some(_) => Ok(reading.indexed(key, hash)?.is_some() && self.moved.insert(key.to_vec())),
            None => Ok(false),
        }
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(e) = self.reading.check_open() {
            // Report it once, then end.
            return (!std::mem::replace(&mut self.is_ended, true)).then_some(Err(e));
        }
        if let Some(key) = self.next_in_memory() {
            return Some(Ok(key));
        }
        loop {
            if let Some(key) = self.batch.next() {
                return Some(key);
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => {
                    let missed = || self.reading.missed().into_iter();
                    return self.missed.get_or_insert_with(missed).next().map(Err);
                }
                Err(e) => {
                    (self.files, self.current) = (Vec::new().into_iter(), None);
                    self.gaps.clear();
                    return Some(Err(e));
                }
            }
        }
    }
}
