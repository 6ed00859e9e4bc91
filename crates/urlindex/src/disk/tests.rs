//! The set on disk against a model, under crashes, damage and failures.

mod crash;
mod damage;
mod model;
mod reader;
mod strangers;
mod time;
mod torn;

use std::sync::{Arc, Mutex};

use filemap_io::sim::SimDisk;
use filemap_io::{Dir, OsDir, StorageError, guard};

use super::*;
use crate::error::{Error, Result};

use crate::seen::{SeenSet, Verdict};

/// Little memory: tables of 192 entries are rolled all the time, and there is no cache.
fn options() -> DiskOptions {
    DiskOptions::new().memory_bytes(32 << 10)
}

/// URLs of seven hosts.
fn url(i: u64) -> Vec<u8> {
    format!("http://h{}.example.com/page/{i}", i % 7).into_bytes()
}

fn is_seen(set: &DiskUrlSet, i: u64) -> bool {
    !set.contains(&url(i)).expect("known").is_new()
}

fn insert(set: &DiskUrlSet, i: u64) -> bool {
    set.check_and_insert(&url(i)).expect("inserted").is_new()
}

fn insert_batch(set: &DiskUrlSet, urls: impl Iterator<Item = u64>) -> Answers {
    let mut batch = set.batch();
    urls.for_each(|i| batch.push(url(i)).expect("room"));
    set.check_and_insert_all(&mut batch).expect("inserted")
}

#[test]
fn a_set_is_opened_again_as_it_was() {
    for bits in [FingerprintBits::Bits64, FingerprintBits::Bits80] {
        let disk = SimDisk::new(1);
        let set = DiskUrlSet::create_in(disk.dir(), "seen", options().fingerprint_bits(bits).seed(9)).expect("made");
        assert!((0..5_000).all(|i| insert(&set, i)));
        assert!((0..5_000).all(|i| !insert(&set, i)));
        assert!(matches!(
            DiskUrlSet::open_in(disk.dir(), "seen", options()),
            Err(Error::Storage(StorageError::Locked { .. }))
        ));
        assert_eq!(set.len(), 5_000);
        drop(set);
        let set = DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
        assert_eq!((set.len(), set.fingerprint_bits(), set.seed()), (5_000, bits, 9));
        assert!((0..5_000).all(|i| is_seen(&set, i)) && (5_000..9_000).all(|i| !is_seen(&set, i)));
        let on_disk: usize = disk.names().iter().filter_map(|name| disk.bytes(name)).map(|bytes| bytes.len()).sum();
        assert!(on_disk as u64 - set.disk_bytes() < 1024, "the lock, and the mark of a closed log");
        assert!(set.disk_stats().runs < 8);
    }
    let disk = SimDisk::new(1);
    drop(DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made"));
    assert!(matches!(
        DiskUrlSet::create_in(disk.dir(), "seen", options()),
        Err(Error::Storage(StorageError::Io { .. }))
    ));
    let too_little = DiskUrlSet::create_in(disk.dir(), "other", options().memory_bytes(1 << 10));
    assert!(matches!(too_little, Err(Error::Storage(StorageError::InvalidOption { .. }))));
}

#[test]
fn of_a_batch_each_url_is_new_once_and_answers_come_in_order() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    let (a, b) = (url(1), url(2));
    let mut verdicts = vec![Verdict::New; 7];
    set.check_and_insert_batch(&[&a, &b, &a, &a], &mut verdicts).expect("inserted");
    assert_eq!(verdicts, [Verdict::New, Verdict::New, Verdict::Seen, Verdict::Seen]);
    let c = url(3);
    set.contains_batch(&[&c, &a, &c], &mut verdicts).expect("known");
    assert_eq!(verdicts, [Verdict::New, Verdict::Seen, Verdict::New]);
    assert_eq!(set.len(), 2);
    // Large enough to be a run by itself, and durable at once.
    let answers = insert_batch(&set, (0..4_000).map(|i| i % 1_000));
    assert_eq!((answers.len(), answers.new_count(), set.len()), (4_000, 998, 1_000));
    assert!(answers.iter().take(1_000).enumerate().all(|(i, verdict)| verdict.is_new() != (i == 1 || i == 2)));
    assert_eq!(answers.get(4_000), None);
    let killed = disk.kill();
    drop(set);
    let set = DiskUrlSet::open_in(killed.dir(), "seen", options()).expect("opened");
    assert!((0..1_000).all(|i| is_seen(&set, i)));
}

#[test]
fn a_batch_for_another_kind_of_set_is_refused() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "a", options()).expect("made");
    let other = DiskUrlSet::create_in(disk.dir(), "b", options().seed(1)).expect("made");
    assert!(matches!(
        set.check_and_insert_all(&mut other.batch()),
        Err(Error::Storage(StorageError::InvalidOption { .. }))
    ));
    assert!(matches!(set.merge_from(&other), Err(Error::Storage(StorageError::InvalidOption { .. }))));
}

