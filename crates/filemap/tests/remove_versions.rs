//! Removal of single versions of a page, with what lies beside them.

use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::store::PageChange;
use filemap::{Lookup, Options, Page, PageStore, PageWrite, Variant};

const URL: &str = "http://a.example/";

fn store() -> (PageStore, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a folder");
    (PageStore::create(dir.path().join("a.fm"), Options::new()).expect("a store"), dir)
}

fn page(time_ms: i64, body: &str) -> Page {
    Page::new(URL, time_ms, 200, body)
}

fn revisit(url: &str, time_ms: i64, refers_to_ms: i64) -> Page {
    let revisit = Revisit {
        profile: RevisitProfile::IdenticalPayload,
        refers_to_url: Some(URL.into()),
        refers_to_ms: Some(refers_to_ms),
        refers_to_id: None,
        original: None,
    };
    Page { kind: RecordKind::Revisit, revisit: Some(revisit), ..Page::new(url, time_ms, 200, "") }
}

fn beside(kind: RecordKind, time_ms: i64) -> Page {
    Page { kind, ..page(time_ms, "GET / HTTP/1.1") }
}

/// Times and bodies of the versions, newest first.
fn shown<'l>(store: &PageStore, lookup: impl Into<Lookup<'l>>) -> Vec<(i64, String)> {
    let lookup = lookup.into();
    let versions = store.versions_of(lookup).expect("readable");
    let one = |version| {
        let page = store.get_version(lookup, version).expect("readable").expect("there");
        (page.fetched_at_ms, String::from_utf8(page.body).expect("text"))
    };
    versions.into_iter().map(one).collect()
}

/// Times of the requests beside the versions.
fn requests(store: &PageStore) -> Vec<i64> {
    let beside = store.history_beside(URL, RecordKind::Request).expect("readable");
    beside.map(|head| head.expect("readable").page.fetched_at_ms).collect()
}

fn pairs(list: &[(i64, &str)]) -> Vec<(i64, String)> {
    list.iter().map(|(time_ms, body)| (*time_ms, (*body).to_owned())).collect()
}

#[test]
fn the_versions_of_a_time_go_with_what_lies_beside_them() {
    let (store, _dir) = store();
    for time_ms in [1000, 2000, 3000] {
        store.put_page(&page(time_ms, &format!("of {time_ms}"))).expect("stored");
        store.put_page(&beside(RecordKind::Request, time_ms)).expect("stored");
    }
    store.put_page(&page(2000, "another of 2000")).expect("stored");
    let variant = Variant::new("POST").expect("fits");
    store.put_page(&Page { variant: Some(variant.clone()), ..page(2000, "sent") }).expect("stored");
    let removed = store.remove_at(URL, 2000).expect("removed").expect("there");
    assert_eq!((removed.versions, removed.beside, removed.parted, removed.without_body), (2, 1, 0, 0));
    assert_eq!(shown(&store, URL), pairs(&[(3000, "of 3000"), (1000, "of 1000")]));
    assert_eq!(requests(&store), [3000, 1000]);
    assert_eq!(store.remove_at(URL, 2000).expect("looked for"), None);
    assert_eq!(store.remove_at(URL, 1001).expect("looked for"), None);
    let of_variant = Lookup::new(URL.as_bytes()).variant(&variant);
    assert_eq!(shown(&store, of_variant).len(), 1, "a variant is another page");
    assert!(PageWrite::remove_at(&store, URL.as_bytes(), Some(&variant), 2000).expect("removed").is_some());
    assert_eq!(shown(&store, of_variant), []);
    for time_ms in [3000, 1000] {
        assert!(store.remove_at(URL, time_ms).expect("removed").is_some());
    }
    assert_eq!((store.contains(URL).expect("readable"), requests(&store).len(), store.urls().count()), (false, 0, 0));
}

#[test]
fn revisits_that_came_out_of_their_order_keep_their_bodies() {
    let (store, _dir) = store();
    store.put_page(&page(1000, "the body")).expect("stored");
    // The later one is stored first, and the other as the same.
    for one in [revisit(URL, 9000, 1000), revisit(URL, 5000, 1000)] {
        store.put_page_if_changed(&one).expect("stored");
    }
    let removed = store.remove_at(URL, 1000).expect("removed").expect("there");
    assert_eq!((removed.versions, removed.parted), (1, 2));
    assert_eq!(shown(&store, URL), pairs(&[(9000, "the body"), (5000, "the body")]));
}

#[test]
fn a_version_that_differs_in_headers_only_is_told_of() {
    let (store, _dir) = store();
    let first = store.put_page(&Page { status: Some(301), ..page(1000, "") }).expect("stored");
    store.put_page(&Page { status: Some(302), ..page(1000, "") }).expect("stored");
    store.sync().expect("synced");
    let place = store.changes_end().expect("open");
    store.remove_version(URL, first).expect("removed").expect("there");
    let told: Vec<_> = store.changes(Some(&place)).expect("kept").map(|change| change.expect("readable")).collect();
    assert!(told.iter().any(|change| matches!(change, PageChange::RemovedVersion { .. })), "{told:?}");
    assert_eq!(store.get(URL).expect("readable").expect("there").status, Some(302));
}

#[test]
fn one_of_two_versions_of_a_time_leaves_what_lies_beside_both() {
    let (store, _dir) = store();
    let first = store.put_page(&page(1000, "first")).expect("stored");
    store.put_page(&page(1000, "second")).expect("stored");
    store.put_page(&beside(RecordKind::Request, 1000)).expect("stored");
    let removed = store.remove_version(URL, first).expect("removed").expect("there");
    assert_eq!((removed.versions, removed.beside), (1, 0));
    assert_eq!(shown(&store, URL), pairs(&[(1000, "second")]));
    assert_eq!(requests(&store), [1000]);
}

#[test]
fn a_revisit_of_the_same_page_keeps_its_body_and_is_still_a_revisit() {
    let (store, _dir) = store();
    store.put_page(&page(1000, "the body")).expect("stored");
    for one in [revisit(URL, 2000, 1000), revisit(URL, 3000, 1000), revisit("http://b.example/", 2000, 1000)] {
        store.put_page(&one).expect("stored");
    }
    assert_eq!(shown(&store, "http://b.example/"), pairs(&[(2000, "the body")]));
    store.sync().expect("synced");
    let place = store.changes_end().expect("open");
    let removed = store.remove_at(URL, 1000).expect("removed").expect("there");
    assert_eq!((removed.versions, removed.parted, removed.without_body), (1, 2, 0));
    assert_eq!(shown(&store, URL), pairs(&[(3000, "the body"), (2000, "the body")]));
    assert!(store.get(URL).expect("readable").expect("there").revisit.is_some());
    assert_eq!(shown(&store, "http://b.example/"), pairs(&[(2000, "")]), "another page's is not looked for");
    let told = store.changes(Some(&place)).expect("kept").map(|change| match change.expect("readable") {
        PageChange::Put { head, .. } => ("put", head.page.fetched_at_ms),
        PageChange::RemovedVersion { of, version_time_ms, print, .. } => {
            assert_eq!((&of.url[..], of.kind, print.is_some()), (URL.as_bytes(), RecordKind::Response, true));
            ("removed", version_time_ms)
        }
        other => panic!("{other:?}"),
    });
    let mut told: Vec<_> = told.collect();
    told.sort_unstable();
    assert_eq!(told, [("put", 2000), ("put", 3000), ("removed", 1000), ("removed", 2000), ("removed", 3000)]);
    // The revisits of an archive count as there.
    assert_eq!(store.remove_at(URL, 1000).expect("looked for"), None);
}
