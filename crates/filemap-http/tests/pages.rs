//! Pages by `GET`, `HEAD`, `PUT` and `DELETE`: bodies, headers, conditions, ranges, codings.

use std::io::{Read, Write};

use filemap::{Lookup, Options, Page, PageRead, PageStore};
use filemap_http::server::ServerOptions;

use crate::served::{self, Answer, served};

const URL: &str = "/v1/page?url=http://example.com/";
const TIME: i64 = 1_700_000_000_000;

fn page(time_ms: i64, body: &str) -> Page {
    let mut page = Page::new("http://example.com/", time_ms, 203, body);
    page.headers.push("Content-Type", "text/html; charset=latin1");
    page.headers.push("Set-Cookie", "a=1");
    page.headers.push("Set-Cookie", "b=\u{7f}");
    page
}

#[test]
fn a_page_is_its_body_and_what_is_known_of_it() {
    let server = served(&[page(TIME, "first"), page(TIME + 5000, "second")]);
    let answer = server.get(URL, &[]);
    assert_eq!((answer.status, &answer.body[..]), (200, &b"second"[..]));
    for (name, value) in [
        ("content-type", "text/html; charset=latin1"),
        ("content-length", "6"),
        ("last-modified", "Tue, 14 Nov 2023 22:13:25 GMT"),
        ("memento-datetime", "Tue, 14 Nov 2023 22:13:25 GMT"),
        ("accept-ranges", "bytes"),
        ("vary", "accept-encoding"),
        ("x-archive-orig-set-cookie", "a=1"),
        ("filemap-headers-left-out", "1"),
        ("filemap-status", "203"),
        ("filemap-url", "http://example.com/"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}: {answer:?}");
    }
    assert!(answer.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox")));
    let old = server.get(&format!("{URL}&at=2023-11-14T22:13:21Z"), &[]);
    assert_eq!((old.status, &old.body[..]), (200, &b"first"[..]));
    assert_ne!(old.header("etag"), answer.header("etag"));
    let version = old.header("filemap-version").expect("a version");
    assert_eq!(server.get(&format!("{URL}&version={version}"), &[]).body, b"first");
    let head = server.ask("HEAD", URL, &[], b"");
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("6"), 0));
    assert_eq!(head.header("etag"), answer.header("etag"));
}

