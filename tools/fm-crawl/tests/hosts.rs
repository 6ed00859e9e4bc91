//! Settings for single hosts, from a file that may change while the crawl runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::web::crawl::Bench;
use crate::web::proxy::{CREDENTIALS, Proxy};
use crate::web::{Reply, Request, Site, Web, sites};

const FAST: [&str; 4] = ["--rate=0", "--json", "--contact=mailto:me@example.com", "--patience=1s"];

fn open(web: &Web) -> Vec<String> {
    let mut arguments: Vec<String> = FAST.map(str::to_owned).to_vec();
    arguments.extend(["--allow-private".to_owned(), "--scope=any".to_owned(), web.resolve()]);
    arguments
}

fn run(bench: &Bench, arguments: &[String], more: &[&str]) -> crate::web::crawl::Ran {
    let all: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
    bench.run("run", &all)
}

#[test]
fn a_host_has_its_own_fields_credentials_cookies_and_budget_and_no_other_sees_them() {
    let private: Site = Arc::new(|request: &Request| {
        let is_known = request.fields.get("authorization").is_some_and(|value| value == "Basic dXM6Y3JldA==");
        match (request.path.as_str(), is_known) {
            ("/robots.txt", _) => Reply::missing(),
            (_, false) => Reply::missing(),
            ("/", _) => {
                let fields = vec![("Set-Cookie", "set=2".to_owned()), ("Content-Type", "text/html".to_owned())];
                let links = "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a><a href=/4>4</a>";
                Reply::Page(200, fields, format!("{links}<a href=http://plain.test/>p</a>").into())
            }
            _ => Reply::html("<p>x"),
        }
    });
    let web = Web::new([("private.test", private), ("plain.test", sites::tree(5))]);
    let bench = Bench::new();
    std::fs::write(
        bench.path("hosts.toml"),
        "[hosts.\"private.test\"]\npages = 3\nauth = \"us:cret\"\ncookie = \"given=1\"\ncookies = true\n\
         headers = { X-Key = \"k\", User-Agent = \"other/1\" }\n",
    )
    .expect("written");
    let hosts = format!("--hosts={}", bench.path("hosts.toml").display());
    let end = run(&bench, &open(&web), &["--seed=http://private.test/", &hosts]).ended(0).json();
    assert_eq!(end["reasons"]["host-pages-limit"], json!(2), "{end}");
    for asked in web.asked() {
        let field = |name: &str| asked.fields.get(name).map(String::as_str);
        let is_private = asked.url.starts_with("http://private.test/");
        assert_eq!(field("x-key"), is_private.then_some("k"), "{asked:?}");
        assert_eq!(field("authorization").is_some(), is_private);
        assert_eq!(field("user-agent") == Some("other/1"), is_private);
        let wanted = match (is_private, asked.url.trim_start_matches("http://private.test")) {
            (false, _) => None,
            (true, "/" | "/robots.txt") => Some("given=1"),
            (true, _) => Some("given=1; set=2"),
        };
        assert_eq!(field("cookie"), wanted, "{asked:?}");
    }
    assert_eq!(bench.pages().keys().filter(|url| url.contains("private.test")).count(), 3);
    // The path of the file is remembered, its content is not.
    let kept = std::fs::read_to_string(bench.path("pages.fm.crawl/crawl.json")).expect("there");
    assert!(kept.contains("hosts.toml") && !kept.contains("cret") && !kept.contains("dXM6"), "{kept}");
}

#[test]
fn a_host_is_asked_at_its_own_pace_also_by_a_file_that_changes() {
    let web = Web::new([("slow.test", sites::tree(400)), ("fast.test", sites::tree(5))]);
    let bench = Bench::new();
    let file = bench.path("hosts.toml");
    std::fs::write(&file, "[hosts.\"*.test\"]\nrate = 2\n[hosts.\"fast.test\"]\nrate = 0\n").expect("written");
    let hosts = format!("--hosts={}", file.display());
    let mut arguments = open(&web);
    arguments[0] = "--rate=1000".to_owned();
    arguments.extend(["--seed=http://slow.test/".to_owned(), "--seed=http://fast.test/".to_owned(), hosts]);
    arguments.push("--max-pages=12".to_owned());
    let began = Instant::now();
    run(&bench, &arguments, &[]).ended(0);
    // robots.txt and seven pages, half a second apart.
    assert!(began.elapsed() > Duration::from_millis(3_400), "{:?}", began.elapsed());
    let times: Vec<Instant> =
        web.asked().iter().filter(|one| one.url.starts_with("http://slow.test/")).map(|one| one.at).collect();
    // A busy machine may notice the first of five late, and the last in time.
    let is_slow = |five: &[Instant]| five[4] - five[0] > Duration::from_millis(4 * 500 - 600);
    assert!(times.len() >= 7 && times.windows(5).all(is_slow), "{times:?}");
    // Without the entry in the file, the rate of the crawl applies again at once.
    std::fs::write(&file, "[hosts]\n").expect("written");
    let last = arguments.len() - 1;
    arguments[last] = "--max-pages=400".to_owned();
    let began = Instant::now();
    run(&bench, &arguments, &[]).ended(0);
    assert!(began.elapsed() < Duration::from_secs(100), "388 pages at 2/s would take 194 s: {:?}", began.elapsed());
}

