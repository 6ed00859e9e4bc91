//! Splits are disjoint and together the whole store, whatever is moved, put and removed meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use crate::store::{Pages, Split};
use crate::{Error, Options, Record, Result, Store, Value};

fn options() -> Options {
    Options::new().free_space_floor(0).segment_bytes(1 << 20).large_value_bytes(64 << 10).space_bound(None)
}

fn key(n: u8) -> Vec<u8> {
    format!("http://example.com/{n}").into_bytes()
}

fn body(n: u64, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(n);
    std::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
}

/// A step in the life of a store.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put { key: u8, time_ms: i64, bytes: usize },
    Unchanged { key: u8 },
    Remove { key: u8 },
    Checkpoint,
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (any::<u8>(), 0..100i64, prop_oneof![0..2000usize, 0..150_000usize])
            .prop_map(|(key, time_ms, bytes)| Step::Put { key: key % 64, time_ms, bytes }),
        3 => any::<u8>().prop_map(|key| Step::Unchanged { key: key % 64 }),
        4 => any::<u8>().prop_map(|key| Step::Remove { key: key % 64 }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Compact),
    ]
}

fn take(store: &Store, step: Step, nth: usize) {
    match step {
        Step::Put { key: k, time_ms, bytes } => {
            store.put(&Record::new(&key(k), &body(nth as u64, bytes)).time(time_ms)).map(drop).unwrap();
        }
        Step::Unchanged { key: k } => {
            let newest = store.get(&key(k)).unwrap().map_or_else(Vec::new, |v| v.body);
            store.put_if_changed(&Record::new(&key(k), &newest).time(100)).map(drop).unwrap();
        }
        Step::Remove { key: k } => drop(store.remove(&key(k)).unwrap()),
        Step::Checkpoint => store.checkpoint().unwrap(),
        Step::Compact => drop(store.compact().unwrap()),
    }
}

type Found = BTreeMap<(Vec<u8>, u64), Vec<u8>>;

fn gather(found: &mut Found, pages: impl Iterator<Item = Result<(Vec<u8>, Value)>>) {
    for page in pages {
        let (key, value) = page.unwrap();
        let again = found.insert((key, value.head.version.sequence), value.body);
        assert!(again.is_none(), "in two splits: {again:?}");
    }
}

fn of(pages: impl Iterator<Item = Result<(Vec<u8>, Value)>>) -> Found {
    let mut found = Found::new();
    gather(&mut found, pages);
    found
}

/// The union of all splits, newest versions and all versions; the splits are sent as bytes in
/// between.
fn united(store: &Store, splits: &[Split]) -> (Found, Found) {
    let (mut newest, mut every) = (Found::new(), Found::new());
    let (mut newest_heads, mut heads) = (0, 0);
    for split in splits {
        let split = Split::from_bytes(&split.to_bytes()).unwrap();
        gather(&mut newest, store.pages_in(&split).unwrap());
        gather(&mut every, store.versions_in(&split).unwrap());
        newest_heads += store.heads_in(&split).unwrap().map(Result::unwrap).count();
        heads += store.version_heads_in(&split).unwrap().map(Result::unwrap).count();
    }
    assert_eq!((newest_heads, heads), (newest.len(), every.len()));
    (newest, every)
}

/// Entries in only one of the two.
fn differences(found: &(Found, Found), expected: &(Found, Found)) -> String {
    let lacks = |a: &Found, b: &Found| {
        a.iter()
            .filter(|(k, v)| b.get(*k) != Some(*v))
            .map(|(k, _)| format!("{}@{} ", String::from_utf8_lossy(&k.0), k.1))
            .collect::<String>()
    };
    let pairs = [(&found.0, &expected.0), (&found.1, &expected.1)];
    let differ = |(found, expected): &(&Found, &Found)| found != expected;
    let shown =
        |(found, expected)| format!("too many: {}, missing: {}; ", lacks(found, expected), lacks(expected, found));
    pairs.into_iter().filter(differ).map(shown).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn splits_are_disjoint_and_together_the_store(
        steps in proptest::collection::vec(step(), 1..150),
        number in 1..7usize,
        then in proptest::collection::vec(step(), 0..40),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a");
        let store = Store::create(&path, options()).unwrap();
        steps.iter().enumerate().for_each(|(nth, step)| take(&store, *step, nth));
        let reader = Store::open_read_only(&path, options()).unwrap();
        let splits = store.splits(number).unwrap();
        prop_assert_eq!(&splits, &reader.splits(number).unwrap());
        let expected = (of(store.pages()), of(store.versions()));
        prop_assert_eq!(differences(&united(&store, &splits), &expected), "");
        prop_assert_eq!(differences(&united(&reader, &splits), &expected), "");
        // All versions move to other segments; for the follower, another process moves them.
        store.remove(b"nothing").unwrap();
        store.compact().unwrap();
        prop_assert_eq!(differences(&united(&store, &splits), &expected), "");
        prop_assert_eq!(differences(&united(&reader, &splits), &expected), "");
        store.recompress(3).unwrap();
        prop_assert_eq!(differences(&united(&reader, &splits), &expected), "");
        // Pages put since are in no split; pages removed since are missing.
        let removed = |k: &[u8]| then.iter().any(|s| matches!(s, Step::Remove { key: n } if key(*n) == k));
        then.iter().enumerate().for_each(|(nth, step)| take(&store, *step, 1000 + nth));
        reader.refresh().unwrap();
        let mut left = expected;
        for found in [&mut left.0, &mut left.1] {
            found.retain(|(k, _), _| !removed(k));
        }
        prop_assert_eq!(differences(&united(&store, &splits), &left), "");
        prop_assert_eq!(differences(&united(&reader, &splits), &left), "");
    }
}

