//! Sitemaps and feeds of every kind are read in full, whatever the scope and earlier failures.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web};
use serde_json::{Value, json};

const FAST: [&str; 6] =
    ["--rate=0", "--allow-private", "--json", "--host-connections=8", "--attempts=2", "--retry=50ms"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn set(name: &str, count: usize) -> String {
    let url =
        |n| format!("<url><loc>http://maps.test/{name}/{n}</loc><lastmod>2024-05-0{}</lastmod></url>\n", n % 9 + 1);
    format!("<?xml version='1.0'?>\n<urlset>\n{}</urlset>", (0..count).map(url).collect::<String>())
}

fn typed(kind: &str, body: impl Into<Vec<u8>>) -> Reply {
    let fields = if kind.is_empty() { Vec::new() } else { vec![("Content-Type", kind.to_owned())] };
    Reply::Page(200, fields, body.into())
}

/// Sitemaps as servers send them: path, content type, body, and the number of their links.
fn kinds() -> Vec<(&'static str, &'static str, Vec<u8>, usize)> {
    let mut cut = gzip(set("cut", 2000).as_bytes());
    cut.truncate(cut.len() - 4);
    let lines = |name: &str| (0..3).map(|n| format!("http://maps.test/{name}/{n}\r\n")).collect::<String>();
    let rss = "<rss><channel><item><link>http://maps.test/rss/0</link></item></channel></rss>";
    let rdf = "<rdf:RDF><item><link>http://maps.test/rdf/0</link></item></rdf:RDF>";
    let atom = "<feed xml:base='http://maps.test/atom/'><entry><link href='0'/></entry></feed>";
    let latin = "<?xml version='1.0' encoding='ISO-8859-1'?><urlset><url><loc>http://maps.test/latin/caf\u{e9}?\u{e9}</loc></url></urlset>";
    vec![
        ("/packed.xml.gz", "application/x-gzip", gzip(set("packed", 100).as_bytes()), 100),
        ("/coded.xml.gz", "application/x-gzip", gzip(set("coded", 100).as_bytes()), 100),
        ("/twice.xml.gz", "application/x-gzip", gzip(&gzip(set("twice", 100).as_bytes())), 100),
        ("/cut.xml.gz", "application/octet-stream", cut, 2000),
        ("/html.xml", "text/html; charset=utf-8", set("html", 2).into(), 2),
        ("/octets", "application/octet-stream", set("octets", 2).into(), 2),
        ("/untyped", "", set("untyped", 2).into(), 2),
        ("/plain-xml", "text/plain", set("plain-xml", 2).into(), 2),
        ("/wide.xml", "application/xml", utf16(&("\u{feff}".to_owned() + &set("wide", 2))), 2),
        ("/latin.xml", "text/xml", latin.chars().map(|c| c as u8).collect(), 1),
        ("/lines", "text/plain", ("\u{feff}".to_owned() + &lines("lines")).into(), 3),
        ("/zipped.txt.gz", "application/gzip", gzip(lines("zipped").as_bytes()), 3),
        ("/rss", "application/rss+xml", rss.into(), 1),
        ("/rdf", "text/xml", rdf.into(), 1),
        ("/atom", "application/atom+xml", atom.into(), 1),
        (
            "/broken.xml",
            "text/xml",
            set("broken", 9).replace("</urlset>", "<url><loc>http://maps.test/no</l<").into(),
            9,
        ),
    ]
}

/// Returns how many links of a sitemap of [`kinds`] were requested.
fn found(web: &Web, path: &str) -> usize {
    let name = path.trim_start_matches('/').split('.').next().unwrap_or_default();
    web.counts().keys().filter(|url| url.starts_with(&format!("http://maps.test/{name}/"))).count()
}

#[test]
fn every_kind_of_sitemap_gives_all_its_links() {
    let index: String =
        kinds().iter().map(|(path, ..)| format!("<sitemap><loc>http://maps.test{path}</loc></sitemap>")).collect();
    let site: Site = Arc::new(move |request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("Sitemap: /index.xml\n"),
        "/index.xml" => typed("text/xml", format!("<sitemapindex>{index}</sitemapindex>")),
        path => match kinds().into_iter().find(|(of, ..)| *of == path) {
            Some((path, kind, body, _)) if path.starts_with("/coded") || path.starts_with("/twice") => {
                let fields = vec![("Content-Type", kind.to_owned()), ("Content-Encoding", "gzip".to_owned())];
                Reply::Page(200, fields, body)
            }
            Some((_, kind, body, _)) => typed(kind, body),
            None => Reply::html(format!("<p>{path}")),
        },
    });
    let web = Web::new([("maps.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let log = format!("--log={}", bench.path("log").display());
    let end = bench.run("run", &with(&resolve, &["--seed=http://maps.test/", &log])).ended(0).json();
    for (path, _, _, links) in kinds() {
        assert_eq!(found(&web, path), links, "{path}: {end}");
    }
    // The truncated gzip file, and the malformed one.
    assert_eq!(end["reasons"], json!({ "sitemap-broken": 2 }), "{end}");
    assert!(
        web.counts().contains_key("http://maps.test/latin/caf%C3%A9?%C3%A9")
            && !web.counts().contains_key("http://maps.test/no")
    );
    let log = std::fs::read_to_string(bench.path("log")).unwrap();
    let line = log.lines().find(|line| line.contains("/broken.xml\"")).unwrap_or_else(|| panic!("{log}"));
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["limits"], &line["links"], &line["hints"]), (&json!(["sitemap-broken"]), &json!(9), &json!(9)));
}

#[test]
fn a_sitemap_may_have_more_links_and_bytes_than_a_page() {
    const COUNT: usize = 20_000;
    let filler = "x".repeat(1000);
    let body: String =
        (0..COUNT).map(|n| format!("<url><loc>http://maps.test/{n}</loc><!-- {filler} --></url>")).collect();
    let body = format!("<urlset>{body}</urlset>").into_bytes();
    assert!(body.len() > 20 << 20);
    let site: Site = Arc::new(move |request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("Sitemap: http://maps.test/big\n"),
        "/big" => typed("text/xml", body.clone()),
        _ => Reply::html("<a href=/small>x</a>"),
    });
    let web = Web::new([("maps.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://maps.test/", "--max-pages=3"])).ended(0).json();
    assert_eq!((&end["discovered"], &end["reasons"]), (&json!(COUNT + 2), &json!({})), "{end}");
    assert_eq!(bench.pages()["http://maps.test/big"].truncated, None);
}

