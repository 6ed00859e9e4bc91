//! Well-behaved web sites are crawled completely, each page once, and stored unchanged; questions
//! about them are answered.

use std::sync::Arc;

use crate::web::crawl::Bench;
use crate::web::{self, Web, sites};
use filemap::page::RecordKind;
use serde_json::json;

const FAST: [&str; 4] = ["--rate=0", "--allow-private", "--json", "--host-connections=8"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

#[test]
fn a_documentation_site_is_fetched_once_and_kept_byte_for_byte() {
    let pages = sites::documentation();
    let web = Web::new([("docs.test", sites::of(pages.clone()))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://docs.test/", "--follow-duplicates"])).ended(0).json();
    assert_eq!(end["end"], "complete", "{end}");
    let stored = bench.pages();
    for (path, body) in &pages {
        let page = stored.get(&format!("http://docs.test{path}")).unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!(&page.body, body, "{path}");
        assert_eq!((page.status, page.ip), (Some(200), Some("127.0.0.1".parse().unwrap())), "{path}");
        assert_eq!(page.headers.get("content-type"), Some(&b"text/html; charset=utf-8"[..]));
    }
    for (url, times) in web.counts() {
        assert_eq!(times, 1, "{url}");
    }
    let asked = web.pages_asked();
    let again = bench.run("run", &with(&resolve, &[])).ended(0).json();
    assert_eq!((again["fetched"].clone(), web.pages_asked()), (json!(0), asked));
}

#[test]
fn robots_txt_and_nofollow_are_obeyed_and_sitemaps_are_read() {
    let web = Web::new([("robots.test", sites::robots())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://robots.test/"])).ended(0).json();
    assert_eq!(end["reasons"], json!({ "nofollow": 1, "robots": 1 }), "{end}");
    let urls: Vec<String> = bench.pages().into_keys().map(|url| url.replace("http://robots.test", "")).collect();
    assert_eq!(urls, ["/", "/free", "/from-sitemap", "/map.xml", "/private/open"]);
    assert!(!web.counts().contains_key("http://robots.test/private/x"));
    assert!(!web.counts().keys().any(|url| url.contains("elsewhere")), "a sitemap's links have a scope too");

    // A second run takes the rules from the store.
    bench.run("run", &with(&resolve, &["--seed=http://robots.test/n"])).ended(0);
    assert_eq!(web.counts()["http://robots.test/robots.txt"], 1);
    let why = bench.run("why", &["http://robots.test/private/x#y", "--json"]).ended(0).json();
    assert_eq!(
        (&why["robots"], &why["seen"], &why["in_scope"]),
        (&json!("forbidden"), &json!(true), &json!(true)),
        "{why}"
    );
    assert_eq!((&why["frontier"]["status"], &why["frontier"]["last_failure"]), (&json!("given up"), &json!("robots")));
    let why = bench.run("why", &["http://robots.test/never-heard-of"]).ended(1);
    assert!(why.out.contains("never discovered") && why.out.contains("robots.txt   allowed"), "{}", why.out);
    let why = bench.run("why", &["http://elsewhere.test/", "--json"]).ended(1).json();
    assert_eq!((&why["robots"], &why["in_scope"]), (&json!("not known"), &json!(false)), "{why}");
}

#[test]
fn a_body_under_many_urls_is_stored_once_and_its_links_are_followed_once() {
    let web = Web::new([("mirror.test", sites::mirror())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://mirror.test/"])).ended(0).json();
    assert_eq!(end["duplicates"], 20, "{end}");
    let pages = bench.pages();
    let copies: Vec<_> = pages.iter().filter(|(url, _)| url.contains("/copy/") && !url.contains("leads")).collect();
    let references = copies.iter().filter(|(_, page)| page.kind == RecordKind::Revisit).count();
    assert_eq!((copies.len(), references), (20, 19));
    assert!(
        copies.iter().all(|(_, page)| page.body.starts_with(b"<p>the same everywhere")),
        "a reference reads as its original"
    );
    let why = bench.run("why", &[copies.iter().find(|(_, page)| page.revisit.is_some()).unwrap().0, "--json"]).json();
    assert!(why["stored"]["body_of"].as_str().unwrap().contains("/copy/"), "{why}");
}

#[test]
fn pages_are_asked_for_again_with_what_is_known_of_them() {
    let web = Web::new([("old.test", sites::validators())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    // Four pages, and four second visits: the crawl ends by their number, not by time.
    let arguments = ["--seed=http://old.test/", "--recrawl=1s", "--forever", "--max-pages=8"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
    assert_eq!((&end["end"], &end["unchanged"]), (&json!("max-pages"), &json!(3)), "{end}");
    let asked = web.asked();
    let conditional =
        |url: &str, field: &str| asked.iter().any(|asked| asked.url == url && asked.fields.contains_key(field));
    assert!(conditional("http://old.test/same", "if-none-match"));
    assert!(conditional("http://old.test/dated", "if-modified-since"));
    let pages = bench.pages();
    let same = &pages["http://old.test/same"];
    assert_eq!(
        (same.kind, same.status, same.body.as_slice()),
        (RecordKind::Revisit, Some(304), &b"<p>always the same"[..])
    );
    assert!(pages["http://old.test/new"].body.starts_with(b"<p>visit ") && bench.versions("http://old.test/new") >= 2);
}

#[test]
fn a_host_is_asked_politely() {
    let web = Web::new([("polite.test", sites::tree(5))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &["--seed=http://polite.test/", "--allow-private", "--rate=4", "--json", &resolve]).ended(0);
    let asked = web.asked();
    assert_eq!(asked.len(), 6, "robots.txt and five pages");
    // Six requests at four a second take 1,250 ms; a busy machine may notice the first late.
    assert!((asked[5].at - asked[0].at).as_millis() >= 650, "they came too fast");
    let agent = &asked[0].fields["user-agent"];
    assert!(agent.starts_with("fm-crawl/"), "{agent}");
}

#[test]
fn a_crawl_delay_is_obeyed_whatever_rate_is_asked_for() {
    let web = Web::new([("unhurried.test", sites::unhurried())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://unhurried.test/"])).ended(0);
    let asked = web.asked();
    assert_eq!(asked.len(), 6);
    // It asks for 2 s in all.
    assert!((asked[5].at - asked[0].at).as_millis() >= 1_300, "they came too fast");
}

#[test]
fn a_crawl_says_who_it_is_and_stays_out_of_private_networks() {
    let web = Web::new([("a.test", sites::tree(1))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let ran = bench.run("run", &["--seed=http://a.test/"]).ended(2);
    assert!(ran.words.contains("--contact"), "{}", ran.words);
    let arguments = [
        "--seed=http://a.test/",
        "--seed=http://127.0.0.1:9/",
        "--seed=http://[::1]/",
        "--contact=me@a.example",
        "--json",
        &resolve,
    ];
    let ran = bench.run("run", &arguments).ended(1);
    assert!(ran.words.contains("the seed http://a.test/ was given up: private-address: "), "{}", ran.words);
    let end = ran.json();
    assert_eq!((end["reasons"].clone(), web.asked().len()), (json!({ "private-address": 3 }), 0), "{end}");
    let why = bench.run("why", &["http://a.test/"]).ended(0);
    assert!(why.out.contains("last error   private-address: a.test is at 127.0.0.1"), "{}", why.out);
    assert!(bench.run("run", &["--seed=ftp://a.test/"]).ended(2).words.contains("only http and https"));
    assert!(bench.run("status", &[]).ended(0).out.contains("3 pages known, 0 fetched"));
    // A seed that was given up is tried again.
    let end = bench.run("run", &["--allow-private", "--rate=0", "--json", "--patience=1s", &resolve]).ended(5).json();
    assert_eq!((&end["fetched"], &end["end"]), (&json!(1), &json!("waiting")), "{end}");
    assert_eq!(
        end["not_fetched"],
        json!({ "waiting": 1, "stale": 0, "given_up": { "client-status": 1 }, "missing": 1, "silent_hosts": 1 }),
        "{end}"
    );
    assert!(Bench::new().run("status", &[]).ended(2).words.contains("there is no crawl"));
}

#[test]
fn a_crawl_stops_where_it_is_told_to_and_goes_on() {
    let web = Web::new([("tree.test", sites::tree(200)), ("other.test", sites::tree(3))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let log = bench.path("log.jsonl");
    let log_argument = format!("--log={}", log.display());
    let end = bench
        .run("run", &with(&resolve, &["--seed=http://tree.test/", "--max-pages=50", &log_argument]))
        .ended(0)
        .json();
    assert_eq!((&end["end"], &end["fetched"]), (&json!("max-pages"), &json!(50)), "{end}");
    let lines = std::fs::read_to_string(&log).unwrap();
    let fetched = lines.lines().filter(|line| line.contains("\"event\":\"fetched\"")).count();
    assert_eq!(fetched, 50, "{lines}");
    let end = bench.run("run", &with(&resolve, &[])).ended(0).json();
    assert_eq!(end["end"], "complete", "{end}");
    assert!(web.counts().values().all(|times| *times == 1));
    let end = bench.run("run", &with(&resolve, &["--seed=http://other.test/"])).ended(0).json();
    assert_eq!((&end["fetched"], bench.pages().len()), (&json!(3), 203), "{end}");
}

#[test]
fn an_interrupted_crawl_ends_in_order_and_fetches_nothing_twice() {
    let web = Web::slow([("tree.test", sites::tree(400))], std::time::Duration::from_millis(20));
    let (bench, resolve) = (Bench::new(), web.resolve());
    let child = bench.start("run", &with(&resolve, &["--seed=http://tree.test/"]));
    while web.pages_asked() < 100 {
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let end = Bench::finish(child).ended(130).json();
    assert_eq!(end["end"], "interrupted", "{end}");
    bench.run("run", &with(&resolve, &[])).ended(0);
    assert!(web.counts().values().all(|times| *times == 1));
    assert_eq!(bench.pages().len(), 400);
}

#[test]
fn two_crawls_of_one_store_are_not_run_at_once() {
    let hanging: web::Site = Arc::new(|_: &web::Request| web::Reply::Bare(Box::new(web::wait_for_close)));
    let web = Web::new([("hanging.test", hanging)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let mut child = bench.start("run", &with(&resolve, &["--seed=http://hanging.test/"]));
    while web.asked().is_empty() {
        std::thread::yield_now();
    }
    bench.run("run", &with(&resolve, &[])).ended(4);
    let status = bench.run("status", &["--json"]).ended(0).json();
    assert_eq!(status["is_running"], true, "{status}");
    let why = bench.run("why", &["http://hanging.test/"]);
    assert!(why.out.contains("a crawl is running"), "{}", why.out);
    child.kill().unwrap();
    child.wait().unwrap();
}
