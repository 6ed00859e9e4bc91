//! Checkpoints: a handle keeps its content while pages are removed, segments rewritten, owners
//! replaced and the index rebuilt; it expires with its process, and says so.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::{CloudOptions, CloudStore, Error, Fault, Mode, open_on, repair_on};
use filemap_core::compact::CompactionGoal;

use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;
use crate::simulated::{Content, content};

const PAGES: usize = 60;
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);
/// Random lives of a store, each with several checkpoints.
const SEEDS: u64 = 12;

fn options() -> CloudOptions {
    crate::as_store::options().grace(Duration::ZERO).space_bound(None).max_retries(6)
}

fn page(nth: usize) -> Page {
    let mut random = fastrand::Rng::with_seed(nth as u64);
    let body: String = std::iter::repeat_with(|| random.alphanumeric()).take(3000).collect();
    Page::new(format!("http://{}.example/{nth}", nth % 7), 1_700_000_000_000, 200, body)
}

fn open(objects: &Arc<InMemory>, mode: Mode) -> CloudStore {
    open_on(objects.clone(), "a", "the test", mode, &options()).unwrap_or_else(|error| panic!("{error}"))
}

/// Opens a handle over a simulated link without faults.
fn linked(objects: &Arc<InMemory>, mode: Mode, options: &CloudOptions) -> (Arc<Simulated>, CloudStore) {
    let end = Simulated::new(Arc::clone(objects), 0, Faults::default());
    let store = open_on(Arc::clone(&end) as _, "a", "the test", mode, options).expect("opened");
    (end, store)
}

fn filled(objects: &Arc<InMemory>) -> CloudStore {
    let store = open(objects, Mode::Fill);
    (0..PAGES).for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
    store.sync().expect("synced");
    store
}

/// Removes three of four pages, and frees their bytes as far as checkpoints allow.
fn removed(store: &CloudStore) -> filemap_cloud::CompactReport {
    for nth in (0..PAGES).filter(|nth| nth % 4 > 0) {
        assert!(store.remove(&page(nth).url, None).expect("removed"));
    }
    store.sync().expect("synced");
    store.compact(CompactionGoal::NoGarbage).expect("compacted")
}

/// Asserts that a handle has all pages, by each way to read them.
fn has_all(held: &CloudStore, when: &str) {
    assert_eq!(held.count(&Scope::new()).expect("counted"), PAGES as u64, "{when}");
    for nth in 0..PAGES {
        assert_eq!(held.get(&Lookup::new(&page(nth).url)).expect("readable"), Some(page(nth)), "{when}: {nth}");
    }
    let stored = held.stored_by_key().map(|version| version.expect("readable").page.body.len());
    assert_eq!(stored.sum::<usize>(), 3000 * PAGES, "{when}");
    assert_eq!(held.heads(&Scope::new()).expect("listed").filter(Result::is_ok).count(), PAGES, "{when}");
}

#[test]
fn a_checkpoint_keeps_its_content_until_it_is_closed() {
    let objects = Objects::new();
    let of = &objects.objects;
    let store = filled(of);
    store.put(&page(PAGES), PutRule::Always).expect("stored");
    let held = open(of, Mode::Read).checkpoint("export", HOUR).expect("taken");
    has_all(&held, "what is not synced is not in it");
    assert!(held.put(&page(0), PutRule::Always).is_err() && held.sync().is_err(), "it reads");
    let report = removed(&store);
    assert!(report.rewritten > 0 && report.pinned > 0 && report.deleted == 0, "{report:?}");
    assert_eq!(report.waiting, report.pinned);
    has_all(&held, "compacted");
    let listed = store.checkpoints().expect("listed");
    assert_eq!(listed.len(), 1);
    let one = &listed[0];
    assert_eq!((&one.name[..], one.shard, one.lifetime, one.is_live), ("export", 0, HOUR, true));
    assert!(one.refreshed_ms > 1_600_000_000_000);
    // A later checkpoint has the present content, and needs none of the old segments.
    let later = store.checkpoint("export", HOUR).expect("taken");
    assert_eq!(later.count(&Scope::new()).expect("counted"), PAGES as u64 / 4 + 1);
    held.close().expect("closed");
    let report = store.compact(CompactionGoal::Bound).expect("compacted");
    assert!(report.deleted > 0 && report.pinned == 0, "{report:?}");
    assert_eq!(later.stored_by_key().filter(Result::is_ok).count(), PAGES / 4 + 1);
    later.close().expect("closed");
    assert!(store.checkpoints().expect("listed").is_empty());
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}

