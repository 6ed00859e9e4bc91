//! Erasures that are cut short, each made by hand on a simulated disk, with planted faults that
//! these cases catch.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use filemap_core::erase::{Erased, Erasure};
use filemap_core::sim::{self, Fault, Limits};
use filemap_core::{Options, Record, Store};
use filemap_io::sim::SimDisk;

const KEY: &[u8] = b"http://example.com/erased";

fn options() -> Options {
    let limits =
        Limits { leaf_slots: 2, stage_pages: 1, flush_pages: 1, flush_key_bytes: 1, map_pages: 1, ..Limits::default() };
    crate::with_limits(limits)
}

fn erase(store: &Store) -> Erased {
    let what =
        Erasure { keys: Arc::new(|key| key == KEY), versions: Arc::new(|_, _| true), groups: Arc::new(|_| true) };
    store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Images left by kills at every call.
fn killed(disk: &SimDisk, during: impl FnOnce()) -> Vec<SimDisk> {
    let images: Arc<Mutex<Vec<SimDisk>>> = Arc::default();
    let drawn = Arc::clone(&images);
    disk.observe(Some(Box::new(move |at| drawn.lock().unwrap().push(at.kill()))));
    during();
    disk.observe(None);
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(!images.is_empty());
    images
}

/// Number of failures without and with a fault planted.
fn with_and_without(fault: Fault, wrong: impl Fn() -> usize) -> (usize, usize) {
    let sound = wrong();
    sim::plant(Some(fault));
    let planted = wrong();
    sim::plant(None);
    (sound, planted)
}

/// Kills in an erasure, beside which the body that goes is put again, after which a version is
/// damaged.
fn left_without_a_body() -> usize {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options()).unwrap();
    let record = |time_ms| Record::new(KEY, b"the same body").time(time_ms);
    for i in 0..20u8 {
        store.put(&Record::new(&[i], &[i; 30])).unwrap();
    }
    store.put(&record(1)).unwrap();
    store.checkpoint().unwrap();
    store.put(&record(2)).unwrap();
    // While the checkpoint runs with which the erasure begins: after it was frozen, before the
    // erasure looks.
    let (other, mut is_put) = (store.clone(), false);
    sim::at_steps(Some(Box::new(move || {
        if !std::mem::replace(&mut is_put, true) {
            other.put_if_changed(&record(3)).unwrap();
            (0..20u8).for_each(|i| assert!(other.put(&Record::new(&[i], &[i; 40])).is_ok()));
        }
    })));
    let images = killed(&disk, || assert!(erase(&store).is_complete()));
    sim::at_steps(None);
    sim::abandon(store);
    let is_damaged = |image: &SimDisk| {
        let store = sim::open(image.dir(), options()).unwrap();
        let damaged = store.history(KEY).is_err() || store.get(KEY).is_err();
        sim::abandon(store);
        damaged
    };
    images.iter().filter(|image| is_damaged(image)).count()
}

#[test]
fn a_crash_between_the_stages_of_an_erasure_leaves_no_version_without_its_body() {
    let (sound, planted) = with_and_without(Fault::ErasedWhileEntered, left_without_a_body);
    assert_eq!(sound, 0);
    assert!(planted > 0);
}

/// Kills in an erasure of a removed page, after which a repair that has the value log alone brings
/// it back.
fn brought_back() -> usize {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options()).unwrap();
    store.put(&Record::new(KEY, &[1; 400])).unwrap();
    store.put(&Record::new(b"gone", &[2; 400])).unwrap();
    (0..8u8).for_each(|i| assert!(store.put(&Record::new(&[i], &[i; 400])).is_ok()));
    store.checkpoint().unwrap();
    assert!(store.remove(b"gone").unwrap());
    // The page moves to a segment that comes after that of its removal.
    store.compact().unwrap();
    assert!(store.remove(KEY).unwrap());
    store.checkpoint().unwrap();
    let images = killed(&disk, || assert!(erase(&store).is_complete()));
    sim::abandon(store);
    let comes_back = |image: &SimDisk| {
        let derived = |name: &String| name.starts_with("key") || name == "address.idx" || name == "SUPERBLOCK";
        image.names().iter().filter(|name| derived(name)).for_each(|name| image.remove(name));
        sim::repair(image.dir(), None, &options().canonicalizer("bytes", 1)).unwrap();
        let store = sim::open(image.dir(), options()).unwrap();
        let is_back = store.get(KEY).unwrap().is_some();
        sim::abandon(store);
        is_back
    };
    images.iter().filter(|image| comes_back(image)).count()
}

