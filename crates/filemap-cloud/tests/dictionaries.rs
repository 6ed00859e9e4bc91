//! Dictionaries: bodies that were compressed with one come back everywhere, at a bounded cost; a
//! dictionary stays while a segment needs it, and no longer; an erasure leaves none with text of
//! what was erased. The simulation must catch a dictionary that is stored late, and one that is
//! deleted early.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite, Put};
use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::object_store::path::Path;
use filemap_cloud::{CloudOptions, CloudStore, Fault, Mode, open_on, repair_on};
use filemap_core::compact::CompactionGoal;

use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;
use crate::simulated::content;

const TIME: i64 = 1_700_000_000_000;
const HOUR: Duration = Duration::from_secs(3600);
/// Pages of a host.
const PAGES: u64 = 60;
/// Random lives of a store.
const SEEDS: u64 = 12;

fn options() -> CloudOptions {
    crate::as_store::options().grace(HOUR).space_bound(None).max_retries(6)
}

fn open(objects: &Arc<InMemory>, mode: Mode) -> CloudStore {
    open_on(objects.clone(), "a", "the test", mode, &options()).unwrap_or_else(|error| panic!("{error}"))
}

fn random(seed: u64, letters: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.alphanumeric()).take(letters).collect()
}

/// A page: the text of its host, which hardly compresses by itself, and its own.
fn page(host: char, nth: u64) -> Page {
    let body = format!("{} secret-{host}-{nth} {}", random(host as u64, 2_500), random(1_000 + nth, 300));
    Page::new(format!("http://{host}.example/{nth}"), TIME, 200, body)
}

fn put(store: &CloudStore, host: char, nth: std::ops::Range<u64>) {
    nth.for_each(|nth| assert!(store.put(&page(host, nth), PutRule::Always).is_ok()));
}

fn has(store: &CloudStore, host: char, nth: std::ops::Range<u64>, when: &str) {
    for nth in nth {
        let found = store.get(&Lookup::new(&page(host, nth).url));
        assert_eq!(found.unwrap_or_else(|error| panic!("{when}: {error}")), Some(page(host, nth)), "{when}");
    }
}

fn bytes(store: &CloudStore) -> u64 {
    store.contents().expect("told").bytes.expect("told")
}

fn dictionaries(objects: &Objects) -> Vec<Path> {
    objects.names("a/shard-00/dict")
}

/// A store with pages of two hosts, half of them put after the training.
fn filled(objects: &Objects) -> CloudStore {
    let store = open(&objects.objects, Mode::Fill);
    ['a', 'b'].into_iter().for_each(|host| put(&store, host, 0..PAGES));
    let made = store.train().expect("trained");
    assert!(!made.is_empty() && made[0].site.is_empty() && made[0].is_current, "{made:?}");
    assert!(made[0].body_ratio < 0.5 && made[0].pages == 2 * PAGES, "{made:?}");
    ['a', 'b'].into_iter().for_each(|host| put(&store, host, PAGES..2 * PAGES));
    store
}

