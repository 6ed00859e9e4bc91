//! The lettered cases of docs/RECOVERY.md, each made by hand on a simulated disk, and bugs of
//! earlier versions.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use filemap_core::list::{Direction, KeyOrder, KeyRange};
use filemap_core::prune::PruneRule;
use filemap_core::recovery::RecoveryReport;
use filemap_core::sim::{self, Fault as Planted, Limits};
use filemap_core::{Error, Event, Options, Record, StorageError, Store};
use filemap_io::sim::{Failure, Fault, Level, Loss, SimDisk};

/// Bytes of a segment's header.
const HEADER: usize = 64;

type Reports = Arc<Mutex<Vec<RecoveryReport>>>;

fn options() -> Options {
    let limits =
        Limits { leaf_slots: 2, stage_pages: 1, flush_pages: 1, flush_key_bytes: 1, map_pages: 1, ..Limits::default() };
    crate::with_limits(limits)
}

/// A store with one page that a checkpoint has merged, and its disk.
fn fresh() -> (SimDisk, Store) {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options()).unwrap();
    put(&store, "old", 100);
    store.checkpoint().unwrap();
    (disk, store)
}

fn body(key: &str, bytes: usize) -> Vec<u8> {
    key.bytes().cycle().take(bytes).collect()
}

fn put(store: &Store, key: &str, bytes: usize) {
    store.put(&Record::new(key.as_bytes(), &body(key, bytes)).time(5)).unwrap();
}

#[track_caller]
fn has(store: &Store, key: &str, bytes: usize) {
    assert!(
        store.get(key.as_bytes()).unwrap().is_some_and(|v| v.body == body(key, bytes)),
        "{key} is not as it was put"
    );
}

/// Opens a disk, and what its recovery reported.
fn open(disk: &SimDisk) -> (Store, RecoveryReport) {
    let reports: Reports = Arc::default();
    let sink = Arc::clone(&reports);
    let options = options().on_event(move |e| {
        if let Event::Recovered(report) = e {
            sink.lock().unwrap().push(report.clone());
        }
    });
    let store = sim::open(disk.dir(), options).unwrap();
    let report = reports.lock().unwrap().pop().expect("opening reports its recovery");
    (store, report)
}

/// Damages a file: its bytes, changed.
fn edit(disk: &SimDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.bytes(name).unwrap();
    change(&mut bytes);
    disk.set_bytes(name, &bytes);
}

fn len(disk: &SimDisk, name: &str) -> usize {
    disk.bytes(name).unwrap().len()
}

#[track_caller]
fn is_corrupt(disk: &SimDisk, file: &str) {
    let before: Vec<_> = disk.names().iter().map(|n| disk.bytes(n)).collect();
    match sim::open(disk.dir(), options()).map(|_| ()) {
        Err(Error::Storage(StorageError::Corrupt { file: found, .. })) => assert_eq!(found, file),
        other => panic!("{other:?}"),
    }
    let after: Vec<_> = disk.names().iter().map(|n| disk.bytes(n)).collect();
    assert!(before == after, "what is damaged is not changed by opening it");
}

