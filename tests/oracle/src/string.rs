//! Strings of operations whose results the oracle knows exactly: nothing is lost but by a removal.
//! The property test and a fuzz target share them.
//!
//! Where the store lies is a [`Ground`]: a folder, or a simulated disk.

use std::collections::BTreeMap;

use filemap_core::{Durability, Head, Options, Place, Put, Record, Store, Version};

use crate::{Oracle, Shown, What};

/// One thing that is done to a store.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it; a key is one of twelve, a size is that of the body")]
pub enum Op {
    Put { key: u8, time: i64, size: usize },
    PutIfChanged { key: u8, time: i64, same: bool },
    Batch { keys: Vec<u8>, time: i64 },
    Stream { key: u8, time: i64, size: usize },
    Remove { key: u8 },
    Checkpoint,
    Reopen,
    Crash,
}

/// The disk or folder that holds a store.
pub trait Ground {
    /// Creates the store.
    fn create(&self, options: Options) -> Store;
    /// Opens it for writing.
    fn open(&self, options: Options) -> Store;
    /// Opens it for reading only.
    fn open_read_only(&self, options: Options) -> Store;
    /// Continues with what the end of the process leaves at this moment.
    fn crash(&mut self);
}

/// The oracle of a string, and how many bodies were made.
struct Model {
    oracle: Oracle,
    bodies: u64,
}

impl Model {
    fn add(&mut self, key: &[u8], version: Version, body: Vec<u8>, meta: &[u8]) {
        let (time_ms, sequence) = (version.time_ms, Some(version.sequence));
        let what = What::Put { time_ms, sequence, body: body.into(), meta: meta.into() };
        let number = self.oracle.begin(key, what);
        self.oracle.acknowledge(key, number, Some(version));
    }

    /// Returns whether there was anything to remove.
    fn remove(&mut self, key: &[u8]) -> bool {
        let was = self.oracle.newest(key).is_some();
        let number = self.oracle.begin(key, What::Remove);
        self.oracle.acknowledge(key, number, None);
        was
    }

    fn body(&mut self, size: usize) -> Vec<u8> {
        self.bodies += 1;
        let mut x = self.bodies;
        let noise = (0..size).map(|i| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if i % 3 == 0 { (x >> 60) as u8 } else { b'a' }
        });
        noise.collect()
    }
}

fn options(keep: Option<u32>) -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .checkpoint_bytes(256 << 10)
        .memtable_bytes(256 << 10)
        .free_space_floor(0)
        .durability(Durability::Buffered)
        .keep_versions(keep)
        .counted(is_counted)
}

/// Returns whether the store counts a key: two of three.
fn is_counted(key: &[u8]) -> bool {
    !key.starts_with(b"http://host0")
}

fn name(key: u8) -> Vec<u8> {
    format!("http://host{}.example/page/{key}", key % 3).into_bytes()
}

fn check(store: &Store, oracle: &Oracle) {
    let names: Vec<Vec<u8>> = (0..12).map(name).collect();
    let live: BTreeMap<&Vec<u8>, Vec<Shown>> =
        names.iter().map(|key| (key, oracle.versions(key))).filter(|(_, shown)| !shown.is_empty()).collect();
    for key in &names {
        let shown = live.get(key).map_or(&[][..], Vec::as_slice);
        let newest = shown.first();
        let got = store.get(key).unwrap();
        assert_eq!(got.as_ref().map(|v| (&v.body, v.head.version)), newest.map(|s| (&s.body, s.version)));
        assert_eq!(got.as_ref().map(|v| &v.head.meta), newest.map(|s| &s.meta));
        assert_eq!(store.contains(key).unwrap(), newest.is_some());
        // Compaction may have moved it meanwhile.
        let elsewhere = |head: Head| Head { place: Place { segment: 0, offset: 0 }, ..head };
        assert_eq!(store.head(key).unwrap().map(elsewhere), got.map(|v| elsewhere(v.head)));
        let history: Vec<Version> = store.history(key).unwrap().iter().map(|h| h.version).collect();
        assert_eq!(history, shown.iter().map(|s| s.version).collect::<Vec<_>>());
        for one in shown {
            assert_eq!(store.get_version(key, one.version).unwrap().unwrap().body, one.body);
        }
        for time in -3..7 {
            let want = shown.iter().find(|s| s.version.time_ms <= time);
            assert_eq!(store.get_at(key, time).unwrap().map(|v| v.body), want.map(|s| s.body.clone()));
        }
    }
    let mut keys: Vec<Vec<u8>> = store.keys().map(Result::unwrap).collect();
    keys.sort();
    assert!(keys.iter().eq(live.keys().copied()), "{keys:?}");
    let counted = keys.iter().filter(|key| is_counted(key)).count() as u64;
    assert_eq!(store.counted_keys().unwrap(), Some(counted));
    let mut pages: Vec<(Vec<u8>, Vec<u8>)> = store.pages().map(|p| p.unwrap()).map(|(k, v)| (k, v.body)).collect();
    pages.sort();
    let want: Vec<(Vec<u8>, Vec<u8>)> = live.iter().map(|(k, v)| ((*k).clone(), v[0].body.clone())).collect();
    assert_eq!(pages, want);
    let versions = store.versions().map(Result::unwrap).count();
    assert_eq!(versions, live.values().map(Vec::len).sum::<usize>());
    let refs: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    for (value, key) in store.get_many(&refs).unwrap().into_iter().zip(&names) {
        assert_eq!(value.map(|v| v.body), live.get(key).map(|shown| shown[0].body.clone()));
    }
}

