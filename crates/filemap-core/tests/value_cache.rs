//! The value cache: gets that it answers without reading the file, reads that bypass it, and its
//! limit in bytes.

use filemap_core::{Options, Record, Stats, Store};

fn options() -> Options {
    Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10).free_space_floor(0).value_cache_bytes(8 << 20)
}

fn key(i: u64) -> Vec<u8> {
    format!("http://host.example/{i}").into_bytes()
}

/// Text that hardly shrinks, so that files are about as long as the bodies put.
fn body(i: u64, bytes: usize) -> Vec<u8> {
    let mut x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn put(store: &Store, i: u64, version: u64, bytes: usize) {
    let body = body(i + 1000 * version, bytes);
    store.put(&Record::new(&key(i), &body).meta(b"kind: text").time(version as i64)).unwrap();
}

#[track_caller]
fn has(store: &Store, i: u64, version: u64, bytes: usize) {
    let value = store.get(&key(i)).unwrap().unwrap();
    assert!(value.body == body(i + 1000 * version, bytes), "key {i}");
    assert_eq!((&value.head.meta[..], value.head.version.time_ms), (&b"kind: text"[..], version as i64));
    assert_eq!(Some(value.head), store.head(&key(i)).unwrap());
}

fn uses(store: &Store) -> (u64, u64) {
    let Stats { value_cache_hits, value_cache_misses, .. } = store.stats();
    (value_cache_hits, value_cache_misses)
}

#[test]
fn a_page_that_was_read_is_not_read_again_even_when_its_file_is_damaged() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options().compression_level(0)).unwrap();
    (0..40).for_each(|i| put(&store, i, 1, 2000));
    store.checkpoint().unwrap();
    (0..20).for_each(|i| has(&store, i, 1, 2000));
    assert_eq!(uses(&store), (0, 20));
    let file = path.join("value0.dat");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[64..].fill(7);
    std::fs::write(&file, bytes).unwrap();
    for i in 0..20 {
        let value = store.get(&key(i)).unwrap().unwrap();
        assert!(value.body == body(i + 1000, 2000) && value.head.meta == b"kind: text", "key {i}");
        assert!(store.get_range(&key(i), 10..20).unwrap().unwrap() == value.body[10..20]);
    }
    assert_eq!(uses(&store), (40, 20));
    assert!((20..40).all(|i| store.get(&key(i)).unwrap_err().is_corrupt()), "what was not read lies in the file only");
    assert!((0..20).all(|i| store.get_at(&key(i), 9).unwrap_err().is_corrupt()), "versions are read from the file");
    assert!(!store.verify().unwrap().problems.is_empty(), "and so is what verify looks at");
}

#[test]
fn a_new_version_shows_and_a_removed_page_does_not() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for version in 1..4 {
        (0..30).for_each(|i| put(&store, i, version, 3000));
        (0..30).for_each(|i| has(&store, i, version, 3000));
        if version == 2 {
            store.checkpoint().unwrap();
        }
        (0..30).for_each(|i| has(&store, i, version, 3000));
    }
    // The same body again is a reference, whose page is cached already.
    let same = body(3 + 3000, 3000);
    store.put_if_changed(&Record::new(&key(3), &same).meta(b"kind: text").time(4)).unwrap();
    let before = uses(&store);
    let value = store.get(&key(3)).unwrap().unwrap();
    assert!(value.body == same && value.head.version.time_ms == 4 && value.head.unchanged_since.is_some());
    assert_eq!(uses(&store).0, before.0 + 1);
    store.remove(&key(5)).unwrap();
    assert!(store.get(&key(5)).unwrap().is_none());
    store.compact().unwrap();
    for i in (0..30).filter(|i| ![3, 5].contains(i)) {
        has(&store, i, 3, 3000);
    }
    assert!(store.get(&key(5)).unwrap().is_none());
}

#[test]
fn compaction_moves_pages_within_it_unless_it_compresses_them_anew() {
    let temp = tempfile::tempdir().unwrap();
    // Pages put uncompressed can be made shorter later, except the half that is noise. Without a
    // bound nothing is moved except by the calls below.
    let options = options().compression_level(0).space_bound(None);
    let store = Store::create(temp.path().join("a"), options).unwrap();
    let page = |i: u64| {
        if i.is_multiple_of(4) { body(i, 2000) } else { format!("the same words {i}, ").repeat(100).into_bytes() }
    };
    for i in 0..800 {
        store.put(&Record::new(&key(i), &page(i))).unwrap();
    }
    (0..800).filter(|i| i % 2 == 1).for_each(|i| assert!(store.remove(&key(i)).unwrap()));
    store.checkpoint().unwrap();
    let look = || {
        for i in (0..800).filter(|i| i % 2 == 0) {
            let value = store.get(&key(i)).unwrap().unwrap();
            assert!(value.body == page(i), "key {i}");
            assert_eq!(Some(value.head), store.head(&key(i)).unwrap());
        }
        uses(&store)
    };
    let place = || store.head(&key(0)).unwrap().unwrap().place;
    assert_eq!(look(), (0, 400));
    let (first, taken) = (place(), store.stats().value_cache_bytes);
    store.compact().unwrap();
    assert_ne!(place(), first);
    assert_eq!(look(), (400, 400), "all of them were there, each at its new place");
    assert_eq!(store.stats().value_cache_bytes, taken, "and no more at the old one");
    let second = place();
    store.recompress(9).unwrap();
    assert_ne!(place(), second);
    assert_eq!(look(), (600, 600), "those were that it left as they are");
}