#[test]
fn bodies_are_much_smaller_with_a_dictionary_and_come_back_everywhere() {
    let objects = Objects::new();
    let store = open(&objects.objects, Mode::Fill);
    put(&store, 'a', 0..PAGES);
    store.sync().expect("synced");
    let (plain, described) = (bytes(&store), String::from_utf8(objects.read(&Path::from("a/STORE"))).expect("text"));
    assert!(!described.contains("dictionaries") && dictionaries(&objects).is_empty());
    let made = store.train().expect("trained");
    assert_eq!(made.len(), dictionaries(&objects).len());
    let described = String::from_utf8(objects.read(&Path::from("a/STORE"))).expect("text");
    assert!(described.ends_with("\ndictionaries 1\n"), "builds without dictionaries refuse it: {described}");
    put(&store, 'a', PAGES..2 * PAGES);
    has(&store, 'a', 0..2 * PAGES, "not synced");
    store.sync().expect("synced");
    assert!(bytes(&store) - plain < plain / 2, "{plain} bytes without, {} with", bytes(&store) - plain);
    assert_eq!(store.dictionaries().expect("listed").len(), made.len());
    store.close().expect("closed");
    let reader = open(&objects.objects, Mode::Read);
    has(&reader, 'a', 0..2 * PAGES, "to a reader");
    assert_eq!(reader.stored_by_key().filter(Result::is_ok).count() as u64, 2 * PAGES);
    for report in [reader.verify_quick().expect("listed"), reader.verify().expect("read")] {
        assert_eq!((report.damage.len(), report.dictionaries, report.changed), (0, 1, false), "{report:?}");
    }
    assert!(reader.train().is_err(), "it reads");
    // The next owner takes the dictionary.
    let store = open(&objects.objects, Mode::Write);
    let before = bytes(&store);
    put(&store, 'a', 2 * PAGES..3 * PAGES);
    store.sync().expect("synced");
    assert!(bytes(&store) - before < plain / 2);
    store.close().expect("closed");
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert!(repaired.is_complete() && repaired.versions == 3 * PAGES, "{repaired:?}");
    let store = open(&objects.objects, Mode::Write);
    assert_eq!(store.collect(Duration::ZERO).expect("collected").dictionaries, 0, "the new index knows who needs it");
    has(&store, 'a', 0..3 * PAGES, "repaired");
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}

#[test]
fn the_first_get_of_a_body_costs_one_request_more_and_the_others_none() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    // Later looks for a newer index must not be counted.
    let of = options().poll(HOUR);
    let reader = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Read, &of).expect("opened");
    // The end of the index's log is read with the first call, and blocks of its tables with the
    // first look-up in each: how many there are depends on the time.
    has(&reader, 'a', 0..1, "without a dictionary");
    assert!(reader.contains(&Lookup::new(&page('a', PAGES).url)).expect("read"));
    end.quiet();
    has(&reader, 'a', PAGES..PAGES + 1, "cold");
    let [first, ..] = end.counts.take();
    assert_eq!(first, 2, "GET requests for the first body that needs the dictionary");
    has(&reader, 'b', PAGES..2 * PAGES, "warm");
    let [gets, ..] = end.counts.take();
    assert!(gets as f64 <= 2.1 * PAGES as f64, "{gets} GET requests for {PAGES} bodies");
    // Without memory for dictionaries each costs one.
    let bare = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Read, &of.dictionary_bytes(0)).expect("opened");
    has(&bare, 'b', 2 * PAGES - 1..2 * PAGES, "cold");
    end.counts.take();
    has(&bare, 'b', PAGES..2 * PAGES, "without memory");
    let [gets, ..] = end.counts.take();
    assert!(gets >= 2 * PAGES, "{gets} GET requests");
}

#[test]
fn a_missing_or_damaged_dictionary_is_named_and_no_page_counts_as_absent() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let name = dictionaries(&objects).remove(0);
    let whole = objects.read(&name);
    let shown = name.to_string()[2..].to_owned();
    let shown = &shown[..];
    let check = |what: &str| {
        let reader = open(&objects.objects, Mode::Read);
        has(&reader, 'a', 0..PAGES, "those without a dictionary are read");
        let error = reader.get(&Lookup::new(&page('a', PAGES).url)).expect_err("it cannot be read");
        assert!(error.is_damage() && error.to_string().contains(shown), "{what}: {error}");
        let full = reader.verify().expect("read");
        assert!(full.damage.len() as u64 > PAGES && full.damage.iter().any(|told| told.contains(shown)), "{full:?}");
    };
    objects.delete(&name);
    check("missing");
    let quick = open(&objects.objects, Mode::Read).verify_quick().expect("listed");
    assert!(quick.damage.len() == 1 && quick.damage[0].starts_with(shown), "{quick:?}");
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert!(repaired.damage.len() == 1 && repaired.damage[0].starts_with(shown), "{repaired:?}");
    assert_eq!(repaired.versions, 4 * PAGES, "the rows stay: the dictionary may be restored");
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    objects.replace(&name, damaged);
    check("damaged");
    // A writer does without it.
    let store = open(&objects.objects, Mode::Write);
    put(&store, 'a', 2 * PAGES..2 * PAGES + 1);
    has(&store, 'a', 2 * PAGES..2 * PAGES + 1, "beside damage");
    store.close().expect("closed");
    objects.replace(&name, whole);
    has(&open(&objects.objects, Mode::Read), 'a', 0..2 * PAGES, "restored");
}