#[test]
fn a_checkpoint_outlives_owners_and_a_repair() {
    let objects = Objects::new();
    let of = &objects.objects;
    filled(of).close().expect("closed");
    let held = open(of, Mode::Read).checkpoint("scan", HOUR).expect("taken");
    let store = open(of, Mode::Write);
    assert!(removed(&store).pinned > 0);
    store.close().expect("closed");
    let repaired = repair_on(of.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!((repaired.damage, repaired.versions), (vec![], PAGES as u64 / 4));
    let store = open(of, Mode::Write);
    store.put(&page(PAGES), PutRule::Always).expect("stored");
    store.sync().expect("synced");
    let report = store.compact(CompactionGoal::NoGarbage).expect("compacted");
    assert!(report.pinned > 0, "{report:?}");
    has_all(&held, "repaired");
    held.close().expect("closed");
    assert!(store.compact(CompactionGoal::NoGarbage).expect("compacted").deleted > 0);
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
    store.close().expect("closed");
}

#[test]
fn an_erasure_waits_for_a_checkpoint_and_says_so() {
    let objects = Objects::new();
    let store = filled(&objects.objects);
    let held = store.checkpoint("scan", HOUR).expect("taken");
    let report = store.erase(&Scope::new().host("1.example")).expect("erased");
    assert!(report.pinned > 0 && !report.is_complete(), "{report:?}");
    has_all(&held, "erased");
    assert_eq!(store.remove_checkpoints("other").expect("removed"), 0);
    assert_eq!(store.remove_checkpoints("scan").expect("removed"), 1);
    let report = store.erase(&Scope::new().host("1.example")).expect("erased");
    assert!(report.is_complete() && report.pinned == 0, "{report:?}");
    let error = held.stored_by_key().find_map(Result::err).expect("its segments are gone");
    assert!(error.to_string().contains("expired or was removed") && !error.is_damage(), "{error}");
    held.close().expect("closed");
    store.close().expect("closed");
}

#[test]
fn a_checkpoint_is_refreshed_while_its_process_lives_and_expires_after_it() {
    let objects = Objects::new();
    let of = &objects.objects;
    let store = filled(of);
    let (end, reader) = linked(of, Mode::Read, &options());
    // Refreshed every 2.5 s: on a busy machine, too, one comes in time.
    let lifetime = 10 * SECOND;
    let held = reader.checkpoint("scan", lifetime).expect("taken");
    std::thread::sleep(2 * lifetime + SECOND);
    let report = removed(&store);
    assert!(report.pinned > 0 && report.deleted == 0, "{report:?}");
    has_all(&held, "after two lifetimes");
    // From here on it is not refreshed, as if its process were dead.
    end.rule("put", "shard-00/checkpoint/", Rule::Refused);
    let began = Instant::now();
    while store.compact(CompactionGoal::Bound).expect("compacted").deleted == 0 {
        assert!(began.elapsed() < 12 * lifetime, "it does not expire");
        std::thread::sleep(SECOND / 4);
    }
    assert!(began.elapsed() > SECOND, "it expires too early");
    assert!(store.checkpoints().expect("listed").is_empty(), "the compaction has deleted it");
    let error = (0..PAGES).find_map(|nth| held.get(&Lookup::new(&page(nth).url)).err()).expect("segments are gone");
    assert!(error.to_string().contains("expired or was removed"), "{error}");
    store.close().expect("closed");
}

#[test]
fn a_checkpoint_that_was_removed_is_not_written_anew_by_its_process() {
    let objects = Objects::new();
    let store = filled(&objects.objects);
    let (end, reader) = linked(&objects.objects, Mode::Read, &options());
    let held = reader.checkpoint("scan", 2 * SECOND).expect("taken");
    // The process has read its object, and is about to refresh it.
    end.rule("put", "shard-00/checkpoint/", Rule::Waits);
    end.met();
    assert_eq!(store.remove_checkpoints("scan").expect("removed"), 1);
    end.no_rule();
    std::thread::sleep(SECOND);
    assert_eq!(objects.names("a/shard-00/checkpoint"), []);
    held.close().expect("closed");
    store.close().expect("closed");
}

/// Waits until the only checkpoint is live, or has expired.
fn until(store: &CloudStore, is_live: bool) {
    let began = Instant::now();
    while store.checkpoints().expect("listed")[0].is_live != is_live {
        assert!(began.elapsed() < 30 * SECOND, "it does not become {is_live}");
        std::thread::sleep(SECOND / 20);
    }
}

#[test]
fn a_checkpoint_that_is_refreshed_while_a_compaction_takes_it_for_expired_lives_on() {
    let objects = Objects::new();
    let of = &objects.objects;
    filled(of).close().expect("closed");
    let (writing, store) = linked(of, Mode::Fill, &options());
    let (reading, reader) = linked(of, Mode::Read, &options());
    let held = reader.checkpoint("scan", 2 * SECOND).expect("taken");
    reading.rule("put", "shard-00/checkpoint/", Rule::Waits);
    until(&store, false);
    // The compaction is about to end it.
    writing.rule("put", "shard-00/checkpoint/", Rule::Waits);
    std::thread::scope(|scope| {
        let compacted = scope.spawn(|| removed(&store));
        writing.met();
        reading.no_rule();
        until(&store, true);
        writing.no_rule();
        let report = compacted.join().expect("no panic");
        assert!(report.pinned > 0 && report.deleted == 0, "{report:?}");
    });
    has_all(&held, "refreshed");
    held.close().expect("closed");
    store.close().expect("closed");
}

#[test]
fn a_checkpoint_that_expires_while_it_is_taken_is_refused() {
    let objects = Objects::new();
    let store = filled(&objects.objects);
    let (end, reader) = linked(&objects.objects, Mode::Read, &options());
    // Its object is stored, and its view is not opened yet.
    end.rule("put", "/manifest/", Rule::Waits);
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| reader.checkpoint("scan", SECOND));
        end.met();
        std::thread::sleep(2 * SECOND);
        assert!(removed(&store).deleted > 0, "it has expired");
        end.no_rule();
        let error = taken.join().expect("no panic").err().expect("refused").to_string();
        assert!(error.contains("expired or was removed"), "{error}");
    });
    assert_eq!(objects.names("a/shard-00/checkpoint"), []);
    store.close().expect("closed");
}

