//! Hosts that do not answer for a time, or never: their pages wait, others do not, and pages that
//! were not fetched are reported, listed, and can be queued again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

const FAST: [&str; 3] = ["--rate=0", "--allow-private", "--json"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

/// A site that closes every connection without an answer while the switch is on.
fn switched(site: Site, is_down: &Arc<AtomicBool>) -> Site {
    let is_down = Arc::clone(is_down);
    Arc::new(move |request: &Request| match is_down.load(Ordering::Relaxed) {
        true => Reply::Bare(Box::new(|_| ())),
        false => site(request),
    })
}

/// A site that answers the first requests for each page with this status, as a gateway does.
fn failing(site: Site, status: u16, times: usize) -> Site {
    Arc::new(move |request: &Request| match request.before < times {
        true => Reply::Page(status, Vec::new(), b"<p>not now".to_vec()),
        false => site(request),
    })
}

#[test]
fn a_crawl_through_an_outage_has_every_page_in_the_end() {
    // The site counts the requests in the outage: the crawl must not end before it. It takes
    // longer than two attempts at every queued page.
    let (asked, tree) = (AtomicUsize::new(0), sites::tree(60));
    let site: Site = Arc::new(move |request: &Request| {
        let is_page = request.path != "/robots.txt";
        let nth = asked.fetch_add(usize::from(is_page), Ordering::SeqCst);
        if is_page && (20..32).contains(&nth) { Reply::Bare(Box::new(|_| ())) } else { tree(request) }
    });
    let web = Web::slow([("tree.test", site)], Duration::from_millis(5));
    let (bench, resolve) = (Bench::new(), web.resolve());
    let outage = ["--seed=http://tree.test/", "--retry=500ms", "--attempts=2"];
    let end = bench.run("run", &with(&resolve, &outage)).ended(0).json();
    assert_eq!((&end["end"], bench.pages().len()), (&json!("complete"), 60), "{end}");
    assert!(end["reasons"]["protocol"].as_u64().is_some_and(|times| times > 3), "{end}");
    assert_eq!(end["not_fetched"]["missing"], 0, "{end}");
}

#[test]
fn statuses_of_gateways_and_a_busy_robots_txt_lose_no_page() {
    let web =
        Web::new([("gateway.test", failing(sites::tree(12), 502, 2)), ("busy.test", failing(sites::tree(5), 503, 1))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let seeds = ["--seed=http://gateway.test/", "--seed=http://busy.test/", "--retry=100ms"];
    let end = bench.run("run", &with(&resolve, &seeds)).ended(0).json();
    assert_eq!((&end["end"], bench.pages().len()), (&json!("complete"), 17), "{end}");
    assert!(end["reasons"]["robots-unreachable"].as_u64().is_some_and(|times| times > 1), "{end}");
}

#[test]
fn what_was_not_fetched_is_said_listed_and_brought_back() {
    let is_down = Arc::new(AtomicBool::new(false));
    let broken: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::html(
            "<a href=/gone>1</a><a href=/broken>2</a><a href=/private>3</a><a href=http://down.test/p/1>4</a>",
        ),
        "/robots.txt" => Reply::text("User-agent: *\nDisallow: /private"),
        "/broken" if request.before < 2 => Reply::Page(500, Vec::new(), Vec::new()),
        "/broken" => Reply::html("<p>mended"),
        _ => Reply::missing(),
    });
    let web = Web::new([("site.test", broken), ("down.test", switched(sites::tree(3), &is_down))]);
    is_down.store(true, Ordering::Relaxed);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let first = ["--seed=http://site.test/", "--scope=any", "--attempts=2", "--retry=100ms", "--patience=1s"];
    let ran = bench.run("run", &with(&resolve, &first)).ended(5);
    let end = ran.json();
    assert_eq!(end["end"], "waiting", "{end}");
    let wanted = json!({
        "waiting": 1, "stale": 0, "given_up": { "client-status": 1, "robots": 1, "server-status": 1 }, "missing": 2, "silent_hosts": 1
    });
    assert_eq!(end["not_fetched"], wanted, "{end}");
    let words = ["2 pages not fetched: 1 given up (server-status), 1 queued", "no answer from down.test"];
    assert!(words.iter().all(|words| ran.words.contains(words)), "{}", ran.words);

    let listed = |arguments: &[&str]| -> BTreeSet<String> {
        let out = bench.run("list", arguments).out;
        out.lines().map(|line| line.split('\t').take(3).collect::<Vec<_>>().join(" ")).collect()
    };
    let given_up = ["http://site.test/broken given-up server-status", "http://site.test/gone given-up client-status"];
    assert_eq!(listed(&["--state=given-up"]), given_up.map(str::to_owned).into());
    assert_eq!(listed(&["--state=excluded"]), ["http://site.test/private excluded robots".to_owned()].into());
    let failed = listed(&["--state=failed", "--host=down.test"]);
    let line = failed.first().expect("one");
    assert!(
        line.starts_with("http://down.test/p/1 failed robots-unreachable, no answer from its host since 2"),
        "{line}"
    );
    assert_eq!(listed(&[]).len(), 4);
    bench.run("list", &["--host=nowhere.test"]).ended(1);
    let json = bench.run("list", &["--reason=server-status", "--json"]).ended(0).json();
    assert_eq!((&json["url"], &json["state"]), (&json!("http://site.test/broken"), &json!("given-up")), "{json}");
    assert!(bench.run("list", &["--reason=bad-luck"]).ended(2).words.contains("server-status"));

    // Some pages may be missing; the crawl still says so.
    let ran = bench.run("run", &with(&resolve, &["--tolerate=50%", "--patience=1s"])).ended(0);
    assert!(ran.words.contains("--tolerate 50% allows it"), "{}", ran.words);

    is_down.store(false, Ordering::Relaxed);
    assert!(bench.run("retry", &["--host=nowhere.test"]).ended(1).out.contains("0 pages queued again"));
    assert!(bench.run("retry", &[]).ended(0).out.contains("2 pages queued again"), "a 404 and robots.txt stay");
    let end = bench.run("run", &with(&resolve, &[])).ended(0).json();
    assert_eq!((&end["end"], &end["not_fetched"]["missing"]), (&json!("complete"), &json!(0)), "{end}");
    let pages = bench.pages();
    assert!(pages.contains_key("http://down.test/p/2") && pages["http://site.test/broken"].body == b"<p>mended");
    // With its reason, a page that the site has answered for is retried, too.
    assert!(bench.run("retry", &["--reason=client-status"]).ended(0).out.contains("1 page queued again"));
}

#[test]
fn hosts_that_want_patience_hold_nobody_else_up() {
    const NAMES: [&str; 24] = [
        "d0.test", "d1.test", "d2.test", "d3.test", "d4.test", "d5.test", "d6.test", "d7.test", "d8.test", "d9.test",
        "d10.test", "d11.test", "p0.test", "p1.test", "p2.test", "p3.test", "p4.test", "p5.test", "p6.test", "p7.test",
        "p8.test", "p9.test", "p10.test", "p11.test",
    ];
    let patient: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("User-agent: *\nCrawl-delay: 60"),
        _ => Reply::html("<p>one"),
    });
    let web =
        Web::new(NAMES.map(|name| (name, if name.starts_with('d') { Arc::clone(&patient) } else { sites::tree(8) })));
    let (bench, resolve) = (Bench::new(), web.resolve());
    let seeds: Vec<String> = NAMES.iter().map(|name| format!("--seed=http://{name}/")).collect();
    let mut arguments = with(&resolve, &["--connections=4"]);
    arguments.extend(seeds.iter().map(String::as_str));
    let mut child = bench.start("run", &arguments);
    while web.pages_asked() < 12 * 8 {
        assert!(child.try_wait().expect("ours").is_none(), "it ended with {} pages", web.pages_asked());
        std::thread::sleep(Duration::from_millis(5));
    }
    // There are four connections, and twelve hosts would each hold all of them for a minute.
    let delayed = |url: &&String| url.starts_with("http://d") && !url.ends_with("/robots.txt");
    assert_eq!(web.counts().keys().filter(delayed).count(), 0, "nobody is asked before its time");
    child.kill().expect("ours");
    child.wait().expect("ours");
}

