//! Dictionaries end to end: trained, used, missing, damaged, dropped from memory. Without threads:
//! the test decides when background work is done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filemap_io::OsDir;

use crate::format::dictionary::Making;
use crate::format::value::{Codec, Kind};
use crate::limits::Limits;
use crate::options::Dictionaries;
use crate::store::Threads;
use crate::upkeep::worker;
use crate::{Error, Options, Record, StorageError, Store};

/// The host of a key: the part before the first `/`.
fn host(key: &[u8]) -> &[u8] {
    &key[..key.iter().position(|b| *b == b'/').unwrap_or(0)]
}

pub(super) fn options() -> Options {
    let limits = Limits { first_pages: 40, group_pages: 30, ..Limits::default() };
    let mut options = Options::new().free_space_floor(0).dictionary_group(host).dictionary_bytes(32 << 10);
    options.limits = limits;
    options
}

pub(super) fn eager() -> Options {
    let mut options = options();
    options.limits.always_train = true;
    options
}

pub(super) fn create(path: &Path, options: Options) -> Store {
    filemap_io::system::create_dir(path).unwrap();
    Store::create_in(Arc::new(OsDir::open(path).unwrap()), options, Threads::None).unwrap()
}

pub(super) fn open(path: &Path, options: Options) -> Store {
    Store::open_in(Arc::new(OsDir::open(path).unwrap()), options, Threads::None).unwrap()
}

/// Does the background thread's work.
pub(super) fn work(store: &Store) {
    while worker::train_next(store.upkeep().unwrap()) {}
}

pub(super) fn key(host: &str, i: u32) -> Vec<u8> {
    format!("{host}/{i}").into_bytes()
}

/// A page of a host: text common to all pages, and its own words.
pub(super) fn body(host: &str, i: u32) -> Vec<u8> {
    let mut noise = u64::from(i) + 1;
    let mut word = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:x} ", noise >> 40)
    };
    let frame: String = (0..40).map(|j| format!("<li class=\"{host}-{j}\"><a href=/{host}/{}>", j * j * 31)).collect();
    let own: String = (0..30).map(|_| word()).collect();
    format!("<html><head><title>{host} {i}</title></head><body>{frame}<p>{own}</p></body></html>").into_bytes()
}

fn meta(host: &str, i: u32) -> Vec<u8> {
    format!("server: {host}\ncontent-type: text/html; charset=utf-8\nvary: accept-encoding\netag: {:x}", i * 7919)
        .into()
}

pub(super) fn put(store: &Store, host: &str, numbers: std::ops::Range<u32>) {
    for i in numbers {
        let (key, meta, body) = (key(host, i), meta(host, i), body(host, i));
        store.put(&Record::new(&key, &body).meta(&meta).time(1)).unwrap();
    }
}

pub(super) fn check(store: &Store, host: &str, numbers: std::ops::Range<u32>) {
    for i in numbers {
        let found = store.get(&key(host, i)).unwrap().unwrap();
        assert_eq!((found.body, found.head.meta), (body(host, i), meta(host, i)), "{host} {i}");
    }
}

/// A store with a dictionary, and 50 pages before and after it.
pub(super) fn trained(path: &Path, options: Options) -> Store {
    let store = create(path, options);
    put(&store, "a", 0..50);
    work(&store);
    assert_eq!(store.dictionaries().len(), 1);
    put(&store, "a", 50..100);
    store
}

/// Makes a dictionary for a host even if it does not pay.
pub(super) fn make(store: &Store, host: &str) {
    let mut samples = crate::logs::values::dictionaries::make::Samples::default();
    (0..40).for_each(|i| samples.add(body(host, i)));
    let mut made = samples.dictionary(8 << 10, 3).unwrap();
    let making = Making { group: host.as_bytes().to_vec(), pages: 40, ..Making::default() };
    store.reading.values().dictionaries.create(&making, &mut made.content, &mut []).unwrap();
    store.upkeep().unwrap().name_dictionaries().unwrap();
}

