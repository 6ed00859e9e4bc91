//! Polling of readers for changes: they also find a repair, send no request while idle, and report
//! an error if they cannot poll. Also: waits of writers must end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::{CloudOptions, CloudStore, Fault, Mode, open_bucket, open_on, repair_on};
use filemap_core::compact::CompactionGoal;

use crate::as_store::{opened, options};
use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const POLL: Duration = Duration::from_secs(1);

fn page(nth: usize) -> Page {
    Page::new(format!("http://a.example/{nth}"), 1_700_000_000_000, 200, format!("body {nth}"))
}

fn puts(store: &CloudStore, pages: std::ops::Range<usize>) {
    pages.for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
    store.sync().expect("synced");
}

fn has(store: &CloudStore, nth: usize) -> filemap::Result<bool> {
    store.contains(&Lookup::new(&page(nth).url))
}

fn reader(objects: &Objects, options: &CloudOptions) -> (Arc<Simulated>, CloudStore) {
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    let store = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Read, options).expect("opened");
    (end, store)
}

#[test]
fn a_reader_sees_news_of_a_writer_and_of_a_repair_and_an_idle_one_asks_nothing() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..3);
    let (end, reader) = reader(&objects, &options().poll(POLL));
    // An idle reader: it fails if the requests do not end.
    end.quiet();
    assert!(has(&reader, 1).expect("readable"));
    // Nothing is new: three lists in each poll.
    end.quiet();
    let began = Instant::now();
    for _ in 0..2 {
        std::thread::sleep(POLL + Duration::from_millis(100));
        (0..50).for_each(|nth| assert_eq!(has(&reader, nth).expect("readable"), nth < 3));
    }
    let [gets, puts_made, lists, ..] = end.counts.take();
    let polls = began.elapsed().as_secs() + 1;
    assert!(gets + puts_made == 0 && lists <= 3 * polls, "{gets} GET and {lists} LIST in {polls} polls without news");
    puts(&store, 3..5);
    store.close().expect("closed");
    std::thread::sleep(POLL + Duration::from_millis(100));
    assert!(has(&reader, 4).expect("readable"));
    repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    let store = objects.open(Mode::Write);
    puts(&store, 5..7);
    store.close().expect("closed");
    std::thread::sleep(POLL + Duration::from_millis(100));
    assert!(has(&reader, 6).expect("readable"), "it reads the index of the repair");
}

#[test]
fn a_reader_of_the_index_before_a_repair_finds_pages_where_they_were_moved() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..40);
    store.close().expect("closed");
    let (_, reader) = reader(&objects, &options());
    repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    let at_once = options().grace(Duration::ZERO).space_bound(None);
    let store = open_on(objects.objects.clone(), "a", "the test", Mode::Write, &at_once).expect("opened");
    puts(&store, 40..42);
    for _ in 0..3 {
        assert!(store.remove(&page(0).url, None).is_ok());
        store.sync().expect("synced");
        store.compact(CompactionGoal::NoGarbage).expect("compacted");
    }
    store.close().expect("closed");
    for nth in 1..40 {
        assert_eq!(reader.get(&Lookup::new(&page(nth).url)).expect("no damage"), Some(page(nth)));
    }
}

#[test]
fn a_reader_whose_tables_are_gone_looks_once_more() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..30);
    store.close().expect("closed");
    let calls: [fn(&CloudStore); 4] = [
        |reader| assert!(has(reader, 7).expect("no damage")),
        |reader| assert_eq!(reader.get(&Lookup::new(&page(7).url)).expect("no damage"), Some(page(7))),
        |reader| assert_eq!(reader.count(&Scope::new()).expect("no damage"), 30),
        |reader| assert_eq!(reader.list(&Scope::new().backwards(), None).expect("no damage").flatten().count(), 30),
    ];
    let readers = calls.map(|call| (call, reader(&objects, &options())));
    repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    objects.names("a/shard-00/ix/1").iter().for_each(|name| objects.delete(name));
    readers.iter().for_each(|(call, (_, reader))| call(reader));
    // Without any index, a lookup fails.
    let (_end, reader) = reader(&objects, &options());
    objects.names("a/shard-00/ix").iter().for_each(|name| objects.delete(name));
    assert!(has(&reader, 7).is_err());
}

#[test]
fn a_reader_follows_a_reference_whose_original_alone_was_moved() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    let long = |nth: usize, time_ms| {
        let mut random = fastrand::Rng::with_seed(nth as u64);
        let body: String = std::iter::repeat_with(|| random.alphanumeric()).take(20_000).collect();
        Page { fetched_at_ms: time_ms, ..Page::new(page(nth).url, 0, 200, body) }
    };
    (0..2).for_each(|nth| assert!(store.put(&long(nth, 1), PutRule::Always).is_ok()));
    store.sync().expect("synced");
    // A segment of its own, without garbage.
    store.put(&long(0, 2), PutRule::IfChanged).expect("stored");
    store.close().expect("closed");
    let (_end, reader) = reader(&objects, &options());
    let at_once = options().grace(Duration::ZERO).space_bound(None);
    let store = open_on(objects.objects.clone(), "a", "the test", Mode::Write, &at_once).expect("opened");
    assert!(store.remove(&page(1).url, None).expect("removed"));
    store.sync().expect("synced");
    // The segment of the original, and that of the tombstone.
    let report = store.compact(CompactionGoal::Bound).expect("compacted");
    assert_eq!((report.rewritten, report.deleted), (2, 2), "{report:?}");
    assert_eq!(reader.get(&Lookup::new(&page(0).url)).expect("no damage"), Some(long(0, 2)));
    store.close().expect("closed");
}