#[test]
fn it_stays_within_its_bytes_and_takes_no_large_page() {
    let temp = tempfile::tempdir().unwrap();
    let bytes = 1 << 20;
    let store = Store::create(temp.path().join("a"), options().value_cache_bytes(bytes)).unwrap();
    // Beyond a 64th of the cache, and one in chunks.
    let sizes = |i: u64| if i == 0 { (bytes / 64) + 1 } else { 100 + (i as usize * 37) % 15_000 };
    (0..500).for_each(|i| put(&store, i, 1, sizes(i)));
    put(&store, 500, 1, 200_000);
    for _ in 0..3 {
        (0..500).for_each(|i| has(&store, i, 1, sizes(i)));
        has(&store, 500, 1, 200_000);
        let taken = store.stats().value_cache_bytes;
        assert!((1..=bytes as u64).contains(&taken), "{taken}");
    }
    let before = uses(&store);
    (0..5).for_each(|_| has(&store, 0, 1, sizes(0)));
    (0..5).for_each(|_| has(&store, 500, 1, 200_000));
    assert_eq!(uses(&store).0, before.0, "large pages are not kept");
    let without = Store::create(temp.path().join("b"), options().value_cache_bytes(0)).unwrap();
    put(&without, 1, 1, 100);
    (0..3).for_each(|_| has(&without, 1, 1, 100));
    assert_eq!((uses(&without), without.stats().value_cache_bytes), ((0, 0), 0));
}

#[test]
fn listings_leave_it_alone_and_many_gets_use_it() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    (0..50).for_each(|i| put(&store, i, 1, 500));
    assert_eq!(store.pages().map(Result::unwrap).count(), 50);
    assert_eq!(uses(&store), (0, 0));
    let keys: Vec<Vec<u8>> = (0..50).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for round in 0..2 {
        let values = store.get_many(&keys).unwrap();
        assert!(values.into_iter().zip(0..).all(|(v, i)| v.unwrap().body == body(i + 1000, 500)));
        assert_eq!(uses(&store), (50 * round, 50));
    }
}

#[test]
fn a_shared_body_is_the_caches_own_and_outlives_its_page() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    put(&store, 1, 1, 3000);
    put(&store, 2, 1, 200_000);
    store.put_if_changed(&Record::new(&key(1), &body(1001, 3000)).meta(b"kind: text").time(2)).unwrap();
    let shared = |i: u64| store.get_shared(&key(i)).unwrap().unwrap();
    assert!(!shared(1).1.is_shared(), "the first read is from the file");
    let (head, first) = shared(1);
    assert!(first.is_shared() && first[..] == body(1001, 3000));
    assert_eq!((Some(head), first.len()), (store.head(&key(1)).unwrap(), 3000));
    for _ in 0..2 {
        let large = shared(2).1;
        assert!(!large.is_shared() && large[..] == body(1002, 200_000), "bodies in chunks are not cached");
    }
    let reader = Box::new(store.get_reader(&key(1)).unwrap().unwrap());
    assert!(reader.into_memory().is_ok_and(|body| body.is_shared() && body[..] == first[..]));
    let before = uses(&store);
    let value = store.get(&key(1)).unwrap().unwrap();
    assert!(value.body == first[..] && store.get_range(&key(1), 5..9).unwrap().unwrap() == first[5..9]);
    assert_eq!(uses(&store).0, before.0 + 2);
    store.close().unwrap();
    assert!(first[..] == body(1001, 3000));
}

/// Returns whether an automatic cache may begin on this machine now.
fn has_memory() -> bool {
    let there = filemap_io::system::memory()
        .is_some_and(|memory| memory.available_bytes > memory.total_bytes / 4 + memory.total_bytes / 64);
    if !there {
        eprintln!("skipped: less than a quarter of memory is available");
    }
    there
}

#[test]
fn by_default_it_begins_once_gets_repeat_in_a_writer_and_in_a_follower() {
    if !has_memory() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let options = || Options::new().segment_bytes(1 << 20).free_space_floor(0);
    let writer = Store::create(&path, options().large_value_bytes(64 << 10)).unwrap();
    (0..100).for_each(|i| put(&writer, i, 1, 2000));
    writer.checkpoint().unwrap();
    let follower = Store::open_read_only(&path, options().large_value_bytes(64 << 10)).unwrap();
    let bounded = Store::open_read_only(&path, options().large_value_bytes(64 << 10).max_value_cache_bytes(1 << 20));
    for (store, most) in [(writer, u64::MAX), (follower, u64::MAX), (bounded.unwrap(), 1 << 20)] {
        (0..100).for_each(|i| has(&store, i, 1, 2000));
        assert_eq!((uses(&store), store.stats().value_cache_bound_bytes), ((0, 0), 0), "each was read once");
        for _ in 0..20 {
            (0..100).for_each(|i| has(&store, i, 1, 2000));
        }
        let Stats { value_cache_bytes, value_cache_bound_bytes, value_cache_hits, .. } = store.stats();
        assert!((200_000..1 << 20).contains(&value_cache_bytes), "{value_cache_bytes}");
        assert!((1 << 20..=most).contains(&value_cache_bound_bytes), "{value_cache_bound_bytes}");
        assert!(value_cache_hits > 1000, "{value_cache_hits} of 2100 gets");
        assert!((0..100).all(|i| store.get_shared(&key(i)).unwrap().unwrap().1.is_shared()));
    }
}
