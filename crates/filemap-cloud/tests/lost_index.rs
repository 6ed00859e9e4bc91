//! An index that is missing, or has lost its last part, is never taken for an empty one; a repair
//! excludes writers and other repairs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::object_store::path::Path;
use filemap_cloud::{CloudOptions, CloudStore, Error, Mode, RepairReport, open_on, repair_on};
use filemap_core::compact::CompactionGoal;

use crate::as_store::options;
use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const INDEX: &str = "a/shard-00/ix";

fn page(nth: usize) -> Page {
    Page::new(format!("http://a.example/{nth}"), 1_700_000_000_000, 200, format!("body {nth}"))
}

fn puts(store: &CloudStore, pages: std::ops::Range<usize>) {
    pages.for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
    store.sync().expect("synced");
}

fn end(objects: &Objects) -> Arc<Simulated> {
    Simulated::new(Arc::clone(&objects.objects), 0, Faults::default())
}

fn opened(end: &Arc<Simulated>, mode: Mode) -> filemap_cloud::Result<CloudStore> {
    open_on(Arc::clone(end) as _, "a", "the test", mode, &options().max_retries(2))
}

fn repaired(end: &Arc<Simulated>) -> filemap_cloud::Result<RepairReport> {
    repair_on(Arc::clone(end) as _, "a", "the test", &options().max_retries(2))
}

fn all_there(objects: &Objects, pages: usize) {
    let store = objects.open(Mode::Read);
    assert_eq!(store.count(&Scope::new()).expect("counted"), pages as u64);
    for nth in 0..pages {
        assert_eq!(store.get(&Lookup::new(&page(nth).url)).expect("readable"), Some(page(nth)));
    }
}

fn is_damage(opened: filemap_cloud::Result<CloudStore>) {
    let error = opened.err().expect("refused");
    assert!(matches!(&error, Error::Damaged { .. }) && error.to_string().contains("repair"), "{error}");
}

#[test]
fn a_store_that_has_lost_its_index_is_refused_until_it_is_repaired() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..9);
    store.close().expect("closed");
    objects.names(INDEX).iter().for_each(|name| objects.delete(name));
    for mode in [Mode::Write, Mode::Fill, Mode::Read] {
        is_damage(opened(&end(&objects), mode));
    }
    assert_eq!(objects.names(INDEX), [], "no index was made in its place");
    assert_eq!(repaired(&end(&objects)).expect("repaired").versions, 9);
    let store = objects.open(Mode::Write);
    assert_eq!(store.collect(Duration::ZERO).expect("listed").segments, 0);
    store.close().expect("closed");
    all_there(&objects, 9);
}

#[test]
fn an_index_without_its_last_part_is_refused_until_it_is_repaired() {
    let objects = Objects::new();
    let first = objects.open(Mode::Fill);
    puts(&first, 0..5);
    first.close().expect("closed");
    let before: Vec<(Path, Vec<u8>)> =
        objects.names(INDEX).into_iter().map(|name| (name.clone(), objects.read(&name))).collect();
    for owner in 1..3 {
        let store = objects.open(Mode::Write);
        puts(&store, 5 * owner..5 * owner + 5);
        store.close().expect("closed");
    }
    objects.names(INDEX).iter().for_each(|name| objects.delete(name));
    before.into_iter().for_each(|(name, bytes)| objects.replace(&name, bytes));
    is_damage(opened(&end(&objects), Mode::Write));
    // Reopened, it has a later epoch; what it does not know is still of a later one.
    let repaired = repaired(&end(&objects)).expect("repaired");
    assert_eq!((repaired.versions, repaired.uncommitted), (15, 0));
    all_there(&objects, 15);
}

#[test]
fn a_store_without_its_description_is_not_made_again_over_segments() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..3);
    store.close().expect("closed");
    let name = Path::from("a/STORE");
    let description = objects.read(&name);
    objects.delete(&name);
    for mode in [Mode::Fill, Mode::Write, Mode::Read] {
        let error = opened(&end(&objects), mode).err().expect("refused");
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    objects.replace(&name, description);
    all_there(&objects, 3);
}

#[test]
fn a_creation_that_was_interrupted_is_done_again() {
    for part in ["STORE", "ix/1/manifest", "ix/1/wal"] {
        let (objects, kept) = (Objects::new(), Objects::new());
        let broken = end(&objects);
        broken.rule("put", part, Rule::Refused);
        assert!(opened(&broken, Mode::Fill).is_err(), "{part}");
        assert!(matches!(opened(&end(&objects), Mode::Write), Err(Error::NotAStore { .. })), "{part}");
        let store = opened(&end(&objects), Mode::Fill).unwrap_or_else(|error| panic!("{part}: {error}"));
        puts(&store, 0..2);
        store.close().expect("closed");
        all_there(&objects, 2);
        drop(kept);
    }
}

