//! Copies between a local store and one in object storage: every version of every key is copied,
//! in the same order, and a second copy completes an interrupted one.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use filemap::access::PutRule;
use filemap::copy::{CopyEvent, CopyReport, copy};
use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::store::StoredVersion;
use filemap::{Options, Page, PageRead, PageStore, PageWrite};
use filemap_cloud::Mode;
use tempfile::TempDir;

use crate::as_store::{locations, opened, pages};
use crate::mend::Objects;

const TIME: i64 = 1_700_000_000_000;

/// A version as it is compared: the page as stored, and whether its body is that of an earlier
/// one.
type Held = Vec<(Page, bool)>;

/// Returns all versions by key, in the order in which they were put.
fn all(versions: impl Iterator<Item = filemap::Result<StoredVersion>>) -> BTreeMap<Vec<u8>, Held> {
    let mut keys: BTreeMap<Vec<u8>, Held> = BTreeMap::new();
    for version in versions.map(|version| version.expect("whole")) {
        keys.entry(version.key).or_default().push((version.page, version.unchanged_since.is_some()));
    }
    keys
}

fn run(
    versions: &mut dyn Iterator<Item = filemap::Result<StoredVersion>>,
    to: &dyn PageWrite,
    at_once: usize,
) -> CopyReport {
    copy(versions, to, at_once, &mut |_| ControlFlow::Continue(())).expect("copied")
}

fn local() -> (PageStore, TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    (store, dir)
}

/// Puts pages of all kinds: variants, extra records, revisits, and several versions, some with the
/// same time.
fn fill(store: &dyn PageWrite) {
    for page in pages() {
        store.put(&page, PutRule::IfChanged).expect("stored");
    }
    for (body, version) in ["one", "one", "two", "three"].into_iter().zip(0..) {
        let page = Page::new("http://a.example/versions", TIME + version, 200 + version as u16, body);
        store.put(&page, PutRule::IfChanged).expect("stored");
    }
    // Only their order decides which of them is the newest.
    for body in ["first", "second", "third"] {
        store.put(&Page::new("http://a.example/tie", TIME, 200, body), PutRule::Always).expect("stored");
    }
    let revisit = Revisit {
        profile: RevisitProfile::IdenticalPayload,
        refers_to_url: Some(b"http://a.example/versions".to_vec()),
        refers_to_ms: Some(TIME),
        refers_to_id: None,
        original: None,
    };
    let page = Page::new("http://b.example/revisit", TIME, 200, "");
    store.put(&Page { kind: RecordKind::Revisit, revisit: Some(revisit), ..page }, PutRule::Always).expect("stored");
    for gone in ["http://a.example/removed", "http://z.example/removed"] {
        store.put(&Page::new(gone, TIME, 200, "removed"), PutRule::Always).expect("stored");
        assert!(store.remove(gone.as_bytes(), None).expect("removed"));
    }
    store.sync().expect("synced");
}

#[test]
fn a_copy_has_every_version_both_ways_and_a_second_one_adds_nothing() {
    for location in locations("copied") {
        let (from, _dir) = local();
        fill(&from);
        let expected = all(from.stored_by_key());
        let versions = expected.values().map(Vec::len).sum::<usize>() as u64;
        assert!(expected.values().flatten().any(|(_, is_reference)| *is_reference));
        let cloud = opened(&location, Mode::Fill);
        let copied = run(&mut from.stored_by_key(), &cloud, 8);
        assert_eq!((copied.versions, copied.already_there, copied.is_complete()), (versions, 0, true));
        assert_eq!(all(cloud.stored_by_key()), expected, "before it is closed");
        cloud.close().expect("closed");
        let cloud = opened(&location, Mode::Write);
        assert_eq!(all(cloud.stored_by_key()), expected);
        let tie = cloud.get(&"http://a.example/tie".into()).expect("readable").expect("there");
        assert_eq!(tie.body, b"third");
        assert!(!cloud.contains(&"http://a.example/removed".into()).expect("readable"));
        let again = run(&mut from.stored_by_key(), &cloud, 8);
        assert_eq!((again.versions, again.already_there), (0, versions));

        let (back, _dir) = local();
        let copied = run(&mut cloud.stored_by_key(), &back, 1);
        assert_eq!((copied.versions, copied.is_complete()), (versions, true));
        assert_eq!(all(back.stored_by_key()), expected);
        let again = run(&mut cloud.stored_by_key(), &back, 1);
        assert_eq!((again.versions, again.already_there), (0, versions));
        // Only new versions are copied.
        let page = Page::new("http://a.example/versions", TIME + 9, 200, "new");
        back.put(&page, PutRule::IfChanged).expect("stored");
        let news = run(&mut back.stored_by_key(), &cloud, 8);
        assert_eq!((news.versions, news.already_there), (1, versions));
        assert_eq!(all(cloud.stored_by_key()), all(back.stored_by_key()));
        cloud.close().expect("closed");
    }
}

