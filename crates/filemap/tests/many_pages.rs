//! Operations on many pages at once: sizes reported, pages removed by a filter, imports stopped
//! and resumed.

use std::ops::ControlFlow;

use crate::samples::{self, Fresh, bytes, fresh};
use filemap::import::{ImportOptions, ImportProgress, import};
use filemap::page::RecordKind;
use filemap::{Page, PageStore};

/// Three pages of two hosts, one of two versions, one with a request beside it.
fn filled() -> Fresh {
    let fresh = fresh();
    let put = |page: Page| fresh.store.put_page(&page).unwrap();
    put(Page::new("http://a.example/", 1000, 200, "first"));
    put(Page::new("http://a.example/", 2000, 200, "second!"));
    put(Page::new("http://a.example/x", 1000, 200, ""));
    put(Page::new("http://b.example/", 1000, 200, "b"));
    put(Page { kind: RecordKind::Request, ..Page::new("http://a.example/", 1000, 0, "GET") });
    fresh
}

#[test]
fn sizes_tell_every_version_of_pages_and_of_records_beside_them() {
    let Fresh { store, dir: _dir } = filled();
    let row =
        |size: filemap::store::VersionSize| (size.url, size.is_page, size.is_newest, size.time_ms, size.body_bytes);
    let mut sizes: Vec<_> = store.sizes().map(|size| row(size.unwrap())).collect();
    sizes.sort();
    let row =
        |url: &str, is_page, is_newest, time_ms, bytes| (url.as_bytes().to_vec(), is_page, is_newest, time_ms, bytes);
    let expected = [
        row("http://a.example/", false, true, 1000, 3),
        row("http://a.example/", true, false, 1000, 5),
        row("http://a.example/", true, true, 2000, 7),
        row("http://a.example/x", true, true, 1000, 0),
        row("http://b.example/", true, true, 1000, 1),
    ];
    assert_eq!(sizes, expected);
    assert!(store.sizes().all(|size| size.unwrap().stored_bytes >= 64));
    let mut heads: Vec<_> = store.heads().map(|head| head.unwrap()).map(|h| (h.page.url, h.body_bytes)).collect();
    heads.sort();
    let newest = [("http://a.example/", 7), ("http://a.example/x", 0), ("http://b.example/", 1)];
    assert_eq!(heads, newest.map(|(url, bytes)| (url.as_bytes().to_vec(), bytes)));
    assert_eq!(store.versions_of("HTTP://A.example:80/").unwrap().len(), 2);
    assert_eq!(store.versions_of("http://absent.example/").unwrap().len(), 0);
}

fn remove_host_a(store: &PageStore, mut each: impl FnMut(&[u8], bool) -> ControlFlow<()>) -> u64 {
    let filter = |url: &[u8]| url.starts_with(b"http://a.example/");
    store
        .remove_where(filter, &mut |removed| {
            let removed = removed.unwrap();
            each(removed.url, removed.is_page)
        })
        .unwrap()
}

#[test]
fn all_that_a_filter_names_is_removed_and_nothing_else() {
    let Fresh { store, dir: _dir } = filled();
    let mut told = Vec::new();
    let removed = remove_host_a(&store, |url, is_page| {
        told.push((url.to_vec(), is_page));
        ControlFlow::Continue(())
    });
    told.sort();
    let row = |url: &str, is_page| (url.as_bytes().to_vec(), is_page);
    assert_eq!(removed, 2);
    assert_eq!(
        told,
        [row("http://a.example/", false), row("http://a.example/", true), row("http://a.example/x", true)]
    );
    assert_eq!(store.versions().count(), 1);
    assert!(store.contains("http://b.example/").unwrap());
    assert_eq!(remove_host_a(&store, |_, _| ControlFlow::Continue(())), 0);
}

#[test]
fn a_record_that_is_left_without_its_page_is_removed_too() {
    let Fresh { store, dir: _dir } = filled();
    store.engine().remove(b"http://a.example/").unwrap();
    assert_eq!(remove_host_a(&store, |_, _| ControlFlow::Continue(())), 1, "the page /x");
    assert!(store.get_beside("http://a.example/", RecordKind::Request).unwrap().is_none());
}

#[test]
fn a_removal_that_is_broken_off_leaves_the_rest_for_the_next() {
    let Fresh { store, dir: _dir } = filled();
    let mut number = 0;
    remove_host_a(&store, |_, _| {
        number += 1;
        ControlFlow::Break(())
    });
    assert_eq!(number, 1);
    remove_host_a(&store, |_, _| ControlFlow::Continue(()));
    assert_eq!(store.versions().count(), 1);
}

#[test]
fn an_import_that_is_stopped_keeps_what_it_took_and_goes_on_when_done_again() {
    let file = bytes("python-docs.warc.gz");
    let whole = fresh();
    let all = samples::run(&whole.store, &file, &ImportOptions::new());
    assert!(!all.is_cancelled && all.stored > 20);

    let fresh = fresh();
    let options = ImportOptions::new();
    let some = &mut |at: ImportProgress| match at.pages {
        10.. => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let part = import(&fresh.store, "test.warc", &file[..], &options, some).unwrap();
    assert!(part.is_cancelled && (1..all.stored).contains(&part.stored), "{part:?}");
    assert!(part.problems.is_empty(), "{part:?}");
    let before = import(&fresh.store, "test.warc", &file[..], &options, &mut |_| ControlFlow::Break(())).unwrap();
    assert!(before.is_cancelled && before.stored == 0, "a stop that was asked for before takes nothing in: {before:?}");

    let rest = samples::run(&fresh.store, &file, &ImportOptions::new());
    assert_eq!(part.stored + rest.stored, all.stored);
    assert_eq!(fresh.store.versions().count(), whole.store.versions().count());
}