#[track_caller]
fn is_sound(store: &Store) {
    store.checkpoint().unwrap();
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn case_a_without_a_superblock_it_is_no_store_and_can_be_created_again() {
    let (disk, store) = fresh();
    sim::abandon(store);
    let unborn = SimDisk::new(1);
    for (name, bytes) in [("LOCK", 0), ("address.idx", 4096), ("key0.dat", HEADER), ("value0.dat", HEADER)] {
        unborn.set_bytes(name, &disk.bytes(name).unwrap()[..bytes]);
    }
    assert!(matches!(sim::open(unborn.dir(), options()), Err(Error::NotAStore { .. })));
    sim::abandon(sim::create(unborn.dir(), options()).unwrap());
    // With a record in its log it is a store that lost something.
    disk.remove("SUPERBLOCK");
    is_corrupt(&disk, "SUPERBLOCK");
    assert!(matches!(sim::create(disk.dir(), options()), Err(Error::NotEmpty { .. })));
}

#[test]
fn case_b_a_superblock_copy_that_does_not_verify_is_damage_and_the_older_one_is_not_used() {
    let (disk, store) = fresh();
    put(&store, "new", 50);
    store.checkpoint().unwrap();
    sim::abandon(store);
    for copy in [0, 4096] {
        let disk = disk.kill();
        edit(&disk, "SUPERBLOCK", |b| b[copy + 90] ^= 1);
        is_corrupt(&disk, "SUPERBLOCK");
    }
}

#[test]
fn case_c_a_newer_format_is_refused() {
    let (disk, store) = fresh();
    sim::abandon(store);
    for copy in [0, 4096] {
        edit(&disk, "SUPERBLOCK", |b| {
            b[copy + 12] = 9;
            let crc = crc32fast::hash(&b[copy + 12..copy + 512]);
            b[copy + 8..copy + 12].copy_from_slice(&crc.to_le_bytes());
        });
    }
    assert!(matches!(
        sim::open(disk.dir(), options()),
        Err(Error::Storage(StorageError::NewerFormat { found: 9, .. }))
    ));
}

#[test]
fn case_d_a_log_shorter_than_the_checkpoint_is_damage() {
    let (disk, store) = fresh();
    sim::abandon(store);
    let short = disk.kill();
    edit(&short, "value0.dat", |b| b.truncate(b.len() - 64));
    is_corrupt(&short, "value0.dat");
    disk.remove("value0.dat");
    is_corrupt(&disk, "value0.dat");
}

#[test]
fn case_e_the_key_log_or_address_idx_missing_short_or_foreign_is_damage() {
    let (disk, store) = fresh();
    sim::abandon(store);
    for name in ["key0.dat", "address.idx"] {
        let missing = disk.kill();
        missing.remove(name);
        is_corrupt(&missing, name);
        let short = disk.kill();
        edit(&short, name, |b| b.truncate(b.len() - 1));
        is_corrupt(&short, name);
        let foreign = disk.kill();
        let other = SimDisk::new(99);
        sim::abandon(sim::create(other.dir(), options()).unwrap());
        edit(&foreign, name, |b| b[..HEADER].copy_from_slice(&other.bytes(name).unwrap()[..HEADER]));
        is_corrupt(&foreign, name);
    }
}

#[test]
fn case_f_after_a_clean_close_nothing_is_replayed() {
    let (disk, store) = fresh();
    put(&store, "new", 50);
    store.close().unwrap();
    let (store, report) = open(&disk);
    assert_eq!((report.replayed_records, report.skipped_bytes, report.truncated_bytes), (0, 0, 0));
    has(&store, "new", 50);
    has(&store, "old", 100);
}

#[test]
fn case_g_whole_records_after_the_checkpoint_are_replayed() {
    let (disk, store) = fresh();
    put(&store, "one", 50);
    put(&store, "two", 2000); // in chunks, and into the next segment
    put(&store, "three", 3000);
    store.remove(b"old").unwrap();
    sim::abandon(store);
    let (store, report) = open(&disk.kill());
    assert!(report.replayed_records > 4 && report.skipped_bytes == 0 && report.truncated_bytes == 0, "{report:?}");
    has(&store, "one", 50);
    has(&store, "two", 2000);
    has(&store, "three", 3000);
    assert_eq!(store.get(b"old").unwrap(), None);
    is_sound(&store);
}

#[test]
fn case_h_a_hole_between_whole_records_is_covered_once_and_for_all() {
    let (disk, store) = fresh();
    let from = len(&disk, "value0.dat");
    put(&store, "lost", 300);
    let to = len(&disk, "value0.dat");
    put(&store, "kept", 300);
    sim::abandon(store);
    let disk = disk.kill();
    edit(&disk, "value0.dat", |b| b[from..to].fill(0));
    let (store, report) = open(&disk);
    assert_eq!((report.skipped_bytes, report.truncated_bytes), ((to - from) as u64, 0));
    has(&store, "kept", 300);
    assert_eq!(store.get(b"lost").unwrap(), None);
    is_sound(&store);
    sim::abandon(store);
    let again = disk.crash(Level::Adversarial, Loss::Everything, 0);
    let (store, report) = open(&again);
    assert_eq!(report.skipped_bytes, 0, "a filler lies over it");
    has(&store, "kept", 300);
}

#[test]
fn case_i_what_follows_the_last_whole_record_is_cut_off() {
    let (disk, store) = fresh();
    put(&store, "kept", 300);
    let end = len(&disk, "value0.dat");
    put(&store, "torn", 300);
    sim::abandon(store);
    let disk = disk.kill();
    edit(&disk, "value0.dat", |b| b.truncate(end + 128));
    let (store, report) = open(&disk);
    assert_eq!((report.skipped_bytes, report.truncated_bytes), (0, 128));
    assert_eq!(len(&disk, "value0.dat"), end);
    has(&store, "kept", 300);
    assert_eq!(store.get(b"torn").unwrap(), None);
    is_sound(&store);
}

#[test]
fn case_j_a_list_of_chunks_counts_only_with_all_of_them() {
    let (disk, store) = fresh();
    let from = len(&disk, "value0.dat");
    put(&store, "large", 1500);
    put(&store, "kept", 20);
    sim::abandon(store);
    let disk = disk.kill();
    edit(&disk, "value0.dat", |b| b[from..from + 512].fill(0));
    let (store, report) = open(&disk);
    assert!(report.skipped_bytes > 512, "the list is skipped, too: {report:?}");
    assert_eq!(store.get(b"large").unwrap(), None);
    has(&store, "kept", 20);
    is_sound(&store);
}

#[test]
fn case_k_a_reference_counts_only_with_what_it_refers_to() {
    let (disk, store) = fresh();
    let from = len(&disk, "value0.dat");
    put(&store, "page", 300);
    let to = len(&disk, "value0.dat");
    let same = body("page", 300);
    store.put_if_changed(&Record::new(b"page", &same).time(6)).unwrap();
    put(&store, "kept", 20);
    sim::abandon(store);
    let disk = disk.kill();
    edit(&disk, "value0.dat", |b| b[from..to].fill(0));
    let (store, _) = open(&disk);
    assert_eq!(store.get(b"page").unwrap(), None);
    assert!(store.history(b"page").unwrap().is_empty());
    has(&store, "kept", 20);
    is_sound(&store);
}

#[test]
fn case_l_a_segment_that_was_created_ahead_is_removed() {
    let (disk, store) = fresh();
    for i in 0..9 {
        put(&store, &format!("{i}"), 300); // over half of the segment
    }
    sim::work(&store);
    sim::abandon(store);
    assert!(disk.names().contains(&"value1.dat".to_owned()));
    let disk = disk.kill();
    let (store, _) = open(&disk);
    assert!(!disk.names().contains(&"value1.dat".to_owned()));
    for i in 0..30 {
        put(&store, &format!("more {i}"), 300);
    }
    is_sound(&store);
}

#[test]
fn case_m_a_segment_without_records_before_others_stays_and_readers_pass_it() {
    let (disk, store) = fresh();
    for i in 0..30 {
        put(&store, &format!("{i}"), 300);
    }
    sim::abandon(store);
    let disk = disk.kill();
    edit(&disk, "value1.dat", |b| b.truncate(HEADER));
    let (store, _) = open(&disk);
    has(&store, "29", 300);
    put(&store, "new", 10);
    let reader = sim::open_read_only(disk.dir(), options()).unwrap();
    has(&reader, "29", 300);
    has(&reader, "new", 10);
    is_sound(&store);
}

#[test]
fn case_n_a_segment_whose_creation_was_cut_short_is_none() {
    let (disk, store) = fresh();
    let header = disk.bytes("value0.dat").unwrap()[..HEADER].to_vec();
    sim::abandon(store);
    // Shorter than a header; a header that never got there; another segment's, left on the device
    // from before.
    for bytes in [vec![0; 10], vec![0; HEADER], vec![0xa5; HEADER], header] {
        let disk = disk.kill();
        disk.set_bytes("value1.dat", &bytes);
        let (store, _) = open(&disk);
        for i in 0..30 {
            put(&store, &format!("{i}"), 300);
        }
        has(&store, "0", 300);
        is_sound(&store);
    }
}

#[test]
fn case_o_what_a_failed_sync_left_in_the_cache_is_not_trusted() {
    let mut lost = 0;
    for seed in 0..30 {
        let disk = SimDisk::new(seed);
        let store = sim::create(disk.dir(), options()).unwrap();
        put(&store, "old", 100);
        store.checkpoint().unwrap();
        put(&store, "new", 100); // in the page that holds the tail, too
        disk.fail(Some(Failure { at: 1, fault: Fault::Eio, only_syncs: true, forever: false }));
        assert!(matches!(store.sync(), Err(Error::Storage(StorageError::Io { op: "sync", .. }))));
        sim::abandon(store);
        disk.fail(None);
        let (store, _) = open(&disk);
        let shown = store.get(b"new").unwrap().is_some();
        lost += usize::from(!shown);
        sim::abandon(store);
        let (store, _) = open(&disk.crash(Level::Adversarial, Loss::Everything, 0));
        assert_eq!(store.get(b"new").unwrap().is_some(), shown, "recovery has promised it");
    }
    assert!((1..30).contains(&lost), "{lost} of 30 were lost");
}

/// Number of times that a reader with a value cache shows another page than the one put last,
/// after a recovery has dropped what it had read and the same page was put again.
fn stale_pages() -> usize {
    let put_as = |store: &Store, text: &str| store.put(&Record::new(b"new", &body(text, 100)).time(5)).unwrap();
    let shown = |reader: &Store| {
        reader.refresh().unwrap();
        reader.get(b"new").unwrap().map(|v| v.body)
    };
    let mut stale = 0;
    for seed in 0..30 {
        let disk = SimDisk::new(seed);
        let store = sim::create(disk.dir(), options()).unwrap();
        put(&store, "old", 100);
        store.checkpoint().unwrap();
        let reader = sim::open_read_only(disk.dir(), options().value_cache_bytes(1 << 20)).unwrap();
        put_as(&store, "first");
        assert_eq!(shown(&reader), Some(body("first", 100)));
        assert_eq!(shown(&reader), Some(body("first", 100)));
        assert_eq!(reader.stats().value_cache_hits, 1);
        disk.fail(Some(Failure { at: 1, fault: Fault::Eio, only_syncs: true, forever: false }));
        store.sync().unwrap_err();
        sim::abandon(store);
        disk.fail(None);
        let (store, _) = open(&disk);
        put_as(&store, "again");
        stale += usize::from(shown(&reader) != Some(body("again", 100)));
        sim::abandon(reader);
        sim::abandon(store);
    }
    stale
}

#[test]
fn a_value_cache_forgets_what_a_recovery_has_dropped() {
    assert_eq!(stale_pages(), 0);
    // If it kept what it had read, some would show the dropped page: the test can fail.
    sim::plant(Some(sim::Fault::StalePagesKept));
    let stale = stale_pages();
    sim::plant(None);
    assert!(stale > 0);
}

/// Images of a process that is killed at each write of a checkpoint.
fn killed_in_a_checkpoint(disk: &SimDisk, store: Store) -> Vec<SimDisk> {
    let images: Arc<Mutex<Vec<SimDisk>>> = Arc::default();
    let sink = Arc::clone(&images);
    disk.observe(Some(Box::new(move |at| sink.lock().unwrap().push(at.kill()))));
    store.checkpoint().unwrap();
    disk.observe(None);
    sim::abandon(store);
    std::mem::take(&mut *images.lock().unwrap())
}

#[test]
fn case_p_what_an_interrupted_checkpoint_left_is_unused_and_in_nobodys_way() {
    let (disk, store) = fresh();
    for i in 0..6 {
        put(&store, &format!("{i}"), 30);
    }
    let images = killed_in_a_checkpoint(&disk, store);
    assert!(images.len() > 20, "stages of one page: {}", images.len());
    for image in images {
        let (store, _) = open(&image);
        for i in 0..6 {
            has(&store, &format!("{i}"), 30);
            assert_eq!(store.history(format!("{i}").as_bytes()).unwrap().len(), 1);
        }
        is_sound(&store);
    }
}

#[test]
fn case_q_versions_that_an_early_stage_dropped_do_not_come_back() {
    // One version is kept. The newest is referred to and replaced before a checkpoint whose first
    // stage has dropped both.
    let options = options().keep_versions(Some(1));
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options.clone()).unwrap();
    let mut keys: Vec<String> = (0..20).map(|i| format!("k{i}")).collect();
    keys.sort_by_key(|k| sim::hash(&store, k.as_bytes()));
    let (first, others) = keys.split_first().unwrap();
    put(&store, first, 30);
    store.checkpoint().unwrap();
    let same = body(first, 30);
    store.put_if_changed(&Record::new(first.as_bytes(), &same).time(4)).unwrap();
    store.put(&Record::new(first.as_bytes(), b"newer").time(9)).unwrap();
    others.iter().for_each(|k| put(&store, k, 30));
    for image in killed_in_a_checkpoint(&disk, store) {
        let store = sim::open(image.dir(), options.clone()).unwrap();
        assert_eq!(store.get(first.as_bytes()).unwrap().unwrap().body, b"newer");
        is_sound(&store);
    }
}

