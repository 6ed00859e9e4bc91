//! `PageRead` and `PageWrite`: used as trait objects, and equal to the local store's own answers.

use std::io::Read;
use std::ops::ControlFlow;

use filemap::access::{Capabilities, Contents, Cursor, Listed, PutRule, Results, Scope, Survives};
use filemap::{
    Durability, Error, Lookup, Options, Page, PageHead, PageRead, PageStore, PageWrite, Put, Result, Variant, Version,
};

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
    let listed = read.list(&Scope::new(), None).expect("a store").map(|listed| listed.expect("whole").url);
    assert_eq!(listed.count(), 2);
    assert!(matches!(read.list(&Scope::new(), Some(&Cursor(vec![1]))), Err(Error::Cursor { .. })));

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
        (Scope::new(), store.urls()),
        (Scope::new().host("OTHER.example"), store.urls_of_host("other.example")),
        (Scope::new().prefix("http://ex"), store.urls_with_prefix("http://ex")),
    ] {
        let through = read.list(&scope, None).expect("a store").map(|listed| listed.expect("whole").url);
        let through: Vec<_> = through.collect();
        assert_eq!(read.count(&scope).expect("a store"), through.len() as u64);
        assert_eq!(through, own.map(|url| url.expect("whole")).collect::<Vec<_>>());
    }
    let stats = store.engine().stats();
    assert_eq!(read.contents().expect("a store").keys, Some(stats.indexed_keys + stats.memtable_entries));
}

#[test]
fn capabilities_say_what_the_store_was_opened_for() {
    for (durability, survives) in [(Durability::Buffered, Survives::Sync), (Durability::Sync, Survives::Put)] {
        let (_dir, store) = store(durability);
        let can = store.capabilities();
        assert_eq!((can.survives, can.has_history, can.has_upkeep), (survives, true, true));
        assert!(can.lists_in_order && can.lists_from_cursor);
    }
}

/// A store of what `PageRead` requires and nothing else: the rest is the trait's own.
struct Plain(PageStore);

impl PageRead for Plain {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>> {
        PageRead::get(&self.0, lookup)
    }

    fn get_version(&self, lookup: &Lookup<'_>, version: Version) -> Result<Option<Page>> {
        PageRead::get_version(&self.0, lookup, version)
    }

    fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>> {
        PageRead::head(&self.0, lookup)
    }

    fn history<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Results<'s, PageHead>> {
        PageRead::history(&self.0, lookup)
    }

    fn key(&self, url: &[u8]) -> Result<Vec<u8>> {
        PageRead::key(&self.0, url)
    }

    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>> {
        PageRead::list(&self.0, scope, after)
    }

    fn contents(&self) -> Result<Contents> {
        PageRead::contents(&self.0)
    }
}

#[test]
fn the_traits_own_methods_answer_as_those_of_the_local_store() {
    let (_dir, store) = store(Durability::Buffered);
    let variants = [Variant::new("a").expect("fits"), Variant::new("b").expect("fits")];
    for time_ms in 1..4 {
        store.put_page(&page(URL, time_ms, &format!("body {time_ms}"))).expect("a store");
        store.put_page(&page("http://example.com/x", time_ms, "x")).expect("a store");
        for variant in &variants {
            let page = Page { variant: Some(variant.clone()), ..page(URL, time_ms, "v") };
            store.put_page(&page).expect("a store");
        }
    }
    let plain = Plain(store.clone());
    let (own, plain): (&dyn PageRead, &dyn PageRead) = (&store, &plain);
    for lookup in [Lookup::new(URL), Lookup::new(URL).at(2), Lookup::new(URL).variant(&variants[0])] {
        let body = |store: &dyn PageRead| {
            let (page, mut reader) = store.get_reader(&lookup).expect("a store").expect("there");
            let mut body = page.body;
            reader.read_to_end(&mut body).expect("a store");
            body
        };
        assert_eq!(body(own), body(plain));
        assert_eq!(body(own), own.get(&lookup).expect("a store").expect("there").body);
        let versions = own.versions(&lookup).expect("a store");
        assert_eq!(versions, plain.versions(&lookup).expect("a store"));
        for version in versions {
            let found = own.get_version(&lookup, version).expect("a store").expect("there");
            assert_eq!(found.fetched_at_ms, version.time_ms);
        }
    }
    for url in ["http://EXAMPLE.com", "http://example.com/x", "http://absent.example/"] {
        let found = |store: &dyn PageRead| {
            let mut found: Vec<_> =
                store.variants(url.as_bytes()).expect("a store").map(|v| v.expect("whole")).collect();
            found.sort_unstable();
            (
                found,
                store.may_have_variants(url.as_bytes()).expect("a store"),
                store.key(url.as_bytes()).expect("a URL"),
            )
        };
        assert_eq!(found(own), found(plain));
        assert_eq!(found(own).0.len(), if url.len() == 18 { 2 } else { 0 }, "{url}");
    }
    let all = Scope::new();
    for scope in [all.clone(), all.clone().variants(), all.clone().host("example.com"), all.prefix("http://a")] {
        let heads = |store: &dyn PageRead| {
            let mut heads: Vec<_> = store.heads(&scope).expect("a store").map(|head| head.expect("whole")).collect();
            heads.sort_by_key(|head| head.version.sequence);
            heads
        };
        assert_eq!(heads(own), heads(plain), "{scope:?}");
    }
}

#[test]
fn a_store_is_filled_one_by_one_by_stream_and_emptied_through_the_trait() {
    let (_dir, store) = store(Durability::Buffered);
    let write: &dyn PageWrite = &store;
    let version = write.put_reader(&page(URL, 1, "not this"), &mut &b"streamed"[..]).expect("a store");
    assert_eq!(write.get(&Lookup::new(URL)).expect("a store").expect("there").body, b"streamed");
    assert_eq!(version.time_ms, 1);
    let mut load = write.load();
    let rows = [
        (1, "streamed", PutRule::IfNew, None),
        (2, "streamed", PutRule::Restore, Some(false)),
        (2, "streamed", PutRule::Restore, None),
        (3, "streamed", PutRule::RestoreUnchanged, Some(true)),
        (3, "streamed", PutRule::RestoreUnchanged, None),
        (4, "streamed", PutRule::IfChanged, Some(true)),
        (5, "streamed", PutRule::Always, Some(false)),
    ];
    for (time_ms, body, rule, unchanged) in rows {
        let put = load(&page(URL, time_ms, body), rule).expect("a store");
        assert_eq!(put.map(|put| matches!(put, Put::Unchanged(_))), unchanged, "{time_ms} {rule:?}");
    }
    drop(load);
    let variant = Page { variant: Variant::new("v").ok(), ..page("http://b.example/", 9, "v") };
    write.put(&variant, PutRule::Always).expect("a store");
    let mut removed = Vec::new();
    let mut each = |found: Result<filemap::access::Removed<'_>>| {
        let found = found.expect("whole");
        removed.push((found.url.to_vec(), found.is_page, found.is_variant));
        ControlFlow::Continue(())
    };
    assert_eq!(write.remove_all(&Scope::new().host("b.example"), &mut each).expect("a store"), 0);
    assert_eq!(write.remove_all(&Scope::new().prefix("http://example"), &mut each).expect("a store"), 1);
    assert!(removed.contains(&(URL.as_bytes().to_vec(), true, false)));
    assert!(removed.contains(&(b"http://b.example/".to_vec(), false, true)));
    assert_eq!(write.list(&Scope::new(), None).expect("a store").count(), 0);
}
