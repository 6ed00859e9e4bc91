//! Backups: concurrent with writers, incremental, and over leftovers of a killed one. Both stores
//! can be written afterwards and share no byte that changes. Copies and merges of whole stores.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use filemap_core::backup::{BackedUp, BackupOptions, CopyEvent, CopyOptions};
use filemap_core::prune::PruneRule;
use filemap_core::{Error, Options, Put, Record, StorageError, Store, Version};

fn options() -> Options {
    Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10).free_space_floor(0)
}

/// Incompressible bytes from a seed.
fn body(seed: u64, bytes: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn put(store: &Store, i: u64, round: u64) {
    let bytes = if i % 50 == 7 { 150_000 } else { 4000 };
    let key = format!("http://example.com/{i}");
    let meta = format!("meta {round}");
    let body = body(i * 1000 + round, bytes);
    store.put(&Record::new(key.as_bytes(), &body).time(round as i64).meta(meta.as_bytes())).unwrap();
}

fn back_up(store: &Store, to: &Path) -> filemap_core::Result<BackedUp> {
    store.backup(to, &BackupOptions::new(), &mut |_| ControlFlow::Continue(()))
}

/// All versions of each key in the order of their sequences: time, meta, body.
type Contents = BTreeMap<Vec<u8>, Vec<(i64, Vec<u8>, Vec<u8>)>>;

fn contents(store: &Store) -> Contents {
    let mut all = BTreeMap::new();
    for key in store.keys().map(Result::unwrap) {
        let mut heads = store.history(&key).unwrap();
        heads.sort_by_key(|h| h.version.sequence);
        let version = |v: Version| store.get_version(&key, v).unwrap().unwrap();
        let list = heads.iter().map(|h| (h.version.time_ms, h.meta.clone(), version(h.version).body)).collect();
        all.insert(key, list);
    }
    all
}

fn open(path: &Path) -> Store {
    Store::open(path, options()).unwrap()
}

fn is_sound(store: &Store) {
    assert_eq!(store.verify().unwrap().problems, []);
}

/// Files of a directory that have several names.
fn shared_files(path: &Path) -> Vec<String> {
    let files = std::fs::read_dir(path).unwrap().map(|f| f.unwrap()).filter(|f| f.metadata().unwrap().nlink() > 1);
    let mut names: Vec<String> = files.map(|f| f.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_backup_is_a_store_and_both_can_be_written_and_compacted_afterwards() {
    let temp = tempfile::tempdir().unwrap();
    let (a, b) = (temp.path().join("a"), temp.path().join("b"));
    let store = Store::create(&a, options()).unwrap();
    (0..2000).for_each(|i| put(&store, i % 700, i / 700));
    let before = contents(&store);
    let done = back_up(&store, &b).unwrap();
    assert!(done.linked_bytes > 6 << 20, "{done:?}");
    assert_eq!(done.bytes, done.linked_bytes + done.copied_bytes + 8192, "{done:?}");
    let shared = shared_files(&b);
    assert!(shared.len() > 5 && shared.iter().all(|name| name.starts_with("value")), "{shared:?}");
    let mut names: Vec<String> =
        std::fs::read_dir(&b).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names[..2], ["LOCK", "SUPERBLOCK"]);
    assert!(!temp.path().join("b.partial").exists());

    // Each is written, partly emptied and compacted, while the other is not touched.
    let copy = open(&b);
    assert_eq!(contents(&copy), before);
    is_sound(&copy);
    for (written, other) in [(&copy, &store), (&store, &copy)] {
        let unchanged = contents(other);
        (0..300).for_each(|i| put(written, i, 9));
        (300..600).for_each(|i| assert!(written.remove(format!("http://example.com/{i}").as_bytes()).unwrap()));
        let gone = written.compact().unwrap();
        assert!(gone.removed_segments > 0, "{gone:?}");
        is_sound(written);
        assert_eq!(contents(other), unchanged);
        is_sound(other);
    }
    assert_eq!(contents(&store), contents(&copy), "the same was done to both");
    assert!(shared_files(&b).len() < shared.len(), "what each has written is its own");
    copy.close().unwrap();
    store.close().unwrap();
    assert_eq!(contents(&open(&a)), contents(&open(&b)));
}

/// Ends the threads of a test, whether it fails or not.
struct StopsAtEnd<'a>(&'a AtomicBool);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_backup_holds_what_was_put_before_it_while_puts_checkpoints_and_compaction_go_on() {
    let temp = tempfile::tempdir().unwrap();
    let small = || options().checkpoint_bytes(4 << 20);
    let store = Store::create(temp.path().join("a"), small()).unwrap();
    (0..1000).for_each(|i| put(&store, i, 0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let _ends = StopsAtEnd(&stop);
        s.spawn(|| {
            for round in 1.. {
                for i in 0..500 {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    put(&store, i, round);
                }
            }
        });
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let rule = PruneRule { keep_versions: Some(2), ..PruneRule::default() };
                store.prune(rule, &mut |_| ControlFlow::Continue(())).unwrap();
                store.compact().unwrap();
                // Lets a follower be faster now and then.
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        let reader = Store::open_read_only(store.path(), small()).unwrap();
        for nth in 0..6 {
            let to = temp.path().join(format!("backup{nth}"));
            // Slowly, so that much happens meanwhile; every other one through a follower.
            let mut watch = |_: filemap_core::backup::BackupProgress| {
                std::thread::sleep(std::time::Duration::from_micros(200));
                ControlFlow::Continue(())
            };
            let marker = format!("marker {nth}");
            store.put(&Record::new(marker.as_bytes(), b"here").time(1)).unwrap();
            let from = if nth % 2 == 0 { &store } else { &reader };
            let copy_all = nth % 3 == 2;
            let options = if copy_all { BackupOptions::new().copy_all() } else { BackupOptions::new() };
            match from.backup(&to, &options, &mut watch) {
                Ok(done) => assert_eq!(done.linked_bytes == 0, copy_all, "{done:?}"),
                Err(e) if nth % 2 == 1 => {
                    assert!(e.to_string().contains("checkpoints come faster"), "{e}");
                    assert!(!to.exists());
                    continue;
                }
                Err(e) => panic!("{e}"),
            }
            let copy = Store::open(&to, small()).unwrap();
            is_sound(&copy);
            assert_eq!(copy.get(marker.as_bytes()).unwrap().unwrap().body, b"here", "{nth}");
            for (key, versions) in contents(&copy) {
                assert!(!versions.is_empty() || key.starts_with(b"marker"));
            }
            assert!(copy.keys().count() > 1000);
        }
    });
    is_sound(&store);
}

#[test]
fn an_incremental_backup_shares_what_the_one_before_it_has() {
    let temp = tempfile::tempdir().unwrap();
    // Another file system, if available: then nothing can be shared with the store.
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    (0..1200).for_each(|i| put(&store, i, 0));
    let first = elsewhere.path().join("first");
    back_up(&store, &first).unwrap();
    // Write to the first backup meanwhile: its segments must not be taken for the store's.
    let diverged = open(&first);
    (0..500).for_each(|i| put(&diverged, i, 77));
    diverged.close().unwrap();
    (1200..1700).for_each(|i| put(&store, i, 0));
    let second = elsewhere.path().join("second");
    let base = BackupOptions::new().base(&first);
    let done = store.backup(&second, &base, &mut |_| ControlFlow::Continue(())).unwrap();
    let is_elsewhere = done.linked_bytes == 0;
    assert!(done.reused_bytes > 3 << 20 || !is_elsewhere, "{done:?}");
    let copy = open(&second);
    assert_eq!(contents(&copy), contents(&store));
    is_sound(&copy);
    is_sound(&open(&first));
    let other = Store::create(temp.path().join("other"), options()).unwrap();
    let refused = other.backup(temp.path().join("x"), &base, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(Error::Storage(StorageError::InvalidOption { name: "base", .. }))), "{refused:?}");
    assert!(!temp.path().join("x.partial").exists());
}

