//! Opening a store with files that a crash, bit rot or a stranger left.

use crate::moment;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filemap_core::recovery::RecoveryReport;
use filemap_core::{Error, Event, Options, Record, StorageError, Store};

/// Without compaction, which runs checkpoints now and then to find dead bytes.
fn options() -> Options {
    Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10).free_space_floor(0).space_bound(None)
}

fn key(i: u32) -> Vec<u8> {
    format!("http://example.com/{i}").into_bytes()
}

fn body(i: u32) -> Vec<u8> {
    (0..500 + i % 700).map(|j| (i.wrapping_mul(j + 7) >> 3) as u8).collect()
}

fn put(store: &Store, range: std::ops::Range<u32>) {
    for i in range {
        store.put(&Record::new(&key(i), &body(i)).time(i64::from(i))).unwrap();
    }
}

/// Copies the files as a kill would leave them now.
fn copy(from: &Path, to: PathBuf) -> PathBuf {
    moment::copy(from, &to);
    to
}

fn open(path: &Path) -> (Store, RecoveryReport) {
    let report = Arc::new(Mutex::new(None));
    let sink = Arc::clone(&report);
    let store = Store::open(
        path,
        options().on_event(move |event| {
            if let Event::Recovered(r) = event {
                *sink.lock().unwrap() = Some(r.clone());
            }
        }),
    );
    let report = report.lock().unwrap().clone();
    (store.unwrap(), report.expect("every opening reports its recovery"))
}

fn segment(path: &Path, id: u32) -> fs::File {
    fs::OpenOptions::new().read(true).write(true).open(path.join(format!("value{id}.dat"))).unwrap()
}

#[test]
fn a_kill_loses_nothing_that_put_returned() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    put(&store, 0..3000); // several segments
    let (again, report) = open(&copy(store.path(), temp.path().join("b")));
    assert_eq!((report.replayed_records, report.skipped_bytes, report.truncated_bytes), (3000, 0, 0));
    for i in 0..3000 {
        assert_eq!(again.get(&key(i)).unwrap().unwrap().body, body(i));
    }
    assert!(again.verify().unwrap().problems.is_empty());
}

#[test]
fn a_torn_tail_is_cut_off_and_a_hole_is_covered_and_both_only_once() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    put(&store, 0..10);
    store.checkpoint().unwrap();
    put(&store, 10..20);
    let place = |i| store.head(&key(i)).unwrap().unwrap().place;
    let path = copy(store.path(), temp.path().join("b"));
    let file = segment(&path, 0);
    let (hole, tail) = (place(14), place(19));
    file.write_all_at(&[0; 300], hole.offset).unwrap(); // a sector that never got there
    file.set_len(tail.offset + 100).unwrap(); // half a record
    let (again, report) = open(&path);
    assert_eq!(report.replayed_records, 8);
    assert_eq!(report.skipped_bytes, place(15).offset - hole.offset);
    assert_eq!(report.truncated_bytes, 100);
    for i in 0..20 {
        let value = again.get(&key(i)).unwrap().map(|v| v.body);
        assert_eq!(value, (i != 14 && i != 19).then(|| body(i)), "{i}");
    }
    put(&again, 20..25);
    again.close().unwrap();
    let (third, report) = open(&path);
    assert_eq!(report.replayed_records, 0);
    assert!(third.verify().unwrap().problems.is_empty());
    assert_eq!(third.keys().count(), 23);
}

#[test]
fn damage_below_the_checkpoint_costs_its_record_and_nothing_after_it() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    put(&store, 0..50);
    let place = store.head(&key(20)).unwrap().unwrap().place;
    let path = store.path().to_owned();
    store.close().unwrap();
    segment(&path, 0).write_all_at(b"rot", place.offset + 200).unwrap();
    let (store, _) = open(&path);
    for i in 0..50 {
        match store.get(&key(i)) {
            Ok(value) => assert_eq!((value.unwrap().body, i != 20), (body(i), true)),
            Err(Error::Storage(StorageError::Corrupt { file, offset, .. })) => {
                assert_eq!((file.as_str(), offset, i), ("value0.dat", place.offset, 20));
            }
            Err(e) => panic!("{e}"),
        }
    }
    let problems = store.verify().unwrap().problems;
    assert!(problems.iter().any(|p| p.file == "value0.dat" && p.offset == place.offset), "{problems:?}");
    assert_eq!(store.pages().filter(Result::is_ok).count(), 49);
    assert_eq!(store.pages().filter(Result::is_err).count(), 1);
}

