//! Each hook does what it says, and one that fails or panics loses no page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crawl::hooks::fields::Field;
use crawl::hooks::{Blocking, Fetch, Fetching, Response};
use crawl::settings::scope::Reached;
use crawl::{BoxError, Capture, Reason, Reply};
use filemap::Page;

use crate::site::{Site, crawl, page, store};

#[test]
fn a_look_at_each_page_adds_links_and_fields_and_keeps_pages_from_being_stored_or_followed() {
    let site = Site::of(&[
        ("/", "<html lang=en><body><a href=/a>a</a><a href=/b>b</a><a href=/c>c</a>"),
        ("/a", "<p>page a"),
        ("/b", "<a href=/below>"),
        ("/c", "<a href=/hidden>"),
        ("/below", "below"),
        ("/more", "more"),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let look = move |capture: &Capture<'_>| -> Result<Reply, BoxError> {
        counted.fetch_add(1, Ordering::Relaxed);
        assert_eq!(capture.page.status, Some(200));
        let reply = Reply::new().field("links", capture.links.len().to_string());
        Ok(match capture.url.rsplit('/').next() {
            Some("a") => reply.link("more").link("http://elsewhere.example/"),
            Some("b") => reply.not_stored(),
            Some("c") => reply.not_followed(),
            _ => reply,
        })
    };
    let built = crawl(&folder, &site).fields(&[Field::Lang, Field::Charset]).on_page(look).build().unwrap();
    let summary = built.run().unwrap();
    assert_eq!((summary.tally.fetched, summary.tally.hooks_failed()), (6, 0), "{:?}", summary.tally);
    assert_eq!(calls.load(Ordering::Relaxed), 6);
    assert_eq!((site.asked("/more"), site.asked("/below"), site.asked("/hidden")), (1, 1, 0));
    let store = store(&folder);
    let (start, fields) = page(&store, &site.url("/"));
    assert!(start.is_some());
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(fields, [("charset", "utf-8"), ("lang", "en"), ("links", "3")]);
    assert_eq!(page(&store, &site.url("/b")), (None, crawl::hooks::Fields::new()));
    assert!(page(&store, &site.url("/below")).0.is_some() && page(&store, &site.url("/c")).0.is_some());
}

#[test]
fn what_cannot_be_used_of_an_answer_is_counted() {
    let site = Site::of(&[("/", "x"), ("/1", "x"), ("/2", "x"), ("/3", "x")]);
    let folder = tempfile::tempdir().unwrap();
    let look = |capture: &Capture<'_>| -> Result<Reply, BoxError> {
        let reply = Reply::new().field("good", "yes").field("a b", "no").field("", "no");
        Ok(match capture.url.rsplit('/').next() {
            Some("") => reply.link("mailto:me@example.com").link("http://[").link("1").link("2").link("3"),
            _ => Reply::new(),
        })
    };
    let mut builder = crawl(&folder, &site).on_page(look);
    builder.settings().limits.links = 4;
    let summary = builder.build().unwrap().run().unwrap();
    let times = |reason| summary.tally.reasons.get(&reason).copied().unwrap_or(0);
    assert_eq!((times(Reason::HookFailed), times(Reason::BadUrl), times(Reason::LinkLimit)), (2, 2, 1));
    assert!(summary.tally.json()["latest_failures"].to_string().contains("`a b` is not a field name"));
    assert_eq!((site.asked("/1"), site.asked("/2"), site.asked("/3")), (1, 1, 0));
    let (_, fields) = page(&store(&folder), &site.url("/"));
    assert_eq!(fields.into_iter().collect::<Vec<_>>(), [("good".to_owned(), "yes".to_owned())]);
}

#[test]
fn a_look_that_fails_or_panics_is_counted_and_named_and_the_pages_are_stored() {
    let site = Site::of(&[("/", "<a href=/a><a href=/b>"), ("/a", "page a"), ("/b", "page b")]);
    let folder = tempfile::tempdir().unwrap();
    let built = crawl(&folder, &site)
        .on_page(|capture: &Capture<'_>| match capture.url.rsplit('/').next() {
            Some("a") => Err("no likes of a".into()),
            Some("b") => panic!("fell over b"),
            _ => Ok(Reply::new()),
        })
        .on_page(|_: &Capture<'_>| Ok(Reply::new().field("second", "yes")))
        .build();
    let summary = built.unwrap().run().unwrap();
    assert_eq!((summary.tally.fetched, summary.tally.hooks_failed()), (3, 2));
    let latest = summary.tally.json()["latest_failures"].to_string();
    assert!(latest.contains("no likes of a") && latest.contains("it panicked: fell over b"), "{latest}");
    let store = store(&folder);
    for path in ["/", "/a", "/b"] {
        let (stored, fields) = page(&store, &site.url(path));
        assert_eq!((stored.is_some(), fields["second"].as_str()), (true, "yes"), "{path}");
    }
}

#[test]
fn links_come_from_an_own_parser_and_from_the_crawl_where_it_fails() {
    let site = Site::of(&[("/", "<a href=/no>"), ("/own", "<a href=/kept>"), ("/kept", "x"), ("/no", "x")]);
    let folder = tempfile::tempdir().unwrap();
    let parse = |url: &str, page: &Page| -> Result<Option<Vec<String>>, BoxError> {
        match (url.rsplit('/').next(), page.body.len()) {
            (Some(""), 12) => Ok(Some(vec!["own".to_owned()])),
            (Some("own"), _) => Err("cannot read it".into()),
            _ => Ok(None),
        }
    };
    let summary = crawl(&folder, &site).parse_by(parse).build().unwrap().run().unwrap();
    assert_eq!((summary.tally.fetched, summary.tally.hooks_failed()), (3, 1), "{:?}", summary.tally);
    assert_eq!((site.asked("/no"), site.asked("/kept")), (0, 1));
}

