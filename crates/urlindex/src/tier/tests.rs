//! A filter in front of the set on disk: against a model, and what each of the two is asked. `crash` has crashes and failures.

mod crash;

use std::collections::HashSet;

use filemap_io::sim::SimDisk;
use proptest::prelude::*;

use super::*;

/// Little memory: tables of 192 are rolled all the time.
fn options() -> DiskOptions {
    DiskOptions::new().memory_bytes(64 << 10)
}

fn bloom() -> FrontFilter {
    FrontFilter::Bloom(BloomOptions::new(3_000, 0.02))
}

fn growing() -> FrontFilter {
    FrontFilter::Growing { rate: 0.02 }
}

fn url(i: u64) -> Vec<u8> {
    format!("http://h{}.example.com/page/{i}", i % 7).into_bytes()
}

fn is_seen(set: &TwoTierSet, i: u64) -> bool {
    set.contains(&url(i)).expect("known") == Verdict::Seen
}

fn insert(set: &TwoTierSet, i: u64) -> bool {
    set.check_and_insert(&url(i)).expect("inserted").is_new()
}

fn insert_batch(set: &TwoTierSet, urls: impl Iterator<Item = u64>) -> Vec<bool> {
    let urls: Vec<Vec<u8>> = urls.map(url).collect();
    let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    let mut verdicts = Vec::new();
    set.check_and_insert_batch(&urls, &mut verdicts).expect("inserted");
    verdicts.into_iter().map(Verdict::is_new).collect()
}

/// The exact set holds nothing that the filter calls new.
fn filter_has_all(set: &TwoTierSet) -> bool {
    let mut all = set.exact().fingerprints().expect("begun");
    all.all(|fingerprint| {
        let fingerprint = fingerprint.expect("read").to_u128();
        !set.front.filter.contains(&key(fingerprint)).expect("known").is_new()
    })
}

#[test]
fn new_urls_are_told_without_reading_the_exact_set_and_probable_ones_are_asked_of_it() {
    for filter in [bloom(), growing()] {
        let disk = SimDisk::new(1);
        let set = TwoTierSet::create(disk.dir(), "seen", options(), &filter).expect("made");
        assert!((0..3_000).all(|i| insert(&set, i)));
        let reads = set.exact().disk_stats().block_reads;
        assert!(reads < 60, "{filter:?}: only new URLs came, and {reads} reads were made: more than the filter's rate");
        let before = (set.answered_by_filter(), set.exact().disk_stats().read_bytes);
        let strangers = (10_000..12_000).filter(|i| is_seen(&set, *i)).count();
        let by_filter = set.answered_by_filter() - before.0;
        assert!(strangers == 0 && (1_900..=2_000).contains(&by_filter), "{filter:?}: {by_filter}");
        assert!((0..3_000).all(|i| is_seen(&set, i) && !insert(&set, i)));
        assert_eq!(set.len(), 3_000);
    }
}

#[test]
fn of_a_small_batch_only_probable_urls_are_read_for() {
    let disk = SimDisk::new(1);
    let set = TwoTierSet::create(disk.dir(), "seen", options(), &growing()).expect("made");
    insert_batch(&set, 0..100_000);
    let read_for = |urls: std::ops::Range<u64>| {
        let before = set.exact().disk_stats().read_bytes;
        let urls: Vec<Vec<u8>> = urls.map(url).collect();
        let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
        let mut verdicts = Vec::new();
        set.contains_batch(&urls, &mut verdicts).expect("known");
        (verdicts.iter().filter(|verdict| verdict.is_new()).count(), set.exact().disk_stats().read_bytes - before)
    };
    let (new, bytes) = read_for(200_000..200_020);
    assert!(new == 20 && bytes <= 4 * 4096, "{new} new, {bytes} bytes read");
    let (new, bytes) = read_for(50_000..50_020);
    assert!(new == 0 && bytes > 0, "{new} new, {bytes} bytes read");
}

