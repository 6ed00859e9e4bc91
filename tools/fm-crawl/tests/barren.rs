//! Near-duplicates and error pages with status 200: stored, counted, and followed last.

use std::sync::Arc;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web};

/// Words that no other number produces.
fn text(number: usize) -> String {
    (0..150).map(|at| format!("w{number}x{at} ")).collect()
}

/// A start page that links to ten pages of a trap, all from one template, and to ten with a text
/// of their own. Each of the twenty links to three more pages, each with its own text.
fn site() -> Site {
    Arc::new(|request: &Request| {
        let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        let number = |at: usize| parts.get(at).and_then(|part| part.parse::<usize>().ok()).unwrap_or(0);
        let own = |n: usize| text(1000 + n);
        let children =
            |kind: &str, n: usize| (0..3).map(|c| format!("<a href=/{kind}/{n}/{c}></a>")).collect::<String>();
        match (parts[0], parts.len()) {
            ("", _) => Reply::html(
                (0..10).map(|n| format!("<a href=/trap/{n}></a><a href=/good/{n}></a>")).collect::<String>(),
            ),
            ("trap", 2) => Reply::html(format!("<p>{}{}", text(7).repeat(3), children("trap", number(1)))),
            ("good", 2) => Reply::html(format!("<p>{}{}", own(number(1)), children("good", number(1)))),
            (kind @ ("trap" | "good"), 3) => {
                Reply::html(format!("<p>{}", own(100 * number(1) + number(2) + if kind == "trap" { 5000 } else { 50 })))
            }
            _ => Reply::missing(),
        }
    })
}

/// The trap's pages differ in one word, so that none is an exact copy.
fn site_with_dates() -> Site {
    let site = site();
    Arc::new(move |request: &Request| match site(request) {
        Reply::Page(200, fields, mut body) => {
            body.extend_from_slice(format!("<p>{}", request.path.replace('/', "z")).as_bytes());
            Reply::Page(200, fields, body)
        }
        other => other,
    })
}

/// Crawls the start page, its links and 20 more pages; counts the trap's among the 20.
fn trapped(bits: &str) -> (usize, String, Bench) {
    let web = Web::new([("a.test", site_with_dates())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let near = format!("--near-bits={bits}");
    let most = ["--max-pages=41", "--connections=1", "--seed=http://a.test/"];
    let ran = bench.run("run", &[&["--rate=0", "--allow-private", &resolve, &near][..], &most].concat()).ended(0);
    let below = web.counts().into_keys().filter(|url| url.contains("/trap/") && url.matches('/').count() == 5);
    (below.count(), ran.out, bench)
}

#[test]
fn links_of_near_duplicates_come_after_all_others_and_nothing_is_lost() {
    let (below, out, bench) = trapped("3");
    // The links of the trap's first page count as usual, so up to three are fetched.
    assert!(below <= 3, "{below} of the trap's pages: {out}");
    assert!(out.contains("near-duplicate 9"), "{out}");
    let why = bench.run("why", &["http://a.test/trap/0"]).ended(0).out
        + &bench.run("why", &["http://a.test/trap/1"]).ended(0).out;
    assert!(why.contains("barren       near-duplicate (20") && why.contains("its links earn nothing"), "{why}");
    let good = bench.run("why", &["http://a.test/good/1"]).ended(0).out;
    assert!(!good.contains("barren"), "{good}");
    let status = bench.run("status", &["--json"]).ended(0).json();
    assert_eq!(status["last_run"]["reasons"]["near-duplicate"], 9);

    let (below, out, _) = trapped("off");
    assert!(below > 3 && !out.contains("near-duplicate"), "{below}: {out}");
}

#[test]
fn a_page_like_the_error_page_of_its_host_is_barren_and_fetched_all_the_same() {
    let site: Site = Arc::new(|request: &Request| {
        let sorry = |more: &str| format!("<p>{} {more}", text(3).repeat(2));
        match request.path.as_str() {
            "/" => Reply::html("<a href=/gone></a><a href=/real></a>"),
            "/gone" => Reply::Page(404, vec![("Content-Type", "text/html".into())], sorry("x").into()),
            "/real" => Reply::html(format!("<p>{}<a href=/soft></a>", text(4))),
            "/soft" => Reply::html(sorry("y <a href=/below></a>")),
            "/below" => Reply::html(text(5)),
            _ => Reply::missing(),
        }
    });
    let web = Web::new([("a.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let run = ["--rate=0", "--allow-private", &resolve, "--seed=http://a.test/"];
    let ran = bench.run("run", &run).ended(0);
    assert!(ran.out.contains("soft-404 1") && !ran.out.contains("near-duplicate"), "{}", ran.out);
    assert_eq!(bench.pages().len(), 5);
    assert!(bench.run("why", &["http://a.test/soft"]).ended(0).out.contains("barren       soft-404"));
    assert!(bench.run("run", &["--near-bits=4"]).ended(2).words.contains("0 to 3, or off"));
}
