//! Compaction through a store: erasures in many runs, and the bound on how far puts may run ahead.

use crate::handle::writing::late_bytes;
use crate::store::Erasure;
use crate::sync::lock;
use crate::upkeep::worker::compact_if_due;
use crate::{Options, Record, Store};
use std::ops::ControlFlow;
use std::sync::Arc;

#[test]
fn a_segment_with_more_than_a_run_moves_is_emptied_in_many() {
    let temp = tempfile::tempdir().unwrap();
    let mut options = Options::new().free_space_floor(0).space_bound(None);
    // A run moves one version, a checkpoint one key's chain.
    (options.limits.compact_ops, options.limits.key_round) = (0, 1);
    let store = Store::create(temp.path().join("a"), options).unwrap();
    for i in 0..40u8 {
        store.put(&Record::new(&[i], &[i; 100])).unwrap();
    }
    let what =
        Erasure { keys: Arc::new(|key| key == [7]), versions: Arc::new(|_, _| true), groups: Arc::new(|_| true) };
    let erased = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(erased.is_complete() && erased.versions == 1, "{erased:?}");
    assert_eq!(store.verify().unwrap().problems, []);
    assert_eq!(store.keys().map(Result::unwrap).count(), 39);
}

#[test]
fn what_a_backup_has_kept_goes_when_that_is_done() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), Options::new().free_space_floor(0).space_bound(None)).unwrap();
    store.put(&Record::new(b"a", &[1; 100])).unwrap();
    store.put(&Record::new(b"b", &[2; 100])).unwrap();
    store.remove(b"a").unwrap();
    let (held, ..) = store.upkeep().unwrap().hold().unwrap();
    store.compact().unwrap();
    // End the hold without its bell: nothing must run in the background.
    std::mem::forget(held);
    lock(store.upkeep().unwrap().checkpointer()).holds = 0;
    assert!(store.path().join("value0.dat").exists(), "as this test takes for granted");
    let what =
        Erasure { keys: Arc::new(|key| key == b"a"), versions: Arc::new(|_, _| true), groups: Arc::new(|_| true) };
    let erased = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(erased.is_complete(), "{erased:?}");
    assert!(!store.path().join("value0.dat").exists());
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn a_key_segment_is_emptied_though_puts_wait_for_the_value_log() {
    let temp = tempfile::tempdir().unwrap();
    let mut options = Options::new().free_space_floor(0).space_bound(None);
    options.limits.key_segment_bytes = 256;
    let store = Store::create(temp.path().join("a"), options).unwrap();
    // One key's head lies in another segment than the rest of its chain.
    for i in 0..8u8 {
        store.put(&Record::new(&[i % 4], &[i; 100]).time(i64::from(i))).unwrap();
        store.checkpoint().unwrap();
    }
    store.writing().unwrap().limit_space(0);
    let what =
        Erasure { keys: Arc::new(|key| key == [1]), versions: Arc::new(|_, _| true), groups: Arc::new(|_| true) };
    let erased = store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(erased.is_complete() && erased.versions == 2, "{erased:?}");
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn puts_know_their_limit_before_there_is_anything_to_compact() {
    let temp = tempfile::tempdir().unwrap();
    let mut options = Options::new().free_space_floor(0).compression_level(0).keep_versions(Some(1));
    options.limits.slack_bytes = 0;
    let store = Store::create(temp.path().join("a"), options).unwrap();
    let put = |i: u8| assert!(store.put(&Record::new(&[i], &[i; 10_000])).is_ok());
    let limit = || {
        store.checkpoint().unwrap();
        compact_if_due(store.upkeep().unwrap()).unwrap();
        store.writing().unwrap().space_limit()
    };
    (0..100).for_each(put);
    assert_eq!(limit(), u64::MAX, "nothing is dead, and a load waits for nobody");
    (0..3).for_each(put);
    // 100 of 103 records of 10 KB are live: a sixth of the garbage within the bound is kept free.
    let late = late_bytes(u64::from(store.reading.birth().segment_bytes));
    let room = limit() - late - lock(store.writing().unwrap().log()).appender.position();
    assert!((17 * 10_000..19 * 10_100).contains(&room), "{room}");
    assert_eq!(store.stats().compactions, 0);
}
