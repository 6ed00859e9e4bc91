//! Random requests to every route: the server answers every one, and reports no failure of its
//! own.

use std::sync::atomic::{AtomicU64, Ordering};

use filemap::Page;
use filemap_http::server::ServerOptions;
use serde_json::Value;

use crate::served::{Served, with};

/// Requests of a run; a soak sets more with `FILEMAP_REQUESTS`.
const REQUESTS: u64 = 4000;
const CLIENTS: u64 = 4;

const METHODS: [&str; 8] = ["GET", "GET", "GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"];
const VALUES: [&str; 24] = [
    "http://a.example/1",
    "http://a.example/",
    "a.example",
    "example",
    "http",
    "",
    "0",
    "1",
    "-1",
    "18446744073709551616",
    "9223372036854775807",
    "1700000000000.3",
    "2023",
    "20231114221320",
    "2024-02-30",
    "prefix",
    "json",
    "closest",
    "!status:(2..|404)",
    "urlkey,timestamp,x",
    "%00%ff",
    "%e4%b8%ad",
    "__wb_method=POST&a=1",
    "now",
];
const HEADERS: [&str; 18] = [
    "Range: bytes=0-1",
    "Range: bytes=-9999999999999999999",
    "Range: bytes=5-2,1-1",
    "If-None-Match: *",
    "If-Match: \"x\"",
    "If-None-Match: W/\"x\", \"y\"",
    "Accept: application/warc",
    "Accept: text/html;q=x",
    "Accept-Encoding: gzip, br;q=0, *",
    "Accept-Datetime: Tue, 14 Nov 2023 22:13:20 GMT",
    "Accept-Datetime: soon",
    "Content-Type: application/x-ndjson",
    "Content-Type: application/warc",
    "Content-Type: multipart/form-data; boundary=",
    "Content-Encoding: gzip",
    "Expect: 100-continue",
    "Request-Id: 00000000000000000000000000000001",
    "Sec-Fetch-Site: cross-site",
];
const BODIES: [&str; 8] = [
    "",
    "http://a.example/1\nno URL\n\n",
    "{\"url\":\"http://b.example/\",\"time\":\"2024\",\"body\":\"x\"}\n",
    "{\"url\":1}\n{",
    "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://c.example/\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n\
     Content-Length: 1\r\n\r\nx\r\n\r\n",
    "\u{1f}\u{8b}\u{8}",
    "{\"kind\":\"bloom\",\"capacity\":1000}",
    "\u{0}\u{7f}a=1&b=2",
];

/// A sequence of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// A value, escaped for a query.
fn escaped(value: &str) -> String {
    value.replace('&', "%26").replace(' ', "%20").replace('|', "%7C")
}

fn request(random: &mut Random, host: &str, paths: &[&str], names: &[&str]) -> Vec<u8> {
    let path = random.of(paths);
    let inner = random.of(&VALUES[..]);
    let mut target =
        path.replace("{name}", "pages").replace("{url}", inner).replace("{capture}", &format!("2023id_/{inner}"));
    for at in 0..random.below(5) {
        let name = if random.below(12) == 0 { "nothing" } else { random.of(names) };
        // No request waits for changes.
        let value = if name == "wait" { "0" } else { random.of(&VALUES[..]) };
        target.push_str(&format!("{}{name}={}", if at == 0 { "?" } else { "&" }, escaped(value)));
    }
    let method = random.of(&METHODS[..]);
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for _ in 0..random.below(4) {
        head.push_str(&format!("{}\r\n", random.of(&HEADERS[..])));
    }
    let body = random.of(&BODIES[..]);
    if matches!(method, "PUT" | "POST" | "PATCH") || random.below(9) == 0 {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        return format!("{head}\r\n{body}").into_bytes();
    }
    format!("{head}\r\n").into_bytes()
}

fn ask(server: &Served, seed: u64, (paths, names): (&[&str], &[&str]), left: &AtomicU64) -> u64 {
    let (mut random, host) = (Random(seed), server.address.to_string());
    let mut understood = 0;
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let request = request(&mut random, &host, paths, names);
        let shown = || String::from_utf8_lossy(&request).into_owned();
        let answer = server.raw(&request);
        let final_answer = answer.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
        let line = final_answer.get(..12).map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        let status: u16 = line.strip_prefix("HTTP/1.1 ").and_then(|status| status.parse().ok()).unwrap_or(0);
        assert!(status != 0, "no answer to {}", shown());
        assert!(status < 500, "{} to {}\nlog: {:?}", String::from_utf8_lossy(final_answer), shown(), server.log.lock());
        understood += u64::from(status < 400);
    }
    understood
}

#[test]
fn random_requests_are_all_answered_and_none_is_the_servers_fault() {
    let pages: Vec<Page> =
        (0..20).map(|at| Page::new(format!("http://a.example/{at}"), 1_700_000_000_000, 200, "hello")).collect();
    let server = with(ServerOptions::new().writes(), &pages);
    let document = server.get("/v1/openapi.json", &[]).json();
    let paths: Vec<&str> = document["paths"].as_object().expect("paths").keys().map(String::as_str).collect();
    let operations = document["paths"].as_object().expect("paths").values().filter_map(Value::as_object);
    let parameters =
        operations.flat_map(|path| path.values()).filter_map(|operation| operation["parameters"].as_array());
    let mut names: Vec<&str> = parameters.flatten().filter_map(|parameter| parameter["name"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let requests = std::env::var("FILEMAP_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(REQUESTS);
    let (left, understood) = (AtomicU64::new(requests), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, left, understood, routes) = (&server, &left, &understood, (&paths[..], &names[..]));
            scope.spawn(move || understood.fetch_add(ask(server, client, routes, left), Ordering::Relaxed));
        }
    });
    let understood = understood.into_inner();
    assert!(understood * 20 > requests, "of {requests} only {understood} were understood");
    assert_eq!(server.log.lock().expect("unpoisoned").len(), 0, "{:?}", server.log.lock());
    println!("{requests} requests, {understood} of them understood");
}
