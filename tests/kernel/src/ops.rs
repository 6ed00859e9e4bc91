//! The workload: a function of a seed and a number. The process that works and the one that judges
//! need not tell each other what was done, only how far it came.
//!
//! Invariant: a put's number is its time, so a version tells which operation made it. Numbers
//! rise; each belongs to at most one change of one key.

use std::io::Write;
use std::path::Path;

use filemap_core::{Durability, Options, Record, Result, Store};

use crate::random::Random;

/// Keys that are put, changed and removed again and again.
pub const NAMED_KEYS: u64 = 300;
/// Of them, those that are put again mostly with the same body.
const STEADY_KEYS: u64 = 16;
/// Numbers for which a steady key keeps its body.
const STEADY_SPAN: u64 = 256;
/// Bodies above this are cut into chunks.
const LARGE_VALUE_BYTES: u64 = 64 << 10;

/// A key of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// One of a few.
    Named(u64),
    /// One that is put once, at this number: many of them make the index grow.
    Bulk(u64),
}

impl Key {
    /// As the store knows it.
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Key::Named(i) => format!("http://host{}.example/page/{i}", i % 7).into_bytes(),
            Key::Bulk(n) => format!("http://bulk.example/{n}").into_bytes(),
        }
    }

    /// The key with these bytes.
    pub fn parse(bytes: &[u8]) -> Option<Key> {
        let text = std::str::from_utf8(bytes).ok()?;
        let number: u64 = text.rsplit('/').next()?.parse().ok()?;
        [Key::Named(number), Key::Bulk(number)].into_iter().find(|k| k.bytes() == bytes)
    }
}

/// The effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One put.
    Put,
    /// A put through a stream, in chunks.
    Stream,
    /// A put that stores a reference when the body is the same.
    PutIfChanged,
    /// This number of puts at once.
    Batch(u64),
    /// This number of puts of new keys at once.
    Bulk(u64),
    /// A removal of one key.
    Remove,
    /// `sync`.
    Sync,
    /// `checkpoint`.
    Checkpoint,
    /// `close`, and `open` again.
    Reopen,
}

/// One operation; it has the numbers `first..first + len()`.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The seed of the workload.
    pub seed: u64,
    /// Its first number.
    pub first: u64,
    /// The effect.
    pub what: What,
}

/// A change that an operation makes to a key.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Its number.
    pub number: u64,
    /// The key.
    pub key: Key,
    /// True for a put, false for a removal.
    pub is_put: bool,
}

impl Op {
    /// The operation that begins at a number.
    pub fn at(seed: u64, first: u64) -> Op {
        let mut random = Random::new(seed, first << 1);
        let what = match random.below(100) {
            0..50 => What::Put,
            50..60 => What::Batch(2 + random.below(20)),
            60..62 => What::Stream,
            62..73 => What::PutIfChanged,
            73..85 => What::Remove,
            85..95 => What::Sync,
            95..97 => What::Checkpoint,
            97 => What::Reopen,
            _ => What::Bulk(50 + random.below(200)),
        };
        Op { seed, first, what }
    }

    /// Number of numbers.
    pub fn len(&self) -> u64 {
        match self.what {
            What::Batch(n) | What::Bulk(n) => n,
            _ => 1,
        }
    }

    /// Returns whether it has no number: always false.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The number after its last.
    pub fn end(&self) -> u64 {
        self.first + self.len()
    }

    /// Returns whether everything before it is durable when it has returned.
    pub fn is_sync(&self) -> bool {
        matches!(self.what, What::Sync | What::Checkpoint | What::Reopen)
    }

