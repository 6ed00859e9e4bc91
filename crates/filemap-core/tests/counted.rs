//! The number of counted keys: kept by checkpoints, reported as unknown if it is, verified, and
//! right beside puts, removals and checkpoints on other threads.

use std::sync::atomic::{AtomicBool, Ordering};

use filemap_core::prune::PruneRule;
use filemap_core::repair::RepairTo;
use filemap_core::{Durability, Options, Record, Store};

/// Keys of an even number of bytes.
fn even(key: &[u8]) -> bool {
    key.len().is_multiple_of(2)
}

fn plain() -> Options {
    Options::new().free_space_floor(0).durability(Durability::Buffered)
}

fn counting() -> Options {
    plain().counted(even)
}

fn put(store: &Store, key: &[u8]) {
    store.put(&Record::new(key, b"a body").time(1)).unwrap();
}

fn listed(store: &Store) -> Option<u64> {
    Some(store.keys_where(even).map(Result::unwrap).count() as u64)
}

#[test]
fn a_writer_without_the_rule_makes_the_number_unknown_only_if_keys_come_or_go() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, counting()).unwrap();
    [&b"a"[..], b"bb", b"cc", b"ddd"].iter().for_each(|key| put(&store, key));
    assert_eq!(store.counted_keys().unwrap(), Some(2));
    store.close().unwrap();
    let other = Store::open(&path, plain()).unwrap();
    assert_eq!(other.counted_keys().unwrap(), None, "it has no rule");
    put(&other, b"bb");
    other.close().unwrap();
    let store = Store::open(&path, counting()).unwrap();
    assert_eq!(store.counted_keys().unwrap(), Some(2), "a further version is no further key");
    store.close().unwrap();
    let other = Store::open(&path, plain()).unwrap();
    other.remove(b"ddd").unwrap();
    other.close().unwrap();
    let store = Store::open(&path, counting()).unwrap();
    assert_eq!(store.counted_keys().unwrap(), None);
    put(&store, b"ee");
    store.checkpoint().unwrap();
    assert_eq!(store.counted_keys().unwrap(), None, "nothing has counted the others");
    assert_eq!(store.verify().unwrap().problems, []);
    // A copy, a repair and an empty store know the number.
    let copy = Store::create(temp.path().join("b"), counting()).unwrap();
    store
        .copy_to(&copy, filemap_core::backup::CopyOptions::new(), &mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(copy.counted_keys().unwrap(), Some(3));
    store.close().unwrap();
    let mut go_on = |_| std::ops::ControlFlow::Continue(());
    Store::repair(&path, RepairTo::New(&temp.path().join("c")), &counting(), &mut go_on).unwrap();
    let repaired = Store::open(temp.path().join("c"), counting()).unwrap();
    assert_eq!((repaired.counted_keys().unwrap(), listed(&repaired)), (Some(3), Some(3)));
    let store = Store::open(&path, counting()).unwrap();
    store.keys().map(Result::unwrap).for_each(|key| assert!(store.remove(&key).unwrap()));
    assert_eq!(store.counted_keys().unwrap(), None);
    store.checkpoint().unwrap();
    assert_eq!(store.counted_keys().unwrap(), Some(0));
}

#[test]
fn a_verification_finds_that_the_number_is_that_of_another_rule() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, plain().counted(|key| !even(key))).unwrap();
    [&b"a"[..], b"bb", b"cc"].iter().for_each(|key| put(&store, key));
    store.close().unwrap();
    let store = Store::open(&path, counting()).unwrap();
    let problems = store.verify().unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].file, "SUPERBLOCK");
    assert!(problems[0].what.contains("2 counted keys, the superblock says 1"), "{}", problems[0].what);
    store.close().unwrap();
    assert_eq!(Store::open(&path, plain()).unwrap().verify().unwrap().problems, [], "without a rule it is not judged");
}

#[test]
fn backups_prunes_and_erasures_keep_the_number() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), counting()).unwrap();
    for i in 0..1000u32 {
        store.put(&Record::new(format!("{i}").as_bytes(), b"x").time(i64::from(i))).unwrap();
    }
    let mut go_on = |_| std::ops::ControlFlow::Continue(());
    store.backup(temp.path().join("b"), &filemap_core::backup::BackupOptions::new(), &mut go_on).unwrap();
    let backup = Store::open_read_only(temp.path().join("b"), counting()).unwrap();
    assert_eq!((backup.counted_keys().unwrap(), listed(&backup)), (Some(90), Some(90)));
    put(&store, b"new!");
    store
        .prune(PruneRule { since_ms: Some(50), ..PruneRule::default() }, &mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(store.counted_keys().unwrap(), listed(&store));
    store.compact().unwrap();
    assert_eq!(store.counted_keys().unwrap(), listed(&store));
    assert_eq!(store.verify().unwrap().problems, []);
}

/// Threads put and remove what others count; many small checkpoints run in many small stages.
#[test]
fn the_number_is_one_that_was_true_during_the_call() {
    let temp = tempfile::tempdir().unwrap();
    let options = || counting().memtable_bytes(1 << 20).checkpoint_bytes(1 << 20);
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let reader = Store::open_read_only(temp.path().join("a"), options()).unwrap();
    let key = |i: u64| format!("http://host.example/{i:06}").into_bytes();
    assert!(even(&key(0)) && !even(&[key(0), vec![b'x']].concat()));
    const STAYING: u64 = 3000;
    (0..STAYING).for_each(|i| put(&store, &key(i)));
    store.checkpoint().unwrap();
    reader.refresh().unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            // The number of keys is STAYING or one more, whatever a checkpoint does meanwhile.
            for i in 0..6000u64 {
                let new = key(STAYING + i % 977);
                put(&store, &[&new[..], b"x"].concat());
                put(&store, &key(i % STAYING));
                put(&store, &new);
                store.remove(&new).unwrap();
                if i % 500 == 0 {
                    store.checkpoint().unwrap();
                }
            }
            ended.store(true, Ordering::Release);
        });
        for handle in [&store, &store, &reader] {
            s.spawn(|| {
                let mut calls = 0u64;
                while !ended.load(Ordering::Acquire) || calls < 3 {
                    let counted = handle.counted_keys().unwrap().unwrap();
                    assert!((STAYING..=STAYING + 1).contains(&counted), "{counted} after {calls} calls");
                    calls += 1;
                }
            });
        }
    });
    assert_eq!(store.counted_keys().unwrap(), listed(&store));
    assert_eq!(store.verify().unwrap().problems, []);
}
