//! The growing filter: its rate, its bits, concurrency, its file, crashes and damage.

use std::collections::HashSet;

use filemap_io::StorageError;
use filemap_io::sim::{Failure, Fault, Level, Loss, SimDisk};

use super::*;

fn url(i: u64) -> Vec<u8> {
    format!("http://example.com/page/{i}").into_bytes()
}

fn is_seen(set: &GrowingFilter, i: u64) -> bool {
    !set.contains(&url(i)).expect("known").is_new()
}

#[test]
fn nothing_is_forgotten_the_rate_stays_and_the_bits_are_few() {
    for (rate, most) in [(1e-2, 1.3), (1e-3, 1.2)] {
        let set = GrowingFilter::in_memory(rate, 0).expect("made");
        for i in 0..300_000 {
            set.insert(&url(i)).expect("inserted");
        }
        assert!((0..300_000).all(|i| is_seen(&set, i)));
        let wrong = (0..1_000_000).filter(|i| is_seen(&set, 1_000_000 + i)).count() as f64;
        let expected = set.false_positive_rate() * 1e6;
        assert!(
            wrong < rate * 1e6 && (wrong - expected).abs() < 4.0 * expected.sqrt(),
            "{wrong}, {expected} by itself"
        );
        let ideal = 300_000.0 * -f64::log2(rate) / std::f64::consts::LN_2;
        let ratio = set.memory_bytes() as f64 * 8.0 / ideal;
        assert!(ratio < most, "{ratio} times the bits of a Bloom filter");
        let lost = 300_000.0 - set.len() as f64;
        assert!((set.expected_loss() - lost).abs() < 5.0 * lost.max(4.0).sqrt(), "{} for {lost}", set.expected_loss());
    }
}

#[test]
fn layers_follow_each_other_and_share_the_rate() {
    for rate in [0.1, 1e-2, 1e-4, 1e-9] {
        let design = Design::new(rate, 0).expect("a rate");
        let mut layers: Vec<(u64, u32)> = (0..40).map(|number| design.layer(number)).collect();
        let last = layers.iter().position(|layer| layer.1 == FINGERPRINT_BITS_MAX).expect("bits are used up");
        layers.truncate(last + 1);
        let sum: f64 = layers.iter().map(|(keys, bits)| *keys as f64 * (-f64::from(*bits)).exp2()).sum();
        assert!(sum < rate && sum > rate / 2.0, "{rate}: {sum}");
        assert!(layers.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{layers:?}");
        assert!(layers[last].0 << SHARD_BITS > 1 << 32, "{layers:?}");
    }
}

#[test]
fn of_concurrent_inserts_of_one_url_exactly_one_is_new() {
    let set = GrowingFilter::in_memory(1e-9, 0).expect("made");
    let new: usize = std::thread::scope(|scope| {
        let insert = || (0..20_000).filter(|&i| set.check_and_insert(&url(i)).expect("inserted").is_new()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(insert)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!((new, set.len()), (20_000, 20_000));
}

/// After a power loss at any moment the filter is that of the last sync, or of the sync in
/// progress.
#[test]
fn nothing_synced_is_forgotten_and_nothing_half_written_is_seen() {
    for seed in 0..20u64 {
        let disk = SimDisk::new(seed);
        let set = GrowingFilter::create_in(disk.dir(), "seen", 1e-9, seed).expect("made");
        let mut synced = 0;
        for upto in [100, 150, 5_000] {
            (synced..upto).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
            let images = Arc::new(Mutex::new(Vec::new()));
            let taken = Arc::clone(&images);
            disk.observe(Some(Box::new(move |snapshot| {
                let loss = Loss::ALL[(seed + snapshot.calls()) as usize % 4];
                taken.lock().expect("one thread").push(snapshot.crash(Level::Adversarial, loss, seed));
            })));
            set.sync().expect("synced");
            disk.observe(None);
            let mut lens = HashSet::new();
            for image in images.lock().expect("one thread").iter() {
                let set = GrowingFilter::open_in(image.dir(), "seen").expect("opens by itself");
                assert!((0..synced).all(|i| is_seen(&set, i)), "seed {seed}");
                lens.insert(set.len());
            }
            assert!(lens.is_subset(&HashSet::from([synced, upto])), "{lens:?}");
            synced = upto;
            let image = disk.crash(Level::Adversarial, Loss::Everything, seed);
            let set = GrowingFilter::open_in(image.dir(), "seen").expect("opens by itself");
            assert!((0..synced).all(|i| is_seen(&set, i)) && set.len() == synced);
        }
    }
}

#[test]
fn after_a_failed_sync_no_more_is_taken_and_the_old_file_stays() {
    let disk = SimDisk::new(1);
    let set = GrowingFilter::create_in(disk.dir(), "seen", 1e-3, 0).expect("made");
    set.insert(&url(1)).expect("inserted");
    // The first call removes leftovers of an earlier failure, and needs no space.
    disk.fail(Some(Failure { at: disk.calls() + 2, fault: Fault::Enospc, only_syncs: false, forever: true }));
    assert!(matches!(set.sync(), Err(Error::Storage(StorageError::Io { .. }))));
    assert!(matches!(set.check_and_insert(&url(2)), Err(Error::Storage(StorageError::Poisoned { .. }))));
    assert!(is_seen(&set, 1));
    disk.heal();
    drop(set);
    assert_eq!(GrowingFilter::open_in(disk.dir(), "seen").expect("opened").len(), 0);
}

#[test]
fn any_flipped_byte_is_found() {
    let disk = SimDisk::new(1);
    let set = GrowingFilter::create_in(disk.dir(), "seen", 1e-3, 0).expect("made");
    (0..300).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    set.sync().expect("synced");
    assert_eq!(set.disk_bytes(), disk.bytes("seen").expect("the file").len() as u64);
    assert!(matches!(GrowingFilter::open_in(disk.dir(), "seen"), Err(Error::Storage(StorageError::Locked { .. }))));
    drop(set);
    let whole = disk.bytes("seen").expect("the file");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 2;
        disk.set_bytes("seen", &damaged);
        match GrowingFilter::open_in(disk.dir(), "seen") {
            Err(Error::Storage(StorageError::Corrupt { file, .. })) => assert_eq!(file, "seen"),
            other => panic!("byte {at}: {other:?}"),
        }
    }
    disk.set_bytes("seen", &whole[..whole.len() - 1]);
    assert!(matches!(GrowingFilter::open_in(disk.dir(), "seen"), Err(Error::Storage(StorageError::Corrupt { .. }))));
}
