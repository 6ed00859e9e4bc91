//! The content-seen test: against a model, under a crash, and its own arithmetic.

use std::collections::HashSet;

use filemap_io::sim::{Level, Loss, SimDisk};
use proptest::prelude::*;

use super::*;
use crate::disk::FingerprintBits;
use crate::error::Error;

fn options() -> DiskOptions {
    DiskOptions::new().memory_bytes(64 << 10)
}

fn body(i: u64) -> Vec<u8> {
    format!("<html>http://h.example/ page {i}</html>").into_bytes()
}

#[test]
fn a_body_is_new_once_by_text_and_by_digest() {
    let disk = SimDisk::new(1);
    let set = ContentSeen::create_in(disk.dir(), "bodies", options()).expect("made");
    assert_eq!(set.check_and_insert(&body(1)).expect("inserted"), Verdict::New);
    assert_eq!(set.check_and_insert_digest(&ContentSeen::digest(&body(1))).expect("known"), Verdict::Seen);
    assert_eq!(set.contains(&body(2)).expect("known"), Verdict::New);
    let (one, two, empty) = (body(1), body(2), Vec::new());
    let mut verdicts = Vec::new();
    set.check_and_insert_batch(&[&two, &one, &two, &empty], &mut verdicts).expect("inserted");
    assert_eq!(verdicts, [Verdict::New, Verdict::Seen, Verdict::Seen, Verdict::New]);
    set.contains_batch(&[&two, b"another", &empty], &mut verdicts).expect("known");
    assert_eq!(verdicts, [Verdict::Seen, Verdict::New, Verdict::Seen]);
    assert!(set.forget_digest(&ContentSeen::digest(b"")).expect("forgotten"));
    assert_eq!((set.len(), set.stats().urls), (2, 2));
    // XXH3-128 of the empty string, in its canonical byte order: the digest that the page store
    // keeps for an empty body.
    let nothing = ContentSeen::digest(b"").map(|byte| format!("{byte:02x}")).concat();
    assert_eq!(nothing, "99aa06d3014798d86001c324468d497f");
}

#[test]
fn digests_that_differ_only_past_their_first_80_bits_are_one_and_the_loss_says_so() {
    let disk = SimDisk::new(1);
    for (name, bits) in [("long", FingerprintBits::Bits80), ("short", FingerprintBits::Bits64)] {
        let set = ContentSeen::create_in(disk.dir(), name, options().fingerprint_bits(bits)).expect("made");
        let kept = bits.bits() as usize / 8;
        let (mut digest, chance) = ([7; 16], (-f64::from(bits.bits())).exp2());
        assert!(set.check_and_insert_digest(&digest).expect("inserted").is_new());
        assert_eq!(set.expected_loss(), 0.0);
        digest[kept] = 8;
        assert_eq!(set.contains_digest(&digest).expect("known"), Verdict::Seen);
        digest[kept - 1] = 8;
        assert_eq!(set.contains_digest(&digest).expect("known"), Verdict::New);
        let others: Vec<[u8; 16]> = (1..1_000u64).map(|i| ContentSeen::digest(&body(i))).collect();
        assert_eq!(set.check_and_insert_digests(&others).expect("inserted").new_count(), 999);
        assert_eq!(set.false_positive_rate(), 1_000.0 * chance);
        assert_eq!((set.expected_loss(), set.stats().expected_loss), (499_500.0 * chance, 499_500.0 * chance));
    }
}

#[test]
fn a_set_of_bodies_is_not_opened_as_one_of_urls_nor_the_other_way_round() {
    let disk = SimDisk::new(1);
    drop(ContentSeen::create_in(disk.dir(), "bodies", options()).expect("made"));
    drop(DiskUrlSet::create_in(disk.dir(), "urls", options()).expect("made"));
    let urls = DiskUrlSet::open_in(disk.dir(), "bodies", options());
    assert!(matches!(&urls, Err(Error::Unsupported { why, .. }) if why.contains("ContentSeen")), "{urls:?}");
    let bodies = ContentSeen::open_in(disk.dir(), "urls", options());
    assert!(matches!(&bodies, Err(Error::Unsupported { why, .. }) if why.contains("DiskUrlSet")), "{bodies:?}");
    assert!(ContentSeen::open_in(disk.dir(), "bodies", options()).is_ok());
}