#[test]
fn a_removal_goes_after_all_that_it_hides() {
    let (sound, planted) = with_and_without(Fault::TombstonesErasedAtOnce, brought_back);
    assert_eq!(sound, 0);
    assert!(planted > 0);
}

/// Options of a store with dictionaries.
fn with_dictionaries() -> Options {
    let options =
        options().compression_level(3).dictionary_bytes(4096).segment_bytes(1 << 20).large_value_bytes(256 << 10);
    let limits = Limits { first_pages: 5, group_pages: 3, always_train: true, ..Limits::default() };
    sim::with_limits(options, limits)
}

/// Pages `from` and on, alike but for their last bytes.
fn put_alike(store: &Store, numbers: std::ops::Range<u32>) {
    for i in numbers {
        store.put(&Record::new(&i.to_le_bytes(), alike(i).as_bytes())).unwrap();
    }
}

fn alike(i: u32) -> String {
    let all: String = (0..200).map(|i| format!("{:x} ", i * 0x9e37_79b9_u64)).collect();
    format!("{all}{i}")
}

/// Kills in an erasure that removes a dictionary, after which one is missed.
fn missed_dictionaries() -> usize {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), with_dictionaries()).unwrap();
    put_alike(&store, 0..20);
    store.put(&Record::new(KEY, alike(1000).as_bytes())).unwrap();
    store.train().unwrap();
    store.checkpoint().unwrap();
    assert!(!store.dictionaries().is_empty(), "as this case takes for granted");
    let images = killed(&disk, || assert!(!erase(&store).dictionaries.is_empty()));
    sim::abandon(store);
    let misses = |image: &&SimDisk| {
        let reader = sim::open_read_only(image.dir(), with_dictionaries()).unwrap();
        let is_missed = !reader.absent().is_empty();
        sim::abandon(reader);
        is_missed || sim::open(image.dir(), with_dictionaries()).map(sim::abandon).is_err()
    };
    images.iter().filter(misses).count()
}

#[test]
fn a_dictionary_goes_after_the_superblock_that_names_it() {
    let (sound, planted) = with_and_without(Fault::DictionaryRemovedNamed, missed_dictionaries);
    assert_eq!(sound, 0);
    assert!(planted > 0);
}

/// Number of pages that cannot be read any more after an erasure that has removed a dictionary.
fn lost_with_a_dictionary() -> usize {
    let disk = SimDisk::new(3);
    let options = with_dictionaries();
    let store = sim::create(disk.dir(), options.clone()).unwrap();
    put_alike(&store, 0..200);
    store.put(&Record::new(KEY, alike(1000).as_bytes())).unwrap();
    store.train().unwrap();
    put_alike(&store, 200..300);
    store.checkpoint().unwrap();
    assert!(!store.dictionaries().is_empty(), "as this case takes for granted");
    assert!(!erase(&store).dictionaries.is_empty());
    store.close().unwrap();
    let store = sim::open(disk.dir(), options).unwrap();
    let is_lost =
        |i: &u32| !store.get(&i.to_le_bytes()).is_ok_and(|v| v.is_some_and(|v| v.body == alike(*i).as_bytes()));
    let lost = (0..300).filter(is_lost).count();
    sim::abandon(store);
    lost
}

#[test]
fn no_record_names_a_dictionary_that_went() {
    let (sound, planted) = with_and_without(Fault::RetiredDictionariesNamed, lost_with_a_dictionary);
    assert_eq!(sound, 0);
    assert!(planted > 0);
}