pub(super) fn temp() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("s");
    (temp, path)
}

fn missing(error: &Error) -> bool {
    matches!(error, Error::Storage(StorageError::Corrupt { file, what, .. }) if file == "dict1.zdict" && what.contains("restore"))
}

#[test]
fn the_first_pages_make_a_dictionary_and_the_next_ones_are_smaller_for_it() {
    let (_temp, path) = temp();
    let store = trained(&path, options());
    let facts = store.dictionaries().remove(0);
    assert!(facts.is_current && facts.group.is_empty() && facts.problem.is_none());
    assert!(facts.pages >= 40 && facts.body_bytes > 0 && facts.meta_bytes > 0 && facts.body_ratio < 0.5);
    let stored = |i| store.head(&key("a", i)).unwrap().unwrap().stored_bytes;
    assert!(2 * stored(70) < stored(10), "{} and {}", stored(70), stored(10));
    check(&store, "a", 0..100);
    let stats = store.stats();
    assert_eq!((stats.dictionaries, stats.dictionary_records), (1, 50));
    assert!(stats.dictionary_bytes > 0 && stats.dictionary_memory_bytes > 0);
    assert!(stats.payload_bytes < stats.body_bytes);
    assert_eq!(store.verify().unwrap().problems, vec![]);
    store.close().unwrap();
    let store = open(&path, options());
    check(&store, "a", 0..100);
    put(&store, "a", 100..110);
    assert_eq!(store.stats().dictionary_records, 10, "it is used again after a reopening");
}

#[test]
fn a_reader_in_another_process_finds_the_dictionary_that_it_does_not_know() {
    let (_temp, path) = temp();
    let store = create(&path, options());
    put(&store, "a", 0..50);
    let reader = Store::open_read_only(&path, options()).unwrap();
    check(&reader, "a", 0..50);
    work(&store);
    put(&store, "a", 50..100);
    reader.refresh().unwrap();
    check(&reader, "a", 0..100);
    assert!(matches!(reader.train(), Err(Error::ReadOnly)));
}

#[test]
fn without_its_dictionary_a_page_is_an_error_that_says_so_and_the_others_are_read() {
    let (_temp, path) = temp();
    trained(&path, options()).close().unwrap();
    std::fs::rename(path.join("dict1.zdict"), path.join("kept")).unwrap();
    let store = open(&path, options().accept_loss());
    check(&store, "a", 0..50);
    for i in 50..100 {
        assert!(missing(&store.get(&key("a", i)).unwrap_err()));
    }
    let problems = store.verify().unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].file == "dict1.zdict" && problems[0].what.starts_with("50 records"), "{problems:?}");
    // A new one gets another number: with the lost one's number its pages would decompress
    // wrongly.
    make(&store, "b");
    assert_eq!(store.dictionaries().iter().map(|d| d.id).collect::<Vec<_>>(), [2]);
    assert!(missing(&store.get(&key("a", 60)).unwrap_err()));
    // Restored while the handle is open.
    std::fs::rename(path.join("kept"), path.join("dict1.zdict")).unwrap();
    check(&store, "a", 0..100);
}

#[test]
fn one_rotten_copy_costs_nothing_and_is_reported_and_two_are_an_error() {
    let (_temp, path) = temp();
    trained(&path, options()).close().unwrap();
    let file = path.join("dict1.zdict");
    let whole = std::fs::read(&file).unwrap();
    let half = whole.len() / 2;
    // In the header, the facts, the dictionary; of the first copy, then of the second.
    for at in [3, 70, 600, half + 3, half + 70, half + 600] {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        std::fs::write(&file, &bad).unwrap();
        let store = open(&path, options());
        check(&store, "a", 0..100);
        let problems = store.verify().unwrap().problems;
        assert_eq!(problems.len(), 1, "{at}: {problems:?}");
        assert_eq!((&*problems[0].file, problems[0].offset), ("dict1.zdict", if at < half { 0 } else { half as u64 }));
        drop(store);
        bad[(at + half) % whole.len()] ^= 0x10;
        std::fs::write(&file, &bad).unwrap();
        let store = open(&path, options().accept_loss());
        check(&store, "a", 0..50);
        assert!(missing(&store.get(&key("a", 77)).unwrap_err()), "{at}");
        put(&store, "a", 77..78);
        check(&store, "a", 77..78);
        let report = store.verify().unwrap();
        assert!(report.problems.iter().any(|p| p.file == "dict1.zdict"), "{:?}", report.problems);
        // Put the page again with the dictionary, so that the next round misses it.
        std::fs::write(&file, &whole).unwrap();
        drop(store);
        let store = open(&path, options());
        put(&store, "a", 77..78);
        store.close().unwrap();
    }
    std::fs::write(&file, &whole[..half - 1]).unwrap();
    assert!(open(&path, options().accept_loss()).get(&key("a", 60)).unwrap_err().is_corrupt());
}

