//! Segments that are missing, empty or cut short: readable data, error reports, refusals, accepted
//! losses.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap_io::OsDir;

use crate::store::{BackupOptions, CopyOptions, Threads};
use crate::sync::primitive::Ordering;
use crate::upkeep::repair::RepairTo;
use crate::{Error, Options, Record, StorageError, Store};

/// Fifty such bodies fill a segment.
const BODY_BYTES: usize = 20_000;

fn options() -> Options {
    let options = Options::new().segment_bytes(1 << 20).large_value_bytes(256 << 10).free_space_floor(0);
    options.compression_level(0).recompression_level(None)
}

fn create(path: &Path) -> Store {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    Store::create_in(Arc::new(OsDir::open(path).unwrap()), options(), Threads::None).unwrap()
}

fn body(i: u32, version: i64) -> Vec<u8> {
    format!("{i} {version} ").into_bytes().into_iter().cycle().take(BODY_BYTES).collect()
}

fn key(i: u32) -> Vec<u8> {
    format!("http://example.com/{i}").into_bytes()
}

fn put(store: &Store, keys: std::ops::Range<u32>, version: i64) {
    for i in keys {
        store.put(&Record::new(&key(i), &body(i, version)).time(version)).unwrap();
    }
}

/// Drops a handle as a kill would.
fn abandon(store: Store) {
    store.reading.closed().store(true, Ordering::Release);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = all.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("value")).collect();
    all.sort();
    all
}

/// Ways to lose a file.
const WAYS: [fn(&Path); 4] = [
    |file| fs::remove_file(file).unwrap(),
    |file| OpenOptions::new().write(true).open(file).unwrap().set_len(0).unwrap(),
    |file| OpenOptions::new().write(true).open(file).unwrap().set_len(63).unwrap(),
    |file| {
        let file = OpenOptions::new().write(true).open(file).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    },
];

/// All readable pages, and the number of errors that name a file.
fn read(store: &Store, file: &str) -> (BTreeMap<Vec<u8>, Vec<u8>>, usize) {
    let (mut pages, mut named) = (BTreeMap::new(), 0);
    for page in store.pages() {
        match page {
            Ok((key, value)) => assert!(pages.insert(key, value.body).is_none()),
            Err(e) => {
                assert!(matches!(&e, Error::Storage(StorageError::Corrupt { file: f, .. }) if f == file), "{e}");
                named += 1;
            }
        }
    }
    (pages, named)
}

fn names(error: &Error, file: &str) -> bool {
    matches!(error, Error::Storage(StorageError::Corrupt { file: f, .. }) if f == file)
}

/// Loses every segment in every way. The store has keys `0..keys`, each with one version.
fn each_goes(path: &Path, keys: u32) {
    let temp = tempfile::tempdir().unwrap();
    for (nth, segment) in segments(path).iter().enumerate() {
        for (way, go) in WAYS.iter().enumerate() {
            let name = segment.file_name().unwrap().to_string_lossy().into_owned();
            let broken = temp.path().join(format!("{nth}-{way}"));
            copy(path, &broken);
            go(&broken.join(&name));
            let reader = Store::open_read_only(&broken, options()).unwrap();
            let absent = reader.absent();
            assert_eq!(absent.iter().map(|a| a.file.as_str()).collect::<Vec<_>>(), [name.as_str()], "way {way}");
            let (pages, named) = read(&reader, &name);
            assert!(named > 0 && pages.len() < keys as usize && pages.len() + 60 > keys as usize, "{}", pages.len());
            let mut lost = 0;
            for i in 0..keys {
                match reader.get(&key(i)) {
                    Ok(Some(value)) => assert_eq!(Some(&value.body), pages.get(&key(i))),
                    Ok(None) => lost += 1,
                    Err(e) => {
                        assert!(names(&e, &name), "{e}");
                        lost += 1;
                    }
                }
            }
            assert_eq!(lost + pages.len(), keys as usize);
            assert!(reader.keys().any(|k| k.is_err_and(|e| names(&e, &name))));
            let backup =
                reader.backup(temp.path().join("b"), &BackupOptions::new(), &mut |_| ControlFlow::Continue(()));
            assert!(names(&backup.unwrap_err(), &name));
            let to = Store::create(temp.path().join(format!("{nth}-{way}.copy")), options()).unwrap();
            let copied = reader.copy_to(&to, CopyOptions::new(), &mut |_| ControlFlow::Continue(())).unwrap();
            assert!(copied.damaged > 0 && copied.versions == pages.len() as u64);
            assert!(!reader.verify().unwrap().problems.is_empty());
            drop(reader);
            accepted(&broken, &name, pages.len());
        }
    }
}