#[test]
fn of_concurrent_inserts_of_one_url_exactly_one_is_new() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    let new: u64 = std::thread::scope(|scope| {
        let one = || (0..2_000).filter(|&i| insert(&set, i)).count() as u64;
        let many = || (0..10).map(|part| insert_batch(&set, part * 200..part * 200 + 200).new_count()).sum();
        let threads = [scope.spawn(one), scope.spawn(one), scope.spawn(many), scope.spawn(many)];
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!((new, set.len()), (2_000, 2_000));
}

#[test]
fn what_is_forgotten_is_new_again_wherever_it_was() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    (0..1_000).for_each(|i| assert!(insert(&set, i)));
    for round in 0..3 {
        for i in (0..1_000).step_by(3) {
            assert!(set.forget(url(i)).expect("forgotten") && !set.forget(url(i)).expect("known"));
        }
        assert_eq!(set.len(), 666);
        assert!((0..1_000).all(|i| is_seen(&set, i) == (i % 3 != 0)), "round {round}");
        let new = insert_batch(&set, 0..1_000).new_count();
        assert_eq!((new, set.len()), (334, 1_000), "round {round}");
    }
    assert_eq!(set.fingerprints().expect("begun").count(), 1_000);
}

/// A log must not grow without bound because one URL comes and goes.
#[test]
fn a_log_is_rolled_though_the_table_does_not_fill() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    for _ in 0..20_000 {
        assert!(insert(&set, 1) && set.forget(url(1)).expect("forgotten"));
    }
    assert!(set.disk_bytes() < 200 << 10, "{}", set.disk_bytes());
    assert_eq!(set.len(), 0);
}

#[test]
fn fingerprints_come_in_order_and_those_of_one_host_together() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    (0..3_000).for_each(|i| assert!(insert(&set, i)));
    let iter = set.fingerprints().expect("begun");
    // Later inserts do not show.
    (3_000..6_000).for_each(|i| assert!(insert(&set, i)));
    let found: Vec<Fingerprint> = iter.map(|fingerprint| fingerprint.expect("read")).collect();
    let mut expected: Vec<Fingerprint> = (0..3_000).map(|i| set.fingerprint(url(i))).collect();
    expected.sort_unstable();
    assert!(found == expected);
    let mut classes: Vec<u32> = found.iter().map(|fingerprint| key::class(fingerprint.0)).collect();
    classes.dedup();
    assert_eq!(classes.len(), 7);
}

#[test]
fn a_set_merged_into_another_is_in_it() {
    let disk = SimDisk::new(1);
    let a = DiskUrlSet::create_in(disk.dir(), "a", options()).expect("made");
    let b = DiskUrlSet::create_in(disk.dir(), "b", options()).expect("made");
    (0..1_500).for_each(|i| assert!(insert(&a, i)));
    (1_000..2_600).for_each(|i| assert!(insert(&b, i)));
    assert_eq!(a.merge_from(&b).expect("merged"), 1_100);
    assert_eq!(a.merge_from(&a).expect("merged"), 0);
    assert!((0..2_600).all(|i| is_seen(&a, i)) && a.len() == 2_600);
}

#[test]
fn a_snapshot_is_a_set_of_its_own() {
    let (disk, copy) = (SimDisk::new(1), SimDisk::new(2));
    let temp = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let os = |i: usize| -> Arc<dyn Dir> { Arc::new(OsDir::open(temp[i].path()).expect("opened")) };
    // The simulated disk has no links: there runs are copied.
    for (from, to) in [(disk.dir(), copy.dir()), (os(0), os(1))] {
        let set = DiskUrlSet::create_in(Arc::clone(&from), "seen", options()).expect("made");
        (0..1_000).for_each(|i| assert!(insert(&set, i)));
        set.snapshot_in(&to).expect("made");
        assert!(matches!(set.snapshot_in(&to), Err(Error::Storage(StorageError::Io { .. }))));
        (1_000..2_000).for_each(|i| assert!(insert(&set, i)));
        let other = DiskUrlSet::open_in(Arc::clone(&to), "seen", options()).expect("opened");
        assert_eq!(other.len(), 1_000);
        assert!((0..1_000).all(|i| is_seen(&other, i)) && (1_000..2_000).all(|i| !is_seen(&other, i)));
        (5_000..6_000).for_each(|i| assert!(insert(&other, i)));
        assert!((5_000..6_000).all(|i| !is_seen(&set, i)) && set.len() == 2_000);
    }
}