/// The time at which SlateDB's collection may take the tables of a checkpoint.
fn tables_until(objects: &Arc<InMemory>, name: &str) -> SystemTime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a thread");
    let admin = slatedb::admin::Admin::builder("a/shard-00/ix/1", objects.clone()).build();
    let all = runtime.block_on(admin.list_checkpoints(None)).expect("listed");
    let is_it = |name_of: &Option<String>| name_of.as_ref().is_some_and(|of| of.starts_with(name));
    let one = all.iter().find(|checkpoint| is_it(&checkpoint.name)).expect("it keeps tables");
    SystemTime::from(one.expire_time.expect("it expires"))
}

#[test]
fn a_checkpoint_keeps_its_tables_by_the_clock_of_an_index_that_has_seen_a_future_time() {
    for is_closed in [true, false] {
        let objects = Objects::new();
        let of = &objects.objects;
        // The clock of this writer is three hours ahead.
        let ahead = options().fault(Fault::ClockAhead);
        let store = open_on(of.clone(), "a", "the test", Mode::Fill, &ahead).expect("made");
        store.put(&page(0), PutRule::Always).expect("stored");
        store.sync().expect("synced");
        if is_closed {
            // The time is in a table; without that, in the log alone.
            store.close().expect("closed");
        }
        let held = open(of, Mode::Read).checkpoint("scan", 2 * HOUR).expect("taken");
        let until = tables_until(of, "scan.");
        assert!(until > SystemTime::now() + 4 * HOUR, "a later writer takes them too early");
        assert!(until < SystemTime::now() + 6 * HOUR, "they are kept too long");
        held.close().expect("closed");
    }
}

#[test]
fn a_missing_segment_of_a_live_checkpoint_is_damage() {
    let objects = Objects::new();
    let store = filled(&objects.objects);
    let held = store.checkpoint("scan", HOUR).expect("taken");
    objects.delete(&objects.names("a/shard-00/seg")[0]);
    assert!(held.get(&Lookup::new(&page(0).url)).expect_err("it is gone").is_damage());
    held.close().expect("closed");
    store.close().expect("closed");
}

#[test]
fn names_and_lifetimes_that_are_not_valid_are_refused() {
    let store = open(&Arc::default(), Mode::Fill);
    let wrong = [("", HOUR), ("a/b", HOUR), ("a b", HOUR), ("a", Duration::ZERO), ("a", 200 * HOUR)];
    for (name, lifetime) in wrong {
        assert!(store.checkpoint(name, lifetime).is_err(), "{name:?}, {lifetime:?}");
    }
    assert!(store.checkpoints().expect("listed").is_empty());
    let error = Error::Expired { location: "here".to_owned() };
    assert!(!error.is_damage() && filemap::Error::from(error).to_string().starts_with("here: the checkpoint"));
    store.close().expect("closed");
}

