//! Retention by age: upkeep drops versions that are too old, and compaction frees their space.

use crate::record::now_ms;
use crate::{Options, Record, Store};
use std::time::Duration;

#[test]
fn what_has_come_of_age_goes_when_upkeep_looks_and_its_space_comes_back() {
    let temp = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3600);
    let options =
        Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10).keep_age(Some(hour)).free_space_floor(0);
    let store = Store::create(temp.path().join("a"), options).unwrap();
    let put = |i: u32, time_ms: i64| {
        let body: Vec<u8> =
            (0..500).map(|n| (u64::from(i + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        store.put(&Record::new(&i.to_le_bytes(), &body).time(time_ms)).unwrap();
    };
    let old_ms = now_ms() - 2 * hour.as_millis() as i64;
    (0..10_000).for_each(|i| put(i, old_ms));
    (10_000..10_100).for_each(|i| put(i, now_ms()));
    store.checkpoint().unwrap();
    let before = store.stats().value_bytes;
    assert!(store.upkeep().unwrap().prune_expired().unwrap());
    assert_eq!(store.keys().count(), 100);
    while crate::upkeep::worker::compact_if_due(store.upkeep().unwrap()).unwrap() {}
    let after = store.stats().value_bytes;
    assert!(before > 2_000_000 && after < before / 4, "{before} {after}");
    assert!(!store.upkeep().unwrap().prune_expired().unwrap(), "a second time there is nothing");
    assert_eq!(store.verify().unwrap().problems, []);
}
