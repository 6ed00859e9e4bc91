//! A page is requested with the URL that its first link spelled, and known by its canonical form;
//! and the scope of a crawl when hosts mirror each other, or start pages redirect elsewhere.

use std::sync::Arc;

use filemap::{Options, PageStore};
use serde_json::json;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

const FAST: [&str; 3] = ["--rate=0", "--allow-private", "--json"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

/// A site that treats different spellings as different pages.
fn particular() -> Site {
    Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::html(
            "<a href='/x//'>1</a><a href='?z&y=1'>2</a><a href='?y=1&z'>the same</a>\
             <a href='/proxy/http://other.test/x'>3</a><a href='/a?utm_source=b'>4</a><a href='/moved?b=1&a=2'>5</a>",
        ),
        "/x//" => Reply::html("<p>with two slashes"),
        "/?z&y=1" => Reply::html("<p>as written"),
        "/proxy/http://other.test/x" => Reply::html("<p>through a proxy"),
        "/a?utm_source=b" => Reply::html("<p>tracked"),
        // To another spelling of the same page.
        "/moved?b=1&a=2" => Reply::to("/moved?a=2&b=1"),
        "/moved?a=2&b=1" => Reply::html("<p>in order"),
        _ => Reply::missing(),
    })
}

#[test]
fn a_link_is_asked_for_as_it_is_written_and_found_by_either_form() {
    let web = Web::new([("particular.test", particular())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://particular.test/", "--no-robots"])).ended(0).json();
    assert_eq!((&end["fetched"], &end["reasons"]), (&json!(6), &json!({})), "{end}");
    let asked: Vec<String> =
        web.asked().into_iter().map(|asked| asked.url.replace("http://particular.test", "")).collect();
    assert!(!asked.contains(&"/?y=1&z".to_owned()), "a second spelling is not asked for: {asked:?}");
    let pages = bench.pages();
    assert!(
        pages.contains_key("http://particular.test/?z&y=1"),
        "its target URI is what was asked for: {:?}",
        pages.keys()
    );
    let store = PageStore::open_read_only(bench.store(), Options::new()).expect("a store");
    let bodies = [
        ("?z&y=1", "<p>as written"),
        ("?y=1&z", "<p>as written"),
        ("x//", "<p>with two slashes"),
        ("a", "<p>tracked"),
        ("a?utm_source=b", "<p>tracked"),
        ("moved?b=1&a=2", "<p>in order"),
    ];
    for (path, body) in bodies {
        let page = store.get(&format!("http://particular.test/{path}")).expect("read");
        let page = page.unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!((page.status, page.body.as_slice()), (Some(200), body.as_bytes()), "{path}");
    }
    for url in ["http://particular.test/?z&y=1", "http://particular.test/?y=1&z"] {
        let why = bench.run("why", &[url, "--json"]).ended(0).json();
        assert_eq!(why["fetched_as"], "http://particular.test/?z&y=1", "{why}");
        assert_eq!((&why["frontier"]["status"], &why["seen"]), (&json!("fetched"), &json!(true)), "{why}");
    }
    // It continues, and requests nothing twice.
    let count = asked.len();
    bench.run("run", &with(&resolve, &[])).ended(0);
    assert_eq!(web.asked().len(), count);
}

#[test]
fn other_rules_make_other_pages() {
    for (rules, fetched, is_there) in [("exact", 7, true), ("crawl,-sorted-parameters", 7, true), ("surt", 6, false)] {
        let web = Web::new([("particular.test", particular())]);
        let (bench, resolve) = (Bench::new(), web.resolve());
        let rules = format!("--canonicalizer={rules}");
        let first = ["--seed=http://particular.test/", "--no-robots", &rules];
        let end = bench.run("run", &with(&resolve, &first)).ended(0).json();
        assert!(end["fetched"].as_u64().is_some_and(|pages| pages >= fetched - 1), "{rules}: {end}");
        assert_eq!(web.counts().contains_key("http://particular.test/?y=1&z"), is_there, "{rules}: {:?}", web.counts());
        let why = bench.run("why", &["http://particular.test/x//", "--json"]).ended(0).json();
        assert_eq!(why["frontier"]["status"], "fetched", "{rules}: {why}");
        let ran = bench.run("run", &with(&resolve, &["--rules=whatwg"])).ended(2);
        assert!(ran.words.contains("the store has the rules"), "{}", ran.words);
    }
    assert!(
        Bench::new()
            .run("run", &["--seed=http://a.test/", "--canonicalizer=nonsense"])
            .ended(2)
            .words
            .contains("whatwg")
    );
}

#[test]
fn a_start_page_that_redirects_to_another_host_takes_the_crawl_there() {
    let web = Web::new([
        ("old.test", Arc::new(|_: &Request| Reply::to("http://new.test/p/0")) as Site),
        // The first page of the tree redirects once more.
        (
            "new.test",
            Arc::new(|request: &Request| match request.path.as_str() {
                "/p/0" => Reply::to("http://newest.test/"),
                _ => Reply::missing(),
            }),
        ),
        ("newest.test", sites::tree(30)),
        ("else.test", sites::tree(3)),
    ]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let log = format!("--log={}", bench.path("log").display());
    let first = ["--seed=http://old.test/", "--no-robots", "--max-pages=5", &log];
    let ran = bench.run("run", &with(&resolve, &first)).ended(0);
    assert!(ran.words.contains("http://old.test/ redirects to http://new.test/p/0"), "{}", ran.words);
    let log = std::fs::read_to_string(bench.path("log")).expect("a log");
    assert!(log.contains("\"event\":\"scope\"") && log.contains("http://newest.test/"), "{log}");
    bench.run("run", &with(&resolve, &[])).ended(0);
    assert_eq!(bench.pages().len(), 32);
    let why = bench.run("why", &["http://newest.test/p/7", "--json"]).ended(0).json();
    assert_eq!(why["in_scope"], true, "{why}");
}

#[test]
fn links_of_a_body_that_another_host_has_are_followed_and_those_of_the_same_host_are_counted() {
    let copies: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::html("<a href=/a/page>1</a><a href=/b/page>2</a>"),
        "/a/page" | "/b/page" => Reply::html("<a href=next>the same everywhere</a>"),
        "/a/next" => Reply::html("<p>a's next"),
        _ => Reply::html("<p>b's next"),
    });
    let web = Web::new([("one.test", sites::tree(20)), ("two.test", sites::tree(20)), ("copies.test", copies)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let seeds = ["--seed=http://one.test/", "--seed=http://two.test/", "--seed=http://copies.test/", "--no-robots"];
    let end = bench.run("run", &with(&resolve, &seeds)).ended(0).json();
    let of = |host: &str| bench.pages().keys().filter(|url| url.contains(host)).count();
    assert_eq!((of("one.test"), of("two.test"), of("copies.test")), (20, 20, 4), "{end}");
    // Either of the two may have come first.
    assert_eq!(end["reasons"], json!({ "duplicate-links": 1 }), "{end}");
}