#[test]
fn what_is_not_there_or_not_understood_is_said() {
    let server = served(&[page(TIME, "first")]);
    for (target, status, words) in [
        ("/v1/page?url=http://example.com/other", 404, "no page of http://example.com/other"),
        ("/v1/page?url=http://example.com/&at=2001-01-01", 404, "up to 2001-01-01T00:00:00Z"),
        ("/v1/page?url=http://example.com/&variant=x", 404, "variant `x`"),
        ("/v1/page?url=http://example.com/?a=1&b=2", 400, "unknown parameter `b`"),
        ("/v1/page", 400, "`url` is missing"),
        ("/v1/page?url=no%20url", 400, "no url"),
        ("/v1/page?url=http://example.com/&at=soon", 400, "`soon`"),
        ("/v1/page?url=http://example.com/&format=pdf", 400, "`pdf`"),
        ("/v1/none", 404, "`/v1/none`"),
    ] {
        let answer = server.get(target, &[]);
        let (found, detail) = answer.problem();
        assert_eq!(found, status, "{target}: {detail}");
        assert!(detail.contains(words), "{target}: {detail}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let is_absent = status == 404 && target.starts_with("/v1/page?");
        assert_eq!(answer.json()["is_absent"].as_bool().unwrap_or(false), is_absent, "{target}");
    }
    let (status, detail) = server.ask("PATCH", URL, &[], b"").problem();
    assert!(status == 405 && detail.contains("PATCH"), "{status} {detail}");
}

#[test]
fn a_body_that_the_client_has_is_not_sent_again() {
    let server = served(&[page(TIME, &"text ".repeat(1000))]);
    let plain = server.get(URL, &[]);
    let tag = plain.header("etag").expect("a tag").to_owned();
    let mut tags = vec![tag.clone()];
    for coding in ["gzip", "br", "zstd"] {
        let coded = server.get(URL, &[&format!("Accept-Encoding: {coding}")]);
        assert_eq!((coded.status, coded.header("content-encoding")), (200, Some(coding)));
        assert!(coded.body.len() < 500, "{coding}: {} bytes", coded.body.len());
        assert_eq!(coded.header("etag"), Some(format!("{}-{coding}\"", &tag[..tag.len() - 1]).as_str()));
        assert_eq!(coded.header("vary"), Some("accept-encoding"));
        tags.push(coded.header("etag").expect("a tag").to_owned());
    }
    for tag in &tags {
        let known = server.get(URL, &[&format!("If-None-Match: \"other\", {tag}")]);
        assert_eq!((known.status, known.header("etag"), known.body.len()), (304, Some(tag.as_str()), 0));
    }
    assert_eq!(server.get(URL, &["If-None-Match: \"other\""]).status, 200);
    assert_eq!(server.get(URL, &["If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT"]).status, 304);
    assert_eq!(server.get(URL, &["If-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT"]).status, 200);
}

#[test]
fn a_page_of_the_value_cache_is_sent_as_one_that_is_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options::new().value_cache_bytes(64 << 20);
    let store = PageStore::create(dir.path().join("pages.fm"), options).expect("a store");
    let watched = store.clone();
    // Below and above the length from which a head is sent on its own.
    let long = "long ".repeat(20_000);
    let bodies = ["", "short", long.as_str()];
    let urls = ["http://example.com/0", "http://example.com/1", "http://example.com/2"];
    for (url, body) in urls.iter().zip(bodies) {
        store.put_page(&Page::new(*url, TIME, 200, body)).expect("stored");
    }
    let server = served::of(store, ServerOptions::new());
    let client = server.client();
    for round in 0..3 {
        for (url, body) in urls.iter().zip(bodies) {
            let target = format!("/v1/page?url={url}");
            let answer = server.get(&target, &[]);
            assert_eq!((answer.status, answer.header("content-length")), (200, Some(&*body.len().to_string())));
            assert!(answer.body == body.as_bytes(), "{url}");
            let described = server.get(&format!("{target}&format=page"), &[]);
            assert!(described.body.ends_with(body.as_bytes()) && described.header("transfer-encoding").is_none());
            assert_eq!(described.header("content-length"), Some(&*described.body.len().to_string()));
            let page = client.get(&Lookup::new(url)).expect("readable").expect("there");
            assert!(page.body == body.as_bytes() && page.status == Some(200), "{url}");
        }
        let part = server.get(&format!("/v1/page?url={}", urls[2]), &["Range: bytes=5-8"]);
        assert_eq!((part.status, &part.body[..]), (206, &b"long"[..]));
        let stats = watched.engine().stats();
        assert!(stats.value_cache_hits >= 9 * round + 6, "round {round}: {stats:?}");
    }
}

#[test]
fn a_range_is_of_the_plain_body() {
    let large: String = (0..400_000).map(|n| format!("{n:7}")).collect();
    let server = served(&[page(TIME, "0123456789")]);
    let put = server.ask("PUT", "/v1/page?url=http://example.com/large", &[], large.as_bytes());
    assert_eq!(put.status, 201, "{put:?}");
    for (target, body, ranges) in [
        (URL, "0123456789", vec![(0, 0), (2, 4), (9, 9)]),
        (
            "/v1/page?url=http://example.com/large",
            &large,
            vec![(1_048_570, 1_048_590), (2_799_990, 2_799_999), (5, 2_000_000)],
        ),
    ] {
        for (first, last) in ranges {
            let range = format!("Range: bytes={first}-{last}");
            let part = server.get(target, &[&range, "Accept-Encoding: gzip"]);
            assert_eq!((part.status, part.header("content-encoding")), (206, None), "{range}");
            assert!(part.body == body.as_bytes()[first..=last], "{range}");
            assert_eq!(part.header("content-range"), Some(format!("bytes {first}-{last}/{}", body.len()).as_str()));
        }
        let outside = server.get(target, &[&format!("Range: bytes={}-", body.len())]);
        assert_eq!(
            (outside.status, outside.header("content-range")),
            (416, Some(format!("bytes */{}", body.len()).as_str()))
        );
        let head = server.ask("HEAD", target, &["Range: bytes=1-2"], b"");
        let len = body.len().to_string();
        assert_eq!((head.status, head.header("content-length")), (200, Some(len.as_str())));
        assert_eq!(server.get(target, &["Range: bytes=1-2", "If-Match: \"other\""]).status, 412, "another body");
        let other = server.get(target, &["Range: bytes=1-2", "If-Range: \"other\""]);
        assert_eq!((other.status, other.body.len()), (200, body.len()));
    }
}

