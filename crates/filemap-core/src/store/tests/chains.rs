//! Chains of the memtables' keys by group: every table of a store with an order has them, and
//! lists that follow them have what lists of all keys have.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use filemap_runs::ordered::Direction;

use crate::handle::reading::KeyRange;
use crate::index::memtable::Memtable;
use crate::options::{KeyGroups, KeyOrder};
use crate::{Options, Record, Result, Store};

fn same(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
}

fn back(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    same(bytes, out);
    true
}

fn first(key: &[u8]) -> &[u8] {
    &key[..1]
}

fn of_range(from: &[u8], until: &[u8]) -> Option<Vec<u8>> {
    let first = *from.first()?;
    (until <= &[first.checked_add(1)?][..]).then(|| vec![first])
}

const GROUPS: KeyGroups = KeyGroups { of_key: first, of_range };
const BYTES: KeyOrder = KeyOrder { name: "bytes", ordered: same, key: back, groups: Some(GROUPS) };

fn options() -> Options {
    Options::new().key_order(BYTES).free_space_floor(0).segment_bytes(1 << 20).large_value_bytes(64 << 10)
}

type Model = BTreeSet<Vec<u8>>;

/// Puts and removes random keys of five groups.
fn change(store: &Store, model: &mut Model, random: &mut fastrand::Rng) {
    for _ in 0..300 {
        let key = format!("{}{}", random.char('a'..='e'), random.u16(..200)).into_bytes();
        if random.u8(..4) == 0 {
            store.remove(&key).unwrap();
            model.remove(&key);
        } else {
            store.put(&Record::new(&key, b"A page.")).unwrap();
            model.insert(key);
        }
    }
}

/// Asserts that the chains of each memtable have all its keys, each once. Returns their number.
fn check_chains(store: &Store) -> usize {
    let (tables, mut count) = (store.reading.tables(), 0);
    for table in [Some(&tables.active), tables.frozen.as_ref()].into_iter().flatten() {
        let (mut chained, mark) = (Model::new(), table.mark());
        for group in 0..=u8::MAX {
            let add = |key: &[u8]| assert!(chained.insert(key.to_vec()), "twice");
            table.each_in_group(&[group], (0, mark), usize::MAX, add).expect("the table has chains");
        }
        assert_eq!(chained, table.keys().map(|(_, found)| table.key_of(&found)).collect::<Model>());
        count += chained.len();
    }
    count
}

/// Compares lists and counts within groups with the model: whole, in part, from cursors.
fn check_lists(store: &Store, model: &Model, random: &mut fastrand::Rng) {
    for _ in 0..40 {
        let group = random.u8(b'a'..=b'e');
        let mut ends = [random.u8(b'0'..=b'9'), random.u8(b'0'..=b'9')];
        ends.sort_unstable();
        let range = match random.bool() {
            true => KeyRange::from(vec![group]..vec![group + 1]),
            false => KeyRange::from(vec![group, ends[0]]..vec![group, ends[1]]),
        };
        let until = range.until.clone().unwrap();
        let mut expected: Vec<Vec<u8>> = model.range(range.from.clone()..until).cloned().collect();
        assert_eq!(store.count_in(&range).unwrap(), expected.len() as u64);
        for direction in [Direction::Forward, Direction::Back] {
            let (mut rest, mut met) = (range.clone(), Vec::new());
            loop {
                let mut keys = store.keys_in(rest.clone(), direction).unwrap();
                let some: Vec<Vec<u8>> = keys.by_ref().take(random.usize(1..90)).collect::<Result<_>>().unwrap();
                if some.is_empty() {
                    break;
                }
                met.extend(some);
                rest = match direction {
                    Direction::Forward => rest.after(keys.form()),
                    Direction::Back => rest.before(keys.form()),
                };
            }
            assert_eq!(met, expected);
            expected.reverse();
        }
    }
}

#[test]
fn lists_of_a_group_agree_with_a_model_over_runs_and_both_memtables() {
    for seed in 0..6 {
        let temp = tempfile::tempdir().unwrap();
        let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(seed));
        let store = Store::create(temp.path().join("a"), options()).unwrap();
        change(&store, &mut model, &mut random);
        check_lists(&store, &model, &mut random);
        store.checkpoint().unwrap();
        change(&store, &mut model, &mut random);
        // The state of a running checkpoint.
        store.reading.freeze(Arc::new(Memtable::new(1 << 20, 0, store.reading.grouping())));
        change(&store, &mut model, &mut random);
        assert!(check_chains(&store) > 300);
        check_lists(&store, &model, &mut random);
        // A list of all keys sorts them: later lists follow the chains from there on.
        let all: Vec<Vec<u8>> =
            store.keys_in(KeyRange::all(), Direction::Forward).unwrap().collect::<Result<_>>().unwrap();
        assert!(all.iter().eq(&model));
        change(&store, &mut model, &mut random);
        check_lists(&store, &model, &mut random);
        // This frozen memtable is never merged: closing must not write.
        store.writing().unwrap().poison_because("a test".into());
    }
}

#[test]
fn memtables_that_are_recovered_or_followed_have_chains() {
    let temp = tempfile::tempdir().unwrap();
    let (path, copy) = (temp.path().join("a"), temp.path().join("b"));
    let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(7));
    let store = Store::create(&path, options()).unwrap();
    let follower = Store::open_read_only(&path, options()).unwrap();
    change(&store, &mut model, &mut random);
    follower.refresh().unwrap();
    assert!(check_chains(&follower) > 150);
    check_lists(&follower, &model, &mut random);
    store.checkpoint().unwrap();
    change(&store, &mut model, &mut random);
    follower.refresh().unwrap();
    for store in [&store, &follower] {
        assert!(check_chains(store) > 150);
        check_lists(store, &model, &mut random);
    }
    store.sync().unwrap();
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let recovered = Store::open(&copy, options()).unwrap();
    assert!(check_chains(&recovered) > 150);
    check_lists(&recovered, &model, &mut random);
}

#[test]
fn a_store_without_an_order_has_no_chains_even_if_it_is_opened_with_one() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let has_chains = |store: &Store| {
        let active = Arc::clone(&store.reading.tables().active);
        active.each_in_group(b"a", (0, active.mark()), 9, |_| {}).is_some()
    };
    let store = Store::create(&path, options().end_key_order()).unwrap();
    store.put(&Record::new(b"a", b"A page.")).unwrap();
    assert!(!has_chains(&store));
    store.close().unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert!(!has_chains(&store));
    store.put(&Record::new(b"a2", b"A page.")).unwrap();
    store.checkpoint().unwrap();
    assert!(!has_chains(&store));
}
