//! Maps bytes of the golden store to the keys that damage there may cost. All other keys must read
//! as before.
//!
//! Made from the whole files with the engine's `inspect` and, for the index, by the table in
//! docs/FORMAT.md.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use filemap_core::check::{Inspected, inspect};

use super::forge::{self, PAGE};
use super::golden::{KEYS, TAIL};
use super::image::Image;

/// A record of one of the logs.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its place.
    pub range: Range<usize>,
    /// End of its content: padding follows, or the bytes that a filler covers.
    pub used_end: usize,
    /// Its kind, in the words of `inspect`.
    pub kind: String,
    /// The number of its key.
    pub key: Option<usize>,
    /// The act of the tail that it belongs to, if it lies behind the checkpoint.
    pub act: Option<usize>,
}

/// The whole store's layout.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The records of value0.dat.
    pub values: Vec<Entry>,
    /// The records of key0.dat.
    pub keys: Vec<Entry>,
    /// Pages of address.idx that are leaves in use, and the keys that they serve.
    pub leaves: Vec<(usize, Vec<usize>)>,
    /// The page of address.idx that is the directory's node, on which every look-up relies.
    pub directory: usize,
    /// The page of address.idx that is the node of the segment table, on which opening relies.
    pub table: usize,
    /// Beginning of the log's tail.
    pub tail: usize,
}

/// The greatest permitted loss by damage to a place.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Opening may fail.
    pub opening: bool,
    /// Reads of these keys may fail.
    pub keys: BTreeSet<usize>,
    /// These acts of the tail may be lost.
    pub acts: BTreeSet<usize>,
    /// Nothing may notice: no store has anything here.
    pub harmless: bool,
}

impl Cost {
    /// Adds what other damage may cost.
    pub fn add(&mut self, other: Cost) {
        self.opening |= other.opening;
        self.keys.extend(other.keys);
        self.acts.extend(other.acts);
        self.harmless &= other.harmless;
    }
}

impl Layout {
    /// The layout of the golden store, or of a later generation of it.
    ///
    /// # Panics
    /// When it is not the golden store.
    pub fn of(image: &Image) -> Layout {
        let temp = tempfile::tempdir().expect("a directory for `inspect` to read");
        let dir = temp.path();
        image.write(dir).expect("writable");
        let superblock = image.file("SUPERBLOCK");
        let newest = if forge::u64_at(superblock, 88) > forge::u64_at(superblock, 4096 + 88) { 0 } else { 4096 };
        let tail = forge::u64_at(superblock, newest + 104) as usize;
        let mut values = entries(&dir.join("value0.dat"));
        let mut act = 0;
        for entry in values.iter_mut().filter(|e| e.range.start >= tail) {
            entry.act = Some(act);
            act += usize::from(entry.kind != "chunk record");
        }
        assert!(act == TAIL.len() || act == 0, "every act of the tail is in the log, or in the index");
        let keys = entries(&dir.join("key0.dat"));
        let index = image.file("address.idx");
        let root = forge::u32_at(superblock, newest + 136) as usize;
        let count = usize::from(u16::from_le_bytes([index[root * PAGE + 6], index[root * PAGE + 7]]));
        let pages: BTreeSet<usize> =
            (0..count).map(|at| forge::u32_at(index, root * PAGE + 32 + 8 * at) as usize).filter(|&p| p != 0).collect();
        let leaves = pages.into_iter().map(|page| (page, keys_of_leaf(index, page, &keys))).collect();
        let table = forge::u32_at(superblock, newest + 184) as usize;
        Layout { values, keys, leaves, directory: root, table, tail }
    }

    /// Returns the greatest permitted loss by a change of these bytes of a file.
    pub fn cost(&self, file: &str, range: Range<usize>) -> Cost {
        match file {
            "LOCK" => Cost { harmless: true, ..Cost::default() },
            "SUPERBLOCK" => {
                let used = [0..512, 4096..4608, 8192..8704].iter().any(|used| meets(&range, used));
                Cost { opening: used, harmless: !used, ..Cost::default() }
            }
            // Without its header it is not a segment: all that lies in it is lost.
            "value0.dat" if meets(&range, &(0..64)) => self.log_cost(&self.values, 0..usize::MAX),
            "value0.dat" => self.log_cost(&self.values, range),
            "key0.dat" => self.log_cost(&self.keys, range),
            _ => self.index_cost(range),
        }
    }

    /// Returns the greatest permitted loss by damage to one of the logs. Only damage within one
    /// record can be harmless.
    fn log_cost(&self, entries: &[Entry], range: Range<usize>) -> Cost {
        let mut cost = Cost { opening: meets(&range, &(0..64)), harmless: true, ..Cost::default() };
        cost.harmless = !cost.opening;
        for entry in entries.iter().filter(|e| meets(&range, &e.range)) {
            cost.harmless &= entry.used_end <= range.start && range.end <= entry.range.end;
            match entry.act {
                Some(act) => drop(cost.acts.insert(act)),
                None => cost.keys.extend(entry.key),
            }
        }
        cost
    }

    fn index_cost(&self, range: Range<usize>) -> Cost {
        let page = |page: usize| page * PAGE..(page + 1) * PAGE;
        let opening = meets(&range, &(0..64)) || meets(&range, &page(self.table));
        let leaves = self.leaves.iter().filter(|l| meets(&range, &page(l.0)));
        let mut keys: BTreeSet<usize> = leaves.flat_map(|l| l.1.iter().copied()).collect();
        if meets(&range, &page(self.directory)) {
            keys.extend(0..KEYS.len());
        }
        Cost { opening, harmless: !opening && keys.is_empty(), keys, ..Cost::default() }
    }
}

fn meets(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

fn number(item: &Inspected) -> Option<usize> {
    let name = &item.fields.iter().find(|f| f.0 == "key")?.1;
    KEYS.iter().position(|key| key == name)
}

fn entries(path: &Path) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut sink = |item: Inspected| {
        if item.kind != "file header" {
            let start = item.offset as usize;
            let range = start..start + item.bytes as usize;
            let key = number(&item);
            let is_reference = item.fields.iter().any(|(name, value)| *name == "refers_to" && value != "0");
            let used_end = match item.kind.as_str() {
                "filler" => start + 56,
                // Zeros follow the key.
                "key record" => start + if is_reference { 56 } else { 40 } + KEYS[key.unwrap_or(0)].len(),
                _ => range.end,
            };
            entries.push(Entry { range, used_end, key, kind: item.kind, act: None });
        }
        ControlFlow::Continue(())
    };
    inspect(path, &mut sink).expect("a whole file");
    entries
}

/// A leaf serves the keys of its slots, and those absent keys whose hashes start alike.
fn keys_of_leaf(index: &[u8], page: usize, keys: &[Entry]) -> Vec<usize> {
    let at = page * PAGE;
    let count = usize::from(u16::from_le_bytes([index[at + 6], index[at + 7]]));
    let slot = |nth: usize| (forge::u64_at(index, at + 32 + 16 * nth), forge::u64_at(index, at + 40 + 16 * nth));
    let address = |(first, second): (u64, u64)| ((first & 0xff_ffff) << 16 | second >> 48) as usize * 16;
    let first = keys.iter().find(|k| k.range.start == address(slot(0))).and_then(|k| k.key);
    let is_first_leaf = first.is_some_and(|key| key < 7);
    assert!(
        (0..count).all(|nth| keys.iter().any(|k| k.range.start == address(slot(nth)))),
        "slots lead to key records"
    );
    (0..KEYS.len()).filter(|&key| (key < 7) == is_first_leaf).collect()
}