#[test]
fn a_reader_that_cannot_look_says_so_after_a_while() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..3);
    // On a busy machine, too, the second call must come before the view is five polls old.
    let poll = 5 * POLL;
    let (end, reader) = reader(&objects, &options().poll(poll).max_retries(1));
    assert!(has(&reader, 1).expect("readable"));
    end.cut();
    std::thread::sleep(poll + Duration::from_millis(100));
    assert!(has(&reader, 1).expect("the view serves for a while"));
    std::thread::sleep(5 * poll);
    assert!(has(&reader, 1).is_err(), "an old answer is not given for ever");
}

#[test]
fn calls_share_a_look_that_fails() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    puts(&store, 0..3);
    let (end, reader) = reader(&objects, &options().poll(POLL).max_retries(4));
    assert!(has(&reader, 1).expect("readable"));
    std::thread::sleep(6 * POLL);
    // The first poll ends when all calls have begun; the calls that came meanwhile share the next.
    end.rule("list", "shard-00/index$", Rule::Waits);
    let began = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let call = || {
            began.fetch_add(1, Ordering::SeqCst);
            has(&reader, 1)
        };
        let calls: Vec<_> = (0..16).map(|_| scope.spawn(call)).collect();
        end.met();
        while began.load(Ordering::SeqCst) < 16 {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(POLL);
        end.rule("list", "shard-00/index$", Rule::Fails);
        assert!(calls.into_iter().all(|call| call.join().expect("no panic").is_err()));
    });
    // A poll is one request and four retries. Some calls may still come late.
    let requests = end.ruled.load(Ordering::SeqCst);
    assert!(requests <= 8 * 5, "{requests} requests of 16 calls");
    end.no_rule();
    assert!(has(&reader, 1).expect("a failure is not kept"));
}

#[test]
fn a_clock_that_was_ahead_keeps_no_later_writer_out() {
    let location = "mem://clock-ahead/pages";
    let ahead = options().fault(Fault::ClockAhead);
    let first = open_bucket(location, Mode::Fill, &ahead).expect("made");
    // Tables and their merges, not only the log.
    for nth in 0..450 {
        puts(&first, nth..nth + 1);
    }
    first.close().expect("closed");
    for owner in 0..2 {
        let began = Instant::now();
        let store = opened(location, Mode::Write);
        puts(&store, 500 + owner..501 + owner);
        store.close().expect("closed");
        // That time comes in three hours.
        assert!(began.elapsed() < Duration::from_secs(300), "it waits for the time to come");
    }
    let reader = opened(location, Mode::Read);
    assert_eq!(reader.count(&Scope::new()).expect("counted"), 452);
}

#[test]
fn a_commit_that_panics_is_told_to_whoever_waits() {
    let location = "mem://panics/pages";
    let store = open_bucket(location, Mode::Fill, &options().fault(Fault::CommitPanics)).expect("made");
    store.put(&page(1), PutRule::Always).expect("taken");
    let error = store.sync().expect_err("not synced").to_string();
    assert!(error.contains("panicked"), "{error}");
    assert!(store.put(&page(2), PutRule::Always).is_err() && store.close().is_err());
}

#[test]
fn a_removal_tells_of_each_page_without_a_lock() {
    let store = opened("mem://callback/pages", Mode::Fill);
    puts(&store, 0..10);
    let removed = store.remove_all(&Scope::new(), &mut |removed| {
        assert!(removed.is_ok());
        // The same URLs, and URLs with the same locks.
        for nth in 0..10 {
            store.put(&page(100 + nth), PutRule::IfChanged).expect("stored");
        }
        assert!(!store.remove(&page(0).url, None).expect("removed before"));
        ControlFlow::Continue(())
    });
    assert!(removed.expect("removed") >= 10);
    store.close().expect("closed");
}

#[test]
fn a_put_beside_a_close_is_stored_or_refused() {
    for round in 0..8 {
        let location = format!("mem://closing-{round}/pages");
        let store = opened(&location, Mode::Fill);
        let taken: Vec<usize> = std::thread::scope(|scope| {
            let puts = |thread: usize| {
                let mine = (0..).map(move |nth| thread + 4 * nth);
                mine.take_while(|nth| store.put(&page(*nth), PutRule::Always).is_ok()).collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || puts(thread))).collect();
            std::thread::sleep(Duration::from_millis(20));
            store.close().expect("closed");
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        let reader = opened(&location, Mode::Read);
        assert_eq!(reader.count(&Scope::new()).expect("counted"), taken.len() as u64);
    }
}

#[test]
fn a_conflict_that_passes_is_no_reason_to_refuse_a_bucket() {
    let objects = Objects::new();
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    let store = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Fill, &options()).expect("made");
    end.rule("put", "shard-00/seg/", Rule::ConflictsOnce);
    puts(&store, 0..3);
    assert!(has(&store, 2).expect("readable"));
    store.close().expect("closed");
}
