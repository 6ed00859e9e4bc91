//! Reads in the middle of a checkpoint: tombstones of the active memtable hide entries of the
//! frozen one.

use std::sync::Arc;

use crate::index::memtable::Memtable;
use crate::{Options, Record, Store};

/// Puts a store in the state of a running checkpoint.
fn frozen(store: &Store) {
    store.reading.freeze(Arc::new(Memtable::new(1 << 20, 0, None)));
}

#[test]
fn an_older_time_put_after_a_removal_is_the_newest() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), Options::new().free_space_floor(0)).unwrap();
    store.put(&Record::new(b"k", b"removed").time(100)).unwrap();
    store.put(&Record::new(b"other", b"stays").time(100)).unwrap();
    frozen(&store);
    assert_eq!(store.get(b"k").unwrap().unwrap().body, b"removed");
    assert!(store.remove(b"k").unwrap());
    assert_eq!(store.get(b"k").unwrap(), None);
    store.put(&Record::new(b"k", b"older but later").time(50)).unwrap();
    assert_eq!(store.get(b"k").unwrap().unwrap().body, b"older but later");
    assert!(store.contains(b"k").unwrap());
    assert_eq!(store.history(b"k").unwrap().len(), 1);
    let mut keys: Vec<Vec<u8>> = store.keys().map(Result::unwrap).collect();
    keys.sort();
    assert_eq!(keys, [b"k".to_vec(), b"other".to_vec()]);
    assert!(store.remove(b"k").unwrap());
    assert_eq!(store.keys().map(Result::unwrap).collect::<Vec<_>>(), [b"other"]);
    // This frozen memtable is never merged: closing must not write.
    store.writing().unwrap().poison_because("a test".into());
}
