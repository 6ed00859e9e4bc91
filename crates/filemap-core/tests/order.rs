//! Keys in order: lists and counts agree with a model, whether keys are in memory, in runs,
//! joined, or came back after a crash.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_core::check::VerifyOptions;
use filemap_core::erase::{Erasure, KeyFilter, Search};
use filemap_core::list::{Direction, KeyGroups, KeyOrder, KeyRange};
use filemap_core::repair::RepairTo;
use filemap_core::{Error, Options, Record, Result, Store};

/// Reversed bytes, so that the order differs from that of the keys.
fn reversed(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().rev());
}

fn back(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    reversed(bytes, out);
    true
}

fn last(key: &[u8]) -> &[u8] {
    &key[key.len() - 1..]
}

/// The last byte of all keys of a range, with which their forms begin.
fn of_range(from: &[u8], until: &[u8]) -> Option<Vec<u8>> {
    let first = *from.first()?;
    (until <= &[first.checked_add(1)?][..]).then(|| vec![first])
}

const GROUPS: KeyGroups = KeyGroups { of_key: last, of_range };
const REVERSED: KeyOrder = KeyOrder { name: "reversed 1", ordered: reversed, key: back, groups: Some(GROUPS) };

fn options() -> Options {
    Options::new().key_order(REVERSED).segment_bytes(1 << 20).memtable_bytes(256 << 10).large_value_bytes(64 << 10)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn form(key: &[u8]) -> Vec<u8> {
    key.iter().rev().copied().collect()
}

fn list(store: &Store, range: KeyRange, direction: Direction) -> Vec<Vec<u8>> {
    store.keys_in(range, direction).unwrap().collect::<Result<_>>().unwrap()
}

/// Compares lists and counts with the model: all, ranges, from cursors.
fn check(store: &Store, model: &Model, random: &mut fastrand::Rng) {
    let expected: Vec<Vec<u8>> = model.values().cloned().collect();
    let all = list(store, KeyRange::all(), Direction::Forward);
    assert_eq!(all, expected);
    let mut falling = list(store, KeyRange::all(), Direction::Back);
    falling.reverse();
    assert_eq!(falling, expected);
    assert_eq!(store.count_in(&KeyRange::all()).unwrap(), model.len() as u64);
    for _ in 0..10 {
        let mut ends = [random.u16(..), random.u16(..)].map(|n| form(format!("{n}").as_bytes()));
        ends.sort();
        // Half of them within a group, and half of those all of it.
        let group = random.u8(b'0'..=b'9');
        let [from, until] = match random.u8(..4) {
            0 => [vec![group], vec![group + 1]],
            1 => ends.map(|end| [vec![group], end].concat()),
            _ => ends,
        };
        let range = KeyRange::from(from.clone()..until.clone());
        let inside: Vec<Vec<u8>> = model.range(from..until).map(|(_, key)| key.clone()).collect();
        assert_eq!(list(store, range.clone(), Direction::Forward), inside);
        assert_eq!(store.count_in(&range).unwrap(), inside.len() as u64);
        // A few at a time, each list continuing where the previous one ended.
        for direction in [Direction::Forward, Direction::Back] {
            let (mut rest, mut met) = (range.clone(), Vec::new());
            loop {
                let mut keys = store.keys_in(rest.clone(), direction).unwrap();
                let some: Vec<Vec<u8>> = keys.by_ref().take(3).collect::<Result<_>>().unwrap();
                if some.is_empty() {
                    break;
                }
                met.extend(some);
                rest = match direction {
                    Direction::Forward => rest.after(keys.form()),
                    Direction::Back => rest.before(keys.form()),
                };
            }
            if direction == Direction::Back {
                met.reverse();
            }
            assert_eq!(met, inside);
        }
    }
}

fn change(store: &Store, model: &mut Model, random: &mut fastrand::Rng, count: usize) {
    for _ in 0..count {
        let key = format!("{}", random.u16(..3000)).into_bytes();
        if random.u8(..3) == 0 {
            store.remove(&key).unwrap();
            model.remove(&form(&key));
        } else {
            store.put(&Record::new(&key, b"A page.")).unwrap();
            model.insert(form(&key), key);
        }
    }
}

fn verify(store: &Store) {
    for options in [VerifyOptions::new(), VerifyOptions::new().quick()] {
        let report = store.verify_with(&options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

fn runs(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".run")).collect()
}

#[test]
fn lists_agree_with_a_model_through_checkpoints_and_openings() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(3));
    let mut store = Store::create(&path, options()).unwrap();
    assert!(store.has_key_order());
    for round in 0..30 {
        change(&store, &mut model, &mut random, 200);
        check(&store, &model, &mut random);
        if random.bool() {
            store.checkpoint().unwrap();
            check(&store, &model, &mut random);
        }
        if round % 5 == 4 {
            verify(&store);
            let reader = Store::open_read_only(&path, options()).unwrap();
            check(&reader, &model, &mut random);
            store.close().unwrap();
            store = Store::open(&path, options()).unwrap();
            check(&store, &model, &mut random);
        }
    }
    let stats = store.stats();
    assert!((1..40).contains(&stats.key_runs) && stats.key_run_bytes > 0);
    store.close().unwrap();
    assert_eq!(runs(&path).len() as u64, stats.key_runs, "what is not named is removed");
}