#[test]
fn links_beyond_the_limit_of_a_sitemap_are_counted() {
    let lines: String = (0..50_007).map(|n| format!("http://maps.test/{n}\n")).collect();
    let site: Site = Arc::new(move |request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("Sitemap: http://maps.test/list\n"),
        "/list" => Reply::text(&lines),
        _ => Reply::html("<p>here"),
    });
    let web = Web::new([("maps.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://maps.test/", "--max-pages=2"])).ended(0).json();
    assert_eq!((&end["discovered"], &end["reasons"]), (&json!(50_001), &json!({ "link-limit": 7 })), "{end}");
}

#[test]
fn sitemaps_are_read_though_the_first_page_fails_and_though_they_are_out_of_scope() {
    let site: Site = Arc::new(|request: &Request| match (request.path.as_str(), request.before) {
        ("/robots.txt", 0) => Reply::Page(500, vec![], b"not yet".to_vec()),
        ("/robots.txt", _) => Reply::text("Sitemap: http://maps.test/map.xml\nSitemap: http://cdn.test/index.xml\n"),
        ("/docs/", _) => Reply::missing(),
        ("/map.xml", 0) => Reply::Page(500, vec![], b"not yet".to_vec()),
        ("/map.xml", _) => Reply::to("/moved.xml"),
        ("/moved.xml", _) => typed(
            "text/xml",
            "<urlset><url><loc>http://maps.test/docs/1</loc></url><url><loc>http://maps.test/no</loc></url></urlset>",
        ),
        _ => Reply::html("<p>here"),
    });
    // The second sitemap of the index is on yet another host.
    let cdn: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("Sitemap: http://cdn.test/own.xml\n"),
        "/index.xml" => {
            typed("text/xml", "<sitemapindex><sitemap><loc>http://far.test/2.xml.gz</loc></sitemap></sitemapindex>")
        }
        _ => Reply::html("<p>there"),
    });
    let far: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/2.xml.gz" => {
            let body = "<urlset><url><loc>http://maps.test/docs/2</loc></url><url><loc>http://far.test/no</loc></url></urlset>";
            typed("application/gzip", gzip(body.as_bytes()))
        }
        _ => Reply::missing(),
    });
    let web = Web::new([("maps.test", site), ("cdn.test", cdn), ("far.test", far)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = with(&resolve, &["--seed=http://maps.test/docs/", "--scope=prefix"]);
    // Stopped in the middle: the next run still knows the sitemaps that an index named.
    bench.run("run", &[&arguments[..], &["--max-pages=2"]].concat()).ended(0);
    bench.run("run", &arguments).ended(0);
    let asked: BTreeSet<String> = web.counts().into_keys().filter(|url| !url.ends_with("robots.txt")).collect();
    let wanted = [
        "http://cdn.test/index.xml",
        "http://far.test/2.xml.gz",
        "http://maps.test/docs/",
        "http://maps.test/docs/1",
        "http://maps.test/docs/2",
        "http://maps.test/map.xml",
        "http://maps.test/moved.xml",
    ];
    assert_eq!(asked.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
}

#[test]
fn a_text_is_a_sitemap_only_if_it_was_named_as_one() {
    let text = "http://maps.test/from-text\n";
    let site: Site = Arc::new(move |request: &Request| match request.path.as_str() {
        "/" => Reply::html("<a href=/notes.txt>x</a><a href=/my-sitemap.txt>y</a>"),
        "/notes.txt" => Reply::text("http://maps.test/from-notes\n"),
        "/my-sitemap.txt" => Reply::text(text),
        "/robots.txt" => Reply::text("Sitemap: http://maps.test/none\n"),
        "/none" => Reply::html("<a href=/from-page>not found</a>"),
        _ => Reply::html(format!("<p>{}", request.path)),
    });
    let web = Web::new([("maps.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://maps.test/"])).ended(0).json();
    let counts = web.counts();
    let is_asked = |path: &str| counts.contains_key(&format!("http://maps.test{path}"));
    assert!(is_asked("/from-text") && !is_asked("/from-notes") && is_asked("/from-page"), "{counts:?}");
    assert_eq!(end["reasons"], json!({ "sitemap-broken": 1 }), "a page instead of a sitemap: {end}");
}

#[test]
fn a_chain_of_indexes_out_of_scope_ends() {
    let site: Site = Arc::new(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Reply::text("Sitemap: http://chain.test/1\n"),
        _ => Reply::html("<p>here"),
    });
    let chain: Site = Arc::new(|request: &Request| match request.path[1..].parse::<u64>() {
        Ok(n) => typed("text/xml", format!("<sitemapindex><sitemap><loc>/{}</loc></sitemap></sitemapindex>", n + 1)),
        Err(_) => Reply::missing(),
    });
    let web = Web::new([("maps.test", site), ("chain.test", chain)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://maps.test/"])).ended(0);
    let of_chain = |url: &&String| url.starts_with("http://chain.test/") && !url.ends_with("/robots.txt");
    assert_eq!(web.counts().keys().filter(of_chain).count(), 3);
}
