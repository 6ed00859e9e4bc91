//! Compaction of the key log through a store: space freed, segments kept, readers meanwhile.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::Limits;
use crate::upkeep::compact::keys::compact_keys;
use crate::{Options, Record, Store};

const KEYS: u32 = 300;

/// Segments of about 25 records, compacted once a twentieth is dead.
fn options() -> Options {
    let mut options = Options::new().free_space_floor(0).keep_versions(Some(1)).space_bound(None);
    options.limits = Limits {
        key_segment_bytes: 2048,
        key_segments: 60,
        key_dead_bytes: 1,
        key_dead_percent: 5,
        ..Limits::default()
    };
    options
}

fn key(i: u32) -> Vec<u8> {
    format!("http://example.com/{i}").into_bytes()
}

fn put(store: &Store, i: u32, round: u32) {
    store.put(&Record::new(&key(i), &body(i, round)).time(i64::from(round))).unwrap();
}

fn body(i: u32, round: u32) -> Vec<u8> {
    format!("{i} in round {round}").into_bytes()
}

/// Compacts while that pays. Returns the number of segments.
fn compact(store: &Store) -> usize {
    let upkeep = store.upkeep().unwrap();
    (0..).take_while(|_| compact_keys(upkeep).unwrap()).count()
}

fn is_sound(store: &Store) {
    assert_eq!(store.verify().unwrap().problems, []);
}

/// Total length of the key log's files.
fn key_bytes(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).unwrap().map(|f| f.unwrap());
    let keys = files.filter(|f| f.file_name().to_string_lossy().starts_with("key"));
    keys.map(|f| f.metadata().unwrap().len()).sum()
}

#[test]
fn a_store_that_is_overwritten_again_and_again_keeps_its_key_log_bounded() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let mut longest = 0;
    for round in 0..60 {
        // Different keys in each round, so that live and dead records are mixed.
        (0..KEYS).filter(|i| (i * 7 + round) % 3 == 0 || round == 0).for_each(|i| put(&store, i, round));
        store.checkpoint().unwrap();
        compact(&store);
        longest = longest.max(key_bytes(store.path()));
        assert_eq!(store.stats().key_bytes, key_bytes(store.path()));
    }
    let live: u64 = store.reading.segment_table().keys.values().map(|a| a.live_units * 16).sum();
    assert!(longest < 2 * live, "{longest} bytes for {live} that are live");
    is_sound(&store);
    assert_eq!(store.keys().map(Result::unwrap).count(), KEYS as usize);
    let path = store.path().to_owned();
    store.close().unwrap();
    let store = Store::open(&path, options()).unwrap();
    for i in 0..KEYS {
        let last = (0..60).rfind(|round| (i * 7 + round) % 3 == 0).unwrap();
        assert_eq!(store.get(&key(i)).unwrap().unwrap().body, body(i, last));
        assert_eq!(store.history(&key(i)).unwrap().len(), 1);
    }
}

#[test]
fn histories_come_through_compaction_whole() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options().keep_versions(None)).unwrap();
    for round in 0..12 {
        for i in 0..50 {
            if round % 3 == 2 && i % 2 == 0 {
                store.put_if_changed(&Record::new(&key(i), &body(i, round - 1)).time(i64::from(round))).unwrap();
            } else {
                put(&store, i, round);
            }
        }
        store.checkpoint().unwrap();
        // Chains are dead only where their key was removed or they were rewritten.
        (0..50).filter(|i| i % 5 == round % 5).for_each(|i| assert!(round > 8 || store.remove(&key(i)).unwrap()));
    }
    store.checkpoint().unwrap();
    let all = |store: &Store| -> Vec<_> { (0..50).map(|i| store.history(&key(i)).unwrap()).collect() };
    let before = all(&store);
    let bytes = key_bytes(store.path());
    assert!(compact(&store) > 0);
    assert!(key_bytes(store.path()) < bytes);
    assert_eq!(all(&store), before);
    for i in 0..50 {
        let newest = store.get(&key(i)).unwrap().unwrap();
        assert_eq!(newest.body, body(i, if i % 2 == 0 { 10 } else { 11 }), "a reference finds its body");
    }
    is_sound(&store);
}