#[test]
fn a_list_of_chunks_counts_only_when_all_of_them_are_there() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let mut x = 1u64;
    let mut random = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    let noise: Vec<u8> = (0..300_000).map(|_| random()).collect();
    store.put(&Record::new(b"large", b"old")).unwrap();
    store.put(&Record::new(b"large", &noise)).unwrap();
    store.put(&Record::new(b"after", b"x")).unwrap();
    let path = copy(store.path(), temp.path().join("b"));
    segment(&path, 0).write_all_at(&[0; 64], 70_000).unwrap();
    let (again, report) = open(&path);
    assert!(again.get(b"large").unwrap().unwrap().body == b"old");
    assert_eq!(again.get(b"after").unwrap().unwrap().body, b"x");
    assert!(report.skipped_bytes > 0);
    drop(again);
    let (again, report) = open(&path);
    assert!(again.get(b"large").unwrap().unwrap().body == b"old");
    assert_eq!(report.skipped_bytes, 0);
    assert!(again.verify().unwrap().problems.is_empty());
}

#[test]
fn a_reference_counts_only_when_the_body_that_it_names_is_there() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    store.put(&Record::new(b"k", b"synced").time(1)).unwrap();
    store.checkpoint().unwrap();
    store.put(&Record::new(b"k", b"lost").time(2)).unwrap();
    let lost = store.head(b"k").unwrap().unwrap().place;
    store.put_if_changed(&Record::new(b"k", b"lost").time(3)).unwrap();
    store.put_if_changed(&Record::new(b"k2", b"kept").time(3)).unwrap();
    store.put_if_changed(&Record::new(b"k2", b"kept").time(4)).unwrap();
    let path = copy(store.path(), temp.path().join("b"));
    segment(&path, 0).write_all_at(&[0; 64], lost.offset).unwrap();
    let (again, _) = open(&path);
    assert_eq!(again.get(b"k").unwrap().unwrap().body, b"synced");
    assert_eq!(again.get(b"k2").unwrap().unwrap().body, b"kept");
    assert_eq!(again.history(b"k2").unwrap().len(), 2);
    again.put_if_changed(&Record::new(b"k", b"lost").time(5)).unwrap();
    assert_eq!(again.get(b"k").unwrap().unwrap().body, b"lost");
    assert!(again.verify().unwrap().problems.is_empty());
}

#[test]
fn a_segment_whose_creation_was_cut_short_is_no_segment() {
    for unborn in [&[0; 64][..], &[0; 10], &[]] {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a");
        let store = Store::create(&path, options()).unwrap();
        put(&store, 0..10);
        store.close().unwrap();
        fs::write(path.join("value1.dat"), unborn).unwrap();
        let (store, _) = open(&path);
        put(&store, 10..3000);
        assert_eq!(store.head(&key(2999)).unwrap().map(|h| h.place.segment > 0), Some(true));
        assert!(store.verify().unwrap().problems.is_empty());
    }
}

#[test]
fn a_reader_sees_what_follows_when_the_first_record_of_a_segment_was_cut_short() {
    let temp = tempfile::tempdir().unwrap();
    let live = temp.path().join("live");
    let store = Store::create(&live, options().compression_level(0)).unwrap();
    let mut last = 0;
    while segment(&live, 0).metadata().unwrap().len() < (1 << 20) - (4 << 10) {
        put(&store, last..last + 1);
        last += 1;
    }
    // The next record does not fit into the rest, a small one would.
    let large = vec![7; 60_000];
    store.put(&Record::new(b"large", &large).time(1)).unwrap();
    let path = copy(&live, temp.path().join("killed"));
    let second = segment(&path, 1);
    assert!(second.metadata().unwrap().len() > 30_000, "the record that did not fit went to the next segment");
    second.set_len(20_000).unwrap();
    let reader = Store::open_read_only(&path, options()).unwrap();
    assert_eq!(reader.get(b"large").unwrap(), None);
    let (writer, _) = open(&path);
    writer.put(&Record::new(b"small", b"fits").time(1)).unwrap();
    assert_eq!(writer.head(b"small").unwrap().unwrap().place.segment, 0);
    reader.refresh().unwrap();
    assert_eq!(reader.get(b"small").unwrap().unwrap().body, b"fits");
    put(&writer, last..last + 100);
    assert_eq!(writer.head(&key(last + 99)).unwrap().unwrap().place.segment, 1);
    reader.refresh().unwrap();
    assert_eq!(reader.get(&key(last + 99)).unwrap().unwrap().body, body(last + 99));
    store.close().unwrap();
}

