//! Sets with a maximum age, against a model with its own clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;

fn clocked(clock: &Arc<AtomicU64>) -> DiskOptions {
    let clock = Arc::clone(clock);
    options().max_age(Duration::from_millis(800)).clock(move || clock.load(Ordering::Relaxed) as i64)
}

#[test]
fn a_url_is_new_again_when_it_is_old_enough_and_not_before() {
    let clock = Arc::new(AtomicU64::new(5_000));
    let disk = SimDisk::new(1);
    let mut set = DiskUrlSet::create_in(disk.dir(), "seen", clocked(&clock)).expect("made");
    let mut rng = fastrand::Rng::with_seed(1);
    let mut inserted: BTreeMap<u64, u64> = BTreeMap::new();
    for step in 0..6_000u64 {
        let now = clock.fetch_add(rng.u64(0..4), Ordering::Relaxed);
        let now = now.max(clock.load(Ordering::Relaxed));
        let i = rng.u64(0..900);
        let age = inserted.get(&i).map(|at| now - at);
        match rng.u8(..10) {
            0 => {
                let was_there = set.forget(url(i)).expect("forgotten");
                assert!(age.is_some_and(|age| age < 800) <= was_there && age.is_none_or(|age| age > 900) <= !was_there);
                inserted.remove(&i);
            }
            1 if step % 50 == 0 => {
                drop(set);
                set = DiskUrlSet::open_in(disk.dir(), "seen", clocked(&clock)).expect("opened");
            }
            _ => {
                let is_new =
                    if rng.bool() { insert(&set, i) } else { insert_batch(&set, [i].into_iter()).new_count() == 1 };
                match age {
                    None => assert!(is_new, "step {step}"),
                    Some(age) if age < 800 => assert!(!is_new, "step {step}: {age}"),
                    Some(age) if age > 900 => assert!(is_new, "step {step}: {age}"),
                    Some(_) => {}
                }
                if is_new {
                    inserted.insert(i, now);
                }
            }
        }
        if step % 200 == 0 {
            assert_eq!(set.fingerprints().expect("begun").count() as u64, set.len(), "step {step}");
        }
    }
    assert!(set.disk_stats().runs < 40);
    clock.fetch_add(10_000, Ordering::Relaxed);
    assert!((0..900).all(|i| !is_seen(&set, i)) && set.is_empty());
}

#[test]
fn a_clock_that_goes_back_makes_nothing_older_or_younger() {
    let clock = Arc::new(AtomicU64::new(50_000));
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", clocked(&clock)).expect("made");
    assert!(insert(&set, 1));
    assert_eq!(set.disk_stats().ahead_ms, 0);
    clock.store(0, Ordering::Relaxed);
    assert!(is_seen(&set, 1) && insert(&set, 2));
    assert_eq!(set.disk_stats().ahead_ms, 50_000, "it is reported, with what to do");
    let new = DiskUrlSet::create_in(disk.dir(), "new", clocked(&clock)).expect("made");
    assert_eq!((new.merge_from(&set).expect("merged"), new.disk_stats().ahead_ms), (2, 0));
    clock.store(50_700, Ordering::Relaxed);
    assert!(is_seen(&set, 1) && is_seen(&set, 2));
    clock.store(50_900, Ordering::Relaxed);
    assert!(!is_seen(&set, 1) && !is_seen(&set, 2));
}
