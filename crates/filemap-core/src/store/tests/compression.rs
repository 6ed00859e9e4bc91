//! The sample of how bodies are compressed: counted by kind, in bounded reads, with damage
//! counted.

use super::trained::{create, eager, put, work};
use crate::{Options, Record, Store};

#[test]
fn bodies_are_counted_by_their_compression() {
    let temp = tempfile::tempdir().unwrap();
    let store = create(&temp.path().join("a"), eager());
    put(&store, "a.example", 0..100);
    work(&store);
    put(&store, "a.example", 100..150);
    store.put(&Record::new(b"noise", b"\x00\x99").time(1)).unwrap();
    store.put(&Record::new(b"empty", b"").time(1)).unwrap();
    let sample = store.sample_compression(1 << 30).unwrap();
    let kinds = [sample.with_dictionary, sample.without_dictionary, sample.raw];
    assert_eq!(kinds.map(|kind| kind.bodies), [50, 100, 1], "{sample:?}");
    assert_eq!((sample.raw.bytes, sample.raw.stored_bytes, sample.missed), (2, 2, 0));
    assert!(kinds[0].bytes > 0 && kinds[0].stored_bytes * 2 < kinds[1].stored_bytes, "{sample:?}");
}

#[test]
fn a_sample_of_a_long_log_is_bounded_and_a_damaged_place_is_counted() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = Store::create(&path, Options::new().free_space_floor(0)).unwrap();
    for nth in 0..2_000_u32 {
        store.put(&Record::new(&nth.to_be_bytes(), &[7; 3_000]).time(1)).unwrap();
    }
    let all = store.sample_compression(1 << 30).unwrap();
    assert_eq!((all.without_dictionary.bodies, all.missed), (2_000, 0), "{all:?}");
    let part = store.sample_compression(20_000).unwrap();
    assert!((1..2_000).contains(&part.without_dictionary.bodies) && part.read_bytes <= 21_000, "{part:?}");
    assert_eq!(part.missed, 0, "the cut is not damage");
    store.close().unwrap();
    let segment = path.join("value0.dat");
    let mut bytes = std::fs::read(&segment).unwrap();
    // Within the first record's key: its head does not verify.
    let at = bytes.windows(4).position(|four| four == 3_u32.to_be_bytes()).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let store = Store::open(&path, Options::new().free_space_floor(0)).unwrap();
    let damaged = store.sample_compression(1 << 30).unwrap();
    assert_eq!((damaged.without_dictionary.bodies, damaged.missed), (1_999, 1), "{damaged:?}");
}

/// The sampled part of a segment covers at least the longest record: it once ended within the
/// first.
#[test]
fn large_bodies_are_in_a_sample() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), Options::new().free_space_floor(0)).unwrap();
    let noise: Vec<u8> = {
        let mut rng = fastrand::Rng::with_seed(1);
        (0..3 << 20).map(|_| rng.u8(..)).collect()
    };
    for nth in 0..4_u32 {
        store.put(&Record::new(&nth.to_be_bytes(), &noise).time(1)).unwrap();
    }
    let sample = store.sample_compression(1 << 20).unwrap();
    assert!(sample.raw.bodies >= 1 && sample.read_bytes >= 1 << 20 && sample.missed == 0, "{sample:?}");
}
