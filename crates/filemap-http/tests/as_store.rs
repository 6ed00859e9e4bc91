//! A client returns what the store itself returns.

use std::io::Read;
use std::ops::ControlFlow;

use filemap::access::{PutRule, Scope, Survives};
use filemap::erase::{EraseOrder, EraseTarget};
use filemap::page::RecordKind;
use filemap::{Error, Lookup, Options, Page, PageRead, PageStore, PageWrite, Put, Variant};
use filemap_http::server::ServerOptions;
use filemap_http::{Client, ClientOptions};

use crate::served::{Served, of, served};

const TIME: i64 = 1_700_000_000_000;

/// The same pages in a local store and behind a server.
fn both() -> (Served, Client, PageStore, tempfile::TempDir) {
    let server = served(&[]);
    let client = server.client();
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("a"), Options::new()).expect("a store");
    for page in pages() {
        for target in [&client as &dyn PageWrite, &store] {
            assert!(matches!(target.put(&page, PutRule::Always).expect("stored"), Some(Put::Stored(_))));
        }
    }
    (server, client, store, dir)
}

fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    for (nth, host) in ["a.example", "b.a.example", "c.example"].into_iter().enumerate() {
        for path in 0..40 {
            let url = format!("http://{host}/page/{path}?q=%26&r=\u{fc}");
            let mut page = Page::new(url, TIME + nth as i64, 200, format!("body {path}"));
            page.headers.push("Content-Type", "text/plain");
            page.headers.push("X-Odd", b"\xff\x01".to_vec());
            page.reason = b"Fine".to_vec();
            pages.push(page);
        }
    }
    for time_ms in [TIME, TIME + 1, TIME + 1000] {
        let mut page = Page::new("http://a.example/history", time_ms, 200, vec![0, 255, time_ms as u8]);
        page.ip = Some("::1".parse().expect("an address"));
        page.truncated = Some("length".to_owned());
        page.record_id = Some(format!("<urn:uuid:{time_ms}>"));
        page.variant = None;
        pages.push(page);
    }
    let variant = Variant::of_request("POST", Some(b"text/plain"), b"a&b=\xff");
    pages.push(Page { variant, ..Page::new("http://a.example/history", TIME, 201, "posted") });
    let alone = Variant::new("alone").ok();
    pages.push(Page { variant: alone, ..Page::new("http://c.example/only-a-variant", TIME, 200, "x") });
    pages.push(Page { kind: RecordKind::Resource, status: None, ..Page::new("dns:a.example", TIME, 1, "127.0.0.1") });
    pages
}

fn listed(store: &dyn PageRead, scope: &Scope) -> Vec<(Vec<u8>, Option<Variant>)> {
    let listed = store.list(scope, None).expect("listed");
    listed.map(|entry| entry.map(|entry| (entry.url, entry.variant)).expect("readable")).collect()
}

