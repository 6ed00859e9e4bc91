//! The inspector's views: all of the store can be reached by links, and no part of a stored page
//! becomes part of a view.

use std::collections::BTreeSet;

use filemap::{Page, Variant};

use filemap_http::server::ServerOptions;

use crate::served::{Served, served, with};

pub const TIME: i64 = 1_700_000_000_000;

pub fn html(url: &str, time_ms: i64, body: &str) -> Page {
    let mut page = Page::new(url, time_ms, 200, body);
    page.headers.push("Content-Type", "text/html; charset=utf-8");
    page
}

pub fn view(server: &Served, target: &str) -> String {
    let answer = server.get(target, &[]);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")), "{target}");
    let policy = answer.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; ") && policy.contains("style-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe") && (target == "/") == policy.contains("script-src 'self';"), "{policy}");
    String::from_utf8(answer.body).expect("text")
}

/// The targets of a view's links and frames, without the fragment.
pub fn links(view: &str) -> Vec<String> {
    let after = |name: &'static str| view.split(name).skip(1).filter_map(|rest| rest.split('"').next());
    let all = after("href=\"").chain(after("src=\""));
    let whole = |target: &str| target.split('#').next().unwrap_or_default().replace("&amp;", "&");
    all.filter(|target| target.starts_with('/')).map(whole).collect()
}

#[test]
fn all_of_a_store_is_reached_from_its_first_page() {
    let mut pages = Vec::new();
    for host in 0..230 {
        for path in 0..if host == 7 { 150 } else { 1 } {
            pages.push(html(&format!("http://h{host}.example/{path}"), TIME, "<p>hello"));
        }
    }
    pages.push(html("http://h9.example/0", TIME + 5000, "<p>again"));
    pages.push(Page {
        variant: Variant::of_request("POST", None, b"a=1"),
        ..html("http://h9.example/0", TIME, "posted")
    });
    pages.push(Page::new("dns:h9.example", TIME, 200, "127.0.0.1"));
    // Of a host in the middle, but after all hosts in the order.
    pages.push(html("ftp://h50.example/file", TIME, "<p>file"));
    pages.push(html("http://user@h60.example/", TIME, "<p>user"));
    let server = served(&pages);
    let (mut seen, mut left) = (BTreeSet::new(), vec!["/".to_owned()]);
    while let Some(target) = left.pop() {
        // Targets that are not views are fetched too, and must exist.
        let is_view = !target.starts_with("/v1/")
            && !target.starts_with("/rendered")
            && target != "/style.css"
            && target != "/charts.js";
        if !is_view {
            assert_eq!(server.get(&target, &[]).status, 200, "{target}");
            continue;
        }
        for link in links(&view(&server, &target)) {
            if seen.insert(link.clone()) {
                left.push(link);
            }
        }
    }
    let of_all = |link: &&String| !["variant=", "year=", "day="].iter().any(|part| link.contains(part));
    let captures = seen.iter().filter(|link| link.starts_with("/captures?")).filter(of_all).count();
    assert_eq!(captures, 230 + 149 + 2, "every page of every host");
    assert!(seen.iter().any(|link| link.starts_with("/captures?") && link.contains("variant=")));
    let is_root = |link: &&String| link.starts_with("/tree?prefix=http%3A%2F%2Fh") && !link.contains("cursor=");
    assert_eq!(seen.iter().filter(is_root).count(), 230, "the root of every host");
    let compared = seen.iter().filter(|link| link.starts_with("/compare?")).count();
    assert_eq!(compared, 5, "one page has two versions: each way, as the newest two, and each with itself");
    let shown = seen.iter().filter(|link| link.starts_with("/show?")).count();
    assert_eq!(shown, 230 + 149 + 2 + 2, "every version");
    let last = view(&server, "/hosts");
    assert!(!last.contains("dns:"), "the first hosts say nothing of what stands behind the last");
    assert_eq!(
        links(&view(&server, "/list?prefix=dns:")).iter().filter(|link| link.starts_with("/captures")).count(),
        1
    );
}