/// A thread sorts and merges the keys in memory while others list them and put more.
#[test]
fn lists_amid_puts_have_all_that_was_put_before_them_in_order() {
    const KEYS: u64 = 60_000;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), options().memtable_bytes(4 << 20)).unwrap();
    let put_so_far = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..KEYS {
                let key = format!("{}", n * 7919 % KEYS);
                store.put(&Record::new(key.as_bytes(), b"body")).unwrap();
                put_so_far.store(n + 1, Ordering::Release);
            }
        });
        let lists = || {
            let mut is_last = false;
            while !is_last {
                let before = put_so_far.load(Ordering::Acquire);
                is_last = before == KEYS;
                let keys = list(&store, KeyRange::all(), Direction::Forward);
                assert!(keys.is_sorted_by(|a, b| form(a) < form(b)), "out of order, or twice");
                assert!(keys.len() as u64 >= before);
                if is_last {
                    assert_eq!(keys.len() as u64, KEYS);
                }
            }
        };
        scope.spawn(lists);
        scope.spawn(lists);
        // One key in ten is in the group.
        scope.spawn(|| {
            let mut before = 0;
            while before < KEYS {
                before = put_so_far.load(Ordering::Acquire);
                let keys = list(&store, KeyRange::from(b"7".to_vec()..b"8".to_vec()), Direction::Forward);
                assert!(keys.is_sorted_by(|a, b| form(a) < form(b)), "out of order, or twice");
                assert!(keys.iter().all(|key| key.ends_with(b"7")) && keys.len() as u64 >= (before + 6) / 10);
            }
        });
    });
    assert_eq!(list(&store, KeyRange::all(), Direction::Back).len() as u64, KEYS);
    store.close().unwrap();
}

#[test]
fn a_reader_lists_what_the_writer_has_put() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    let reader = Store::open_read_only(&path, options()).unwrap();
    let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(4));
    check(&reader, &model, &mut random);
    for _ in 0..12 {
        change(&store, &mut model, &mut random, 300);
        reader.refresh().unwrap();
        check(&reader, &model, &mut random);
        store.checkpoint().unwrap();
        // Runs that the follower has named may be removed by now.
        check(&reader, &model, &mut random);
    }
}

#[test]
fn a_list_is_that_of_its_beginning() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(5));
    change(&store, &mut model, &mut random, 2000);
    store.checkpoint().unwrap();
    change(&store, &mut model, &mut random, 100);
    let mut keys = store.keys_in(KeyRange::all(), Direction::Forward).unwrap();
    let mut met: Vec<Vec<u8>> = keys.by_ref().take(50).collect::<Result<_>>().unwrap();
    for round in 0..10 {
        let new: Vec<Vec<u8>> = (0..100).map(|n| format!("new {round} {n}").into_bytes()).collect();
        new.iter().for_each(|key| assert!(store.put(&Record::new(key, b"")).is_ok()));
        store.checkpoint().unwrap();
    }
    met.extend(keys.collect::<Result<Vec<_>>>().unwrap());
    assert_eq!(met, model.into_values().collect::<Vec<_>>());
}