/// An old block comes back at the log's end: a record of a page that was removed since. Whether it
/// shows, and what is cut off.
fn with_an_old_record_at_the_end() -> (bool, u64) {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options()).unwrap();
    put(&store, "removed", 100);
    let end = len(&disk, "value0.dat");
    store.remove(b"removed").unwrap();
    store.checkpoint().unwrap();
    sim::abandon(store);
    let disk = disk.kill();
    edit(&disk, "value0.dat", |b| b.extend_from_within(HEADER..end));
    let (store, report) = open(&disk);
    let shows = store.get(b"removed").unwrap().is_some();
    sim::abandon(store);
    (shows, report.truncated_bytes)
}

#[test]
fn case_r_a_record_that_lies_where_it_was_not_written_is_none() {
    let (shows, cut) = with_an_old_record_at_the_end();
    assert!(!shows && cut >= 128, "{cut}");
    // With checksums that know no place, and sequences that need not ascend, it would be read: the
    // test can fail.
    sim::plant(Some(sim::Fault::LocationsNotSeeded));
    let unseeded = with_an_old_record_at_the_end();
    sim::plant(None);
    assert_eq!(unseeded, (true, 0));
}

/// Every segment of values in turn, those below the checkpoint's tail, that of the tail and the
/// last, which only the list of begun segments has.
#[test]
fn case_s_a_segment_that_is_gone_or_cut_short_is_named_and_its_loss_is_accepted_or_refused() {
    let (disk, store) = fresh();
    (0..16).for_each(|i| put(&store, &format!("merged{i}"), 450));
    store.checkpoint().unwrap();
    (0..16).for_each(|i| put(&store, &format!("young{i}"), 450));
    sim::abandon(store);
    let segments: Vec<String> = disk.names().into_iter().filter(|n| n.starts_with("value")).collect();
    assert!(segments.len() > 4, "{segments:?}");
    for (file, way) in segments.iter().flat_map(|file| [None, Some(0), Some(HEADER - 1)].map(|way| (file, way))) {
        let broken = disk.kill();
        match way {
            None => broken.remove(file),
            Some(len) => edit(&broken, file, |bytes| bytes.truncate(len)),
        }
        is_corrupt(&broken, file);
        let reader = sim::open_read_only(broken.dir(), options()).unwrap();
        assert_eq!(reader.absent().iter().map(|a| a.file.as_str()).collect::<Vec<_>>(), [file], "{way:?}");
        let readable: Vec<String> = readable(&reader);
        assert!(readable.len() > 16 && readable.len() < 33, "without {file} {} are read", readable.len());
        let store = sim::open(broken.dir(), options().accept_loss()).unwrap();
        store.checkpoint().unwrap();
        sim::abandon(store);
        // From now on it is a store like any other.
        let (store, _) = open(&broken);
        (0..40).for_each(|i| put(&store, &format!("later{i}"), 450));
        store.checkpoint().unwrap();
        assert!(readable.iter().all(|key| key == "old" || store.get(key.as_bytes()).unwrap().is_some()));
        (0..40).for_each(|i| has(&store, &format!("later{i}"), 450));
        let lost = broken.bytes(file).map_or(0, |bytes| bytes.len());
        assert_eq!(lost, way.unwrap_or(0), "its number is not used again");
        sim::abandon(store);
    }
}