#[test]
fn a_poor_filter_costs_reads_and_no_answers() {
    let disk = SimDisk::new(1);
    let poor = FrontFilter::Bloom(BloomOptions::new(100, 0.5));
    let set = TwoTierSet::create(disk.dir(), "seen", options(), &poor).expect("made");
    assert!((0..3_000).all(|i| insert(&set, i)));
    assert!(set.filter_stats().false_positive_rate > 0.9);
    assert!((0..6_000).all(|i| is_seen(&set, i) == (i < 3_000)));
    assert_eq!(set.false_positive_rate(), set.exact().false_positive_rate());
    assert!(set.expected_loss() < 1e-9);
}

#[test]
fn a_set_that_was_closed_is_opened_without_reading_its_runs() {
    for filter in [bloom(), growing()] {
        let disk = SimDisk::new(1);
        let set = TwoTierSet::create(disk.dir(), "seen", options(), &filter).expect("made");
        insert_batch(&set, 0..2_000);
        drop(set);
        let set = TwoTierSet::open(disk.dir(), "seen", options(), &growing()).expect("opened");
        let opened = set.exact().disk_stats().read_bytes;
        let runs = set.exact().run_bytes_since(0);
        assert!(opened < runs, "{opened} of {runs} bytes were read: the index of the runs, not their blocks");
        assert!((0..10).all(|i| is_seen(&set, i) && !is_seen(&set, i + 2_000)));
        let asked = set.exact().disk_stats().read_bytes - opened;
        assert!(asked <= 11 * 4096, "{asked} bytes were read for ten URLs: no filter was made of the run");
        assert_eq!(set.filter_stats().urls, set.filter_stats().urls.clamp(1_900, 2_000));
        assert!((0..4_000).all(|i| is_seen(&set, i) == (i < 2_000)));
    }
}

#[test]
fn a_plain_set_gets_a_filter_and_one_that_changed_without_it_is_caught_up_with() {
    let disk = SimDisk::new(1);
    let plain = || DiskUrlSet::open(disk.dir(), "seen", options()).expect("opened");
    let open = || TwoTierSet::open(disk.dir(), "seen", options(), &bloom()).expect("opened");
    let set = DiskUrlSet::create(disk.dir(), "seen", options()).expect("made");
    (0..500).for_each(|i| set.insert(&url(i)).expect("inserted"));
    drop(set);
    let set = open();
    assert!(filter_has_all(&set) && (0..500).all(|i| is_seen(&set, i)));
    drop(set);
    // Both into the log alone and into runs.
    for (from, to) in [(500, 520), (520, 1_500)] {
        let set = plain();
        (from..to).for_each(|i| set.insert(&url(i)).expect("inserted"));
        drop(set);
        let set = open();
        assert!(filter_has_all(&set) && (0..to).all(|i| is_seen(&set, i) && !insert(&set, i)));
        assert_eq!(set.len(), to);
    }
}

#[test]
fn a_filter_that_is_gone_or_of_another_set_is_made_anew() {
    let disk = SimDisk::new(1);
    let open = || TwoTierSet::open(disk.dir(), "seen", options(), &bloom()).expect("opened");
    let set = TwoTierSet::create(disk.dir(), "seen", options(), &bloom()).expect("made");
    assert!((0..1_000).all(|i| insert(&set, i)));
    drop(set);
    let old = disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name).expect("there")));
    let old: Vec<(String, Vec<u8>)> = old.collect();
    disk.remove("seen.filter");
    let set = open();
    assert!(filter_has_all(&set) && (0..1_000).all(|i| is_seen(&set, i)));
    assert!((1_000..3_000).all(|i| insert(&set, i)));
    drop(set);
    // The exact set of yesterday, and the filter of today: its stamp is ahead.
    let new: Vec<String> = disk.names().into_iter().filter(|name| !name.contains(".filter")).collect();
    let stamp = disk.bytes("seen.tier").expect("there");
    new.iter().for_each(|name| disk.remove(name));
    old.iter().filter(|(name, _)| !name.contains(".filter")).for_each(|(name, bytes)| disk.set_bytes(name, bytes));
    disk.set_bytes("seen.tier", &stamp);
    let set = open();
    assert!(set.filter_stats().urls <= 1_000 && (0..3_000).all(|i| is_seen(&set, i) == (i < 1_000)));
    drop(set);
    // Another set under the old name.
    let left = disk.names().into_iter().filter(|name| !name.contains(".filter") && !name.ends_with(".tier"));
    left.collect::<Vec<_>>().iter().for_each(|name| disk.remove(name));
    let set = TwoTierSet::create(disk.dir(), "seen", options(), &bloom()).expect("made");
    assert_eq!((set.len(), set.filter_stats().urls), (0, 0));
}