#[test]
fn no_writer_begins_while_a_repair_is_under_way() {
    let objects = Objects::new();
    let before = objects.open(Mode::Fill);
    puts(&before, 0..4);
    before.put(&page(98), PutRule::Always).expect("taken");
    let repairing = end(&objects);
    repairing.rule("get", "shard-00/seg/", Rule::Waits);
    std::thread::scope(|scope| {
        let repair = scope.spawn(|| repaired(&repairing));
        repairing.met();
        assert!(before.sync().is_err(), "a writer from before is fenced");
        for mode in [Mode::Write, Mode::Fill] {
            let error = opened(&end(&objects), mode).err().expect("refused");
            assert!(matches!(error, Error::Repairing { .. }), "{error}");
        }
        all_there(&objects, 4);
        repairing.no_rule();
        assert_eq!(repair.join().expect("no panic").expect("repaired").versions, 4);
    });
    let after = objects.open(Mode::Write);
    puts(&after, 4..8);
    after.close().expect("closed");
    all_there(&objects, 8);
}

#[test]
fn a_repair_that_was_cut_off_is_repeated_and_writers_wait_for_that() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..4);
    store.close().expect("closed");
    let cut = end(&objects);
    cut.rule("put", "ix/2/wal", Rule::Waits);
    std::thread::scope(|scope| {
        let repair = scope.spawn(|| repaired(&cut));
        cut.met();
        cut.cut();
        cut.no_rule();
        assert!(repair.join().expect("no panic").is_err());
    });
    let error = opened(&end(&objects), Mode::Write).err().expect("refused");
    assert!(matches!(error, Error::Repairing { .. }), "{error}");
    assert_eq!(repaired(&end(&objects)).expect("repaired").versions, 4);
    let store = objects.open(Mode::Write);
    puts(&store, 4..5);
    store.close().expect("closed");
    all_there(&objects, 5);
}

#[test]
fn a_writer_that_outlives_its_index_is_told_of_the_repair() {
    let objects = Objects::new();
    let writer = objects.open(Mode::Fill);
    puts(&writer, 0..4);
    writer.put(&page(99), PutRule::Always).expect("taken");
    // No object is left that could fence it.
    objects.names(INDEX).iter().for_each(|name| objects.delete(name));
    assert_eq!(repaired(&end(&objects)).expect("repaired").versions, 4);
    let error = writer.sync().expect_err("the new index has it not").to_string();
    assert!(error.contains("repair"), "{error}");
    let store = objects.open(Mode::Write);
    puts(&store, 4..6);
    store.close().expect("closed");
    all_there(&objects, 6);
}

#[test]
fn a_passing_error_ends_a_repair_before_it_has_done_anything() {
    let objects = Objects::new();
    let writer = objects.open(Mode::Fill);
    puts(&writer, 0..3);
    let failing = end(&objects);
    failing.rule("put", "ix/1/", Rule::Fails);
    let error = repaired(&failing).expect_err("it cannot fence the writer");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    // The writer continues, or another replaces it; no repair is waited for.
    let other = objects.open(Mode::Write);
    puts(&other, 3..6);
    other.close().expect("closed");
    assert_eq!(repaired(&end(&objects)).expect("repaired").versions, 6);
    all_there(&objects, 6);
}

#[test]
fn of_two_repairs_at_once_one_gives_way() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..6);
    store.close().expect("closed");
    let slow = end(&objects);
    slow.rule("get", "shard-00/seg/", Rule::Waits);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| repaired(&slow));
        slow.met();
        assert_eq!(repaired(&end(&objects)).expect("repaired").versions, 6);
        let store = objects.open(Mode::Write);
        puts(&store, 6..9);
        slow.no_rule();
        let error = first.join().expect("no panic").expect_err("another was faster");
        assert!(matches!(error, Error::Repairing { .. }), "{error}");
        puts(&store, 9..12);
        store.close().expect("closed");
    });
    all_there(&objects, 12);
}

/// Runs a repair that waits at its first segment, then continues under the rule; `Waits` stands
/// for no rule.
fn repair_beside(objects: &Objects, rule: Rule, beside: impl FnOnce()) -> filemap_cloud::Result<RepairReport> {
    let slow = end(objects);
    slow.rule("get", "shard-00/seg/", Rule::Waits);
    std::thread::scope(|scope| {
        let repair = scope.spawn(|| repaired(&slow));
        slow.met();
        beside();
        slow.rule("get", "shard-00/seg/", rule);
        if rule == Rule::Waits {
            slow.no_rule();
        }
        repair.join().expect("no panic")
    })
}

