//! The golden store of format version 1: committed bytes that every later build must read, and
//! their contents.
//!
//! It is small and holds every kind of record: pages raw and compressed, references, tombstones, a
//! large body in chunks, a filler where a power loss left a hole, several versions in and out of
//! order, an index of two leaves with pages of an earlier checkpoint, and a tail of the log after
//! the last checkpoint. [`make`] (the example `make_golden`) made it once; a later format gets a
//! its own folder.

use std::path::{Path, PathBuf};

use filemap_core::{Durability, Options, Record, Result, Store};

use super::forge;
use super::image::Image;

/// The keys of the first leaf and, from the eighth on, of the second: their hashes under seed 0
/// start alike.
pub const KEYS: [&str; 13] = [
    "http://golden.example/101",
    "http://golden.example/177",
    "http://golden.example/314",
    "http://golden.example/329",
    "http://golden.example/528",
    "http://golden.example/557",
    "http://golden.example/635",
    "http://golden.example/18",
    "http://golden.example/475",
    "http://golden.example/677",
    "http://golden.example/685",
    "http://golden.example/1023",
    "http://golden.example/1162",
];

/// Something that was done to a key.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// A version of this time, with the lengths of its body and its meta in bytes.
    Put(i64, usize, usize),
    /// A version with the body of the one of the second time.
    Same(i64, i64),
    /// The removal of all versions so far.
    Remove,
}

use Act::{Put, Remove, Same};

/// Changes merged by the first checkpoint: the number of a key, and the act.
pub const FIRST: [(usize, Act); 15] = [
    (1, Put(1000, 20, 5)),
    (0, Put(1000, 900, 200)),
    (2, Put(1000, 300, 0)),
    (2, Same(2000, 1000)),
    (3, Put(1000, 100, 0)),
    (3, Put(3000, 100, 9)),
    (3, Put(2000, 100, 0)),
    (7, Put(1000, 60, 0)),
    (7, Remove),
    (8, Put(1000, 150_000, 30)),
    (9, Put(1000, 60, 0)),
    (9, Remove),
    (9, Put(1500, 70, 0)),
    (10, Put(1000, 8, 0)),
    (10, Same(1100, 1000)),
];
/// Changes merged by the second checkpoint; between the two a put of the fifth key was lost, and a
/// filler stands there.
pub const SECOND: [(usize, Act); 2] = [(5, Put(1000, 64, 0)), (5, Put(2000, 65, 0))];
/// Records of the log after the last checkpoint.
pub const TAIL: [(usize, Act); 9] = [
    (0, Put(2000, 400, 0)),
    (7, Put(3000, 50, 0)),
    (11, Put(1000, 80, 0)),
    (11, Same(2000, 1000)),
    (3, Remove),
    (8, Put(2000, 100_000, 0)),
    (2, Same(3000, 1000)),
    (1, Put(500, 30, 0)),
    (6, Put(1000, 40, 0)),
];

/// Folder of the committed bytes.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/golden/v1")
}

/// The committed bytes.
///
/// # Panics
/// When they cannot be read: they are part of the source.
pub fn image() -> Image {
    Image::read(&folder()).expect("the golden store is part of the source")
}

/// Options to open the golden store and damaged copies of it.
pub fn options() -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .memtable_bytes(256 << 10)
        .checkpoint_bytes(64 << 20)
        .free_space_floor(0)
        .durability(Durability::Buffered)
}

/// The body of a version: text that compresses, different for each key and time.
pub fn body(key: &str, time_ms: i64, bytes: usize) -> Vec<u8> {
    let line = format!("{key} at {time_ms}: the quick brown fox jumps over the lazy dog. ");
    line.bytes().cycle().take(bytes).collect()
}

/// The meta of a version.
pub fn meta(key: &str, time_ms: i64, bytes: usize) -> Vec<u8> {
    format!("meta of {key} {time_ms}; ").bytes().cycle().take(bytes).collect()
}

/// A version as it must be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its time.
    pub time_ms: i64,
    /// Its body.
    pub body: Vec<u8>,
    /// Its meta.
    pub meta: Vec<u8>,
}

