//! Cases that were once left out silently: start pages behind several redirects, robots.txt behind
//! one, unusual codings, self-closing elements, refreshes on silent hosts.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

const FAST: [&str; 3] = ["--rate=0", "--allow-private", "--json"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

fn site(answer: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Site {
    Arc::new(move |request: &Request| answer(&request.path, request.before))
}

fn typed(kind: &str, body: impl Into<Vec<u8>>) -> Reply {
    Reply::Page(200, vec![("Content-Type", kind.to_owned())], body.into())
}

#[test]
fn links_without_end_are_counted_and_named_and_followed_if_so_asked() {
    // Every path answers, with relative links.
    let endless: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::missing(),
        path => Reply::html(format!("<p>{path}<a href=docs/>docs</a><a href=/calendar/2199-01>next</a>")),
    });
    let web = Web::new([("loop.test", endless)]);
    let resolve = web.resolve();
    let run = |bench: &Bench, more: &[&str]| {
        let mut arguments = FAST.to_vec();
        arguments.extend([resolve.as_str(), "--seed=http://loop.test/"]);
        arguments.extend(more);
        bench.run("run", &arguments).ended(0).json()
    };
    let bench = Bench::new();
    let end = run(&bench, &[]);
    assert_eq!(end["fetched"], 4, "{end}");
    assert_eq!((&end["reasons"]["repeated-path"], &end["reasons"]["far-date"]), (&json!(1), &json!(4)), "{end}");
    let end = run(&Bench::new(), &["--max-path-repeats=6", "--max-years-ahead=0"]);
    // /, /docs/ to six of them, and the same below the calendar.
    assert_eq!((end["fetched"].as_u64(), &end["reasons"]["repeated-path"]), (Some(14), &json!(2)), "{end}");
}

