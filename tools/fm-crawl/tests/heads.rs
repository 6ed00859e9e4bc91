//! The crawler takes what browsers take: heads that break the rules, other encodings, directives
//! for other crawlers; it requests a truncated body again.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web, wait_for_close};
use serde_json::json;

const FAST: [&str; 5] = ["--rate=0", "--allow-private", "--json", "--attempts=2", "--retry=50ms"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

fn bare(bytes: &'static [u8]) -> Reply {
    Reply::Bare(Box::new(move |stream: &mut TcpStream| drop(stream.write_all(bytes))))
}

/// Heads that are accepted; the body of each is `<p>ok`.
const TAKEN: [&[u8]; 12] = [
    b"HTTP/1.1 200 OK\r\nX-Long: one\r\n  two\r\n\tthree\r\nContent-Length: 5\r\n\r\n<p>ok",
    b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\nContent-Type\t: text/html\r\n\r\n<p>ok",
    b"HTTP/1.1 200 OK\r\n: no name\r\nContent-Length: 5\r\n\r\n<p>ok",
    b"HTTP/1.1 200 OK\r\nX Y@(Z): odd\r\nContent-Length: 5\r\n\r\n<p>ok",
    b"HTTP/1.1 200 OK\r\nno colon at all\r\nContent-Length: 5\r\n\r\n<p>ok",
    b"HTTP/1.1 200 OK\r\nX-\xc3\xa9: \xe9\xff\r\nContent-Length: 5\r\n\r\n<p>ok",
    b"HTTP/1.1 200 OK\nContent-Length: 5\n\n<p>ok",
    b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n<p>ok",
    b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n<p>ok",
    b"HTTP/1.0 200 OK\r\n\r\n<p>ok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n<p>ok",
    b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<p>ok",
];

/// Heads that are refused with the reason `protocol`.
const REFUSED: [&[u8]; 5] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n<p>ok!",
    b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n<p>ok",
    b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<p>ok\r\n0\r\n\r\n",
    b"ICY 200 OK\r\nContent-Length: 5\r\n\r\n<p>ok",
    b"<p>ok",
];