#[test]
fn a_page_is_put_as_durable_as_asked_and_under_its_conditions() {
    let mut server = served(&[]);
    let target = format!("{URL}&time=2023-11-14T22:13:20Z&status=404");
    let headers = ["Content-Type: text/plain", "X-Archive-Orig-Server: test"];
    let put = server.ask("PUT", &target, &headers, b"gone");
    assert_eq!(
        (put.status, put.json()["outcome"].as_str(), put.json()["durable"].as_bool()),
        (201, Some("stored"), Some(true))
    );
    assert_eq!(put.json()["time_ms"].as_i64(), Some(TIME));
    let there = server.get(URL, &[]);
    assert_eq!(there.header("x-archive-orig-server"), Some("test"));
    assert_eq!((there.header("filemap-status"), there.header("content-type")), (Some("404"), Some("text/plain")));
    let tag = there.header("etag").expect("a tag").to_owned();
    let soft = server.ask("PUT", &format!("{URL}&durable=0"), &[], b"again");
    assert_eq!((soft.status, soft.json()["durable"].as_bool()), (202, Some(false)));
    for (condition, status) in
        [("If-None-Match: *".to_owned(), 412), (format!("If-Match: {tag}"), 412), ("If-Match: *".to_owned(), 201)]
    {
        let put = server.ask("PUT", URL, &[&condition], b"conditional");
        assert_eq!(put.status, status, "{condition}: {put:?}");
    }
    let same = server.ask("PUT", &format!("{URL}&rule=if-changed"), &[], b"conditional");
    assert_eq!(same.json()["outcome"].as_str(), Some("unchanged"));
    for (target, headers, status, words) in [
        (format!("{URL}&status=0"), vec![], 400, "`status`"),
        (format!("{URL}&rule=perhaps"), vec![], 400, "`perhaps`"),
        (URL.to_owned(), vec!["Content-Encoding: gzip"], 415, "gzip"),
        (URL.to_owned(), vec!["Content-Type: application/vnd.filemap.page"], 400, "description"),
        ("/v1/page?url=nothing".to_owned(), vec![], 400, "nothing"),
    ] {
        let (found, detail) = server.ask("PUT", &target, &headers, b"refused").problem();
        assert!(found == status && detail.contains(words), "{target}: {found} {detail}");
    }
    assert_eq!(
        server.get("/v1/history?url=http://example.com/", &[]).json()["versions"].as_array().map(Vec::len),
        Some(4)
    );
    assert_eq!(server.ask("PUT", URL, &["Content-Range: bytes 0-3/10"], b"part").status, 400);
    let since = "If-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT";
    assert_eq!(server.ask("DELETE", URL, &[since], b"").status, 412);
    assert_eq!(server.ask("DELETE", &format!("{URL}&durable=0"), &[], b"").status, 202);
    assert_eq!(server.ask("PUT", URL, &["If-None-Match: *"], b"again").status, 201);
    for time in ["2024-05-01T12:00:00Z", "2024-05-02T12:00:00.250Z"] {
        assert_eq!(server.ask("PUT", &format!("{URL}&time={time}"), &[], time.as_bytes()).status, 201);
    }
    let of_time = |time: &str| server.ask("DELETE", &format!("{URL}&at={time}&durable=0"), &[], b"");
    let (none, one) = (of_time("2024-05-02T12:00:00Z"), of_time("2024-05-02T12:00:00.250Z"));
    assert_eq!((none.status, one.status), (404, 200), "{none:?} {one:?}");
    assert!(none.problem().1.contains("of exactly 2024-05-02T12:00:00Z"), "{none:?}");
    let done = one.json();
    assert_eq!((&done["versions"], &done["durable"]), (&1.into(), &true.into()));
    assert_eq!(server.get(&format!("{URL}&at=2024-05-03"), &[]).body, b"2024-05-01T12:00:00Z");
    let version = server.get(URL, &[]).header("filemap-version").expect("a version").to_owned();
    assert_eq!(server.ask("DELETE", &format!("{URL}&version={version}"), &[], b"").status, 200);
    assert_eq!(server.ask("DELETE", &format!("{URL}&version={version}"), &[], b"").status, 404);
    assert_eq!(server.ask("PUT", URL, &[], b"again").status, 201);
    assert_eq!(server.ask("DELETE", URL, &[], b"").status, 200);
    assert_eq!((server.ask("DELETE", URL, &[], b"").status, server.get(URL, &[]).status), (404, 404));
    server.stop();
    let store = filemap::PageStore::open(server.dir.path().join("pages.fm"), filemap::Options::new()).expect("opened");
    assert!(!PageRead::contains(&store, &"http://example.com/".into()).expect("readable"));
}

