//! Shrinking the index of a store that loses most of its keys, with readers meanwhile.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::index::address::fill::Filling;
use crate::upkeep::compact::index::shrink_index;
use crate::{Options, Record, Store};

const KEYS: u32 = 250_000;
const LEFT: u32 = 600;

fn options() -> Options {
    let mut options = Options::new().free_space_floor(0);
    options.limits.stage_pages = 32;
    options
}

fn key(i: u32) -> Vec<u8> {
    i.to_le_bytes().to_vec()
}

fn allocated(store: &Store) -> u64 {
    std::fs::metadata(store.path().join("address.idx")).unwrap().blocks() * 512
}

/// Fills the filter from the beginning, as the compaction thread does once.
fn fill(store: &Store) {
    let mut filling = Filling::default();
    while store.reading.index().fill_filter(&mut filling, &mut |e| panic!("{e}")) {}
}

/// Stops the readers even if the writer panics.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn shrink(store: &Store) -> bool {
    shrink_index(store.upkeep().unwrap()).unwrap()
}

fn has_all(store: &Store, keys: std::ops::Range<u32>) {
    for i in 0..KEYS {
        assert_eq!(store.get(&key(i)).unwrap().is_some(), keys.contains(&i), "{i}");
    }
}

#[test]
fn a_store_that_loses_its_keys_gives_the_pages_of_the_index_back_and_takes_them_again() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let put = |store: &Store| (0..KEYS).for_each(|i| assert!(store.put(&Record::new(&key(i), b"v").time(1)).is_ok()));
    put(&store);
    store.checkpoint().unwrap();
    assert!(!shrink(&store), "a full index is left alone");
    let (full, depth) = (allocated(&store), store.stats().directory_bytes);
    let reader = Store::open_read_only(store.path(), options()).unwrap();
    has_all(&reader, 0..KEYS);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writing = Stops(&stop);
        let reading = s.spawn(|| {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) || rounds < 2 {
                for i in 0..LEFT {
                    assert_eq!(reader.get(&key(i)).unwrap().unwrap().body, b"v");
                    assert!(store.contains(&key(i)).unwrap());
                }
                rounds += 1;
            }
        });
        let filling = s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fill(&store);
            }
        });
        (LEFT..KEYS).for_each(|i| assert!(store.remove(&key(i)).unwrap()));
        store.checkpoint().unwrap();
        assert!(shrink(&store));
        drop(writing);
        reading.join().unwrap();
        filling.join().unwrap();
    });
    assert!(!shrink(&store), "once is enough");
    let stats = store.stats();
    assert!(allocated(&store) * 5 < full, "{} of {full} bytes are left", allocated(&store));
    assert!(stats.directory_bytes * 4 <= depth && stats.index_leaves <= 128, "{stats:?}");
    let total: u64 =
        std::fs::read_dir(store.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().blocks() * 512).sum();
    assert_eq!(stats.disk_bytes, total, "as du says");
    assert_eq!(store.verify().unwrap().problems, []);
    reader.refresh().unwrap();
    has_all(&reader, 0..LEFT);
    let path = store.path().to_owned();
    store.close().unwrap();

    let store = Store::open(&path, options()).unwrap();
    has_all(&store, 0..LEFT);
    put(&store);
    store.checkpoint().unwrap();
    has_all(&store, 0..KEYS);
    reader.refresh().unwrap();
    has_all(&reader, 0..KEYS);
    assert_eq!(store.verify().unwrap().problems, []);
    assert!(store.stats().index_bytes < full * 3 / 2, "holes are written again");
}

/// Threads fill the filter while checkpoints write leaves, use pages again and double the
/// directory.
#[test]
fn a_filter_that_is_filled_while_the_index_grows_hides_no_key() {
    const KEYS: u32 = 12_000;
    let temp = tempfile::tempdir().unwrap();
    let mut options = options().filter_memory_bytes(150_000);
    (options.limits.leaf_slots, options.limits.stage_pages) = (12, 100);
    let store = Store::create(temp.path().join("a"), options).unwrap();
    let (entered, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        let writing = Stops(&stop);
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fill(&store);
            }
        });
        s.spawn(|| {
            let mut random = fastrand::Rng::with_seed(1);
            while !stop.load(Ordering::Relaxed) {
                let keys = entered.load(Ordering::Acquire);
                for i in (0..keys.min(2000)).map(|_| random.u32(..keys)) {
                    assert!(store.contains(&key(i)).unwrap(), "{i} of {keys}");
                }
            }
        });
        for i in 0..KEYS {
            store.put(&Record::new(&key(i), b"").time(1)).unwrap();
            if i % 1000 == 999 {
                store.checkpoint().unwrap();
                entered.store(i + 1, Ordering::Release);
            }
        }
        drop(writing);
    });
    has(&store, KEYS);
    let path = store.path().to_owned();
    store.close().unwrap();
    let store = Store::open(&path, self::options()).unwrap();
    fill(&store);
    has(&store, KEYS);
}

fn has(store: &Store, keys: u32) {
    assert!((0..keys).all(|i| store.contains(&key(i)).unwrap()));
}