    /// Its changes of keys.
    pub fn changes(&self) -> Vec<Change> {
        let change = |number, key| Change { number, key, is_put: self.what != What::Remove };
        match self.what {
            What::Put | What::Stream | What::Remove => vec![change(self.first, named(self.seed, self.first))],
            What::PutIfChanged => vec![change(self.first, steady(self.seed, self.first))],
            What::Batch(_) => (self.first..self.end()).map(|n| change(n, named(self.seed, n))).collect(),
            What::Bulk(_) => (self.first..self.end()).map(|n| change(n, Key::Bulk(n))).collect(),
            What::Sync | What::Checkpoint | What::Reopen => Vec::new(),
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn run(&self, store: Store, path: &Path, options: &Options) -> Result<Store> {
        let changes = self.changes();
        match self.what {
            What::Put | What::Batch(_) | What::Bulk(_) => put_all(&store, self, &changes)?,
            What::PutIfChanged => {
                let (key, meta, body) = content(self, &changes[0]);
                let time = self.first.cast_signed();
                store.put_if_changed(&Record::new(&key, &body).meta(&meta).time(time))?;
            }
            What::Stream => {
                let (key, meta, body) = content(self, &changes[0]);
                let mut writer = store.put_stream(&key, &meta, self.first.cast_signed())?;
                for piece in body.chunks(40_000) {
                    writer.write_all(piece).map_err(engine_error)?;
                }
                writer.finish()?;
            }
            What::Remove => {
                store.remove(&changes[0].key.bytes())?;
            }
            What::Sync => store.sync()?,
            What::Checkpoint => store.checkpoint()?,
            What::Reopen => {
                store.close()?;
                return Store::open(path, options.clone());
            }
        }
        Ok(store)
    }
}

fn put_all(store: &Store, op: &Op, changes: &[Change]) -> Result<()> {
    let contents: Vec<_> = changes.iter().map(|c| content(op, c)).collect();
    let records: Vec<Record<'_>> = contents
        .iter()
        .zip(changes)
        .map(|((key, meta, body), c)| Record::new(key, body).meta(meta).time(c.number.cast_signed()))
        .collect();
    match &records[..] {
        [one] => store.put(one).map(|_| ()),
        many => store.put_batch(many).map(|_| ()),
    }
}

/// A stream's error is the store's, wrapped for `std::io::Write`.
fn engine_error(error: std::io::Error) -> filemap_core::Error {
    let text = error.to_string();
    match error.downcast::<filemap_core::Error>() {
        Ok(inner) => inner,
        Err(_) => filemap_core::StorageError::Poisoned { cause: text }.into(),
    }
}

/// Key, meta and body of a put.
fn content(op: &Op, change: &Change) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    (change.key.bytes(), meta(change.number), body(op, change))
}

/// The meta of the version with a number.
pub fn meta(number: u64) -> Vec<u8> {
    if number.is_multiple_of(2) { format!("meta of {number}").into_bytes() } else { Vec::new() }
}

/// The body that a change puts.
pub fn body(op: &Op, change: &Change) -> Vec<u8> {
    let number = if op.what == What::PutIfChanged { change.number / STEADY_SPAN } else { change.number };
    let name = format!("{:?} {number} ", change.key);
    let mut random = Random::new(op.seed ^ 0xb0d7, number);
    match op.what {
        What::Bulk(_) => name.into_bytes(),
        What::Stream => random.bytes(100_000 + (number as usize * 37) % 150_000),
        _ if random.one_in(40) => random.bytes(3000 + (number as usize * 61) % 40_000),
        _ => name.repeat(1 + random.below(40) as usize).into_bytes(),
    }
}

fn named(seed: u64, number: u64) -> Key {
    Key::Named(Random::new(seed ^ 0x6e61, number).below(NAMED_KEYS))
}

fn steady(seed: u64, number: u64) -> Key {
    Key::Named(Random::new(seed ^ 0x7374, number).below(STEADY_KEYS))
}

/// The options of the workload: small segments and tables, so that rolls and checkpoints are many.
/// The durability is one of four, by the seed.
pub fn options(seed: u64) -> Options {
    let durability = match seed % 4 {
        0 => Durability::Sync,
        1 => Durability::Interval(std::time::Duration::from_millis(3)),
        _ => Durability::Buffered,
    };
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(LARGE_VALUE_BYTES)
        .checkpoint_bytes(300 << 10)
        .memtable_bytes(256 << 10)
        .free_space_floor(0)
        .durability(durability)
}

/// Returns whether every operation is durable when it returns.
pub fn always_syncs(seed: u64) -> bool {
    seed.is_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_the_same_each_time_and_every_kind_occurs() {
        let (mut n, mut seen) = (1, std::collections::HashSet::new());
        while n < 20_000 {
            let op = Op::at(5, n);
            seen.insert(std::mem::discriminant(&op.what));
            for c in op.changes() {
                assert!(c.number >= op.first && c.number < op.end());
                assert_eq!(Key::parse(&c.key.bytes()), Some(c.key));
            }
            assert_eq!(Op::at(5, n).what, op.what);
            n = op.end();
        }
        assert_eq!(seen.len(), 9);
    }

    #[test]
    fn a_steady_key_is_put_again_with_the_same_body() {
        let op = |n| Op { seed: 1, first: n, what: What::PutIfChanged };
        let change = |n| Change { number: n, key: Key::Named(3), is_put: true };
        assert_eq!(body(&op(512), &change(512)), body(&op(700), &change(700)));
        assert_ne!(body(&op(512), &change(512)), body(&op(800), &change(800)));
    }
}