#[test]
fn a_store_without_an_order_says_so_and_a_repair_makes_one() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let plain = || Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10);
    let store = Store::create(&path, plain()).unwrap();
    store.put(&Record::new(b"12", b"A page.")).unwrap();
    assert!(!store.has_key_order());
    store.close().unwrap();
    let store = Store::open(&path, options()).unwrap();
    let refused = store.keys_in(KeyRange::all(), Direction::Forward).unwrap_err();
    assert!(refused.to_string().contains("repair"), "{refused}");
    store.close().unwrap();

    Store::repair(&path, RepairTo::InPlace, &options(), &mut |_| ControlFlow::Continue(())).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(list(&store, KeyRange::all(), Direction::Forward), [b"12"]);
    verify(&store);
    store.close().unwrap();

    // Neither no order nor a different one is taken for the store's.
    const OTHER: KeyOrder = KeyOrder { name: "other", ..REVERSED };
    for given in [plain(), plain().key_order(OTHER)] {
        let refused = Store::open(&path, given).map(drop).unwrap_err();
        assert!(refused.to_string().contains("another order"), "{refused}");
    }
    let reader = Store::open_read_only(&path, plain().key_order(OTHER)).unwrap();
    assert!(!reader.has_key_order() && reader.count_in(&KeyRange::all()).is_err());

    let store = Store::open(&path, plain().end_key_order()).unwrap();
    assert!(!store.has_key_order() && runs(&path).is_empty());
    store.close().unwrap();
    Store::open(&path, plain()).unwrap().close().unwrap();
}

#[test]
fn a_missing_run_is_named_and_a_repair_makes_it_anew() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(6));
    let store = Store::create(&path, options()).unwrap();
    change(&store, &mut model, &mut random, 1000);
    store.close().unwrap();
    let name = runs(&path).remove(0);
    std::fs::remove_file(path.join(&name)).unwrap();

    let refused = Store::open(&path, options()).map(drop).unwrap_err();
    assert!(refused.to_string().contains(&name), "{refused}");
    let reader = Store::open_read_only(&path, options()).unwrap();
    assert_eq!(reader.absent().iter().map(|absent| &absent.file).collect::<Vec<_>>(), [&name]);
    assert!(reader.keys_in(KeyRange::all(), Direction::Forward).unwrap_err().to_string().contains(&name));
    let report = reader.verify().unwrap();
    assert!(report.problems.iter().any(|problem| problem.file == name), "{:?}", report.problems);
    drop(reader);

    let store = Store::open(&path, options().accept_loss()).unwrap();
    assert!(!store.has_key_order());
    assert_eq!(store.keys().count(), model.len());
    store.close().unwrap();
    Store::repair(&path, RepairTo::InPlace, &options(), &mut |_| ControlFlow::Continue(())).unwrap();
    check(&Store::open(&path, options()).unwrap(), &model, &mut random);
}

/// A run too large to be rewritten with the next one keeps a removed key: the search after an
/// erasure finds the key there, and the erasure rewrites the run.
#[test]
fn a_removed_key_in_a_run_is_found_and_erased() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    store.put(&Record::new(b"secret", b"")).unwrap();
    let mut random = fastrand::Rng::with_seed(10);
    (0..30_000).for_each(|_| assert!(store.put(&Record::new(&random.u128(..).to_be_bytes(), b"")).is_ok()));
    store.checkpoint().unwrap();
    store.remove(b"secret").unwrap();
    store.checkpoint().unwrap();
    let keys: KeyFilter = Arc::new(|key| key == b"secret");
    let what = Erasure { keys: Arc::clone(&keys), versions: Arc::new(|_, _| true), groups: keys };
    let left = |store: &Store| {
        let mut go_on = |_| ControlFlow::Continue(());
        let search =
            Search { what: &what, texts: &[], tombstones_too: false, mention: &mut |_, _| {}, progress: &mut go_on };
        let found = store.search(search).unwrap();
        found.left.into_iter().map(|left| left.file).filter(|file| file.ends_with(".run")).count()
    };
    assert!(store.stats().key_runs > 1 && left(&store) > 0);
    let done = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(done.left.is_empty() && left(&store) == 0, "{:?}", done.left);
    verify(&store);
}