#[test]
fn what_is_typed_leads_to_a_page_a_host_or_a_prefix() {
    let server = served(&[html("http://a.example/x?y=1&z=2", TIME, "<p>hello")]);
    for (typed, place) in [
        ("http://a.example/x%3Fy%3D1%26z%3D2", "/captures?url=http%3A%2F%2Fa.example%2Fx%3Fy%3D1%26z%3D2"),
        ("a.example/x", "/captures?url=http%3A%2F%2Fa.example%2Fx"),
        ("+a.example+", "/list?host=a.example"),
        ("http://a.example/x*", "/list?prefix=http%3A%2F%2Fa.example%2Fx"),
        ("a.example/x*", "/list?prefix=http%3A%2F%2Fa.example%2Fx"),
        ("", "/hosts"),
    ] {
        let answer = server.get(&format!("/find?q={typed}"), &[]);
        assert_eq!((answer.status, answer.header("location")), (303, Some(place)), "{typed}");
    }
    for (target, status) in [
        ("/captures?url=http://a.example/none", 404),
        ("/show?url=http://a.example/none", 404),
        ("/captures?url=nothing", 400),
        ("/list?host=a.example&x=1", 400),
    ] {
        let answer = server.get(target, &[]);
        assert_eq!(answer.status, status, "{target}");
        assert!(String::from_utf8(answer.body).expect("text").contains("role=\"alert\""), "{target} says why");
    }
    assert!(view(&server, "/list?host=nowhere.example").contains("0 pages"));
}

#[test]
fn a_hostile_page_is_text_in_a_view_and_runs_nothing_in_its_frame() {
    let evil = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'>";
    let mut page = html("http://a.example/%3Cscript%3E?\"><script>x</script>", TIME, evil);
    page.headers.push("X-<script>", evil);
    page.headers.push("Content-Security-Policy", "default-src *");
    page.truncated = Some(evil.to_owned());
    page.variant = Variant::new(evil).ok();
    let plain = Page { variant: None, ..page.clone() };
    let before = Page { fetched_at_ms: TIME - 1, body: evil.replace("alert", "prompt").into(), ..plain.clone() };
    let server = served(&[before, page, plain]);
    let (mut frames, mut compared) = (0, 0);
    let listed = links(&view(&server, "/list?host=a.example"));
    let captures: Vec<&String> = listed.iter().filter(|link| link.starts_with("/captures")).collect();
    for target in captures {
        let versions = view(&server, target);
        for show in links(&versions).iter().filter(|link| link.starts_with("/show") || link.starts_with("/captures")) {
            for shown in [&versions, &view(&server, show)] {
                assert!(!shown.contains("<script") && !shown.contains("<img"), "{show}: {shown}");
            }
            for frame in links(&view(&server, show)).iter().filter(|link| link.starts_with("/rendered")) {
                let framed = server.get(frame, &[]);
                assert!(framed.body == evil.as_bytes() || framed.body == evil.replace("alert", "prompt").as_bytes());
                let policy = framed.header("content-security-policy").expect("a policy");
                assert!(policy.starts_with("sandbox; default-src 'none'") && !policy.contains("allow"), "{policy}");
                assert_eq!(framed.header("x-content-type-options"), Some("nosniff"));
                frames += 1;
            }
            for pair in links(&view(&server, show)).iter().filter(|link| link.starts_with("/compare")) {
                let shown = view(&server, pair);
                assert!(!shown.contains("<script") && !shown.contains("<img"), "{pair}: {shown}");
                assert!(shown.contains("<ins>aler</ins>t(1)") && shown.contains("sandbox=\"\""), "{shown}");
                compared += 1;
            }
        }
    }
    assert!(frames >= 1 && compared >= 1, "{frames} frames and {compared} comparisons were looked at");
}