#[test]
fn links_of_an_own_parser_are_bounded_and_counted_in_place_of_the_documents() {
    let many = "<a href=/1><a href=/2><a href=/3><a href=/4>";
    let site = Site::of(&[("/", many), ("/own", "<p>b"), ("/a", "<p>c"), ("/b", "<p>d"), ("/c", "<p>e")]);
    let folder = tempfile::tempdir().unwrap();
    let parse = |url: &str, _: &Page| -> Result<Option<Vec<String>>, BoxError> {
        Ok(match url.rsplit('/').next() {
            Some("") => Some(vec!["own".to_owned()]),
            Some("own") => Some(["a", "b", "c"].map(str::to_owned).to_vec()),
            _ => None,
        })
    };
    let mut builder = crawl(&folder, &site).parse_by(parse);
    builder.settings().limits.links = 2;
    let summary = builder.build().unwrap().run().unwrap();
    let json = summary.tally.json();
    let more = json["reasons"]["link-limit"].as_u64();
    assert_eq!((summary.tally.fetched, site.asked("/c"), more), (4, 0, Some(1)), "{json}");
}

#[test]
fn a_scope_of_the_callers_own_widens_and_narrows_and_its_panics_are_counted() {
    let site = Site::of(&[("/", "<a href=/in><a href=/out><a href=/bad>"), ("/in", "x"), ("/out", "x"), ("/bad", "x")]);
    let folder = tempfile::tempdir().unwrap();
    let accept = |url: &str, reached: Reached| match url.rsplit('/').next() {
        Some("out") => false,
        Some("bad") => panic!("no"),
        _ => reached == Reached::Within,
    };
    let summary = crawl(&folder, &site).accept_by(Some(Arc::new(accept))).build().unwrap().run().unwrap();
    assert_eq!((summary.tally.fetched, site.asked("/out"), site.asked("/bad")), (3, 0, 1));
    assert!(summary.tally.hooks_failed() > 0);
}

/// A fetcher without a network.
struct Made;

impl Fetch for Made {
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a> {
        Box::pin(async move {
            let body = match url.rsplit('/').next() {
                Some("") => "<a href=/made><a href=/broken><a href=/panics>",
                Some("broken") => return Err("the browser is gone".into()),
                Some("panics") => panic!("in the fetcher"),
                _ => "made of nothing",
            };
            let mut response = Response { status: 200, body: body.into(), ..Response::default() };
            response.headers.push("Content-Type", "text/html");
            Ok(response)
        })
    }
}

#[test]
fn pages_come_from_an_own_fetcher_and_robots_txt_does_not() {
    let site = Site::of(&[]);
    let folder = tempfile::tempdir().unwrap();
    let mut builder = crawl(&folder, &site).fetch_by(Some(Arc::new(Made)));
    builder.settings().attempts = 1;
    let summary = builder.build().unwrap().run().unwrap();
    assert_eq!((summary.tally.fetched, summary.tally.reasons[&Reason::OwnFetcher]), (2, 2), "{:?}", summary.tally);
    assert_eq!((site.asked("/robots.txt"), site.asked("/")), (1, 0));
    // The crawl's choice of content types applies to it as well.
    let other = tempfile::tempdir().unwrap();
    let mut builder = crawl(&other, &site).fetch_by(Some(Arc::new(Made)));
    builder.settings().limits.types = vec!["image/*".to_owned()];
    let summary_of_images = builder.build().unwrap().run().unwrap();
    assert_eq!((summary_of_images.tally.fetched, summary_of_images.tally.reasons[&Reason::Type]), (0, 1));
    assert_eq!(page(&store(&folder), &site.url("/made")).0.unwrap().body, b"made of nothing");
    let latest = summary.tally.json()["latest_failures"].to_string();
    assert!(latest.contains("the browser is gone") && latest.contains("it panicked: in the fetcher"), "{latest}");
}

#[test]
fn a_blocking_fetcher_runs_as_often_at_once_as_it_says_and_within_the_limits() {
    let site = Site::of(&[]);
    let folder = tempfile::tempdir().unwrap();
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (running, highest) = (Arc::clone(&now), Arc::clone(&most));
    let fetch = Blocking::new(2, move |url: &str| {
        let at_once = running.fetch_add(1, Ordering::SeqCst) + 1;
        highest.fetch_max(at_once, Ordering::SeqCst);
        // The second may begin late.
        let until = Instant::now() + Duration::from_secs(10);
        while !url.ends_with('/') && highest.load(Ordering::SeqCst) < 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        running.fetch_sub(1, Ordering::SeqCst);
        let links: String = (0..8).map(|n| format!("<a href=/{n}>")).collect();
        let body = if url.ends_with('/') { links } else { "x".repeat(5000) };
        let mut response = Response { status: 200, body: body.into_bytes(), ..Response::default() };
        response.headers.push("Content-Type", "text/html");
        Ok(response)
    });
    let mut builder = crawl(&folder, &site).fetch_by(Some(Arc::new(fetch))).host_connections(8);
    builder.settings().limits.body_bytes = 1000;
    let summary = builder.build().unwrap().run().unwrap();
    assert_eq!((summary.tally.fetched, most.load(Ordering::SeqCst)), (9, 2));
    assert_eq!(summary.tally.reasons[&Reason::BodyLimit], 8);
    let stored = page(&store(&folder), &site.url("/1")).0;
    assert!(stored.is_some());
}