#[test]
fn a_start_page_leads_out_of_the_scope_by_any_chain_of_redirects() {
    let web = Web::new([
        (
            "chain.test",
            site(|path, _| match path {
                "/" => Reply::to("/home"),
                "/home" => Reply::to("http://new.test/"),
                "/?b=1&a=2" => Reply::to("/?a=2&b=1"),
                "/?a=2&b=1" => Reply::to("http://more.test/"),
                _ => Reply::missing(),
            }),
        ),
        ("new.test", sites::tree(4)),
        ("more.test", sites::tree(3)),
    ]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let seeds = ["--seed=http://chain.test/", "--seed=http://chain.test/?b=1&a=2", "--no-robots"];
    bench.run("run", &with(&resolve, &seeds)).ended(0);
    let of = |host: &str| bench.pages().keys().filter(|url| url.contains(host)).count();
    assert_eq!((of("new.test"), of("more.test")), (4, 3));
}

#[test]
fn a_robots_txt_behind_a_redirect_is_obeyed_under_any_rules() {
    let robots = |path: &str, _: usize| match path {
        "/robots.txt" => Reply::to("/robots-real.txt?PHPSESSID=0123456789abcdef0123456789abcdef"),
        _ if path.starts_with("/robots-real.txt") => Reply::text("User-agent: *\nDisallow: /private"),
        "/" => Reply::html("<a href=/private/x>1</a><a href=/open>2</a>"),
        _ => Reply::html("<p>a page"),
    };
    let same = |path: &str, _: usize| match path {
        // To another spelling of the same page.
        "/robots.txt" => Reply::to("/robots.txt?utm_source=x"),
        "/robots.txt?utm_source=x" => Reply::text("User-agent: *\nDisallow: /private"),
        "/" => Reply::html("<a href=/private/x>1</a><a href=/open>2</a>"),
        _ => Reply::html("<p>a page"),
    };
    for rules in ["crawl", "surt", "whatwg", "exact", "crawl,+www"] {
        let web = Web::new([("one.test", site(robots)), ("two.test", site(same))]);
        let (bench, resolve) = (Bench::new(), web.resolve());
        let rules = format!("--canonicalizer={rules}");
        let seeds = ["--seed=http://one.test/", "--seed=http://two.test/", &rules];
        let end = bench.run("run", &with(&resolve, &seeds)).ended(0).json();
        assert_eq!(end["reasons"]["robots"], 2, "{rules}: {end}");
        assert!(!web.counts().keys().any(|url| url.contains("/private/")), "{rules}: {:?}", web.counts());
        // Also when the answer comes from the store.
        let why = bench.run("why", &["http://two.test/private/y", "--json"]).json();
        assert_eq!(why["robots"], "forbidden", "{rules}: {why}");
    }
}

#[test]
fn a_robots_txt_that_asks_for_patience_is_given_it() {
    let busy = site(|path, before| match (path, before) {
        ("/robots.txt", 0) => Reply::Page(503, vec![("Retry-After", "6".to_owned())], Vec::new()),
        ("/robots.txt", _) => Reply::missing(),
        _ => Reply::html("<p>here"),
    });
    let web = Web::new([("busy.test", busy)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://busy.test/"])).ended(0);
    let asked = web.asked();
    // The first pause of the host is two seconds.
    assert!((asked[1].at - asked[0].at).as_millis() >= 5_500, "{:?}", asked[1].at - asked[0].at);
}

#[test]
fn elements_that_close_themselves_and_odd_bodies_hide_no_links() {
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes).expect("in memory");
        out.finish().expect("in memory")
    };
    let coded = |coding: &str, body: Vec<u8>| {
        Reply::Page(200, vec![("Content-Type", "text/html".to_owned()), ("Content-Encoding", coding.to_owned())], body)
    };
    let odd = site(move |path, _| match path {
        "/" => Reply::html(
            "<a href=/xhtml>1</a><a href=/svg>2</a><a href=/trailing>3</a><a href=/empty>4</a><a href=/choices>5</a>\
             <a href=/sub/based>6</a><a href=/twice>7</a><a href=/nowhere>8</a><a href=/untold>9</a>\
             <a href=/nested>10</a><a href=/unknown>11</a><a href=/blank>12</a>",
        ),
        "/xhtml" => typed("application/xhtml+xml", "<head><title>t</title><script src='x'/></head><a href='/x/1'/>"),
        "/svg" => Reply::html("<svg><title/><path/></svg><a href=/x/2>"),
        "/trailing" => coded("gzip", [gzip(b"<a href=/x/3>"), b"\r\n\0".to_vec()].concat()),
        "/empty" => {
            Reply::Page(301, vec![("Location", "/x/4".to_owned()), ("Content-Encoding", "br".to_owned())], Vec::new())
        }
        "/choices" => Reply::Page(300, vec![("Content-Type", "text/html".to_owned())], b"<a href=/x/5>".to_vec()),
        "/sub/based" => Reply::html("<base href='/x/6/'><a href='#top'>here</a>"),
        "/twice" => coded("gzip, gzip", gzip(b"<a href=/x/7>")),
        "/nested" => coded("gzip, gzip", gzip(&gzip(b"<a href=/x/10>"))),
        "/unknown" => coded("none", b"<a href=/x/11>".to_vec()),
        "/nowhere" => Reply::to("http://[bad"),
        "/untold" => Reply::Page(302, vec![("Content-Type", "text/html".to_owned())], b"<a href=/x/9>".to_vec()),
        "/blank" => {
            let fields = [("Content-Type", "text/html"), ("Location", "")];
            let fields = fields.map(|(name, value)| (name, value.to_owned())).to_vec();
            Reply::Page(302, fields, b"<a href=/x/12>".to_vec())
        }
        _ => Reply::html(format!("<p>{path}")),
    });
    let web = Web::new([("odd.test", odd)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://odd.test/", "--no-robots"])).ended(0).json();
    for found in ["/x/1", "/x/2", "/x/3", "/x/4", "/x/5", "/x/6/", "/x/9", "/x/10", "/x/11", "/x/12"] {
        assert!(web.counts().contains_key(&format!("http://odd.test{found}")), "{found}: {end}");
    }
    let wanted = json!({ "bad-url": 3, "kept-as-received": 2, "trailing-bytes": 1 });
    assert_eq!(end["reasons"], wanted, "what is not undone is counted");
}

#[test]
fn a_robots_txt_of_which_not_all_counts_is_named_once() {
    let long = site(|path, _| match path {
        "/robots.txt" => {
            Reply::text(&format!("User-agent: *\nDisallow: /a\n{}\nDisallow: /b\n", "#".repeat(500 << 10)))
        }
        "/" => Reply::html("<a href=/a>1</a><a href=/b>2</a>"),
        _ => Reply::html(format!("<p>{path}")),
    });
    let web = Web::new([("long.test", long)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let log = format!("--log={}", bench.path("log").display());
    let arguments = ["--allow-private", "--json", &resolve, "--seed=http://long.test/", "--rate=20", &log];
    let end = bench.run("run", &arguments).ended(0).json();
    assert_eq!(end["reasons"], json!({ "robots": 1, "robots-limit": 1 }), "{end}");
    let log = std::fs::read_to_string(bench.path("log")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let named: Vec<_> = lines.filter(|line| line["limits"] == json!(["robots-limit"])).collect();
    assert!(named.len() == 1 && named[0]["event"] == "later" && named[0]["url"] == "http://long.test/", "{log}");
}

#[test]
fn a_robots_txt_is_obeyed_to_its_end_however_short_bodies_must_be() {
    let long = site(|path, _| match path {
        "/robots.txt" => Reply::text(&format!("User-agent: *\n{}\nDisallow: /a\n", "#".repeat(20_000))),
        "/" => Reply::html("<a href=/a>1</a><a href=/b>2</a>"),
        _ => Reply::html(format!("<p>{path}")),
    });
    let web = Web::new([("long.test", long)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = ["--seed=http://long.test/", "--max-body=1KiB"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
    assert_eq!((&end["reasons"], end["fetched"].as_u64()), (&json!({ "robots": 1 }), Some(2)), "{end}");
    assert!(!web.counts().contains_key("http://long.test/a"), "{:?}", web.counts());
}

#[test]
fn a_delay_that_is_cut_is_named() {
    let slow = site(|path, _| match path {
        "/robots.txt" => Reply::text("User-agent: *\nCrawl-delay: 86400\n"),
        _ => Reply::html("<p>x"),
    });
    let web = Web::new([("slow.test", slow)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    // The page would be fetched in a minute, and the run does not wait for that.
    let arguments = ["--seed=http://slow.test/", "--patience=1s"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(1).json();
    assert_eq!((&end["end"], &end["reasons"]), (&json!("waiting"), &json!({ "crawl-delay-limit": 1 })), "{end}");
}

#[test]
fn links_that_are_not_followed_are_counted_by_reason() {
    let quiet = site(|path, _| match path {
        "/robots.txt" => Reply::text("Sitemap: http://[bad\nSitemap: ftp://quiet.test/map\n"),
        "/" => Reply::html(
            "<a rel=nofollow href=/a>1</a><a href='http://[bad'>2</a><a href=mailto:x@y>3</a><a href=/tag>4</a>\
             <a href=/meta>5</a><a href=/moved>6</a>",
        ),
        "/tag" => Reply::Page(
            200,
            vec![("Content-Type", "text/html".to_owned()), ("X-Robots-Tag", "none".to_owned())],
            b"<a href=/b>1</a><a href=/c>2</a>".to_vec(),
        ),
        "/meta" => Reply::html("<meta name=robots content=nofollow><a href=/d>1</a>"),
        "/moved" => Reply::to("ftp://quiet.test/"),
        _ => Reply::html(format!("<p>{path}")),
    });
    let web = Web::new([("quiet.test", quiet)]);
    let resolve = web.resolve();
    let reasons = json!({ "nofollow": 4, "bad-url": 4 });
    for more in [&["--seed=http://quiet.test/"][..], &["--seed=http://quiet.test/", "--near-bits=off"]] {
        let end = Bench::new().run("run", &with(&resolve, more)).ended(0).json();
        assert_eq!((&end["reasons"], end["fetched"].as_u64()), (&reasons, Some(4)), "{end}");
    }
    let more = ["--seed=http://quiet.test/", "--follow-nofollow"];
    let end = Bench::new().run("run", &with(&resolve, &more)).ended(0).json();
    assert_eq!((&end["reasons"], end["fetched"].as_u64()), (&json!({ "bad-url": 4 }), Some(8)), "{end}");
}

#[test]
fn links_in_header_fields_are_followed_obeyed_and_edges() {
    let fields = site(|path, _| {
        let with = |kind: &str, fields: &[(&'static str, &str)], body: &str| {
            let kind = ("Content-Type", kind.to_owned());
            let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned()));
            Reply::Page(200, [kind].into_iter().chain(fields).collect(), body.into())
        };
        match path {
            "/" => with(
                "text/html",
                &[("Refresh", "0; url=later"), ("Link", "</paper>; rel=\"alternate\", </x.css>; rel=stylesheet")],
                "<base href=/no/><a href=/quiet>x</a>",
            ),
            "/paper" => with("application/pdf", &[("Link", "<http://fields.test/about>; rel=canonical")], "%PDF-1.4"),
            "/quiet" => with("text/html", &[("X-Robots-Tag", "nofollow"), ("Link", "</hidden>; rel=next")], "<p>x"),
            _ => Reply::html(format!("<p>{path}")),
        }
    });
    let web = Web::new([("fields.test", fields)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let edges = format!("--edges={}", bench.path("edges").display());
    bench.run("run", &with(&resolve, &["--seed=http://fields.test/", "--no-robots", &edges])).ended(0);
    let urls: Vec<String> = bench.pages().into_keys().map(|url| url.replace("http://fields.test", "")).collect();
    assert_eq!(urls, ["/", "/about", "/later", "/paper", "/quiet"]);
    let lines = std::fs::read_to_string(bench.path("edges")).unwrap();
    let edges = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut words: Vec<String> =
        edges.map(|edge| format!("{} {} {}", edge["element"], edge["to"], edge["rel"]).replace('"', "")).collect();
    words.sort();
    let wanted = [
        "a http://fields.test/quiet null",
        "http-link http://fields.test/about canonical",
        "http-link http://fields.test/hidden next",
        "http-link http://fields.test/paper alternate",
        "http-refresh http://fields.test/later null",
    ];
    assert_eq!(words, wanted);
}

#[test]
fn pages_with_one_body_lead_where_their_refresh_fields_do() {
    let moved = site(|path, _| {
        let to = |target: &str| {
            let fields = vec![("Content-Type", "text/html".to_owned()), ("Refresh", format!("0; url={target}"))];
            Reply::Page(200, fields, b"<p>this page has moved".to_vec())
        };
        match path {
            "/" => Reply::html("<a href=/a>1</a><a href=/b>2</a>"),
            "/a" => to("/x"),
            "/b" => to("/y"),
            _ => Reply::html(format!("<p>{path}")),
        }
    });
    let web = Web::new([("moved.test", moved)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://moved.test/", "--no-robots"])).ended(0).json();
    assert_eq!((end["duplicates"].as_u64(), &end["reasons"]["duplicate-links"]), (Some(1), &json!(null)), "{end}");
    let urls: Vec<String> = bench.pages().into_keys().map(|url| url.replace("http://moved.test", "")).collect();
    assert_eq!(urls, ["/", "/a", "/b", "/x", "/y"]);
}

#[test]
fn a_run_of_due_pages_whose_host_is_silent_says_so() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let site: Site = Arc::new(move |request: &Request| match down.load(Ordering::Relaxed) {
        true => Reply::Bare(Box::new(|_| ())),
        false => Reply::html(format!("<p>{}", request.path)),
    });
    let web = Web::new([("again.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let first = ["--seed=http://again.test/", "--recrawl=1s", "--max-pages=1"];
    bench.run("run", &with(&resolve, &first)).ended(0);
    is_down.store(true, Ordering::Relaxed);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let dead = ["--no-robots", "--patience=1s", "--attempts=15"];
    let ran = bench.run("run", &with(&resolve, &dead)).ended(5);
    assert!(ran.words.contains("1 page not fetched"), "{}", ran.words);
    assert!(bench.run("list", &["--state=failed"]).ended(0).out.contains("http://again.test/\tfailed"));
}

#[test]
fn a_scope_that_was_narrow_for_a_run_excludes_nothing_for_good() {
    let web = Web::new([
        ("wide.test", site(|_, _| Reply::html("<a href=http://other.test/1>1</a><a href=http://other.test/2>2</a>"))),
        ("other.test", site(|path, _| Reply::html(format!("<p>{path}")))),
    ]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let wide = ["--seed=http://wide.test/", "--scope=any", "--max-pages=1", "--no-robots"];
    bench.run("run", &with(&resolve, &wide)).ended(0);
    bench.run("run", &["--rate=0", "--json", &resolve, "--scope=host", "--contact=me@a.example"]).ended(0);
    assert_eq!(bench.pages().len(), 1);
    let log = format!("--log={}", bench.path("log").display());
    let ran = bench.run("run", &with(&resolve, &["--scope=any", &log])).ended(0);
    assert!(ran.words.contains("2 pages that were refused are tried again"), "{}", ran.words);
    // This is said before the log is open.
    let log = std::fs::read_to_string(bench.path("log")).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let second = (&lines[1]["event"], &lines[1]["what"]);
    assert_eq!(
        (&lines[0]["event"], second),
        (&json!("begin"), (&json!("taken-back"), &json!({ "pages": 2 }))),
        "{log}"
    );
    assert_eq!(bench.pages().len(), 3);
}

#[test]
fn a_page_that_is_there_after_all_is_stored_with_its_status() {
    let spa = site(|path, before| match (path, before) {
        ("/spa", 0) => Reply::Page(404, vec![("Content-Type", "text/html".to_owned())], b"<p>the shell".to_vec()),
        ("/spa", _) => Reply::html("<p>the shell"),
        _ => Reply::html("<a href=/spa>1</a>"),
    });
    let web = Web::new([("spa.test", spa)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://spa.test/", "--no-robots"])).ended(0);
    bench.run("retry", &["--reason=client-status"]).ended(0);
    bench.run("run", &with(&resolve, &[])).ended(0);
    assert_eq!(bench.pages()["http://spa.test/spa"].status, Some(200));
}

#[test]
fn a_sitemap_at_another_spelling_of_its_url_is_one() {
    let mapped = site(|path, _| match path {
        "/robots.txt" => Reply::text("Sitemap: http://mapped.test/urls.txt?b=1&a=2"),
        "/urls.txt?b=1&a=2" => Reply::to("/urls.txt?a=2&b=1"),
        "/urls.txt?a=2&b=1" => Reply::text("http://mapped.test/hidden\n"),
        _ => Reply::html(format!("<p>{path}")),
    });
    let web = Web::new([("mapped.test", mapped)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://mapped.test/"])).ended(0);
    assert!(bench.pages().contains_key("http://mapped.test/hidden"));
}

/// The sitemap is a start page, and is itself fetched again.
#[test]
fn what_a_sitemap_says_of_changes_moves_recrawls() {
    let site: Site = Arc::new(|request: &Request| match (request.path.as_str(), request.before) {
        ("/sitemap.xml", before) => {
            let changed = if before == 0 { "2001-01-01" } else { "2099-01-01" };
            let now = filemap::date::format(fm_now());
            let row = |page: &str, when: &str, how: &str| {
                format!("<url><loc>/{page}</loc><lastmod>{when}</lastmod><changefreq>{how}</changefreq></url>")
            };
            let rows =
                [row("old", "2001-01-01", "yearly"), row("new", &now, "yearly"), row("later", changed, "yearly")];
            typed("application/xml", format!("<urlset>{}<!-- {before} --></urlset>", rows.concat()))
        }
        (path, before) => Reply::html(format!("<p>{path} {before}")),
    });
    let web = Web::new([("mapped.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments =
        ["--seed=http://mapped.test/sitemap.xml", "--no-robots", "--recrawl=2s", "--forever", "--max-pages=6"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
    // Three pages have an interval of 32 s; only the one that is listed as changed is due.
    let counts = web.counts();
    let times = |page: &str| counts.get(&format!("http://mapped.test/{page}")).copied();
    assert_eq!((times("old"), times("new"), times("later")), (Some(1), Some(2), Some(1)), "{end} {counts:?}");
    assert!(end["moved"].as_u64().is_some_and(|moved| moved >= 4), "{end}");
}

fn fm_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    since.as_millis() as i64
}
