//! A store of pages through its public face: what is put comes back, by URL, time, host and
//! prefix.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::samples::{self, fresh};
use filemap::canonical::{Exact, UrlError, Whatwg};
use filemap::dump::jsonl;
use filemap::page::RecordKind;
use filemap::store::SharedBody;
use filemap::{Error, Lookup, Options, Page, PageStore, Put};

fn text(name: &str, fetched_at_ms: i64, body: &str) -> Page {
    let mut page = Page::new(name, fetched_at_ms, 200, body);
    page.headers.push("Content-Type", "text/html");
    page
}

fn sorted(urls: filemap::store::Urls) -> Vec<String> {
    let mut urls: Vec<String> = urls.map(|url| String::from_utf8(url.expect("readable")).expect("text")).collect();
    urls.sort_unstable();
    urls
}

#[test]
fn a_page_comes_back_under_every_spelling_of_its_url() {
    let store = fresh();
    let page = text("HTTP://Example.com:80/a/../b#part", 5, "body");
    store.store.put_page(&page).expect("stored");
    for url in ["http://example.com/b", "HTTP://EXAMPLE.COM/b#other", "http://example.com:80/./b"] {
        assert_eq!(store.store.get(url).expect("readable"), Some(page.clone()), "{url}");
        assert!(store.store.contains(url).expect("readable"));
    }
    assert_eq!(store.store.get("http://example.com/c").expect("readable"), None);
}

#[test]
fn the_version_of_a_time_and_the_history_are_found() {
    let fresh = fresh();
    for (time_ms, body) in [(100, "first"), (300, "third"), (200, "second")] {
        fresh.store.put_page(&text("http://a/", time_ms, body)).expect("stored");
    }
    let at =
        |time_ms: i64| fresh.store.get(Lookup::new("http://a/").at(time_ms)).expect("readable").map(|page| page.body);
    assert_eq!((at(99), at(100), at(299)), (None, Some(b"first".to_vec()), Some(b"second".to_vec())));
    assert_eq!(fresh.store.get("http://a/").expect("readable").expect("there").body, b"third");
    let history = fresh.store.history("http://a/").expect("readable");
    assert_eq!(history.iter().map(|head| head.page.fetched_at_ms).collect::<Vec<_>>(), [300, 200, 100]);
    let oldest = fresh.store.get_version("http://a/", history[2].version).expect("readable").expect("there");
    assert_eq!(oldest.body, b"first");
    assert_eq!(fresh.store.head(Lookup::new("http://a/").at(250)).expect("readable").expect("there").body_bytes, 6);
}

#[test]
fn an_unchanged_body_is_a_reference_with_headers_of_its_own() {
    let fresh = fresh();
    let body = "the same ".repeat(1000);
    let mut page = text("http://a/", 1, &body);
    assert!(matches!(fresh.store.put_page_if_changed(&page).expect("stored"), Put::Stored(_)));
    page.fetched_at_ms = 2;
    page.headers.push("Date", "later");
    assert!(matches!(fresh.store.put_page_if_changed(&page).expect("stored"), Put::Unchanged(_)));
    assert_eq!(fresh.store.get("http://a/").expect("readable"), Some(page));
    let head = fresh.store.head("http://a/").expect("readable").expect("there");
    assert!(head.unchanged_since.is_some() && head.body_bytes == 9000, "{head:?}");
}

#[test]
fn the_very_same_version_is_put_only_once() {
    let fresh = fresh();
    let pages = [
        text("http://a/", 1, "one"),
        text("http://a/", 1, "two"),
        text("http://a/", 2, "one"),
        text("http://b/", 1, ""),
    ];
    for page in &pages {
        assert!(fresh.store.put_page_if_new(page).expect("stored").is_some());
    }
    for page in &pages {
        assert_eq!(fresh.store.put_page_if_new(page).expect("readable"), None);
    }
    let mut other = pages[3].clone();
    other.headers.push("Location", "/x");
    assert!(fresh.store.put_page_if_new(&other).expect("stored").is_some(), "no body, other headers");
    let mut other = pages[0].clone();
    other.status = Some(404);
    assert!(fresh.store.put_page_if_new(&other).expect("stored").is_some(), "the same body, another status");
    other.headers.push("Server", "x");
    assert!(fresh.store.put_page_if_new(&other).expect("stored").is_some(), "the same body, other headers");
    other.record_id = Some("<urn:x>".into());
    assert_eq!(fresh.store.put_page_if_new(&other).expect("readable"), None, "the record's id says nothing");
    assert_eq!(fresh.store.versions().count(), 7);
}

