//! Bloom filters against theory, under concurrency, crashes and damage.

use std::collections::HashSet;

use filemap_io::StorageError;
use filemap_io::sim::{Failure, Fault, Level, Loss, SimDisk};

use super::*;
use crate::error::Error;

fn url(i: u64) -> Vec<u8> {
    format!("http://example.com/page/{i}").into_bytes()
}

fn is_seen(set: &BloomFilter, i: u64) -> bool {
    !set.contains(&url(i)).expect("known").is_new()
}

fn filled(options: BloomOptions, urls: u64) -> BloomFilter {
    let set = BloomFilter::in_memory(options).expect("made");
    (0..urls).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    set
}

fn measured(set: &BloomFilter, first: u64, tests: u64) -> f64 {
    (first..first + tests).filter(|&i| is_seen(set, i)).count() as f64 / tests as f64
}

#[test]
fn the_rate_is_that_of_theory_in_both_layouts() {
    for (rate, tests) in [(1e-2, 200_000), (1e-3, 1_000_000)] {
        for options in [BloomOptions::new(50_000, rate), BloomOptions::new(50_000, rate).blocked()] {
            let set = filled(options, 50_000);
            assert!((0..50_000).all(|i| is_seen(&set, i)));
            let (measured, theory) = (measured(&set, 1_000_000, tests), set.theoretical_rate(50_000));
            assert!((measured / rate - 1.0).abs() < 0.1, "{measured} against {rate}");
            assert!((theory / rate - 1.0).abs() < 0.02, "{theory} against {rate}");
            let estimated = set.false_positive_rate();
            assert!((estimated / rate - 1.0).abs() < 0.1, "{estimated} against {rate}");
            let lost = 50_000.0 - set.len() as f64;
            assert!((set.expected_loss() - lost).abs() < 4.0 * lost.max(4.0).sqrt(), "{lost}");
        }
    }
}

#[test]
fn a_filter_knows_the_rate_that_it_was_made_for() {
    for rate in [0.3, 1e-2, 1e-4, 1e-8] {
        for options in [BloomOptions::new(10_000, rate), BloomOptions::new(10_000, rate).blocked()] {
            let set = BloomFilter::in_memory(options).expect("made");
            assert!(set.is_made_for(rate), "{rate}");
            for other in [rate * 1.5, rate / 1.5, 0.0, 1.0, f64::NAN] {
                assert!(!set.is_made_for(other), "{other} for {rate}");
            }
        }
    }
}

#[test]
fn the_old_hash_functions_forget_nothing_and_err_about_as_often() {
    for family in HashFamily::ALL.into_iter().filter(|family| *family != HashFamily::Xxh3) {
        let set = filled(BloomOptions::classic(20_000).family(family), 20_000);
        assert!((0..20_000).all(|i| is_seen(&set, i)));
        let measured = measured(&set, 1_000_000, 100_000);
        assert!(measured < 0.01, "{family:?}: {measured}");
    }
    let too_large = BloomOptions::with_bits(1, (1 << 31) + 512, 8).family(HashFamily::Djb);
    assert!(matches!(BloomFilter::in_memory(too_large), Err(Error::Storage(StorageError::InvalidOption { .. }))));
    let blocked = BloomOptions::classic(10).family(HashFamily::Ap).blocked();
    assert!(matches!(BloomFilter::in_memory(blocked), Err(Error::Storage(StorageError::InvalidOption { .. }))));
}

/// A filter made when DJB started at 0 is known by its family's number in the header: it is named
/// `djb0`, and keeps its URLs.
#[test]
fn a_filter_that_was_made_with_a_djb_from_0_keeps_its_urls() {
    for (number, family) in [(2, HashFamily::Ap0), (3, HashFamily::Djb0)] {
        let disk = SimDisk::new(1);
        let set =
            BloomFilter::create_in(disk.dir(), "seen", BloomOptions::classic(1_000).family(family)).expect("made");
        (0..1_000).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
        set.sync().expect("synced");
        drop(set);
        assert_eq!(disk.bytes("seen").expect("the file")[13], number);
        let set = BloomFilter::open_in(disk.dir(), "seen").expect("opened");
        assert_eq!(set.hashing().0, family);
        assert!((0..1_000).all(|i| is_seen(&set, i)));
    }
}