#[test]
fn a_source_is_coloured_by_its_type_and_its_bounds_are_said() {
    let typed = |name: &str, kind: &str, body: &str| {
        let mut page = Page::new(format!("http://a.example/{name}"), TIME, 200, body);
        page.headers.push("Content-Type", kind);
        page
    };
    let server = served(&[
        typed("html", "text/html; charset=iso-8859-1", "<b class=\"x\">&amp; <!-- </pre> --></b>"),
        typed("json", "application/ld+json", "{\"a\": 1.5}"),
        typed("text", "text/plain", "<b>\"a\" 1</b>"),
        typed("long", "text/html", &"<a b=c>".repeat(50_000)),
        typed("bytes", "image/png", "\u{89}PNG\0\0"),
        typed("none", "text/html", ""),
    ]);
    let source = |name: &str| {
        let shown = view(&server, &format!("/show?url=http%3A%2F%2Fa.example%2F{name}"));
        shown.split("<h2>Source</h2>").nth(1).expect("a source").to_owned()
    };
    for (name, parts) in [
        (
            "html",
            &[
                "<span class=\"tag\">&lt;b</span>",
                "<span class=\"name\">class</span>",
                "<span class=\"number\">&amp;amp;</span>",
                "<span class=\"comment\">&lt;!-- &lt;/pre&gt; --&gt;</span>",
            ][..],
        ),
        ("json", &["<span class=\"string\">&quot;a&quot;</span>: <span class=\"number\">1.5</span>"]),
        ("text", &["<code>&lt;b&gt;&quot;a&quot; 1&lt;/b&gt;</code>"]),
        ("long", &["The first 262.1 kB of 350.0 kB.", "bytes of that are not highlighted"]),
        ("bytes", &["It is not text."]),
        ("none", &["The body is empty."]),
    ] {
        let shown = source(name);
        for part in parts {
            assert!(shown.contains(part), "{name}: {part}: {}", &shown[..shown.len().min(2000)]);
        }
    }
    assert!(source("long").matches("<span").count() <= 40_000);
}

#[test]
fn a_host_is_browsed_by_path_each_folder_in_parts() {
    let url = |path: &str| format!("http://a.example{path}");
    let mut pages: Vec<Page> = (0..250).map(|at| html(&url(&format!("/many/f{at:03}/x")), TIME, "x")).collect();
    pages.extend((0..1_002).map(|at| html(&url(&format!("/large/{at}")), TIME, "x")));
    for path in ["/", "/many/f001/y", "/many/f001/z/w", "/many/", "/many", "/many?x=/y/", "/z"] {
        pages.push(html(&url(path), TIME, "x"));
    }
    for other in ["https://a.example/many/f001/s", "http://a.example:81/many/f001/p", "http://b.a.example/many/q"] {
        pages.push(html(other, TIME, "x"));
    }
    let server = served(&pages);
    let rows = |view: &str| {
        let body = view.split("<tbody>").nth(1).and_then(|rest| rest.split("</tbody>").next()).unwrap_or_default();
        let text = |row: &str| {
            let parts = row.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text);
            parts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
        };
        body.split("<tr>").skip(1).map(text).collect::<Vec<String>>()
    };
    let roots = view(&server, "/tree?host=A.example");
    assert_eq!(rows(&roots), ["http://a.example/ over 1,000", "http://a.example:81/ 1", "https://a.example/ 1"]);
    let root = view(&server, "/tree?prefix=http%3A%2F%2Fa.example%2F");
    let expected = ["http://a.example/", "large/ over 1,000", "many", "many/ 253", "many?x=/y/", "z"];
    assert_eq!(rows(&root), expected);
    let (mut found, mut target) = (Vec::new(), "/tree?prefix=http%3A%2F%2Fa.example%2Fmany%2F".to_owned());
    loop {
        let part = view(&server, &target);
        found.extend(rows(&part));
        let Some(next) = links(&part).into_iter().find(|link| link.contains("&cursor=")) else { break };
        target = next;
    }
    let folder = |at: usize| format!("f{at:03}/ {}", if at == 1 { 3 } else { 1 });
    let all: Vec<String> = std::iter::once(url("/many/")).chain((0..250).map(folder)).collect();
    assert_eq!(found, all, "each once, whatever the other schemes, ports and hosts have");
    let inner = view(&server, "/tree?prefix=http%3A%2F%2Fa.example%2Fmany%2Ff001%2F");
    assert_eq!(rows(&inner), ["x", "y", "z/ 1"]);
    assert!(links(&inner).contains(&"/tree?prefix=http%3A%2F%2Fa.example%2Fmany%2F".to_owned()), "a way up: {inner}");
    for wrong in ["", "prefix=http%3A%2F%2Fa", "prefix=x", "host=a.example&prefix=http%3A%2F%2Fa.example%2F"] {
        assert_eq!(server.get(&format!("/tree?{wrong}"), &[]).status, 400, "{wrong}");
    }
    assert!(view(&server, "/tree?host=none.example").contains("No more pages."));
}