#[test]
fn many_pages_are_read_together() {
    let fresh = fresh();
    for at in 0..50 {
        fresh.store.put_page(&text(&format!("http://a/{at}"), 1, &at.to_string())).expect("stored");
    }
    let urls: Vec<String> = (0..60).map(|at| format!("http://A/{at}")).collect();
    let pages = fresh.store.get_many(&urls).expect("readable");
    for (at, page) in pages.into_iter().enumerate() {
        assert_eq!(page.map(|page| page.body), (at < 50).then(|| at.to_string().into_bytes()));
    }
    let with_bad = urls[..30].iter().map(String::as_str).chain(["no URL"]).chain(urls[30..].iter().map(String::as_str));
    let ahead: Vec<_> = fresh.store.get_ahead(with_bad.clone(), 8).collect();
    assert!(ahead.iter().map(|(url, _)| *url).eq(with_bad));
    for (url, page) in ahead {
        match page {
            Ok(page) => assert_eq!(page, fresh.store.get(url).expect("readable")),
            Err(error) => assert!(url == "no URL" && error.to_string().contains(url), "{error}"),
        }
    }
}

#[test]
fn urls_are_listed_all_by_host_and_by_prefix() {
    let fresh = fresh();
    let urls = [
        "http://a.example/",
        "http://a.example/x",
        "https://a.example:8080/y",
        "http://b.example/a.example/",
        "mailto:a",
    ];
    for url in urls {
        fresh.store.put_page(&text(url, 1, "x")).expect("stored");
        fresh.store.put_page(&Page { kind: RecordKind::Request, ..text(url, 1, "q") }).expect("stored");
    }
    let mut all = urls.map(str::to_owned);
    all.sort_unstable();
    assert_eq!(sorted(fresh.store.urls()), all);
    let of_host = ["http://a.example/", "http://a.example/x", "https://a.example:8080/y"];
    assert_eq!(sorted(fresh.store.urls_of_host("A.Example")), of_host);
    assert_eq!(sorted(fresh.store.urls_with_prefix("http://a")), of_host[..2]);
    assert_eq!(sorted(fresh.store.urls_where(|key| key.ends_with(b"y"))), of_host[2..]);
    assert_eq!(
        fresh.store.pages().map(|page| page.expect("readable").kind).collect::<Vec<_>>(),
        [RecordKind::Response; 5]
    );
}

#[test]
fn other_records_of_a_url_never_stand_in_its_pages_place() {
    let fresh = fresh();
    for kind in [RecordKind::Request, RecordKind::Metadata, RecordKind::Conversion] {
        fresh.store.put_page(&Page { kind, ..text("http://a/", 9, kind.name()) }).expect("stored");
    }
    assert_eq!(fresh.store.get("http://a/").expect("readable"), None);
    fresh.store.put_page(&text("http://a/", 1, "page")).expect("stored");
    assert_eq!(fresh.store.get("http://a/").expect("readable").expect("there").body, b"page");
    let request = fresh.store.get_beside("http://a/", RecordKind::Request).expect("readable").expect("there");
    assert_eq!(request.body, b"request");
    assert_eq!(fresh.store.history_beside("http://a/", RecordKind::Metadata).expect("readable").count(), 1);
    assert!(fresh.store.remove("http://a/").expect("writable"));
    assert_eq!(fresh.store.get_beside("http://a/", RecordKind::Request).expect("readable"), None);
    assert!(!fresh.store.remove("http://a/").expect("writable"));
}

