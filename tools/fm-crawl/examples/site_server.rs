//! Serves a web site made of the HTML pages in a folder, to compare crawlers. Each page is served
//! unchanged from disk, and an index links to all of them.
//!
//! `site_server FOLDER [PAGES]` prints its address and serves until it is killed; `/counts` has
//! the number of requests, and of the pages they were for. Pages are read from disk for each
//! request, which the page cache makes cheap; the server is the same for every crawler.
//! `site_server FOLDER PAGES STORE ADDRESS` does not serve: it compares a store that was crawled
//! from that address with the folder, byte for byte.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

/// Links on one page of the index.
const INDEX_LINKS: usize = 500;

struct Site {
    files: HashMap<String, PathBuf>,
    index: HashMap<String, String>,
    asked: Mutex<HashMap<String, u64>>,
}

fn find(folder: &Path, root: &Path, paths: &mut Vec<(String, PathBuf)>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            find(&path, root, paths);
        } else if path.extension().is_some_and(|ending| ending == "html") {
            let below = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
            // A path that needs escapes could be requested in several spellings, which would spoil
            // the comparison of counts.
            if below.bytes().all(is_plain) {
                paths.push((format!("/{below}"), path));
            }
        }
    }
}

impl Site {
    fn new(folder: &Path, pages: usize) -> Site {
        let mut files = Vec::new();
        find(folder, folder, &mut files);
        files.truncate(pages);
        let mut index = HashMap::new();
        let mut top = String::from("<html><title>Index</title>\n");
        for (number, some) in files.chunks(INDEX_LINKS).enumerate() {
            let links: String = some.iter().map(|(path, _)| format!("<a href=\"{path}\">{path}</a>\n")).collect();
            index.insert(format!("/index-{number}"), format!("<html><title>Index {number}</title>\n{links}"));
            top += &format!("<a href=\"/index-{number}\">{number}</a>\n");
        }
        index.insert("/".to_owned(), top);
        Site { files: files.into_iter().collect(), index, asked: Mutex::default() }
    }

    fn answer(&self, asked: &str) -> (u16, &'static str, Vec<u8>) {
        let path = asked.split('?').next().unwrap_or_default();
        if path == "/counts" {
            let asked = self.asked.lock().expect("no thread panics");
            let known = asked.iter().filter(|(path, _)| self.files.contains_key(*path));
            let (mut different, mut requests) = (0_u64, 0_u64);
            known.for_each(|(_, times)| {
                different += 1;
                requests += times;
            });
            let all: u64 = asked.values().sum();
            let pages = self.files.len();
            return (200, "application/json", format!("{{\"pages\":{pages},\"pages_asked\":{different},\"page_requests\":{requests},\"requests\":{all}}}\n").into());
        }
        *self.asked.lock().expect("no thread panics").entry(asked.to_owned()).or_default() += 1;
        if let Some(body) = self.index.get(path) {
            return (200, "text/html", body.clone().into());
        }
        match self.files.get(path).and_then(|file| std::fs::read(file).ok()) {
            Some(body) => (200, "text/html", body),
            None => (404, "text/html", b"missing".to_vec()),
        }
    }
}

/// Prints how many pages of the web site the store has unchanged.
fn compare(site: &Site, store: &str, address: &str) {
    let store = filemap::PageStore::open_read_only(store, filemap::Options::new()).expect("a store");
    let is_same = |(path, file): &(&String, &PathBuf)| {
        let page = store.get(&format!("http://{address}{path}")).expect("the store is whole");
        page.is_some_and(|page| std::fs::read(file).is_ok_and(|body| body == page.body))
    };
    let same = site.files.iter().filter(is_same).count();
    println!("{same} of {} pages are stored byte for byte", site.files.len());
    assert_eq!(same, site.files.len(), "pages are missing or differ");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder of HTML pages"));
    let pages = arguments.next().map_or(usize::MAX, |number| number.parse().expect("a number of pages"));
    let site = Arc::new(Site::new(&folder, pages));
    if let (Some(store), Some(address)) = (arguments.next(), arguments.next()) {
        return compare(&site, &store, &address);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{} {}", listener.local_addr().expect("an address"), site.files.len());
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let site = Arc::clone(&site);
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let (status, kind, body) =
                        site.answer(request.uri().path_and_query().map_or("/", |path| path.as_str()));
                    let answer = Response::builder().status(status).header("content-type", kind);
                    let answer = answer.body(Full::<Bytes>::from(body)).expect("a valid answer");
                    async move { Ok::<_, Infallible>(answer) }
                });
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}
