//! Dictionaries that are missing, empty or cut short: error reports, refusals, accepted losses.

use std::fs::{self, OpenOptions};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::Erasure;
use crate::store::tests::trained::{check, create, key, make, open, options, put, temp, trained};
use crate::store::{BackupOptions, CopyOptions};
use crate::sync::primitive::Ordering;
use crate::upkeep::check::VerifyOptions;
use crate::upkeep::repair::RepairTo;
use crate::{Error, StorageError, Store};

const FILE: &str = "dict1.zdict";

/// Ways to lose a dictionary's file.
const WAYS: [fn(&Path); 6] = [
    |file| fs::remove_file(file).unwrap(),
    |file| cut(file, 0),
    |file| cut(file, 63),
    |file| cut(file, 512),
    // Keep the first copy without its last bytes.
    |file| cut(file, fs::metadata(file).unwrap().len() / 2 - 100),
    |file| fs::write(file, vec![7; fs::metadata(file).unwrap().len() as usize]).unwrap(),
];

fn cut(file: &Path, len: u64) {
    OpenOptions::new().write(true).open(file).unwrap().set_len(len).unwrap();
}

/// Drops a handle as a kill would.
fn abandon(store: Store) {
    store.reading.closed().store(true, Ordering::Release);
}

/// Names of missing files that are still needed.
fn missed(store: &Store) -> Vec<String> {
    store.absent().into_iter().filter(|a| a.is_missed()).map(|a| a.file).collect()
}

fn names_it<T: std::fmt::Debug>(result: &crate::Result<T>) -> bool {
    matches!(result, Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == FILE)
}

fn back_up(store: &Store, to: &Path) -> crate::Result<crate::upkeep::backup::BackedUp> {
    store.backup(to, &BackupOptions::new(), &mut |_| ControlFlow::Continue(()))
}

fn read_only(path: &Path) -> Store {
    Store::open_read_only(path, options()).unwrap()
}

/// A store killed before a checkpoint saw any record that names the dictionary.
fn killed(path: &Path) -> PathBuf {
    abandon(trained(path, options()));
    path.join(FILE)
}

#[test]
fn without_one_of_its_dictionaries_a_store_is_read_as_far_as_it_can_be_and_the_file_is_named() {
    for way in WAYS {
        let (temp, path) = temp();
        let file = killed(&path);
        let whole = fs::read(&file).unwrap();
        way(&file);
        let reader = read_only(&path);
        assert_eq!(missed(&reader), [FILE]);
        assert!(reader.absent()[0].is_dictionary());
        check(&reader, "a", 0..50);
        assert!(names_it(&reader.get(&key("a", 60))));
        assert_eq!(reader.keys().map(Result::unwrap).count(), 100, "no key is lost");
        assert_eq!(reader.pages().filter(Result::is_err).count(), 50, "each that needs it is reported");
        assert!(
            !reader
                .verify_with(&VerifyOptions::new().quick(), &mut |_| ControlFlow::Continue(()))
                .unwrap()
                .problems
                .is_empty()
        );
        assert!(names_it(&back_up(&reader, &temp.path().join("backup"))));
        drop(reader);
        assert!(names_it(&Store::open(&path, options())));
        let store = open(&path, options().accept_loss());
        assert!(store.absent()[0].is_accepted && missed(&store) == [FILE]);
        check(&store, "a", 0..50);
        put(&store, "a", 100..110);
        store.close().unwrap();
        // The loss is known from then on.
        let store = open(&path, options());
        assert!(store.absent()[0].is_accepted && missed(&store) == [FILE]);
        check(&store, "a", 100..110);
        assert!(names_it(&store.get(&key("a", 60))));
        back_up(&store, &temp.path().join("backup")).unwrap();
        store.close().unwrap();
        assert_eq!(read_only(&temp.path().join("backup")).absent().len(), 1);
        // Bring the file back.
        fs::write(&file, whole).unwrap();
        back_up(&read_only(&path), &temp.path().join("whole")).unwrap();
        check(&read_only(&temp.path().join("whole")), "a", 0..110);
        let store = open(&path, options());
        assert_eq!(store.absent(), []);
        check(&store, "a", 0..110);
        store.close().unwrap();
        // Its loss is reported again like any other.
        way(&file);
        assert!(names_it(&Store::open(&path, options())));
    }
}

#[test]
fn a_cut_that_leaves_one_copy_loses_nothing() {
    let (_temp, path) = temp();
    let file = killed(&path);
    cut(&file, fs::metadata(&file).unwrap().len() / 2 + 700);
    let store = open(&path, options());
    assert_eq!(store.absent(), []);
    check(&store, "a", 0..100);
    assert_eq!(store.verify().unwrap().problems.len(), 1);
}