/// Opens a store with a lost file for writing: refused at first, then accepting the loss.
fn accepted(path: &Path, name: &str, readable: usize) {
    assert!(names(&Store::open(path, options()).unwrap_err(), name));
    let store = Store::open(path, options().accept_loss()).unwrap();
    assert!(store.absent().iter().all(|a| a.is_accepted && a.file == name));
    put(&store, 9000..9200, 1);
    store.close().unwrap();
    let store = Store::open(path, options().keep_versions(Some(1))).unwrap();
    let absent = store.absent();
    assert_eq!(absent.iter().map(|a| a.file.as_str()).collect::<Vec<_>>(), [name], "the loss is noted");
    let (pages, _) = read(&store, name);
    assert_eq!(pages.len(), readable + 200);
    // The lost file's number is not reused.
    assert!(
        store.reading.values().segments.get(crate::format::names::parse_segment(name).unwrap()).is_err()
            || absent[0].why.contains("short")
    );
    put(&store, 0..300, 2);
    store.close().unwrap();
    let store = Store::open_read_only(path, options()).unwrap();
    assert!(store.absent().iter().all(|a| !a.is_missed()), "nothing leads there any more");
    // A cut through a record leaves a part of it, which is reported as damage.
    assert!(store.pages().filter(Result::is_err).count() <= usize::from(absent[0].why.contains("short")));
}

#[test]
fn of_a_store_without_one_of_its_segments_all_else_is_read_and_the_file_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..130, 1);
    store.close().unwrap();
    each_goes(&path, 130);
}

#[test]
fn a_segment_that_no_checkpoint_has_seen_is_missed_too() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..60, 1);
    store.checkpoint().unwrap();
    put(&store, 60..170, 1);
    abandon(store);
    let all = segments(&path);
    assert!(all.len() > 3);
    for (nth, gone) in [[3, 3], [2, 3], [2, 2]].into_iter().enumerate() {
        let broken = temp.path().join(format!("{nth}"));
        copy(&path, &broken);
        let names: Vec<String> = gone.map(|at| all[at].file_name().unwrap().to_string_lossy().into_owned()).into();
        for name in &names {
            let _ = fs::remove_file(broken.join(name));
        }
        let reader = Store::open_read_only(&broken, options()).unwrap();
        let mut absent: Vec<String> = reader.absent().into_iter().map(|a| a.file).collect();
        absent.dedup();
        let mut wanted = names.clone();
        wanted.dedup();
        assert_eq!(absent, wanted);
        assert!(Store::open(&broken, options()).is_err());
        let store = Store::open(&broken, options().accept_loss()).unwrap();
        assert!(store.get(&key(5)).unwrap().is_some());
        put(&store, 0..3, 7);
        store.close().unwrap();
        Store::open(&broken, options()).unwrap().close().unwrap();
    }
    // A kill alone loses nothing.
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(store.absent(), []);
    assert_eq!(store.pages().count(), 170);
}

#[test]
fn a_segment_in_which_nothing_lives_is_missed_too() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..60, 1);
    (0..60).for_each(|i| assert!(store.remove(&key(i)).unwrap()));
    put(&store, 100..200, 1);
    store.close().unwrap();
    fs::remove_file(path.join("value0.dat")).unwrap();
    let reader = Store::open_read_only(&path, options()).unwrap();
    let absent = reader.absent();
    assert_eq!((absent.len(), absent[0].live_bytes), (1, 0));
    assert!(names(&Store::open(&path, options()).unwrap_err(), "value0.dat"));
}

#[test]
fn what_compaction_gave_back_is_not_missed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    for version in 1..4 {
        put(&store, 0..130, version);
        store.checkpoint().unwrap();
    }
    (0..130).filter(|i| i % 3 == 0).for_each(|i| assert!(store.remove(&key(i)).unwrap()));
    store.compact().unwrap();
    abandon(store);
    let reader = Store::open_read_only(&path, options()).unwrap();
    assert_eq!(reader.absent(), []);
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(store.absent(), []);
    store.close().unwrap();
}