/// Runs a repair with these options that waits at its first segment while `beside` runs.
fn repair_beside_all(
    objects: &Objects,
    options: &CloudOptions,
    beside: impl FnOnce(),
) -> filemap_cloud::Result<RepairReport> {
    let slow = end(objects);
    slow.rule("get", "shard-00/seg/", Rule::Waits);
    std::thread::scope(|scope| {
        let repair = scope.spawn(|| repair_on(Arc::clone(&slow) as _, "a", "the test", options));
        slow.met();
        beside();
        slow.no_rule();
        repair.join().expect("no panic")
    })
}

#[test]
fn what_was_removed_after_a_repair_that_failed_stays_removed() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..4);
    puts(&store, 4..8);
    store.close().expect("closed");
    let failing = end(&objects);
    // The newest segment comes first: its rows are in the half-made index.
    failing.rule("get", "-00000001$", Rule::Fails);
    assert!(matches!(repaired(&failing), Err(Error::Unavailable { .. })));
    assert_ne!(objects.names("a/shard-00/ix/2"), [], "it has begun an index");
    let store = open_on(objects.objects.clone(), "a", "the test", Mode::Write, &options().grace(Duration::ZERO));
    let store = store.expect("opened");
    assert!(store.remove(&page(7).url, None).expect("removed"));
    store.sync().expect("synced");
    // Neither the page nor its tombstone is left anywhere.
    (0..2).for_each(|_| drop(store.compact(CompactionGoal::NoGarbage).expect("compacted")));
    store.close().expect("closed");
    assert_eq!(repaired(&end(&objects)).expect("repaired").versions, 7);
    all_there(&objects, 7);
    let verified = objects.open(Mode::Read).verify().expect("read");
    assert_eq!((verified.versions, verified.damage), (7, vec![]));
}

#[test]
fn a_writer_without_its_index_is_told_of_the_second_of_two_repairs() {
    let objects = Objects::new();
    let writer = objects.open(Mode::Fill);
    puts(&writer, 0..4);
    writer.put(&page(99), PutRule::Always).expect("taken");
    // No object is left that could fence it.
    objects.names(INDEX).iter().for_each(|name| objects.delete(name));
    let ends = [end(&objects), end(&objects)];
    ends.iter().for_each(|end| end.rule("get", "shard-00/seg/", Rule::Waits));
    std::thread::scope(|scope| {
        let [first, second] = [0, 1].map(|nth| {
            let repair = scope.spawn({
                let end = &ends[nth];
                move || repaired(end)
            });
            ends[nth].met();
            repair
        });
        ends[0].rule("get", "shard-00/seg/", Rule::Refused);
        assert!(first.join().expect("no panic").is_err());
        assert!(writer.sync().is_err(), "the second repair has not seen it");
        ends[1].no_rule();
        assert_eq!(second.join().expect("no panic").expect("repaired").versions, 4);
    });
    let store = objects.open(Mode::Write);
    puts(&store, 4..5);
    store.close().expect("closed");
    all_there(&objects, 5);
}

#[test]
fn a_writer_without_its_index_is_told_of_a_repair_after_one_that_failed() {
    let objects = Objects::new();
    let writer = objects.open(Mode::Fill);
    puts(&writer, 0..4);
    writer.put(&page(99), PutRule::Always).expect("taken");
    objects.names(INDEX).iter().for_each(|name| objects.delete(name));
    assert!(repair_beside(&objects, Rule::Refused, || {}).is_err());
    let second = repair_beside(&objects, Rule::Waits, || {
        assert!(writer.sync().is_err(), "the repair has not seen it");
    });
    assert_eq!(second.expect("repaired").versions, 4);
    all_there(&objects, 4);
}

#[test]
fn a_conflict_is_no_success_of_a_repair() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..4);
    store.close().expect("closed");
    let conflicting = end(&objects);
    conflicting.rule("put", "shard-00/index/2$", Rule::ConflictsOnce);
    assert_eq!(repaired(&conflicting).expect("repaired").versions, 4);
    assert!(conflicting.ruled.load(Ordering::SeqCst) == 1);
    let store = objects.open(Mode::Write);
    puts(&store, 4..5);
    store.close().expect("closed");
    all_there(&objects, 5);
    // A conflict that does not end makes the repair fail, in bounded time.
    for marker in ["shard-00/index/3.repair$", "shard-00/index/3$"] {
        let conflicting = end(&objects);
        conflicting.rule("put", marker, Rule::Conflicts);
        assert!(matches!(repaired(&conflicting), Err(Error::Unavailable { .. })));
    }
    assert_eq!(repaired(&end(&objects)).expect("repaired").versions, 5);
    all_there(&objects, 5);
}

