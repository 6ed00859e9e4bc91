//! Pages in place, served and read over HTTP: whole, in ranges, described; and archives on
//! servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use filemap::archives::Archives;
use filemap::import::{ImportOptions, ImportProgress, cdxj, import};
use filemap::{Options, PageRead, PageStore};
use filemap_http::AnyArchives;
use filemap_http::server::ServerOptions;

use crate::served::of;

fn record(name: &str, body: &str) -> String {
    format!(
        "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.example/{name}\r\n\
         WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}\r\n\r\n",
        body.len()
    )
}

#[test]
fn a_page_in_place_is_served_as_any_other() {
    let dir = tempfile::tempdir().expect("a folder");
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    let (path, file) = (dir.path().join("a.warc"), [record("1", "first"), record("2", "second")].concat());
    std::fs::write(&path, &file).expect("a file");
    let options = ImportOptions::new().in_place(path.to_str().expect("text"));
    import(&store, "a.warc", file.as_bytes(), &options, &mut |_| ControlFlow::Continue(())).expect("imported");
    let server = of(store, ServerOptions::new());

    let target = "/v1/page?url=http://a.example/2";
    let whole = server.get(target, &[]);
    assert_eq!((whole.status, &whole.body[..]), (200, &b"second"[..]), "{whole:?}");
    let etag = whole.header("etag").expect("a digest").to_owned();
    let head = server.ask("HEAD", target, &[], b"");
    assert_eq!((head.status, head.header("content-length"), head.header("etag")), (200, Some("6"), Some(&*etag)));
    let part = server.get(target, &["Range: bytes=2-3"]);
    assert_eq!((part.status, &part.body[..]), (206, &b"co"[..]));
    assert_eq!(server.get(target, &[&format!("If-None-Match: {etag}")]).status, 304);
    let history = server.get("/v1/history?url=http://a.example/2", &[]);
    let text = String::from_utf8(history.body).expect("text");
    assert!(text.contains(&format!(r#""offset":{}"#, record("1", "first").len())), "{text}");
    let client = server.client();
    let described = client.head(&"http://a.example/2".into()).expect("readable").expect("there");
    assert_eq!(described.page.in_place.map(|place| place.offset), Some(record("1", "first").len() as u64));
    assert_eq!(client.get(&"http://a.example/2".into()).expect("readable").expect("there").body, b"second");

    std::fs::write(&path, "").expect("a file");
    let gone = server.get(target, &[]);
    let words = String::from_utf8_lossy(&gone.body).into_owned();
    assert!(gone.status == 500 && words.contains("http://a.example/2"), "{} {words}", gone.status);
    assert_eq!(server.get("/v1/page?url=http://a.example/3", &[]).status, 404);
}

/// A server of one file that supports ranges; and the ranges that were requested.
fn archive_server(file: Vec<u8>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/archive", listener.local_addr().expect("an address"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let ranges = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
            let head: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let range =
                head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
            let range = range.unwrap_or_default();
            ranges.lock().expect("unpoisoned").push(range.clone());
            let (from, to) = range.split_once('-').expect("a range");
            let from: usize = from.parse().expect("a number");
            let to = to.parse().map_or(file.len(), |last: usize| last + 1).min(file.len());
            let answer = match head[0].contains("/archive/a.warc") {
                false if head[0].contains("busy") => {
                    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()
                }
                false => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
                true => {
                    let part = &file[from..to];
                    let head = format!(
                        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{}\r\nContent-Length: {}\r\n\
                         Connection: close\r\n\r\n",
                        to - 1,
                        file.len(),
                        part.len()
                    );
                    [head.as_bytes(), part].concat()
                }
            };
            // The reader may have closed the connection.
            let _ = stream.write_all(&answer);
        }
    });
    (address, asked)
}

#[test]
fn records_on_a_server_are_read_by_their_range_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let (first, second) = (record("1", "first"), record("2", "second"));
    let (address, asked) = archive_server([first.as_bytes(), second.as_bytes()].concat());
    let line = |name: &str, file: &str, offset: usize, length: usize| {
        format!(
            "k 20231114221320 {{\"url\":\"http://a.example/{name}\",\"mime\":\"text/plain\",\"offset\":\"{offset}\",\
             \"length\":\"{length}\",\"filename\":\"{file}\"}}\n"
        )
    };
    let index = [
        line("1", "a.warc", 0, first.len()),
        line("2", "a.warc", first.len(), second.len()),
        line("3", "b.warc", 0, 10),
        line("4", "busy.warc", 0, 10),
    ];
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
    let locate = |file: &str| Ok(format!("{address}/{file}"));
    let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
    let report = cdxj::import(&store, "index", index.concat().as_bytes(), &locate, go_on).expect("imported");
    assert_eq!((report.in_place, report.losses()), (4, 0), "no file of another machine is looked for");
    let local = store.get("http://a.example/2").expect_err("not without the client");
    assert!(local.to_string().contains("reads no archives of other machines"), "{local}");

    let store = store.with_archives(Arc::new(AnyArchives::new()));
    let found = store.get("http://a.example/2").expect("readable").expect("there");
    assert_eq!((&found.body[..], found.headers.get("content-type")), (&b"second"[..], Some(&b"text/plain"[..])));
    let last = first.len() + second.len() - 1;
    assert_eq!(asked.lock().expect("unpoisoned").clone(), [format!("{}-{last}", first.len())]);
    let gone = store.get("http://a.example/3").expect_err("no such file");
    assert!(gone.is_damage() && gone.to_string().contains("b.warc (offset 0): the file is missing"), "{gone}");
    let busy = store.get("http://a.example/4").expect_err("not now");
    assert!(!busy.is_damage() && busy.to_string().contains("503"), "what may be there later is not lost: {busy}");
    let mut all = String::new();
    AnyArchives::new()
        .open(&format!("{address}/a.warc"), 5, Some(4))
        .expect("there")
        .read_to_string(&mut all)
        .expect("read");
    assert_eq!(all, first[5..9]);
}
