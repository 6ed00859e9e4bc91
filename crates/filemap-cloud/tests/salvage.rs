//! Results of a repair of damaged segments and of uncommitted uploads; puts over a damaged body;
//! reports of a verification.

use std::sync::Arc;
use std::time::Duration;

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite, Put};
use filemap_cloud::object_store::path::Path;
use filemap_cloud::{CloudStore, Mode, RepairReport, open_on, repair_on};
use filemap_core::compact::CompactionGoal;

use crate::as_store::options;
use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const SEGMENTS: &str = "a/shard-00/seg";
/// Bytes of a record before its key.
const FIXED: usize = 96;

fn page(nth: usize) -> Page {
    let mut random = fastrand::Rng::with_seed(nth as u64);
    let body: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(700).collect();
    Page::new(format!("http://a.example/{nth:03}"), 1_700_000_000_000, 200, body)
}

fn repaired(objects: &Objects) -> RepairReport {
    repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired")
}

/// Writes one segment: 20 pages, the tombstones of the even ones, 20 more pages.
fn filled(objects: &Objects) -> Path {
    let store = objects.open(Mode::Fill);
    (0..20).for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
    (0..20).step_by(2).for_each(|nth| assert!(store.remove(&page(nth).url, None).expect("removed")));
    (20..40).for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
    store.close().expect("closed");
    let mut names = objects.names(SEGMENTS);
    assert_eq!(names.len(), 1);
    names.remove(0)
}

/// Returns which of the pages are stored, and how many of them cannot be read.
fn there(objects: &Objects) -> (Vec<usize>, usize) {
    let store = objects.open(Mode::Read);
    let found: Vec<usize> =
        (0..40).filter(|nth| store.contains(&Lookup::new(&page(*nth).url)).expect("readable")).collect();
    let unreadable = found.iter().filter(|nth| match store.get(&Lookup::new(&page(**nth).url)) {
        Ok(read) => read != Some(page(**nth)),
        Err(error) => {
            assert!(error.is_damage(), "{error}");
            true
        }
    });
    let unreadable = unreadable.count();
    (found, unreadable)
}

/// Offset of the nth record that has this URL as its key.
fn record_of(bytes: &[u8], url: &[u8], nth: usize) -> usize {
    let places = bytes.windows(url.len()).enumerate().filter(|(_, window)| *window == url);
    places.map(|(at, _)| at - FIXED).nth(nth).expect("it is in the segment")
}

#[test]
fn a_damaged_record_takes_no_other_with_it_and_what_may_return_is_said() {
    let live: Vec<usize> = (0..40).filter(|nth| *nth >= 20 || nth % 2 == 1).collect();
    // A byte of a page's head, of its body, of a tombstone's head, of the header, of the footer.
    for (case, what) in ["head", "body", "tombstone", "header", "footer", "cut"].into_iter().enumerate() {
        let objects = Objects::new();
        let name = filled(&objects);
        let mut bytes = objects.read(&name);
        let head = record_of(&bytes, b"http://a.example/005", 0);
        let at = match case {
            0 => head + 30,
            1 => record_of(&bytes, b"http://a.example/006", 0) - 3,
            2 => record_of(&bytes, b"http://a.example/010", 1) + 50,
            3 => 20,
            _ => bytes.len() - 5,
        };
        bytes[at] ^= 1;
        if what == "cut" {
            bytes.truncate(record_of(&bytes, b"http://a.example/039", 0) + 10);
        }
        objects.replace(&name, bytes);
        let report = repaired(&objects);
        let (found, unreadable) = there(&objects);
        let expected: Vec<usize> = match what {
            "head" => live.iter().copied().filter(|nth| *nth != 5).collect(),
            "tombstone" => (0..40).filter(|nth| live.contains(nth) || *nth == 10).collect(),
            "cut" => live.iter().copied().filter(|nth| *nth != 39).collect(),
            _ => live.clone(),
        };
        assert_eq!((&found, unreadable), (&expected, usize::from(what == "body")), "{what}");
        let may_return = ["head", "tombstone", "footer", "cut"].contains(&what);
        assert!(!report.is_complete() && !report.damage.is_empty(), "{what}: {report:?}");
        assert_eq!((report.may_return, report.versions), (may_return, expected.len() as u64), "{what}: {report:?}");
        assert!(report.damage.iter().all(|damage| damage.contains("seg/")), "{what}: {report:?}");
        // It is reported until it is removed, and no sequence number is used twice.
        let store = objects.open(Mode::Write);
        assert!(!store.verify().expect("read").damage.is_empty(), "{what}");
        store.put(&page(5), PutRule::Always).expect("stored");
        store.close().expect("closed");
        assert!(there(&objects).0.contains(&5));
    }
}

#[test]
fn an_empty_or_cut_segment_is_damage() {
    let objects = Objects::new();
    let name = filled(&objects);
    let whole = objects.read(&name);
    for bytes in [0, 60, whole.len() / 2] {
        objects.replace(&name, whole[..bytes].to_vec());
        let store = objects.open(Mode::Read);
        let error = store.get(&Lookup::new(&page(39).url)).expect_err("it is not there");
        assert!(error.is_damage(), "{bytes} bytes: {error}");
        assert!(!store.verify().expect("read").damage.is_empty());
    }
}

#[test]
fn what_nobody_committed_does_not_come_back_though_no_later_writer_wrote() {
    // The index may tell a writer in the background that it is fenced, before it uploads.
    let attempts = (0..100).filter(|_| a_fenced_writer_uploads_and_the_store_is_repaired());
    assert_eq!(attempts.take(1).count(), 1, "no fenced writer uploaded a segment");
}