#[test]
fn case_t_an_older_superblock_is_named_and_nobody_writes_after_it() {
    let (disk, store) = fresh();
    (0..16).for_each(|i| put(&store, &format!("merged{i}"), 450));
    store.checkpoint().unwrap();
    let older = disk.bytes("SUPERBLOCK").unwrap();
    (0..32).for_each(|i| put(&store, &format!("young{i}"), 450));
    sim::abandon(store);
    let broken = disk.kill();
    edit(&broken, "SUPERBLOCK", |bytes| bytes.clone_from(&older));
    is_corrupt(&broken, "SUPERBLOCK");
    let accepting = sim::open(broken.dir(), options().accept_loss());
    assert!(matches!(accepting, Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == "SUPERBLOCK"));
    let reader = sim::open_read_only(broken.dir(), options()).unwrap();
    assert!(reader.absent().iter().any(|a| a.file == "SUPERBLOCK"));
    (0..16).for_each(|i| has(&reader, &format!("merged{i}"), 450));
    (0..32).for_each(|i| has(&reader, &format!("young{i}"), 450));
    // With the last one it is whole.
    let (store, _) = open(&disk.kill());
    (0..32).for_each(|i| has(&store, &format!("young{i}"), 450));
}

/// A store that was killed after a record had been compressed with its only dictionary, and that
/// has lost that; whether the page can be read, and what is said to be missing.
fn without_its_dictionary() -> (SimDisk, bool, Vec<String>) {
    let limits = Limits { first_pages: 5, group_pages: 3, always_train: true, ..Limits::default() };
    let options = options().compression_level(3).dictionary_bytes(4096).segment_bytes(1 << 20);
    let options = sim::with_limits(options.large_value_bytes(256 << 10), limits);
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options.clone()).unwrap();
    let alike: String = (0..200).map(|i| format!("{:x} ", i * 0x9e37_79b9_u64)).collect();
    let put = |i: u32| store.put(&Record::new(&i.to_le_bytes(), format!("{alike}{i}").as_bytes())).unwrap();
    for i in 0..200 {
        put(i);
    }
    store.checkpoint().unwrap();
    store.train().unwrap();
    put(200);
    store.sync().unwrap();
    assert_eq!(store.stats().dictionary_records, 1, "as this case takes for granted");
    sim::abandon(store);
    let broken = disk.kill();
    broken.remove("dict1.zdict");
    let reader = sim::open_read_only(broken.dir(), options).unwrap();
    let is_read = reader.get(&200u32.to_le_bytes()).is_ok_and(|found| found.is_some());
    (broken, is_read, reader.absent().into_iter().map(|a| a.file).collect())
}

