//! Removal of one version: the others stay, with their bodies, and nothing brings it back.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use filemap_core::changes::Change;
use filemap_core::repair::RepairTo;
use filemap_core::{Error, Options, Put, Record, Store, Version};

const KEY: &[u8] = b"http://a.example/";

fn options() -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .free_space_floor(0)
        .keep_removals(Duration::ZERO)
        .space_bound(None)
        .canonicalizer("test", 7)
}

fn put(store: &Store, time_ms: i64, body: &[u8], meta: &[u8]) -> Version {
    store.put_if_changed(&Record::new(KEY, body).time(time_ms).meta(meta)).unwrap().version()
}

/// Time, meta and body of all versions, newest first. Checks that each is found by its version and
/// time.
fn shown(store: &Store) -> Vec<(i64, Vec<u8>, Vec<u8>)> {
    let one = |version: Version| {
        let value = store.get_version(KEY, version).unwrap().unwrap();
        (version.time_ms, value.head.meta, value.body)
    };
    let all: Vec<_> = store.history(KEY).unwrap().iter().map(|head| one(head.version)).collect();
    let newest = store.get(KEY).unwrap().map(|v| (v.head.version.time_ms, v.head.meta, v.body));
    assert_eq!(newest.as_ref(), all.first());
    all
}

fn page(time_ms: i64, meta: &[u8], body: &[u8]) -> (i64, Vec<u8>, Vec<u8>) {
    (time_ms, meta.to_vec(), body.to_vec())
}

/// Verifies, and again after compaction and reopening.
fn is_sound(store: Store, path: &Path) -> Store {
    let before = shown(&store);
    assert_eq!(store.verify().unwrap().problems, []);
    store.compact().unwrap();
    assert_eq!(store.verify().unwrap().problems, []);
    assert_eq!(shown(&store), before);
    store.close().unwrap();
    let store = Store::open(path, options()).unwrap();
    assert_eq!(shown(&store), before);
    store
}

/// The store as repaired from the value log alone.
fn rebuilt(path: &Path) -> Store {
    for file in fs::read_dir(path).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("key") || name == "address.idx" || name == "SUPERBLOCK" {
            fs::remove_file(file).unwrap();
        }
    }
    let report = Store::repair(path, RepairTo::InPlace, &options(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.losses, []);
    Store::open(path, options()).unwrap()
}

#[test]
fn the_newest_the_oldest_and_the_last_version_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    let versions: Vec<Version> = (1..=4).map(|n| put(&store, n, format!("body {n}").as_bytes(), b"m")).collect();
    let page = |n: i64| page(n, b"m", format!("body {n}").as_bytes());
    assert!(store.remove_version(KEY, versions[3]).unwrap());
    assert_eq!(shown(&store), [page(3), page(2), page(1)]);
    assert!(!store.remove_version(KEY, versions[3]).unwrap(), "it is gone already");
    assert!(!store.remove_version(b"http://b.example/", versions[2]).unwrap());
    assert!(store.remove_version(KEY, versions[0]).unwrap());
    assert_eq!(shown(&store), [page(3), page(2)]);
    let store = is_sound(store, &path);
    let (removed, kept) = (versions[1], versions[2]);
    assert!(store.remove_version(KEY, removed).unwrap() && store.remove_version(KEY, kept).unwrap());
    assert_eq!((shown(&store), store.contains(KEY).unwrap()), (vec![], false));
    assert_eq!((store.keys().count(), store.stats().indexed_keys), (0, 0));
    let store = is_sound(store, &path);
    put(&store, 1, b"again", b"m");
    assert_eq!(shown(&store).len(), 1);
}

#[test]
fn where_few_versions_are_kept_those_put_again_hide_and_drop_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let store = Store::create(&path, options().keep_versions(Some(4))).unwrap();
    let oldest = put(&store, 1, b"oldest", b"m");
    let holder = put(&store, 2, b"shared", b"m");
    for time_ms in [3, 4] {
        assert!(put(&store, time_ms, b"shared", b"m") > holder);
    }
    store.checkpoint().unwrap();
    assert!(store.remove_version(KEY, holder).unwrap());
    let left = [page(4, b"m", b"shared"), page(3, b"m", b"shared"), page(1, b"m", b"oldest")];
    assert_eq!(shown(&store), left);
    // A version hidden by newer ones can be removed, too.
    for time_ms in [5, 6] {
        put(&store, time_ms, format!("of {time_ms}").as_bytes(), b"m");
    }
    assert_eq!(shown(&store).len(), 4);
    assert!(store.remove_version(KEY, oldest).unwrap());
    assert!(!store.remove_version(KEY, oldest).unwrap());
    store.close().unwrap();
    let store = Store::open(&path, options().keep_versions(Some(4))).unwrap();
    assert_eq!(shown(&store).iter().map(|one| one.0).collect::<Vec<_>>(), [6, 5, 4, 3]);
}

