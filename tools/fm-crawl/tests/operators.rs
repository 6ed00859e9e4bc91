//! Files and settings from operators: lists of start pages, patterns, types.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, sites};

const FAST: [&str; 3] = ["--rate=0", "--allow-private", "--json"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

#[test]
fn start_pages_come_from_lists_and_are_remembered() {
    let web = Web::new([("a.test", sites::tree(3)), ("b.test", sites::tree(4)), ("c.test", sites::tree(2))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let list = bench.path("seeds.txt");
    fs::write(&list, "# two sites\nhttp://a.test/\n\nhttp://b.test/\nHTTP://A.test/\n").expect("written");
    let lists = format!("--seeds={}", list.display());
    bench.run("run", &with(&resolve, &[&lists, "--max-pages=1"])).ended(0);
    fs::remove_file(&list).expect("there");

    let mut child = bench.command("run", &["--rate=0", "--allow-private", &resolve, "--seeds=-"]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(b"http://c.test/\nhttp://b.test/").expect("it reads");
    let ran = Bench::finish(child).ended(0);
    assert!(ran.words.contains("standard input: 2 start pages, 1 new"), "{}", ran.words);
    assert_eq!(bench.pages().len(), 3 + 4 + 2);

    let status = bench.run("status", &["--json"]).ended(0).json();
    assert_eq!((&status["seeds"], &status["listed_seeds"]), (&json!([]), &json!(3)), "{status}");
    assert!(bench.run("status", &[]).ended(0).out.contains("scope host of 3 seeds"));

    fs::remove_file(bench.path("pages.fm.crawl/seeds")).expect("there");
    let ran = bench.run("run", &with(&resolve, &[])).ended(3);
    assert!(ran.words.contains("pages.fm.crawl/seeds"), "{}", ran.words);
}

#[test]
fn bad_start_pages_are_all_named_before_anything_is_made() {
    let bench = Bench::new();
    let list = bench.path("seeds.txt");
    fs::write(&list, "http://a.test/\nnonsense\n# fine\nftp://a.test/\n").expect("written");
    let lists = format!("--seeds={}", list.display());
    let ran = bench.run("run", &["--allow-private", &lists, "--seed", "http://a.test/", "http://[/"]).ended(2);
    for words in ["seeds.txt:2: nonsense: ", "seeds.txt:4: ftp://a.test/: only http", "http://[/: ", "3 start pages"] {
        assert!(ran.words.contains(words), "{words}: {}", ran.words);
    }
    assert!(!bench.store().exists() && !bench.path("pages.fm.crawl").exists());
    fs::write(&list, "# nothing\n").expect("written");
    assert!(bench.run("run", &["--allow-private", &lists]).ended(2).words.contains("a crawl needs a start page"));
    assert!(bench.run("run", &["--allow-private", "--seeds=/absent"]).ended(2).words.contains("/absent"));
}

/// The requested paths, without robots.txt.
fn asked(web: &Web) -> BTreeSet<String> {
    let paths = web.asked().into_iter().filter_map(|asked| Some(asked.url.split_once(".test")?.1.to_owned()));
    paths.filter(|path| path != "/robots.txt").collect()
}

fn set(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

/// A site with two parts, and a start page that redirects to a third.
fn parts() -> Site {
    Arc::new(|request: &Request| match request.path.as_str() {
        "/" => Reply::to("/home"),
        "/robots.txt" => Reply::text("Sitemap: http://parts.test/map.xml"),
        "/map.xml" => Reply::text("<urlset><url><loc>http://parts.test/news/map</loc></url></urlset>"),
        "/home" => {
            Reply::html("<a href=/news/1>1</a><a href=/news/old>2</a><a href=/shop/1>3</a><a href=/shop/2>4</a>")
        }
        path if path.starts_with("/news/") => {
            Reply::html(format!("<p>{path}<a href=/shop/3>5</a><a href=/news/old>6</a>"))
        }
        path => Reply::html(format!("<p>{path}")),
    })
}

#[test]
fn patterns_choose_what_is_fetched_and_are_taken_back() {
    let web = Web::new([("parts.test", parts())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let patterns = ["--seed=http://parts.test/", "--include=/news/", "--exclude=prefix:http://parts.test/news/old"];
    let end = bench.run("run", &with(&resolve, &patterns)).ended(0).json();
    // The start page, its redirect target and the sitemap need not match `--include`.
    assert_eq!(asked(&web), set(&["/", "/home", "/map.xml", "/news/1", "/news/map"]));
    // Three links of /home, two of each page below /news.
    assert_eq!(end["reasons"], json!({ "excluded": 3 + 2 + 2 }), "{end}");

    // The second run still knows the patterns; the third drops those of one kind.
    fs::write(bench.path("seeds"), "http://parts.test/again\n").expect("written");
    let more = format!("--seeds={}", bench.path("seeds").display());
    bench.run("run", &with(&resolve, &[&more])).ended(0);
    let json = fs::read_to_string(bench.path("pages.fm.crawl/crawl.json")).expect("there");
    assert!(json.contains("\"/news/\""), "{json}");
    bench.run("run", &with(&resolve, &["--no-include", "--exclude=/again"])).ended(0);
    let json = fs::read_to_string(bench.path("pages.fm.crawl/crawl.json")).expect("there");
    assert!(!json.contains("\"/news/\"") && json.contains("news/old") && json.contains("/again"), "{json}");
    let ran = bench.run("run", &["--allow-private", "--include=("]).ended(2);
    assert!(ran.words.contains("--include"), "{}", ran.words);
}

#[test]
fn a_start_page_that_is_excluded_is_not_fetched_and_said() {
    let web = Web::new([("parts.test", parts())]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let ran = bench.run("run", &with(&resolve, &["--seed=http://parts.test/", "--exclude=^http://parts"])).ended(1);
    assert!(ran.words.contains("was given up: excluded: a pattern of --exclude"), "{}", ran.words);
    assert_eq!((web.asked().len(), &ran.json()["reasons"]), (0, &json!({ "excluded": 1 })));
    assert!(bench.run("list", &["--state=excluded"]).ended(0).out.starts_with("http://parts.test/\texcluded\trefused"));
}

#[test]
fn a_file_of_patterns_is_read_again_while_the_crawl_runs() {
    let endless: Site = Arc::new(|request: &Request| match request.path.trim_start_matches("/p").parse::<u64>() {
        Ok(page) => Reply::html(format!("<a href=/p{}>x</a><a href=/q{page}>y</a>", page + 1)),
        Err(_) if request.path == "/robots.txt" => Reply::missing(),
        Err(_) => Reply::html(format!("<p>{}", request.path)),
    });
    let web = Web::slow([("endless.test", endless)], Duration::from_millis(2));
    let (bench, resolve) = (Bench::new(), web.resolve());
    let (list, log) = (bench.path("patterns"), bench.path("log"));
    fs::write(&list, "# nothing yet\n").expect("written");
    let exclude = format!("--exclude=@{}", list.display());
    let log_to = format!("--log={}", log.display());
    let child =
        bench.start("run", &with(&resolve, &["--seed=http://endless.test/p1", &exclude, &log_to, "--max-depth=60000"]));
    while web.pages_asked() < 20 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    // Both links, and the pages that are queued.
    fs::write(&list, "/p\\d\n/q\n").expect("written");
    let ran = Bench::finish(child).ended(0);
    assert!(begun.elapsed() < Duration::from_secs(300));
    let end = ran.json();
    assert!(end["end"] == "complete" && end["reasons"]["excluded"].as_u64() > Some(1), "{end}");
    assert!(ran.words.contains("patterns has changed: 2 patterns"), "{}", ran.words);
    let log = fs::read_to_string(log).expect("there");
    let said = log.lines().filter(|line| line.contains("\"patterns\":2")).count();
    assert!(said == 1 && log.contains("\"reason\":\"excluded\""), "{log}");
}

#[test]
fn types_and_extensions_that_are_not_wanted_are_dropped_early() {
    let typed = |kind: &str, body: &str| Reply::Page(200, vec![("Content-Type", kind.to_owned())], body.into());
    let site: Site = Arc::new(move |request: &Request| match request.path.as_str() {
        "/seed.zip" => Reply::html(
            "<a href=/image>1</a><a href=/none>2</a><a href=/a.ZIP?x>3</a><a href=/moved>4</a><a href=/missing>5</a>\
             <a href=/data>6</a>",
        ),
        "/robots.txt" => Reply::text("Sitemap: http://typed.test/map.xml.gz"),
        "/map.xml.gz" => typed("application/xml", "<urlset><url><loc>http://typed.test/found</loc></url></urlset>"),
        "/found" => Reply::html("<p>found"),
        // It never ends.
        "/image" => Reply::Bare(Box::new(|stream| {
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n";
            let mut is_open = stream.write_all(head).is_ok();
            while is_open {
                is_open = stream.write_all(&[b'x'; 4096]).is_ok();
            }
        })),
        "/none" => Reply::Page(200, Vec::new(), b"<p>it says no type".to_vec()),
        "/moved" => Reply::Page(302, vec![("Location", "/found".into()), ("Content-Type", "image/png".into())], vec![]),
        "/data" => typed("Application/JSON;x=y", "{}"),
        _ => Reply::missing(),
    });
    let web = Web::new([("typed.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let wanted = ["--seed=http://typed.test/seed.zip", "--accept-type=text/html,application/json"];
    let more = ["--reject-extension=.zip,gz", "--max-body=1MiB"];
    let arguments = with(&resolve, &[&wanted[..], &more].concat());
    let end = bench.run("run", &arguments).ended(0).json();
    assert_eq!(end["reasons"], json!({ "extension": 1, "type": 1, "client-status": 1 }), "{end}");
    assert_eq!((&end["fetched"], &end["not_fetched"]["missing"]), (&json!(6), &json!(0)), "{end}");
    assert_eq!(web.counts()["http://typed.test/image"], 1, "nobody tries again");
    let pages = bench.pages();
    let is_there = ["seed.zip", "none", "moved", "data", "found"].map(|page| format!("http://typed.test/{page}"));
    assert!(is_there.iter().all(|url| pages.contains_key(url)), "{:?}", pages.keys());
    assert!(bench.run("list", &["--state=excluded"]).ended(0).out.starts_with("http://typed.test/image\texcluded"));
    assert!(bench.run("why", &["http://typed.test/image"]).ended(0).out.contains("type: image/png"));

    // All of it is undone.
    bench.run("retry", &["--reason=refused"]).ended(0);
    let end = bench.run("run", &with(&resolve, &["--accept-type=any", "--reject-extension=none"])).ended(0).json();
    assert_eq!(end["reasons"], json!({ "body-limit": 1 }), "{end}");
    assert!(bench.run("run", &["--accept-type=html"]).ended(2).words.contains("text/html"));
}

#[test]
fn a_recrawl_is_taken_back() {
    let web = Web::new([("again.test", sites::tree(3))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://again.test/", "--recrawl=1s"])).ended(0);
    let begun = Instant::now();
    // The recrawl interval is remembered.
    while bench.run("run", &with(&resolve, &[])).ended(0).json()["fetched"] == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(3));
    for arguments in [&["--recrawl=off"][..], &[]] {
        assert_eq!(bench.run("run", &with(&resolve, arguments)).ended(0).json()["fetched"], 0);
    }
    assert!(bench.run("run", &["--recrawl=never"]).ended(2).words.contains("--recrawl"));
}

/// A site whose pages need files from another host, which links further.
fn shown() -> [(&'static str, Site); 2] {
    let kind = |kind: &str, body: &str| Reply::Page(200, vec![("Content-Type", kind.to_owned())], body.into());
    let site: Site = Arc::new(move |request: &Request| match request.path.as_str() {
        "/" => Reply::html(
            "<link rel=stylesheet href=http://cdn.test/a.css><img srcset='/small.png 1x, http://cdn.test/big.png 2x'>\
             <script src=http://cdn.test/moved.js></script><a href=/page>1</a><img src=/shop.gif>\
             <a href=http://cdn.test/>2</a><img src=http://cdn.test/frame>",
        ),
        "/page" => Reply::html("<img src=/small.png><a href=/deep>3</a><img src=http://cdn.test/hidden/x.png>"),
        "/robots.txt" => Reply::missing(),
        _ => kind("image/png", "png"),
    });
    let cdn: Site = Arc::new(move |request: &Request| match request.path.as_str() {
        "/a.css" => kind("text/css", "@import 'b.css'; p { background: url(img/p.png) }"),
        "/b.css" => kind("text/css", "@font-face { src: url(f.woff2) } @import 'c.css';"),
        "/c.css" => kind("text/css", "@import 'too-far.css';"),
        "/moved.js" => Reply::to("http://cdn.test/real.js"),
        "/frame" => Reply::html("<a href=/no>1</a><img src=/no.png>"),
        "/robots.txt" => Reply::text("User-agent: *\nDisallow: /hidden"),
        _ => kind("application/octet-stream", "x"),
    });
    [("shown.test", site), ("cdn.test", cdn)]
}

#[test]
fn requisites_are_fetched_wherever_they_are_and_lead_no_further() {
    let web = Web::new(shown());
    let (bench, resolve) = (Bench::new(), web.resolve());
    // At depth 1: page requisites do not count as a level, need no `--include`, and have any type.
    let arguments = ["--seed=http://shown.test/", "--max-depth=1", "--requisites", "--include=/page"];
    let more = ["--accept-type=text/html", "--reject-extension=gif"];
    let end = bench.run("run", &with(&resolve, &[&arguments[..], &more].concat())).ended(0).json();
    let pages: BTreeSet<String> = bench.pages().into_keys().map(|url| url.replace(".test", "")).collect();
    let shown = ["/", "/page", "/small.png"].map(|path| format!("http://shown{path}"));
    let cdn = ["a.css", "b.css", "c.css", "img/p.png", "f.woff2", "big.png", "moved.js", "real.js", "frame"];
    let wanted = shown.into_iter().chain(cdn.map(|path| format!("http://cdn/{path}"))).collect::<BTreeSet<_>>();
    assert_eq!(pages, wanted, "{end}");
    let reasons = json!({ "extension": 1, "robots": 1, "excluded": 1 });
    assert_eq!(end["reasons"], reasons, "{end}");
    assert!(bench.run("why", &["http://cdn.test/f.woff2"]).ended(0).out.contains("fetched"));

    // Without requisites none of them is fetched; the option can be undone.
    let plain = Bench::new();
    plain.run("run", &with(&resolve, &["--seed=http://shown.test/", "--requisites", "--max-pages=1"])).ended(0);
    let end = plain.run("run", &with(&resolve, &["--no-requisites"])).ended(0).json();
    assert!(end["reasons"]["scope"].as_u64() > Some(2) && plain.pages().len() < 6, "{end}");
}

#[test]
fn the_depth_holds_for_links_beside_requisites() {
    let web = Web::new(shown());
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://shown.test/", "--max-depth=1", "--requisites"]));
    let end = end.ended(0).json();
    assert_eq!(end["reasons"], json!({ "robots": 1, "depth-limit": 1 }), "{end}");
    assert!(!web.counts().contains_key("http://shown.test/deep"));
}

/// The lines of a log.
fn lines(path: &std::path::Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).expect("there");
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The pages that were fetched, according to these lines.
fn fetched(lines: &[serde_json::Value]) -> Vec<String> {
    let all = lines.iter().filter(|line| line["event"] == "fetched");
    all.map(|line| line["url"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_log_that_grows_is_begun_anew_and_no_line_is_lost() {
    let web = Web::new([("tree.test", sites::tree(60))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let log = bench.path("log");
    let log_to = format!("--log={}", log.display());
    let arguments = ["--seed=http://tree.test/", &log_to, "--log-size=4KiB"];
    bench.run("run", &with(&resolve, &[&arguments[..], &["--max-pages=30"]].concat())).ended(0);
    bench.run("run", &with(&resolve, &arguments)).ended(0);
    let old: Vec<_> = (1..).map(|n| bench.path(&format!("log.{n}"))).take_while(|path| path.exists()).collect();
    assert!(old.len() >= 2, "{}", old.len());
    assert!(old.iter().chain([&log]).all(|path| fs::metadata(path).expect("there").len() <= 4096));
    let lines: Vec<_> = old.iter().chain([&log]).flat_map(|path| lines(path)).collect();
    let events = |name: &str| lines.iter().filter(|line| line["event"] == name).count();
    assert_eq!((events("begin"), events("end"), events("fetched")), (2, 2, 60));
    assert!(lines[0]["event"] == "begin" && lines[lines.len() - 1]["event"] == "end", "they are in order");
    assert_eq!(fetched(&lines).into_iter().collect::<BTreeSet<_>>().len(), 60);
    let pipe = bench.run("run", &with(&resolve, &["--log=/dev/null", "--log-size=4KiB"])).ended(2);
    assert!(pipe.words.contains("--log-size is for files"), "{}", pipe.words);
    assert!(bench.run("run", &["--log-size=4KiB"]).ended(2).words.contains("--log"));
}

#[test]
fn a_log_that_was_renamed_is_opened_again_after_a_hang_up() {
    let endless: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::missing(),
        path => Reply::html(format!("<a href={path}x>x</a>")),
    });
    let web = Web::slow([("endless.test", endless)], Duration::from_millis(5));
    let (bench, resolve) = (Bench::new(), web.resolve());
    let (log, old) = (bench.path("log"), bench.path("log.old"));
    let log_to = format!("--log={}", log.display());
    let mut child = bench.start("run", &with(&resolve, &["--seed=http://endless.test/", &log_to]));
    let id = child.id().to_string();
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("it runs").success());
    };
    let until = |path: &std::path::Path| {
        let begun = Instant::now();
        while !fs::read_to_string(path).is_ok_and(|text| text.contains("\"fetched\"")) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", path.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until(&log);
    fs::rename(&log, &old).expect("there");
    signal("-HUP");
    until(&log);
    assert!(child.try_wait().expect("ours").is_none(), "it goes on");
    signal("-TERM");
    Bench::finish(child).ended(143);
    let both = [lines(&old), lines(&log)];
    assert!(both.iter().all(|lines| !fetched(lines).is_empty()));
    let all = fetched(&both.concat());
    assert_eq!((all.iter().collect::<BTreeSet<_>>().len(), bench.pages().len()), (all.len(), all.len()));
}

#[test]
fn cookies_are_kept_for_the_run_if_so_asked() {
    let gated: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/" => {
            let set = ("Set-Cookie", "pass=s3cret; Domain=test; Path=/".to_owned());
            let kind = ("Content-Type", "text/html".to_owned());
            Reply::Page(200, vec![set, kind], b"<a href=/in>1</a><a href=http://other.test/>2</a>".to_vec())
        }
        "/in" if request.fields.get("cookie").is_some_and(|cookie| cookie == "pass=s3cret") => Reply::html("<p>in"),
        "/in" => Reply::Page(403, Vec::new(), Vec::new()),
        _ => Reply::missing(),
    });
    let web = Web::new([("gated.test", gated), ("other.test", sites::tree(1))]);
    let resolve = web.resolve();
    let arguments = ["--seed=http://gated.test/", "--scope=any", "--attempts=1"];
    let bench = Bench::new();
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
    assert_eq!(end["reasons"], json!({ "client-status": 1 }), "{end}");
    let bench = Bench::new();
    let end = bench.run("run", &with(&resolve, &[&arguments[..], &["--cookies"]].concat())).ended(0).json();
    assert_eq!((&end["reasons"], &end["fetched"]), (&json!({}), &json!(3)), "{end}");
    let others = web.asked().into_iter().filter(|asked| asked.url.starts_with("http://other.test/"));
    assert!(others.filter(|asked| asked.fields.contains_key("cookie")).count() == 0, "a cookie stays with its host");
    let kept = fs::read_to_string(bench.path("pages.fm.crawl/crawl.json")).expect("there");
    assert!(kept.contains("\"cookies\": true") && !kept.contains("s3cret"), "{kept}");
    bench.run("run", &with(&resolve, &["--no-cookies"])).ended(0);
    let kept = fs::read_to_string(bench.path("pages.fm.crawl/crawl.json")).expect("there");
    assert!(kept.contains("\"cookies\": false"), "{kept}");
}

#[test]
fn a_crawl_pauses_while_the_disk_is_full() {
    let web = Web::new([("tree.test", sites::tree(6))]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let log = bench.path("log");
    let log_to = format!("--log={}", log.display());
    // No disk has this much free space.
    let arguments = with(&resolve, &["--seed=http://tree.test/", "--min-free=8000000TiB", "--patience=1ms", &log_to]);
    let mut child = bench.start("run", &arguments);
    let begun = Instant::now();
    while !fs::read_to_string(&log).is_ok_and(|text| text.contains("\"paused\"")) {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().expect("ours").is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = bench.path("pages.fm.crawl/status.json");
    while !fs::read_to_string(&status)
        .is_ok_and(|text| text.contains("\"low_space\":") && !text.contains("_space\":null"))
    {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().expect("it waits").is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("it runs").success());
    let ran = Bench::finish(child).ended(143);
    assert!(ran.words.contains("less than --min-free"), "{}", ran.words);
    assert!(web.asked().is_empty());
    let end = bench.run("run", &with(&resolve, &["--min-free=1"])).ended(0).json();
    assert_eq!((&end["fetched"], &end["low_space"]), (&json!(6), &json!(null)), "{end}");
}
