//! The model of the engine that its property test and its fuzz target share: strings of operations, and a map of version
//! lists that says what each must give.
//!
//! Where the store lies is a [`Ground`]: a folder, or a simulated disk.

use std::collections::BTreeMap;

use filemap_core::{Durability, Head, Options, Place, Put, Record, Store, Version};

/// One thing that is done to a store.
#[derive(Clone, Debug)]
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

/// What a store lies on.
pub trait Ground {
    /// Creates the store.
    fn create(&self, options: Options) -> Store;
    /// Opens it for writing.
    fn open(&self, options: Options) -> Store;
    /// Opens it for reading only.
    fn open_read_only(&self, options: Options) -> Store;
    /// Goes on with what the end of the process leaves at this moment.
    fn crash(&mut self);
}

/// A version as the model knows it.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    version: Version,
    body: Vec<u8>,
    meta: Vec<u8>,
}

#[derive(Default)]
struct Model {
    /// Newest first.
    keys: BTreeMap<Vec<u8>, Vec<Kept>>,
    bodies: u64,
}

impl Model {
    fn add(&mut self, key: &[u8], version: Version, body: Vec<u8>, meta: Vec<u8>) {
        let list = self.keys.entry(key.to_vec()).or_default();
        list.push(Kept { version, body, meta });
        list.sort_by_key(|k| std::cmp::Reverse(k.version));
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
}

fn name(key: u8) -> Vec<u8> {
    format!("http://host{}.example/page/{key}", key % 3).into_bytes()
}

fn check(store: &Store, model: &Model, keep: Option<u32>) {
    let keep = keep.map_or(usize::MAX, |k| k as usize);
    for key in (0..12).map(name) {
        let kept: Vec<&Kept> = model.keys.get(&key).into_iter().flatten().take(keep).collect();
        let newest = kept.first();
        let got = store.get(&key).unwrap();
        assert_eq!(got.as_ref().map(|v| (&v.body, v.head.version)), newest.map(|k| (&k.body, k.version)));
        assert_eq!(got.as_ref().map(|v| &v.head.meta), newest.map(|k| &k.meta));
        assert_eq!(store.contains(&key).unwrap(), newest.is_some());
        // Compaction may have moved it meanwhile.
        let elsewhere = |head: Head| Head { place: Place { segment: 0, offset: 0 }, ..head };
        assert_eq!(store.head(&key).unwrap().map(elsewhere), got.map(|v| elsewhere(v.head)));
        let history = store.history(&key).unwrap();
        let versions: Vec<Version> = history.iter().map(|h| h.version).collect();
        assert_eq!(versions, kept.iter().map(|k| k.version).collect::<Vec<_>>());
        for k in &kept {
            assert_eq!(store.get_version(&key, k.version).unwrap().unwrap().body, k.body);
        }
        for time in -3..7 {
            let want = kept.iter().find(|k| k.version.time_ms <= time);
            assert_eq!(store.get_at(&key, time).unwrap().map(|v| v.body), want.map(|k| k.body.clone()));
        }
    }
    let live = || model.keys.iter().filter(|(_, v)| !v.is_empty());
    let mut keys: Vec<Vec<u8>> = store.keys().map(Result::unwrap).collect();
    keys.sort();
    assert_eq!(keys, live().map(|(k, _)| k.clone()).collect::<Vec<_>>());
    let mut pages: Vec<(Vec<u8>, Vec<u8>)> = store.pages().map(|p| p.unwrap()).map(|(k, v)| (k, v.body)).collect();
    pages.sort();
    let mut want: Vec<(Vec<u8>, Vec<u8>)> = live().map(|(k, v)| (k.clone(), v[0].body.clone())).collect();
    want.sort();
    assert_eq!(pages, want);
    let versions = store.versions().map(Result::unwrap).count();
    assert_eq!(versions, live().map(|(_, v)| v.len().min(keep)).sum::<usize>());
    let names: Vec<Vec<u8>> = (0..12).map(name).collect();
    let refs: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    for (value, key) in store.get_many(&refs).unwrap().into_iter().zip(&names) {
        assert_eq!(value.map(|v| v.body), model.keys.get(key).and_then(|v| v.first()).map(|k| k.body.clone()));
    }
}

/// Does the operations to a store on a fresh ground, and holds what it gives against the model.
pub fn run(ground: &mut impl Ground, ops: &[Op], keep: Option<u32>) {
    let mut store = ground.create(options(keep));
    let mut model = Model::default();
    for op in ops {
        match op {
            Op::Put { key, time, size } => {
                let (key, body, meta) = (name(*key), model.body(*size), vec![7; size % 300]);
                let version = store.put(&Record::new(&key, &body).time(*time).meta(&meta)).unwrap();
                model.add(&key, version, body, meta);
            }
            Op::PutIfChanged { key, time, same } => {
                let key = name(*key);
                let newest = model.keys.get(&key).and_then(|v| v.first()).map(|k| k.body.clone());
                let body = newest.clone().filter(|_| *same).unwrap_or_else(|| model.body(700));
                let put = store.put_if_changed(&Record::new(&key, &body).time(*time).meta(b"m")).unwrap();
                assert_eq!(matches!(put, Put::Unchanged(_)), newest.is_some_and(|n| n == body));
                model.add(&key, put.version(), body, b"m".to_vec());
            }
            Op::Batch { keys, time } => {
                let bodies: Vec<(Vec<u8>, Vec<u8>)> = keys.iter().map(|k| (name(*k), model.body(100))).collect();
                let records: Vec<Record<'_>> = bodies.iter().map(|(k, b)| Record::new(k, b).time(*time)).collect();
                let versions = store.put_batch(&records).unwrap();
                for ((key, body), version) in bodies.into_iter().zip(versions) {
                    model.add(&key, version, body, Vec::new());
                }
            }
            Op::Stream { key, time, size } => {
                let (key, body) = (name(*key), model.body(*size));
                let mut writer = store.put_stream(&key, b"stream", *time).unwrap();
                for piece in body.chunks(9999) {
                    std::io::Write::write_all(&mut writer, piece).unwrap();
                }
                let version = writer.finish().unwrap();
                model.add(&key, version, body, b"stream".to_vec());
            }
            Op::Remove { key } => {
                let key = name(*key);
                let was = model.keys.remove(&key).is_some_and(|v| !v.is_empty());
                assert_eq!(store.remove(&key).unwrap(), was);
            }
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
        }
    }
    check(&store, &model, keep);
    let reader = ground.open_read_only(options(keep));
    check(&reader, &model, keep);
    store.checkpoint().unwrap();
    check(&store, &model, keep);
    reader.refresh().unwrap();
    check(&reader, &model, keep);
    let report = store.verify(&mut |_| {}).unwrap();
    assert_eq!(report.problems, []);
    let live = model.keys.values().filter(|v| !v.is_empty()).count() as u64;
    assert_eq!((report.indexed_keys, store.stats().indexed_keys), (live, live));
}
