//! Listings and counts in the order of URLs, beside a model that is sorted: from every cursor, in
//! both directions, under random work.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use filemap::access::{Cursor, ListKind, Listed, Removed, Scope};
use filemap::page::RecordKind;
use filemap::store::page_options;
use filemap::{Error, Options, Page, PageRead, PageStore, Variant};
use filemap_core::Store;
use proptest::prelude::*;

/// URLs whose places in the order differ in one thing each, and some that have no place among
/// them.
const URLS: [&str; 40] = [
    "http://a.com/",
    "https://a.com/",
    "http://a.com:8080/",
    "https://a.com:8443/",
    "http://a.com/d",
    "https://a.com/d",
    "http://a.com/d/",
    "http://a.com/d/e",
    "http://a.com/d?e",
    "http://a.com/d;e",
    "http://a.com/da",
    "http://a.com/D",
    "http://a.com/%FF",
    "http://a.com/http://b.com/",
    "http://b.a.com/",
    "http://b.a.com/d",
    "http://c.b.a.com/",
    "http://c.a.com/",
    "http://www.a.com/d/e/f",
    "http://aa.com/",
    "http://a-b.com/",
    "http://com/",
    "http://a.com.br/",
    "http://a.org/",
    "http://b\u{fc}cher.example/",
    "http://1.2.3.4/",
    "http://1.2.3.40/",
    "http://[::1]/",
    "http://[::1]:81/d",
    "ftp://a.com/",
    "ftp://b.a.com/d",
    "http://user@a.com/",
    "https://user@a.com/d",
    "urn:isbn:1",
    "urn:a.com",
    "data:,x",
    "mailto:x@a.com",
    "file:///d",
    "http://x.localhost/",
    "http://y.localhost/",
];

fn scopes() -> Vec<Scope> {
    let all = Scope::new;
    let mut scopes = vec![
        all(),
        all().host("a.com"),
        all().host("A.COM").prefix("https://a.com/"),
        all().host("a.com").domain("b.a.com"),
        all().host("b.a.com").domain("a.com"),
        all().host("absent.example"),
        all().host("1.2.3.4"),
        all().host("[::1]"),
        all().host("b\u{fc}cher.example"),
        all().domain("a.com"),
        all().domain("com"),
        all().domain("localhost").prefix("http://y"),
        all().domain("a.com").prefix("ftp:"),
    ];
    let prefixes: [&[u8]; 15] = [
        b"http://a.com/",
        b"http://a.com/d",
        b"https://a.com/d",
        b"http://a.com:8080/",
        b"http://a.com",
        b"http://a",
        b"http:",
        b"https://",
        b"h",
        b"u",
        b"urn:isbn:1",
        b"ftp://a.com/",
        b"http://user@a.com/",
        b"http://a.com/d\0",
        b"\0",
    ];
    scopes.extend(prefixes.map(|prefix| all().prefix(prefix)));
    scopes.iter().flat_map(|scope| [scope.clone(), scope.clone().variants()]).collect()
}

/// Sort key of a URL: those of `http` and `https` with a bare host by its labels, the last first.
fn place(url: &[u8]) -> (bool, Vec<String>, Vec<u8>, Vec<u8>) {
    let other = || (true, Vec::new(), url.to_vec(), Vec::new());
    let Ok(text) = str::from_utf8(url) else { return other() };
    let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| scheme.starts_with("http")) else {
        return other();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return other();
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse::<u16>().expect("a port").to_be_bytes().to_vec())
        }
        _ => (authority, Vec::new()),
    };
    let is_address = host.starts_with('[') || host.ends_with(|last: char| last.is_ascii_digit());
    let labels = match is_address {
        true => vec![host.to_owned()],
        false => host.split('.').rev().map(str::to_owned).collect(),
    };
    (false, labels, path.into(), [scheme.as_bytes(), &port].concat())
}

type Entry = (Vec<u8>, Option<Variant>);