#[test]
fn a_client_that_expects_to_go_on_is_refused_before_it_sends_a_body() {
    let server = served(&[]);
    let head = |target: &str, bytes: u64, line: &str| {
        let lines = "Host: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n";
        format!("PUT {target} HTTP/1.1\r\n{lines}Content-Length: {bytes}\r\n{line}\r\n")
    };
    for (request, status) in [
        (head(URL, 5, "Content-Encoding: gzip\r\n"), "415"),
        (head("/v1/page?url=none", 5, ""), "400"),
        (head(URL, 5 << 30, ""), "413"),
    ] {
        let answer = String::from_utf8(server.raw(request.as_bytes())).expect("text");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}{answer}");
    }
    let mut stream = server.connect();
    stream.write_all(head(URL, 5, "").as_bytes()).expect("sent");
    let mut line = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut line).expect("an interim answer");
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"large").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    assert_eq!(Answer::of(&answer).status, 201);
    assert_eq!(server.get(URL, &[]).body, b"large");
}

#[test]
fn the_conditions_of_a_removal_are_those_of_the_versions_it_removes() {
    let server = served(&[page(TIME, "first"), page(TIME, "twin"), page(TIME + 5000, "second")]);
    let tag = |target: &str| server.get(target, &[]).header("etag").expect("a tag").to_owned();
    let of_twin = format!("{URL}&at=2023-11-14T22:13:20Z");
    let twin = server.get(&of_twin, &[]);
    assert_eq!(twin.body, b"twin");
    let of_twin_alone = format!("{URL}&version={}", twin.header("filemap-version").expect("a version"));
    let (newest, old) = (format!("If-Match: {}", tag(URL)), format!("If-Match: {}", tag(&of_twin)));
    // The newest page is not what these remove.
    for target in [&of_twin, &of_twin_alone] {
        let (status, detail) = server.ask("DELETE", target, &[&newest], b"").problem();
        assert!(status == 412 && detail.contains("`If-Match`"), "{target}: {status} {detail}");
    }
    // One of the two versions of this time has another body.
    assert_eq!(server.ask("DELETE", &of_twin, &[&old], b"").status, 412);
    let none = format!("{URL}&at=2023-11-14T22:13:24Z");
    assert_eq!(server.ask("DELETE", &none, &["If-Match: *"], b"").status, 412, "no version of exactly this time");
    assert_eq!(server.ask("DELETE", &of_twin_alone, &[&old], b"").status, 200);
    let since = "If-Unmodified-Since: Tue, 14 Nov 2023 22:13:20 GMT";
    assert_eq!(server.get(&of_twin, &[]).body, b"first");
    assert_eq!(server.ask("DELETE", &of_twin, &[since], b"").status, 200, "the newest one is younger");
    assert_eq!(server.get(URL, &[]).body, b"second");
}

#[test]
fn a_server_that_only_reads_refuses_to_write() {
    let server = served::with(filemap_http::server::ServerOptions::new(), &[page(TIME, "kept")]);
    for (method, target) in [("PUT", URL), ("DELETE", URL), ("POST", "/v1/sync")] {
        let (status, detail) = server.ask(method, target, &[], b"").problem();
        assert!(status == 403 && detail.contains("--write"), "{method}: {status} {detail}");
    }
    assert_eq!(server.get(URL, &[]).body, b"kept");
}

#[test]
fn figures_are_json_and_open_metrics() {
    let server = served(&[page(TIME, "first")]);
    assert_eq!(server.get(URL, &[]).status, 200);
    let stat = server.get("/v1/stat?figures=1", &[]).json();
    assert_eq!((stat["keys"].as_u64(), stat["writes"].as_bool()), (Some(1), Some(true)));
    assert_eq!(stat["figures"]["puts"].as_u64(), Some(1));
    let metrics = server.get("/metrics", &[]);
    let text = String::from_utf8(metrics.body).expect("text");
    for line in [
        "# TYPE filemap_puts counter",
        "filemap_puts_total 1",
        "filemap_http_requests_total{method=\"GET\",route=\"/v1/page\",status=\"200\"} 1",
        "filemap_http_request_duration_seconds_count{method=\"GET\",route=\"/v1/page\"} 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in {text}");
    }
    assert_eq!(
        (server.get("/healthz", &[]).body, server.get("/readyz", &[]).body),
        (b"ok\n".to_vec(), b"ok\n".to_vec())
    );
}
