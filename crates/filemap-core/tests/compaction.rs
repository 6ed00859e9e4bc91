//! Compaction: the space of dead records is freed, live ones are unchanged, and no reader notices.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use filemap_core::compact::{CompactionGoal, Reason};
use filemap_core::dictionaries::Dictionaries;
use filemap_core::{Options, Record, Store};

fn options() -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .checkpoint_bytes(512 << 10)
        .memtable_bytes(1 << 20)
        .dictionaries(Dictionaries::Off)
        .recompression_level(None)
        // No background work, except where a test is about that.
        .space_bound(None)
        .free_space_floor(0)
        .keep_removals(std::time::Duration::ZERO)
}

fn key(i: u64) -> Vec<u8> {
    format!("http://host{}.example/{i}", i % 7).into_bytes()
}

/// Incompressible bytes, different for each page and round.
fn body(i: u64, round: u64) -> Vec<u8> {
    let mut body = vec![0; 1500 + (i % 1000) as usize];
    fastrand::Rng::with_seed(i << 20 | round).fill(&mut body);
    body
}

fn put(store: &Store, keys: std::ops::Range<u64>, round: u64) {
    for i in keys {
        store.put(&Record::new(&key(i), &body(i, round)).time(round as i64)).unwrap();
    }
}

fn check(store: &Store, keys: std::ops::Range<u64>, round: u64) {
    for i in keys {
        assert_eq!(store.get(&key(i)).unwrap().expect("it was put").body, body(i, round), "page {i}");
    }
}

fn verify(store: &Store) {
    assert_eq!(store.verify().unwrap().problems, []);
}

fn value_bytes(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let values = files.filter(|f| f.file_name().to_str().unwrap().starts_with("value"));
    values.map(|f| f.metadata().unwrap().len()).sum()
}

#[test]
fn a_store_that_is_overwritten_at_full_speed_stays_within_its_bound_and_a_segment() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options().keep_versions(Some(1)).space_bound(Some(1.25))).unwrap();
    const KEYS: u64 = 6000;
    put(&store, 0..KEYS, 0);
    store.checkpoint().unwrap();
    let live = store.stats().live_bytes;
    let mut rng = fastrand::Rng::with_seed(7);
    let mut newest = vec![0; KEYS as usize];
    for round in 1..4 {
        let mut order: Vec<u64> = (0..KEYS).collect();
        rng.shuffle(&mut order);
        for i in order {
            put(&store, i..i + 1, round);
            newest[i as usize] = round;
        }
    }
    store.compact_with(CompactionGoal::Bound, &mut |_| ControlFlow::Continue(())).unwrap();
    let stats = store.stats();
    assert!(stats.value_bytes <= live * 5 / 4 + (1 << 20), "{} for {live}", stats.value_bytes);
    store.compact().unwrap();
    assert_eq!(store.stats().dead_bytes, 0);
    for (i, round) in newest.iter().enumerate() {
        check(&store, i as u64..i as u64 + 1, *round);
    }
    verify(&store);
    let bytes = value_bytes(&path);
    store.close().unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert!(bytes < live * 11 / 10, "{bytes} on disk, {live} live");
    check(&store, 0..KEYS, 3);
    verify(&store);
}

#[test]
fn what_is_all_live_is_left_alone_and_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    put(&store, 0..2000, 1);
    let done = store.compact().unwrap();
    assert_eq!((done.reason, done.copied_bytes, done.removed_segments), (Reason::AllLive, 0, 0));
    assert_eq!(store.compaction_plan(CompactionGoal::NoGarbage).unwrap().segments, [] as [u16; 0]);
    assert_eq!(
        store.compact_with(CompactionGoal::Bound, &mut |_| ControlFlow::Continue(())).unwrap().reason,
        Reason::AllLive
    );
    // Versions that are all kept count as live, too.
    put(&store, 0..500, 2);
    assert_eq!(store.compact().unwrap().copied_bytes, 0);
}

