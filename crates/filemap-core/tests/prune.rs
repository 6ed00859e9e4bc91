//! Pruning by number, age and size; deletes by the hundred thousand; compaction frees the space.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filemap_core::prune::{PruneRule, Pruned, Spared};
use filemap_core::{Error, Options, Put, Record, StorageError, Store};

const HOUR_MS: i64 = 3_600_000;

fn options() -> Options {
    Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .free_space_floor(0)
        .keep_removals(Duration::ZERO)
        .space_bound(None)
}

fn prune(store: &Store, rule: PruneRule) -> Pruned {
    let planned = store.prune_plan(rule, &mut |_| ControlFlow::Continue(())).unwrap();
    let pruned = store.prune(rule, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(planned, pruned, "what was foretold");
    pruned
}

fn keep(versions: u32) -> PruneRule {
    PruneRule { keep_versions: Some(versions), ..PruneRule::default() }
}

fn since(since_ms: i64) -> PruneRule {
    PruneRule { since_ms: Some(since_ms), ..PruneRule::default() }
}

/// Incompressible bytes from a seed.
fn body(seed: u64, bytes: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn times(store: &Store, key: &[u8]) -> Vec<i64> {
    let times: Vec<i64> = store.history(key).unwrap().iter().map(|h| h.version.time_ms).collect();
    for time_ms in &times {
        assert!(store.get_at(key, *time_ms).unwrap().is_some());
    }
    times
}

fn is_sound(store: &Store) {
    assert_eq!(store.verify().unwrap().problems, []);
}

fn value_bytes(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).unwrap().map(|f| f.unwrap());
    let values = files.filter(|f| f.file_name().to_string_lossy().starts_with("value"));
    values.map(|f| f.metadata().unwrap().len()).sum()
}

/// Three keys: one with five versions, one with a single old version, and one with two young
/// versions.
fn small(store: &Store) {
    for time in 1..=5 {
        store.put(&Record::new(b"five", &body(time as u64, 300)).time(time)).unwrap();
    }
    store.put(&Record::new(b"old", b"old").time(1)).unwrap();
    for time in [7, 8] {
        store.put(&Record::new(b"young", &body(time as u64, 300)).time(time)).unwrap();
    }
}

#[test]
fn each_rule_drops_what_it_says_and_both_together_only_what_both_do() {
    let both = PruneRule { keep_versions: Some(2), since_ms: Some(5), max_live_bytes: None };
    type Left = &'static [i64];
    let rows: [(PruneRule, Left, Left, Left); 5] = [
        (keep(2), &[5, 4], &[1], &[8, 7]),
        (since(4), &[5, 4], &[], &[8, 7]),
        (since(6), &[], &[], &[8, 7]),
        (both, &[5, 4], &[1], &[8, 7]),
        (PruneRule { since_ms: Some(3), ..both }, &[5, 4, 3], &[1], &[8, 7]),
    ];
    for (rule, five, old, young) in rows {
        for checkpointed in [false, true] {
            let temp = tempfile::tempdir().unwrap();
            let store = Store::create(temp.path().join("a"), options()).unwrap();
            small(&store);
            if checkpointed {
                store.checkpoint().unwrap();
            }
            let pruned = prune(&store, rule);
            let seen = [times(&store, b"five"), times(&store, b"old"), times(&store, b"young")];
            assert_eq!(seen, [five.to_vec(), old.to_vec(), young.to_vec()], "{rule:?}");
            let left = seen.iter().map(Vec::len).sum::<usize>() as u64;
            let gone = seen.iter().filter(|s| s.is_empty()).count() as u64;
            assert_eq!((pruned.versions, pruned.keys), (8 - left, gone), "{rule:?}");
            assert_eq!(store.keys().count() as u64, 3 - gone);
            assert_eq!(store.stats().live_bytes, pruned.live_bytes);
            is_sound(&store);
            assert_eq!(prune(&store, rule).versions, 0, "a second time there is nothing");
            // Unchanged after a clean close and a compaction.
            store.compact().unwrap();
            store.close().unwrap();
            let store = Store::open(temp.path().join("a"), options()).unwrap();
            assert_eq!(times(&store, b"five"), five);
            is_sound(&store);
        }
    }
}

#[test]
fn a_rule_that_keeps_everything_or_nothing_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for (rule, why) in [(PruneRule::default(), "this rule keeps everything"), (keep(0), "keep_versions is 0")] {
        let refused = store.prune(rule, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(refused, Error::Storage(StorageError::InvalidOption { .. })), "{refused:?}");
        assert!(refused.to_string().starts_with(&format!("option prune: {why}")), "{refused}");
    }
    let reader = Store::open_read_only(store.path(), options()).unwrap();
    let refused = reader.prune(keep(1), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
}

#[test]
fn the_body_of_a_version_that_is_kept_is_kept_with_it() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let same = body(1, 5000);
    store.put(&Record::new(b"k", &same).time(1)).unwrap();
    for time in [2, 3, 9] {
        let put = store.put_if_changed(&Record::new(b"k", &same).time(time)).unwrap();
        assert!(matches!(put, Put::Unchanged(_)));
    }
    assert_eq!(prune(&store, since(9)).versions, 2);
    assert_eq!(times(&store, b"k"), [9, 1]);
    assert_eq!(store.get(b"k").unwrap().unwrap().body, same);
    let size = PruneRule { max_live_bytes: Some(1000), ..PruneRule::default() };
    let pruned = prune(&store, size);
    assert_eq!((pruned.versions, pruned.keys, pruned.live_bytes), (2, 1, 0));
    assert!(pruned.bytes > 5000, "{pruned:?}");
    assert_eq!(store.keys().count(), 0);
    is_sound(&store);
}