#[test]
fn what_a_backup_that_was_broken_off_leaves_is_replaced_and_what_is_not_its_own_is_not() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    (0..1000).for_each(|i| put(&store, i, 0));
    let (to, partial) = (temp.path().join("b"), temp.path().join("b.partial"));
    // The state after a process was killed in the middle: the mark, and some files.
    std::fs::create_dir(&partial).unwrap();
    for name in ["PARTIAL", "LOCK", "value0.dat", "key0.dat", "dict1.zdict", "address.idx"] {
        std::fs::write(partial.join(name), "half").unwrap();
    }
    back_up(&store, &to).unwrap();
    assert!(!partial.exists());
    assert_eq!(contents(&open(&to)), contents(&store));

    let refused = back_up(&store, &to);
    assert!(matches!(refused, Err(Error::NotEmpty { .. })), "{refused:?}");
    let empty = temp.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    back_up(&store, &empty).unwrap();

    for name in ["letter.txt", "SUPERBLOCK"] {
        let (to, partial) = (temp.path().join("c"), temp.path().join("c.partial"));
        std::fs::create_dir(&partial).unwrap();
        std::fs::write(partial.join(name), "dear").unwrap();
        let refused = back_up(&store, &to);
        assert!(matches!(refused, Err(Error::NotEmpty { .. })), "{refused:?}");
        assert_eq!(std::fs::read(partial.join(name)).unwrap(), b"dear");
        std::fs::remove_dir_all(&partial).unwrap();
    }
    let (to, mut calls) = (temp.path().join("d"), 0);
    let stopped = store.backup(&to, &BackupOptions::new(), &mut |_| {
        calls += 1;
        if calls > 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert!(!to.exists() && !temp.path().join("d.partial").exists());
    put(&store, 1, 1);
    store.compact().unwrap();
    is_sound(&store);
}

#[test]
fn two_backups_to_one_path_at_once_are_refused_and_the_store_is_not_written_by_a_reader() {
    let temp = tempfile::tempdir().unwrap();
    let a = temp.path().join("a");
    // No background work changes the files.
    let store = Store::create(&a, options().space_bound(None)).unwrap();
    (0..300).for_each(|i| put(&store, i, 0));
    let to = temp.path().join("b");
    let mut tried = None;
    let second = store.clone();
    store
        .backup(&to, &BackupOptions::new(), &mut |_| {
            tried.get_or_insert_with(|| back_up(&second, &to));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(matches!(tried, Some(Err(Error::Storage(StorageError::Locked { .. })))), "{tried:?}");
    // Of a store that was not closed: the log beyond the checkpoint is copied too.
    (300..400).for_each(|i| put(&store, i, 0));
    let names = || -> Vec<(String, u64)> {
        let mut all: Vec<_> = std::fs::read_dir(&a)
            .unwrap()
            .map(|f| f.unwrap())
            .map(|f| (f.file_name().into_string().unwrap(), f.metadata().unwrap().len()))
            // A segment that the writer prepares in the background.
            .filter(|(_, len)| *len != 64)
            .collect();
        all.sort();
        all
    };
    let before = names();
    let reader = Store::open_read_only(&a, options()).unwrap();
    back_up(&reader, &temp.path().join("c")).unwrap();
    assert_eq!(names(), before);
    let copy = open(&temp.path().join("c"));
    assert_eq!(contents(&copy), contents(&store));
    is_sound(&copy);
}

fn copy(from: &Store, to: &Store, options: CopyOptions) -> filemap_core::backup::Copied {
    from.copy_to(to, options, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_copy_has_every_version_in_its_order_with_other_options_and_no_garbage() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options().space_bound(None)).unwrap();
    (0..2000).for_each(|i| put(&store, i % 700, i / 700));
    // An older time after a younger, equal times, and unchanged bodies.
    let same = vec![b'x'; 3000];
    for (time, body) in [(50, &same), (40, &same), (50, &b"other".to_vec()), (60, &b"other".to_vec())] {
        store.put_if_changed(&Record::new(b"k", body).time(time).meta(b"m")).unwrap();
    }
    (0..100).for_each(|i| assert!(store.remove(format!("http://example.com/{i}").as_bytes()).unwrap()));
    store.checkpoint().unwrap();
    (650..660).for_each(|i| put(&store, i, 5));
    let all = contents(&store);
    for (name, how) in [("plain", CopyOptions::new()), ("again", CopyOptions::new().recompress())] {
        let to = Store::create(
            temp.path().join(name),
            options().segment_bytes(4 << 20).large_value_bytes(128 << 10).compression_level(1),
        )
        .unwrap();
        let copied = copy(&store, &to, how);
        assert_eq!((copied.versions, copied.keys), (all.values().map(Vec::len).sum::<usize>() as u64, 601));
        assert_eq!((copied.unchanged, copied.already_there, copied.damaged), (2, 0, 0));
        assert_eq!(contents(&to), all);
        is_sound(&to);
        to.checkpoint().unwrap();
        let stats = to.stats();
        assert_eq!((stats.dead_bytes, stats.tombstone_bytes), (0, 0));
        // A second copy adds nothing.
        let copied = copy(&store, &to, how);
        assert_eq!((copied.versions, copied.already_there), (0, all.values().map(Vec::len).sum::<usize>() as u64));
    }
}

#[test]
fn a_copy_goes_on_where_it_was_stopped_and_tells_of_damage() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    (0..500).for_each(|i| put(&store, i, 0));
    store.checkpoint().unwrap();
    let to = Store::create(temp.path().join("b"), options()).unwrap();
    let stopped = store.copy_to(&to, CopyOptions::new(), &mut |event| match event {
        CopyEvent::Done(sum) if sum.keys >= 200 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    let rest = copy(&store, &to, CopyOptions::new());
    assert_eq!((rest.versions, rest.already_there), (300, 200));
    assert_eq!(contents(&to), contents(&store));

    // Damage a byte of one body.
    let place = store.head(b"http://example.com/3").unwrap().unwrap().place;
    let file = std::fs::OpenOptions::new().write(true).open(store.path().join("value0.dat")).unwrap();
    assert_eq!(place.segment, 0);
    std::os::unix::fs::FileExt::write_all_at(&file, b"rot", place.offset + 1000).unwrap();
    let to = Store::create(temp.path().join("c"), options()).unwrap();
    let mut told = Vec::new();
    let copied = store
        .copy_to(&to, CopyOptions::new(), &mut |event| {
            if let CopyEvent::Damaged(e) = event {
                told.push(e.to_string());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((copied.versions, copied.damaged, told.len()), (499, 1, 1), "{told:?}");
    assert!(told[0].contains("value0.dat"), "{told:?}");
}

#[test]
fn merged_stores_have_every_version_of_all_of_them_once() {
    let temp = tempfile::tempdir().unwrap();
    let create = |name: &str| Store::create(temp.path().join(name), options()).unwrap();
    let (a, b, to) = (create("a"), create("b"), create("to"));
    (0..300).for_each(|i| put(&a, i, i % 3));
    (200..500).for_each(|i| put(&b, i, i % 2));
    for (store, times) in [(&a, [1, 3]), (&b, [2, 3])] {
        for time in times {
            store.put_if_changed(&Record::new(b"same", b"the very same").time(time)).unwrap();
        }
    }
    b.put(&Record::new(b"same", b"changed").time(9)).unwrap();
    copy(&a, &to, CopyOptions::new());
    let second = copy(&b, &to, CopyOptions::new());
    assert!(second.already_there > 0 && second.versions > 0, "{second:?}");
    let mut wanted = contents(&a);
    for (key, versions) in contents(&b) {
        let list = wanted.entry(key).or_default();
        for version in versions {
            if !list.contains(&version) {
                list.push(version);
            }
        }
    }
    let sorted = |all: Contents| -> BTreeMap<_, _> {
        all.into_iter()
            .map(|(key, mut list)| {
                list.sort();
                (key, list)
            })
            .collect()
    };
    assert_eq!(sorted(contents(&to)), sorted(wanted));
    let kinds: Vec<bool> = to.history(b"same").unwrap().iter().map(|h| h.unchanged_since.is_some()).collect();
    assert_eq!(kinds.iter().filter(|is_reference| **is_reference).count(), 2, "{kinds:?}");
    let put = to.put_if_changed(&Record::new(b"same", b"changed").time(10)).unwrap();
    assert!(matches!(put, Put::Unchanged(_)));
    is_sound(&to);
    let exact = Store::create(temp.path().join("exact"), options().canonicalizer("exact", 1)).unwrap();
    let refused = a.copy_to(&exact, CopyOptions::new(), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(Error::Canonicalizer { .. })), "{refused:?}");
}
