//! Keys with many versions: every operation is correct and takes time linear in their number.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::store::{CompactionGoal, PruneRule};
use crate::{Head, Options, Record, Store};

const HOT: &[u8] = b"http://example.com/hot";

fn options() -> Options {
    Options::new()
        .free_space_floor(0)
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .compression_level(0)
        .space_bound(None)
}

fn create(path: &Path) -> Store {
    Store::create(path.join("a"), options()).unwrap()
}

fn body(n: u64) -> Vec<u8> {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(8)
}

fn other(n: u64) -> Vec<u8> {
    format!("http://example.com/{n}").into_bytes()
}

/// Puts `versions` versions of one key, each beside a page that is removed again; all in the
/// index.
fn many(store: &Store, versions: u64) {
    for n in 0..versions {
        store.put(&Record::new(HOT, &body(n)).time(n as i64)).unwrap();
        store.put(&Record::new(&other(n), &body(n)).time(1)).unwrap();
    }
    store.checkpoint().unwrap();
    (0..versions).for_each(|n| assert!(store.remove(&other(n)).unwrap()));
    store.checkpoint().unwrap();
}

fn all(store: &Store) -> Vec<Head> {
    store.history(HOT).unwrap()
}

fn is_sound(store: &Store) {
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn what_is_done_to_a_key_with_many_versions_takes_time_by_their_number() {
    const VERSIONS: u64 = 20_000;
    let temp = tempfile::tempdir().unwrap();
    let store = create(temp.path());
    many(&store, VERSIONS);
    let start = Instant::now();
    let done = store.compact().unwrap();
    assert!(done.copied_bytes > VERSIONS * 64 && done.removed_segments > 4, "{done:?}");
    assert_eq!(all(&store).len() as u64, VERSIONS);
    assert_eq!(store.versions().map(Result::unwrap).count() as u64, VERSIONS);
    assert_eq!(store.version_heads().map(Result::unwrap).filter(|l| l.is_newest).count(), 1);
    is_sound(&store);
    let target = Store::create(temp.path().join("b"), options()).unwrap();
    let copied = store.copy_to(&target, Default::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(copied.versions, VERSIONS);
    let rule = PruneRule { max_live_bytes: Some(64 * VERSIONS), ..PruneRule::default() };
    let planned = store.prune_plan(rule, &mut |_| ControlFlow::Continue(())).unwrap();
    let pruned = store.prune(rule, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((planned.versions, planned.bytes), (pruned.versions, pruned.bytes));
    assert!(pruned.versions > VERSIONS / 2, "{pruned:?}");
    is_sound(&store);
    // Walking the chain once per version would take many minutes.
    assert!(start.elapsed() < Duration::from_secs(300), "{:?}", start.elapsed());
}

#[test]
fn versions_that_are_not_kept_are_not_looked_through_for_each_of_them() {
    const VERSIONS: u64 = 20_000;
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options().keep_versions(Some(1))).unwrap();
    let put = |n: u64| assert_eq!(store.put(&Record::new(HOT, &body(n)).time(n as i64)).unwrap().sequence, n);
    (1..=VERSIONS).for_each(put);
    let follower = Store::open_read_only(temp.path().join("a"), options().keep_versions(Some(1))).unwrap();
    let is_last = |last: u64, pages: &mut dyn Iterator<Item = crate::Result<(Vec<u8>, crate::Value)>>| {
        let start = Instant::now();
        let bodies: Vec<_> = pages.map(|page| page.unwrap().1.body).collect();
        assert_eq!(bodies, [body(last)]);
        // Takes half a minute if each version is compared with all others, on an idle machine.
        assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    };
    is_last(VERSIONS, &mut store.pages());
    is_last(VERSIONS, &mut store.versions());
    is_last(VERSIONS, &mut follower.pages());
    // As of the beginning, though a put has hidden the version since.
    let (mut pages, heads, splits) = (store.pages(), store.heads(), store.splits(1).unwrap());
    put(VERSIONS + 1);
    is_last(VERSIONS, &mut pages);
    assert_eq!(heads.map(|head| head.unwrap().head.version.sequence).collect::<Vec<_>>(), [VERSIONS]);
    is_last(VERSIONS, &mut store.pages_in(&splits[0]).unwrap());
    assert_eq!(store.stats().checkpoints, 0, "all are in memory");
    // It is dropped: the current one takes its place, once.
    let (mut pages, before) = (store.pages(), store.pages_in(&splits[0]).unwrap());
    put(VERSIONS + 2);
    store.checkpoint().unwrap();
    is_last(VERSIONS + 2, &mut pages);
    assert_eq!(before.count(), 0);
}

#[test]
fn a_page_put_again_in_the_middle_of_a_list_is_listed_once() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options().keep_versions(Some(1))).unwrap();
    let put = |n: u64, at: i64| assert_eq!(store.put(&Record::new(HOT, &body(n)).time(at)).unwrap().sequence, n);
    // The newer one lies before the older in the log.
    put(1, 10);
    put(2, 5);
    let mut pages = store.pages();
    assert_eq!(pages.next().unwrap().unwrap().1.body, body(1));
    put(3, 20);
    assert!(pages.next().is_none());
}

