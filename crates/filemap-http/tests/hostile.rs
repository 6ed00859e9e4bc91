//! Clients that are slow, disconnect, or send invalid requests; and damage in the store.

use std::io::{Read, Write};
use std::time::Duration;

use filemap::{Options, Page, PageRead, PageStore};
use filemap_http::server::ServerOptions;

use crate::served::{self, Answer, served};

const URL: &str = "/v1/page?url=http://example.com/";

fn page() -> Page {
    Page::new("http://example.com/", 1_700_000_000_000, 200, "kept")
}

#[test]
fn what_may_be_two_requests_is_none() {
    let server = served(&[page()]);
    let host = format!("Host: {}\r\n", server.address);
    let smuggled = "GET /v1/stat HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (what, lines) in [
        ("two lengths", "Content-Length: 4\r\nContent-Length: 60\r\n\r\n".to_owned()),
        ("an invalid length", "Content-Length: +4\r\n\r\n".to_owned()),
        ("length and chunks", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned()),
        ("an unknown coding", "Transfer-Encoding: xchunked\r\n\r\n".to_owned()),
        ("a folded header", "X-A: b\r\n Content-Length: 60\r\n\r\n".to_owned()),
        ("a bad chunk", "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n".to_owned()),
        ("a space before the colon", "Content-Length : 4\r\n\r\n".to_owned()),
    ] {
        let target = "/v1/page?url=http://example.com/smuggled";
        let request = format!("PUT {target} HTTP/1.1\r\n{host}{lines}{smuggled}");
        let answers = server.raw(request.as_bytes());
        let text = String::from_utf8_lossy(&answers);
        // Length and chunks: by RFC 9112, 6.3 the chunks count, and the connection is closed.
        let expected = if what == "length and chunks" { 201 } else { 400 };
        assert_eq!((Answer::of(&answers).status, text.matches("HTTP/1.1 ").count()), (expected, 1), "{what}: {text}");
        assert!(!text.contains("lists_in_order"), "{what}: the second request was answered: {text}");
    }
    assert_eq!(server.get(URL, &[]).body, b"kept");
}

#[test]
fn extensions_of_chunks_are_no_part_of_a_body_and_bounded() {
    let server = served(&[page()]);
    let put = |chunks: &str| {
        let head = format!("PUT {URL} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        Answer::of(&server.raw(format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}").as_bytes())).status
    };
    assert_eq!(put("4;a=b\r\nbody\r\n1 ;c=\"d\"\r\n!\r\n0;e\r\n\r\n"), 201);
    assert_eq!(server.get(URL, &[]).body, b"body!");
    assert_eq!(put(&format!("4;{}\r\nlong\r\n0\r\n\r\n", "a".repeat(16_390))), 400);
    assert_eq!(server.get(URL, &[]).body, b"body!");
}

#[test]
fn a_full_disk_is_said_and_what_is_there_is_served() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pages.fm");
    let store = PageStore::create(&path, Options::new()).expect("a store");
    store.put_page(&page()).expect("stored");
    store.close().expect("closed");
    let full = PageStore::open(&path, Options::new().free_space_floor(u64::MAX)).expect("opened");
    let server = served::of(full, ServerOptions::new().writes());
    for target in ["/v1/page?url=http://example.com/new", "/v1/page?url=http://example.com/new&rule=if-changed"] {
        let (status, detail) = server.ask("PUT", target, &[], b"more").problem();
        assert!(status == 507 && detail.contains("floor"), "{target}: {status} {detail}");
    }
    let line = b"{\"url\":\"http://example.com/new\",\"time\":\"2024\",\"body\":\"more\"}\n";
    let lines = server.ask("POST", "/v1/pages", &["Content-Type: application/x-ndjson"], line);
    let said = String::from_utf8_lossy(&lines.body).into_owned();
    assert!(said.contains("floor") && !said.contains("\"outcome\":\"stored\""), "{said}");
    let log = server.log.lock().expect("unpoisoned").join("\n");
    assert!(log.contains("507 Insufficient Storage") && log.contains("floor"), "{log}");
    assert_eq!(server.get(URL, &[]).body, b"kept");
    assert_eq!(server.get("/v1/page?url=http://example.com/new", &[]).status, 404);
    assert_eq!(server.ask("DELETE", URL, &[], b"").status, 200, "removals make room");
}

