//! Many threads on one handle, and followers beside it, through checkpoints, growth and rolls.
//!
//! A separate program, so that ThreadSanitizer (`.ci/run`) need not build the other tests.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use filemap_core::{Durability, Error, Options, Record, Store};

fn options() -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .checkpoint_bytes(512 << 10)
        .memtable_bytes(256 << 10)
        .free_space_floor(0)
        .durability(Durability::Interval(Duration::from_millis(5)))
        .max_open_files(4)
}

fn key(i: u64) -> Vec<u8> {
    format!("http://host{}.example/{i}", i % 17).into_bytes()
}

/// A body that names its key and round, so that a mixture shows.
fn body(i: u64, round: u64) -> Vec<u8> {
    format!("{i} {round} ").repeat(1 + (i as usize * 7 + round as usize) % 90).into_bytes()
}

fn round_of(i: u64, bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut words = text.split(' ');
    assert_eq!(words.next(), Some(i.to_string().as_str()), "a page of another key");
    let round = words.next().unwrap().parse().unwrap();
    assert_eq!(bytes, body(i, round), "a mixture");
    round
}

const KEYS: u64 = 700;

#[test]
fn readers_see_whole_pages_that_never_go_back_in_time() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for i in 0..KEYS {
        store.put(&Record::new(&key(i), &body(i, 0)).time(0)).unwrap();
    }
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let readers: Vec<Store> = vec![
            store.clone(),
            Store::open_read_only(store.path(), options()).unwrap(),
            Store::open_read_only(store.path(), options()).unwrap(),
        ];
        let start = |(n, reader): (usize, Store)| {
            let (acknowledged, done) = (&acknowledged, &done);
            s.spawn(move || {
                let mut seen = vec![0; KEYS as usize];
                let mut i = n as u64;
                loop {
                    let last = done.load(Ordering::Relaxed);
                    i = (i * 31 + 7) % KEYS;
                    let at_least = acknowledged[i as usize].load(Ordering::Acquire);
                    if reader.is_read_only() && n == 1 {
                        reader.refresh().unwrap();
                    }
                    let value = reader.get(&key(i)).unwrap().unwrap_or_else(|| panic!("{i} is lost"));
                    let round = round_of(i, &value.body);
                    assert!(round >= seen[i as usize], "{i} went back from {} to {round}", seen[i as usize]);
                    if n < 2 {
                        assert!(round >= at_least, "{i}: {round}, but {at_least} was acknowledged");
                    }
                    seen[i as usize] = round;
                    let head = reader.head(&key(i)).unwrap().unwrap();
                    assert!(head.version.time_ms as u64 >= round);
                    if last {
                        break;
                    }
                }
            })
        };
        let readers: Vec<_> = readers.into_iter().enumerate().map(start).collect();
        let writers: Vec<_> = (0..2u64)
            .map(|w| {
                let (store, acknowledged) = (store.clone(), &acknowledged);
                s.spawn(move || {
                    for round in 1..60 {
                        for i in (0..KEYS).filter(|i| i % 2 == w) {
                            store.put(&Record::new(&key(i), &body(i, round)).time(round as i64)).unwrap();
                            acknowledged[i as usize].store(round, Ordering::Release);
                        }
                        // However slow the background is, later puts need a checkpoint.
                        if w == 0 && round % 5 == 0 {
                            store.checkpoint().unwrap();
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|r| r.join().unwrap());
    });
    let stats = store.stats();
    assert!(stats.checkpoints >= 11 && stats.segments > 4, "{stats:?}");
    assert!(store.verify().unwrap().problems.is_empty());
    assert_eq!(store.keys().count(), KEYS as usize);
    assert_eq!(store.history(&key(3)).unwrap().len(), 60);
}

#[test]
fn lists_meet_every_key_once_while_checkpoints_run() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for i in 0..KEYS {
        store.put(&Record::new(&key(i), &body(i, 0)).time(0)).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            for round in 1..12 {
                for i in 0..KEYS {
                    store.put(&Record::new(&key(i), &body(i, round)).time(round as i64)).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        loop {
            let last = done.load(Ordering::Relaxed);
            let mut keys: Vec<Vec<u8>> = store.keys().map(Result::unwrap).collect();
            keys.sort();
            let count = keys.len();
            keys.dedup();
            assert_eq!((count, keys.len()), (KEYS as usize, KEYS as usize));
            let hosts = store.keys_with_prefix(b"http://host3.").count() as u64;
            assert_eq!(hosts, (0..KEYS).filter(|i| i % 17 == 3).count() as u64);
            if last {
                break;
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_live_store_verifies_clean_and_its_pages_are_those_of_the_beginning() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for i in 0..KEYS {
        store.put(&Record::new(&key(i), &body(i, 0)).time(0)).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            for round in 1..40 {
                for i in 0..KEYS {
                    store.put_if_changed(&Record::new(&key(i), &body(i, round / 2)).time(round as i64)).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let reader = Store::open_read_only(store.path(), options()).unwrap();
        loop {
            let last = done.load(Ordering::Relaxed);
            for handle in [&store, &reader] {
                assert_eq!(handle.verify().unwrap().problems, []);
                let mut keys: Vec<Vec<u8>> = handle.pages().map(|p| p.unwrap().0).collect();
                keys.sort();
                let count = keys.len();
                keys.dedup();
                assert_eq!((count, keys.len()), (KEYS as usize, KEYS as usize));
            }
            if last {
                break;
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn few_files_stay_open_however_many_segments_there_are() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let mut x = 1u64;
    let mut random = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    let noise: Vec<u8> = (0..60_000).map(|_| random()).collect();
    for i in 0..400 {
        store.put(&Record::new(&key(i), &noise[i as usize..]).time(1)).unwrap();
    }
    // Segments not synced yet stay open whatever the bound, as many as a slow device requires.
    store.sync().unwrap();
    // After the puts, not after the gets: opening a file for reading also closes others.
    let open = open_files_of(&store);
    assert!(store.stats().segments > 15, "{}", store.stats().segments);
    assert!(open < 16, "{open} files of the store are open");
    for i in 0..400 {
        assert_eq!(store.get(&key(i)).unwrap().unwrap().body, &noise[i as usize..]);
    }
    let open = open_files_of(&store);
    assert!(open < 16, "{open} files of the store are open");
}

/// Number of this process's descriptors that lead into a store.
fn open_files_of(store: &Store) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    links.filter(|target| target.starts_with(store.path())).count()
}

#[test]
fn an_unchanged_page_is_read_without_walking_its_history() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    store.put(&Record::new(b"k", b"the body").time(0)).unwrap();
    for day in 1..200 {
        store.put_if_changed(&Record::new(b"k", b"the body").time(day)).unwrap();
        if day % 10 == 0 {
            store.checkpoint().unwrap();
        }
    }
    assert_eq!(store.stats().unchanged_puts, 199);
    store.checkpoint().unwrap();
    let value = store.get(b"k").unwrap().unwrap();
    assert_eq!((value.body.as_slice(), value.head.version.time_ms), (&b"the body"[..], 199));
    assert_eq!(store.history(b"k").unwrap().len(), 200);
    // A record of the history between the newest and the holder may even be damaged.
    let path = store.path().join("key0.dat");
    let len = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"rot", len / 2 / 16 * 16 + 20).unwrap();
    assert_eq!(store.get(b"k").unwrap().unwrap().body, b"the body");
    assert!(store.history(b"k").is_err());
}

#[test]
fn large_values_stream_in_and_out_and_ranges_read_only_what_they_meet() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let piece: Vec<u8> = (0..100_003u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u8 & 0x1f).collect();
    let mut writer = store.put_stream(b"big", b"meta", 7).unwrap();
    for _ in 0..50 {
        writer.write_all(&piece).unwrap();
    }
    writer.finish().unwrap();
    drop(store.put_stream(b"never", b"", 1).map(|mut w| w.write_all(&piece)).unwrap());
    assert_eq!(store.get(b"never").unwrap(), None);
    store.checkpoint().unwrap();
    let whole = piece.repeat(50);
    assert_eq!(store.get(b"big").unwrap().unwrap().body, whole);
    let head = store.head(b"big").unwrap().unwrap();
    assert_eq!((head.body_bytes, head.version.time_ms, &head.meta[..]), (whole.len() as u64, 7, &b"meta"[..]));
    assert!(head.stored_bytes > 10_000);
    assert_eq!(head.digest, xxhash_rust::xxh3::xxh3_128(&whole).to_be_bytes());
    let mut read = Vec::new();
    let mut reader = store.get_reader(b"big").unwrap().unwrap();
    assert_eq!(reader.head().body_bytes, whole.len() as u64);
    reader.read_to_end(&mut read).unwrap();
    assert!(read == whole);
    let len = whole.len() as u64;
    for range in [
        0..0,
        0..1,
        65_535..65_537,
        131_072..196_608,
        99_999..400_001,
        len - 1..len,
        len - 5..len + 9,
        len..len + 1,
        7..u64::MAX,
    ] {
        let want = &whole[(range.start.min(len) as usize)..(range.end.min(len) as usize)];
        assert!(store.get_range(b"big", range.clone()).unwrap().unwrap() == want, "{range:?}");
    }
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = 9..3;
    assert_eq!(store.get_range(b"big", backwards).unwrap().unwrap(), b"");
    assert_eq!(store.get_range(b"none", 0..9).unwrap(), None);
}

#[test]
fn a_source_that_fails_stores_nothing_and_one_that_ends_is_stored_whole() {
    struct Failing(u32);
    impl Read for Failing {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            if self.0 > 5 {
                return Err(std::io::Error::other("the line is dead"));
            }
            Ok(buf.len())
        }
    }
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let error = store.put_reader(b"k", b"", 1, &mut Failing(0)).unwrap_err();
    assert!(matches!(error, Error::Source(_)) && error.to_string().contains("the line is dead"), "{error}");
    assert_eq!(store.get(b"k").unwrap(), None);
    let body = vec![b'x'; 1_000_000];
    store.put_reader(b"k", b"m", 2, &mut &body[..]).unwrap();
    assert!(store.get(b"k").unwrap().unwrap().body == body);
    store.put_reader(b"empty", b"", 2, &mut std::io::empty()).unwrap();
    assert_eq!(store.get(b"empty").unwrap().unwrap().body, b"");
}

#[test]
fn a_reader_keeps_its_page_and_a_closed_store_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let whole = vec![7; 300_000];
    store.put(&Record::new(b"k", &whole)).unwrap();
    let mut reader = store.get_reader(b"k").unwrap().unwrap();
    store.remove(b"k").unwrap();
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == whole);
    let clone = store.clone();
    store.close().unwrap();
    assert!(matches!(clone.sync(), Err(Error::Closed)));
}