#[test]
fn a_body_passes_from_reader_to_reader() {
    let fresh = fresh();
    let size = 5_000_000u64;
    let page = text("http://a/", 1, "");
    fresh.store.put_page_reader(&page, &mut std::io::repeat(b'x').take(size)).expect("stored");
    let (head, mut body) = fresh.store.get_reader("http://a/").expect("readable").expect("there");
    assert_eq!(head, page);
    assert_eq!(std::io::copy(&mut body, &mut std::io::sink()).expect("readable"), size);
}

#[test]
fn any_version_reads_as_a_stream_from_any_place_of_its_body() {
    let fresh = fresh();
    // The second: a header section too large for the meta stands before the body, in one value.
    let small = text("http://a/", 2, "second");
    let mut spilled = text("http://a/", 3, "");
    spilled.headers.push("X-Large", vec![b'h'; 100_000]);
    let bodies: [Vec<u8>; 3] = [
        (0..3_000_000u32).flat_map(u32::to_le_bytes).take(5_000_001).collect(),
        b"second".to_vec(),
        (0..1_500_000u32).rev().flat_map(u32::to_le_bytes).collect(),
    ];
    fresh.store.put_page_reader(&text("http://a/", 1, ""), &mut &bodies[0][..]).expect("stored");
    fresh.store.put_page(&small).expect("stored");
    fresh.store.put_page_reader(&spilled, &mut &bodies[2][..]).expect("stored");
    let versions = fresh.store.versions_of("http://a/").expect("readable");
    for (time_ms, body) in (1..).zip(&bodies) {
        let lookup = Lookup::new("http://a/").at(time_ms);
        let (page, mut reader) = fresh.store.get_reader(lookup).expect("readable").expect("there");
        assert_eq!((page.fetched_at_ms, reader.version()), (time_ms, versions[3 - time_ms as usize]));
        assert_eq!(reader.remaining(), body.len() as u64);
        let len = body.len() as u64;
        for at in [len / 2, 0, len, len - 1, 1 << 20, 3, (1 << 20) - 1] {
            let read_from = reader.seek(SeekFrom::Start(at)).expect("a place");
            assert_eq!((read_from, reader.stream_position().expect("a place")), (at, at));
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).expect("readable");
            assert!(rest == body[(at.min(len)) as usize..], "from {at} of {time_ms}");
            let again = fresh.store.get_reader(lookup).expect("readable").expect("there").1;
            let in_memory = again.in_memory().map(<[u8]>::to_vec);
            let taken = again.into_memory().ok().map(SharedBody::into_vec);
            assert_eq!(taken, in_memory, "what is there comes without a copy");
        }
        assert_eq!(reader.seek(SeekFrom::End(-1)).expect("a place"), len - 1);
        assert!(reader.seek(SeekFrom::Current(-(len as i64))).is_err(), "before the beginning");
        assert_eq!(reader.stream_position().expect("a place"), len - 1);
        let again = fresh.store.get_version_reader("http://a/", reader.version()).expect("readable").expect("there");
        assert_eq!((again.0, again.1.digest()), (page, reader.digest()));
    }
    assert!(fresh.store.get_reader(Lookup::new("http://a/").at(0)).expect("readable").is_none());
}

#[test]
fn a_shared_body_is_that_of_any_page_and_the_caches_own_if_it_is_cached() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options::new().value_cache_bytes(64 << 20);
    let store = PageStore::create(dir.path().join("s"), options).expect("a store");
    let large = "large ".repeat(500_000);
    // A header section too large for the meta stands before the body, in one value.
    let mut spilled = text("http://a/spilled", 1, "after the headers");
    spilled.headers.push("X-Large", vec![b'h'; 100_000]);
    let pages =
        [text("http://a/", 1, "body"), spilled, text("http://a/empty", 1, ""), text("http://a/large", 1, &large)];
    for page in &pages {
        store.put_page(page).expect("stored");
    }
    for round in 0..2 {
        for page in &pages {
            let url = String::from_utf8_lossy(&page.url).into_owned();
            let (found, body) = store.get_shared(url.as_str()).expect("readable").expect("there");
            assert!(body[..] == page.body[..], "{url}");
            assert_eq!(body.is_shared(), round == 1 && !url.ends_with("large"), "{url}");
            assert_eq!(Page { body: body.into_vec(), ..found }, *page);
        }
    }
    assert!(store.get_shared("http://a/other").expect("readable").is_none());
}

