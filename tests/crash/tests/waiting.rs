//! Changes of the index that wait in runs, in cases that random strings meet too rarely.

use filemap_core::sim::{self, Fault, Limits};
use filemap_core::{Record, Store};
use filemap_io::Access;
use filemap_io::sim::SimDisk;

/// Changes wait as soon as there are some leaves.
fn waiting() -> Limits {
    Limits { leaf_slots: 2, direct_pages: 0, direct_percent: 0, settle_percent: 0, join_runs: 2, ..Limits::default() }
}

/// Bits of a hash that the index keeps.
const KEPT: u32 = 47;
/// Number of keys among which two nearly always share them.
const KEYS: u64 = 1 << 25;

/// Two keys that only their text tells apart, for the hash of this store.
fn twins(disk: &SimDisk) -> [Vec<u8>; 2] {
    let mut seed = [0; 8];
    disk.dir().open("SUPERBLOCK", Access::Read).unwrap().read_at(&mut seed, 32).unwrap();
    let seed = u64::from_le_bytes(seed);
    let kept = |n: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed) >> (64 - KEPT);
    // A sixteenth at a time: less memory.
    for part in 0..16 {
        let mut some: Vec<(u64, u64)> = (0..KEYS).map(|n| (kept(n), n)).filter(|(hash, _)| hash % 16 == part).collect();
        some.sort_unstable();
        if let Some(same) = some.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return [same[0].1, same[1].1].map(|n| n.to_le_bytes().to_vec());
        }
    }
    panic!("no two of {KEYS} keys share {KEPT} bits of their hash");
}

fn put(store: &Store, key: &[u8], body: &str, time: i64) {
    store.put(&Record::new(key, body.as_bytes()).time(time)).unwrap();
}

fn bodies(store: &Store, keys: &[Vec<u8>; 2]) -> [Option<String>; 2] {
    let body = |key: &Vec<u8>| store.get(key).ok().flatten().map(|v| String::from_utf8(v.body).unwrap());
    [body(&keys[0]), body(&keys[1])]
}

/// Content of two keys with equal hash bits, after one was put again and the other removed, each
/// in a separate checkpoint.
fn after_changes_of_twins() -> Vec<[Option<String>; 2]> {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), crate::with_limits(waiting())).unwrap();
    let keys = twins(&disk);
    // Enough keys that their leaves are not changed in place.
    let others = |store: &Store| (0..20).for_each(|n| put(store, format!("other {n}").as_bytes(), "o", 1));
    others(&store);
    store.checkpoint().unwrap();
    let mut seen = Vec::new();
    let mut next = |store: &Store| {
        others(store);
        store.checkpoint().unwrap();
        assert!(store.stats().waiting_changes > 0);
        seen.push(bodies(store, &keys));
    };
    put(&store, &keys[0], "a", 1);
    put(&store, &keys[1], "b", 1);
    next(&store);
    put(&store, &keys[1], "b again", 2);
    next(&store);
    store.remove(&keys[0]).unwrap();
    next(&store);
    sim::abandon(store);
    let store = sim::open(disk.dir(), crate::with_limits(waiting())).unwrap();
    seen.push(bodies(&store, &keys));
    sim::abandon(store);
    seen
}

#[test]
fn a_change_of_a_key_leaves_the_slot_of_another_with_the_same_hash_bits() {
    let text = |body: &str| Some(body.to_owned());
    let want =
        vec![[text("a"), text("b")], [text("a"), text("b again")], [None, text("b again")], [None, text("b again")]];
    assert_eq!(after_changes_of_twins(), want);
    sim::plant(Some(Fault::ChangesByHash));
    let by_hash = std::panic::catch_unwind(after_changes_of_twins);
    sim::plant(None);
    assert!(by_hash.is_err() || by_hash.is_ok_and(|seen| seen != want), "the planted fault does nothing");
}