/// Pages, with those of their variants that are there.
#[derive(Default)]
struct Model {
    pages: BTreeSet<Vec<u8>>,
    variants: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
}

impl Model {
    fn listed(&self, scope: &Scope) -> Vec<Entry> {
        let takes = scope.filter();
        let pages = self.pages.iter().map(|url| (url.clone(), None));
        let variant = |bytes: &Vec<u8>| Some(Variant::new(bytes.clone()).expect("fits"));
        let of_url = |(url, variants): (&Vec<u8>, &BTreeSet<Vec<u8>>)| {
            variants.iter().map(|bytes| (url.clone(), variant(bytes))).collect::<Vec<_>>()
        };
        let mut listed: Vec<Entry> = match scope.kind {
            ListKind::Pages => pages.collect(),
            ListKind::Variants => self.variants.iter().flat_map(of_url).collect(),
        };
        listed.retain(|(url, _)| takes(url));
        let key = |(url, variant): &Entry| (place(url), variant.as_ref().map(|variant| variant.as_bytes().to_vec()));
        match scope.is_backwards {
            false => listed.sort_by_key(key),
            true => listed.sort_by_key(|entry| Reverse(key(entry))),
        }
        listed
    }
}

fn listed(store: &PageStore, scope: &Scope, after: Option<&Cursor>) -> Vec<Listed> {
    store.listing(scope, after).expect("a listing").map(|listed| listed.expect("whole")).collect()
}

fn entries(listed: &[Listed]) -> Vec<Entry> {
    listed.iter().map(|listed| (listed.url.clone(), listed.variant.clone())).collect()
}

