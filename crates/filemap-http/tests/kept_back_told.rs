//! Information in answers beside pages under access rules: counters, changes, fields of an index,
//! times, and the version with the same body.

use std::sync::Arc;

use filemap::access::PutRule;
use filemap::acl::AccessRules;
use filemap::{Lookup, Options, Page, PageStore, PageWrite, Variant};
use filemap_http::server::{ServerOptions, Tokens};
use serde_json::Value;
use urlindex::CrawlRules;

use crate::served::{self, Answer, Served};

const TIME: i64 = 1_700_000_000_000;
const DAY_MS: i64 = 86_400_000;
const SECRET: &str = "what-nobody-sees";
const READER: &str = "read-0123456789abcdef";
const ADMIN: &str = "admin-0123456789abcdef";

fn rules(text: &str) -> AccessRules {
    let mut rules = AccessRules::new();
    rules.add("rules.aclj", text.as_bytes()).expect("rules");
    rules
}

fn with_tokens(text: &str) -> ServerOptions {
    let tokens = Tokens::parse(&format!("read {READER}\nadmin {ADMIN}")).expect("tokens");
    ServerOptions::new().writes().tokens(tokens).access(rules(text))
}

fn by(server: &Served, token: &str, target: &str) -> String {
    let answer = server.get(target, &[&format!("Authorization: Bearer {token}")]);
    assert_eq!(answer.status, 200, "{target}: {answer:?}");
    text(&answer)
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn page(url: &str, time_ms: i64, body: &str) -> Page {
    Page::new(url, time_ms, 200, body)
}

#[test]
fn a_counter_of_what_is_excluded_is_for_a_token_that_is_told_all() {
    let text_of_rules = "example,unseen)/ - {\"access\": \"exclude\"}\nexample,blocked)/ - {\"access\": \"block\"}\n";
    let pages = [page("http://unseen.example/", TIME, SECRET), page("http://blocked.example/", TIME, SECRET)];
    let mut of_admin = rules(text_of_rules);
    of_admin.configure("config", br#"{"embargo": {"before": "2020"}}"#).expect("an embargo");
    let pages = [&pages[..], &[page("http://old.example/", TIME - 2000 * DAY_MS, SECRET)]].concat();
    let server = served::with(with_tokens("").access(of_admin), &pages);
    let (before, kept_back) = (by(&server, READER, "/metrics"), "filemap_http_kept_back_total{access=");
    assert!(!before.contains(kept_back), "{before}");
    let listed = by(&server, READER, "/v1/urls");
    assert!(!listed.contains("unseen"), "{listed}");
    let header = format!("Authorization: Bearer {READER}");
    assert_eq!(server.get("/v1/page?url=http://blocked.example/", &[&header]).status, 451);
    let told = |text: &str, access: &str| text.contains(&format!("{kept_back}\"{access}\""));
    let (reader, admin) = (by(&server, READER, "/metrics"), by(&server, ADMIN, "/metrics"));
    assert!(told(&reader, "block") && !told(&reader, "exclude"), "{reader}");
    assert!(told(&admin, "block") && told(&admin, "exclude"), "{admin}");
    assert!(admin.contains("by=\"rule\"") && admin.contains("by=\"embargo\""), "{admin}");
    assert!(reader.trim_end().ends_with("# EOF"), "{reader}");
    // Without tokens all clients are equal.
    let open = served::with(ServerOptions::new().access(rules(text_of_rules)), &pages);
    open.get("/v1/urls", &[]);
    assert!(!told(&text(&open.get("/metrics", &[])), "exclude"));
}

#[test]
fn a_removal_of_a_version_is_told_if_the_version_is() {
    let url = "http://a.example/";
    let before = |access: &str| format!("example,a)/ - {{\"access\": \"{access}\", \"before\": \"20231101\"}}\n");
    for access in ["exclude", "block"] {
        let pages: Vec<Page> = [TIME - 30 * DAY_MS, TIME, TIME + DAY_MS].map(|time| page(url, time, "x")).into();
        let dir = tempfile::tempdir().expect("a folder");
        let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
        for page in &pages {
            store.put_page(page).expect("stored");
        }
        store.sync().expect("synced");
        let server = served::of(store.clone(), with_tokens(&before(access)));
        let since = |token: &str| {
            let told = by(&server, token, "/v1/changes");
            let last: Value = serde_json::from_str(told.lines().last().expect("a line")).expect("JSON");
            last["cursor"].as_str().expect("a cursor").to_owned()
        };
        let places = [READER, ADMIN].map(|token| (token, since(token)));
        for version in [TIME - 30 * DAY_MS, TIME] {
            store.remove_at(Lookup::new(url), version).expect("removed");
        }
        store.sync().expect("synced");
        let [reader, admin] = places.map(|(token, place)| by(&server, token, &format!("/v1/changes?since={place}")));
        let removed = |told: &str| told.matches("\"removed-version\"").count();
        assert_eq!((removed(&reader), removed(&admin)), (1, 2), "{access}: {reader}\n{admin}");
        assert!(reader.contains(&TIME.to_string()), "{access}: {reader}");
        assert!(!reader.contains(&(TIME - 30 * DAY_MS).to_string()), "{access}: {reader}");
    }
}

#[test]
fn an_index_tells_of_a_blocked_capture_its_url_and_time() {
    let mut blocked = page("http://blocked.example/page", TIME, SECRET);
    blocked.headers.push("content-type", b"image/secret");
    blocked.digest = Some("sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned());
    blocked.status = Some(418);
    let mut form = blocked.clone();
    form.variant = Some(Variant::new("__wb_method=POST&a=1").expect("a variant"));
    let options = ServerOptions::new().access(rules("example,blocked)/ - {\"access\": \"block\"}\n"));
    let server = served::with(options, &[blocked, form]);
    let line = "example,blocked)/page 20231114221320 http://blocked.example/page - - - - - - - -\n";
    let one = text(&server.get("/cdx?url=http://blocked.example/page", &[]));
    assert_eq!(one, line);
    let of_host = text(&server.get("/cdx?url=blocked.example&matchType=host", &[]));
    assert!(of_host.starts_with(line) && of_host.lines().count() == 2, "{of_host}");
    assert!(of_host.contains("example,blocked)/page?__wb_method=post&a=1 "), "{of_host}");
    for filter in ["statuscode:418", "mimetype:image/secret", "digest:A*"] {
        assert_eq!(text(&server.get(&format!("/cdx?url=http://blocked.example/page&filter={filter}"), &[])), "");
    }
}

/// A server of three captures of one page; rules exclude the last by its spelling.
fn of_spellings() -> Served {
    let dir = tempfile::tempdir().expect("a folder");
    let crawl = Arc::new(CrawlRules::crawl());
    let store = PageStore::create_with(dir.path().join("pages.fm"), crawl, Options::new()).expect("a store");
    for (query, days, body) in [("", 0, "one"), ("", 1, "two"), ("?utm_source=own", 2, SECRET)] {
        store.put_page(&page(&format!("http://a.example/{query}"), TIME + days * DAY_MS, body)).expect("stored");
    }
    let rules = rules("example,a)/?utm_source - {\"access\": \"exclude\"}\n");
    let mut served = served::of(store, ServerOptions::new().access(rules));
    served.dir = dir;
    served
}

#[test]
fn times_are_those_of_captures_that_are_not_excluded_by_their_spelling() {
    let server = of_spellings();
    let hidden = "20231116221320";
    for form in ["link", "json"] {
        let map = text(&server.get(&format!("/timemap/{form}/http://a.example/"), &[]));
        assert!(!map.contains(hidden) && map.contains("20231115221320"), "{map}");
    }
    for target in ["/timegate/http://a.example/".to_owned(), format!("/web/{hidden}id_/http://a.example/")] {
        let answer = server.get(&target, &[]);
        assert!(answer.header("location").is_some_and(|place| place.contains("20231115221320")), "{answer:?}");
    }
}

#[test]
fn a_version_with_the_same_body_is_named_if_it_is_shown() {
    let url = "http://a.example/";
    for (times, is_named) in [("20231101", true), ("20231115", false)] {
        let rule = format!("example,a)/ - {{\"access\": \"exclude\", \"before\": \"{times}000000\"}}\n");
        let dir = tempfile::tempdir().expect("a folder");
        let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
        for days in 0..2 {
            let body = "the same ".repeat(100);
            PageWrite::put(&store, &page(url, TIME + days * DAY_MS, &body), PutRule::IfChanged).expect("stored");
        }
        store.sync().expect("synced");
        let heads: Vec<_> = store.history(Lookup::new(url)).expect("a history");
        assert!(heads[0].unchanged_since.is_some(), "{heads:?}");
        let server = served::of(store, ServerOptions::new().access(rules(&rule)));
        for target in ["/v1/head?url=http://a.example/", "/v1/history?url=http://a.example/"] {
            let found = text(&server.get(target, &[]));
            assert_eq!(found.contains("unchanged_since"), is_named, "{target}: {found}");
        }
        // Changes do not look up the version with the same body.
        assert!(!text(&server.get("/v1/changes", &[])).contains("unchanged_since"));
    }
}

#[test]
fn of_two_captures_of_one_time_a_warc_has_the_one_that_is_shown() {
    let dir = tempfile::tempdir().expect("a folder");
    let crawl = Arc::new(CrawlRules::crawl());
    let store = PageStore::create_with(dir.path().join("pages.fm"), crawl, Options::new()).expect("a store");
    for (query, body) in [("", "seen by all"), ("?utm_source=own", SECRET)] {
        store.put_page(&page(&format!("http://a.example/{query}"), TIME, body)).expect("stored");
    }
    let rules = rules("example,a)/?utm_source - {\"access\": \"exclude\"}\n");
    let server = served::of(store, ServerOptions::new().access(rules));
    let answer = server.ask("POST", "/v1/pages/get", &["Accept: application/warc"], b"http://a.example/\n");
    assert!(text(&answer).contains("seen by all") && !text(&answer).contains(SECRET), "{}", text(&answer));
}