#[test]
fn a_compaction_of_a_key_with_many_versions_ends_soon_when_the_store_is_closed() {
    let temp = tempfile::tempdir().unwrap();
    let store = create(temp.path());
    many(&store, 20_000);
    let clone = store.clone();
    let (told, begun) = std::sync::mpsc::channel();
    let compaction = std::thread::spawn(move || {
        let result = clone.compact_with(CompactionGoal::NoGarbage, &mut |_| {
            let _ = told.send(());
            ControlFlow::Continue(())
        });
        (result, Instant::now())
    });
    begun.recv().unwrap();
    let start = Instant::now();
    let closed = store.close();
    let (result, ended) = compaction.join().unwrap();
    assert!(ended.saturating_duration_since(start) < Duration::from_secs(60));
    closed.unwrap();
    // Whether it had ended already or not, nothing may be lost.
    let _ = result;
    let store = Store::open(temp.path().join("a"), options()).unwrap();
    assert_eq!(all(&store).len(), 20_000);
    is_sound(&store);
}

#[test]
fn a_chain_longer_than_its_records_can_count_is_whole_in_every_verb() {
    let temp = tempfile::tempdir().unwrap();
    let mut options = options();
    options.limits.chain_count = 5;
    let store = Store::create(temp.path().join("a"), options.clone()).unwrap();
    for n in 0..40 {
        store.put(&Record::new(HOT, &body(n)).time(n as i64)).unwrap();
        if n % 3 == 0 {
            store.checkpoint().unwrap();
        }
    }
    store.checkpoint().unwrap();
    let sequences = |store: &Store| all(store).iter().map(|h| h.version.sequence).collect::<Vec<_>>();
    let wanted: Vec<u64> = (1..=40).rev().collect();
    assert_eq!(sequences(&store), wanted);
    assert_eq!(store.history_iter(HOT).map(|h| h.unwrap().version.sequence).collect::<Vec<_>>(), wanted);
    assert_eq!(store.get_at(HOT, 0).unwrap().unwrap().body, body(0));
    is_sound(&store);
    store.close().unwrap();
    let store = Store::open(temp.path().join("a"), options).unwrap();
    store.compact().unwrap();
    assert_eq!(sequences(&store), wanted);
    let rule = PruneRule { keep_versions: Some(17), ..PruneRule::default() };
    assert_eq!(store.prune(rule, &mut |_| ControlFlow::Continue(())).unwrap().versions, 23);
    assert_eq!(sequences(&store), wanted[..17]);
    is_sound(&store);
}

#[test]
fn a_history_comes_by_pages_in_the_order_of_versions_wherever_they_lie() {
    let temp = tempfile::tempdir().unwrap();
    let store = create(temp.path());
    let mut rng = fastrand::Rng::with_seed(7);
    let pages = |store: &Store, limit: usize| {
        let mut heads: Vec<Head> = Vec::new();
        loop {
            let page = store.history_page(HOT, heads.last().map(|h| h.version), limit).unwrap();
            if page.is_empty() {
                return heads;
            }
            assert!(page.len() <= limit);
            heads.extend(page);
        }
    };
    let in_order =
        |store: &Store, most| crate::store::History::new(std::sync::Arc::clone(&store.reading), HOT, None, most);
    assert_eq!((pages(&store, 3), store.history_iter(HOT).count()), (vec![], 0));
    for round in 0..30 {
        for n in 0..rng.u64(1..40) {
            // In order at first, so that pages continue where the last one ended; then in random
            // order.
            let time = if round < 15 { round * 100 + n } else { rng.u64(..3000) } as i64;
            store.put(&Record::new(HOT, &body(n)).time(time)).unwrap();
        }
        if rng.bool() {
            store.checkpoint().unwrap();
        }
        let all = all(&store);
        for limit in [1, 2, 7, 1000] {
            assert_eq!(in_order(&store, limit).map(Result::unwrap).collect::<Vec<_>>(), all, "{round}, {limit}");
        }
        assert_eq!(pages(&store, 1 + rng.usize(..50)), all);
    }
    store.remove(HOT).unwrap();
    assert_eq!(store.history_iter(HOT).count(), 0);
}