#[test]
fn a_host_has_its_own_proxy_and_a_bad_file_is_refused_before_anything_is_made() {
    let web = Web::new([("lead.test", sites::tree(3)), ("other.test", sites::tree(3))]);
    let (bench, proxy) = (Bench::new(), Proxy::to(web.address()));
    let url = proxy.argument("http", "").replace("--proxy=", "");
    let file = bench.path("hosts.toml");
    std::fs::write(&file, format!("[hosts.\"lead.test\"]\nproxy = \"{url}\"\n")).expect("written");
    let hosts = format!("--hosts={}", file.display());
    let both = ["--seed=http://lead.test/", "--seed=http://other.test/", &hosts];
    std::fs::write(bench.path("bad.toml"), "[hosts.a]\nrate = 1\nsped = 3\n").expect("written");
    let bad = format!("--hosts={}", bench.path("bad.toml").display());
    let refused = run(&bench, &open(&web), &["--seed=http://lead.test/", &bad]).ended(2);
    assert!(refused.words.contains("bad.toml: line 3"), "{}", refused.words);
    assert!(!bench.store().exists());
    assert!(proxy.asked().is_empty());
    run(&bench, &open(&web), &both);
    let asked = proxy.asked();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.contains("lead.test")), "{asked:?}");
}

#[test]
fn a_proxy_that_is_named_while_the_crawl_runs_gets_its_password_and_no_site_does() {
    let web = Web::new([("lead.test", sites::tree(200))]);
    let (bench, proxy) = (Bench::new(), Proxy::to(web.address()));
    let url = proxy.argument("http", CREDENTIALS).replace("--proxy=", "");
    let file = bench.path("hosts.toml");
    std::fs::write(&file, "[hosts.\"lead.test\"]\ndelay = 0.08\n").expect("written");
    let mut arguments = open(&web);
    arguments.extend(["--seed=http://lead.test/".to_owned(), format!("--hosts={}", file.display())]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let child = bench.start("run", &arguments);
    let begun = Instant::now();
    while web.pages_asked() < 5 {
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::write(&file, format!("[hosts.\"lead.test\"]\ndelay = 0.02\nproxy = \"{url}\"\n")).expect("written");
    Bench::finish(child).ended(0);
    // The proxy forwards requests unchanged.
    let told = web.asked().iter().filter(|asked| asked.fields.contains_key("proxy-authorization")).count();
    let led = proxy.asked().len();
    assert!(led > 0 && told == led, "{led} requests went to the proxy, {told} have its password");
    assert_eq!(bench.pages().len(), 200);
}

#[test]
fn a_host_that_is_busy_is_asked_half_as_often_each_time() {
    let pages = AtomicUsize::new(0);
    let busy: Site = Arc::new(move |request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::missing(),
        _ => match pages.fetch_add(1, Ordering::Relaxed) {
            1..=3 => Reply::Page(429, Vec::new(), Vec::new()),
            _ => Reply::html("<a href=/a>1</a>"),
        },
    });
    let web = Web::new([("busy.test", busy)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = ["--seed=http://busy.test/", "--allow-private", "--json", &resolve, "--rate=10", "--retry=50ms"];
    let end = bench.run("run", &arguments).ended(0).json();
    assert_eq!((&end["fetched"], &end["reasons"]["busy"]), (&json!(2), &json!(3)), "{end}");
    let at: Vec<_> = web.asked().iter().filter(|asked| !asked.url.ends_with(".txt")).map(|asked| asked.at).collect();
    let waits: Vec<u128> = at.windows(2).map(|two| (two[1] - two[0]).as_millis()).collect();
    // The delay is 100 ms, and a quarter of a second is what is doubled at least.
    assert!(waits.len() == 4 && waits[1] >= 450 && waits[2] >= 950 && waits[3] >= 1_900, "{waits:?}");
}

#[test]
fn hosts_at_one_address_share_its_rate() {
    let names: Vec<&str> = (0..12).map(|number| &*format!("h{number}.test").leak()).collect();
    let web = Web::new(names.iter().map(|name| (*name, sites::tree(4))));
    let bench = Bench::new();
    let mut arguments = open(&web);
    arguments.extend(names.iter().map(|name| format!("--seed=http://{name}/")));
    let began = Instant::now();
    // robots.txt and four pages for each host.
    run(&bench, &arguments, &["--address-rate=40"]).ended(0);
    let (asked, took) = (web.asked().len(), began.elapsed());
    assert_eq!(asked, 12 * 5);
    assert!(took > Duration::from_millis(25) * 59, "{took:?}");
    assert_eq!(bench.pages().len(), 12 * 4);
    // The rate is remembered.
    let kept = std::fs::read_to_string(bench.path("pages.fm.crawl/crawl.json")).expect("there");
    assert!(kept.contains("\"address_rate\":40.0") || kept.contains("\"address_rate\": 40.0"), "{kept}");
}
