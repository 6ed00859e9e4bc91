//! Keys chosen by an attacker who knows the hash function but not the store's seed, and by one who
//! knows both.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use filemap_core::{Error, Options, Record, Stats, StorageError, Store};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Keys whose hashes are equal in all 64 bits under seed 0: the word at byte 16 cancels XXH3's
/// secret there, and so the product with the word after it, which counts.
fn colliding(n: u64) -> Vec<u8> {
    let mut key = b"http://evil.test\xde\xd4\x6d\xe9\x83\x90\x97\xdb".to_vec();
    key.extend_from_slice(&n.to_le_bytes());
    key
}

fn ordinary(n: u64) -> Vec<u8> {
    format!("http://good.test/page/{n}").into_bytes()
}

fn options() -> Options {
    Options::new().free_space_floor(0).compression_level(0)
}

/// Sets another seed in an empty store.
fn set_seed(store: &Path, seed: u64) {
    let path = store.join("SUPERBLOCK");
    let mut bytes = fs::read(&path).unwrap();
    for copy in [0, 4096] {
        let copy = &mut bytes[copy..copy + 512];
        copy[32..40].copy_from_slice(&seed.to_le_bytes());
        let crc = crc32fast::hash(&copy[12..]);
        copy[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
}

fn seed_of(store: &Path) -> u64 {
    u64::from_le_bytes(fs::read(store.join("SUPERBLOCK")).unwrap()[32..40].try_into().unwrap())
}

/// Statistics of an index of `count` keys, in a store with this seed, or with a random one.
fn index_of(count: u64, seed: Option<u64>, key: fn(u64) -> Vec<u8>) -> Stats {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    let store = match seed {
        None => store,
        Some(seed) => {
            store.close().unwrap();
            set_seed(&path, seed);
            Store::open(&path, options()).unwrap()
        }
    };
    for n in 0..count {
        store.put(&Record::new(&key(n), b"").time(1)).unwrap();
    }
    store.checkpoint().unwrap();
    for n in (0..count).step_by(997) {
        assert!(store.contains(&key(n)).unwrap(), "{n}");
    }
    let stats = store.stats();
    assert_eq!(stats.indexed_keys, count);
    stats
}

#[track_caller]
fn alike(chosen: &Stats, others: &Stats) {
    let (a, b) = (chosen.index_leaves as f64, others.index_leaves as f64);
    assert!((a / b - 1.0).abs() < 0.15, "{a} leaves of chosen keys, {b} of others");
    let (a, b) = (chosen.directory_bytes, others.directory_bytes);
    assert!(a <= 4 * b, "a directory of {a} bytes for chosen keys, of {b} for others");
}

#[test]
fn keys_that_collide_without_a_seed_take_the_index_of_any_others() {
    assert!((1..1000).all(|n| xxh3_64_with_seed(&colliding(n), 0) == xxh3_64_with_seed(&colliding(0), 0)));
    // Even this number would stop the first checkpoint; the many below would take for ever.
    index_of(1000, Some(1), colliding);
    for seed in [1, 0x0123_4567_89ab_cdef] {
        alike(&index_of(100_000, Some(seed), colliding), &index_of(100_000, Some(seed), ordinary));
    }
}

/// With the seed that the store has drawn.
#[test]
fn a_million_keys_that_collide_without_a_seed_take_the_index_of_any_others() {
    alike(&index_of(1_000_000, None, colliding), &index_of(1_000_000, None, ordinary));
}

#[test]
fn every_store_has_a_seed_of_its_own() {
    let temp = tempfile::tempdir().unwrap();
    let mut seeds: Vec<u64> = (0..8u8)
        .map(|i| {
            let path = temp.path().join(i.to_string());
            Store::create(&path, options()).unwrap().close().unwrap();
            seed_of(&path)
        })
        .collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert!(seeds.len() == 8 && seeds[0] != 0, "{seeds:x?}");
}

#[test]
fn the_seed_is_not_in_what_the_engine_says() {
    const SEED: u64 = 0x0123_4567_89ab_cdef;
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    Store::create(&path, options()).unwrap().close().unwrap();
    set_seed(&path, SEED);
    let said = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&said);
    let say = move |what: String| sink.lock().unwrap().push_str(&what);
    let events = say.clone();
    let options = options().on_event(move |event| events(format!("{event} {event:?}\n")));
    say(format!("{options:?}\n"));
    let store = Store::open(&path, options.clone()).unwrap();
    store.put(&Record::new(b"k", b"v")).unwrap();
    let value = store.get(b"k").unwrap();
    say(format!("{store:?} {:?} {:?} {value:?}\n", store.stats(), store.stats().fields()));
    let refusals = [
        Store::open(&path, options.clone()).map(drop),
        Store::create(&path, options.clone()).map(drop),
        Store::open(&path, options.clone().canonicalizer("other", 1)).map(drop),
    ];
    for error in refusals {
        let error = error.unwrap_err();
        say(format!("{error} {error:?}\n"));
    }
    say(format!("{:?}\n", store.verify().unwrap()));
    store.close().unwrap();
    assert_eq!(seed_of(&path), SEED);
    for name in ["SUPERBLOCK", "key0.dat", "address.idx", "value0.dat"] {
        filemap_core::check::inspect(path.join(name), &mut |item| {
            say(format!("{item:?}\n"));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    }
    let said = said.lock().unwrap().to_lowercase();
    assert!(said.contains("superblock") && said.len() > 2000, "{said}");
    let bytes = SEED.to_le_bytes();
    let listed = |bytes: &[u8]| format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    let forms =
        ["123456789abcdef".into(), "efcdab8967452301".into(), SEED.to_string(), listed(&bytes), listed(&reversed)];
    for form in forms {
        assert!(!said.contains(&form), "the seed as {form} in: {said}");
    }
}

#[test]
fn in_a_store_whose_seed_is_known_chosen_keys_stop_the_writes_and_cost_nothing_else() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    Store::create(&path, options()).unwrap().close().unwrap();
    set_seed(&path, 0);
    let store = Store::open(&path, options()).unwrap();
    for n in 0..254 {
        store.put(&Record::new(&colliding(n), &n.to_le_bytes())).unwrap();
    }
    store.checkpoint().expect("a leaf holds 254");
    for n in 254..300 {
        store.put(&Record::new(&colliding(n), &n.to_le_bytes())).unwrap();
    }
    assert!(matches!(store.checkpoint(), Err(Error::Storage(StorageError::Full { .. }))));
    assert!(matches!(store.put(&Record::new(b"k", b"")), Err(Error::Storage(StorageError::Poisoned { .. }))));
    for handle in [store.clone(), Store::open_read_only(&path, options()).unwrap()] {
        assert!((0..300).all(|n| handle.get(&colliding(n)).unwrap().unwrap().body == n.to_le_bytes()));
    }
    assert!(store.close().is_err());
    // Removals make room.
    let store = Store::open(&path, options()).unwrap();
    assert!((0..300).all(|n| store.get(&colliding(n)).unwrap().unwrap().body == n.to_le_bytes()));
    for n in 0..50 {
        assert!(store.remove(&colliding(n)).unwrap());
    }
    store.close().unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(store.keys().count(), 250);
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn in_a_store_whose_seed_is_known_chosen_keys_do_not_blow_up_the_directory() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    Store::create(&path, options()).unwrap().close().unwrap();
    set_seed(&path, 0);
    let store = Store::open(&path, options()).unwrap();
    // Two groups of 150 whose hashes are equal within each group, and agree with the other group's
    // in the first 17 bits and no more. Without a bound each further bit, which a search finds in
    // twice the time, doubles the directory.
    let first = |host: u64| {
        let mut key = format!("http://evil{host:05}").into_bytes();
        key.extend_from_slice(b"\xde\xd4\x6d\xe9\x83\x90\x97\xdb");
        key
    };
    let hash = |host: u64| xxh3_64_with_seed(&[&first(host)[..], &[0; 8]].concat(), 0);
    let wanted = hash(0) >> 47;
    let twin = (1..).find(|&host| hash(host) >> 47 == wanted && hash(host) != hash(0)).unwrap();
    for host in [0, twin] {
        for n in 0..150u64 {
            store.put(&Record::new(&[&first(host)[..], &n.to_le_bytes()].concat(), b"")).unwrap();
        }
    }
    assert!(matches!(store.checkpoint(), Err(Error::Storage(StorageError::Full { .. }))));
    assert!(store.stats().directory_bytes <= 8 << 16);
    drop(store);
    assert_eq!(Store::open(&path, options()).unwrap().stats().memtable_entries, 300);
}
