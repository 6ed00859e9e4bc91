//! Any sequence of operations against a hash set.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Contains(u64),
    Forget(u64),
    Batch(Vec<u64>),
    ContainsBatch(Vec<u64>),
    /// This many from here on: enough for a run.
    Many(u64, u64),
    Sync,
    Reopen,
    Merge(Vec<u64>),
}

const URLS: u64 = 1_500;

fn op() -> impl Strategy<Value = Op> {
    let some = || prop::collection::vec(0..URLS, 0..60);
    prop_oneof![
        6 => (0..URLS).prop_map(Op::Insert),
        4 => (0..URLS).prop_map(Op::Contains),
        4 => (0..URLS).prop_map(Op::Forget),
        3 => some().prop_map(Op::Batch),
        2 => some().prop_map(Op::ContainsBatch),
        2 => (0..URLS, 0..300u64).prop_map(|(from, count)| Op::Many(from, count)),
        1 => Just(Op::Sync),
        1 => Just(Op::Reopen),
        1 => some().prop_map(Op::Merge),
    ]
}

fn insert_model(model: &mut HashSet<u64>, urls: &[u64]) -> Vec<bool> {
    urls.iter().map(|i| model.insert(*i)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_set_answers_as_a_hash_set_does(ops in prop::collection::vec(op(), 1..120), is_short in any::<bool>()) {
        let disk = SimDisk::new(1);
        let bits = if is_short { FingerprintBits::Bits64 } else { FingerprintBits::Bits80 };
        let mut set = DiskUrlSet::create_in(disk.dir(), "seen", options().fingerprint_bits(bits)).expect("made");
        let mut model = HashSet::new();
        for (step, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(i) => prop_assert_eq!(insert(&set, i), model.insert(i)),
                Op::Contains(i) => prop_assert_eq!(is_seen(&set, i), model.contains(&i)),
                Op::Forget(i) => prop_assert_eq!(set.forget(url(i)).expect("forgotten"), model.remove(&i)),
                Op::Batch(urls) => {
                    let answers = insert_batch(&set, urls.iter().copied());
                    let answers: Vec<bool> = answers.iter().map(Verdict::is_new).collect();
                    prop_assert_eq!(answers, insert_model(&mut model, &urls));
                }
                Op::ContainsBatch(urls) => {
                    let mut batch = set.batch();
                    urls.iter().for_each(|i| batch.push(url(*i)).expect("room"));
                    let answers = set.contains_all(&mut batch).expect("known");
                    let expected = urls.iter().map(|i| !model.contains(i));
                    prop_assert!(answers.iter().map(Verdict::is_new).eq(expected));
                }
                Op::Many(from, count) => {
                    let new = (from..from + count).filter(|i| model.insert(*i)).count() as u64;
                    prop_assert_eq!(insert_batch(&set, from..from + count).new_count(), new);
                }
                Op::Sync => set.sync().expect("synced"),
                Op::Reopen => {
                    drop(set);
                    set = DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
                }
                Op::Merge(urls) => {
                    let name = format!("other{step}");
                    let other = DiskUrlSet::create_in(disk.dir(), &name, options().fingerprint_bits(bits)).expect("made");
                    urls.iter().for_each(|i| assert!(other.insert(&url(*i)).is_ok()));
                    let new = insert_model(&mut model, &urls).iter().filter(|is_new| **is_new).count() as u64;
                    prop_assert_eq!(set.merge_from(&other).expect("merged"), new);
                }
            }
            prop_assert_eq!(set.len(), model.len() as u64);
        }
        let found: HashSet<Fingerprint> = set.fingerprints().expect("begun").map(|f| f.expect("read")).collect();
        let expected: HashSet<Fingerprint> = model.iter().map(|i| set.fingerprint(url(*i))).collect();
        prop_assert_eq!(found, expected);
    }
}
