//! Damage is found, named and bounded: damaged and missing segments, a missing index, and what a
//! fenced writer left.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::object_store::path::Path;
use filemap_cloud::object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use filemap_cloud::{CloudStore, Mode, open_on, repair_on};
use futures_util::TryStreamExt;

use crate::as_store::options;

/// Objects, and a runtime to read them with.
pub struct Objects {
    pub objects: Arc<InMemory>,
    runtime: tokio::runtime::Runtime,
}

impl Objects {
    pub fn new() -> Objects {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a thread");
        Objects { objects: Arc::default(), runtime }
    }

    pub fn open(&self, mode: Mode) -> CloudStore {
        open_on(self.objects.clone(), "a", "the test", mode, &options()).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn names(&self, folder: &str) -> Vec<Path> {
        let found = self.objects.list(Some(&Path::from(folder))).map_ok(|object| object.location);
        let mut names: Vec<Path> = self.runtime.block_on(found.try_collect()).expect("listed");
        names.sort();
        names
    }

    pub fn read(&self, name: &Path) -> Vec<u8> {
        self.runtime.block_on(async { self.objects.get(name).await?.bytes().await }).expect("there").to_vec()
    }

    pub fn replace(&self, name: &Path, bytes: Vec<u8>) {
        let payload = PutPayload::from(Bytes::from(bytes));
        self.runtime.block_on(self.objects.put(name, payload)).expect("put");
    }

    pub fn delete(&self, name: &Path) {
        self.runtime.block_on(self.objects.delete(name)).expect("deleted");
    }
}

fn page(nth: usize) -> Page {
    let body: String = std::iter::repeat_with(fastrand::alphanumeric).take(2000).collect();
    Page::new(format!("http://a.example/{nth}"), 1_700_000_000_000, 200, body)
}

/// Opens a writer that compacts only when told to.
fn quiet(objects: &Objects) -> CloudStore {
    open_on(objects.objects.clone(), "a", "the test", Mode::Write, &options().space_bound(None)).expect("opened")
}

/// Writes segments of 40 pages each.
fn filled(objects: &Objects, segments: usize) -> Vec<Page> {
    let store = objects.open(Mode::Fill);
    let pages: Vec<Page> = (0..40 * segments).map(page).collect();
    for part in pages.chunks(40) {
        part.iter().for_each(|page| assert!(store.put(page, PutRule::Always).is_ok()));
        store.sync().expect("synced");
    }
    store.close().expect("closed");
    pages
}

#[test]
fn a_damaged_segment_is_named_and_its_neighbours_are_read() {
    let objects = Objects::new();
    let pages = filled(&objects, 3);
    let segments = objects.names("a/shard-00/seg");
    assert_eq!(segments.len(), 6, "each was filled, and its rest synced");
    let mut bytes = objects.read(&segments[2]);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    objects.replace(&segments[2], bytes);
    let store = objects.open(Mode::Read);
    let errors: Vec<_> = pages.iter().filter_map(|page| store.get(&Lookup::new(&page.url)).err()).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].is_damage() && errors[0].to_string().contains(&segments[2].to_string()[2..]), "{}", errors[0]);
    assert_eq!(store.verify_quick().expect("listed").damage, [""; 0], "its size is right");
    let full = store.verify().expect("read");
    assert_eq!((full.damage.len(), full.versions), (1, 120));
    assert!(full.damage[0].contains("checksum mismatch"), "{}", full.damage[0]);
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!((repaired.damage.len(), repaired.may_return, repaired.is_complete()), (1, false, false));
    // Only a body is damaged: that is the error, and the page never counts as absent.
    let store = objects.open(Mode::Read);
    assert_eq!((store.count(&Scope::new()).expect("counted"), repaired.versions), (120, 120));
    let again: Vec<_> = pages.iter().filter_map(|page| store.get(&Lookup::new(&page.url)).err()).collect();
    assert!(again.len() == 1 && again[0].is_damage());
    // Unreadable bytes are kept for inspection.
    let store = objects.open(Mode::Write);
    assert_eq!(store.collect(Duration::ZERO).expect("listed").segments, 0);
    store.close().expect("closed");
}

#[test]
fn a_lost_segment_is_damage_and_never_an_absent_page() {
    let objects = Objects::new();
    let pages = filled(&objects, 2);
    let lost = objects.names("a/shard-00/seg").remove(0);
    objects.delete(&lost);
    let store = objects.open(Mode::Write);
    let found: Vec<_> = pages.iter().map(|page| store.get(&Lookup::new(&page.url))).collect();
    assert!(found.iter().all(|page| !matches!(page, Ok(None))));
    assert!(found[0].as_ref().expect_err("gone").is_damage() && found[79].is_ok());
    let quick = store.verify_quick().expect("listed");
    assert_eq!(quick.damage, [format!("{}: it is missing", &lost.to_string()[2..])]);
    assert_eq!(quick.gone, 1);
    store.close().expect("closed");
}