#[test]
fn another_dictionary_in_its_place_is_an_error() {
    let (_temp, path) = temp();
    let store = trained(&path, options());
    make(&store, "b");
    store.close().unwrap();
    let (first, second) = (path.join("dict1.zdict"), path.join("dict2.zdict"));
    let was = std::fs::read(&first).unwrap();
    std::fs::copy(&second, &first).unwrap();
    let accepting = || open(&path, eager().accept_loss());
    assert!(missing(&accepting().get(&key("a", 60)).unwrap_err()));
    // A dictionary of another store, with the same number.
    let (_other_temp, other) = temp();
    trained(&other, options()).close().unwrap();
    std::fs::copy(other.join("dict1.zdict"), &first).unwrap();
    assert!(missing(&accepting().get(&key("a", 60)).unwrap_err()));
    std::fs::write(&first, was).unwrap();
    check(&open(&path, eager()), "a", 0..100);
}

#[test]
fn what_an_interrupted_creation_left_is_removed_by_the_next_writer_only() {
    let (_temp, path) = temp();
    trained(&path, options()).close().unwrap();
    let left = path.join("dict2.zdict.new");
    std::fs::write(&left, b"half a dictionary").unwrap();
    check(&Store::open_read_only(&path, options()).unwrap(), "a", 0..100);
    assert!(left.exists());
    open(&path, options()).close().unwrap();
    assert!(!left.exists());
}

#[test]
fn metas_that_share_nothing_get_no_dictionary() {
    let (_temp, path) = temp();
    let store = create(&path, options());
    let mut noise = fastrand::Rng::with_seed(1);
    for i in 0..50 {
        let meta: Vec<u8> = std::iter::repeat_with(|| noise.u8(..)).take(64).collect();
        store.put(&Record::new(&key("a", i), &body("a", i)).meta(&meta).time(1)).unwrap();
    }
    work(&store);
    let facts = store.dictionaries();
    assert!(facts[0].body_bytes > 0 && facts[0].body_ratio > 0.0);
    assert_eq!((facts[0].meta_bytes, facts[0].meta_ratio), (0, 0.0));
}

#[test]
fn pages_that_do_not_compress_do_not_keep_those_that_come_later_from_a_dictionary() {
    let (_temp, path) = temp();
    let store = create(&path, options());
    let mut noise = fastrand::Rng::with_seed(1);
    for i in 0..3000 {
        let image: Vec<u8> = std::iter::repeat_with(|| noise.u8(..)).take(500).collect();
        store.put(&Record::new(&key("images", i), &image).time(1)).unwrap();
    }
    work(&store);
    assert!(store.dictionaries().is_empty());
    put(&store, "a", 0..7000);
    work(&store);
    assert!(!store.dictionaries().is_empty());
}