#[test]
fn a_snapshot_of_bodies_is_a_set_of_bodies_and_can_be_merged() {
    let (disk, copy) = (SimDisk::new(1), SimDisk::new(2));
    let set = ContentSeen::create_in(disk.dir(), "bodies", options()).expect("made");
    (0..500).for_each(|i| assert!(set.insert(&body(i)).is_ok()));
    set.set.snapshot_in(&copy.dir()).expect("made");
    let other = ContentSeen::open_in(copy.dir(), "bodies", options()).expect("opened");
    (400..700).for_each(|i| assert!(other.insert(&body(i)).is_ok()));
    assert_eq!((set.merge_from(&other).expect("merged"), set.len()), (200, 700));
    assert!(set.disk_stats().tests >= 500);
}

#[test]
fn bodies_that_were_synced_are_seen_after_any_crash_and_others_are_not() {
    let disk = SimDisk::new(5);
    let set = ContentSeen::create_in(disk.dir(), "bodies", options()).expect("made");
    (0..600).for_each(|i| assert!(set.insert(&body(i)).is_ok()));
    set.sync().expect("synced");
    (600..900).for_each(|i| assert!(set.insert(&body(i)).is_ok()));
    for number in 0..40 {
        let image = disk.crash(Level::Adversarial, Loss::ALL[number as usize % 4], number);
        let set = ContentSeen::open_in(image.dir(), "bodies", options()).expect("opens by itself");
        let is_seen = |i: u64| set.contains(&body(i)).expect("known") == Verdict::Seen;
        assert!((0..600).all(is_seen) && !(900..1_500).any(is_seen));
        assert_eq!(set.len(), (0..900).filter(|i| is_seen(*i)).count() as u64);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Digest(u64),
    Digests(Vec<u64>),
    Contains(u64),
    Forget(u64),
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    const BODIES: u64 = 600;
    prop_oneof![
        5 => (0..BODIES).prop_map(Op::Insert),
        3 => (0..BODIES).prop_map(Op::Digest),
        2 => prop::collection::vec(0..BODIES, 0..200).prop_map(Op::Digests),
        4 => (0..BODIES).prop_map(Op::Contains),
        3 => (0..BODIES).prop_map(Op::Forget),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_set_answers_as_a_hash_set_of_bodies_does(ops in prop::collection::vec(op(), 1..100)) {
        let disk = SimDisk::new(1);
        let mut set = ContentSeen::create_in(disk.dir(), "bodies", options()).expect("made");
        let mut model = HashSet::new();
        for op in ops {
            match op {
                Op::Insert(i) => {
                    prop_assert_eq!(set.check_and_insert(&body(i)).expect("inserted").is_new(), model.insert(body(i)));
                }
                Op::Digest(i) => {
                    let verdict = set.check_and_insert_digest(&ContentSeen::digest(&body(i))).expect("inserted");
                    prop_assert_eq!(verdict.is_new(), model.insert(body(i)));
                }
                Op::Digests(bodies) => {
                    let digests: Vec<[u8; 16]> = bodies.iter().map(|i| ContentSeen::digest(&body(*i))).collect();
                    let answers = set.check_and_insert_digests(&digests).expect("inserted");
                    for (verdict, i) in answers.iter().zip(bodies) {
                        prop_assert_eq!(verdict.is_new(), model.insert(body(i)));
                    }
                }
                Op::Contains(i) => {
                    prop_assert_eq!(!set.contains(&body(i)).expect("known").is_new(), model.contains(&body(i)));
                }
                Op::Forget(i) => {
                    let was_there = set.forget_digest(&ContentSeen::digest(&body(i))).expect("forgotten");
                    prop_assert_eq!(was_there, model.remove(&body(i)));
                }
                Op::Reopen => {
                    drop(set);
                    set = ContentSeen::open_in(disk.dir(), "bodies", options()).expect("opened");
                }
            }
            prop_assert_eq!(set.len(), model.len() as u64);
        }
    }
}