#[test]
fn when_all_keys_are_removed_nothing_of_the_key_log_is_left_but_a_header() {
    let temp = tempfile::tempdir().unwrap();
    let mut options = options();
    options.limits.key_segment_bytes = 1 << 20;
    let store = Store::create(temp.path().join("a"), options).unwrap();
    (0..KEYS).for_each(|i| put(&store, i, 0));
    store.checkpoint().unwrap();
    (0..KEYS).for_each(|i| assert!(store.remove(&key(i)).unwrap()));
    store.checkpoint().unwrap();
    assert!(key_bytes(store.path()) > 10_000, "the last segment does not go by itself");
    assert_eq!(compact(&store), 1);
    assert_eq!(key_bytes(store.path()), 64);
    (0..KEYS).for_each(|i| put(&store, i, 1));
    store.checkpoint().unwrap();
    assert_eq!(store.keys().count(), KEYS as usize);
    is_sound(&store);
}

#[test]
fn a_segment_into_which_a_damaged_chain_leads_is_kept_and_not_tried_again() {
    let temp = tempfile::tempdir().unwrap();
    let mut options = options();
    options.limits.key_dead_percent = 0;
    let store = Store::create(temp.path().join("a"), options).unwrap();
    (0..100).for_each(|i| put(&store, i, 0));
    store.checkpoint().unwrap();
    (0..100).filter(|i| i % 20 != 3).for_each(|i| put(&store, i, 1));
    store.checkpoint().unwrap();
    // The record of a key that still exists.
    let slot = *store.reading.candidates(store.reading.hash(&key(3))).unwrap().iter().next().unwrap();
    let place = store.reading.keys().position(slot.key).unwrap();
    let name = store.path().join(crate::format::names::keys(place.ordinal as u16));
    let file = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
    file.write_all_at(b"rot", place.offset + 20).unwrap();
    assert!(compact(&store) > 1);
    assert!(name.exists(), "what is left of the chain may be of use to somebody");
    assert_eq!(store.upkeep().unwrap().kept_keys(), 1);
    assert_eq!(store.get(&key(3)).unwrap().unwrap().body, body(3, 0), "its value is whole");
    for i in (0..100).filter(|i| *i != 3) {
        assert_eq!(store.history(&key(i)).unwrap().len(), 1);
    }
    // Once the key is put again, no slot leads there.
    put(&store, 3, 2);
    store.checkpoint().unwrap();
    assert_eq!(store.history(&key(3)).unwrap().len(), 1);
}

/// Stops the readers even if the writer panics.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads by every method until stopped. Checks that bodies match their keys and that no key is
/// returned twice.
fn read_until(store: &Store, stop: &AtomicBool, refresh: bool) -> u32 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) || rounds < 3 {
        let mut keys: Vec<Vec<u8>> = store.keys().map(Result::unwrap).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!((count, keys.len()), (KEYS as usize, KEYS as usize));
        for i in 0..KEYS {
            let history = store.history(&key(i)).unwrap();
            assert!(!history.is_empty() && history.len() <= 2, "{} versions", history.len());
            assert!(store.get(&key(i)).unwrap().unwrap().body.starts_with(format!("{i} in").as_bytes()));
            assert!(store.contains(&key(i)).unwrap());
        }
        if refresh {
            store.refresh().unwrap();
        }
        rounds += 1;
    }
    rounds
}

#[test]
fn readers_in_this_handle_and_in_others_read_and_list_all_while_the_key_log_is_compacted() {
    let temp = tempfile::tempdir().unwrap();
    let options = || options().keep_versions(Some(2));
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    (0..KEYS).for_each(|i| put(&store, i, 0));
    store.checkpoint().unwrap();
    let stop = AtomicBool::new(false);
    let reader = || Store::open_read_only(store.path(), options()).unwrap();
    std::thread::scope(|s| {
        let writing = Stops(&stop);
        let readers = [(store.clone(), false), (reader(), true), (reader(), false)].map(|(r, refresh)| {
            let stop = &stop;
            s.spawn(move || read_until(&r, stop, refresh))
        });
        let mut compacted = 0;
        for round in 1..30 {
            (0..KEYS).filter(|i| (i + round) % 4 == 0).for_each(|i| put(&store, i, round));
            store.checkpoint().unwrap();
            compacted += compact(&store);
            // A handle opened while segments are being removed.
            let late = reader();
            assert_eq!(late.keys().map(Result::unwrap).count(), KEYS as usize);
        }
        drop(writing);
        assert!(compacted > 20, "{compacted}");
        for reader in readers {
            assert!(reader.join().unwrap() >= 3);
        }
    });
    let last = store.reading.keys().end().ordinal;
    assert!(last > 65_536, "numbers were used again: {last}");
    is_sound(&store);
}