fn filled(path: &Path) -> Store {
    let store = Store::create(path, options().compression_level(0)).unwrap();
    for n in 0..2000u64 {
        store.put(&Record::new(format!("http://example.com/{n}").as_bytes(), &body(n, 4000)).time(1)).unwrap();
    }
    store
}

#[test]
fn splits_have_equal_shares_before_and_after_compaction() {
    let temp = tempfile::tempdir().unwrap();
    let store = filled(&temp.path().join("a"));
    let even = |store: &Store, number: usize, total: usize| {
        for split in store.splits(number).unwrap() {
            let share = store.pages_in(&split).unwrap().count() * number;
            assert!(share > total * 9 / 10 && share < total * 11 / 10, "{share} of {total} in {number} splits");
        }
    };
    for number in [2, 3, 5] {
        even(&store, number, 2000);
    }
    (0..2000).step_by(3).for_each(|n| assert!(store.remove(format!("http://example.com/{n}").as_bytes()).unwrap()));
    store.compact().unwrap();
    for number in [2, 3, 5] {
        even(&store, number, 1333);
    }
}

#[test]
fn splits_have_equal_shares_of_the_work_where_bytes_are_compressed_unequally() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for n in 0..2000u64 {
        // 40 KB that take no room, then 4 KB that take 4 KB.
        let body = if n < 1000 { vec![n as u8; 40_000] } else { body(n, 4000) };
        store.put(&Record::new(format!("http://example.com/{n}").as_bytes(), &body).time(1)).unwrap();
    }
    let [first, _] = &store.splits(2).unwrap()[..] else { panic!("two splits") };
    let share = store.pages_in(first).unwrap().count();
    assert!((500..750).contains(&share), "{share} of 2000; it would be 1,500 by stored bytes");
}

#[test]
fn splits_of_few_pages_and_of_none_are_as_many_as_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    assert_eq!(united(&store, &store.splits(4).unwrap()).0.len(), 0);
    store.put(&Record::new(b"a", b"one")).unwrap();
    let splits = store.splits(4).unwrap();
    assert_eq!((splits.len(), united(&store, &splits).0.len()), (4, 1));
    assert!(matches!(store.splits(0), Err(Error::Storage(_))));
}

#[test]
fn a_split_of_another_store_or_of_a_later_state_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let stores = ["a", "b"].map(|name| Store::create(temp.path().join(name), options()).unwrap());
    let splits = stores[0].splits(1).unwrap();
    assert!(stores[1].pages_in(&splits[0]).is_err());
    let mut bytes = splits[0].to_bytes();
    assert_eq!(Split::from_bytes(&bytes).unwrap(), splits[0]);
    for place in [17, 25, 65] {
        let mut later = bytes.clone();
        later[place + 5] = 1;
        let later = Split::from_bytes(&later).map(|split| stores[0].pages_in(&split).map(drop));
        assert!(!matches!(later, Ok(Ok(()))), "{place}");
    }
    bytes.pop();
    assert!(Split::from_bytes(&bytes).is_err() && Split::from_bytes(&[]).is_err());
}

#[test]
fn damage_and_absent_files_are_told_by_splits_too() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    filled(&path).close().unwrap();
    let segments = |path: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
        names.retain(|p| std::fs::metadata(p).unwrap().len() > 900_000);
        names.sort();
        names
    };
    let all = segments(&path);
    let mut bytes = std::fs::read(&all[1]).unwrap();
    bytes[500_000] ^= 1;
    std::fs::write(&all[1], bytes).unwrap();
    std::fs::remove_file(&all[3]).unwrap();
    let store = Store::open_read_only(&path, options()).unwrap();
    let good =
        |pages: Pages| pages.fold((0, 0), |sum, p| (sum.0 + i32::from(p.is_ok()), sum.1 + i32::from(p.is_err())));
    let (pages, errors) = good(store.pages());
    assert!(errors >= 1);
    let parts: Vec<_> = store.splits(4).unwrap().iter().map(|s| good(store.pages_in(s).unwrap())).collect();
    assert_eq!(parts.iter().map(|p| p.0).sum::<i32>(), pages);
    assert!(parts.iter().map(|p| p.1).sum::<i32>() >= errors, "{parts:?} {errors}");
}

#[test]
fn versions_are_chosen_before_they_are_read() {
    let temp = tempfile::tempdir().unwrap();
    let store = filled(&temp.path().join("a"));
    let chosen = || store.pages().only(|key, version| key.ends_with(b"7") && version.sequence < 1000);
    assert_eq!(chosen().count(), 100);
    assert_eq!(store.heads().only(|key, _| key.ends_with(b"7")).count(), 200);
    let wanted: Vec<_> =
        chosen().wanted(|key, head| key.ends_with(b"77") && head.body_bytes == 4000).map(Result::unwrap).collect();
    assert!(wanted.len() == 10 && wanted.iter().all(|(_, value)| value.body.len() == 4000));
}