#[test]
fn removed_pages_give_their_space_back_and_in_the_end_their_removals_too() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    put(&store, 0..3000, 1);
    for i in (0..3000).filter(|i| i % 10 != 0) {
        assert!(store.remove(&key(i)).unwrap());
    }
    let before = value_bytes(&path);
    let done = store.compact().unwrap();
    assert!(done.copied_bytes > 0 && value_bytes(&path) < before / 4, "{done:?}");
    for i in 0..3000 {
        assert_eq!(store.contains(&key(i)).unwrap(), i % 10 == 0);
    }
    verify(&store);
    // All segments that may hold older versions have gone: the next compaction drops the
    // tombstones as well.
    put(&store, 0..1, 2);
    store.remove(&key(0)).unwrap();
    store.compact().unwrap();
    store.compact().unwrap();
    assert!(store.stats().tombstone_bytes <= 256, "{}", store.stats().tombstone_bytes);
    verify(&store);
}

#[test]
fn large_bodies_and_their_versions_move_with_all_their_chunks() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    let large = |i: u64| body(i, 9).repeat(400);
    for i in 0..6 {
        store.put(&Record::new(&key(i), &large(i)).time(5)).unwrap();
        put(&store, 100..400, i);
    }
    // A body being put while the segment of its first chunk is filled with garbage.
    let mut writer = store.put_stream(b"http://streamed/", b"", 1).unwrap();
    std::io::Write::write_all(&mut writer, &large(77)[..300_000]).unwrap();
    for i in 100..400 {
        store.remove(&key(i)).unwrap();
    }
    let mut reader = store.get_reader(&key(3)).unwrap().unwrap();
    let mut start = vec![0; 100_000];
    std::io::Read::read_exact(&mut reader, &mut start).unwrap();
    assert!(store.compact().unwrap().copied_bytes > 0);
    // A reader opened before continues to read.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut rest).unwrap();
    assert!([start, rest].concat() == large(3));
    std::io::Write::write_all(&mut writer, &large(77)[300_000..]).unwrap();
    writer.finish().unwrap();
    store.compact().unwrap();
    for i in 0..6 {
        assert!(store.get(&key(i)).unwrap().unwrap().body == large(i), "{i}");
    }
    assert!(store.get(b"http://streamed/").unwrap().unwrap().body == large(77));
    verify(&store);
    store.close().unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert!(store.get(b"http://streamed/").unwrap().unwrap().body == large(77));
    verify(&store);
}

#[test]
fn unchanged_versions_keep_what_they_refer_to_wherever_it_moves() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options().keep_versions(Some(2))).unwrap();
    put(&store, 0..1000, 1);
    for time in 2..6 {
        for i in 0..500 {
            store.put_if_changed(&Record::new(&key(i), &body(i, 1)).time(time)).unwrap();
        }
        put(&store, 500..1000, time as u64);
    }
    store.compact().unwrap();
    check(&store, 0..500, 1);
    check(&store, 500..1000, 5);
    assert_eq!(store.history(&key(3)).unwrap().len(), 2);
    verify(&store);
}

#[test]
fn pages_are_compressed_again_and_stay_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options().compression_level(1)).unwrap();
    // Words in random order: a higher level finds more of the repetitions.
    let words = ["page", "of", "many", "words", "crawler", "archive", "href", "index", "title", "paragraph"];
    let text = |i: u64| {
        let mut rng = fastrand::Rng::with_seed(i);
        (0..700).map(|_| format!("<{}>", words[rng.usize(..words.len())])).collect::<String>().into_bytes()
    };
    for i in 0..3000 {
        store.put(&Record::new(&key(i), &text(i)).meta(b"Content-Type: text/html").time(1)).unwrap();
    }
    store.checkpoint().unwrap();
    let before = store.stats().live_bytes;
    let done = store.recompress(19).unwrap();
    assert_eq!(done.reason, Reason::Recompression);
    assert!(store.stats().live_bytes < before, "{} of {before}", store.stats().live_bytes);
    assert_eq!(store.recompress(19).unwrap().copied_bytes, 0, "once is enough");
    for i in 0..3000 {
        let page = store.get(&key(i)).unwrap().unwrap();
        assert_eq!((page.body, &page.head.meta[..]), (text(i), &b"Content-Type: text/html"[..]));
    }
    verify(&store);
    assert!(store.recompress(0).is_err());
}

