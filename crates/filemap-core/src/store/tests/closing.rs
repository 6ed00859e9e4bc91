//! Closing a handle through one clone in the middle of another clone's work: the work ends with
//! `Closed` and writes nothing, even if another writer has opened the store by then.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::format::dictionary::Making;
use crate::store::{BackupOptions, CompactionGoal, PruneRule};
use crate::sync::primitive::Mutex;
use crate::upkeep::checkpoint::Task;
use crate::{Error, Event, Options, Record, Result, StorageError, Store};

const KEYS: u32 = 200;

fn options() -> Options {
    let mut options = Options::new()
        .segment_bytes(1 << 20)
        .large_value_bytes(64 << 10)
        .free_space_floor(0)
        .space_bound(None)
        .compression_level(1)
        .recompression_level(None)
        .dictionary_bytes(4 << 10)
        .dictionary_group(interrupt);
    options.limits.first_pages = 1 << 40;
    options.limits.group_pages = 1 << 40;
    options.limits.compact_ops = 64;
    options
}

type Work = Box<dyn FnOnce()>;

thread_local! {
    /// Run once, when this thread is asked for the group of a key.
    static INTERRUPT: std::cell::RefCell<Option<Work>> = const { std::cell::RefCell::new(None) };
}

fn interrupt(key: &[u8]) -> &[u8] {
    if let Some(work) = INTERRUPT.take() {
        work();
    }
    &key[..0]
}

fn key(i: u32) -> Vec<u8> {
    format!("http://a.example/{i}").into_bytes()
}

fn body(i: u32, round: u32) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(u64::from(i) << 32 | u64::from(round));
    let mut body = b"<p>What every page of the site has in the same words.</p>".repeat(8);
    body.extend(std::iter::repeat_with(|| rng.alphanumeric() as u8).take(2000));
    body
}

fn put(store: &Store, keys: std::ops::Range<u32>, round: u32) {
    for i in keys {
        store.put(&Record::new(&key(i), &body(i, round)).time(i64::from(round))).unwrap();
    }
}

/// A store with two rounds of pages, in several segments, all in the index.
fn create(path: &Path) -> Store {
    let store = Store::create(path, options()).unwrap();
    for round in [1, 2] {
        put(&store, 0..KEYS, round);
        store.checkpoint().unwrap();
    }
    store
}

/// Closes a clone; then another writer puts, checkpoints, compacts and closes.
fn close_and_let_another_write(store: Store) {
    let path = store.path().to_owned();
    store.close().unwrap();
    let other = Store::open(&path, options()).unwrap();
    put(&other, 0..KEYS, 3);
    put(&other, KEYS..2 * KEYS, 3);
    other.checkpoint().unwrap();
    other.train().unwrap();
    other.compact().unwrap();
    put(&other, 0..KEYS / 2, 4);
    other.close().unwrap();
}

fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    all.map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&p).unwrap())).collect()
}

/// Checks that `work`, when its callback closes the handle, ends with `Closed` and changes no file
/// of the other writer.
fn is_closed_in<T: std::fmt::Debug>(work: impl FnOnce(&Store, Work) -> Result<T>) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    let clone = store.clone();
    let left = Arc::new(Mutex::new(None));
    let (tell, from) = (Arc::clone(&left), path.clone());
    let done = work(
        &store,
        Box::new(move || {
            close_and_let_another_write(clone);
            *tell.lock().unwrap() = Some(files(&from));
        }),
    );
    let left = left.lock().unwrap().take().expect("it was interrupted");
    assert!(matches!(done, Err(Error::Closed)), "{done:?}");
    assert!(matches!(store.put(&Record::new(b"k", b"v")), Err(Error::Closed)));
    assert!(matches!(store.get(&key(1)), Err(Error::Closed)));
    store.close().unwrap();
    assert!(files(&path) == left, "a file has changed since the other writer closed the store");
    let again = Store::open(&path, options()).unwrap();
    assert_eq!(again.verify().unwrap().problems, []);
    for i in 0..2 * KEYS {
        let round = if i < KEYS / 2 { 4 } else { 3 };
        assert!(again.get(&key(i)).unwrap().unwrap().body == body(i, round), "{i}");
    }
    again.close().unwrap();
}