#[test]
fn the_oldest_go_until_the_rest_fits_chunks_of_large_bodies_counted() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for hour in 0..40i64 {
        // Every tenth one in chunks.
        let bytes = if hour % 10 == 0 { 200_000 } else { 20_000 };
        let key = format!("k{}", hour % 7);
        store.put(&Record::new(key.as_bytes(), &body(hour as u64, bytes)).time(hour * HOUR_MS)).unwrap();
    }
    store.checkpoint().unwrap();
    let before = store.stats().live_bytes;
    let max_bytes = 700_000;
    let pruned = prune(&store, PruneRule { max_live_bytes: Some(max_bytes), ..PruneRule::default() });
    let live = store.stats().live_bytes;
    assert!(live <= max_bytes && live + 210_000 > max_bytes, "{live}");
    assert_eq!((pruned.bytes, pruned.live_bytes), (before - live, live));
    let mut left: Vec<i64> = (0..7).flat_map(|i| times(&store, format!("k{i}").as_bytes())).collect();
    left.sort_unstable();
    let first = 40 - left.len() as i64;
    assert_eq!(left, (first..40).map(|hour| hour * HOUR_MS).collect::<Vec<_>>());
    is_sound(&store);
    assert!(value_bytes(store.path()) > 1_200_000);
    store.compact().unwrap();
    assert!(value_bytes(store.path()) < live + 100_000);
    is_sound(&store);
}

#[test]
fn a_prune_that_is_told_to_stop_has_done_part_and_can_be_done_again() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    // Over a megabyte of key log, so that cancellation is checked once.
    let key = |i: u32| format!("{i:0>1000}").into_bytes();
    (0..1500).for_each(|i| assert!(store.put(&Record::new(&key(i), b"x").time(1)).is_ok()));
    let stopped = store.prune(since(2), &mut |_| ControlFlow::Break(())).unwrap();
    assert!(stopped.is_cancelled && stopped.versions < 1500, "{stopped:?}");
    assert!(matches!(store.prune_plan(since(2), &mut |_| ControlFlow::Break(())), Err(Error::Cancelled)));
    let rest = prune(&store, since(2));
    assert_eq!((stopped.versions + rest.versions, rest.is_cancelled), (1500, false));
    assert_eq!(store.keys().count(), 0);
}