#[test]
fn a_writer_trains_in_the_background_if_it_is_asked_to() {
    let objects = Objects::new();
    let open = |options: &CloudOptions| {
        open_on(objects.objects.clone(), "a", "the test", Mode::Fill, options).expect("opened")
    };
    let (store, began) = (open(&options().trains()), Instant::now());
    ['a', 'b'].into_iter().for_each(|host| put(&store, host, 0..3 * PAGES));
    store.sync().expect("synced");
    let before = bytes(&store);
    while store.dictionaries().expect("listed").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is trained of {before} bytes");
        std::thread::sleep(Duration::from_millis(100));
    }
    // It compresses with the dictionary soon after that is listed.
    std::thread::sleep(Duration::from_secs(1));
    put(&store, 'a', 3 * PAGES..6 * PAGES);
    store.sync().expect("synced");
    assert!(bytes(&store) - before < before / 4, "{before} bytes without, {} with", bytes(&store) - before);
    store.close().expect("closed");
    let other = Objects::new();
    let store = open_on(other.objects.clone(), "a", "the test", Mode::Fill, &options()).expect("opened");
    put(&store, 'a', 0..6 * PAGES);
    store.sync().expect("synced");
    std::thread::sleep(Duration::from_secs(3));
    assert!(dictionaries(&other).is_empty(), "nobody has asked for one");
    store.close().expect("closed");
}

#[test]
fn stored_bodies_get_the_dictionary_by_a_recompression_and_a_second_one_writes_nothing() {
    let objects = Objects::new();
    let store = filled(&objects);
    store.sync().expect("synced");
    assert!(store.recompress(20).is_err() && store.recompress(0).is_err());
    let before = bytes(&store);
    let done = store.recompress(9).expect("recompressed");
    assert!(done.rewritten > 0 && done.damage.is_empty() && done.waiting > 0, "{done:?}");
    // Half of the bodies had no dictionary, and were most of the bytes.
    assert!(bytes(&store) < before / 2, "{before} -> {}", bytes(&store));
    ['a', 'b'].into_iter().for_each(|host| has(&store, host, 0..2 * PAGES, "recompressed"));
    store.put(&page('a', 2 * PAGES), PutRule::Always).expect("stored");
    store.sync().expect("synced");
    // The small segments are merged once more.
    store.recompress(9).expect("recompressed");
    let segments = objects.names("a/shard-00/seg");
    let done = store.recompress(9).expect("recompressed");
    assert_eq!((done.rewritten, done.rewritten_bytes, objects.names("a/shard-00/seg")), (0, 0, segments));
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert!(repaired.is_complete() && repaired.versions == 4 * PAGES + 1, "{repaired:?}");
    ['a', 'b'].into_iter().for_each(|host| has(&open(&objects.objects, Mode::Read), host, 0..2 * PAGES, "repaired"));
}

#[test]
fn a_dictionary_goes_when_another_has_replaced_it_and_no_segment_needs_it() {
    let objects = Objects::new();
    let store = filled(&objects);
    let first = dictionaries(&objects);
    // Other pages, for which the first is of little use.
    put(&store, 'c', 0..6 * PAGES);
    assert!(!store.train().expect("trained").is_empty());
    put(&store, 'c', 6 * PAGES..7 * PAGES);
    store.close().expect("closed");
    let store = open(&objects.objects, Mode::Write);
    assert_eq!(store.collect(Duration::ZERO).expect("collected").dictionaries, 0, "segments need the first");
    for host in ["a.example", "b.example"] {
        store.remove_all(&Scope::new().host(host), &mut |_| std::ops::ControlFlow::Continue(())).expect("removed");
    }
    (0..6 * PAGES).for_each(|nth| assert!(store.remove(&page('c', nth).url, None).expect("removed")));
    store.sync().expect("synced");
    let held = store.checkpoint("scan", HOUR).expect("taken");
    let report = store.compact(CompactionGoal::NoGarbage).expect("compacted");
    assert!(report.rewritten > 0 && report.waiting > 0, "{report:?}");
    assert_eq!(store.collect(Duration::ZERO).expect("collected").dictionaries, 0, "rewritten segments need it");
    held.close().expect("closed");
    store.close().expect("closed");
    let at_once = options().grace(Duration::ZERO);
    let store = open_on(objects.objects.clone(), "a", "the test", Mode::Write, &at_once).expect("opened");
    store.compact(CompactionGoal::NoGarbage).expect("compacted");
    let collected = store.collect(Duration::ZERO).expect("collected");
    let left = dictionaries(&objects);
    assert!(collected.dictionaries > 0 && !left.is_empty() && !left.contains(&first[0]), "{collected:?}, {left:?}");
    has(&store, 'c', 6 * PAGES..7 * PAGES, "collected");
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}