/// Calls `work` at the nth cancellation check.
fn at(mut nth: u32, work: Work) -> impl FnMut() -> ControlFlow<()> {
    let mut work = Some(work);
    move || {
        nth = nth.saturating_sub(1);
        if nth == 0
            && let Some(work) = work.take()
        {
            work();
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn a_prune_is_given_up_when_another_clone_closes_the_handle() {
    let rule = |max_live_bytes| PruneRule { keep_versions: Some(1), since_ms: None, max_live_bytes };
    // By number and size, then by size alone: closed at the first progress call.
    for rule in [rule(Some(1000)), PruneRule { keep_versions: None, ..rule(Some(1000)) }] {
        is_closed_in(|store, work| {
            let mut watch = at(1, work);
            store.prune(rule, &mut |_| watch())
        });
    }
}

#[test]
fn a_compaction_is_given_up_when_another_clone_closes_the_handle() {
    for nth in [1, 2] {
        is_closed_in(|store, work| {
            store.prune(PruneRule { keep_versions: Some(1), ..PruneRule::default() }, &mut |_| {
                ControlFlow::Continue(())
            })?;
            let mut watch = at(nth, work);
            store.compact_with(CompactionGoal::NoGarbage, &mut |_| watch())
        });
    }
}

#[test]
fn a_recompression_is_given_up_when_another_clone_closes_the_handle() {
    is_closed_in(|store, work| {
        INTERRUPT.set(Some(work));
        store.recompress(3)
    });
}

#[test]
fn training_is_given_up_when_another_clone_closes_the_handle() {
    is_closed_in(|store, work| {
        INTERRUPT.set(Some(work));
        store.train()
    });
}

#[test]
fn a_put_a_batch_and_a_stream_are_given_up_when_another_clone_closes_the_handle() {
    let large = vec![7; 200 << 10];
    is_closed_in(|store, work| {
        INTERRUPT.set(Some(work));
        store.put(&Record::new(b"k", b"v"))
    });
    is_closed_in(|store, work| {
        INTERRUPT.set(Some(work));
        store.put_batch(&[Record::new(b"k", b"v"), Record::new(b"l", &large)])
    });
    is_closed_in(|store, work| {
        let mut writer = store.put_stream(b"k", b"", 1)?;
        writer.push(&large)?;
        work();
        writer.finish()
    });
}

#[test]
fn a_backup_through_a_handle_that_was_closed_is_none() {
    let temp = tempfile::tempdir().unwrap();
    for (nth, copy_all) in [(1, false), (3, true), (6, true)] {
        let path = temp.path().join(nth.to_string());
        let options = if copy_all { BackupOptions::new().copy_all() } else { BackupOptions::new() };
        is_closed_in(|store, work| {
            let mut watch = at(nth, work);
            store.backup(&path, &options, &mut |_| watch())
        });
        assert!(!path.exists() && !path.with_extension("partial").exists());
    }
}

#[test]
fn a_verification_and_lists_through_a_handle_that_was_closed_end_with_that() {
    for quick in [false, true] {
        is_closed_in(|store, work| {
            let mut watch = at(2, work);
            let options = if quick {
                crate::upkeep::check::VerifyOptions::new().quick()
            } else {
                crate::upkeep::check::VerifyOptions::new()
            };
            store.verify_with(&options, &mut |_| watch())
        });
    }
    is_closed_in(|store, work| {
        let (mut keys, mut pages, mut heads) = (store.keys(), store.pages(), store.version_heads());
        assert!(keys.next().unwrap().is_ok() && pages.next().unwrap().is_ok() && heads.next().unwrap().is_ok());
        work();
        assert!(matches!(pages.next(), Some(Err(Error::Closed))) && pages.next().is_none());
        assert!(matches!(heads.next(), Some(Err(Error::Closed))) && heads.next().is_none());
        let next = keys.next().unwrap();
        assert!(keys.next().is_none());
        next
    });
}

#[test]
fn nothing_passes_the_gate_of_a_handle_that_was_closed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let store = create(&path);
    let upkeep = Arc::clone(store.upkeep.as_ref().unwrap());
    let reading = upkeep.reading();
    store.close().unwrap();
    let before = files(&path);
    let is_closed =
        |what: &str, result: Result<()>| assert!(matches!(result, Err(Error::Closed)), "{what}: {result:?}");
    is_closed("a checkpoint", upkeep.checkpoint());
    is_closed("a task", upkeep.checkpoint_with(Task { is_due: true, ..Task::default() }).map(|_| ()));
    is_closed("a sync of values", upkeep.writing().sync_to(u64::MAX));
    is_closed("an output", reading.values().segments.begin_output(0, 0).map(|_| ()));
    is_closed("a removal", reading.values().segments.remove(&reading.values().segments.all()));
    is_closed("the superblock", reading.superblock().write(&reading.latest()));
    let making = Making { created_ms: 1, group: vec![], pages: 1, body_ppm: 1, meta_ppm: 1, level: 1 };
    let made = reading.values().dictionaries.create(&making, &mut [7; 4096], &mut []);
    is_closed("a dictionary", made.map(|_| ()));
    assert!(files(&path) == before);
}

#[test]
fn a_second_close_waits_for_the_first_and_returns_the_same() {
    for fails in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let options = options().on_event(move |event| {
            if matches!(event, Event::CheckpointStarted { .. }) {
                std::thread::sleep(Duration::from_millis(300));
                over.store(true, Ordering::SeqCst);
            }
        });
        let path = temp.path().join("a");
        let store = Store::create(&path, options).unwrap();
        put(&store, 0..10, 1);
        if fails {
            // Makes the last checkpoint fail: a poisoned handle writes no index page and no
            // superblock.
            store.writing().unwrap().poison(&Error::full("value0.dat", "a test"));
        }
        let result = std::thread::scope(|s| {
            let clone = store.clone();
            let first = s.spawn(move || clone.close());
            std::thread::sleep(Duration::from_millis(100));
            let second = store.close();
            assert!(fails || is_over.load(Ordering::SeqCst), "it has not waited");
            assert!(Store::open(&path, Options::new()).is_ok(), "the lock is given up");
            (first.join().unwrap(), second)
        });
        match fails {
            false => assert!(matches!(result, (Ok(()), Ok(()))), "{result:?}"),
            true => assert!(
                matches!(
                    result,
                    (
                        Err(Error::Storage(StorageError::Poisoned { .. })),
                        Err(Error::Storage(StorageError::Poisoned { .. }))
                    )
                ),
                "{result:?}"
            ),
        }
    }
}

#[test]
fn a_callback_of_a_compaction_may_ask_for_a_plan_and_may_close_the_handle() {
    let temp = tempfile::tempdir().unwrap();
    let store = create(&temp.path().join("a"));
    let rule = PruneRule { keep_versions: Some(1), ..PruneRule::default() };
    store.prune(rule, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut plans = 0;
    let done = store.compact_with(CompactionGoal::NoGarbage, &mut |_| {
        assert!(!store.compaction_plan(CompactionGoal::NoGarbage).unwrap().segments.is_empty());
        plans += 1;
        // The background thread is waiting for its turn by now.
        store.writing().unwrap().bells().compact.ring();
        std::thread::sleep(Duration::from_millis(50));
        store.clone().close().unwrap();
        ControlFlow::Continue(())
    });
    assert!(matches!(done, Err(Error::Closed)) && plans == 1, "{done:?}");
}