/// The versions of a key, newest first, when those acts of the tail count for which `counts` says
/// so. A version whose body is in a version that does not count does not count either.
pub fn state(key: usize, counts: &dyn Fn(usize) -> bool) -> Vec<Kept> {
    let mut versions: Vec<Kept> = Vec::new();
    let tail = TAIL.iter().enumerate().filter(|(at, _)| counts(*at)).map(|(_, act)| act);
    for (_, act) in FIRST.iter().chain(&SECOND).chain(tail).filter(|(of, _)| *of == key) {
        let name = KEYS[key];
        match *act {
            Put(time_ms, bytes, meta_bytes) => {
                versions.push(Kept {
                    time_ms,
                    body: body(name, time_ms, bytes),
                    meta: meta(name, time_ms, meta_bytes),
                });
            }
            Same(time_ms, of) => {
                if let Some(holder) = versions.iter().find(|v| v.time_ms == of) {
                    versions.push(Kept { time_ms, body: holder.body.clone(), meta: Vec::new() });
                }
            }
            Remove => versions.clear(),
        }
    }
    versions.sort_by_key(|v| std::cmp::Reverse(v.time_ms));
    versions
}

/// Does what was done to the keys.
///
/// # Errors
/// The store's.
pub fn play(store: &Store, acts: &[(usize, Act)]) -> Result<()> {
    for (key, act) in acts {
        let name = KEYS[*key];
        match *act {
            Put(time_ms, bytes, meta_bytes) => {
                let (body, meta) = (body(name, time_ms, bytes), meta(name, time_ms, meta_bytes));
                store.put(&Record::new(name.as_bytes(), &body).time(time_ms).meta(&meta))?;
            }
            Same(time_ms, _) => {
                let newest = store.get(name.as_bytes())?.expect("a version to repeat");
                store.put_if_changed(&Record::new(name.as_bytes(), &newest.body).time(time_ms))?;
            }
            Remove => assert!(store.remove(name.as_bytes())?),
        }
    }
    Ok(())
}

/// Makes a golden store; its id and the time of its creation differ each time, nothing else does.
///
/// # Errors
/// The store's.
///
/// # Panics
/// When the scratch directory cannot be used.
pub fn make() -> Result<Image> {
    let temp = tempfile::tempdir().expect("a scratch directory");
    let path = temp.path().join("store.fm");
    Store::create(&path, options())?.close()?;
    // Under seed 0 it is known which keys share a leaf.
    let mut image = Image::read(&path).expect("readable");
    let superblock = image.file_mut("SUPERBLOCK");
    for copy in [0, 4096] {
        superblock[copy + 32..copy + 40].fill(0);
        forge::superblock(superblock, copy);
    }
    image.write(&path).expect("writable");
    let store = Store::open(&path, options())?;
    play(&store, &FIRST)?;
    store.checkpoint()?;
    play(&store, &SECOND[..1])?;
    let lost = store.put(&Record::new(KEYS[4].as_bytes(), &body(KEYS[4], 1, 200)).time(1))?;
    let place = store.history(KEYS[4].as_bytes())?[0].place;
    assert_eq!((lost.time_ms, place.segment), (1, 0));
    play(&store, &SECOND[1..])?;
    let mut image = Image::read(&path).expect("readable");
    image.file_mut("value0.dat")[place.offset as usize + 20] ^= 1;
    drop(store);
    image.write(&path).expect("writable");
    Store::open(&path, options())?.close()?;
    let store = Store::open(&path, options())?;
    play(&store, &TAIL)?;
    let mut image = Image::read(&path).expect("readable");
    // The holder of the lock has ended.
    image.file_mut("LOCK").clear();
    Ok(image)
}

/// Every version of a key that was ever put.
pub fn every_version(key: usize) -> Vec<Kept> {
    let mut versions = Vec::new();
    for (of, act) in FIRST.iter().chain(&SECOND).chain(&TAIL).filter(|(of, _)| *of == key) {
        let name = KEYS[*of];
        let holder = |time: i64| versions.iter().find(|v: &&Kept| v.time_ms == time).map(|v| v.body.clone());
        match *act {
            Put(time_ms, bytes, meta_bytes) => {
                versions.push(Kept {
                    time_ms,
                    body: body(name, time_ms, bytes),
                    meta: meta(name, time_ms, meta_bytes),
                });
            }
            Same(time_ms, of) => {
                let body = holder(of).unwrap_or_default();
                versions.push(Kept { time_ms, body, meta: Vec::new() });
            }
            Remove => {}
        }
    }
    versions
}