#[test]
fn a_dictionary_that_goes_while_its_store_is_open_is_missed_by_checkpoint_and_backup() {
    let (temp, path) = temp();
    let store = trained(&path, options());
    let aside = temp.path().join("aside");
    let reader = read_only(&path);
    for (nth, handle) in [&reader, &store].into_iter().enumerate() {
        fs::rename(path.join(FILE), &aside).unwrap();
        assert!(names_it(&back_up(handle, &temp.path().join(format!("backup{nth}")))));
        fs::rename(&aside, path.join(FILE)).unwrap();
    }
    drop(store);
    let store = open(&path, options());
    put(&store, "a", 100..101);
    fs::rename(path.join(FILE), &aside).unwrap();
    assert!(names_it(&store.checkpoint()));
    assert!(names_it(&store.close()) || !path.join(FILE).exists());
}

#[test]
fn a_copy_tells_of_every_version_that_it_cannot_expand() {
    let (temp, path) = temp();
    let file = killed(&path);
    fs::remove_file(file).unwrap();
    let to = create(&temp.path().join("to"), options());
    let mut told = 0;
    let copied = read_only(&path)
        .copy_to(&to, CopyOptions::new(), &mut |event| {
            told += u32::from(matches!(event, crate::store::CopyEvent::Damaged(_)));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(copied.versions, 50);
    assert!(told >= 50 && copied.damaged == u64::from(told), "{told} {copied:?}");
}

#[test]
fn what_adopts_dictionaries_names_them_before_it_uses_them() {
    let (temp, path) = temp();
    let from = trained(&path, options());
    let other = temp.path().join("to");
    let to = create(&other, options());
    from.copy_to(&to, CopyOptions::new(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(to.stats().dictionary_records > 0, "as this test takes for granted");
    to.sync().unwrap();
    abandon(to);
    fs::remove_file(other.join(FILE)).unwrap();
    assert_eq!(missed(&read_only(&other)), [FILE]);
}

#[test]
fn a_repair_tells_of_a_dictionary_that_no_record_names() {
    let (temp, path) = temp();
    let store = create(&path, options());
    make(&store, "b");
    store.close().unwrap();
    for in_place in [false, true] {
        let _ = fs::remove_file(path.join(FILE));
        let new = temp.path().join("new");
        let to = if in_place { RepairTo::InPlace } else { RepairTo::New(&new) };
        let report = Store::repair(&path, to, &options(), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.losses.iter().map(|l| l.file.as_str()).collect::<Vec<_>>(), [FILE]);
        let repaired = open(if in_place { &path } else { &new }, options());
        assert_eq!(repaired.absent(), []);
        make(&repaired, "c");
        assert_eq!(repaired.dictionaries()[0].id, 2, "its number is given to no other");
    }
}

/// A store opened accepting the loss of its dictionary, and the file's bytes.
fn accepted(path: &Path) -> (Store, Vec<u8>) {
    let file = killed(path);
    let whole = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    (open(path, options().accept_loss()), whole)
}

#[test]
fn a_dictionary_that_is_put_back_under_an_open_handle_is_missed_again_when_it_goes() {
    let (_temp, path) = temp();
    let (store, whole) = accepted(&path);
    fs::write(path.join(FILE), whole).unwrap();
    check(&store, "a", 0..100);
    store.checkpoint().unwrap();
    put(&store, "a", 100..110);
    store.checkpoint().unwrap();
    abandon(store);
    fs::remove_file(path.join(FILE)).unwrap();
    assert!(!read_only(&path).absent()[0].is_accepted);
    assert!(names_it(&Store::open(&path, options())));
}

#[test]
fn the_number_of_a_lost_dictionary_is_not_given_to_that_of_another_store() {
    let (temp, path) = temp();
    let (store, whole) = accepted(&path);
    store.close().unwrap();
    let new = temp.path().join("new");
    Store::repair(&path, RepairTo::New(&new), &options(), &mut |_| ControlFlow::Continue(())).unwrap();
    let other = create(&temp.path().join("other"), options());
    put(&other, "b", 0..50);
    make(&other, "b");
    put(&other, "b", 50..100);
    for path in [&path, &new] {
        let store = open(path, options());
        assert_eq!(missed(&store), [FILE]);
        other.copy_to(&store, CopyOptions::new(), &mut |_| ControlFlow::Continue(())).unwrap();
        check(&store, "b", 0..100);
        assert!((50..100).all(|i| names_it(&store.get(&key("a", i)))), "never another's text");
        store.close().unwrap();
        fs::write(path.join(FILE), &whole).unwrap();
        let store = open(path, options());
        check(&store, "a", 0..100);
        check(&store, "b", 0..100);
    }
}

fn erasure() -> Erasure {
    Erasure {
        keys: Arc::new(|found| found == key("a", 3)),
        versions: Arc::new(|_, _| true),
        groups: Arc::new(|_| true),
    }
}

#[test]
fn an_erasure_ends_beside_a_damaged_dictionary_that_nothing_needs() {
    let (_temp, path) = temp();
    let store = create(&path, options());
    make(&store, "b");
    store.close().unwrap();
    cut(&path.join(FILE), 100);
    let store = open(&path, options().accept_loss());
    put(&store, "a", 0..20);
    let erased = store.erase(&erasure(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(erased.is_complete() && erased.dictionaries == [1], "{erased:?}");
    assert!(!path.join(FILE).exists());
    store.close().unwrap();
    assert_eq!(read_only(&path).absent(), []);
}

#[test]
fn a_dictionary_that_was_erased_is_missed_by_no_reader_and_not_removed_under_a_backup() {
    let (_temp, path) = temp();
    let store = trained(&path, options());
    let reader = read_only(&path);
    check(&reader, "a", 0..100);
    let (held, ..) = store.upkeep().unwrap().hold().unwrap();
    assert!(!store.upkeep().unwrap().remove_dictionaries(&[1].into()).unwrap() && path.join(FILE).exists());
    drop(held);
    let erased = store.erase(&erasure(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(erased.is_complete() && erased.dictionaries == [1], "{erased:?}");
    assert_eq!(reader.verify().unwrap().problems, []);
    assert_eq!(reader.absent(), []);
    check(&reader, "a", 4..100);
}

#[test]
fn an_erasure_keeps_and_names_a_dictionary_that_records_need_which_cannot_be_read() {
    let gone: fn(&Path) = |file| fs::remove_file(file).unwrap();
    let cut_short: fn(&Path) = |file| cut(file, 100);
    for way in [gone, cut_short] {
        let (_temp, path) = temp();
        let file = killed(&path);
        let whole = fs::read(&file).unwrap();
        way(&file);
        let store = open(&path, options().accept_loss());
        for _ in 0..2 {
            let erased = store.erase(&erasure(), &mut |_| ControlFlow::Continue(())).unwrap();
            assert!(!erased.is_complete() && erased.dictionaries.is_empty(), "{erased:?}");
            assert_eq!(erased.left.iter().filter(|name| *name == FILE).count(), 1, "{erased:?}");
        }
        assert_eq!(missed(&store), [FILE]);
        assert!(!store.verify().unwrap().problems.is_empty());
        store.close().unwrap();
        // Bring the file back: all records that needed it are readable, and the erasure ends.
        fs::write(&file, whole).unwrap();
        let store = open(&path, options());
        check(&store, "a", 50..100);
        let erased = store.erase(&erasure(), &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(erased.is_complete() && erased.dictionaries.contains(&1), "{erased:?}");
        assert!(!file.exists());
        check(&store, "a", 50..100);
        assert_eq!(store.verify().unwrap().problems, []);
    }
}

#[test]
fn a_dictionary_that_no_segment_table_names_is_missed_by_whoever_reads_what_needs_it() {
    let (_temp, path) = temp();
    let store = trained(&path, options());
    // The state after an erasure by an earlier version.
    assert!(store.upkeep().unwrap().remove_dictionaries(&[1].into()).unwrap());
    let told = |store: &Store| {
        let problems = store.verify().unwrap().problems;
        assert!(problems.iter().any(|p| p.file == FILE && p.what.contains("50 records")), "{problems:?}");
    };
    store.close().unwrap();
    told(&read_only(&path));
    told(&open(&path, options()));
}

#[test]
fn a_dictionary_that_cannot_be_opened_is_absent_and_takes_back_no_accepted_loss() {
    let (_temp, path) = temp();
    let (store, _) = accepted(&path);
    store.close().unwrap();
    fs::create_dir(path.join(FILE)).unwrap();
    assert_eq!(missed(&read_only(&path)), [FILE]);
    let store = open(&path, options());
    assert!(store.absent()[0].is_accepted && missed(&store) == [FILE]);
    assert!(store.get(&key("a", 60)).is_err());
    store.close().unwrap();
    fs::remove_dir(path.join(FILE)).unwrap();
    // The loss is still accepted.
    assert!(open(&path, options()).absent()[0].is_accepted);
}

#[test]
fn a_reader_knows_which_dictionaries_are_used() {
    let (_temp, path) = temp();
    let store = create(&path, options());
    let early = read_only(&path);
    put(&store, "a", 0..50);
    make(&store, "a");
    early.refresh().unwrap();
    for reader in [early, read_only(&path)] {
        assert_eq!(reader.dictionaries().iter().map(|d| d.is_current).collect::<Vec<_>>(), [true]);
    }
}

#[test]
fn what_is_no_file_in_a_dictionarys_place_counts_as_gone_and_what_needs_it_is_named() {
    let (temp, path) = temp();
    let file = killed(&path);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let reader = read_only(&path);
    assert_eq!(missed(&reader), [FILE]);
    assert_eq!(reader.pages().filter(|page| matches!(page, Err(e) if e.is_corrupt())).count(), 50);
    let report = reader.verify_with(&VerifyOptions::new(), &mut |_| ControlFlow::Continue(())).unwrap();
    let problem = report.problems.iter().find(|problem| problem.file == FILE && !problem.keys.is_empty()).unwrap();
    assert_eq!(problem.keys, (50..100).map(|n| key("a", n)).collect::<Vec<_>>());
    let to = create(&temp.path().join("copy"), options());
    let copied = reader.copy_to(&to, CopyOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((copied.versions, copied.damaged), (50, 50), "{copied:?}");
}