#[test]
fn groups_get_a_dictionary_of_their_own_where_it_pays() {
    let (_temp, path) = temp();
    let store = create(&path, options().dictionary_bytes(8 << 10));
    // More hosts with many pages than one dictionary can hold, and others with few.
    let large: Vec<String> = (0..12).map(|h| format!("large{h}")).collect();
    for i in 0..400 {
        large.iter().for_each(|host| put(&store, host, i..i + 1));
        if i % 20 == 0 {
            put(&store, &format!("small{i}"), 0..1);
        }
    }
    let made = store.train().unwrap();
    assert!(made[0].group.is_empty(), "the one of all keys is made first");
    let of_hosts = made[1..].iter().filter(|d| d.group.starts_with(b"large")).count();
    assert!(of_hosts >= 6, "{made:?}");
    assert_eq!(of_hosts, made.len() - 1, "{made:?}");
    let ids = |name: &[u8]| store.reading.values().dictionaries.choose(name);
    assert_eq!(ids(&made[1].group), made[1].id);
    assert_eq!(ids(b"small0"), made[0].id);
    for host in &large {
        put(&store, host, 400..410);
        check(&store, host, 0..410);
    }
    put(&store, "small0", 1..20);
    check(&store, "small0", 0..20);
}

#[test]
fn a_group_is_not_given_what_the_global_dictionary_does_as_well_at_the_level_where_pages_stay() {
    let made = |recompression| {
        let (_temp, path) = temp();
        let store = create(&path, options().recompression_level(recompression));
        put(&store, "a", 0..2500);
        store.train().unwrap().iter().map(|d| d.group.len()).collect::<Vec<_>>()
    };
    assert_eq!(made(None), [0], "all pages are of one host");
    assert_eq!(made(Some(9)), [0, 1], "at level 9 a short dictionary of these pages is better than a long one");
}

#[test]
fn pages_that_have_changed_call_for_a_new_dictionary() {
    let (_temp, path) = temp();
    let mut options = options();
    options.limits.first_pages = 400;
    // At level 9 the new pages would be as short with the old dictionary.
    let store = create(&path, options.dictionary_bytes(4 << 10).recompression_level(None));
    put(&store, "a", 0..4000);
    work(&store);
    put(&store, "a", 4000..9000);
    work(&store);
    let before = store.dictionaries().len();
    put(&store, "a", 0..3000);
    work(&store);
    assert_eq!(store.dictionaries().len(), before, "nothing has changed");
    // The host is redesigned. It takes some pages until the recent ratio shows it.
    for i in 0..10 {
        for j in 0..1000 {
            let page = body("completely-new-and-different", i * 1000 + j);
            store.put(&Record::new(&key("a", j), &page).time(2)).unwrap();
        }
        work(&store);
    }
    let after = store.dictionaries();
    assert!(after.len() > before && after.len() <= before + 3, "{after:?}");
    assert_eq!(after.iter().filter(|d| d.is_current && d.group.is_empty()).count(), 1);
    assert!(after.last().unwrap().is_current, "the newest");
}

#[test]
fn memory_stays_bounded_and_what_was_dropped_is_digested_again() {
    let (_temp, path) = temp();
    let store = create(&path, eager().dictionary_memory_bytes(1 << 20));
    let hosts: Vec<String> = (0..12).map(|h| format!("host{h}")).collect();
    for host in &hosts {
        put(&store, host, 0..40);
        // More than would be trained: the memory limit also holds for existing ones.
        make(&store, host);
        put(&store, host, 40..80);
    }
    for _ in 0..3 {
        for host in &hosts {
            put(&store, host, 80..90);
            check(&store, host, 0..90);
            assert!(store.stats().dictionary_memory_bytes <= 1 << 20);
        }
    }
    let used = store.stats().dictionary_records;
    assert!(used > 300, "{used}");
}

#[test]
fn a_store_of_raw_pages_and_one_with_dictionaries_off_make_none() {
    for options in [options().compression_level(0), options().dictionaries(Dictionaries::Off)] {
        let (_temp, path) = temp();
        let store = create(&path, options);
        put(&store, "a", 0..100);
        work(&store);
        assert!(matches!(store.train(), Err(Error::Storage(StorageError::InvalidOption { .. }))));
        assert!(store.dictionaries().is_empty());
        check(&store, "a", 0..100);
    }
    // Existing dictionaries are still used for reads.
    let (_temp, path) = temp();
    trained(&path, options()).close().unwrap();
    let store = open(&path, options().dictionaries(Dictionaries::Off));
    put(&store, "a", 100..110);
    assert_eq!(store.stats().dictionary_records, 0);
    check(&store, "a", 0..110);
}