#[test]
fn a_copy_that_was_interrupted_is_ended_by_a_second_one() {
    let (from, _dir) = local();
    fill(&from);
    for nth in 0..900 {
        let page = Page::new(format!("http://many.example/{nth}"), TIME, 200, format!("body {nth}"));
        from.put(&page, PutRule::Always).expect("stored");
    }
    let expected = all(from.stored_by_key());
    let versions = expected.values().map(Vec::len).sum::<usize>() as u64;
    let location = "mem://interrupted/pages";
    let cloud = opened(location, Mode::Fill);
    let mut so_far = 0;
    let stopped = copy(&mut from.stored_by_key(), &cloud, 8, &mut |event| match event {
        CopyEvent::Progress(report) => {
            so_far = report.versions;
            if so_far > 400 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        _ => ControlFlow::Continue(()),
    });
    let stopped = stopped.expect("stopped");
    assert!(stopped.is_cancelled && !stopped.is_complete() && stopped.versions == so_far && so_far < versions);
    // Not closed: pages that a copy has reported as safe must survive that.
    drop(cloud);
    let cloud = opened(location, Mode::Write);
    // A copy whose source fails.
    let failure = || Err(filemap::Error::Unsupported { what: "connection any more" });
    let mut cut = from.stored_by_key().take(700).chain(std::iter::once_with(failure));
    let failed = copy(&mut cut, &cloud, 8, &mut |_| ControlFlow::Continue(())).expect_err("it breaks off");
    assert!(failed.to_string().contains("connection"), "{failed}");
    drop(cloud);
    let cloud = opened(location, Mode::Write);
    let ended = run(&mut from.stored_by_key(), &cloud, 8);
    assert!(ended.already_there >= so_far && ended.versions > 0 && ended.is_complete(), "{ended:?}");
    assert_eq!(ended.already_there + ended.versions, versions);
    assert_eq!(all(cloud.stored_by_key()), expected);
    cloud.close().expect("closed");
}

#[test]
fn what_is_damaged_is_named_counted_and_left_out() {
    let objects = Objects::new();
    let store = objects.open(Mode::Fill);
    for nth in 0..40 {
        let body: String = std::iter::repeat_with(fastrand::alphanumeric).take(2000).collect();
        for version in 0..2 {
            let page = Page::new(format!("http://a.example/{nth}"), TIME + version, 200, body.clone());
            store.put(&page, PutRule::IfChanged).expect("stored");
        }
    }
    store.close().expect("closed");
    let segments = objects.names("a/shard-00/seg");
    let mut bytes = objects.read(&segments[0]);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    objects.replace(&segments[0], bytes);
    let store = objects.open(Mode::Read);
    let (to, _dir) = local();
    let mut named = Vec::new();
    let copied = copy(&mut store.stored_by_key(), &to, 1, &mut |event| {
        if let CopyEvent::Damage(error) = event {
            named.push(error.to_string());
        }
        ControlFlow::Continue(())
    });
    let copied = copied.expect("the rest is copied");
    // The body, and the version that refers to it.
    assert_eq!((copied.damaged, copied.versions, copied.is_complete()), (2, 78, false));
    assert!(named.len() == 2 && named.iter().all(|words| words.contains("http://a.example/")), "{named:?}");
    store.close().expect("closed");
}