#[test]
fn case_u_a_dictionary_that_is_gone_is_named_whatever_names_it() {
    let (broken, is_read, absent) = without_its_dictionary();
    assert_eq!((is_read, absent.as_slice()), (false, &["dict1.zdict".to_owned()][..]));
    is_corrupt(&broken, "dict1.zdict");
    let store = sim::open(broken.dir(), options().accept_loss()).unwrap();
    assert!(store.absent()[0].is_accepted && store.get(&0u32.to_le_bytes()).unwrap().is_some());
    store.close().unwrap();
    let (store, _) = open(&broken);
    assert_eq!(store.absent().len(), 1);
    sim::abandon(store);
    // Used before a superblock names it, it would be missed by nobody.
    sim::plant(Some(Planted::DictionaryUsedUnnamed));
    let (_, is_read, absent) = without_its_dictionary();
    sim::plant(None);
    assert_eq!((is_read, absent), (false, vec![]));
}

/// Options of a store that keeps its keys in order, as they are.
fn ordered() -> Options {
    let same = |bytes: &[u8], out: &mut Vec<u8>| out.extend_from_slice(bytes);
    let back = |bytes: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(bytes);
        true
    };
    options().key_order(KeyOrder { name: "bytes", ordered: same, key: back, groups: None })
}

fn in_order(store: &Store) -> filemap_core::Result<Vec<Vec<u8>>> {
    store.keys_in(KeyRange::all(), Direction::Forward)?.collect()
}

/// A file with the number of the next run of keys, when its store is opened: what a power loss
/// left goes, another store's run stays.
#[test]
fn of_files_named_like_the_next_run_of_keys_only_another_stores_run_stays() {
    let runs = |disk: &SimDisk| disk.names().into_iter().filter(|name| name.ends_with(".run")).collect::<Vec<_>>();
    let filled = |seed: u64| {
        let disk = SimDisk::new(seed);
        let store = sim::create(disk.dir(), ordered()).unwrap();
        put(&store, "a", 30);
        store.close().unwrap();
        disk
    };
    let (disk, other) = (filled(3), filled(4));
    assert_eq!(runs(&disk), ["keys.000001.run"]);
    let of_other = other.bytes("keys.000001.run").unwrap();
    let of_old_blocks = b"a page that was here before".repeat(200);
    let cases = [
        ("keys.000002.run", &of_old_blocks, 1),
        ("keys.000002.run", &of_other, 2),
        ("keys.000900.run", &of_old_blocks, 2),
    ];
    for (name, bytes, left) in cases {
        let image = disk.kill();
        image.set_bytes(name, bytes);
        let store = sim::open(image.dir(), ordered()).unwrap();
        assert_eq!(in_order(&store).unwrap(), [b"a"]);
        assert_eq!(runs(&image).len(), left, "{name}");
    }
}

#[test]
fn case_v_a_run_of_keys_that_is_gone_is_named_and_its_loss_ends_the_order() {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), ordered()).unwrap();
    ["b", "a"].iter().for_each(|key| put(&store, key, 30));
    store.close().unwrap();
    let file = disk.names().into_iter().find(|name| name.ends_with(".run")).unwrap();
    disk.remove(&file);
    is_corrupt(&disk, &file);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&told);
    let options = ordered().accept_loss().on_event(move |event| sink.lock().unwrap().push(event.to_string()));
    let store = sim::open(disk.dir(), options).unwrap();
    assert!(told.lock().unwrap().iter().any(|words| words.contains("no longer kept in order")));
    assert!(!store.has_key_order() && in_order(&store).unwrap_err().to_string().contains("repair"));
    is_sound(&store);
}

/// Images of a checkpoint of several stages, in which its log is damaged or not: of each, what is
/// listed in order.
fn in_the_middle_of_a_checkpoint(damages: bool) -> Vec<filemap_core::Result<Vec<Vec<u8>>>> {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), ordered()).unwrap();
    put(&store, "before", 30);
    store.checkpoint().unwrap();
    let tail = len(&disk, "value0.dat");
    (0..20).for_each(|i| put(&store, &format!("k{i:02}"), 30));
    store.remove(b"before").unwrap();
    let list = |image: SimDisk| {
        if damages {
            edit(&image, "value0.dat", |b| b[tail + 70] ^= 1);
        }
        let store = sim::open(image.dir(), ordered())?;
        let listed = in_order(&store);
        store.checkpoint()?;
        let later = in_order(&store);
        assert_eq!(listed.is_ok(), later.is_ok());
        sim::abandon(store);
        later
    };
    killed_in_a_checkpoint(&disk, store).into_iter().map(list).collect()
}

#[test]
fn case_w_runs_that_are_behind_of_the_index_catch_up_or_the_order_ends() {
    let expected: Vec<Vec<u8>> = (0..20).map(|i| format!("k{i:02}").into_bytes()).collect();
    let whole = in_the_middle_of_a_checkpoint(false);
    assert!(whole.len() > 20 && whole.into_iter().all(|listed| listed.unwrap() == expected));
    // The first record that the checkpoint enters is damaged. Before a stage has entered any, it
    // is as if it had not been put; in the middle the order ends; afterwards all is in the runs.
    let damaged = in_the_middle_of_a_checkpoint(true);
    let ended = damaged.iter().filter(|listed| listed.is_err()).count();
    assert!(ended > 5 && ended < damaged.len(), "{ended} of {}", damaged.len());
    assert!(damaged.iter().flatten().any(|listed| *listed == expected[1..]));
    assert!(damaged.iter().flatten().all(|listed| *listed == expected || *listed == expected[1..]));
}

/// The keys whose pages can be read.
fn readable(store: &Store) -> Vec<String> {
    let keys = (0..16).flat_map(|i| [format!("merged{i}"), format!("young{i}")]).chain(["old".to_owned()]);
    keys.filter(|key| matches!(store.get(key.as_bytes()), Ok(Some(_)))).collect()
}

