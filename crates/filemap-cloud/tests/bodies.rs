//! Large bodies as streams: what a read transfers and holds, and what becomes of a stream whose
//! segment is rewritten, deleted or damaged meanwhile.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use filemap::access::PutRule;
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::{CloudBody, CloudOptions, CloudStore, Mode, open_on, repair_on};
use filemap_core::compact::CompactionGoal;

use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const URL: &str = "http://a.example/film";
/// Chunks of the body, with a short one at the end.
const PARTS: usize = 7;
const PART_BYTES: usize = 1 << 20;

fn options() -> CloudOptions {
    CloudOptions::new().grace(Duration::ZERO).space_bound(None).max_retries(6)
}

fn open(objects: &Objects, mode: Mode) -> CloudStore {
    open_on(objects.objects.clone(), "a", "the test", mode, &options()).unwrap_or_else(|error| panic!("{error}"))
}

/// A body whose parts differ, and which does not compress.
fn body() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut body = vec![0; (PARTS - 1) * PART_BYTES + 17];
    random.fill(&mut body);
    body
}

fn page() -> Page {
    let mut page = Page::new(URL, 1_700_000_000_000, 200, body());
    page.headers.push("Content-Type", "video/mp4");
    page
}

/// A store with the page, a second version with the same body, and a page to remove.
fn filled(objects: &Objects) -> CloudStore {
    let store = open(objects, Mode::Fill);
    let other = Page::new("http://a.example/other", 1, 200, "x");
    for page in [page(), Page { fetched_at_ms: page().fetched_at_ms + 1, ..page() }, other] {
        store.put(&page, PutRule::IfChanged).expect("stored");
    }
    store
}

fn stream(store: &CloudStore) -> CloudBody {
    let (found, body) = store.body(&Lookup::new(URL)).expect("readable").expect("there");
    assert_eq!(found, Page { body: Vec::new(), fetched_at_ms: page().fetched_at_ms + 1, ..page() });
    assert_eq!(body.len() as usize, (PARTS - 1) * PART_BYTES + 17);
    body
}

#[test]
fn a_body_is_the_same_as_a_stream_before_and_after_a_sync_and_to_a_reader() {
    let objects = Objects::new();
    let store = filled(&objects);
    let whole = |store: &CloudStore, when: &str| {
        let mut read = Vec::new();
        stream(store).read_to_end(&mut read).expect("readable");
        assert!(read == body(), "{when}");
        let (_, mut boxed) = store.get_reader(&Lookup::new(URL)).expect("readable").expect("there");
        assert_eq!(std::io::copy(&mut boxed, &mut std::io::sink()).expect("readable"), body().len() as u64);
        assert!(store.get(&Lookup::new(URL)).expect("readable").expect("there").body == body(), "{when}");
    };
    whole(&store, "before a sync");
    store.sync().expect("synced");
    whole(&store, "after a sync");
    store.close().expect("closed");
    let reader = open(&objects, Mode::Read);
    whole(&reader, "to a reader");
    assert_eq!(reader.verify().expect("read").damage, [""; 0]);
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!((repaired.damage, repaired.versions), (vec![], 3));
    whole(&open(&objects, Mode::Read), "after a repair");
}

#[test]
fn a_read_transfers_the_parts_that_it_asks_for_and_few_at_once() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let end = Simulated::new(Arc::clone(&objects.objects), 0, Faults::default());
    let reader = open_on(Arc::clone(&end) as _, "a", "the test", Mode::Read, &options()).expect("opened");
    assert!(reader.contains(&Lookup::new(URL)).expect("readable"));
    let mut body = stream(&reader);
    // The index is warm, and its poll after opening is over: from here on only parts are read.
    end.quiet();
    let cost = |read: &mut dyn FnMut()| {
        end.counts.take();
        end.counts.transferred.swap(0, Ordering::Relaxed);
        read();
        (end.counts.take()[0], end.counts.transferred.swap(0, Ordering::Relaxed) as usize)
    };
    let mut first = [0; 10];
    assert_eq!(cost(&mut || body.read_exact(&mut first).expect("readable")), (1, PART_BYTES));
    assert_eq!(cost(&mut || body.read_exact(&mut first).expect("readable")), (0, 0), "it is in memory");
    let mut last = Vec::new();
    let end_of_body = cost(&mut || {
        body.seek(SeekFrom::End(-17)).expect("in it");
        body.read_to_end(&mut last).expect("readable");
    });
    assert_eq!((end_of_body, &last[..]), ((1, 17), &self::body()[self::body().len() - 17..]));
    let mut all = Vec::new();
    let from_begin = cost(&mut || {
        body.rewind().expect("in it");
        body.read_to_end(&mut all).expect("readable");
    });
    // One part, two, four: each is transferred once.
    assert_eq!(from_begin, (3, all.len()));
    assert!(all == self::body());
    assert!(body.seek(SeekFrom::Current(-1_000_000_000)).is_err());
    body.seek(SeekFrom::End(5)).expect("beyond the end");
    assert_eq!(body.read(&mut first).expect("the end"), 0);
}