/// Number of objects of a folder that hold these bytes.
fn holding(objects: &Objects, folder: &str, bytes: &[u8]) -> usize {
    let holds = |object: Vec<u8>| object.windows(bytes.len()).any(|window| window == bytes);
    objects.names(folder).iter().filter(|name| holds(objects.read(name))).count()
}

#[test]
fn an_erasure_leaves_no_dictionary_with_text_of_what_was_erased() {
    let objects = Objects::new();
    let store = filled(&objects);
    store.sync().expect("synced");
    let first = dictionaries(&objects);
    let holds = |host: char, nth: u64| holding(&objects, "a/shard-00/dict", format!("secret-{host}-{nth} ").as_bytes());
    let mut pages = ['a', 'b'].into_iter().flat_map(|host| (0..PAGES).map(move |nth| (host, nth)));
    let found = pages.find(|(host, nth)| holds(*host, *nth) > 0);
    let (host, nth) = found.expect("the control: a dictionary has text of pages");
    let other = if host == 'a' { 'b' } else { 'a' };
    let has_rest = |store: &CloudStore, end: u64, when: &str| {
        has(store, host, 0..nth, when);
        has(store, host, nth + 1..end, when);
    };
    let held = store.checkpoint("scan", HOUR).expect("taken");
    let report = store.erase_url(&page(host, nth).url).expect("erased");
    assert!(report.pages == 1 && report.pinned > 0 && !report.is_complete(), "{report:?}");
    has(&held, host, 0..2 * PAGES, "by a checkpoint");
    assert!(dictionaries(&objects).contains(&first[0]), "the checkpoint needs it");
    held.close().expect("closed");
    let report = store.erase_url(&page(host, nth).url).expect("erased");
    assert!(report.is_complete() && report.dictionaries > 0, "{report:?}");
    assert_eq!(holds(host, nth), 0);
    let left = dictionaries(&objects);
    assert!(first.iter().all(|name| !left.contains(name)) && !left.is_empty(), "new ones were trained: {left:?}");
    let (mine, fresh) = (&store, open(&objects.objects, Mode::Read));
    for (store, when) in [(mine, "erased"), (&fresh, "to a reader")] {
        has_rest(store, 2 * PAGES, when);
        has(store, other, 0..2 * PAGES, when);
        assert!(store.get(&Lookup::new(&page(host, nth).url)).expect("readable").is_none());
    }
    // Also of pages of a host, while others are put.
    std::thread::scope(|scope| {
        let erased = scope.spawn(|| store.erase(&Scope::new().host(format!("{other}.example"))));
        put(&store, host, 2 * PAGES..3 * PAGES);
        let report = erased.join().expect("no panic").expect("erased");
        assert!(report.is_complete() && report.pages == 2 * PAGES, "{report:?}");
    });
    assert_eq!(holding(&objects, "a/shard-00/dict", format!("secret-{other}-").as_bytes()), 0);
    has_rest(&store, 3 * PAGES, "erased beside puts");
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert!(repaired.is_complete() && repaired.versions == 3 * PAGES - 1, "{repaired:?}");
}

/// A store over requests that a test may stop.
fn stoppable(objects: &Objects, mode: Mode) -> (Arc<Simulated>, CloudStore) {
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    let store = open_on(Arc::clone(&end) as _, "a", "the test", mode, &options()).expect("opened");
    (end, store)
}