/// Keys of a missing segment that no checkpoint has seen are unknown: a list ends with an error
/// for it, and counting fails.
#[test]
fn a_segment_that_is_gone_is_told_by_lists_and_counts() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, options()).unwrap();
    store.put(&Record::new(b"12", b"A page.")).unwrap();
    store.checkpoint().unwrap();
    let body: Vec<u8> = std::iter::repeat_with({
        let mut random = fastrand::Rng::with_seed(9);
        move || random.u8(..)
    })
    .take(60_000)
    .collect();
    (0..40).for_each(|n| assert!(store.put(&Record::new(format!("{n}").as_bytes(), &body)).is_ok()));
    store.sync().unwrap();
    let copy = temp.path().join("b");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    drop(store);
    std::fs::remove_file(copy.join("value1.dat")).unwrap();
    let reader = Store::open_read_only(&copy, options()).unwrap();
    let mut keys: Vec<Result<Vec<u8>>> = reader.keys_in(KeyRange::all(), Direction::Forward).unwrap().collect();
    let last = keys.pop().unwrap().unwrap_err();
    assert!(last.to_string().contains("value1.dat") && !keys.is_empty() && keys.iter().all(Result::is_ok), "{last}");
    let refused = reader.count_in(&KeyRange::all()).unwrap_err();
    assert!(refused.to_string().contains("value1.dat"), "{refused}");
}

#[test]
fn verification_finds_a_flipped_bit_of_a_run() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(7));
    let store = Store::create(&path, options()).unwrap();
    change(&store, &mut model, &mut random, 1000);
    store.close().unwrap();
    let file = path.join(&runs(&path)[0]);
    let mut bytes = std::fs::read(&file).unwrap();
    for _ in 0..20 {
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let store = Store::open(&path, options()).unwrap();
        let report = store.verify().unwrap();
        assert!(report.problems.iter().any(|problem| problem.file.ends_with(".run")), "byte {at}");
        // Damage to derived files stops neither puts nor gets.
        store.put(&Record::new(b"77", b"A page.")).unwrap();
        assert!(store.get(b"77").unwrap().is_some());
        drop(store);
        if runs(&path).iter().all(|name| !file.ends_with(name)) {
            return;
        }
        bytes[at] ^= 1;
    }
}

#[test]
fn a_backup_has_the_order_and_an_erasure_leaves_no_key() {
    let temp = tempfile::tempdir().unwrap();
    let (path, copy) = (temp.path().join("a"), temp.path().join("b"));
    let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(8));
    let store = Store::create(&path, options()).unwrap();
    for _ in 0..4 {
        change(&store, &mut model, &mut random, 500);
        store.checkpoint().unwrap();
    }
    let done = store.backup(&copy, &Default::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(done.files > 4);
    check(&Store::open(&copy, options()).unwrap(), &model, &mut random);

    store.put(&Record::new(b"a very special key", b"A page.")).unwrap();
    store.checkpoint().unwrap();
    let keys: KeyFilter = Arc::new(|key| key.starts_with(b"a very special"));
    let what = Erasure { keys: Arc::clone(&keys), versions: Arc::new(|_, _| true), groups: keys };
    let done = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(done.left.is_empty(), "{:?}", done.left);
    let special: Vec<u8> = b"a very special key".iter().rev().copied().collect();
    for name in runs(&path) {
        let bytes = std::fs::read(path.join(name)).unwrap();
        assert!(memchr::memmem::find(&bytes, &special[..12]).is_none());
    }
    check(&store, &model, &mut random);
    verify(&store);
    assert!(matches!(store.clone().close(), Ok(())));
    assert!(matches!(store.keys_in(KeyRange::all(), Direction::Back).map(drop), Err(Error::Closed)));
}