#[test]
fn floods_of_headers_and_urls_are_refused() {
    let server = served(&[page()]);
    let many: String = (0..1000).map(|n| format!("X-{n}: a\r\n")).collect();
    let long = "a".repeat(300_000);
    for (what, request) in [
        ("many headers", format!("GET {URL} HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")),
        ("a long header", format!("GET {URL} HTTP/1.1\r\nHost: localhost\r\nX-A: {long}\r\n\r\n")),
        ("a long URL", format!("GET {URL}{long} HTTP/1.1\r\nHost: localhost\r\n\r\n")),
    ] {
        let answer = server.raw(request.as_bytes());
        let is_refused =
            [b"HTTP/1.1 431", b"HTTP/1.1 414", b"HTTP/1.1 400"].iter().any(|begin| answer.starts_with(*begin));
        assert!(is_refused, "{what}: {:?}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(server.get(URL, &[]).status, 200);
}

#[test]
fn a_slow_client_is_closed_and_holds_nobody_up() {
    // A busy machine may not let the other clients send anything for a while.
    let idle = Duration::from_secs(5);
    let server = served::with(ServerOptions::new().writes().max_calls(2).idle(idle), &[page()]);
    let connect = |nth: usize| {
        let mut stream = server.connect();
        let begin = match nth % 2 {
            0 => "GET /v1/page?url=http://exam".to_owned(),
            _ => format!("PUT {URL} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nbegin"),
        };
        stream.write_all(begin.as_bytes()).expect("sent");
        stream
    };
    let slow: Vec<_> = (0..50).map(connect).collect();
    assert_eq!(server.get(URL, &[]).body, b"kept");
    for (nth, mut stream) in slow.into_iter().enumerate() {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("closed");
        if nth % 2 == 1 {
            let (status, detail) = Answer::of(&answer).problem();
            assert!(status == 408 && detail.contains("nothing was stored"), "{status} {detail}");
        }
    }
    assert_eq!(server.get(URL, &[]).body, b"kept");
}

#[test]
fn a_body_that_breaks_off_stores_nothing() {
    let server = served(&[page()]);
    for sent in [b"part".to_vec(), vec![b'x'; 700_000]] {
        let mut stream = server.connect();
        let head = format!("PUT {URL} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
        stream.write_all(&[head.as_bytes(), &sent].concat()).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("half closed");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    assert_eq!(server.get(URL, &[]).body, b"kept");
    assert_eq!(
        server.get("/v1/history?url=http://example.com/", &[]).json()["versions"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_reader_that_does_not_read_holds_no_thread() {
    let server = served::with(ServerOptions::new().writes().max_calls(2), &[page()]);
    let large = vec![b'x'; 20 << 20];
    assert_eq!(server.ask("PUT", "/v1/page?url=http://example.com/large", &[], &large).status, 201);
    let mut waiting: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut waiting {
        stream
            .write_all(b"GET /v1/page?url=http://example.com/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("sent");
    }
    // The request would wait forever, or until its connection times out, if they held both
    // threads.
    assert_eq!(server.get(URL, &[]).body, b"kept");
    drop(waiting);
    assert!(server.get("/v1/page?url=http://example.com/large", &[]).body == large);
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    // The upload must not pause for that long, on a busy machine either.
    let server = served::with(ServerOptions::new().writes().idle(Duration::from_secs(4)), &[page()]);
    let large = vec![b'x'; 20 << 20];
    assert_eq!(server.ask("PUT", "/v1/page?url=http://example.com/large", &[], &large).status, 201);
    let mut stream = server.connect();
    stream.write_all(b"GET /v1/page?url=http://example.com/large HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    std::thread::sleep(Duration::from_secs(10));
    let mut got = Vec::new();
    // Data buffered by the system arrives, and then the end: not all of it.
    let _ = stream.read_to_end(&mut got);
    assert!(got.len() < large.len(), "{} bytes came after the time was over", got.len());
}

#[test]
fn old_http_is_refused_for_its_answers_have_no_end() {
    let server = served(&[page()]);
    let answer = server.raw(format!("GET {URL} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes());
    assert!(String::from_utf8_lossy(&answer).contains(" 505 "), "{:?}", String::from_utf8_lossy(&answer));
}

#[test]
fn nothing_is_called_absent_that_may_be_in_a_file_that_is_gone() {
    let mut server = served(&[]);
    let path = server.dir.path().join("pages.fm");
    server.stop();
    let small = || Options::new().segment_bytes(1 << 20).large_value_bytes(64 << 10).compression_level(0);
    std::fs::remove_dir_all(&path).expect("removed");
    let store = PageStore::create(&path, small()).expect("a store");
    let mut random = 1u32;
    for nth in 0..60 {
        let noise = std::iter::repeat_with(|| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        });
        let body: Vec<u8> = noise.take(60_000).collect();
        store.put_page(&Page::new(format!("http://example.com/{nth}"), 1_700_000_000_000, 200, body)).expect("stored");
    }
    store.close().expect("closed");
    std::fs::remove_file(path.join("value1.dat")).expect("it was there");
    let server = served::of(PageStore::open_read_only(&path, small()).expect("opened"), ServerOptions::new());
    for target in [
        "/v1/page?url=http://example.com/none",
        "/v1/head?url=http://example.com/none",
        "/v1/history?url=http://example.com/none",
        "/v1/count",
        "/timegate/http://example.com/none",
        "/cdx?url=http://example.com/none",
        "/web/20231114221320id_/http://example.com/none",
        "/v1/page?url=http://example.com/25",
    ] {
        let answer = server.get(target, &[]);
        let (status, detail) = answer.problem();
        assert!(status == 500 && detail.contains("value1.dat"), "{target}: {status} {detail}");
        assert_eq!(answer.json()["is_damage"].as_bool(), Some(true), "{target}");
    }
    let listed = server.get("/v1/urls", &[]).json().to_string();
    assert!(listed.contains("value1.dat"), "{listed}");
    assert_eq!((server.get("/readyz", &[]).status, server.get("/healthz", &[]).status), (503, 200));
    assert_eq!(server.get("/v1/page?url=http://example.com/0", &[]).status, 200);
    let client = server.client();
    let error = client.get(&"http://example.com/none".into()).expect_err("not known");
    assert!(error.is_damage(), "{error}");
    let last = client.list(&Default::default(), None).and_then(|listed| listed.last().expect("an entry"));
    assert!(last.expect_err("not all").is_damage());
}

#[test]
fn damage_is_told_in_the_answer_and_in_the_log_and_the_rest_is_served() {
    let mut server = served(&[page()]);
    let other = Page::new("http://example.com/other", 1_700_000_000_000, 200, "x".repeat(5000));
    let path = server.dir.path().join("pages.fm");
    server.stop();
    let store = PageStore::open(&path, Options::new()).expect("opened");
    store.put_page(&other).expect("stored");
    let place = store.engine().locate(b"http://example.com/").expect("readable").expect("there");
    store.close().expect("closed");
    let file = path.join("value0.dat");
    let mut bytes = std::fs::read(&file).expect("readable");
    bytes[place.offset as usize + 100] ^= 0xff;
    std::fs::write(&file, bytes).expect("written");
    let server = served::of(PageStore::open_read_only(&path, Options::new()).expect("opened"), ServerOptions::new());
    let (status, detail) = server.get(URL, &[]).problem();
    assert!(status == 500 && detail.contains("value0.dat"), "{status} {detail}");
    let log = server.log.lock().expect("unpoisoned").join("\n");
    assert!(log.contains(URL) && log.contains("value0.dat"), "{log}");
    assert_eq!(server.get("/v1/page?url=http://example.com/other", &[]).body.len(), 5000);
}