#[test]
fn pages_versions_and_lists_are_those_of_the_store() {
    let (_server, client, store, _dir) = both();
    let remote: &dyn PageRead = &client;
    let local: &dyn PageRead = &store;
    for page in pages() {
        let now = Lookup::new(&page.url).variant(page.variant.as_ref());
        for lookup in [now, now.at(page.fetched_at_ms), now.at(TIME - 1)] {
            let found = local.get(&lookup).expect("readable");
            assert_eq!(remote.get(&lookup).expect("readable"), found);
            assert_eq!(remote.contains(&lookup).expect("readable"), found.is_some());
            let streamed = remote.get_reader(&lookup).expect("readable").map(|(mut page, mut body)| {
                body.read_to_end(&mut page.body).expect("readable");
                page
            });
            assert_eq!(streamed, found);
            let heads =
                |store: &dyn PageRead| store.head(&lookup).expect("readable").map(|head| (head.page, head.body_bytes));
            assert_eq!(heads(remote), heads(local));
        }
        let versions = |store: &dyn PageRead| -> Vec<i64> {
            store.versions(&now).expect("readable").iter().map(|version| version.time_ms).collect()
        };
        assert_eq!(versions(remote), versions(local));
        for version in remote.versions(&now).expect("readable") {
            let found = remote.get_version(&now, version).expect("readable").expect("there");
            assert_eq!(found.fetched_at_ms, version.time_ms);
        }
        assert_eq!(remote.key(&page.url).expect("a URL"), local.key(&page.url).expect("a URL"));
        assert_eq!(
            remote.may_have_variants(&page.url).expect("readable"),
            local.may_have_variants(&page.url).expect("readable")
        );
    }
    for scope in [
        Scope::new(),
        Scope::new().backwards(),
        Scope::new().host("a.example"),
        Scope::new().domain("a.example"),
        Scope::new().prefix("http://c.example/page/1"),
        Scope::new().variants(),
        Scope::new().host("nowhere.example"),
    ] {
        assert_eq!(listed(remote, &scope), listed(local, &scope), "{scope:?}");
        assert_eq!(remote.count(&scope).expect("counted"), local.count(&scope).expect("counted"), "{scope:?}");
    }
    let place = remote.cursor(b"http://a.example/page/5").expect("a place");
    assert_eq!(place, local.cursor(b"http://a.example/page/5").expect("a place"));
    let entries = |store: &dyn PageRead| -> Vec<_> {
        store.list(&Scope::new(), None).expect("listed").map(|entry| entry.expect("readable")).collect()
    };
    assert_eq!(entries(remote), entries(local), "with their cursors");
    let rest = |store: &dyn PageRead| store.list(&Scope::new(), Some(&place)).expect("listed").count();
    assert_eq!(rest(remote), rest(local));
    for far in [i64::MAX, i64::MIN, 253_402_300_800_000] {
        let lookup = Lookup::new("http://a.example/history").at(far);
        assert_eq!(remote.get(&lookup).expect("readable"), local.get(&lookup).expect("readable"), "{far}");
    }
    let promises = remote.capabilities();
    assert!(promises.has_history && promises.lists_in_order && promises.lists_from_cursor && !promises.has_upkeep);
    assert_eq!(promises.survives, Survives::Sync);
    assert_eq!(remote.contents().expect("told").keys, local.contents().expect("told").keys);
}