#[test]
fn a_retired_dictionary_stays_while_records_that_are_not_committed_name_it() {
    let objects = Objects::new();
    let (end, store) = stoppable(&objects, Mode::Fill);
    put(&store, 'a', 0..PAGES);
    assert!(!store.train().expect("trained").is_empty());
    end.rule("list", "shard-00/dict", Rule::Waits);
    std::thread::scope(|scope| {
        let erased = scope.spawn(|| store.erase_url(&page('a', 0).url));
        end.met();
        // Not retired yet: it compresses these, and no segment that is committed names it.
        put(&store, 'a', PAGES..PAGES + 10);
        end.ruled.store(0, Ordering::SeqCst);
        end.rule("put", "/seg/", Rule::Waits);
        // The sync after the retirement.
        end.met();
        let collected = scope.spawn(|| store.collect(Duration::ZERO));
        let began = Instant::now();
        while !collected.is_finished() && began.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // The segment is committed, and not yet rewritten.
        end.rule("get", "/seg/", Rule::Waits);
        store.sync().expect("synced");
        let reader = open(&objects.objects, Mode::Read);
        let read: Vec<_> = (PAGES..PAGES + 10).map(|nth| reader.get(&Lookup::new(&page('a', nth).url))).collect();
        end.no_rule();
        collected.join().expect("no panic").expect("collected");
        let report = erased.join().expect("no panic").expect("erased");
        assert!(report.is_complete() && report.pages == 1, "{report:?}");
        for (nth, read) in (PAGES..).zip(read) {
            assert_eq!(read.unwrap_or_else(|error| panic!("meanwhile: {error}")), Some(page('a', nth)));
        }
    });
    has(&store, 'a', 1..PAGES + 10, "erased");
    store.close().expect("closed");
    has(&open(&objects.objects, Mode::Read), 'a', 1..PAGES + 10, "to a reader");
}

#[test]
fn no_dictionary_is_stored_by_a_closed_or_a_fenced_writer() {
    let objects = Objects::new();
    let (end, store) = stoppable(&objects, Mode::Fill);
    put(&store, 'a', 0..PAGES);
    store.sync().expect("synced");
    end.rule("put", "shard-00/dict", Rule::Waits);
    std::thread::scope(|scope| {
        let trained = scope.spawn(|| store.train());
        end.met();
        let closed = scope.spawn(|| store.close());
        std::thread::sleep(Duration::from_millis(500));
        let was_closed = closed.is_finished();
        end.no_rule();
        assert!(closed.join().expect("no panic").is_ok() && trained.join().expect("no panic").is_ok());
        assert!(!was_closed, "a dictionary is stored after the close");
    });
    assert!(store.train().is_err(), "it is closed");
    let first = dictionaries(&objects);
    let fenced = open(&objects.objects, Mode::Write);
    put(&fenced, 'c', 0..6 * PAGES);
    fenced.sync().expect("synced");
    let owner = open(&objects.objects, Mode::Write);
    assert!(fenced.train().is_err());
    assert_eq!(dictionaries(&objects), first);
    assert!(!owner.train().expect("trained").is_empty(), "the control: it pays");
    owner.close().expect("closed");
}

#[test]
fn a_segment_that_was_cut_off_keeps_the_dictionaries_that_it_may_need() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let (first, name) = (dictionaries(&objects), objects.names("a/shard-00/seg").pop().expect("a segment"));
    let whole = objects.read(&name);
    // Only the header is left.
    objects.replace(&name, whole[..40].to_vec());
    let repair = || repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert!(!repair().is_complete());
    let store = open(&objects.objects, Mode::Write);
    let report = store.erase_url(&page('a', 0).url).expect("erased");
    assert!(report.pages == 1 && !report.is_complete(), "{report:?}");
    store.close().expect("closed");
    assert!(dictionaries(&objects).contains(&first[0]), "{report:?}");
    objects.replace(&name, whole);
    assert_eq!(repair().damage, [""; 0]);
    let reader = open(&objects.objects, Mode::Read);
    has(&reader, 'a', 1..2 * PAGES, "restored");
    has(&reader, 'b', 0..2 * PAGES, "restored");
}

