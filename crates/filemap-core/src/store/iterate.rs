//! Lists of keys from the key log, which read no value.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use crate::error::Result;
use crate::format::key::UNIT_BYTES;
use crate::format::leaf::Slot;
use crate::log::scan::Item;
use crate::recent::{Found, Recent};
use crate::state::Shared;
use crate::store::Store;
use crate::values::read::Want;

type Filter = Box<dyn Fn(&[u8]) -> bool + Send>;

impl Store {
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

/// Bytes of key log that are looked through for one batch.
const BATCH_BYTES: u64 = 1 << 20;

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