#[test]
fn a_stream_goes_on_where_a_compaction_has_moved_the_body() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let reader = open(&objects, Mode::Read);
    let store = open(&objects, Mode::Write);
    let (mut moved, mut read) = (stream(&reader), vec![0; 100]);
    moved.read_exact(&mut read).expect("readable");
    assert!(store.remove(b"http://a.example/other", None).expect("removed"));
    store.sync().expect("synced");
    let report = store.compact(CompactionGoal::NoGarbage).expect("compacted");
    assert!(report.rewritten > 0 && report.deleted > 0 && report.copied_bytes > 6 << 20, "{report:?}");
    moved.read_to_end(&mut read).expect("readable where it is now");
    assert!(read == body());
    // Once the page is removed and its segment deleted, the rest is lost to the stream.
    moved.seek(SeekFrom::Start(0)).expect("in it");
    moved.read_exact(&mut [0; 100]).expect("readable");
    assert!(store.remove(URL.as_bytes(), None).expect("removed"));
    store.sync().expect("synced");
    for _ in 0..2 {
        store.compact(CompactionGoal::NoGarbage).expect("compacted");
    }
    let error = moved.read_to_end(&mut read).expect_err("removed").to_string();
    assert!(error.contains("removed in the meantime"), "{error}");
    store.close().expect("closed");
}

#[test]
fn a_damaged_part_is_an_error_and_the_parts_before_it_are_read() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let names = objects.names("a/shard-00/seg");
    let large = names.iter().find(|name| objects.read(name).len() > 4 * PART_BYTES).expect("a segment with the body");
    let mut bytes = objects.read(large);
    // In the middle of the fourth.
    let at = bytes.len() - 5 * PART_BYTES / 2;
    bytes[at] ^= 1;
    objects.replace(large, bytes);
    let reader = open(&objects, Mode::Read);
    let (mut body, mut read) = (stream(&reader), Vec::new());
    for _ in 0..2 {
        let error = body.read_to_end(&mut read).expect_err("damaged");
        let error = error.downcast::<filemap::Error>().expect("an error of the store");
        assert!(error.is_damage() && error.to_string().contains("chunk 3"), "{error}");
    }
    assert!(read == self::body()[..3 * PART_BYTES]);
    body.seek(SeekFrom::Start(4 * PART_BYTES as u64)).expect("in it");
    read.clear();
    body.read_to_end(&mut read).expect("whole");
    assert!(read == self::body()[4 * PART_BYTES..]);
    assert!(reader.get(&Lookup::new(URL)).expect_err("damaged").is_damage());
    assert_eq!(reader.verify().expect("read").damage.len(), 1);
}

#[test]
fn a_stream_over_a_bad_link_is_whole_or_fails_by_name() {
    let objects = Objects::new();
    filled(&objects).close().expect("closed");
    let faults = Faults { fail: 60, lose: 60, delay: 300 };
    let end = Simulated::new(Arc::clone(&objects.objects), 5, faults);
    let reader = (0..20).find_map(|_| open_on(Arc::clone(&end) as _, "a", "the test", Mode::Read, &options()).ok());
    let reader = reader.expect("opened");
    let mut body = stream(&reader);
    let mut read = Vec::new();
    while body.read_to_end(&mut read).is_err() {
        // What was read before the error is in `read`, and the next call goes on behind it.
    }
    assert!(read == self::body());
    body.rewind().expect("in it");
    end.rule("get", "shard-00/seg/", Rule::Refused);
    let error = body.read_to_end(&mut read).expect_err("refused").to_string();
    assert!(error.contains("reading shard-00/seg/"), "{error}");
}
