//! What browsers take is taken: heads that are not by the book, other encodings, directives for
//! others; and a body that does not come whole is asked for again.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::web::crawl::Bench;
use crate::web::{Reply, Request, Site, Web};
use serde_json::json;

const FAST: [&str; 5] = ["--rate=0", "--allow-private", "--json", "--attempts=2", "--retry=50ms"];

fn with<'a>(web: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    FAST.iter().copied().chain([web]).chain(more.iter().copied()).collect()
}

fn bare(bytes: &'static [u8]) -> Reply {
    Reply::Bare(Box::new(move |stream: &mut TcpStream| drop(stream.write_all(bytes))))
}

/// Heads that are taken; the body of each is `<p>ok`.
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

/// Heads that are refused, as `protocol`.
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
    let end = bench.run("run", &with(&resolve, &arguments)).ended(0).json();
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
    // No file, no last byte.
    bench.run("run", &with(&resolve, &["--log=/dev/null"])).ended(0);
}