#[test]
fn a_store_whose_creation_was_cut_short_is_created_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    Store::create(&path, options()).unwrap().close().unwrap();
    fs::rename(path.join("SUPERBLOCK"), path.join("SUPERBLOCK.new")).unwrap();
    assert!(matches!(Store::open(&path, options()), Err(Error::NotAStore { .. })));
    let store = Store::open_or_create(&path, options()).unwrap();
    put(&store, 0..3);
    store.close().unwrap();
    // A store that holds a page is not taken for a creation that was cut short.
    fs::remove_file(path.join("SUPERBLOCK")).unwrap();
    assert!(matches!(Store::create(&path, options()), Err(Error::NotEmpty { .. })));
}

#[test]
fn a_key_log_that_was_cut_off_is_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    put(&store, 0..10);
    store.close().unwrap();
    let len = fs::metadata(path.join("key0.dat")).unwrap().len();
    fs::OpenOptions::new().write(true).open(path.join("key0.dat")).unwrap().set_len(len - 16).unwrap();
    assert!(
        matches!(Store::open(&path, options()), Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == "key0.dat")
    );
}

#[test]
fn a_rotten_key_record_does_not_keep_later_checkpoints_from_finishing() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for time in 0..3 {
        store.put(&Record::new(b"k", &[time as u8]).time(time)).unwrap();
    }
    store.checkpoint().unwrap();
    store.put(&Record::new(b"k", b"newest").time(9)).unwrap();
    let path = copy(store.path(), temp.path().join("b"));
    let file = fs::OpenOptions::new().write(true).open(path.join("key0.dat")).unwrap();
    file.write_all_at(b"rot", 64 + 64 + 20).unwrap(); // the second record of the chain
    let (again, _) = open(&path);
    again.checkpoint().unwrap();
    assert_eq!(again.get(b"k").unwrap().unwrap().body, b"newest");
    assert!(again.history(b"k").unwrap_err().is_corrupt());
    assert!(!again.verify().unwrap().problems.is_empty());
}

#[test]
fn a_checkpoint_that_panics_stops_writes_and_loses_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let sink = |event: &Event| assert!(!matches!(event, Event::CheckpointStarted { .. }), "the sink fails on purpose");
    let store = Store::create(&path, options().on_event(sink)).unwrap();
    put(&store, 0..100);
    let checkpoint = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| store.checkpoint()));
    assert!(checkpoint.is_err());
    assert!(matches!(store.put(&Record::new(b"k", b"v")), Err(Error::Storage(StorageError::Poisoned { .. }))));
    assert!(matches!(store.checkpoint(), Err(Error::Storage(StorageError::Poisoned { .. }))));
    assert_eq!(store.get(&key(50)).unwrap().unwrap().body, body(50));
    assert!(matches!(store.close(), Err(Error::Storage(StorageError::Poisoned { .. }))));
    let (again, report) = open(&path);
    assert_eq!(report.replayed_records, 100);
    assert_eq!(again.keys().count(), 100);
}

#[test]
fn any_flipped_byte_gives_the_right_page_or_an_error_and_verify_finds_it() {
    let temp = tempfile::tempdir().unwrap();
    let origin = temp.path().join("a");
    let store = Store::create(&origin, options()).unwrap();
    for i in 0..6 {
        store.put(&Record::new(&key(i), &body(i)).time(5).meta(&[i as u8; 200])).unwrap();
    }
    store.put(&Record::new(&key(0), b"newer").time(9)).unwrap();
    store.remove(&key(1)).unwrap();
    store.close().unwrap();
    let expected = |i: u32| match i {
        0 => Some(b"newer".to_vec()),
        1 => None,
        i => Some(body(i)),
    };
    let mut detected = 0;
    let mut harmless = 0;
    for name in ["SUPERBLOCK", "key0.dat", "address.idx", "value0.dat"] {
        let bytes = fs::read(origin.join(name)).unwrap();
        for at in (0..bytes.len()).step_by(if bytes.len() > 8192 { 97 } else { 5 }) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x41;
            fs::write(origin.join(name), &bad).unwrap();
            let found = match Store::open_read_only(&origin, options()) {
                Err(e) => {
                    assert!(
                        matches!(e, Error::Storage(StorageError::Corrupt { .. }) | Error::NotAStore { .. }),
                        "{name} {at}: {e}"
                    );
                    true
                }
                Ok(store) => {
                    let mut found = false;
                    for i in 0..7 {
                        match store.get(&key(i)) {
                            Ok(v) => {
                                assert_eq!(v.map(|v| v.body), if i < 6 { expected(i) } else { None }, "{name} {at}")
                            }
                            Err(e) => {
                                assert!(e.is_corrupt(), "{e}");
                                found = true;
                            }
                        }
                        let _ = store.history(&key(i));
                    }
                    let report = store.verify().unwrap();
                    assert!(!found || !report.problems.is_empty(), "{name} {at}: verify missed it");
                    !report.problems.is_empty()
                }
            };
            if found { detected += 1 } else { harmless += 1 }
        }
        fs::write(origin.join(name), &bytes).unwrap();
    }
    // Only padding, unused pages and the gap between the superblock's copies may change unnoticed.
    assert!(detected > 4 * harmless || harmless < 4000, "{detected} detected, {harmless} harmless");
    assert!(detected > 500, "{detected}");
}