#[test]
fn puts_of_unchanged_bodies_during_a_prune_never_lose_their_body() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let key = |i: u32| format!("http://example.com/{i}").into_bytes();
    const KEYS: u32 = 3000;
    for round in 1..6i64 {
        (0..KEYS).for_each(|i| assert!(store.put(&Record::new(&key(i), b"the same").time(round)).is_ok()));
        store.checkpoint().unwrap();
        std::thread::scope(|s| {
            let putter = s.spawn(|| {
                for i in 0..KEYS {
                    store.put_if_changed(&Record::new(&key(i), b"the same").time(round + 1)).unwrap();
                }
            });
            let reader = s.spawn(|| {
                // Missing or intact: never pointing to a removed body.
                for i in (0..KEYS).rev() {
                    let now = store.get(&key(i)).unwrap();
                    assert!(now.is_none_or(|v| v.body == b"the same"));
                    store.get_at(&key(i), round + 1).unwrap();
                }
            });
            store.prune(since(round + 1), &mut |_| ControlFlow::Continue(())).unwrap();
            putter.join().unwrap();
            reader.join().unwrap();
        });
        store.checkpoint().unwrap();
        for i in 0..KEYS {
            assert_eq!(store.get(&key(i)).unwrap().unwrap().body, b"the same", "{i} in round {round}");
        }
    }
    is_sound(&store);
}

#[test]
fn a_reader_in_another_handle_forgets_what_was_pruned_and_is_told_of_no_damage() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let reader = Store::open_read_only(store.path(), options()).unwrap();
    store.put(&Record::new(b"k", b"same").time(1)).unwrap();
    store.put_if_changed(&Record::new(b"k", b"same").time(2)).unwrap();
    store.put(&Record::new(b"young", b"young").time(9)).unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.get(b"k").unwrap().unwrap().body, b"same");
    prune(&store, since(5));
    reader.refresh().unwrap();
    assert_eq!(reader.get(b"k").unwrap(), None);
    assert_eq!(reader.get(b"young").unwrap().unwrap().body, b"young");
    store.put(&Record::new(b"k", b"again").time(10)).unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.get(b"k").unwrap().unwrap().body, b"again");
}

#[test]
fn versions_that_the_options_keep_no_longer_go_with_a_prune_too() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    for age_hours in [0, 2, 3] {
        store.put(&Record::new(b"k", b"x").time(now - age_hours * HOUR_MS)).unwrap();
    }
    store.put(&Record::new(b"gone", b"x").time(now - 2 * HOUR_MS)).unwrap();
    store.close().unwrap();
    let store = Store::open(&path, options().keep_age(Some(Duration::from_secs(3600)))).unwrap();
    let pruned = store.prune(since(now - 12 * HOUR_MS), &mut |_| ControlFlow::Continue(())).unwrap();
    // No version is that old, so no chain is walked.
    assert_eq!((pruned.versions, times(&store, b"k").len()), (0, 3));
    let pruned = store.prune(since(now - HOUR_MS), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((pruned.versions, pruned.keys, times(&store, b"k").len()), (3, 1, 1));
}

#[test]
fn a_hundred_thousand_pages_are_removed_and_their_space_is_given_back() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options().segment_bytes(8 << 20)).unwrap();
    let key = |i: u32| format!("http://example.com/{i}").into_bytes();
    (0..100_000).for_each(|i| assert!(store.put(&Record::new(&key(i), &body(u64::from(i), 200))).is_ok()));
    store.checkpoint().unwrap();
    let before = value_bytes(store.path());
    let start = std::time::Instant::now();
    (0..100_000).for_each(|i| assert!(store.remove(&key(i)).unwrap()));
    let removing = start.elapsed();
    store.compact().unwrap();
    println!("removed in {removing:?}, space back after {:?}", start.elapsed());
    let after = value_bytes(store.path());
    assert!(before > 30_000_000 && after < 1_000_000, "{before} {after}");
    assert_eq!((store.stats().live_bytes, store.keys().count()), (0, 0));
    is_sound(&store);
}