fn files(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name).expect("there"))).collect()
}

#[test]
fn an_older_copy_of_the_filter_is_not_believed_though_the_stamp_is_the_sets() {
    for filter in [bloom(), growing()] {
        let disk = SimDisk::new(1);
        let set = TwoTierSet::create(disk.dir(), "seen", options(), &filter).expect("made");
        assert!((0..500).all(|i| insert(&set, i)));
        drop(set);
        let old = disk.bytes("seen.filter").expect("there");
        let set = TwoTierSet::open(disk.dir(), "seen", options(), &filter).expect("opened");
        assert!((500..2_000).all(|i| insert(&set, i)));
        drop(set);
        disk.set_bytes("seen.filter", &old);
        let set = TwoTierSet::open(disk.dir(), "seen", options(), &filter).expect("opened");
        assert!(filter_has_all(&set) && (0..3_000).all(|i| is_seen(&set, i) == (i < 2_000)));
    }
}

/// The numbers of its files are as high as the stamp's, and the files are others.
#[test]
fn the_filter_of_a_set_whose_snapshot_was_brought_back_is_not_believed() {
    let (disk, copy) = (SimDisk::new(1), SimDisk::new(2));
    let set = TwoTierSet::create(disk.dir(), "seen", options(), &bloom()).expect("made");
    assert!((0..500).all(|i| insert(&set, i)));
    set.exact().snapshot(&copy.dir()).expect("made");
    assert!((500..1_500).all(|i| insert(&set, i)));
    let covered = set.exact().next_number();
    drop(set);
    let is_of_filter = |name: &str| name.contains(".filter") || name.ends_with(".tier");
    disk.names().iter().filter(|name| !is_of_filter(name)).for_each(|name| disk.remove(name));
    files(&copy).iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
    let set = DiskUrlSet::open(disk.dir(), "seen", options()).expect("opened");
    (5_000..7_000).for_each(|i| set.insert(&url(i)).expect("inserted"));
    assert!(set.next_number() > covered);
    drop(set);
    let set = TwoTierSet::open(disk.dir(), "seen", options(), &bloom()).expect("opened");
    assert!(filter_has_all(&set) && (5_000..7_000).all(|i| is_seen(&set, i)) && !is_seen(&set, 700));
}

#[test]
fn a_file_of_somebody_else_under_the_filters_name_stays() {
    let disk = SimDisk::new(1);
    disk.set_bytes("seen.filter", b"s/a/b/");
    let made = TwoTierSet::create(disk.dir(), "seen", options(), &bloom());
    assert!(matches!(&made, Err(Error::Io { file, .. }) if file == "seen.filter"), "{made:?}");
    assert_eq!(files(&disk), [("seen.filter".to_owned(), b"s/a/b/".to_vec())]);
}

#[test]
fn damage_to_filter_or_stamp_is_an_error_with_its_place_and_the_exact_set_is_not_hurt() {
    for filter in [bloom(), growing()] {
        let disk = SimDisk::new(1);
        let set = TwoTierSet::create(disk.dir(), "seen", options(), &filter).expect("made");
        assert!((0..1_000).all(|i| insert(&set, i)));
        drop(set);
        for file in ["seen.filter", "seen.tier"] {
            let whole = disk.bytes(file).expect("there");
            for at in (0..whole.len()).filter(|at| at % 13 == 0 || *at < 60) {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x20;
                disk.set_bytes(file, &damaged);
                match TwoTierSet::open(disk.dir(), "seen", options(), &filter) {
                    Err(Error::Corrupt { file: named, offset, is_derived, .. }) => {
                        assert!(is_derived, "the words say that it is to be removed");
                        assert!(named == file && offset <= whole.len() as u64, "byte {at}: {named} {offset}");
                    }
                    other => panic!("byte {at} of {file}: {other:?}"),
                }
            }
            disk.remove(file);
            let set = TwoTierSet::open(disk.dir(), "seen", options(), &filter).expect("opened");
            assert!((0..2_000).all(|i| is_seen(&set, i) == (i < 1_000)));
        }
    }
}

