//! Hosts that are malicious or broken: each tries to keep a crawler busy for ever, or to fill its
//! memory.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{Reply, Request, Site, wait_for_close};

fn pause() {
    std::thread::sleep(Duration::from_millis(200));
}

/// A host without state.
type Answer = fn(&Request) -> Reply;

/// All hosts, by name.
pub fn all() -> Vec<(&'static str, Site)> {
    bombs();
    let sites: [(&'static str, Answer); 16] = [
        ("calendar.test", calendar),
        ("session.test", session),
        ("loop.test", redirects),
        ("soft.test", soft_404),
        ("slow.test", slow),
        ("endless.test", endless),
        ("lengths.test", lengths),
        ("bomb.test", bomb),
        ("coded.test", coded),
        ("forbidding.test", forbidding),
        ("robots-broken.test", robots_broken),
        ("busy.test", busy),
        ("failing.test", failing),
        ("heads.test", heads),
        ("inner.test", inner),
        ("links.test", links),
    ];
    sites.into_iter().map(|(name, site)| (name, Arc::new(site) as Site)).collect()
}

/// A calendar: a page for every day without an end, in several views.
fn calendar(request: &Request) -> Reply {
    let day: u64 = request.path.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    let links = format!("<a href='/day/{}'>next</a> <a href='/day/{}'>next week</a>", day + 1, day + 7);
    Reply::html(format!("<p>Day {day}, no entries. {links}"))
}

/// Ten pages; their links carry a new session id on each visit.
fn session(request: &Request) -> Reply {
    let page: usize = request.path.trim_start_matches("/p").split(['?', ';']).next().unwrap_or("").parse().unwrap_or(0);
    let id = request.before as u64 * 1000 + page as u64 + 0x5e55_1000;
    let links: String = (0..10)
        .map(|n| format!("<a href='/p{n};jsessionid={id:032x}'>x</a><a href='/p{n}?PHPSESSID={id:026x}'>y</a>"))
        .collect();
    Reply::html(format!("<p>Page {page}{links}"))
}

/// A redirect loop, and a redirect chain without an end.
fn redirects(request: &Request) -> Reply {
    match request.path.as_str() {
        "/" => Reply::html("<a href=/a>x</a><a href=/chain/0>y</a><a href=/self>z</a>"),
        "/a" => Reply::to("/b"),
        "/b" => Reply::to("/a"),
        "/self" => Reply::to("/self"),
        path => match path.strip_prefix("/chain/").and_then(|number| number.parse::<u64>().ok()) {
            Some(number) => Reply::to(format!("/chain/{}", number + 1)),
            None => Reply::missing(),
        },
    }
}

/// Answers any path with "not found" and status 200, with relative links to more of the same.
fn soft_404(request: &Request) -> Reply {
    match request.path.as_str() {
        "/" => Reply::html("<a href=/a/>x</a><a href=/b/>y</a>"),
        _ => Reply::html("<p>Sorry, there is no such page. <a href=more/>Look</a> <a href=other/>elsewhere</a>"),
    }
}

/// Sends nothing at all, or single bytes slowly, in the head and in the body.
fn slow(request: &Request) -> Reply {
    match request.path.as_str() {
        "/" => Reply::html("<a href=/silent>x</a><a href=/head>y</a><a href=/body>z</a>"),
        "/robots.txt" => Reply::missing(),
        "/silent" => Reply::Bare(Box::new(wait_for_close)),
        "/head" => Reply::Bare(Box::new(|stream| drip(stream, b"HTTP/1.1 200 OK\r\nX: "))),
        _ => Reply::Bare(Box::new(|stream| drip(stream, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"))),
    }
}

fn drip(stream: &mut TcpStream, beginning: &[u8]) {
    let mut is_open = stream.write_all(beginning).is_ok();
    while is_open {
        pause();
        is_open = stream.write_all(b"x").is_ok();
    }
}

/// Bodies without an end, sent as fast as they are read: plain, chunked, and compressed.
fn endless(request: &Request) -> Reply {
    if request.path == "/" {
        return Reply::html("<a href=/plain>x</a><a href=/chunked>y</a><a href=/gzip>z</a>");
    }
    if request.path == "/robots.txt" {
        return Reply::missing();
    }
    let path = request.path.clone();
    Reply::Bare(Box::new(move |stream| {
        let fields = match path.as_str() {
            "/chunked" => "Transfer-Encoding: chunked\r\n",
            "/gzip" => "Content-Encoding: gzip\r\n",
            _ => "",
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}\r\n");
        let text = b"<p>And so on and so on. ".repeat(400);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        let mut is_open = stream.write_all(head.as_bytes()).is_ok();
        while is_open {
            let piece = match path.as_str() {
                "/chunked" => [format!("{:x}\r\n", text.len()).as_bytes(), &text, b"\r\n"].concat(),
                "/gzip" => {
                    gzip.write_all(&text).expect("memory");
                    std::mem::take(gzip.get_mut())
                }
                _ => text.clone(),
            };
            is_open = stream.write_all(&piece).is_ok();
        }
    }))
}

/// Content lengths that do not match the body, and answers that are not HTTP.
fn lengths(request: &Request) -> Reply {
    let bare = |bytes: &'static [u8]| Reply::Bare(Box::new(move |stream| drop(stream.write_all(bytes))));
    match request.path.as_str() {
        "/" => Reply::html(
            "<a href=/short>a</a><a href=/long>b</a><a href=/two>c</a><a href=/negative>d</a><a href=/garbage>e</a>\
             <a href=/nothing>f</a><a href=/chunk>g</a>",
        ),
        "/short" => bare(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 500\r\n\r\n<p>short"),
        "/long" => bare(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>too long"),
        "/two" => bare(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n<p>two"),
        "/negative" => bare(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n<p>x"),
        "/garbage" => bare(b"\0\xff\x16\x03 this is not HTTP\r\n\r\n"),
        "/nothing" => bare(b""),
        "/chunk" => bare(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx"),
        _ => Reply::missing(),
    }
}

/// Compressed bodies that expand to thousands of times their size, by path. They are built once,
/// since that takes longer than a crawler waits.
fn bombs() -> &'static [(&'static str, Vec<u8>); 2] {
    static BOMBS: OnceLock<[(&str, Vec<u8>); 2]> = OnceLock::new();
    BOMBS.get_or_init(|| {
        let blanks = vec![b' '; 64 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&blanks).expect("memory");
        let zstd = zstd::encode_all(&blanks[..], 3).expect("memory");
        [("gzip", gzip.finish().expect("memory")), ("zstd", zstd)]
    })
}

/// A text that claims to be brotli, and begins like an empty brotli stream.
pub const NOT_BROTLI: &[u8] = b"\x06 is how this text begins";

/// Declares that its page is brotli, which it is not.
fn coded(request: &Request) -> Reply {
    if request.path != "/" {
        return Reply::missing();
    }
    let fields = vec![("Content-Type", "text/plain".into()), ("Content-Encoding", "br".into())];
    Reply::Page(200, fields, NOT_BROTLI.to_vec())
}

/// Links to the compressed bombs.
fn bomb(request: &Request) -> Reply {
    if request.path == "/" {
        return Reply::html("<a href=/gzip>x</a><a href=/zstd>y</a>");
    }
    match bombs().iter().find(|(coding, _)| request.path.strip_prefix('/') == Some(coding)) {
        Some((coding, body)) => {
            let fields = vec![("Content-Type", "text/html".into()), ("Content-Encoding", (*coding).into())];
            Reply::Page(200, fields, body.clone())
        }
        None => Reply::missing(),
    }
}

/// Its robots.txt forbids everything.
fn forbidding(request: &Request) -> Reply {
    match request.path.as_str() {
        "/robots.txt" => Reply::text("User-agent: *\nDisallow: /\n"),
        _ => Reply::html("<p>nobody should read this"),
    }
}

/// Its robots.txt gives an error.
fn robots_broken(request: &Request) -> Reply {
    match request.path.as_str() {
        "/robots.txt" => Reply::Page(500, vec![], b"oops".to_vec()),
        _ => Reply::html("<p>nobody should read this"),
    }
}

/// Answers with `Retry-After`: a short time with status 503, or an absurd one with 429.
fn busy(request: &Request) -> Reply {
    let wait = |status, seconds: &str| Reply::Page(status, vec![("Retry-After", seconds.into())], Vec::new());
    match request.path.as_str() {
        "/" => Reply::html("<a href=/soon>x</a><a href=/never>y</a>"),
        "/soon" if request.before == 0 => wait(503, "1"),
        "/soon" => Reply::html("<p>here it is"),
        "/never" => wait(429, "999999999"),
        _ => Reply::missing(),
    }
}

/// Answers only with errors, and has many links to them.
fn failing(request: &Request) -> Reply {
    match request.path.as_str() {
        "/" => Reply::html((0..100).map(|n| format!("<a href=/{n}>x</a>")).collect::<String>()),
        "/robots.txt" => Reply::missing(),
        _ => Reply::Page(500, vec![], b"error".to_vec()),
    }
}

/// Heads that are too long: with one long field, and with many fields.
fn heads(request: &Request) -> Reply {
    let head = |fields: String| {
        Reply::Bare(Box::new(move |stream: &mut TcpStream| {
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}\r\nx").as_bytes());
        }))
    };
    match request.path.as_str() {
        "/" => Reply::html("<a href=/long>x</a><a href=/many>y</a><a href=/endless>z</a>"),
        "/long" => head(format!("X: {}\r\n", "x".repeat(1 << 20))),
        "/many" => head((0..2000).map(|n| format!("X-{n}: y\r\n")).collect()),
        "/endless" => Reply::Bare(Box::new(|stream| {
            let mut is_open = stream.write_all(b"HTTP/1.1 200 OK\r\n").is_ok();
            while is_open {
                is_open = stream.write_all(b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n").is_ok();
            }
        })),
        _ => Reply::missing(),
    }
}

/// Links to places that only insiders should reach: other schemes.
fn inner(request: &Request) -> Reply {
    match request.path.as_str() {
        "/" => Reply::html("<a href='file:///etc/passwd'>x</a><a href='gopher://a/'>y</a><a href=/there>z</a>"),
        "/there" => Reply::to("file:///etc/passwd"),
        _ => Reply::missing(),
    }
}

/// More links than a crawler follows, and some that are too long.
fn links(request: &Request) -> Reply {
    match request.path.as_str() {
        "/" => {
            let long = format!("<a href='/{}'>x</a>", "l".repeat(5000));
            Reply::html(long + &(0..20_000).map(|n| format!("<a href=/l/{n}>x</a>")).collect::<String>())
        }
        "/robots.txt" => Reply::missing(),
        _ => Reply::html(format!("<p>{}", request.path)),
    }
}