#[test]
fn strangers_are_refused_and_left_as_they_are() {
    let temp = tempfile::tempdir().unwrap();
    let is_no_store = |path: &Path| {
        for result in [Store::open(path, options()), Store::open_read_only(path, options())] {
            assert!(matches!(result, Err(Error::NotAStore { .. })), "{path:?}: {result:?}");
        }
    };
    is_no_store(&temp.path().join("absent"));
    let empty = temp.path().join("empty");
    fs::create_dir(&empty).unwrap();
    is_no_store(&empty);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "no lock file is left behind");
    let foreign = temp.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    for name in ["SUPERBLOCK", "key0.dat", "readme.txt"] {
        fs::write(foreign.join(name), b"not yours").unwrap();
    }
    is_no_store(&foreign);
    assert!(matches!(Store::create(&foreign, options()), Err(Error::NotEmpty { .. })));
    assert_eq!(fs::read(foreign.join("SUPERBLOCK")).unwrap(), b"not yours");
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 3);
    is_no_store(&foreign.join("readme.txt"));
}

#[test]
fn missing_files_are_named() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    put(&store, 0..3000);
    store.checkpoint().unwrap();
    let origin = store.path().to_owned();
    store.close().unwrap();
    for (i, name) in ["key0.dat", "address.idx", "value0.dat", "value1.dat"].into_iter().enumerate() {
        let path = copy(&origin, temp.path().join(format!("c{i}")));
        fs::remove_file(path.join(name)).unwrap();
        match Store::open(&path, options()) {
            Err(Error::Storage(StorageError::Corrupt { file, .. })) => assert_eq!(file, name),
            Err(e) => panic!("{name}: {e}"),
            Ok(store) => {
                let errors = (0..3000).filter_map(|i| store.get(&key(i)).err()).collect::<Vec<_>>();
                assert!(!errors.is_empty() && errors.iter().all(|e| e.to_string().contains(name)), "{name}");
            }
        }
    }
}

#[test]
fn a_store_of_a_newer_format_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let path = store.path().to_owned();
    store.close().unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(path.join("SUPERBLOCK")).unwrap();
    for copy in [0, 4096] {
        let mut b = [0; 512];
        file.read_exact_at(&mut b, copy).unwrap();
        b[12] = 2;
        let crc = crc32fast::hash(&b[12..]);
        b[8..12].copy_from_slice(&crc.to_le_bytes());
        file.write_all_at(&b, copy).unwrap();
    }
    assert!(matches!(
        Store::open(&path, options()),
        Err(Error::Storage(StorageError::NewerFormat { found: 2, supported: 1, .. }))
    ));
}

#[test]
fn a_second_writer_is_refused_at_once_and_readers_are_not() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let pid = Some(std::process::id());
    assert!(
        matches!(Store::open(store.path(), options()), Err(Error::Storage(StorageError::Locked { pid: p, .. })) if p == pid)
    );
    let reader = Store::open_read_only(store.path(), options()).unwrap();
    assert!(matches!(reader.put(&Record::new(b"k", b"v")), Err(Error::ReadOnly)));
    assert!(matches!(reader.remove(b"k"), Err(Error::ReadOnly)));
    let (clone, path) = (store.clone(), store.path().to_owned());
    store.close().unwrap();
    assert!(matches!(clone.put(&Record::new(b"k", b"v")), Err(Error::Closed)));
    assert!(matches!(clone.get(b"k"), Err(Error::Closed)));
    Store::open(path, options()).unwrap();
}

#[test]
fn limits_are_checked_before_anything_is_written() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let long = vec![b'k'; 65_536];
    store.put(&Record::new(&long, b"v").meta(&long)).unwrap();
    assert_eq!(store.get(&long).unwrap().unwrap().head.meta, long);
    let before = store.stats().value_bytes;
    let longer = vec![b'k'; 65_537];
    assert!(matches!(store.put(&Record::new(&longer, b"v")), Err(Error::KeyLength { len: 65_537 })));
    assert!(matches!(store.put(&Record::new(b"", b"v")), Err(Error::KeyLength { len: 0 })));
    assert!(matches!(store.put(&Record::new(b"k", b"v").meta(&longer)), Err(Error::MetaTooLarge { len: 65_537 })));
    assert_eq!(store.stats().value_bytes, before);
    for weird in [&b"\0"[..], b"\xff\xfe", b"../../x", b" "] {
        store.put(&Record::new(weird, weird)).unwrap();
        assert_eq!(store.get(weird).unwrap().unwrap().body, weird);
    }
    store.checkpoint().unwrap();
    assert_eq!(store.get(&long).unwrap().unwrap().body, b"v");
}