/// Does the operations to a store on a fresh ground, and holds what it gives against the oracle.
///
/// # Panics
/// When the store gives anything else, or an error.
pub fn run(ground: &mut impl Ground, ops: &[Op], keep: Option<u32>) {
    let mut store = ground.create(options(keep));
    let mut model = Model { oracle: Oracle::new(keep), bodies: 0 };
    for op in ops {
        match op {
            Op::Checkpoint => store.checkpoint().unwrap(),
            Op::Reopen => {
                store.close().unwrap();
                store = ground.open(options(keep));
                assert_eq!(store.stats().memtable_entries, 0);
            }
            Op::Crash => {
                ground.crash();
                drop(store);
                store = ground.open(options(keep));
            }
            op => change(&store, op, &mut model),
        }
    }
    check(&store, &model.oracle);
    let reader = ground.open_read_only(options(keep));
    check(&reader, &model.oracle);
    store.checkpoint().unwrap();
    check(&store, &model.oracle);
    reader.refresh().unwrap();
    check(&reader, &model.oracle);
    let report = store.verify().unwrap();
    assert_eq!(report.problems, []);
    let live = model.oracle.keys().filter(|key| model.oracle.newest(key).is_some()).count() as u64;
    assert_eq!((report.indexed_keys, store.stats().indexed_keys), (live, live));
}

/// Puts or removes.
fn change(store: &Store, op: &Op, model: &mut Model) {
    match op {
        Op::Put { key, time, size } => {
            let (key, body, meta) = (name(*key), model.body(*size), vec![7_u8; size % 300]);
            let version = store.put(&Record::new(&key, &body).time(*time).meta(&meta)).unwrap();
            model.add(&key, version, body, &meta);
        }
        Op::PutIfChanged { key, time, same } => {
            let key = name(*key);
            let newest = model.oracle.newest(&key).map(|body| body.to_vec());
            let body = newest.clone().filter(|_| *same).unwrap_or_else(|| model.body(700));
            let put = store.put_if_changed(&Record::new(&key, &body).time(*time).meta(b"m")).unwrap();
            assert_eq!(matches!(put, Put::Unchanged(_)), newest.is_some_and(|n| n == body));
            model.add(&key, put.version(), body, b"m");
        }
        Op::Batch { keys, time } => {
            let bodies: Vec<(Vec<u8>, Vec<u8>)> = keys.iter().map(|k| (name(*k), model.body(100))).collect();
            let records: Vec<Record<'_>> = bodies.iter().map(|(k, b)| Record::new(k, b).time(*time)).collect();
            let versions = store.put_batch(&records).unwrap();
            for ((key, body), version) in bodies.into_iter().zip(versions) {
                model.add(&key, version, body, b"");
            }
        }
        Op::Stream { key, time, size } => {
            let (key, body) = (name(*key), model.body(*size));
            let mut writer = store.put_stream(&key, b"stream", *time).unwrap();
            for piece in body.chunks(9999) {
                std::io::Write::write_all(&mut writer, piece).unwrap();
            }
            let version = writer.finish().unwrap();
            model.add(&key, version, body, b"stream");
        }
        Op::Remove { key } => {
            let key = name(*key);
            assert_eq!(store.remove(&key).unwrap(), model.remove(&key));
        }
        Op::Checkpoint | Op::Reopen | Op::Crash => {}
    }
}