#[test]
fn versions_that_share_the_body_keep_it() {
    for (bytes, is_merged) in [(100, false), (100, true), (200_000, false), (200_000, true)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let store = Store::create(&path, options()).unwrap();
        let (body, other) = (vec![b'x'; bytes], vec![b'y'; bytes]);
        let first = put(&store, 1, &body, b"1");
        for time_ms in 2..5 {
            let again = Record::new(KEY, &body).time(time_ms).meta(b"again");
            assert!(matches!(store.put_if_changed(&again).unwrap(), Put::Unchanged(_)));
        }
        put(&store, 9, &other, b"9");
        if is_merged {
            store.checkpoint().unwrap();
        }
        assert!(store.remove_version(KEY, first).unwrap());
        let left =
            [page(9, b"9", &other), page(4, b"again", &body), page(3, b"again", &body), page(2, b"again", &body)];
        assert_eq!(shown(&store), left);
        let holding = store.history(KEY).unwrap().iter().filter(|head| head.unchanged_since.is_none()).count();
        assert_eq!(holding, 2, "one of the three has the body");
        let store = is_sound(store, &path);
        assert_eq!(shown(&store), left);
    }
}

#[test]
fn a_repair_does_not_bring_a_removed_version_back() {
    for is_shared in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let store = Store::create(&path, options()).unwrap();
        let first = put(&store, 1, b"first", b"");
        let body: &[u8] = if is_shared { b"first" } else { b"second" };
        put(&store, 2, body, b"");
        assert!(store.remove_version(KEY, first).unwrap());
        store.close().unwrap();
        let store = rebuilt(&path);
        assert_eq!(shown(&store), [page(2, b"", body)]);
        is_sound(store, &path);
    }
}

#[test]
fn who_asks_what_has_changed_is_told_of_the_version() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path().join("a"), options()).unwrap();
    let before = store.changes_end().unwrap();
    let first = put(&store, 1, b"body", b"first");
    let second = put(&store, 2, b"body", b"second");
    assert!(store.remove_version(KEY, first).unwrap());
    let told: Vec<Change> = store.changes(before).unwrap().map(Result::unwrap).collect();
    let [Change::Put { head, .. }, Change::RemovedOne { key, removed, digest, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((&head.meta[..], head.version.time_ms), (&b"second"[..], 2));
    assert!(head.version.sequence > second.sequence, "it has the body now");
    assert_eq!((&key[..], *removed, *digest), (KEY, first, head.digest));
}

#[test]
fn a_version_whose_body_others_share_is_not_removed_while_it_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let store = Store::create(&path, options().compression_level(0)).unwrap();
    let first = put(&store, 1, &[b'x'; 5000], b"");
    put(&store, 2, &[b'x'; 5000], b"");
    let alone = put(&store, 3, &[b'y'; 5000], b"");
    store.close().unwrap();
    let mut bytes = fs::read(path.join("value0.dat")).unwrap();
    for body in [[b'x'; 99], [b'y'; 99]] {
        let at = bytes.windows(99).position(|bytes| bytes == body).unwrap();
        bytes[at] = b'z';
    }
    fs::write(path.join("value0.dat"), bytes).unwrap();
    let store = Store::open(&path, options()).unwrap();
    let refused = store.remove_version(KEY, first).unwrap_err();
    assert!(refused.is_corrupt(), "{refused}");
    assert_eq!(store.history(KEY).unwrap().len(), 3);
    assert!(store.remove_version(KEY, alone).unwrap(), "what nobody needs may be damaged");
    assert_eq!(store.history(KEY).unwrap().len(), 2);
}

#[test]
fn a_handle_that_cannot_write_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    let version = put(&store, 1, b"body", b"");
    let reader = Store::open_read_only(&path, options()).unwrap();
    assert!(matches!(reader.remove_version(KEY, version), Err(Error::ReadOnly)));
    assert_eq!(reader.history(KEY).unwrap().len(), 1);
    assert!(store.remove_version(KEY, version).unwrap());
    reader.refresh().unwrap();
    assert_eq!(reader.history(KEY).unwrap(), []);
    store.close().unwrap();
}