#[test]
fn below_the_free_space_floor_puts_stop_and_the_rest_goes_on() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    put(&store, 0..5);
    store.close().unwrap();
    let store = Store::open(&path, options().free_space_floor(u64::MAX)).unwrap();
    assert!(matches!(store.put(&Record::new(b"k", b"v")), Err(Error::NoSpace { .. })));
    assert_eq!(store.get(&key(3)).unwrap().unwrap().body, body(3));
    assert!(store.remove(&key(3)).unwrap());
    store.checkpoint().unwrap();
    assert_eq!(store.get(&key(3)).unwrap(), None);
}

#[test]
fn another_canonicaliser_is_refused_with_advice() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options().canonicalizer("whatwg", 1)).unwrap();
    assert_eq!(store.canonicalizer().to_string(), "whatwg version 1");
    store.close().unwrap();
    let error = Store::open(&path, options().canonicalizer("whatwg", 2)).unwrap_err();
    assert!(matches!(error, Error::Canonicalizer { .. }) && error.to_string().contains("dump it and load it"));
    Store::open(&path, options().canonicalizer("whatwg", 1)).unwrap().close().unwrap();
    Store::open(&path, options()).unwrap();
}

#[test]
fn an_empty_store_is_small_and_files_are_the_owners_only() {
    use std::os::unix::fs::PermissionsExt;
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    assert!(store.stats().disk_bytes < 1 << 20, "{}", store.stats().disk_bytes);
    assert_eq!(fs::metadata(store.path()).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(store.path()).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_list_tells_damage_and_names_every_key_that_can_still_be_told() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    put(&store, 0..200);
    store.close().unwrap();
    // A key record is damaged: its key is found in the value record.
    let name = path.join("key0.dat");
    let whole = fs::read(&name).unwrap();
    let mut bad = whole.clone();
    bad[2000] ^= 0x55;
    fs::write(&name, &bad).unwrap();
    let (store, _) = open(&path);
    let mut keys: Vec<Vec<u8>> = store.keys().map(Result::unwrap).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 200);
    // A page with such a record can be put again, and removed.
    let hit = (0..200).find(|i| store.history(&key(*i)).is_err()).unwrap();
    assert!(store.remove(&key(hit)).unwrap());
    store.checkpoint().unwrap();
    assert_eq!(store.get(&key(hit)).unwrap(), None);
    assert_eq!(store.keys().count(), 199);
    store.close().unwrap();
    fs::write(&name, &whole).ok();

    // An index page is damaged: the keys of all other pages are listed, and one error.
    let path = temp.path().join("b");
    let store = Store::create(&path, options()).unwrap();
    put(&store, 0..200);
    store.close().unwrap();
    let file = fs::OpenOptions::new().write(true).open(path.join("address.idx")).unwrap();
    file.write_all_at(b"rot", 4096 + 20).unwrap();
    for store in [open(&path).0, Store::open_read_only(&path, options()).unwrap()] {
        let listed: Vec<Result<Vec<u8>, Error>> = store.keys().collect();
        assert_eq!(listed.iter().filter(|k| k.is_err()).count(), 1);
        assert!(listed.iter().filter(|k| k.is_ok()).count() > 150);
        let told = listed.iter().find_map(|k| k.as_ref().err()).unwrap().to_string();
        assert!(told.contains("address.idx is damaged at offset 4096"), "{told}");
    }
    // A damaged body is put again as a new one, whatever its digest was.
    let path = temp.path().join("c");
    let store = Store::create(&path, options()).unwrap();
    put(&store, 0..2);
    let place = store.head(&key(1)).unwrap().unwrap().place;
    store.close().unwrap();
    segment(&path, 0).write_all_at(b"rot", place.offset + 20).unwrap();
    let (store, _) = open(&path);
    assert!(store.get(&key(1)).unwrap_err().is_corrupt());
    let put = store.put_if_changed(&Record::new(&key(1), &body(1)).time(1)).unwrap();
    assert!(matches!(put, filemap_core::Put::Stored(_)));
    assert_eq!(store.get(&key(1)).unwrap().unwrap().body, body(1));
}