/// Answers, for each key, of a reader with few open files when segments of the key log were
/// removed since it followed.
fn read_behind_compaction() -> Vec<Result<bool, Error>> {
    let limits = Limits { key_segment_bytes: 128, ..Limits::default() };
    let options = || sim::with_limits(options().max_open_files(1), limits);
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options()).unwrap();
    (0..20).for_each(|i| put(&store, &format!("{i}"), 30));
    store.checkpoint().unwrap();
    let reader = sim::open_read_only(disk.dir(), options()).unwrap();
    // One segment only: the pages of the index that the reader knows are not used again yet.
    sim::empty_keys(&store, 0).unwrap();
    let read = (0..20).map(|i| reader.contains(format!("{i}").as_bytes())).collect();
    sim::abandon(reader);
    sim::abandon(store);
    read
}

#[test]
fn a_reader_looks_again_when_the_segment_of_a_key_record_has_gone() {
    assert!(read_behind_compaction().into_iter().all(|read| read.unwrap()));
    // If it believed what it met first it would tell damage: the test can fail.
    sim::plant(Some(sim::Fault::StaleKeysBelieved));
    let believed = read_behind_compaction();
    sim::plant(None);
    assert!(believed.iter().any(Result::is_err));
}

#[test]
fn a_reader_that_knows_a_segment_created_ahead_sees_the_one_that_takes_its_place() {
    let (disk, store) = fresh();
    let mut superblock = disk.bytes("SUPERBLOCK").unwrap();
    for i in 0..40 {
        put(&store, &format!("{i}"), 300);
        if !disk.names().iter().any(|name| name == "value2.dat") {
            superblock = disk.bytes("SUPERBLOCK").unwrap();
        }
    }
    sim::abandon(store);
    // The names of two segments without records were not durable alike, and so neither is in the
    // list of begun segments.
    let disk = disk.kill();
    disk.set_bytes("SUPERBLOCK", &superblock);
    disk.remove("value2.dat");
    edit(&disk, "value3.dat", |b| b.truncate(HEADER));
    let reader = sim::open_read_only(disk.dir(), options()).unwrap();
    let (store, _) = open(&disk);
    for i in 0..30 {
        put(&store, &format!("new {i}"), 300);
        reader.refresh().unwrap();
        has(&reader, &format!("new {i}"), 300);
    }
}

/// Puts pages until one is the first in value1.dat. Gives its key.
fn put_until_the_next_segment(disk: &SimDisk, store: &Store, name: &str) -> String {
    let mut keys = (0..100).map(|i| format!("{name} {i}"));
    let begins = |key: &String| {
        put(store, key, 300);
        disk.bytes("value1.dat").is_some_and(|bytes| bytes.len() > HEADER)
    };
    keys.find(begins).expect("a segment has 4096 bytes")
}

/// A disk on which the sync of the only record of value1.dat has failed, a reader that has seen
/// the record, and its key.
fn with_a_failed_sync(seed: u64) -> (SimDisk, Store, String) {
    let disk = SimDisk::new(seed);
    let store = sim::create(disk.dir(), options()).unwrap();
    let last = put_until_the_next_segment(&disk, &store, "old");
    let reader = sim::open_read_only(disk.dir(), options()).unwrap();
    has(&reader, &last, 300);
    // The first sync is that of the segment before.
    let at = disk.calls() + 2;
    disk.fail(Some(Failure { at, fault: Fault::Eio, only_syncs: true, forever: false }));
    store.sync().unwrap_err();
    sim::abandon(store);
    disk.fail(None);
    (disk, reader, last)
}

/// The log comes to value1.dat once more, and the reader sees what its writer sees.
fn goes_on(disk: &SimDisk, store: &Store, reader: &Store, last: &str) {
    put_until_the_next_segment(disk, store, "new");
    put(store, "after", 300);
    reader.refresh().unwrap();
    has(reader, "after", 300);
    assert_eq!(reader.contains(last.as_bytes()).unwrap(), store.contains(last.as_bytes()).unwrap());
}

/// Found by failing every call of an erasure (`fail --seed 10`): the reader continued in the file
/// that it had open.
#[test]
fn a_reader_that_follows_into_a_segment_whose_sync_fails_sees_the_one_that_takes_its_place() {
    let mut replaced = 0;
    for seed in 0..8 {
        let (disk, reader, last) = with_a_failed_sync(seed);
        let (store, _) = open(&disk);
        replaced += usize::from(!disk.names().iter().any(|name| name == "value1.dat"));
        goes_on(&disk, &store, &reader, &last);
        store.checkpoint().unwrap();
        goes_on(&disk, &store, &reader, &last);
    }
    assert!(replaced > 0, "every record was on the device");
}

#[test]
fn a_recovery_that_was_cut_short_leaves_no_reader_with_what_it_dropped() {
    let (mut cut_short, mut lost) = (0, 0);
    for seed in 0..8 {
        for after in 1.. {
            let (disk, reader, last) = with_a_failed_sync(seed);
            let at = disk.calls() + after;
            disk.fail(Some(Failure { at, fault: Fault::Eio, only_syncs: false, forever: false }));
            let first = sim::open(disk.dir(), options());
            let has_failed = disk.failed() > 0;
            disk.fail(None);
            cut_short += usize::from(first.is_err());
            let store = first.unwrap_or_else(|_| open(&disk).0);
            lost += usize::from(!store.contains(last.as_bytes()).unwrap());
            goes_on(&disk, &store, &reader, &last);
            if !has_failed {
                break;
            }
        }
    }
    assert!(cut_short > 40 && lost > 40, "{cut_short} were cut short, and {lost} lost something");
}

