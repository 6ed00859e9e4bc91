//! Other processes talk to a running crawl: it pauses, takes start pages, fetches urgent pages
//! first, and reports its state.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::web::crawl::Bench;
use crate::web::{Web, sites};

const FAST: [&str; 3] = ["--rate=0", "--allow-private", "--json"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

/// Waits until a condition is true.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}: not within five minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_crawl_that_runs_is_paused_asked_added_to_and_goes_on() {
    let web = Web::slow([("tree.test", sites::tree(400)), ("more.test", sites::tree(5))], Duration::from_millis(20));
    let (bench, resolve) = (Bench::new(), web.resolve());
    for verb in ["pause", "resume"] {
        assert!(bench.run(verb, &[]).ended(1).words.contains("no crawl is running"));
    }
    let mut child = bench.start("run", &with(&resolve, &["--seed=http://tree.test/", "--forever"]));
    until("pages", || web.pages_asked() >= 20);
    assert_eq!(bench.run("pause", &[]).ended(0).out, "paused\n");
    // Requests in flight are completed.
    let mut asked = web.pages_asked();
    until("silence", || {
        std::thread::sleep(Duration::from_secs(1));
        asked == std::mem::replace(&mut asked, web.pages_asked())
    });
    assert!(asked < 400, "{asked}");
    let told = || -> Value {
        let text = std::fs::read(bench.path("pages.fm.crawl/status.json")).expect("published");
        serde_json::from_slice(&text).expect("JSON")
    };
    until("status.json", || told()["run"]["is_paused"] == json!(true));

    // Its frontier can be queried.
    let why = bench.run("why", &["http://tree.test/p/399", "--json"]).json();
    assert_eq!((&why["is_running"], &why["frontier"]), (&json!(true), &Value::Null), "{why}");
    let why = bench.run("why", &["http://tree.test/"]).ended(0);
    assert!(why.out.contains("frontier     a seed, fetched, depth 0"), "{}", why.out);

    let urls = |arguments: &[&str], code: i32| -> BTreeSet<String> {
        let listed = bench.run("list", arguments).ended(code).out;
        listed.lines().map(|line| line.split('\t').next().expect("a URL").to_owned()).collect()
    };
    let (fetched, queued) = (urls(&["--state=fetched"], 0), urls(&["--state=queued"], 0));
    assert_eq!((fetched.len(), fetched.is_disjoint(&queued)), (asked, true));
    assert!(fetched.contains("http://tree.test/") && !queued.is_empty());
    assert_eq!(urls(&[], 0), queued, "all that were not fetched");
    assert!(urls(&["--state=queued", "--host=more.test"], 1).is_empty());

    assert!(bench.run("add", &["http://more.test/"]).ended(0).out.contains("1 start page added"));
    assert!(bench.run("add", &["ftp://more.test/"]).ended(2).words.contains("only http and https"));
    assert_eq!(web.pages_asked(), asked, "it is paused");
    assert_eq!(bench.run("resume", &["--json"]).ended(0).json(), json!({ "is_paused": false }));
    until("a page in flight", || {
        let listed = bench.run("list", &["--state=in-flight", "--json"]);
        listed.out.lines().any(|line| line.contains("\"state\":\"in-flight\"")) || web.pages_asked() >= 405
    });
    assert!(web.pages_asked() < 405, "a page was in flight while others waited");
    until("all pages", || web.pages_asked() >= 405);

    // A page that is stored already and one that is missing; nothing links to the second.
    let fetched = bench.run("fetch", &["http://tree.test/p/7", "http://tree.test/p/missing"]).ended(1);
    let lines: Vec<&str> = fetched.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", fetched.out);
    assert!(fetched.out.contains("http://tree.test/p/7: status 200, ") && fetched.out.contains("client-status 404"));
    assert_eq!(web.counts()["http://tree.test/p/7"], 2);
    assert!(bench.run("retry", &["--reason=client-status"]).ended(0).out.contains("1 page queued again"));
    until("another try", || web.counts()["http://tree.test/p/missing"] == 2);

    assert!(child.try_wait().expect("ours").is_none());
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    Bench::finish(child).ended(130);
    assert!(!bench.path("pages.fm.crawl/control.sock").exists());
    assert_eq!(bench.pages().keys().filter(|url| url.contains("more.test")).count(), 5);
    // The start page is remembered.
    let status = bench.run("status", &["--json"]).ended(0).json();
    assert_eq!(status["seeds"], json!(["http://tree.test/", "http://more.test/"]), "{status}");
}

#[test]
fn pages_are_fetched_before_their_turn_and_nothing_else() {
    let web = Web::new([("tree.test", sites::tree(100)), ("more.test", sites::tree(5))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://tree.test/", "--max-pages=10"])).ended(0);
    assert!(bench.run("fetch", &["http://tree.test/p/99"]).ended(1).words.contains("no crawl is running"));
    let asked = web.pages_asked();
    bench.run("run", &with(&resolve, &["--fetch=http://tree.test/p/99", "--fetch=http://more.test/p/2"])).ended(0);
    assert_eq!(web.pages_asked(), asked + 2);
    assert!(bench.pages().contains_key("http://more.test/p/2"));
    // The crawl is not running; start pages are added all the same.
    assert!(bench.run("add", &["http://more.test/p/3", "--json"]).ended(0).json()["added"] == json!(1));
    bench.run("run", &with(&resolve, &[])).ended(0);
    assert!(bench.pages().contains_key("http://more.test/p/3") && bench.pages().len() > 100);
}

#[test]
fn what_cannot_be_asked_for_is_refused_and_the_crawl_goes_on() {
    let web = Web::new([("tree.test", sites::tree(3))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let long = format!("http://tree.test/{}", "x".repeat(70_000));
    // A refused URL leaves nothing behind, whether the crawl is about to start or not running.
    assert!(bench.run("run", &with(&resolve, &["--seed", &long])).ended(2).words.contains("bytes"));
    let mut child = bench.start("run", &with(&resolve, &["--seed=http://tree.test/", "--forever"]));
    until("pages", || web.pages_asked() >= 3);
    for verb in ["fetch", "add"] {
        assert!(bench.run(verb, &[&long]).ended(2).words.contains("bytes: 2000 are taken"), "{verb}");
    }
    bench.run("pause", &[]).ended(0);
    assert!(bench.run("fetch", &["http://tree.test/p/1"]).ended(2).words.contains("resume"));
    bench.run("resume", &[]).ended(0);
    bench.run("fetch", &["http://tree.test/p/1", "http://tree.test/p/1"]).ended(0);
    assert_eq!(web.counts()["http://tree.test/p/1"], 2, "once for both");
    assert!(child.try_wait().expect("ours").is_none());
    child.kill().expect("ours");
    child.wait().expect("ours");
    assert!(bench.run("add", &[&long]).ended(2).words.contains("bytes: 2000 are taken"));
    let end = bench.run("run", &with(&resolve, &["--fetch=http://tree.test/p/missing"])).ended(5);
    assert!(end.words.contains("of 1 page requested, not fetched: 1"), "{}", end.words);
    assert_eq!(end.json()["end"], "fetched", "{}", end.out);
    bench.run("run", &with(&resolve, &["--fetch=ftp://tree.test/"])).ended(2);
    bench.run("run", &with(&resolve, &[])).ended(0);
}