#[test]
fn only_the_keys_that_are_meant_lose_versions() {
    let mut spared = Spared::default();
    spared.keys = Some(Arc::new(|key: &[u8]| key != b"five"));
    let go_on = &mut |_| ControlFlow::Continue(());
    for rule in [keep(1), since(9), PruneRule { keep_versions: Some(1), ..since(9) }] {
        let temp = tempfile::tempdir().unwrap();
        let store = Store::create(temp.path().join("a"), options()).unwrap();
        small(&store);
        store.checkpoint().unwrap();
        let planned = store.prune_plan_with(rule, &spared, go_on).unwrap();
        let pruned = store.prune_with(rule, &spared, go_on).unwrap();
        assert_eq!(planned, pruned, "what was foretold");
        assert_eq!(times(&store, b"five"), [5, 4, 3, 2, 1]);
        let left: &[i64] = if rule.keep_versions.is_some() { &[8] } else { &[] };
        assert_eq!((times(&store, b"young"), pruned.versions), (left.to_vec(), if left.is_empty() { 3 } else { 1 }));
        is_sound(&store);
        let size = PruneRule { max_live_bytes: Some(1), ..PruneRule::default() };
        for refused in [store.prune_with(size, &spared, go_on), store.prune_plan_with(size, &spared, go_on)] {
            assert!(matches!(refused, Err(Error::Storage(StorageError::InvalidOption { .. }))), "{refused:?}");
        }
    }
}

/// The readable versions of the keys of `three_versions`.
fn readable(store: &Store) -> Vec<(u64, i64)> {
    let versions = (0..60).flat_map(|key| (0..3).map(move |time| (key, time)));
    let is_read = |&(key, time): &(u64, i64)| {
        let at = store.get_at(format!("http://{key}.example/").as_bytes(), time);
        at.is_ok_and(|found| found.is_some_and(|value| value.head.version.time_ms == time))
    };
    versions.filter(is_read).collect()
}

/// Three versions of 60 keys, the newest from value2.dat on. Calls `damage` on the store.
fn three_versions(path: &Path, damage: impl Fn(&Path)) -> Store {
    let store = Store::create(path, options()).unwrap();
    for time in 0..3 {
        for key in 0..60 {
            let url = format!("http://{key}.example/");
            store.put(&Record::new(url.as_bytes(), &body(3 * key + time, 20_000)).time(time as i64)).unwrap();
        }
        // One version of all keys fills a segment and a part.
        if time == 1 {
            store
                .put_stream(b"http://large.example/", b"", 0)
                .and_then(|mut w| {
                    std::io::Write::write_all(&mut w, &body(999, 900_000)).unwrap();
                    w.finish()
                })
                .unwrap();
        }
    }
    store.close().unwrap();
    damage(path);
    Store::open(path, options().accept_loss()).unwrap()
}

fn newest_segments(path: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = (0..9).map(|n| path.join(format!("value{n}.dat"))).filter(|p| p.exists()).collect();
    all.split_off(all.len() - 2)
}

#[test]
fn a_prune_keeps_what_can_be_read_of_a_key_whose_newest_version_cannot() {
    let rot = |path: &Path| {
        for file in newest_segments(path) {
            let mut bytes = std::fs::read(&file).unwrap();
            bytes.iter_mut().skip(5000).step_by(10_000).for_each(|b| *b ^= 1);
            std::fs::write(file, bytes).unwrap();
        }
    };
    let lose = |path: &Path| std::fs::remove_file(&newest_segments(path)[0]).unwrap();
    for damage in [&rot as &dyn Fn(&Path), &lose] {
        let temp = tempfile::tempdir().unwrap();
        let store = three_versions(&temp.path().join("a"), damage);
        let before = readable(&store);
        let lost = (0..60).filter(|key| !before.contains(&(*key, 2))).count() as u64;
        assert!(lost > 20 && before.len() as u64 + lost <= 180, "{lost} newest versions are damaged");
        let mut go_on = |_| ControlFlow::Continue(());
        let planned = store.prune_plan(keep(1), &mut go_on).unwrap();
        let pruned = store.prune(keep(1), &mut go_on).unwrap();
        assert_eq!((planned.versions, planned.bytes), (pruned.versions, pruned.bytes));
        assert_eq!((planned.hidden, pruned.hidden), (lost, lost));
        let newest = |key| before.iter().filter(|v| v.0 == key).max().copied();
        assert_eq!(readable(&store), (0..60).filter_map(newest).collect::<Vec<_>>());
        store.compact().unwrap();
        assert_eq!(readable(&store), (0..60).filter_map(newest).collect::<Vec<_>>());
        assert_eq!(store.prune(keep(1), &mut go_on).unwrap().versions, 0, "and again");
    }
}