#[test]
fn a_damaged_dictionary_keeps_no_erased_page_in_a_segment() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let name = dictionaries(&objects).remove(0);
    let whole = objects.read(&name);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    objects.replace(&name, damaged);
    let (url, shown) = (page('a', PAGES + 1).url, name.to_string()[2..].to_owned());
    let holds = || holding(&objects, "a/shard-00/seg", &url);
    assert!(holds() > 0, "the control");
    let store = open(&objects.objects, Mode::Write);
    let report = store.erase_url(&url).expect("erased");
    assert!(report.pages == 1 && !report.is_complete(), "{report:?}");
    assert!(!report.damage.is_empty() && report.damage.iter().all(|told| told.contains(&shown)), "{report:?}");
    assert_eq!(holds(), 0, "other bodies of its segment need the dictionary");
    // The others are there when the dictionary is.
    objects.replace(&name, whole);
    let reader = open(&objects.objects, Mode::Read);
    has(&reader, 'a', 0..PAGES + 1, "restored");
    has(&reader, 'a', PAGES + 2..2 * PAGES, "restored");
    has(&reader, 'b', 0..2 * PAGES, "restored");
    let report = store.erase_url(&url).expect("erased");
    assert!(report.is_complete() && !dictionaries(&objects).contains(&name), "{report:?}");
    has(&store, 'a', PAGES + 2..2 * PAGES, "erased");
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}

#[test]
fn a_verification_beside_an_erasure_misses_no_dictionary_that_went_with_its_segments() {
    let objects = Objects::new();
    let store = filled(&objects);
    store.sync().expect("synced");
    let (end, reader) = stoppable(&objects, Mode::Read);
    end.rule("get", "shard-00/dict", Rule::Waits);
    std::thread::scope(|scope| {
        let verified = scope.spawn(|| reader.verify());
        // It has read a segment, and asks for the dictionary of its bodies.
        end.met();
        let report = store.erase_url(&page('a', 0).url).expect("erased");
        end.no_rule();
        assert!(report.is_complete() && report.dictionaries > 0, "{report:?}");
        let verified = verified.join().expect("no panic").expect("read");
        assert!(verified.changed && verified.damage.is_empty(), "{verified:?}");
    });
    assert_eq!(reader.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}

#[test]
fn a_verification_asks_once_for_a_dictionary_that_is_missing() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let (end, reader) = stoppable(&objects, Mode::Read);
    end.counts.take();
    assert_eq!(reader.verify().expect("read").damage, [""; 0]);
    let [whole, ..] = end.counts.take();
    dictionaries(&objects).iter().for_each(|name| objects.delete(name));
    assert!(reader.verify().expect("read").damage.len() as u64 > PAGES);
    let [gets, ..] = end.counts.take();
    // More than for a whole store: whether the index has changed meanwhile.
    assert!(gets < whole + PAGES, "{gets} GET requests, {whole} of a whole store");
}

#[test]
fn a_dictionary_that_somebody_deletes_is_named_for_references_and_an_erasure_does_without_it() {
    let objects = Objects::new();
    let store = filled(&objects);
    let later = Page { fetched_at_ms: TIME + 1, ..page('b', PAGES) };
    assert!(matches!(store.put(&later, PutRule::IfChanged), Ok(Some(Put::Unchanged(_)))));
    store.sync().expect("synced");
    let name = dictionaries(&objects).remove(0);
    objects.delete(&name);
    let error = open(&objects.objects, Mode::Read).get(&Lookup::new(&later.url)).expect_err("its body is lost");
    assert!(error.is_damage() && error.to_string().contains(&name.to_string()[2..]), "{error}");
    // The writer has it in memory.
    assert!(store.erase_url(&page('a', 0).url).expect("erased").is_complete());
    put(&store, 'a', 2 * PAGES..3 * PAGES);
    store.close().expect("closed");
    let reader = open(&objects.objects, Mode::Read);
    has(&reader, 'a', 1..3 * PAGES, "erased");
    assert_eq!(reader.get(&Lookup::new(&later.url)).expect("readable"), Some(later));
    assert_eq!(reader.verify().expect("read").damage, [""; 0]);
}