#[test]
fn the_canonicaliser_of_a_store_is_kept_and_another_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("s");
    let store = PageStore::create_with(&path, Arc::new(Exact), Options::new()).expect("a store");
    store.put_page(&text("HTTP://A/#x", 1, "x")).expect("stored");
    store.close().expect("closed");
    let store = PageStore::open(&path, Options::new()).expect("opened");
    assert_eq!(store.canonicalizer().name(), "exact");
    assert!(store.contains("HTTP://A/#x").expect("readable") && !store.contains("http://a/").expect("readable"));
    drop(store);
    let error = PageStore::open_with(&path, Arc::new(Whatwg), Options::new()).expect_err("another");
    let words = error.to_string();
    assert!(words.contains("exact") && words.contains("whatwg") && words.contains("dump"), "{words}");
    assert_eq!(PageStore::open_or_create(&path, Options::new()).expect("opened").canonicalizer().name(), "exact");
}

#[test]
fn a_canonicaliser_that_this_build_does_not_know_is_an_error_that_says_how_to_move() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("s");
    drop(filemap_core::Store::create(&path, Options::new().canonicalizer("whatwg", 9)).expect("a store"));
    let error = PageStore::open(&path, Options::new()).expect_err("unknown");
    let words = error.to_string();
    assert!(matches!(error, Error::UnknownCanonicalizer { version: 9, .. }) && words.contains("dump"), "{words}");
}

#[test]
fn open_or_create_makes_a_store_where_there_is_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("s");
    PageStore::open_or_create(&path, Options::new())
        .expect("created")
        .put_page(&text("http://a/", 1, "x"))
        .expect("stored");
    assert!(PageStore::open_or_create(&path, Options::new()).expect("opened").contains("http://a/").expect("readable"));
    assert!(PageStore::open(dir.path().join("none"), Options::new()).is_err());
    assert!(!dir.path().join("none").exists());
}

#[test]
fn urls_that_cannot_be_keys_are_errors_and_nothing_is_written() {
    let fresh = fresh();
    let put = |url: &[u8]| fresh.store.put_page(&Page::new(url, 1, 200, "x"));
    assert!(matches!(put(b""), Err(Error::Url { source: UrlError::Empty, .. })));
    assert!(matches!(put(b"http://\xe9/"), Err(Error::Url { source: UrlError::Invalid { .. }, .. })));
    assert!(matches!(put(b"no url"), Err(Error::Url { .. })));
    let longest = format!("http://a/{}", "x".repeat(65_536 - 9));
    assert!(put(longest.as_bytes()).is_ok());
    assert!(fresh.store.get(&longest).expect("readable").is_some());
    let error = put(format!("{longest}x").as_bytes()).expect_err("too long");
    assert!(matches!(error, Error::Engine(filemap_core::Error::KeyLength { len: 65_537 })), "{error}");
    assert!(fresh.store.remove(&longest).expect("writable"), "although no record can stand beside it");
    assert_eq!(fresh.store.urls().count(), 0);
}

#[test]
fn a_dump_loaded_into_another_store_gives_the_same_pages() {
    let from = fresh();
    samples::run_sample(
        &from.store,
        "IAH-urls-wget.warc.gz",
        &filemap::import::ImportOptions::new().keep(RecordKind::Request),
    );
    let mut lines = Vec::new();
    for page in from.store.versions() {
        jsonl::write(&page.expect("readable"), &mut lines).expect("memory");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let to = PageStore::create_with(dir.path().join("s"), Arc::new(Exact), Options::new()).expect("a store");
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        to.put_page(&jsonl::read(line).expect("a page")).expect("stored");
    }
    let all = |store: &PageStore| -> BTreeSet<String> {
        store.versions().map(|page| format!("{:?}", page.expect("readable"))).collect()
    };
    assert_eq!(all(&from.store), all(&to));
    assert_eq!(to.versions().count(), 35);
}