/// Returns whether the writer had uploaded its segment before it learned that it was fenced.
fn a_fenced_writer_uploads_and_the_store_is_repaired() -> bool {
    let objects = Objects::new();
    let first = objects.open(Mode::Fill);
    first.put(&page(1), PutRule::Always).expect("stored");
    first.sync().expect("synced");
    let second = objects.open(Mode::Write);
    let taken = first.put(&page(2), PutRule::Always).and_then(|_| first.remove(&page(1).url, None));
    assert!(first.sync().is_err());
    assert!(!second.contains(&Lookup::new(&page(2).url)).expect("readable"));
    drop(second);
    let report = repaired(&objects);
    assert!(report.versions == 1 && report.uncommitted <= 2, "{report:?}");
    assert_eq!(there(&objects).0, [1]);
    taken.is_ok() && report.uncommitted == 2
}

#[test]
fn a_segment_behind_one_that_was_never_uploaded_does_not_count() {
    let objects = Objects::new();
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    let store = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Fill, &options()).expect("made");
    store.put(&page(1), PutRule::Always).expect("stored");
    store.sync().expect("synced");
    end.rule("put", "-00000002", Rule::Waits);
    // Several segments of 64 KiB.
    (2..300).for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
    let began = std::time::Instant::now();
    while objects.names(SEGMENTS).len() < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing overtakes it");
        std::thread::sleep(Duration::from_millis(5));
    }
    end.cut();
    end.no_rule();
    drop(store);
    let report = repaired(&objects);
    assert!(report.versions == 1 && report.uncommitted > 0, "{report:?}");
    assert_eq!(there(&objects).0, [1]);
}

fn is_stored(put: filemap::Result<Option<Put>>) -> bool {
    matches!(put.expect("put"), Some(Put::Stored(_)))
}

#[test]
fn a_page_put_over_a_damaged_or_lost_body_is_stored_again() {
    for is_lost in [false, true] {
        let objects = Objects::new();
        let store = objects.open(Mode::Fill);
        store.put(&page(1), PutRule::Always).expect("stored");
        store.put(&page(2), PutRule::Always).expect("stored");
        store.sync().expect("synced");
        let again = Page { fetched_at_ms: 1_700_000_000_001, ..page(1) };
        assert!(!is_stored(store.put(&again, PutRule::IfChanged)), "its body is whole");
        let name = objects.names(SEGMENTS).remove(0);
        if is_lost {
            objects.delete(&name);
        } else {
            let mut bytes = objects.read(&name);
            for url in [b"http://a.example/001", b"http://a.example/002"] {
                let body = record_of(&bytes, url, 0) + 500;
                bytes[body] ^= 1;
            }
            objects.replace(&name, bytes);
        }
        let later = Page { fetched_at_ms: 1_700_000_000_002, ..page(1) };
        assert!(is_stored(store.put(&later, PutRule::IfChanged)));
        assert!(is_stored(store.put(&page(2), PutRule::IfNew)), "it mends what is damaged");
        store.close().expect("closed");
        let reader = objects.open(Mode::Read);
        for page in [&later, &page(2)] {
            assert_eq!(reader.get(&Lookup::new(&page.url)).expect("readable").as_ref(), Some(page));
        }
    }
}

/// Deletes the first row of a version from the index, bypassing the store.
fn lose_a_row(objects: &Objects) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
    runtime.block_on(async {
        let index = slatedb::Db::builder("a/shard-00/ix/1", objects.objects.clone()).build().await.expect("opened");
        let mut rows = index.scan(b"p".to_vec()..b"q".to_vec()).await.expect("rows");
        let row = rows.next().await.expect("a row").expect("a row");
        let mut batch = slatedb::WriteBatch::new();
        batch.delete(row.key);
        index.write(batch).await.expect("written").await_durable().await.expect("durable");
        index.close().await.expect("closed");
    });
}

#[test]
fn a_lost_row_is_found_and_what_was_removed_is_none() {
    let objects = Objects::new();
    filled(&objects);
    let whole = objects.open(Mode::Read).verify().expect("read");
    assert_eq!((whole.damage, whole.lost_rows, whole.versions), (vec![], 0, 30));
    lose_a_row(&objects);
    let report = objects.open(Mode::Read).verify().expect("read");
    assert_eq!((report.lost_rows, report.damage.len(), report.versions), (1, 1, 29), "{report:?}");
    assert_eq!(repaired(&objects).versions, 30);
    let mended = objects.open(Mode::Read).verify().expect("read");
    assert_eq!((mended.damage, mended.lost_rows), (vec![], 0));
}

#[test]
fn a_verification_beside_a_writer_tells_of_no_damage() {
    let objects = Objects::new();
    let options = options().grace(Duration::ZERO).space_bound(None);
    let store = open_on(objects.objects.clone(), "a", "the test", Mode::Fill, &options).expect("made");
    let reader = {
        store.sync().expect("synced");
        objects.open(Mode::Read)
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let check = |store: &CloudStore| {
        let report = store.verify().expect("read");
        assert_eq!((report.damage, report.lost_rows), (vec![], 0));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(1);
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                for time_ms in 0..60 {
                    let page = Page { fetched_at_ms: time_ms, ..page(random.usize(..20)) };
                    store.put(&page, PutRule::IfChanged).expect("stored");
                    if time_ms % 3 == 0 {
                        store.remove(&self::page(random.usize(..20)).url, None).expect("removed");
                    }
                }
                store.sync().expect("synced");
                store.compact(CompactionGoal::NoGarbage).expect("compacted");
            }
        });
        for _ in 0..12 {
            check(&reader);
            check(&store);
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    check(&store);
    assert!(!store.verify().expect("read").changed);
    store.close().expect("closed");
    assert!(reader.count(&Scope::new()).is_ok());
}