#[test]
fn lists_come_in_parts_in_either_direction() {
    let (server, ..) = both();
    for reverse in ["0", "1"] {
        let whole = server.get(&format!("/v1/urls?reverse={reverse}"), &[]).json();
        let mut joined = Vec::new();
        let mut cursor = String::new();
        loop {
            let part = server.get(&format!("/v1/urls?reverse={reverse}&limit=7{cursor}"), &[]).json();
            joined.extend(part["urls"].as_array().expect("a list").clone());
            let Some(next) = part["cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(whole["urls"].as_array().expect("a list"), &joined);
        assert_eq!((joined.len(), whole["cursor"].is_null()), (122, true));
    }
    let after = server.get("/v1/urls?limit=1&after=http://a.example/history", &[]).json();
    assert_eq!(after["urls"][0]["url"].as_str(), Some("http://a.example/page/0?q=%26&r=%C3%BC"));
    let (status, words) = server.get("/v1/urls?cursor=%21", &[]).problem();
    assert!(status == 400 && words.contains("`cursor`"), "{status} {words}");
    let mut times = Vec::new();
    let mut after = String::new();
    loop {
        let part = server.get(&format!("/v1/history?url=http://a.example/history&limit=2{after}"), &[]).json();
        times.extend(part["versions"].as_array().expect("a list").iter().map(|version| version["time_ms"].as_i64()));
        let Some(next) = part["after"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(times, [TIME + 1000, TIME + 1, TIME].map(Some));
}

#[test]
fn writes_are_those_of_the_store() {
    let (_server, client, store, _dir) = both();
    let page = Page::new("http://a.example/history", TIME + 5000, 200, "new");
    for target in [&client as &dyn PageWrite, &store] {
        assert!(matches!(target.put(&page, PutRule::IfNew).expect("stored"), Some(Put::Stored(_))));
        assert_eq!(target.put(&page, PutRule::IfNew).expect("stored"), None);
        let later = Page { fetched_at_ms: TIME + 6000, ..page.clone() };
        assert!(matches!(target.put(&later, PutRule::IfChanged).expect("stored"), Some(Put::Unchanged(_))));
        let large = Page::new("http://a.example/large", TIME, 200, "");
        let version = target.put_reader(&large, &mut std::io::repeat(b'x').take(3_000_000)).expect("stored");
        assert_eq!(version.time_ms, TIME);
        let (_, mut body) = target.get_reader(&"http://a.example/large".into()).expect("readable").expect("there");
        assert_eq!(std::io::copy(&mut body, &mut std::io::sink()).expect("readable"), 3_000_000);
        let one = target.remove_at(b"http://a.example/history", None, TIME + 5000).expect("removed").expect("there");
        assert_eq!((one.versions, one.beside, one.without_body), (1, 0, 0));
        assert_eq!(target.remove_at(b"http://a.example/history", None, TIME + 5000).expect("looked for"), None);
        assert_eq!(target.get(&"http://a.example/history".into()).expect("readable").expect("there").body, b"new");
        let variant = Variant::of_request("POST", Some(b"text/plain"), b"a&b=\xff");
        assert!(target.remove(b"http://a.example/history", variant.as_ref()).expect("removed"));
        assert!(!target.remove(b"http://a.example/history", variant.as_ref()).expect("removed"));
        let mut seen = 0;
        let removed = target.remove_all(&Scope::new().host("c.example"), &mut |one| {
            seen += u64::from(one.expect("undamaged").is_page);
            ControlFlow::Continue(())
        });
        assert_eq!((removed.expect("removed"), seen), (40, 40));
        assert_eq!(target.count(&Scope::new().host("c.example").variants()).expect("counted"), 0);
        target.sync().expect("synced");
    }
    assert_eq!(listed(&client, &Scope::new()), listed(&store, &Scope::new()));
}

#[test]
fn a_page_that_a_rule_refuses_is_refused_by_that_rule() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("a"), Options::new()).expect("a store");
    let order = EraseOrder::new(EraseTarget::Host("a.example".into()), "asked for");
    store.erase(&order, &mut |_| ControlFlow::Continue(())).expect("erased");
    let rule = store.erase_rules().expect("rules")[0].id;
    let server = of(store, ServerOptions::new().writes());
    let page = Page::new("http://a.example/", TIME, 200, "again");
    let refused = server.client().put(&page, PutRule::IfChanged).expect_err("refused");
    assert!(matches!(refused, Error::Engine(filemap_core::Error::Refused { rule: by }) if by == rule), "{refused}");
    assert!(refused.concerns_one_page());
}

#[test]
fn an_address_with_a_password_is_refused_and_not_repeated() {
    let server = served(&[]);
    for user in ["", "a:", ":", "a@"] {
        let location = format!("http://{user}5e3c7e7@{}/@", server.address);
        let error = Client::open(&location, &ClientOptions::new()).expect_err("refused").to_string();
        assert!(error.contains(&server.address.to_string()) && error.contains("no password"), "{error}");
        assert!(!error.contains("5e3c7e7"), "{error}");
    }
}

#[test]
fn what_is_no_server_of_a_store_is_an_error_and_no_absent_page() {
    let gone = {
        let server = served(&[]);
        let location = format!("http://{}", server.address);
        drop(server);
        location
    };
    let error = Client::open(&gone, &ClientOptions::new()).expect_err("nobody there");
    assert!(matches!(&error, Error::Remote { .. }) && error.to_string().contains(&gone), "{error}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let location = format!("http://{}", listener.local_addr().expect("an address"));
    let other = std::thread::spawn(move || {
        use std::io::Write;
        for stream in listener.incoming().take(1) {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\n<404>")
                .expect("sent");
        }
    });
    let error = Client::open(&location, &ClientOptions::new()).expect_err("another server");
    assert!(
        error.to_string().contains("404 Not Found") && error.to_string().contains("not from a FileMap server"),
        "{error}"
    );
    other.join().expect("no panic");
    assert!(Client::open("http://127.0.0.1:1/%zz bad", &ClientOptions::new()).is_err());
}