/// A superblock whose sync failed is seen by a reader. The next opening drops it from the cache
/// and is cut short, so that the one after it cannot know, and gives its epoch to another.
#[test]
fn a_reader_of_a_lost_superblock_sees_the_one_that_takes_its_epoch() {
    let begin = || {
        let (disk, store) = fresh();
        store.close().unwrap();
        let store = open(&disk).0;
        put(&store, "lost", 100);
        store.sync().unwrap();
        (disk, store)
    };
    let (disk, store) = begin();
    let before = disk.calls();
    store.checkpoint().unwrap();
    let calls = disk.calls() - before;
    let (mut failed, mut cut_short) = (0, 0);
    for back in 0..calls.min(12) {
        for after in 1.. {
            let (disk, store) = begin();
            let fail = |at, only_syncs| disk.fail(Some(Failure { at, fault: Fault::Eio, only_syncs, forever: false }));
            let reader = sim::open_read_only(disk.dir(), options()).unwrap();
            fail(disk.calls() + calls - back, true);
            failed += usize::from(store.checkpoint().is_err());
            sim::abandon(store);
            disk.fail(None);
            reader.refresh().unwrap();
            fail(disk.calls() + after, false);
            let first = sim::open(disk.dir(), options());
            let is_whole = first.is_ok();
            disk.fail(None);
            cut_short += usize::from(!is_whole);
            let store = first.unwrap_or_else(|_| open(&disk).0);
            ["late", "last"].iter().for_each(|key| put(&store, key, 100));
            store.checkpoint().unwrap();
            reader.refresh().unwrap();
            for key in ["old", "lost", "late", "last"] {
                has(&store, key, 100);
                has(&reader, key, 100);
            }
            assert_eq!(reader.stats().indexed_keys, 4, "{back} {after}");
            if is_whole {
                break;
            }
        }
    }
    assert!(failed > 5 && cut_short > 20, "{failed} checkpoints failed, {cut_short} openings");
}

/// Disks as a kill leaves them when a compaction has begun to write, and nothing names what it has
/// written.
fn killed_in_compaction(disk: &SimDisk, store: &Store) -> Vec<SimDisk> {
    let before = disk.names();
    let images: Arc<Mutex<Vec<SimDisk>>> = Arc::default();
    let drawn = Arc::clone(&images);
    disk.observe(Some(Box::new(move |at| {
        let image = at.kill();
        if before.iter().all(|name| image.names().contains(name)) && image.names().len() > before.len() {
            drawn.lock().unwrap().push(image);
        }
    })));
    store.compact().unwrap();
    disk.observe(None);
    std::mem::take(&mut *images.lock().unwrap())
}

#[test]
fn a_reader_that_knows_what_a_killed_compaction_wrote_sees_the_segment_of_the_log_that_takes_its_place() {
    let (disk, store) = fresh();
    for round in 0..3 {
        (0..20 + round).for_each(|i| put(&store, &format!("{i}"), 300));
        (0..10).for_each(|i| assert!(store.remove(format!("{i}").as_bytes()).unwrap()));
    }
    store.checkpoint().unwrap();
    let images = killed_in_compaction(&disk, &store);
    sim::abandon(store);
    let mut taken = 0;
    for (image, puts) in images.iter().step_by(6).flat_map(|image| (1..16).map(move |puts| (image, puts))) {
        let disk = image.kill();
        let known = disk.names();
        let reader = sim::open_read_only(disk.dir(), options()).unwrap();
        let (store, _) = open(&disk);
        let gone: Vec<String> = known.into_iter().filter(|name| !disk.names().contains(name)).collect();
        (0..puts).chain(0..1).for_each(|i| put(&store, &format!("new {i}"), 300));
        // Something is dropped: readers begin anew from the superblock, whose tail is in the
        // segment in question or near it.
        let rule = PruneRule { keep_versions: Some(1), ..PruneRule::default() };
        store.prune(rule, &mut |_| ControlFlow::Continue(())).unwrap();
        reader.refresh().unwrap();
        (0..puts).for_each(|i| has(&reader, &format!("new {i}"), 300));
        has(&reader, "19", 300);
        assert_eq!(reader.get(b"3").unwrap(), None);
        taken += gone.iter().filter(|name| disk.names().contains(name)).count();
        sim::abandon(store);
    }
    assert!(taken > 0, "the log was given the name of what compaction had left");
}

#[test]
fn a_reader_whose_call_fails_says_so_and_does_not_miss_pages() {
    let (disk, store) = fresh();
    for i in 0..30 {
        put(&store, &format!("{i}"), 300);
    }
    for n in 1.. {
        let reader = sim::open_read_only(disk.dir(), options()).unwrap();
        put(&store, &format!("new {n}"), 4000); // into the next segment, each time
        disk.fail(Some(Failure { at: disk.calls() + n, fault: Fault::Eio, only_syncs: false, forever: false }));
        let refreshed = reader.refresh();
        let failed = disk.failed() > 0;
        disk.fail(None);
        match refreshed {
            Ok(()) => has(&reader, &format!("new {n}"), 4000),
            Err(e) => assert!(failed && matches!(e, Error::Storage(StorageError::Io { .. })), "{e}"),
        }
        if !failed {
            return;
        }
    }
}

#[test]
fn a_verification_whose_call_fails_tells_of_no_damage() {
    let (disk, store) = fresh();
    for i in 0..30 {
        put(&store, &format!("{i}"), 300);
    }
    store.close().unwrap();
    let mut errors = 0;
    for n in 1.. {
        // Opened anew: parts of the index that were read before are not read again.
        let reader = sim::open_read_only(disk.dir(), options()).unwrap();
        disk.fail(Some(Failure { at: disk.calls() + n, fault: Fault::Eio, only_syncs: false, forever: false }));
        let verified = reader.verify();
        let failed = disk.failed() > 0;
        disk.fail(None);
        match verified {
            Ok(report) => assert_eq!(report.problems, [], "call {n}"),
            Err(e) => {
                assert!(matches!(e, Error::Storage(StorageError::Io { .. })), "call {n}: {e}");
                errors += 1;
            }
        }
        if !failed {
            break;
        }
    }
    assert!(errors > 10, "{errors}");
}