#[test]
fn of_concurrent_inserts_of_one_url_exactly_one_is_new() {
    let disk = SimDisk::new(1);
    let set = TwoTierSet::create(disk.dir(), "seen", options(), &growing()).expect("made");
    let new: usize = std::thread::scope(|scope| {
        let one = || (0..1_500).filter(|&i| insert(&set, i)).count();
        let many =
            || (0..10).map(|p| insert_batch(&set, p * 150..p * 150 + 150).iter().filter(|new| **new).count()).sum();
        // What one thread was told that it inserted, it finds, whatever others do; filters are saved meanwhile.
        let finds = || {
            let mut new = 0;
            for i in 0..1_500 {
                new += usize::from(insert(&set, i));
                assert!(is_seen(&set, i));
                if i % 100 == 0 {
                    set.save_filter().expect("saved");
                }
            }
            new
        };
        let more = || (1_500..1_600).filter(|&i| insert(&set, i)).count();
        let threads = [scope.spawn(one), scope.spawn(many), scope.spawn(finds), scope.spawn(more)];
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!((new, set.len()), (1_600, 1_600));
    assert!(filter_has_all(&set));
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Contains(u64),
    Forget(u64),
    Batch(Vec<u64>),
    Many(u64, u64),
    Sync,
    Save,
    Reopen,
}

const URLS: u64 = 1_500;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..URLS).prop_map(Op::Insert),
        5 => (0..URLS).prop_map(Op::Contains),
        3 => (0..URLS).prop_map(Op::Forget),
        3 => prop::collection::vec(0..URLS, 0..60).prop_map(Op::Batch),
        2 => (0..URLS, 0..300u64).prop_map(|(from, count)| Op::Many(from, count)),
        1 => Just(Op::Sync),
        1 => Just(Op::Save),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

    #[test]
    fn the_two_answer_as_a_hash_set_does(ops in prop::collection::vec(op(), 1..120), rate in 0.01..0.5f64) {
        let disk = SimDisk::new(1);
        let filter = FrontFilter::Bloom(BloomOptions::new(1_000, rate));
        let mut set = TwoTierSet::create(disk.dir(), "seen", options(), &filter).expect("made");
        let mut model = HashSet::new();
        for op in ops {
            match op {
                Op::Insert(i) => prop_assert_eq!(insert(&set, i), model.insert(i)),
                Op::Contains(i) => prop_assert_eq!(is_seen(&set, i), model.contains(&i)),
                Op::Forget(i) => prop_assert_eq!(set.exact().forget(&url(i)).expect("forgotten"), model.remove(&i)),
                Op::Batch(urls) => {
                    let expected: Vec<bool> = urls.iter().map(|i| model.insert(*i)).collect();
                    prop_assert_eq!(insert_batch(&set, urls.into_iter()), expected);
                }
                Op::Many(from, count) => {
                    let expected: Vec<bool> = (from..from + count).map(|i| model.insert(i)).collect();
                    prop_assert_eq!(insert_batch(&set, from..from + count), expected);
                }
                Op::Sync => set.sync().expect("synced"),
                Op::Save => set.save_filter().expect("saved"),
                Op::Reopen => {
                    drop(set);
                    set = TwoTierSet::open(disk.dir(), "seen", options(), &filter).expect("opened");
                }
            }
            prop_assert_eq!(set.len(), model.len() as u64);
        }
        prop_assert!(filter_has_all(&set));
        let urls: Vec<Vec<u8>> = (0..URLS).map(url).collect();
        let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
        let mut verdicts = Vec::new();
        set.contains_batch(&urls, &mut verdicts).expect("known");
        prop_assert!(verdicts.iter().enumerate().all(|(i, verdict)| verdict.is_new() != model.contains(&(i as u64))));
    }
}