#[test]
fn heads_that_browsers_take_are_taken_and_others_are_named() {
    let site: Site = Arc::new(|request: &Request| {
        let number = |kind: &str| request.path.strip_prefix(kind)?.parse::<usize>().ok();
        match (number("/taken/"), number("/refused/")) {
            (Some(number), _) => bare(TAKEN[number]),
            (_, Some(number)) => bare(REFUSED[number]),
            _ if request.path == "/" => {
                let taken = (0..TAKEN.len()).map(|n| format!("<a href=/taken/{n}>x</a>"));
                let refused = (0..REFUSED.len()).map(|n| format!("<a href=/refused/{n}>x</a>"));
                Reply::html(taken.chain(refused).collect::<String>())
            }
            _ => Reply::missing(),
        }
    });
    let web = Web::new([("heads.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let arguments = ["--seed=http://heads.test/", "--max-host-failures=100"];
    let end = bench.run("run", &with(&resolve, &arguments)).ended(5).json();
    let pages = bench.pages();
    for (number, head) in TAKEN.iter().enumerate() {
        let page = pages.get(&format!("http://heads.test/taken/{number}"));
        let page = page.unwrap_or_else(|| panic!("{}: {end}", String::from_utf8_lossy(head)));
        assert_eq!(
            (page.body.as_slice(), page.status),
            (&b"<p>ok"[..], Some(200)),
            "{}",
            String::from_utf8_lossy(head)
        );
    }
    assert_eq!(pages["http://heads.test/taken/0"].headers.get("x-long"), Some(&b"one two three"[..]));
    assert_eq!(end["reasons"], json!({ "protocol": 2 * REFUSED.len() }), "{end}");
}

fn page(kind: &str, body: impl Into<Vec<u8>>) -> Reply {
    let fields = if kind.is_empty() { Vec::new() } else { vec![("Content-Type", kind.to_owned())] };
    Reply::Page(200, fields, body.into())
}

fn wide(text: &str, big: bool) -> Vec<u8> {
    text.encode_utf16().flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

#[test]
fn pages_of_every_encoding_and_type_give_their_links() {
    let site: Site = Arc::new(|request: &Request| {
        let marked =
            |name: &str| format!("\u{feff}<!-- x --><meta charset=utf-8><base href=/up/><a href='{name}?\u{e9}'>");
        let links = |names: &[&str]| names.iter().map(|name| format!("<a href=/of/{name}>x</a>")).collect::<String>();
        match request.path.as_str() {
            "/" => Reply::html(links(&["le", "be", "label", "sjis", "xhtml", "as-xml", "untyped", "blank", "text"])),
            "/of/le" => page("text/html", wide(&marked("le"), false)),
            "/of/be" => page("", wide(&marked("be"), true)),
            "/of/label" => page("text/html; charset=utf-16le", wide(&marked("label")[3..], false)),
            "/of/sjis" => page("text/html", b"<meta charset=shift_jis><a href='/up/sjis?\x83\x5c'>".to_vec()),
            "/of/xhtml" => page("application/xhtml+xml", "<html><a href='/up/xhtml'/></html>"),
            "/of/as-xml" => {
                page("application/xml", "<?xml version='1.0'?><html xmlns='x'><a href='/up/as-xml'/></html>")
            }
            "/of/untyped" => page("", "\u{feff}\n <!-- x --><a href=/up/untyped>"),
            "/of/blank" => page("unknown/unknown", "\n\n<a href=/up/blank>"),
            "/of/text" => page("text/plain", "<html><a href=/up/text>"),
            path if path.starts_with("/up/") => Reply::html(format!("<p>{path}")),
            _ => Reply::missing(),
        }
    });
    let web = Web::new([("wide.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://wide.test/"])).ended(0);
    let counts = web.counts();
    let mut found: Vec<&str> = counts.keys().filter_map(|url| url.strip_prefix("http://wide.test/up/")).collect();
    found.sort_unstable();
    assert_eq!(found, ["as-xml", "be?%C3%A9", "blank", "label?%C3%A9", "le?%C3%A9", "sjis?%83\\", "untyped", "xhtml"]);
}

#[test]
fn directives_for_other_agents_do_not_bind() {
    let site: Site = Arc::new(|request: &Request| {
        let tagged = |tags: &[&str], name: &str| {
            let kind = ("Content-Type", "text/html".to_owned());
            let tags = tags.iter().map(|tag| ("X-Robots-Tag", (*tag).to_owned()));
            Reply::Page(200, [kind].into_iter().chain(tags).collect(), format!("<a href=/up/{name}>").into_bytes())
        };
        match request.path.as_str() {
            "/" => Reply::html((0..7).map(|n| format!("<a href=/{n}>x</a>")).collect::<String>()),
            "/0" => tagged(&["googlebot: nofollow"], "0"),
            "/1" => tagged(&["noindex", "otherbot: noindex, nofollow"], "1"),
            "/2" => tagged(&["noindex", "FM-Crawl: none"], "2"),
            "/3" => tagged(&["unavailable_after: 25 Jun 2010 15:00:00 PST"], "3"),
            "/4" => tagged(&["googlebot: noindex", "nofollow"], "4"),
            "/5" => Reply::html("<meta name=googlebot content=nofollow><a href=/up/5>"),
            "/6" => Reply::html("<meta name=fm-crawl content=nofollow><a href=/up/6>"),
            path if path.starts_with("/up/") => Reply::html(format!("<p>{path}")),
            _ => Reply::missing(),
        }
    });
    let web = Web::new([("tags.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    bench.run("run", &with(&resolve, &["--seed=http://tags.test/"])).ended(0);
    let counts = web.counts();
    let mut found: Vec<&str> = counts.keys().filter_map(|url| url.strip_prefix("http://tags.test/up/")).collect();
    found.sort_unstable();
    assert_eq!(found, ["0", "1", "3", "5"]);
}

#[test]
fn a_body_that_does_not_come_whole_is_asked_for_again_before_it_counts() {
    let short = |stream: &mut TcpStream| {
        drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 500\r\n\r\n<p>part"))
    };
    let site: Site = Arc::new(move |request: &Request| match (request.path.as_str(), request.before) {
        ("/", _) => Reply::html("<a href=/once>x</a><a href=/always>y</a><a href=/late>z</a><a href=/coded>z</a>"),
        ("/once", 0) | ("/always", _) => Reply::Bare(Box::new(short)),
        ("/late", 0) => Reply::Bare(Box::new(move |stream| {
            short(stream);
            wait_for_close(stream);
        })),
        ("/coded", _) => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            gzip.write_all(b"<p>coded <a href=/in-coded>x</a>").expect("memory");
            let mut body = gzip.finish().expect("memory");
            body.truncate(body.len() - 8);
            let fields = vec![("Content-Type", "text/html".into()), ("Content-Encoding", "gzip".into())];
            Reply::Page(200, fields, body)
        }
        ("/once" | "/late", _) => Reply::html("<p>the whole page <a href=/found>x</a>"),
        ("/found" | "/in-coded", _) => Reply::html(format!("<p>{}", request.path)),
        _ => Reply::missing(),
    });
    let web = Web::new([("short.test", site)]);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let end = bench.run("run", &with(&resolve, &["--seed=http://short.test/", "--timeout=8s"])).ended(0).json();
    assert_eq!(end["reasons"], json!({ "incomplete": 5, "total-timeout": 1 }), "{end}");
    let pages = bench.pages();
    for path in ["/once", "/late"] {
        let page = &pages[&format!("http://short.test{path}")];
        assert!(page.body.starts_with(b"<p>the whole") && page.truncated.is_none(), "{path}");
        assert_eq!(
            (web.counts()[&format!("http://short.test{path}")], bench.versions(&format!("http://short.test{path}"))),
            (2, 1)
        );
    }
    let always = &pages["http://short.test/always"];
    assert_eq!((always.body.as_slice(), always.truncated.as_deref()), (&b"<p>part"[..], Some("disconnect")));
    assert_eq!(web.counts()["http://short.test/always"], 2);
    let coded = &pages["http://short.test/coded"];
    assert!(
        coded.body.starts_with(b"<p>coded")
            && coded.truncated.is_some()
            && pages.contains_key("http://short.test/in-coded")
    );
}

#[test]
fn half_a_line_of_the_log_is_ended_before_the_next() {
    let site: Site = Arc::new(|_: &Request| Reply::html("<p>x"));
    let web = Web::slow([("log.test", site)], Duration::ZERO);
    let (bench, resolve) = (Bench::new(), web.resolve());
    let path = bench.path("log.jsonl");
    std::fs::write(&path, "{\"whole\":1}\n{\"half").unwrap();
    let log = format!("--log={}", path.display());
    bench.run("run", &with(&resolve, &["--seed=http://log.test/", &log])).ended(0);
    bench.run("run", &with(&resolve, &[&log])).ended(0);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["{\"whole\":1}", "{\"half"]);
    let parsed = lines.iter().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count();
    assert_eq!((parsed, lines.iter().any(|line| line.is_empty())), (lines.len() - 1, false), "{text}");
    // This is not a regular file, so it has no last byte.
    bench.run("run", &with(&resolve, &["--log=/dev/null"])).ended(0);
}
