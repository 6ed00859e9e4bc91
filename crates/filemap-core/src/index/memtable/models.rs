//! The memtable under the model checker: one thread inserts, another reads, in every interleaving.

use std::sync::Arc;

use super::*;
use crate::format::location::Location;
use crate::sync::primitive::{Fault, plant};

/// The hash of all keys here: they share one bucket.
const HASH: u64 = 7;

/// An entry whose fields are all derived from `sequence`, so that a torn entry is noticed.
fn entry(sequence: u64) -> Entry {
    Entry {
        version: Version { time_ms: sequence.cast_signed(), sequence },
        extent: Extent { location: Location::new(sequence as u16, 64 * sequence), units: sequence as u32 },
        refers_to: sequence,
        chunked: false,
        tombstone: false,
    }
}

/// The newest sequence of a key. Asserts that its entry is whole.
fn latest(table: &Memtable, key: &[u8]) -> u64 {
    let found = table.find(HASH, key).unwrap_or_else(|| panic!("{} is lost", key.escape_ascii()));
    assert_eq!(table.key_of(&found), key);
    let best = found.best.expect("nothing is removed");
    assert_eq!(best, entry(best.version.sequence));
    best.version.sequence
}

/// The group of all keys here.
fn one_group(_: &[u8]) -> &[u8] {
    b"group"
}

/// Runs `insert` and `read` concurrently on a table with a, b and c in one bucket and one group.
fn scenario(insert: fn(&Memtable), read: fn(&Memtable)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let table = Arc::new(Memtable::new(0, 0, Some(Grouping::new(one_group))));
        for (i, key) in [b"a", b"b", b"c"].into_iter().enumerate() {
            table.insert(HASH, key, &entry(i as u64 + 1));
        }
        // The checker first runs the spawned thread last, and finds alternatives by the loads that
        // a store might have changed. A thread that loads a word before it stores to it would hide
        // the other's load, so the reader is spawned.
        let reading = Arc::clone(&table);
        let reader = loom::thread::spawn(move || read(&reading));
        insert(&table);
        reader.join().unwrap();
    });
}

fn replace(table: &Memtable) {
    table.insert(HASH, b"b", &entry(4));
}

/// Looks up keys behind, at and before the replaced entry.
fn find(table: &Memtable) {
    assert_eq!(latest(table, b"a"), 1);
    let b = latest(table, b"b");
    assert!(b == 2 || b == 4);
    assert!(latest(table, b"b") >= b, "it went back");
}

#[test]
fn a_key_is_found_whole_while_entries_are_replaced() {
    scenario(replace, find);
}

#[test]
fn two_replacements_in_a_row_hide_no_key_of_the_bucket() {
    scenario(
        |table| {
            table.insert(HASH, b"b", &entry(4));
            table.insert(HASH, b"a", &entry(5));
        },
        |table| {
            let a = latest(table, b"a");
            assert!(a == 1 || a == 5);
        },
    );
}

#[test]
fn the_versions_of_a_key_are_those_of_one_moment() {
    scenario(replace, |table| {
        let found = table.find(HASH, b"b").expect("it is there");
        let sequences: Vec<u64> = table.versions(&found).iter().map(|e| e.version.sequence).collect();
        assert!(sequences == [2] || sequences == [4, 2], "{sequences:?}");
        assert!(table.version(&found, 2).is_some());
    });
}

#[test]
fn a_list_meets_each_key_once() {
    scenario(replace, |table| {
        let keys: Vec<Vec<u8>> = table.keys().map(|(_, found)| table.key_of(&found)).collect();
        let mut sorted = keys.clone();
        sorted.sort();
        assert_eq!(sorted, [b"a", b"b", b"c"]);
    });
}

#[test]
fn what_was_there_at_a_mark_is_known_and_whole() {
    scenario(
        |table| table.insert(HASH, b"d", &entry(4)),
        |table| {
            let mark = table.mark();
            assert!(["a", "b", "c"].iter().all(|key| table.knew(&table.find(HASH, key.as_bytes()).unwrap(), mark)));
            if let Some(found) = table.find(HASH, b"d").filter(|found| table.knew(found, mark)) {
                assert_eq!(found.best, Some(entry(4)));
            }
            // Four entries of nine words; word 0 is unused.
            if mark > 1 + 3 * 9 {
                assert_eq!(latest(table, b"d"), 4);
            }
        },
    );
}

/// The keys of the group before a mark taken first, which are a, b and c, and d if the mark covers
/// it: each once.
fn follow_chain(table: &Memtable) {
    let (mark, mut keys) = (table.mark(), Vec::new());
    table.each_in_group(b"group", (0, mark), usize::MAX, |key| keys.push(key.to_vec())).expect("a chain");
    // Four entries of nine words; word 0 is unused.
    let expected: &[&[u8]] = if mark > 1 + 3 * 9 { &[b"d", b"c", b"b", b"a"] } else { &[b"c", b"b", b"a"] };
    assert_eq!(keys, expected, "the chain has other keys");
}

#[test]
fn a_chain_has_each_key_before_a_mark_once_while_one_is_added_to_its_group() {
    scenario(|table| table.insert(HASH, b"d", &entry(4)), follow_chain);
}

#[test]
fn a_chain_has_each_key_once_while_one_is_put_again() {
    scenario(replace, |table| {
        let mut keys = Vec::new();
        table.each_in_group(b"group", (0, table.mark()), usize::MAX, |key| keys.push(key.to_vec())).expect("a chain");
        assert_eq!(keys, [b"c", b"b", b"a"]);
    });
}

#[test]
#[should_panic]
fn an_entry_that_comes_into_its_chain_too_early_is_noticed() {
    plant(Fault::Publish32);
    scenario(|table| table.insert(HASH, b"d", &entry(4)), follow_chain);
}

#[test]
fn an_entry_in_a_new_chunk_is_found_whole() {
    scenario(
        |table| {
            let key = [b'd'; 400];
            table.insert(HASH, &key, &entry(4));
        },
        |table| {
            assert_eq!(latest(table, b"a"), 1);
            if table.find(HASH, &[b'd'; 400]).is_some() {
                assert_eq!(latest(table, &[b'd'; 400]), 4);
            }
        },
    );
}

#[test]
#[should_panic]
fn an_entry_that_is_published_too_early_is_noticed() {
    plant(Fault::Publish32);
    scenario(replace, find);
}

#[test]
#[should_panic = "is lost"]
fn an_entry_that_leaves_its_bucket_without_order_is_noticed() {
    plant(Fault::Publish64);
    scenario(replace, |table| {
        latest(table, b"b");
    });
}