#[test]
fn readers_lists_and_other_processes_notice_nothing() {
    const KEYS: u64 = 1500;
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options().keep_versions(Some(1))).unwrap();
    put(&store, 0..KEYS, 0);
    // Half of the pages never change; the round of the others only rises.
    let done = AtomicBool::new(false);
    let number = |key: &[u8]| String::from_utf8_lossy(key).rsplit('/').next().and_then(|number| number.parse().ok());
    let changes = |key: &[u8]| number(key).is_some_and(|number: u64| number < KEYS / 2);
    let round_of = |i: u64, found: &[u8]| (0..40).find(|r| body(i, *r) == found).expect("no mixture");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..25 {
                put(&store, 0..KEYS / 2, round);
                store.compact().unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let outside = Store::open_read_only(&path, options()).unwrap();
        for reader in [store.clone(), outside] {
            let (done, changes) = (&done, &changes);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(3);
                let mut seen = vec![0; KEYS as usize];
                while !done.load(Ordering::Acquire) {
                    for _ in 0..200 {
                        let i = rng.u64(..KEYS);
                        let page = reader.get(&key(i)).unwrap().expect("it never goes");
                        let round = if i >= KEYS / 2 { 0 } else { page.head.version.time_ms as u64 };
                        assert!(page.body == body(i, round), "page {i}");
                        assert!(round >= seen[i as usize], "page {i} went back");
                        seen[i as usize] = round;
                    }
                    // Neither version of a page replaced meanwhile need be returned. No page is
                    // returned twice, except one that was put again after it was returned, if the
                    // first version was then dropped.
                    let mut met: Vec<Vec<u8>> = reader.pages().map(|p| p.unwrap().0).collect();
                    met.sort();
                    for keys in met.chunk_by(|a, b| a == b) {
                        let most = if changes(&keys[0]) { 2 } else { 1 };
                        assert!(keys.len() <= most, "page {:?} is listed {} times", keys[0], keys.len());
                    }
                    met.dedup();
                    let missed = (KEYS / 2..KEYS).filter(|i| met.binary_search(&key(*i)).is_err()).count();
                    assert_eq!(missed, 0, "pages that stay are listed");
                    assert_eq!(reader.keys().filter_map(Result::ok).count(), KEYS as usize);
                }
            });
        }
    });
    let page = store.get(&key(1)).unwrap().unwrap();
    assert_eq!(round_of(1, &page.body), 24);
    verify(&store);
}

#[test]
fn what_a_compaction_that_was_cut_short_has_written_is_removed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options().keep_versions(Some(1))).unwrap();
    put(&store, 0..2000, 1);
    store.checkpoint().unwrap();
    let superblock = std::fs::read(path.join("SUPERBLOCK")).unwrap();
    let index = std::fs::read(path.join("address.idx")).unwrap();
    let files = |path: &Path| -> std::collections::BTreeSet<String> {
        std::fs::read_dir(path).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect()
    };
    let before = files(&path);
    let copies: Vec<(String, Vec<u8>)> =
        before.iter().map(|f| (f.clone(), std::fs::read(path.join(f)).unwrap())).collect();
    store.recompress(9).unwrap();
    assert!(files(&path).difference(&before).count() > 0);
    store.close().unwrap();
    // As if the checkpoint had not come: the old files are back beside the new ones.
    copies.iter().for_each(|(name, bytes)| std::fs::write(path.join(name), bytes).unwrap());
    std::fs::write(path.join("SUPERBLOCK"), superblock).unwrap();
    std::fs::write(path.join("address.idx"), index).unwrap();
    let store = Store::open(&path, options()).unwrap();
    check(&store, 0..2000, 1);
    verify(&store);
    let mut left = files(&path);
    // Record of the full verification.
    left.remove("VERIFIED");
    assert!(left.iter().all(|f| before.contains(f)), "{left:?}");
}