#[test]
fn a_sync_on_a_poisoned_handle_fails_even_with_nothing_to_sync() {
    let (disk, store) = fresh();
    disk.fail(Some(Failure { at: disk.calls() + 1, fault: Fault::Enospc, only_syncs: false, forever: false }));
    assert!(matches!(store.put(&Record::new(b"k", b"v")), Err(Error::Storage(StorageError::Io { op: "write", .. }))));
    assert!(matches!(store.sync(), Err(Error::Storage(StorageError::Poisoned { .. }))));
    assert!(matches!(store.put(&Record::new(b"k", b"v")), Err(Error::Storage(StorageError::Poisoned { .. }))));
    has(&store, "old", 100);
    sim::abandon(store);
    disk.fail(None);
    let (store, _) = open(&disk);
    has(&store, "old", 100);
    put(&store, "k", 5);
}

#[test]
fn a_backup_in_which_a_checkpoint_fails_removes_nothing_when_it_ends() {
    let limits =
        Limits { leaf_slots: 2, stage_pages: 1, flush_key_bytes: 1, key_segment_bytes: 128, ..Limits::default() };
    let options = sim::with_limits(options().keep_versions(Some(1)), limits);
    let mut failed = 0;
    for n in (1..).step_by(4) {
        let disk = SimDisk::new(3);
        let store = sim::create(disk.dir(), options.clone()).unwrap();
        let put_all = |store: &Store| (0..8).for_each(|i| put(store, &format!("{i}"), 30));
        put_all(&store);
        store.checkpoint().unwrap();
        let refused = Arc::new(AtomicU64::new(0));
        let (inner, within, count) = (store.clone(), disk.clone(), Arc::clone(&refused));
        let mut is_first = true;
        sim::at_steps(Some(Box::new(move || {
            if std::mem::take(&mut is_first) {
                put_all(&inner);
                within.fail(Some(Failure {
                    at: within.calls() + n,
                    fault: Fault::Eio,
                    only_syncs: false,
                    forever: false,
                }));
                let _ = inner.checkpoint();
                count.store(within.failed(), Ordering::Relaxed);
                within.fail(None);
            }
        })));
        let _ = sim::back_up(&store, &*SimDisk::new(4).dir());
        sim::at_steps(None);
        sim::abandon(store);
        let reader = sim::open_read_only(disk.dir(), options.clone()).unwrap();
        assert_eq!(reader.verify().unwrap().problems, []);
        let store = sim::open(disk.dir(), options.clone()).unwrap();
        (0..8).for_each(|i| has(&store, &format!("{i}"), 30));
        sim::abandon(store);
        if refused.load(Ordering::Relaxed) == 0 {
            break;
        }
        failed += 1;
    }
    assert!(failed > 3, "{failed}");
}

#[test]
fn a_get_across_a_removal_an_older_put_and_a_checkpoint_returns_what_was_newest_at_some_time() {
    let put = |store: &Store, time_ms| store.put(&Record::new(b"k", &[time_ms as u8]).time(time_ms)).unwrap();
    for puts_again in [false, true] {
        let newest = |read: fn(&Store) -> Option<i64>| {
            let store = sim::create(SimDisk::new(3).dir(), options()).unwrap();
            put(&store, 100);
            store.checkpoint().unwrap();
            // Older than the version in the index: what memory knows of the key is not its newest
            // version.
            put(&store, 50);
            let (inner, mut is_first) = (store.clone(), true);
            sim::at_steps(Some(Box::new(move || {
                if std::mem::take(&mut is_first) {
                    inner.remove(b"k").unwrap();
                    if puts_again {
                        put(&inner, 40);
                    }
                    inner.checkpoint().unwrap();
                }
            })));
            let newest = read(&store);
            sim::at_steps(None);
            sim::abandon(store);
            newest
        };
        // Before the removal it was 100, and then what was put again.
        let allowed = [Some(100), puts_again.then_some(40)];
        let got = newest(|store| store.get(b"k").unwrap().map(|v| v.head.version.time_ms));
        assert!(allowed.contains(&got), "{got:?}");
        let first = newest(|store| store.versions_of(b"k").unwrap().first().map(|v| v.time_ms));
        assert!(allowed.contains(&first), "{first:?}");
    }
}

/// Number of keys that lists name twice when read beside a compaction, after kills in another
/// compaction.
fn named_twice() -> usize {
    // A list reads one record at a time; a checkpoint is one stage.
    let limits = Limits { list_bytes: 1, stage_pages: 128, slack_bytes: 0, ..Limits::default() };
    let options = sim::with_limits(options(), limits);
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options.clone()).unwrap();
    for i in 0..20 {
        put(&store, &format!("{i}"), 300);
        put(&store, &format!("gone {i}"), 300);
    }
    store.checkpoint().unwrap();
    (0..20).for_each(|i| assert!(store.remove(format!("gone {i}").as_bytes()).unwrap()));
    store.checkpoint().unwrap();
    let images: Arc<Mutex<Vec<SimDisk>>> = Arc::default();
    let drawn = Arc::clone(&images);
    disk.observe(Some(Box::new(move |at| drawn.lock().unwrap().push(at.kill()))));
    store.compact().unwrap();
    disk.observe(None);
    sim::abandon(store);
    let mut twice = 0;
    for image in images.lock().unwrap().iter().step_by(3) {
        let store = sim::open(image.dir(), options.clone()).unwrap();
        put(&store, "new", 30);
        store.checkpoint().unwrap();
        let mut list = store.keys().map(Result::unwrap);
        let mut named: Vec<Vec<u8>> = list.by_ref().take(10).collect();
        store.compact().unwrap();
        named.extend(list);
        named.sort();
        let count = named.len();
        named.dedup();
        assert_eq!(named.len(), 21);
        twice += count - 21;
        is_sound(&store);
        sim::abandon(store);
    }
    twice
}

#[test]
fn a_list_names_each_key_once_after_a_compaction_that_was_cut_short() {
    assert_eq!(named_twice(), 0);
    sim::plant(Some(sim::Fault::LeftoversCounted));
    let twice = named_twice();
    sim::plant(None);
    assert!(twice > 0);
}