#[test]
fn a_copy_brings_the_older_versions_of_pages_whose_newest_is_gone() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..60, 1);
    put(&store, 0..40, 2);
    put(&store, 40..60, 3);
    store.close().unwrap();
    let last = segments(&path).pop().unwrap();
    fs::remove_file(&last).unwrap();
    let reader = Store::open_read_only(&path, options()).unwrap();
    let readable = reader.versions().filter(Result::is_ok).count() as u64;
    let to = Store::create(temp.path().join("to"), options()).unwrap();
    let copied = reader.copy_to(&to, CopyOptions::new(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(readable > 60 && readable < 120, "{readable}");
    assert_eq!(copied.versions, readable);
    assert_eq!(to.versions().filter(Result::is_ok).count() as u64, readable);
    assert!((0..60).all(|i| to.get(&key(i)).unwrap().is_some()));
}

#[test]
fn what_was_removed_in_a_lost_segment_does_not_come_back_by_a_repair() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..60, 1);
    (0..20).for_each(|i| assert!(store.remove(&key(i)).unwrap()));
    put(&store, 100..200, 1);
    store.close().unwrap();
    // The tombstones are in the second segment.
    fs::remove_file(path.join("value1.dat")).unwrap();
    let mut go_on = |_| ControlFlow::Continue(());
    let doubtful = temp.path().join("doubtful");
    copy(&path, &doubtful);
    let new = temp.path().join("new");
    let report = Store::repair(&path, RepairTo::New(&new), &options(), &mut go_on).unwrap();
    assert!(
        report.losses.iter().any(|l| l.file == "value1.dat" && l.what.contains("tombstones")),
        "{:?}",
        report.losses
    );
    assert_eq!(report.unwitnessed, [] as [&str; 0]);
    let repaired = Store::open_read_only(&new, options()).unwrap();
    assert_eq!(repaired.absent(), []);
    assert!((0..20).all(|i| repaired.get(&key(i)).unwrap().is_none()));
    assert!((20..50).all(|i| repaired.get(&key(i)).unwrap().is_some()));
    // The same in place; without index and key log the loss cannot be known.
    for gone in [None, Some("address.idx"), Some("SUPERBLOCK")] {
        let place = temp.path().join(format!("place-{gone:?}"));
        copy(&path, &place);
        gone.iter().for_each(|name| fs::remove_file(place.join(name)).unwrap());
        let named = options().canonicalizer("bytes", 1);
        let report = Store::repair(&place, RepairTo::InPlace, &named, &mut go_on).unwrap();
        assert_eq!(report.unwitnessed.is_empty(), gone.is_none(), "{gone:?} {:?}", report.unwitnessed);
        let store = Store::open(&place, options()).unwrap();
        assert!((0..20).all(|i| store.get(&key(i)).unwrap().is_some() == gone.is_some()), "{gone:?}");
        store.close().unwrap();
    }
}

#[test]
fn a_repair_goes_by_the_store_id_that_most_files_have() {
    let temp = tempfile::tempdir().unwrap();
    let (path, foreign) = (temp.path().join("a"), temp.path().join("foreign"));
    let store = create(&path);
    put(&store, 0..70, 1);
    store.close().unwrap();
    let other = create(&foreign);
    put(&other, 0..50, 9);
    other.close().unwrap();
    // Few of the store's own files are left, and the foreign segment has the most bytes.
    fs::remove_file(path.join("SUPERBLOCK")).unwrap();
    fs::remove_file(path.join("value1.dat")).unwrap();
    let own = OpenOptions::new().write(true).open(path.join("value0.dat")).unwrap();
    own.set_len(300_000).unwrap();
    fs::copy(foreign.join("value0.dat"), path.join("value9.dat")).unwrap();
    let new = temp.path().join("new");
    let named = options().canonicalizer("bytes", 1);
    let mut go_on = |_| ControlFlow::Continue(());
    let report = Store::repair(&path, RepairTo::New(&new), &named, &mut go_on).unwrap();
    assert_eq!(report.ignored.iter().map(|i| i.file.as_str()).collect::<Vec<_>>(), ["value9.dat"]);
    assert!(report.keys > 5 && !report.unwitnessed.is_empty());
    let repaired = Store::open_read_only(&new, options()).unwrap();
    assert_eq!(repaired.get(&key(3)).unwrap().unwrap().body, body(3, 1));
}

#[test]
fn a_superblock_copy_in_the_other_copys_place_is_damage() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..3, 1);
    store.checkpoint().unwrap();
    store.close().unwrap();
    let mut bytes = fs::read(path.join("SUPERBLOCK")).unwrap();
    let (first, second) = bytes.split_at_mut(4096);
    first[..512].swap_with_slice(&mut second[..512]);
    fs::write(path.join("SUPERBLOCK"), bytes).unwrap();
    for opened in [Store::open(&path, options()), Store::open_read_only(&path, options())] {
        assert!(names(&opened.unwrap_err(), "SUPERBLOCK"));
    }
}

