//! Compaction: the space that it frees, its cost, the view of concurrent readers, and the result
//! of a repair from segments alone after it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::{CloudOptions, CloudStore, CompactReport, Mode, open_on, repair_on};
use filemap_core::compact::CompactionGoal;

use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const PAGES: usize = 600;

fn options() -> CloudOptions {
    crate::as_store::options().grace(Duration::ZERO).space_bound(None)
}

fn open(objects: &Arc<InMemory>, mode: Mode, options: &CloudOptions) -> CloudStore {
    open_on(objects.clone(), "a", "the test", mode, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a version of a page; all versions of a page have the same body.
fn page(nth: usize, time_ms: i64) -> Page {
    let mut random = fastrand::Rng::with_seed(nth as u64);
    let body: String = std::iter::repeat_with(|| random.alphanumeric()).take(1500).collect();
    Page::new(format!("http://{}.example/{nth}", nth % 7), time_ms, 200, body)
}

/// Puts pages, each twice; removes two of three, and one version of every ninth.
fn filled(store: &CloudStore) {
    for time_ms in 1..3 {
        for nth in 0..PAGES {
            store.put(&page(nth, time_ms), PutRule::IfChanged).expect("stored");
        }
    }
    for nth in 0..PAGES {
        let url = page(nth, 1).url;
        match nth % 9 {
            0 => assert!(store.remove_at(&url, None, 1).expect("removed").is_some()),
            1 | 2 => {}
            _ => assert!(store.remove(&url, None).expect("removed")),
        }
    }
    store.sync().expect("synced");
}

/// Asserts that exactly the pages that were not removed are stored.
fn holds(store: &CloudStore, when: &str) {
    for nth in 0..PAGES {
        let url = page(nth, 1).url;
        let versions = store.versions(&Lookup::new(&url)).expect("readable").len();
        assert_eq!(versions, [1, 2, 2, 0, 0, 0, 0, 0, 0][nth % 9], "{when}: page {nth}");
        let newest = store.get(&Lookup::new(&url)).expect("readable");
        assert_eq!(newest, (versions > 0).then(|| page(nth, 2)), "{when}");
    }
    assert_eq!(store.count(&Scope::new()).expect("counted"), (0..PAGES).filter(|nth| nth % 9 < 3).count() as u64);
}

fn compacted(store: &CloudStore, goal: CompactionGoal) -> CompactReport {
    let report = store.compact(goal).expect("compacted");
    assert_eq!(report.damage, [""; 0]);
    report
}

fn bytes(store: &CloudStore) -> u64 {
    store.contents().expect("told").bytes.expect("told")
}

#[test]
fn the_bound_holds_and_readers_and_repairs_find_what_lives() {
    let objects = Objects::new();
    let of = &objects.objects;
    // `Fill`: the background must compact nothing before the measurement.
    let store = open(of, Mode::Fill, &options());
    filled(&store);
    let before = bytes(&store);
    store.close().expect("closed");
    let store = open(of, Mode::Write, &options().space_bound(1.25).grace(Duration::from_secs(3600)));
    let reader = open(of, Mode::Read, &options());
    let report = compacted(&store, CompactionGoal::Bound);
    assert!(report.waiting > 0 && report.deleted == 0, "{report:?}");
    holds(&store, "compacted");
    let after = bytes(&store);
    // 198 of 600 pages live, each with a body of 1,500 letters that compresses to three quarters.
    assert!(after < before / 2 && after as f64 <= 1.25 * 270_000.0, "{before} -> {after}");
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
    holds(&reader, "a reader from before");
    // The grace period is over.
    let store = open(of, Mode::Write, &options());
    let old = objects.names("a/shard-00/seg").len() as u64;
    let report = compacted(&store, CompactionGoal::Bound);
    assert!(report.deleted > 0 && report.waiting == 0, "{report:?}");
    let left = objects.names("a/shard-00/seg").len() as u64;
    assert!(left < old && left == store.verify_quick().expect("listed").segments);
    holds(&store, "swept");
    holds(&reader, "a reader of old rows");
    let fresh = open(of, Mode::Read, &options());
    let verified = fresh.verify().expect("read");
    assert_eq!((verified.damage, verified.orphans, verified.changed), (vec![], 0, false));
    store.close().expect("closed");
    let repaired = repair_on(of.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!((repaired.damage, repaired.versions), (vec![], verified.versions));
    holds(&open(of, Mode::Read, &options()), "repaired");
}

#[test]
fn a_repair_before_the_sweep_counts_nothing_twice_and_sweeps_later() {
    let objects = Objects::new();
    let of = &objects.objects;
    let store = open(of, Mode::Fill, &options().grace(Duration::from_secs(3600)));
    filled(&store);
    assert!(compacted(&store, CompactionGoal::NoGarbage).waiting > 0);
    // A second compaction, after the segments of the first.
    store.put(&page(PAGES, 1), PutRule::Always).expect("stored");
    store.remove(&page(PAGES, 1).url, None).expect("removed");
    compacted(&store, CompactionGoal::NoGarbage);
    let versions = store.verify().expect("read").versions;
    store.close().expect("closed");
    let repaired = repair_on(of.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!((repaired.damage, repaired.versions, repaired.uncommitted), (vec![], versions, 0));
    let store = open(of, Mode::Write, &options());
    holds(&store, "repaired");
    assert!(compacted(&store, CompactionGoal::Bound).deleted > 0);
    holds(&store, "swept");
    let verified = store.verify().expect("read");
    assert_eq!((verified.damage, verified.orphans), (vec![], 0));
    assert_eq!(objects.names("a/shard-00/seg").len() as u64, verified.segments);
    store.close().expect("closed");
}

#[test]
fn tombstones_go_when_nothing_is_left_that_they_remove() {
    let objects = Arc::default();
    let store = open(&objects, Mode::Fill, &options());
    filled(&store);
    assert!(store.remove_all(&Scope::new(), &mut |_| std::ops::ControlFlow::Continue(())).expect("removed") > 0);
    store.sync().expect("synced");
    let before = bytes(&store);
    for _ in 0..2 {
        compacted(&store, CompactionGoal::NoGarbage);
    }
    let after = bytes(&store);
    assert!(after < before / 100, "{before} -> {after}");
    store.close().expect("closed");
    let repaired = repair_on(objects.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!((repaired.damage, repaired.versions), (vec![], 0));
}

#[test]
fn its_requests_and_those_of_a_reader_that_meets_it_are_bounded() {
    let objects = Arc::default();
    let end = || Simulated::new(Arc::clone(&objects), 0, Faults::default());
    // Polls must not be counted.
    let options = options().poll(Duration::from_secs(3600));
    let opened =
        |end: &Arc<Simulated>, mode| open_on(Arc::clone(end) as _, "a", "the test", mode, &options).expect("opened");
    let (writing, reading) = (end(), end());
    let store = opened(&writing, Mode::Fill);
    filled(&store);
    let reader = opened(&reading, Mode::Read);
    let segments = store.verify_quick().expect("listed").segments;
    writing.quiet();
    let report = compacted(&store, CompactionGoal::NoGarbage);
    let [gets, puts, _, deletes, written] = writing.counts.take();
    let new = report.copied_bytes.div_ceil(64 << 10) + 2;
    assert!(report.rewritten > 5 && report.rewritten <= segments, "{report:?}");
    assert!(gets <= report.rewritten + 10, "{gets} GET requests for {report:?}");
    assert!(puts <= 2 * new + 4, "{puts} PUT requests for {report:?}");
    assert!(deletes <= report.rewritten, "{deletes} DELETE requests for {report:?}");
    assert!(written <= report.copied_bytes * 11 / 10 + 50_000, "{written} bytes written for {report:?}");
    reading.quiet();
    holds(&reader, "a reader of old rows");
    let [gets, ..] = reading.counts.take();
    let live = PAGES as u64 / 3;
    assert!(gets <= 2 * live + 40, "{gets} GET requests: it looks the index over once");
    store.close().expect("closed");
}

#[test]
fn a_writer_compacts_in_the_background() {
    let objects = Arc::default();
    let store = open(&objects, Mode::Fill, &options().space_bound(1.25));
    let began = Instant::now();
    let mut round = 0;
    loop {
        // The same pages, removed and put again.
        for nth in 0..60 {
            store.remove(&page(nth, 1).url, None).expect("removed");
            store.put(&page(nth, 1), PutRule::Always).expect("stored");
        }
        store.sync().expect("synced");
        round += 1;
        // Each round puts about 75 KB. One pass a second is allowed; on a busy machine it is late.
        let live = bytes(&store);
        if round >= 40 && live < round * 75_000 * 3 / 4 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{live} bytes after {round} rounds");
        std::thread::sleep(Duration::from_millis(60));
    }
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}

#[test]
fn nothing_is_deleted_for_rows_whose_commit_failed() {
    let objects = Objects::new();
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    let of = options().max_retries(1);
    let store = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Fill, &of).expect("made");
    // One group, and nothing is left to rewrite after it.
    (0..20).for_each(|nth| assert!(store.put(&page(nth, 1), PutRule::Always).is_ok()));
    store.sync().expect("synced");
    (0..10).for_each(|nth| assert!(store.remove(&page(nth, 1).url, None).is_ok()));
    store.sync().expect("synced");
    let segments = objects.names("a/shard-00/seg");
    // The rows are in memory, and the commit fails before they are durable.
    end.rule("put", "ix/1/wal", Rule::Waits);
    end.rule_too("list", "shard-00/index$", Rule::Refused);
    assert!(store.compact(CompactionGoal::NoGarbage).is_err());
    std::thread::scope(|scope| {
        let again = scope.spawn(|| store.compact(CompactionGoal::Bound));
        std::thread::sleep(Duration::from_millis(500));
        let left = objects.names("a/shard-00/seg");
        end.cut();
        end.no_rule();
        assert!(again.join().expect("no panic").is_err());
        assert!(segments.iter().all(|segment| left.contains(segment)), "a segment that rows name is gone");
    });
    drop(store);
    let store = open(&objects.objects, Mode::Write, &options());
    for nth in 0..20 {
        let found = store.get(&Lookup::new(&page(nth, 1).url)).expect("readable");
        assert_eq!(found, (nth >= 10).then(|| page(nth, 1)));
    }
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}

#[test]
fn a_fenced_writer_deletes_no_segment_that_lives_again() {
    let objects = Objects::new();
    let of = &objects.objects;
    let end = Simulated::new(Arc::clone(of), 0, Faults::default());
    let store = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Fill, &options()).expect("made");
    (0..20).for_each(|nth| assert!(store.put(&page(nth, 1), PutRule::Always).is_ok()));
    store.sync().expect("synced");
    let before = objects.names("a/shard-00/ix");
    (0..10).for_each(|nth| assert!(store.remove(&page(nth, 1).url, None).is_ok()));
    store.sync().expect("synced");
    // Its commit is durable, and the old segments wait for their deletion.
    end.rule("delete", "shard-00/seg/", Rule::Refused);
    assert!(store.compact(CompactionGoal::NoGarbage).is_err());
    assert!(end.ruled.load(Ordering::SeqCst) > 0, "it has got as far as the deletion");
    end.no_rule();
    // The index loses that commit: its next owner has the old segments.
    let lost = objects.names("a/shard-00/ix").into_iter().filter(|name| !before.contains(name));
    lost.for_each(|name| objects.delete(&name));
    let other = open(of, Mode::Write, &options());
    let segments = objects.names("a/shard-00/seg");
    let error = store.compact(CompactionGoal::Bound).expect_err("it is fenced").to_string();
    assert!(store.is_fenced(), "{error}");
    assert_eq!(objects.names("a/shard-00/seg"), segments, "a fenced writer deletes nothing");
    for nth in 0..20 {
        assert_eq!(other.get(&Lookup::new(&page(nth, 1).url)).expect("readable"), Some(page(nth, 1)));
    }
    other.close().expect("closed");
}

#[test]
fn a_damaged_segment_stays_and_is_reported() {
    let objects = Objects::new();
    let store = open(&objects.objects, Mode::Fill, &options());
    filled(&store);
    let name = objects.names("a/shard-00/seg").remove(0);
    let mut damaged = objects.read(&name);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    objects.replace(&name, damaged);
    for _ in 0..2 {
        let report = store.compact(CompactionGoal::NoGarbage).expect("compacted");
        assert_eq!(report.damage.len(), 1, "{report:?}");
        assert!(name.to_string().ends_with(report.damage[0].split(": ").next().expect("a name")), "{report:?}");
    }
    assert!(objects.names("a/shard-00/seg").contains(&name));
    let unreadable = (0..PAGES).filter(|&nth| store.get(&Lookup::new(&page(nth, 1).url)).is_err()).count();
    assert!(unreadable <= 1);
    store.close().expect("closed");
    assert!(open(&objects.objects, Mode::Read, &options()).compact(CompactionGoal::Bound).is_err(), "it reads");
}