#[test]
fn the_rates_of_the_overview_stand_in_a_table_and_its_script_is_the_servers_own() {
    let server = served(&[html("http://a.example/", TIME, "x")]);
    for _ in 0..3 {
        assert_eq!(server.get("/v1/page?url=http://a.example/", &[]).status, 200);
    }
    let shown = view(&server, "/");
    let row =
        shown.split("<tr data-figure=\"gets\">").nth(1).and_then(|rest| rest.split("</tr>").next()).expect("a row");
    assert!(row.contains("<td class=\"n\">3</td>"), "{row}");
    assert!(row.contains("<svg class=\"chart\"") && shown.contains("free on its disk"), "{row}");
    assert_eq!(shown.matches("<script").count(), 1, "{shown}");
    assert!(shown.contains("<script src=\"/charts.js\" defer></script>"), "{shown}");
    let script = server.get("/charts.js", &[]);
    assert_eq!((script.status, script.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    // The view has the parts that the script replaces.
    let text = String::from_utf8(script.body).expect("text");
    let parts = text.split("PARTS = [").nth(1).and_then(|rest| rest.split(']').next()).expect("a list");
    let parts: Vec<&str> = parts.split(',').map(|name| name.trim().trim_matches('"')).collect();
    assert!(parts.len() == 3 && parts.iter().all(|name| shown.contains(&format!("id=\"{name}\""))), "{parts:?}");
    let hour = server.get("/v1/hour", &[]).json();
    assert!(hour["every_seconds"] == 10 && hour["points"].is_array(), "{hour}");
    let figures = server.get("/v1/stat?figures=1", &[]).json()["figures"].clone();
    let asked: Vec<&str> = shown.split("data-figure=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(asked.len() == 5 && asked.iter().all(|name| figures[name].is_u64()), "{asked:?}: {figures}");
}

#[test]
fn a_crawl_is_shown_as_it_speaks_of_itself_and_without_names_under_rules() {
    let server = served(&[]);
    assert!(view(&server, "/crawl").contains("No crawl has reported"));
    assert_eq!(server.get("/v1/crawl", &[]).status, 404);
    let evil = "<script>alert(1)</script>";
    let status = serde_json::json!({
        "time_ms": TIME, "is_running": true, "run_ms": 5000,
        "run": {
            "fetched": 1234, "reasons": {"timeout": 3, "refused": 7},
            "latest_failures": [{"url": "http://a.example/lost", "reason": "timeout", "detail": evil, "time_ms": TIME}],
        },
        "frontier": {"queued": 77},
        "hosts": [{"host": "slow.example", "pages": 9, "ready": 5, "in_flight": 1, "next_at_ms": TIME, "delay_ms": 1500}],
    });
    let told = status.clone();
    let server = with(ServerOptions::new().crawl(move || Some(told.clone())), &[]);
    let shown = view(&server, "/crawl");
    for words in ["has not reported since", "1,234", "http://a.example/lost", "/list?host=slow.example", "1,500", "77"]
    {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }
    assert!(!shown.contains(evil) && shown.find("refused").expect("shown") < shown.find("timeout").expect("shown"));
    assert_eq!(server.get("/v1/crawl", &[]).json(), status);
    let mut rules = filemap::acl::AccessRules::new();
    rules.add("rules.aclj", b"example,a)/ - {\"access\": \"exclude\"}\n").expect("rules");
    let server = with(ServerOptions::new().access(rules).crawl(move || Some(status.clone())), &[]);
    for target in ["/crawl", "/v1/crawl"] {
        let text = String::from_utf8(server.get(target, &[]).body).expect("text");
        assert!(!text.contains("slow.example") && !text.contains("a.example") && text.contains("refused"), "{text}");
    }
}