#[test]
fn of_concurrent_inserts_of_one_url_exactly_one_is_new() {
    for options in [BloomOptions::new(20_000, 1e-6), BloomOptions::new(20_000, 1e-6).blocked()] {
        let set = BloomFilter::in_memory(options).expect("made");
        let new: usize = std::thread::scope(|scope| {
            let insert = || (0..20_000).filter(|&i| set.check_and_insert(&url(i)).expect("inserted").is_new()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(insert)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert!((19_998..=20_000).contains(&new), "{new}");
        assert_eq!(new as u64, set.len());
    }
}

#[test]
fn a_known_false_positive_is_new_once() {
    let disk = SimDisk::new(1);
    let set = BloomFilter::create_in(disk.dir(), "seen", BloomOptions::new(100, 0.1)).expect("made");
    (0..200).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    let wrong = (1000..).find(|&i| is_seen(&set, i)).expect("a filter this full errs");
    let right = (1000..).find(|&i| !is_seen(&set, i)).expect("and not always");
    assert!(set.note_false_positive(url(wrong)).expect("noted"));
    assert!(!set.note_false_positive(url(right)).expect("nothing to note"));
    assert!(!is_seen(&set, wrong));
    set.sync().expect("synced");
    drop(set);
    let set = BloomFilter::open_in(disk.dir(), "seen").expect("opened");
    assert_eq!(set.check_and_insert(&url(wrong)).expect("inserted"), Verdict::New);
    assert_eq!(set.check_and_insert(&url(wrong)).expect("inserted"), Verdict::ProbablySeen);
    set.sync().expect("synced");
    drop(set);
    let set = BloomFilter::open_in(disk.dir(), "seen").expect("opened");
    assert!(is_seen(&set, wrong));
    drop(set);
    let mut damaged = disk.bytes("seen.known").expect("the list");
    damaged[20] ^= 1;
    disk.set_bytes("seen.known", &damaged);
    let opened = BloomFilter::open_in(disk.dir(), "seen");
    assert!(matches!(opened, Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == "seen.known"));
}

#[test]
fn a_filter_is_opened_again_as_it_was() {
    let disk = SimDisk::new(1);
    let options = || BloomOptions::new(5_000, 1e-3).blocked().seed(9);
    let set = BloomFilter::create_in(disk.dir(), "seen", options()).expect("made");
    (0..5_000).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    let (len, rate) = (set.len(), set.false_positive_rate());
    set.sync().expect("synced");
    assert_eq!(set.disk_bytes(), disk.bytes("seen").expect("the file").len() as u64);
    assert!(matches!(BloomFilter::open_in(disk.dir(), "seen"), Err(Error::Storage(StorageError::Locked { .. }))));
    drop(set);
    let set = BloomFilter::open_in(disk.dir(), "seen").expect("opened");
    assert_eq!((set.len(), set.false_positive_rate(), set.capacity()), (len, rate, 5_000));
    assert!((0..5_000).all(|i| is_seen(&set, i)));
    drop(set);
    let again = BloomFilter::create_in(disk.dir(), "seen", options());
    assert!(matches!(again, Err(Error::Storage(StorageError::Io { .. }))));
}

/// After a power loss at any moment, synced URLs are seen, the rate holds, and nothing is damaged.
#[test]
fn nothing_synced_is_forgotten_and_nothing_half_written_is_seen() {
    for seed in 0..60u64 {
        let disk = SimDisk::new(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = BloomOptions::new(4_000, 1e-9);
        let set = BloomFilter::create_in(disk.dir(), "seen", if rng.bool() { options.blocked() } else { options });
        let set = set.expect("made");
        let (mut inserted, mut synced) = (HashSet::new(), HashSet::new());
        for _ in 0..rng.usize(1..4) {
            for _ in 0..rng.usize(1..300) {
                let i = rng.u64(..4_000);
                set.insert(&url(i)).expect("inserted");
                inserted.insert(i);
            }
            let images = Arc::new(Mutex::new(Vec::new()));
            let (taken, mut chance) = (Arc::clone(&images), rng.fork());
            disk.observe(Some(Box::new(move |snapshot| {
                let level = if chance.bool() { Level::Adversarial } else { Level::Ordered };
                let image = snapshot.crash(level, Loss::ALL[chance.usize(..4)], chance.u64(..));
                taken.lock().expect("one thread").push(image);
            })));
            set.sync().expect("synced");
            disk.observe(None);
            for image in images.lock().expect("one thread").iter() {
                let set = BloomFilter::open_in(image.dir(), "seen").expect("opens by itself");
                assert!(synced.iter().all(|&i| is_seen(&set, i)), "seed {seed}: a synced URL is gone");
                assert_eq!((0..4_000).find(|i| is_seen(&set, *i) && !inserted.contains(i)), None, "seed {seed}");
            }
            synced.clone_from(&inserted);
            let image = disk.crash(Level::Adversarial, Loss::Everything, seed);
            let set = BloomFilter::open_in(image.dir(), "seen").expect("opens by itself");
            assert!(synced.iter().all(|&i| is_seen(&set, i)), "seed {seed}: a synced URL is gone");
        }
    }
}

#[test]
fn after_a_failed_sync_no_more_is_taken_and_look_ups_go_on() {
    let disk = SimDisk::new(1);
    let set = BloomFilter::create_in(disk.dir(), "seen", BloomOptions::classic(100)).expect("made");
    set.insert(&url(1)).expect("inserted");
    disk.fail(Some(Failure { at: disk.calls() + 1, fault: Fault::Eio, only_syncs: true, forever: false }));
    assert!(matches!(set.sync(), Err(Error::Storage(StorageError::Io { .. }))));
    assert!(matches!(set.check_and_insert(&url(2)), Err(Error::Storage(StorageError::Poisoned { .. }))));
    assert!(is_seen(&set, 1));
}

#[test]
fn any_flipped_byte_is_found_with_file_and_offset() {
    let disk = SimDisk::new(1);
    let set = BloomFilter::create_in(disk.dir(), "seen", BloomOptions::classic(1_000)).expect("made");
    (0..1_000).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    set.sync().expect("synced");
    drop(set);
    let whole = disk.bytes("seen").expect("the file");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        disk.set_bytes("seen", &damaged);
        match BloomFilter::open_in(disk.dir(), "seen") {
            Err(Error::Storage(StorageError::Corrupt { offset, .. })) => {
                assert_eq!(offset / 512, at as u64 / 512, "byte {at}")
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
    disk.set_bytes("seen", &whole[..whole.len() - 1]);
    assert!(matches!(BloomFilter::open_in(disk.dir(), "seen"), Err(Error::Storage(StorageError::Corrupt { .. }))));
}