#[test]
fn large_bodies_batches_streams_and_references_use_dictionaries_too() {
    let (_temp, path) = temp();
    let store = create(&path, options().large_value_bytes(64 << 10));
    put(&store, "a", 0..50);
    work(&store);
    let large: Vec<u8> = (0..200).flat_map(|i| body("a", i)).collect();
    assert!(large.len() > 3 * (64 << 10));
    let large_meta = meta("a", 1);
    store.put(&Record::new(b"a/large", &large).meta(&large_meta)).unwrap();
    let (one, two) = (body("a", 71), body("a", 72));
    store.put_batch(&[Record::new(b"a/71", &one), Record::new(b"a/72", &two)]).unwrap();
    let version = Record::new(b"a/71", &one).meta(&large_meta);
    assert!(matches!(store.put_if_changed(&version).unwrap(), crate::Put::Unchanged(_)));
    let records = store.stats().dictionary_records;
    assert!(records >= 6, "chunks, their list, two pages, a reference: {records}");
    let found = store.get(b"a/large").unwrap().unwrap();
    assert!(found.body == large && found.head.meta == large_meta);
    let found = store.get(b"a/71").unwrap().unwrap();
    assert_eq!((found.body, found.head.meta), (one, large_meta));
}

#[test]
fn recompression_gives_a_shorter_record_that_expands_to_the_same() {
    let (_temp, path) = temp();
    let store = trained(&path, options());
    let mut shorter = 0;
    store
        .reading
        .sample_log(&mut |met| {
            let (h, key) = (&met.header, met.key());
            let payload = &met.bytes[h.payload_at()..][..h.payload_bytes as usize];
            let meta = &met.bytes[h.meta_at()..h.payload_at()];
            let new = store.reading.recompress(met.location, key, h, (meta, payload), 9)?;
            let Some(new) = new else { return Ok(()) };
            shorter += 1;
            assert_eq!((h.kind, new.header.codec, new.header.dictionary), (Kind::Page, Codec::Dictionary, 1));
            assert!(new.header.total_bytes() < h.total_bytes());
            assert_eq!(crc32fast::hash(&new.payload), new.header.payload_crc);
            assert_eq!(new.meta.len(), new.header.meta_bytes as usize);
            let again = store.reading.recompress(met.location, key, &new.header, (&new.meta, &new.payload), 9)?;
            assert!(again.is_none(), "it is not done twice");
            Ok(())
        })
        .unwrap();
    assert!(shorter >= 50, "all that were put before the dictionary: {shorter}");
    let estimate = store.try_recompression(9).unwrap();
    assert_eq!((estimate.records, estimate.shorter_records), (100, shorter));
    assert!(estimate.recompressed_payload_bytes < estimate.payload_bytes * 2 / 3, "{estimate:?}");
    assert!(matches!(store.try_recompression(0), Err(Error::Storage(StorageError::InvalidOption { .. }))));
}

#[test]
fn inspection_shows_both_copies_of_a_dictionary() {
    let (_temp, path) = temp();
    trained(&path, options()).close().unwrap();
    let mut items = Vec::new();
    let mut sink = |item: crate::upkeep::inspect::Inspected| {
        items.push(item);
        std::ops::ControlFlow::Continue(())
    };
    crate::upkeep::inspect::inspect(path.join("dict1.zdict"), &mut sink).unwrap();
    let kinds: Vec<_> = items.iter().map(|i| (&*i.kind, i.problem.is_some())).collect();
    assert_eq!(kinds, [("file header", false), ("dictionary", false), ("dictionary", false)]);
    assert_eq!(items[1].fields, items[2].fields);
    assert!(items[1].fields.contains(&("id", "1".to_owned())));
}
