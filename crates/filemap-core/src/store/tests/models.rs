//! A whole store with its background threads under the model checker shuttle: reads during the
//! handover of memtables at checkpoints, and closing concurrent with puts and syncs. The files are
//! real, in a memory file system where the system has one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::scheduler::RandomScheduler;
use shuttle::thread;

use crate::handle::reading::Tables;
use crate::index::memtable::Memtable;
use crate::sync::primitive::OnceLock;
use crate::{Durability, Error, Options, Record, Store};

fn check(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(RandomScheduler::new(schedules), config).run(scenario);
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn options(durability: Durability) -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .memtable_bytes(256 << 10)
        .free_space_floor(0)
        .durability(durability)
}

fn put(store: &Store, key: &[u8], n: u64) {
    store.put(&Record::new(key, &n.to_le_bytes()).time(n as i64)).unwrap();
}

/// The number in a key's newest version. Asserts that the version is intact.
fn number_of(store: &Store, key: &[u8]) -> Option<u64> {
    let value = store.get(key).unwrap()?;
    let n = u64::from_le_bytes(value.body[..].try_into().unwrap());
    assert_eq!(value.head.version.time_ms, n as i64);
    Some(n)
}

/// One thread puts `a` repeatedly, and removes and puts `b`; one runs `other`; this one reads.
fn readers_beside(other: fn(&Store)) {
    let folder = folder();
    let store = Store::create(folder.path().join("s"), options(Durability::Buffered)).unwrap();
    put(&store, b"a", 1);
    put(&store, b"b", 1);
    store.checkpoint().unwrap();
    let acknowledged = Arc::new(AtomicU64::new(1));
    let (theirs, told) = (store.clone(), Arc::clone(&acknowledged));
    let writer = thread::spawn(move || {
        for n in 2..=4 {
            put(&theirs, b"a", n);
            told.store(n, Ordering::SeqCst);
            if n == 2 {
                theirs.remove(b"b").unwrap();
            } else if n == 4 {
                put(&theirs, b"b", n);
            }
        }
    });
    let theirs = store.clone();
    let other = thread::spawn(move || other(&theirs));
    let (mut last, mut removed) = (1, false);
    for _ in 0..4 {
        let at_least = acknowledged.load(Ordering::SeqCst);
        let n = number_of(&store, b"a").expect("a is lost");
        assert!(n >= at_least && n >= last, "{n} after {last}, and {at_least} was acknowledged");
        last = n;
        let history: Vec<i64> = store.history(b"a").unwrap().iter().map(|h| h.version.time_ms).collect();
        assert!(history.len() as i64 == history[0] && history.is_sorted_by(|x, y| *x == y + 1), "{history:?}");
        match number_of(&store, b"b") {
            None => removed = true,
            Some(n) => assert!(n == 4 || n == 1 && !removed, "b came back"),
        }
        let keys: Vec<Vec<u8>> = store.keys().map(Result::unwrap).filter(|key| key == b"a").collect();
        assert_eq!(keys.len(), 1, "a is listed {} times", keys.len());
    }
    writer.join().unwrap();
    other.join().unwrap();
    assert_eq!(store.verify().unwrap().problems, []);
    assert_eq!((number_of(&store, b"a"), number_of(&store, b"b")), (Some(4), Some(4)));
    store.close().unwrap();
}

#[test]
fn checkpoints_hide_nothing_from_readers() {
    check(3000, || {
        readers_beside(|store| {
            store.checkpoint().unwrap();
            store.checkpoint().unwrap();
        });
    });
}

#[test]
#[should_panic]
fn a_table_that_is_dropped_before_it_is_merged_is_noticed() {
    // One schedule in 55 reveals it.
    check(3000, || {
        readers_beside(|store| {
            let tables = Arc::clone(&store.reading.tables());
            let fresh = || Arc::new(Memtable::new(256 << 10, 0, None));
            store.reading.replace_tables(Arc::new(Tables { active: fresh(), frozen: None }));
            // Long enough for a put or get in between.
            thread::yield_now();
            thread::yield_now();
            store.reading.replace_tables(tables);
        });
    });
}

#[test]
fn a_store_that_is_closed_beside_puts_and_syncs_keeps_what_they_acknowledged() {
    check(1500, || {
        let folder = folder();
        let path = folder.path().join("s");
        let store = Store::create(&path, options(Durability::Sync)).unwrap();
        let kept = Arc::new(OnceLock::new());
        let (theirs, told) = (store.clone(), Arc::clone(&kept));
        let putting = thread::spawn(move || match theirs.put(&Record::new(b"k", b"v")) {
            Ok(_) => told.set(()).unwrap(),
            Err(e) => assert!(matches!(e, Error::Closed), "{e}"),
        });
        let theirs = store.clone();
        let syncing = thread::spawn(move || {
            let result = theirs.sync();
            assert!(matches!(result, Ok(()) | Err(Error::Closed)), "{result:?}");
        });
        store.close().unwrap();
        putting.join().unwrap();
        syncing.join().unwrap();
        let again = Store::open(&path, options(Durability::Sync)).unwrap();
        assert!(kept.get().is_none() || again.get(b"k").unwrap().is_some(), "what was acknowledged is lost");
        again.close().unwrap();
    });
}