#[test]
fn a_file_that_is_removed_or_replaced_under_a_writer_is_an_error_at_the_next_checkpoint() {
    let temp = tempfile::tempdir().unwrap();
    for (nth, name) in ["LOCK", "SUPERBLOCK", "address.idx", "key0.dat", "value0.dat"].into_iter().enumerate() {
        for way in 0..4 {
            let path = temp.path().join(format!("{nth}-{way}"));
            let store = create(&path);
            put(&store, 0..3, 1);
            store.checkpoint().unwrap();
            let bytes = fs::read(path.join(name)).unwrap();
            fs::remove_file(path.join(name)).unwrap();
            if way % 2 == 1 {
                fs::write(path.join(name), bytes).unwrap();
            }
            let result = match way {
                0 | 1 => store.checkpoint(),
                _ => store.clone().close(),
            };
            assert!(names(&result.unwrap_err(), name), "{name} way {way}");
            assert!(store.close().is_err() || way > 1);
        }
    }
}

#[test]
fn a_segment_of_the_key_log_that_is_cut_short_is_missed_too() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let mut options = options();
    options.limits.key_segment_bytes = 512;
    let store = Store::create(&path, options.clone()).unwrap();
    put(&store, 0..20, 1);
    store.close().unwrap();
    let file = path.join("key0.dat");
    let len = fs::metadata(&file).unwrap().len();
    assert!(path.join("key1.dat").exists(), "as this test takes for granted");
    // Cut between records: no part of a record shows the loss.
    OpenOptions::new().write(true).open(&file).unwrap().set_len(64).unwrap();
    let reader = Store::open_read_only(&path, options.clone()).unwrap();
    let absent = reader.absent();
    assert_eq!(absent.iter().map(|a| a.file.as_str()).collect::<Vec<_>>(), ["key0.dat"]);
    assert!(absent[0].why.contains(&len.to_string()), "{}", absent[0].why);
    assert!(names(&Store::open(&path, options).unwrap_err(), "key0.dat"));
}

#[test]
fn a_repair_does_not_believe_a_key_log_that_is_cut_short() {
    let temp = tempfile::tempdir().unwrap();
    let (path, new) = (temp.path().join("a"), temp.path().join("new"));
    let mut options = options();
    options.limits.key_segment_bytes = 512;
    let store = Store::create(&path, options.clone()).unwrap();
    put(&store, 0..120, 1);
    store.close().unwrap();
    fs::remove_file(path.join("value1.dat")).unwrap();
    let reader = Store::open_read_only(&path, options.clone()).unwrap();
    let readable: Vec<u32> = (0..120).filter(|i| reader.get(&key(*i)).is_ok_and(|v| v.is_some())).collect();
    drop(reader);
    OpenOptions::new().write(true).open(path.join("key0.dat")).unwrap().set_len(64).unwrap();
    let report = Store::repair(&path, RepairTo::New(&new), &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(report.unwitnessed.iter().any(|what| what.contains("key0.dat")), "{:?}", report.unwitnessed);
    let repaired = Store::open_read_only(&new, options).unwrap();
    // All keys that the key log lacks.
    assert!((60..120).contains(&readable.len()), "{}", readable.len());
    assert!(readable.iter().all(|i| repaired.get(&key(*i)).unwrap().is_some()));
    assert_eq!(report.keys, readable.len() as u64);
}

#[test]
fn a_file_that_comes_back_after_its_loss_was_accepted_is_whole_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..200, 0);
    store.close().unwrap();
    // The last segment holds the checkpoint's tail.
    let count = segments(&path).len() - 1;
    for (nth, way) in (0..count).flat_map(|nth| [(nth, 0), (nth, 1), (nth, 3)]) {
        let broken = temp.path().join("broken");
        let _ = fs::remove_dir_all(&broken);
        copy(&path, &broken);
        let file = segments(&broken)[nth].clone();
        let whole = fs::read(&file).unwrap();
        WAYS[way](&file);
        let store = Store::open(&broken, options().accept_loss()).unwrap();
        put(&store, 200..210, 0);
        store.close().unwrap();
        assert_eq!(Store::open_read_only(&broken, options()).unwrap().absent().len(), 1);
        // A part of it is not enough.
        fs::write(&file, &whole[..whole.len() - 100]).unwrap();
        for open in [Store::open_read_only, Store::open] {
            assert_eq!(open(broken.as_path(), options()).unwrap().absent().len(), 1, "{nth} {way}");
        }
        fs::write(&file, whole).unwrap();
        for open in [Store::open_read_only, Store::open] {
            let store = open(broken.as_path(), options()).unwrap();
            assert_eq!(store.absent(), [], "{nth} {way}");
            assert_eq!((0..210).filter(|i| store.get(&key(*i)).unwrap().is_some()).count(), 210, "{nth} {way}");
            store.close().unwrap();
        }
        // Its loss is reported again like any other.
        fs::remove_file(&file).unwrap();
        assert!(Store::open(&broken, options()).is_err(), "{nth} {way}");
    }
}