/// Compares every listing and count, and the variants of each URL; with `cursors`, also from each
/// cursor on, both ways.
fn compare(store: &PageStore, model: &Model, cursors: bool) {
    for url in URLS {
        let found = store.variants(url).expect("a store").map(|found| found.expect("whole"));
        let found: BTreeSet<Vec<u8>> = found.map(|(_, variant)| variant.as_bytes().to_vec()).collect();
        let expected = model.variants.get(&store.key(url).expect("a URL"));
        assert_eq!(found, expected.cloned().unwrap_or_default(), "{url}");
    }
    for forwards in scopes() {
        let backwards = forwards.clone().backwards();
        let expected = model.listed(&forwards);
        assert_eq!(store.count(&forwards).expect("a number"), expected.len() as u64, "{forwards:?}");
        assert_eq!(store.count(&backwards).expect("a number"), expected.len() as u64, "{backwards:?}");
        for (there, back) in [(&forwards, &backwards), (&backwards, &forwards)] {
            let all = listed(store, there, None);
            assert_eq!(entries(&all), model.listed(there), "{there:?}");
            for (at, entry) in all.iter().enumerate().filter(|_| cursors) {
                let cursor = entry.cursor.as_ref();
                assert!(cursor.is_some());
                assert_eq!(listed(store, there, cursor), all[at + 1..], "{there:?} {cursor:?}");
                let before: Vec<Entry> = entries(&all[..at]).into_iter().rev().collect();
                assert_eq!(entries(&listed(store, back, cursor)), before, "{back:?} {cursor:?}");
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Put(usize),
    PutVariant(usize, u8),
    PutRequest(usize),
    Remove(usize),
    RemoveVariant(usize, u8),
    /// All in the scope of this number.
    RemoveIn(usize),
    Checkpoint,
    Compact,
    Reopen,
    Compare,
}

fn op() -> impl Strategy<Value = Op> {
    let (url, variant) = (0..URLS.len(), 0..3u8);
    prop_oneof![
        12 => url.clone().prop_map(Op::Put),
        5 => (url.clone(), variant.clone()).prop_map(|(url, variant)| Op::PutVariant(url, variant)),
        2 => url.clone().prop_map(Op::PutRequest),
        4 => url.clone().prop_map(Op::Remove),
        1 => (2..scopes().len()).prop_map(Op::RemoveIn),
        2 => (url, variant).prop_map(|(url, variant)| Op::RemoveVariant(url, variant)),
        2 => Just(Op::Checkpoint),
        1 => Just(Op::Compact),
        2 => Just(Op::Reopen),
        1 => Just(Op::Compare),
    ]
}

/// Variants whose bytes look like ends of paths and leads of the order.
fn variant(number: u8) -> Variant {
    let bytes: [&[u8]; 3] = [b"POST", b"\x01\x05\0", b"\x80\xff"];
    Variant::new(bytes[usize::from(number)]).expect("it fits")
}

fn options() -> Options {
    Options::new().free_space_floor(0)
}

fn perform(store: &PageStore, model: &mut Model, op: Op, time_ms: i64) {
    let page = |url: usize| Page::new(URLS[url], time_ms, 200, format!("body {time_ms}"));
    let key = |url: usize| store.key(URLS[url]).expect("a URL");
    match op {
        Op::Put(url) => {
            store.put_page(&page(url)).expect("it fits");
            model.pages.insert(key(url));
        }
        Op::PutVariant(url, number) => {
            store.put_page(&Page { variant: Some(variant(number)), ..page(url) }).expect("it fits");
            model.variants.entry(key(url)).or_default().insert(variant(number).as_bytes().to_vec());
        }
        Op::PutRequest(url) => {
            store.put_page(&Page { kind: RecordKind::Request, ..page(url) }).expect("it fits");
        }
        Op::Remove(url) => {
            store.remove(URLS[url]).expect("a store");
            model.pages.remove(&key(url));
            model.variants.remove(&key(url));
        }
        Op::RemoveVariant(url, number) => {
            store.remove_variant(URLS[url], &variant(number)).expect("a store");
            if let Some(variants) = model.variants.get_mut(&key(url)) {
                variants.remove(variant(number).as_bytes());
            }
        }
        Op::RemoveIn(at) => {
            let scope = &scopes()[at];
            let (takes, before) = (scope.filter(), model.pages.len());
            model.pages.retain(|url| !takes(url));
            model.variants.retain(|url, _| !takes(url));
            let each = &mut |removed: filemap::Result<Removed<'_>>| {
                assert!(takes(removed.expect("whole").url));
                ControlFlow::Continue(())
            };
            let removed = store.remove_in(scope, each).expect("a store");
            assert_eq!(removed as usize, before - model.pages.len(), "{scope:?}");
        }
        Op::Checkpoint => store.engine().checkpoint().expect("a store"),
        Op::Compact => drop(store.engine().compact().expect("a store")),
        Op::Compare => compare(store, model, false),
        Op::Reopen => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_listed_and_counted_is_what_was_put_in_order(ops in proptest::collection::vec(op(), 1..120)) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("s");
        let mut store = PageStore::create(&path, options()).expect("a store");
        let mut model = Model::default();
        for (at, op) in ops.into_iter().enumerate() {
            if matches!(op, Op::Reopen) {
                store.close().expect("closed");
                store = PageStore::open(&path, options()).expect("a store");
            }
            perform(&store, &mut model, op, at as i64);
        }
        compare(&store, &model, false);
    }
}

#[test]
fn a_listing_continues_from_every_entry_both_ways_in_memory_on_disk_and_in_a_follower() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("s");
    let store = PageStore::create(&path, options()).expect("a store");
    let mut model = Model::default();
    for (at, url) in (0..URLS.len()).rev().enumerate() {
        perform(&store, &mut model, Op::Put(url), at as i64);
        perform(&store, &mut model, Op::PutVariant(url, (url % 3) as u8), at as i64);
        perform(&store, &mut model, Op::PutVariant(url, (url % 2) as u8), at as i64);
        if url == URLS.len() / 2 {
            store.engine().checkpoint().expect("a store");
        }
    }
    let removed = [Op::Remove(4), Op::Remove(30), Op::RemoveVariant(0, 0)];
    removed.into_iter().for_each(|op| perform(&store, &mut model, op, 99));
    compare(&store, &model, true);
    let follower = PageStore::open_read_only(&path, Options::new()).expect("a store");
    compare(&follower, &model, false);
    drop(follower);
    let cursor = store.listing(&Scope::new(), None).expect("a store").nth(9).expect("an entry").expect("whole").cursor;
    store.close().expect("closed");
    let store = PageStore::open(&path, options()).expect("a store");
    compare(&store, &model, true);
    assert_eq!(listed(&store, &Scope::new(), cursor.as_ref()).len(), model.pages.len() - 10);
}

fn put_all(store: &PageStore) {
    for url in URLS {
        store.put_page(&Page::new(url, 1, 200, "x")).expect("it fits");
    }
}

#[test]
fn the_urls_of_a_host_a_domain_and_a_prefix_come_in_order_with_their_cursors() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("s"), options()).expect("a store");
    put_all(&store);
    let texts = |urls: filemap::store::Urls| -> Vec<String> {
        urls.map(|url| String::from_utf8(url.expect("whole")).expect("text")).collect()
    };
    assert_eq!(
        texts(store.urls_of_domain("B.a.com")),
        ["http://b.a.com/", "http://b.a.com/d", "http://c.b.a.com/", "ftp://b.a.com/d"]
    );
    assert_eq!(texts(store.urls_of_host("[::1]")), ["http://[::1]/", "http://[::1]:81/d"]);
    assert_eq!(texts(store.urls_with_prefix("https://a.com/d")), ["https://a.com/d"]);
    assert_eq!(texts(store.urls()).len(), URLS.len());
    let mut urls = store.urls_of_host("a.com");
    assert_eq!(urls.cursor(), None);
    assert_eq!(urls.by_ref().nth(2).expect("a URL").expect("whole"), b"https://a.com/");
    let cursor = urls.cursor().expect("a cursor");
    assert_eq!(store.cursor("HTTPS://A.com").expect("a URL"), cursor);
    assert_eq!(listed(&store, &Scope::new().host("a.com"), Some(&cursor)).len(), urls.count());
    // A place needs no page.
    let cursor = store.cursor("http://b.a.com/c").expect("a URL");
    assert_eq!(listed(&store, &Scope::new(), Some(&cursor))[0].url, b"http://b.a.com/d");
    assert!(matches!(store.cursor("no URL"), Err(Error::Url { .. })));
}