#[test]
fn popular_urls_and_new_ones_are_answered_without_reading() {
    let disk = SimDisk::new(1);
    // A table of 49,152 and a cache of 6 MiB.
    let set = DiskUrlSet::create_in(disk.dir(), "seen", DiskOptions::new().memory_bytes(8 << 20)).expect("made");
    (0..200_000).for_each(|i| assert!(insert(&set, i)));
    let reads = set.disk_stats().block_reads;
    // Errors of up to six filters at seven in a thousand each, and more where blocks are full.
    assert!(reads < 6_000, "{reads}");
    // There was room for all; were there none, asking once would bring them in.
    let ask = || (0..5_000).for_each(|i| assert!(is_seen(&set, i)));
    let before = set.disk_stats();
    ask();
    let after = set.disk_stats();
    assert!(after.block_reads - before.block_reads < 50 && after.cache_hits - before.cache_hits > 4_950);
    assert!(set.memory_bytes() < 9 << 20, "{}", set.memory_bytes());
    drop(set);
    // After a reopening, nothing is read before it is needed.
    let set = DiskUrlSet::open_in(disk.dir(), "seen", DiskOptions::new().memory_bytes(8 << 20)).expect("opened");
    assert!(set.disk_stats().read_bytes < 64 << 10, "{:?}", set.disk_stats());
    (300_000..310_000).for_each(|i| assert!(!is_seen(&set, i)));
    assert!(set.disk_stats().block_reads < 500, "{:?}", set.disk_stats());
    // The cache is empty now: each URL asked for is read once, and cached then.
    for least in [5_000, 0] {
        let before = set.disk_stats().block_reads;
        (0..5_000).for_each(|i| assert!(is_seen(&set, i)));
        let reads = set.disk_stats().block_reads - before;
        assert!((least..least + 100).contains(&reads), "{reads}");
    }
}

#[test]
fn memory_stays_within_its_bound_and_the_index() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    for part in 0..40 {
        insert_batch(&set, part * 5_000..part * 5_000 + 5_000);
        assert!(set.memory_bytes() < 40 << 10, "{}", set.memory_bytes());
    }
    assert!((0..200_000).step_by(97).all(|i| is_seen(&set, i)));
    assert!((200_000..400_000).step_by(97).all(|i| !is_seen(&set, i)));
}

/// A set that is large for its batches reads only the blocks it needs.
#[test]
fn a_small_batch_reads_few_blocks() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..300_000);
    let before = set.disk_stats().read_bytes;
    let answers = insert_batch(&set, (0..20).map(|i| i * 30_000));
    assert_eq!(answers.new_count(), 10);
    let read = set.disk_stats().read_bytes - before;
    assert!(read <= 25 * 4096, "{read}");
}

/// The oldest run is the largest, and has most of the known URLs.
#[test]
fn a_known_url_is_looked_for_in_the_largest_run_first_and_behind_tombstones_only() {
    let disk = SimDisk::new(1);
    let open = || DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
    let read_for = |i: u64| {
        let set = open();
        let before = set.disk_stats().read_bytes;
        assert!(is_seen(&set, i), "{i}");
        set.disk_stats().read_bytes - before
    };
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    for urls in [0..30_000, 30_000..40_000, 40_000..43_000] {
        insert_batch(&set, urls);
    }
    assert_eq!(set.disk_stats().runs, 3);
    drop(set);
    // A filter and a block; of the newest run, the filters of the others too.
    assert_eq!(read_for(5), 1024 + 4096);
    assert!(read_for(42_000) >= 3 * 1024 + 4096);
    let set = open();
    assert!([7, 42_007].map(|i| set.forget(url(i)).expect("forgotten")) == [true, true]);
    // The table is written to a run with both tombstones.
    (43_000..43_200).for_each(|i| assert!(insert(&set, i)));
    assert_eq!(set.disk_stats().runs, 4);
    assert!(!is_seen(&set, 7) && !is_seen(&set, 42_007));
    drop(set);
    let set = open();
    assert!((0..43_200).step_by(7).all(|i| is_seen(&set, i) != [7, 42_007].contains(&i)));
    drop(set);
    assert!(read_for(5) >= 2 * 1024 + 4096);
}

#[test]
fn losses_follow_from_the_urls_of_each_host() {
    let disk = SimDisk::new(1);
    let short = options().fingerprint_bits(FingerprintBits::Bits64);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", short).expect("made");
    assert_eq!(set.expected_loss(), 0.0);
    insert_batch(&set, 0..70_000);
    // Seven hosts of 10,000 each.
    let expected = 7.0 * 1e8 / 2.0 / 2f64.powi(40);
    assert!((set.expected_loss() / expected - 1.0).abs() < 1e-6, "{}", set.expected_loss());
    let rate = 1e4 / 2f64.powi(40);
    assert!((set.false_positive_rate() / rate - 1.0).abs() < 1e-6);
    // Spread over table and runs it is an upper bound, and close.
    (70_000..70_150).for_each(|i| assert!(insert(&set, i)));
    let spread = set.expected_loss();
    assert!(spread >= expected && spread < expected * 1.01, "{spread} {expected}");
    let stats = set.stats();
    assert_eq!((stats.urls, stats.inserted, stats.expected_loss), (70_150, 70_150, spread));
}