#[test]
fn a_history_that_is_read_while_the_store_is_compacted_and_put_to_is_that_of_its_beginning() {
    let temp = tempfile::tempdir().unwrap();
    let store = create(temp.path());
    many(&store, 3000);
    let before = all(&store);
    let mut history = crate::store::History::new(std::sync::Arc::clone(&store.reading), HOT, None, 100);
    let mut met = Vec::new();
    for nth in 0.. {
        let Some(head) = history.next() else { break };
        met.push(head.unwrap().version);
        match nth {
            50 | 1700 => {
                store.put(&Record::new(HOT, b"new").time(1 << 40)).unwrap();
                store.checkpoint().unwrap();
            }
            250 => drop(store.compact().unwrap()),
            1000 => {
                store.put(&Record::new(HOT, b"old").time(-1)).unwrap();
                store.checkpoint().unwrap();
            }
            _ => {}
        }
    }
    let is_old = |v: &crate::Version| v.time_ms >= 0;
    assert_eq!(
        met.iter().filter(|v| is_old(v)).copied().collect::<Vec<_>>(),
        before.iter().map(|h| h.version).collect::<Vec<_>>()
    );
    assert!(store.history_iter(HOT).all(|h| h.is_ok()));
}

#[test]
fn a_prune_by_size_keeps_as_much_as_fits_though_all_versions_have_one_time() {
    let temp = tempfile::tempdir().unwrap();
    let store = create(temp.path());
    for n in 0..1000 {
        store.put(&Record::new(&other(n % 10), &body(n)).time(7)).unwrap();
    }
    store.checkpoint().unwrap();
    let live = store.stats().live_bytes;
    let rule = PruneRule { max_live_bytes: Some(live / 4 + 100), ..PruneRule::default() };
    let planned = store.prune_plan(rule, &mut |_| ControlFlow::Continue(())).unwrap();
    let pruned = store.prune(rule, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((planned.versions, pruned.versions, pruned.keys), (750, 750, 0));
    assert_eq!(planned.live_bytes, pruned.live_bytes);
    let sequences: Vec<u64> = store.versions_of(&other(3)).unwrap().iter().map(|v| v.sequence).collect();
    assert_eq!(sequences, (0..25).map(|n| 994 - 10 * n).collect::<Vec<_>>(), "the last that were put");
    is_sound(&store);
}

#[test]
fn a_chain_of_which_nothing_is_dropped_is_not_written_anew() {
    const VERSIONS: u64 = 60;
    let temp = tempfile::tempdir().unwrap();
    let young = options().keep_versions(Some(2)).keep_age(Some(Duration::from_secs(3600)));
    let store = Store::create(temp.path().join("a"), young).unwrap();
    let now = crate::record::now_ms();
    let put = |n: u64, time| {
        store.put(&Record::new(HOT, &body(n)).time(time)).unwrap();
        store.checkpoint().unwrap();
    };
    (0..VERSIONS).for_each(|n| put(n, now + n as i64));
    let record = 16 * (40 + HOT.len() as u64).div_ceil(16);
    let written = store.stats().key_bytes_written;
    assert!(written <= VERSIONS * record + 4096, "{written} for {VERSIONS} records of {record}");
    assert_eq!(all(&store).len() as u64, VERSIONS);
    // An old one is dropped at once, from a chain that is longer than the number kept.
    put(VERSIONS, 1);
    assert_eq!(all(&store).len() as u64, VERSIONS);
    is_sound(&store);
}

#[test]
fn many_references_to_a_page_that_is_not_in_the_index_are_recovered_in_time_by_their_number() {
    const REFERENCES: u64 = 100_000;
    let temp = tempfile::tempdir().unwrap();
    let store = create(temp.path());
    for n in 0..=REFERENCES {
        store.put_if_changed(&Record::new(HOT, &body(7)).time(n as i64)).unwrap();
    }
    store.sync().unwrap();
    let start = Instant::now();
    let follower = Store::open_read_only(temp.path().join("a"), options()).unwrap();
    assert_eq!(follower.get(HOT).unwrap().unwrap().body, body(7));
    // When each was searched for in everything after it, 40,000 took 6 seconds; these took 37.
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    assert_eq!(store.stats().checkpoints, 0, "all are in memory");
}
