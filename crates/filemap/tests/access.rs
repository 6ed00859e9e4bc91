//! `PageRead` and `PageWrite`: used as trait objects, and equal to the local store's own answers.

use filemap::access::{Cursor, PutRule, Scope, Survives};
use filemap::{Durability, Error, Lookup, Options, Page, PageRead, PageStore, PageWrite, Put, Variant};

const URL: &str = "http://example.com/";

fn store(durability: Durability) -> (tempfile::TempDir, PageStore) {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("s"), Options::new().durability(durability)).expect("a store");
    (dir, store)
}

fn page(url: &str, time_ms: i64, body: &str) -> Page {
    Page::new(url, time_ms, 200, body)
}

#[test]
fn a_page_goes_in_and_out_through_trait_objects() {
    let (_dir, store) = store(Durability::Buffered);
    let (read, write): (&dyn PageRead, &dyn PageWrite) = (&store, &store);
    let variant = Variant::new("session").expect("fits");
    assert!(matches!(write.put(&page(URL, 1, "a"), PutRule::Always), Ok(Some(Put::Stored(_)))));
    assert!(matches!(write.put(&page(URL, 2, "a"), PutRule::IfChanged), Ok(Some(Put::Unchanged(_)))));
    assert!(matches!(write.put(&page(URL, 2, "a"), PutRule::IfNew), Ok(None)));
    let of_session = Page { variant: Some(variant.clone()), ..page(URL, 3, "v") };
    let pages = [page("http://b.example/", 4, "b"), of_session, page("http://b.example/", 4, "b")];
    let put = write.put_many(&pages, PutRule::IfNew).expect("a store");
    assert_eq!(put.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    write.sync().expect("a store");

    let plain = Lookup::new(URL);
    let body = |lookup: &Lookup<'_>| read.get(lookup).expect("a store").map(|page| page.body);
    assert_eq!(body(&plain), Some(b"a".to_vec()));
    assert_eq!(body(&plain.at(0)), None);
    assert_eq!(body(&plain.variant(&variant)), Some(b"v".to_vec()));
    let listed = read.list(&Scope::All, None).expect("a store").map(|listed| listed.expect("whole").url);
    assert_eq!(listed.count(), 2);
    assert!(matches!(read.list(&Scope::All, Some(&Cursor(vec![1]))), Err(Error::Unsupported { .. })));

    assert!(write.remove(URL.as_bytes(), Some(&variant)).expect("a store"));
    assert!(read.contains(&plain).expect("a store"));
    assert!(write.remove(URL.as_bytes(), None).expect("a store"));
    assert!(!read.contains(&plain).expect("a store"));
    write.close().expect("a store");
    assert!(read.get(&plain).is_err());
    write.close().expect("closed already");
}

#[test]
fn the_traits_answer_as_the_store_itself_does() {
    let (_dir, store) = store(Durability::Buffered);
    let variant = Variant::new("v").expect("fits");
    for time_ms in 1..5 {
        store.put_page(&page(URL, time_ms, &format!("body {time_ms}"))).expect("a store");
        let of_variant = Page { variant: Some(variant.clone()), ..page(URL, 10 * time_ms, "x") };
        store.put_page(&of_variant).expect("a store");
    }
    let other = "http://other.example/a";
    store.put_page(&page(other, 9, "other")).expect("a store");
    let read: &dyn PageRead = &store;
    for time_ms in [None, Some(0), Some(2), Some(25), Some(99)] {
        for wanted in [None, Some(&variant)] {
            let lookup = Lookup::new(URL).variant(wanted);
            let lookup = time_ms.map_or(lookup, |time_ms| lookup.at(time_ms));
            let (got, head, latest) = match time_ms {
                None => (
                    store.get(Lookup::new(URL).variant(wanted)),
                    store.head(Lookup::new(URL).variant(wanted)),
                    i64::MAX,
                ),
                Some(t) => (
                    store.get(Lookup::new(URL).variant(wanted).at(t)),
                    store.head(Lookup::new(URL).variant(wanted).at(t)),
                    t,
                ),
            };
            let (got, head) = (got.expect("a store"), head.expect("a store"));
            assert_eq!(read.contains(&lookup).expect("a store"), got.is_some());
            assert_eq!(read.get(&lookup).expect("a store"), got);
            assert_eq!(read.head(&lookup).expect("a store"), head);
            let mut history = store.history(Lookup::new(URL).variant(wanted)).expect("a store");
            history.retain(|head| head.version.time_ms <= latest);
            let through: Vec<_> = read.history(&lookup).expect("a store").map(|head| head.expect("whole")).collect();
            assert_eq!(through, history);
        }
    }
    let urls = [URL.as_bytes(), b"http://absent.example/", other.as_bytes()];
    assert_eq!(read.get_many(&urls).expect("a store"), store.get_many(&urls).expect("a store"));
    let ahead = read.get_ahead(Box::new(urls.iter().map(|url| url.to_vec())), 2);
    let ahead: Vec<_> = ahead.map(|(_, page)| page.expect("a store")).collect();
    assert_eq!(ahead, store.get_many(&urls).expect("a store"));
    for (scope, own) in [
        (Scope::All, store.urls()),
        (Scope::Host("OTHER.example".to_owned()), store.urls_of_host("other.example")),
        (Scope::Prefix(b"http://ex".to_vec()), store.urls_with_prefix("http://ex")),
    ] {
        let through = read.list(&scope, None).expect("a store").map(|listed| listed.expect("whole").url);
        assert_eq!(through.collect::<Vec<_>>(), own.map(|url| url.expect("whole")).collect::<Vec<_>>());
    }
    assert_eq!(read.contents().expect("a store").keys, Some(store.engine().stats().indexed_keys));
}

#[test]
fn capabilities_say_what_the_store_was_opened_for() {
    for (durability, survives) in [(Durability::Buffered, Survives::Sync), (Durability::Sync, Survives::Put)] {
        let (_dir, store) = store(durability);
        let can = store.capabilities();
        assert_eq!((can.survives, can.has_history, can.has_upkeep), (survives, true, true));
        assert!(!can.lists_in_order && !can.lists_from_cursor);
    }
}