#[test]
fn a_repair_names_the_segments_that_are_gone_and_says_when_it_cannot_know_them() {
    let objects = Objects::new();
    let pages = filled(&objects, 3);
    let store = quiet(&objects);
    assert!(store.remove(&pages[100].url, None).expect("removed"));
    store.close().expect("closed");
    let repaired = || repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    let whole = repaired();
    assert!(whole.is_complete() && whole.versions == 119, "{whole:?}");
    let segments = objects.names("a/shard-00/seg");
    let gone = |name: &Path, report: &filemap_cloud::RepairReport| {
        report.damage.len() == 1
            && report.damage[0].starts_with(&format!("{}: it is missing", &name.to_string()[2..]))
            && !report.is_complete()
    };
    let bytes = objects.read(&segments[0]).len() as u64;
    objects.delete(&segments[0]);
    let report = repaired();
    assert!(gone(&segments[0], &report) && !report.may_return, "{report:?}");
    assert!(report.lost_bytes > bytes / 2 && report.lost_bytes < bytes, "{report:?} of {bytes}");
    // It is reported once: the new index never had it.
    let again = repaired();
    assert!(again.is_complete() && again.versions == report.versions, "{again:?}");
    // Without a tombstone, what it removed is stored again.
    let last = segments.last().expect("segments");
    objects.delete(last);
    let report = repaired();
    assert!(gone(last, &report) && report.may_return && report.versions == again.versions + 1, "{report:?}");
    // Without an index, the missing segments are unknown.
    objects.names("a/shard-00/ix").iter().for_each(|name| objects.delete(name));
    objects.delete(&segments[1]);
    let report = repaired();
    assert!(report.damage.is_empty() && !report.is_complete(), "{report:?}");
    assert!(report.unknown_segments.is_some_and(|why| why.contains("missing")));
}

#[test]
fn what_a_compaction_has_rewritten_is_not_gone() {
    let objects = Objects::new();
    let pages = filled(&objects, 3);
    let store = quiet(&objects);
    pages.iter().step_by(2).for_each(|page| assert!(store.remove(&page.url, None).expect("removed")));
    let goal = filemap_core::compact::CompactionGoal::NoGarbage;
    assert!(store.compact(goal).expect("compacted").rewritten > 0);
    store.close().expect("closed");
    let report = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert!(report.is_complete() && report.versions == 60, "{report:?}");
}

#[test]
fn an_erasure_of_everything_is_refused() {
    let objects = Objects::new();
    let pages = filled(&objects, 1);
    let store = objects.open(Mode::Write);
    for scope in [Scope::new(), Scope::new().prefix("")] {
        let refused = store.erase(&scope).expect_err("refused");
        assert!(matches!(refused, filemap::Error::Unsupported { .. }), "{refused}");
        assert!(refused.to_string().starts_with("this store has no erasure of all pages"), "{refused}");
    }
    assert_eq!(store.count(&Scope::new()).expect("counted"), pages.len() as u64);
    store.close().expect("closed");
}

#[test]
fn a_store_without_its_index_is_repaired_whole() {
    let objects = Objects::new();
    let pages = filled(&objects, 2);
    let store = objects.open(Mode::Write);
    assert!(store.remove(&pages[7].url, None).expect("removed"));
    store.put(&page(999), PutRule::Always).expect("stored");
    store.close().expect("closed");
    objects.names("a/shard-00/ix").iter().for_each(|name| objects.delete(name));
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!((repaired.versions, repaired.damage.len()), (80, 0));
    // A second repair, and writes after it: no sequence number and no name is used twice.
    assert_eq!(repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired").versions, 80);
    let store = objects.open(Mode::Write);
    assert!(!store.contains(&Lookup::new(&pages[7].url)).expect("readable"));
    assert!(store.remove(&pages[8].url, None).expect("removed"));
    store.put(&pages[7], PutRule::IfNew).expect("stored").expect("it was removed");
    store.close().expect("closed");
    assert_eq!(repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired").versions, 80);
    let store = objects.open(Mode::Read);
    assert_eq!(store.get(&Lookup::new(&pages[7].url)).expect("readable").as_ref(), Some(&pages[7]));
    assert!(!store.contains(&Lookup::new(&pages[8].url)).expect("readable"));
    assert_eq!(store.verify().expect("read").damage, [""; 0]);
}

#[test]
fn what_a_fenced_writer_uploaded_and_never_committed_does_not_come_back() {
    let objects = Objects::new();
    let first = objects.open(Mode::Fill);
    first.put(&page(1), PutRule::Always).expect("stored");
    first.sync().expect("synced");
    // Taken before the second opens: later the first may know already that it has lost the store.
    first.remove(&page(1).url, None).expect("taken");
    first.put(&page(2), PutRule::Always).expect("taken");
    let second = objects.open(Mode::Write);
    // Uploaded, then refused by the index.
    assert!(first.sync().is_err());
    second.put(&page(3), PutRule::Always).expect("stored");
    second.sync().expect("synced");
    second.close().expect("closed");
    let store = objects.open(Mode::Read);
    assert_eq!(store.verify().expect("read").orphans, 1);
    assert!(store.collect(Duration::ZERO).is_err(), "it reads");
    let before: Vec<_> =
        store.list(&Scope::new(), None).expect("listed").map(|page| page.expect("whole").url).collect();
    let repaired = repair_on(objects.objects.clone(), "a", "the test", &options()).expect("repaired");
    assert_eq!((repaired.versions, repaired.uncommitted), (2, 2));
    let store = objects.open(Mode::Read);
    let after: Vec<_> = store.list(&Scope::new(), None).expect("listed").map(|page| page.expect("whole").url).collect();
    assert_eq!(after, before);
    // The orphan is deleted after a grace period; nothing else is.
    let store = objects.open(Mode::Write);
    let young = store.collect(Duration::from_secs(3600)).expect("listed");
    assert_eq!((young.segments, young.young), (0, 1));
    let collected = store.collect(Duration::ZERO).expect("deleted");
    assert_eq!((collected.segments, collected.young), (1, 0));
    let verified = store.verify().expect("read");
    assert_eq!((verified.damage, verified.orphans, verified.versions), (Vec::<String>::new(), 0, 2));
    store.close().expect("closed");
}