/// Puts a page of a life; its time says which body it has.
fn put_one(store: &CloudStore, random: &mut fastrand::Rng) {
    let (url, time_ms) = (format!("http://{}.example/{}", random.u8(..2), random.u8(..12)), random.i64(..900));
    drop(store.put(&Page::new(url.clone(), time_ms, 200, body(&url, time_ms)), PutRule::Always));
}

fn body(url: &str, time_ms: i64) -> String {
    format!("{}{url}{}", random(7, 2_000), random(time_ms as u64, 200))
}

/// Asserts that each version that is listed can be read, and is the one that was put.
fn check(store: &CloudStore) -> Result<(), String> {
    for (url, versions) in content(store).map_err(|error| format!("a page cannot be read: {error}"))? {
        let url = String::from_utf8_lossy(&url).into_owned();
        let mut versions = versions.iter();
        if let Some((time_ms, _)) = versions.find(|(time_ms, found)| body(&url, *time_ms).as_bytes() != &found[..]) {
            return Err(format!("{url} has another body at {time_ms}"));
        }
    }
    Ok(())
}

/// Runs owners that train, erase, compact and collect over a failing object storage, and are cut
/// off. An error says what cannot be read.
fn run(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let (objects, mut random): (Arc<InMemory>, _) = (Arc::default(), fastrand::Rng::with_seed(seed));
    let at_once = options().grace(Duration::ZERO).uploads(3);
    let own = fault.iter().fold(at_once.clone(), |options, fault| options.fault(*fault));
    for owner in 0..4 {
        let faults = Faults { fail: 15, lose: 15, delay: 300 };
        let end = Simulated::new(Arc::clone(&objects), seed ^ owner << 32, faults);
        let Ok(store) = open_on(Arc::clone(&end) as _, "a", "the simulation", Mode::Fill, &own) else { continue };
        (0..30).for_each(|_| put_one(&store, &mut random));
        for nth in 0..24 {
            let url = format!("http://{}.example/{}", random.u8(..2), random.u8(..12));
            // A fault of the storage is no loss.
            match random.u8(..10) {
                0 => drop(store.remove(url.as_bytes(), None)),
                1 => drop(store.sync()),
                2 => drop(store.compact(CompactionGoal::NoGarbage)),
                3 if nth % 3 == 0 => drop(store.collect(Duration::ZERO)),
                4 if nth % 4 == 0 => drop(store.erase_url(url.as_bytes())),
                5 | 6 => {
                    drop(store.train());
                    (0..6).for_each(|_| put_one(&store, &mut random));
                    drop(store.sync());
                    if random.u8(..4) == 0 {
                        end.cut();
                    }
                }
                _ => (0..3).for_each(|_| put_one(&store, &mut random)),
            }
        }
        if random.bool() {
            drop(store.close());
        }
        drop(store);
        let fail = |error: &dyn std::fmt::Display| format!("seed {seed}: no fault, and yet: {error}");
        if random.u8(..3) == 0 {
            let repaired = repair_on(objects.clone(), "a", "the simulation", &at_once).map_err(|error| fail(&error))?;
            if !repaired.damage.is_empty() {
                return Err(format!("seed {seed}: repaired: {:?}", repaired.damage));
            }
        }
        let reader = open_on(objects.clone(), "a", "the simulation", Mode::Read, &at_once);
        let reader = reader.map_err(|error| fail(&error))?;
        check(&reader).map_err(|what| format!("seed {seed}: {what}"))?;
        let verified = reader.verify().map_err(|error| fail(&error))?;
        if !verified.damage.is_empty() {
            return Err(format!("seed {seed}: verified: {:?}", verified.damage));
        }
    }
    Ok(())
}

#[test]
fn no_body_is_lost_with_its_dictionary_and_that_is_proved() {
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..SEEDS).map(|seed| scope.spawn(move || run(seed, None))).collect();
        runs.into_iter().for_each(|run| assert_eq!(run.join().expect("no panic"), Ok(())));
    });
    for fault in [Fault::DictionaryLate, Fault::DictionariesCollected] {
        let caught = (0..4 * SEEDS).find_map(|seed| run(seed, Some(fault)).err());
        assert!(caught.is_some(), "{fault:?} is not caught");
    }
}