#[test]
fn a_segment_that_comes_back_and_that_no_checkpoint_had_seen_stays_named_and_undoes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..20, 0);
    store.checkpoint().unwrap();
    // Killed with its log in a later segment, which has a tombstone.
    put(&store, 20..100, 0);
    store.remove(&key(1)).unwrap();
    store.sync().unwrap();
    abandon(store);
    let file = segments(&path).last().unwrap().clone();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let whole = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let store = Store::open(&path, options().accept_loss()).unwrap();
    put(&store, 0..3, 7);
    store.sync().unwrap();
    abandon(store);
    fs::write(&file, whole).unwrap();
    for open in [Store::open_read_only, Store::open, Store::open_read_only] {
        let store = open(path.as_path(), options()).unwrap();
        let absent = store.absent();
        assert_eq!(absent.iter().map(|a| a.file.as_str()).collect::<Vec<_>>(), [name.as_str()]);
        (0..3).for_each(|i| assert_eq!(store.get(&key(i)).unwrap().unwrap().body, body(i, 7)));
        store.close().unwrap();
    }
    // A repair reads it, and later puts are newer.
    let new = temp.path().join("new");
    Store::repair(&path, RepairTo::New(&new), &options(), &mut |_| ControlFlow::Continue(())).unwrap();
    let store = Store::open(&new, options()).unwrap();
    assert_eq!(store.keys().count(), 100);
    (0..3).for_each(|i| assert_eq!(store.get(&key(i)).unwrap().unwrap().body, body(i, 7)));
}

#[test]
fn a_reader_that_was_there_before_a_segment_went_makes_no_backup_without_it() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..200, 0);
    store.close().unwrap();
    for (nth, segment) in segments(&path).iter().enumerate() {
        let reader = Store::open_read_only(&path, options()).unwrap();
        let aside = temp.path().join("aside");
        fs::rename(segment, &aside).unwrap();
        let name = segment.file_name().unwrap().to_string_lossy().into_owned();
        let to = temp.path().join(format!("backup{nth}"));
        let backup = reader.backup(to, &BackupOptions::new(), &mut |_| ControlFlow::Continue(()));
        assert!(names(&backup.unwrap_err(), &name), "{name}");
        fs::rename(&aside, segment).unwrap();
    }
}

#[test]
fn a_merge_over_a_damaged_version_adds_that_one_and_none_of_the_others() {
    let temp = tempfile::tempdir().unwrap();
    let (path, to) = (temp.path().join("a"), temp.path().join("to"));
    let from = create(&path);
    (1..4).for_each(|version| put(&from, 0..1, version));
    from.checkpoint().unwrap();
    let merge = |to: &Store| {
        let merged = from.copy_to(to, CopyOptions::new(), &mut |_| ControlFlow::Continue(())).unwrap();
        (merged.versions, merged.already_there)
    };
    let target = Store::create(&to, options()).unwrap();
    assert_eq!(merge(&target), (3, 0));
    target.close().unwrap();
    // The head of the first of three adjacent records.
    let file = OpenOptions::new().write(true).open(to.join("value0.dat")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"rot", 64 + 8).unwrap();
    let target = Store::open(&to, options()).unwrap();
    assert_eq!(target.history_iter(&key(0)).filter(Result::is_err).count(), 1, "as this test takes for granted");
    assert_eq!(merge(&target), (1, 2));
    assert_eq!(merge(&target), (0, 3));
}

#[test]
fn an_erasure_names_files_that_nothing_reads() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    put(&store, 0..60, 1);
    store.close().unwrap();
    let file = OpenOptions::new().write(true).open(path.join("value0.dat")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"rot", 8).unwrap();
    fs::write(path.join("value9.dat.set-aside0"), b"text").unwrap();
    let what = crate::store::Erasure {
        keys: Arc::new(|found| found == key(1)),
        versions: Arc::new(|_, _| true),
        groups: Arc::new(|_| true),
    };
    for _ in 0..2 {
        let store = Store::open(&path, options().accept_loss()).unwrap();
        let erased = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
        let left: Vec<&str> = erased.left.iter().map(String::as_str).collect();
        assert!(["value0.dat", "value9.dat.set-aside0"].iter().all(|file| left.contains(file)), "{left:?}");
        store.close().unwrap();
    }
}