#[test]
fn new_hosts_wait_for_their_turn_without_a_connection() {
    const HOSTS: usize = 80;
    let names: Vec<&'static str> = (0..HOSTS).map(|n| &*format!("n{n}.test").leak()).collect();
    let one: Site = Arc::new(|request: &Request| Reply::html(format!("<p>{}", request.host)));
    let web = Web::new(names.iter().map(|name| (*name, Arc::clone(&one))));
    let (bench, resolve) = (Bench::new(), web.resolve());
    std::fs::write(bench.path("seeds"), names.iter().map(|name| format!("http://{name}/\n")).collect::<String>())
        .unwrap();
    let seeds = format!("--seeds={}", bench.path("seeds").display());
    let begun = Instant::now();
    let arguments = ["--allow-private", "--json", &resolve, &seeds, "--rate=0.5", "--connections=2"];
    let end = bench.run("run", &arguments).ended(0).json();
    assert_eq!(end["fetched"].as_u64(), Some(HOSTS as u64), "{end}");
    // Each host rests for two seconds after its robots.txt: one after another, that would be 80
    // seconds with two connections.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn a_delay_that_a_host_has_asked_for_holds_after_a_kill_too() {
    let patient: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("User-agent: *\nCrawl-delay: 3"),
        _ => Reply::html("<a href=/a>1</a><a href=/b>2</a><a href=/c>3</a><a href=/d>4</a>"),
    });
    let web = Web::new([("patient.test", patient)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = with(&resolve, &["--seed=http://patient.test/"]);
    for pages in 1..4 {
        let mut child = bench.start("run", &arguments);
        while web.pages_asked() < pages {
            assert!(child.try_wait().expect("ours").is_none(), "it ended");
            std::thread::yield_now();
        }
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
    let at: Vec<Instant> = web.asked().iter().map(|asked| asked.at).collect();
    assert!(at.len() >= 4, "robots.txt and three pages");
    // A server sees a request shortly after it starts.
    let least = at.windows(2).map(|two| two[1] - two[0]).min().expect("some");
    assert!(least >= Duration::from_millis(1_500), "{least:?}");
}