#[test]
fn a_listing_gives_up_after_so_many_keys_and_goes_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("s"), options()).expect("a store");
    put_all(&store);
    // Over all pages: the prefix ends within the host.
    let mut listing = store.listing(&Scope::new().prefix("http://y"), None).expect("a store");
    let (mut found, mut pauses) = (Vec::new(), 0);
    while let Some(step) = listing.next_within(4) {
        match step {
            Some(entry) => found.push(entry.expect("whole").url),
            None => pauses += 1,
        }
    }
    assert_eq!(found, [b"http://y.localhost/"]);
    assert_eq!(pauses, (URLS.len() - 9 - 1) / 4, "of those that are http or https, and of the others none");
}

#[test]
fn bytes_that_are_no_cursor_of_the_listing_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("s"), options()).expect("a store");
    let page = Page::new("http://a.com/", 1, 200, "x");
    store.put_page(&page).expect("it fits");
    store.put_page(&Page { variant: Some(variant(0)), ..page }).expect("it fits");
    let cursor = |scope: Scope| listed(&store, &scope, None)[0].cursor.clone().expect("a cursor").0;
    let (of_page, of_variant) = (cursor(Scope::new()), cursor(Scope::new().variants()));
    let others =
        [vec![], vec![1], of_page[1..].to_vec(), [&[2], &of_page[1..]].concat(), [&of_page[..], b"x"].concat()];
    for kind in [Scope::new(), Scope::new().variants(), Scope::new().host("a.com").backwards()] {
        let other = if kind.kind == ListKind::Pages { &of_variant } else { &of_page };
        for bytes in others.iter().chain([other, &b"\x01\x83com\x02a\x01/\x03\0request".to_vec()]) {
            let refused = store.listing(&kind, Some(&Cursor(bytes.clone())));
            let Err(Error::Cursor { what }) = refused.map(|_| ()) else { panic!("{}", bytes.escape_ascii()) };
            assert!(!what.is_empty());
        }
    }
    assert_eq!(listed(&store, &Scope::new(), Some(&Cursor(of_page))), []);
}