#[test]
fn a_repair_whose_answers_were_lost_and_that_failed_is_in_nobodys_way() {
    for (rule, marker) in [(Rule::LosesOnce, "index/2.repair$"), (Rule::Loses, "index/2.repair$")] {
        let objects = Objects::new();
        let store = objects.open(Mode::Fill);
        puts(&store, 0..4);
        store.close().expect("closed");
        let losing = end(&objects);
        losing.rule("put", marker, rule);
        losing.rule_too("get", "shard-00/seg/", Rule::Refused);
        assert!(repaired(&losing).is_err(), "{rule:?}");
        assert_eq!(objects.names("a/shard-00/index").len(), 2, "{rule:?}: taken and failed");
        let store = objects.open(Mode::Write);
        puts(&store, 4..6);
        store.close().expect("closed");
        all_there(&objects, 6);
    }
    // A repair that has completed counts, even if its response was lost.
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..4);
    store.close().expect("closed");
    let losing = end(&objects);
    losing.rule("put", "index/2$", Rule::LosesOnce);
    assert_eq!(repaired(&losing).expect("repaired").versions, 4);
    all_there(&objects, 4);
}

/// Ten pages of two writers. The commits of the second are lost: the index does not name them.
fn without_the_end_of_the_log() -> Objects {
    let objects = Objects::new();
    let first = objects.open(Mode::Fill);
    puts(&first, 0..5);
    first.close().expect("closed");
    let of_second = end(&objects);
    let second = opened(&of_second, Mode::Write).expect("opened");
    let before = objects.names(INDEX);
    puts(&second, 5..10);
    of_second.cut();
    drop(second);
    let lost = objects.names(INDEX).into_iter().filter(|name| !before.contains(name));
    lost.for_each(|name| objects.delete(&name));
    objects
}

#[test]
fn a_log_that_lost_its_end_is_not_complete_and_is_repaired_with_all_that_was_uploaded() {
    let objects = without_the_end_of_the_log();
    let third = objects.open(Mode::Write);
    puts(&third, 10..12);
    let grace = Duration::from_secs(3600);
    assert_eq!(third.collect(grace).expect("listed").young, 1);
    // An erasure leaves it, and reports that.
    let erased = third.erase_url(b"http://a.example/none").expect("erased");
    assert!(!erased.is_complete() && erased.waiting == 1, "{erased:?}");
    third.close().expect("closed");
    let report = repaired(&end(&objects)).expect("repaired");
    assert_eq!((report.versions, report.uncommitted, report.damage.len()), (7, 5, 0));
    assert!(!report.is_complete(), "{report:?}");
    let all = options().repair_uncommitted();
    let report = repair_on(objects.objects.clone(), "a", "the test", &all).expect("repaired");
    assert!(report.is_complete() && report.versions == 12, "{report:?}");
    all_there(&objects, 12);
}

#[test]
fn a_writer_from_before_a_repair_collects_no_segment_that_the_repair_has_taken_in() {
    let objects = without_the_end_of_the_log();
    // It takes the segment of the second writer for an orphan.
    let third = objects.open(Mode::Write);
    puts(&third, 10..12);
    assert_eq!(third.collect(Duration::from_secs(3600)).expect("listed").young, 1);
    let all = options().repair_uncommitted();
    let beside = repair_beside_all(&objects, &all, || {
        assert!(third.collect(Duration::ZERO).is_err(), "a repair is building another index");
    });
    assert_eq!(beside.expect("repaired").versions, 12);
    assert!(third.collect(Duration::ZERO).is_err(), "it is fenced");
    all_there(&objects, 12);
}

#[test]
fn no_sequence_is_used_twice_though_the_newest_segment_is_gone() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..3);
    puts(&store, 3..6);
    let last = store.versions(&Lookup::new(&page(5).url)).expect("readable")[0].sequence;
    store.close().expect("closed");
    objects.delete(objects.names("a/shard-00/seg").last().expect("two"));
    assert_eq!(repaired(&end(&objects)).expect("repaired").versions, 3);
    let store = objects.open(Mode::Write);
    puts(&store, 6..7);
    let next = store.versions(&Lookup::new(&page(6).url)).expect("readable")[0].sequence;
    assert!(next > last, "{next} after {last}");
    store.close().expect("closed");
}