/// Takes a checkpoint while another process removes pages and deletes their segments before the
/// object of the checkpoint is stored. Returns whether each page that it lists can be read.
fn is_whole_beside_a_compaction(fault: Option<Fault>) -> bool {
    let objects = Objects::new();
    let of = &objects.objects;
    let store = filled(of);
    let own = fault.iter().fold(options(), |options, fault| options.fault(*fault));
    let (end, reader) = linked(of, Mode::Read, &own);
    end.rule("put", "shard-00/checkpoint/", Rule::Waits);
    let held = std::thread::scope(|scope| {
        let taken = scope.spawn(|| reader.checkpoint("scan", HOUR));
        // With the fault, its view is open by now.
        end.met();
        let report = removed(&store);
        assert!(report.deleted > 0, "{report:?}");
        end.no_rule();
        taken.join().expect("no panic").expect("taken")
    });
    let is_whole = held.stored_by_key().all(|version| version.is_ok());
    held.close().expect("closed");
    store.close().expect("closed");
    is_whole
}

#[test]
fn a_checkpoint_is_stored_before_its_view_is_opened() {
    assert!(is_whole_beside_a_compaction(None));
    assert!(!is_whole_beside_a_compaction(Some(Fault::CheckpointLate)), "the planted fault is not caught");
}

/// Runs owners over a failing object storage, each with a checkpoint that another process takes at
/// its beginning. An error says which content it did not keep.
fn run(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let objects: Arc<InMemory> = Arc::default();
    let mut random = fastrand::Rng::with_seed(seed);
    let own = fault.iter().fold(options().uploads(3), |options, fault| options.fault(*fault));
    let mut held: Vec<(CloudStore, Content)> = Vec::new();
    for owner in 0..4 {
        let faults = Faults { fail: 15, lose: 15, delay: 300 };
        let end = Simulated::new(Arc::clone(&objects), seed ^ owner << 32, faults);
        let Ok(store) = open_on(Arc::clone(&end) as _, "a", "the simulation", Mode::Fill, &own) else { continue };
        let (_, reader) = linked(&objects, Mode::Read, &options());
        let fail = |error: filemap::Error| format!("seed {seed}: no fault, and yet: {error}");
        let taken = reader.checkpoint("scan", HOUR).map_err(fail)?;
        held.push((taken, content(&reader).map_err(fail)?));
        for nth in 0..40 {
            let url = format!("http://{}.example/{}", random.usize(..3), random.usize(..4));
            // A fault of the storage is no loss.
            match random.u8(..8) {
                0 => drop(store.remove(url.as_bytes(), None)),
                1 => drop(store.sync()),
                2 => drop(store.compact(CompactionGoal::NoGarbage)),
                3 if nth % 5 == 0 => drop(store.collect(Duration::ZERO)),
                _ => {
                    let bytes = random.usize(..9000);
                    let body: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(bytes).collect();
                    let page = Page::new(&url[..], i64::from(random.u8(..40)), 200, body);
                    drop(store.put(&page, [PutRule::Always, PutRule::IfChanged][random.usize(..2)]));
                }
            }
        }
        if random.u8(..4) == 0 {
            drop(store);
            repair_on(objects.clone(), "a", "the simulation", &options()).map_err(|error| fail(error.into()))?;
        }
    }
    for (nth, (held, expected)) in held.iter().enumerate() {
        match content(held) {
            Ok(found) if found == *expected => {}
            Ok(found) => return Err(format!("seed {seed}: checkpoint {nth} has {} URLs of others", found.len())),
            Err(error) => return Err(format!("seed {seed}: checkpoint {nth}: {error}")),
        }
    }
    Ok(())
}

#[test]
fn checkpoints_keep_their_content_over_a_failing_storage_and_that_is_proved() {
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..SEEDS).map(|seed| scope.spawn(move || run(seed, None))).collect();
        runs.into_iter().for_each(|run| assert_eq!(run.join().expect("no panic"), Ok(())));
    });
    let caught = (0..4 * SEEDS).find_map(|seed| run(seed, Some(Fault::CheckpointsIgnored)).err());
    assert!(caught.is_some(), "the planted fault is not caught");
}