#[test]
fn a_store_without_order_lists_and_counts_all_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = || page_options(options().canonicalizer("whatwg", 1)).end_key_order();
    let store = PageStore::over(Store::create(dir.path().join("s"), options()).expect("a store")).expect("known");
    let mut model = Model::default();
    for url in 0..URLS.len() {
        perform(&store, &mut model, Op::Put(url), 1);
        perform(&store, &mut model, Op::PutVariant(url, (url % 3) as u8), 2);
    }
    let can = store.capabilities();
    assert!(!can.lists_in_order && !can.lists_from_cursor);
    for scope in scopes() {
        let found = listed(&store, &scope, None);
        assert!(found.iter().all(|entry| entry.cursor.is_none()));
        let mut found = entries(&found);
        found.sort_by_key(|(url, _)| place(url));
        assert_eq!(found, model.listed(&scope), "{scope:?}");
        assert_eq!(store.count(&scope).expect("a number"), found.len() as u64);
        assert_eq!(store.count(&scope.clone().backwards()).expect("a number"), found.len() as u64);
        assert!(matches!(store.listing(&scope.backwards(), None), Err(Error::Unsupported { .. })));
    }
    assert!(matches!(store.cursor("http://a.com/"), Err(Error::Unsupported { .. })));
    let cursor = Cursor(b"\x01com\x02a\x01/\x03".to_vec());
    let refused = store.listing(&Scope::new(), Some(&cursor)).map(|_| ());
    assert_eq!(
        refused.expect_err("no order").to_string(),
        "this store has no key order, which a cursor needs: a repair makes one"
    );
}

#[test]
fn pages_by_host_are_those_of_the_host_also_of_one_with_very_many() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("s"), options()).expect("a store");
    let many = (0..700).map(|page| format!("http://many.example:{}/{page}", 80 + page % 3));
    let enough = (0..256).map(|page| format!("https://enough.example/{page}"));
    for url in URLS.into_iter().map(str::to_owned).chain(many).chain(enough) {
        store.put_page(&Page::new(url, 1, 200, "x")).expect("it fits");
    }
    let page = Page::new("http://many.example/0", 1, 200, "x");
    store.put_page(&Page { variant: Some(variant(0)), ..page }).expect("it fits");
    for scope in scopes().into_iter().chain([Scope::new().domain("example"), Scope::new().prefix("http://many")]) {
        let mut found = BTreeMap::new();
        let each = &mut |host: &[u8], pages: u64| {
            *found.entry(host.to_vec()).or_insert(0) += pages;
            ControlFlow::Continue(())
        };
        store.pages_by_host(&scope, each).expect("a store");
        let mut expected = BTreeMap::new();
        for entry in listed(&store, &scope, None) {
            *expected.entry(urlindex::host(&entry.url).unwrap_or_default().to_vec()).or_insert(0) += 1;
        }
        assert_eq!(found, expected, "{scope:?}");
    }
    let mut calls = 0;
    let once = &mut |_: &[u8], _| {
        calls += 1;
        ControlFlow::Break(())
    };
    store.pages_by_host(&Scope::new(), once).expect("a store");
    assert_eq!(calls, 1);
}
