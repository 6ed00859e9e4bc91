//! A web site on the loopback address: pages by path, with an `ETag`; it counts its requests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crawl::{Builder, Crawler};
use filemap::page::RecordKind;
use filemap::{Options, Page, PageStore};

/// A running site. Its threads end with the test process.
pub struct Site {
    address: SocketAddr,
    pages: Arc<Mutex<HashMap<String, String>>>,
    asked: Arc<Mutex<HashMap<String, u32>>>,
}

impl Site {
    /// A site with these HTML pages; any other path gives a 404.
    pub fn of(pages: &[(&str, &str)]) -> Site {
        let pages = pages.iter().map(|(path, body)| ((*path).to_owned(), (*body).to_owned())).collect();
        let pages = Arc::new(Mutex::new(pages));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let site = Site { address: listener.local_addr().unwrap(), pages: Arc::clone(&pages), asked: Arc::default() };
        let asked = Arc::clone(&site.asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (pages, asked) = (Arc::clone(&pages), Arc::clone(&asked));
                std::thread::spawn(move || drop(answer(stream, &pages, &asked)));
            }
        });
        site
    }

    /// Replaces the body of a page.
    pub fn set(&self, path: &str, body: &str) {
        self.pages.lock().unwrap().insert(path.to_owned(), body.to_owned());
    }

    /// A URL of the site.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the number of requests for a path.
    pub fn asked(&self, path: &str) -> u32 {
        self.asked.lock().unwrap().get(path).copied().unwrap_or(0)
    }
}

fn answer(
    mut stream: TcpStream,
    pages: &Mutex<HashMap<String, String>>,
    asked: &Mutex<HashMap<String, u32>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut known = String::new();
    while line != "\r\n" {
        if let Some(tag) = line.to_ascii_lowercase().strip_prefix("if-none-match: ") {
            known = tag.trim().to_owned();
        }
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    *asked.lock().unwrap().entry(path.clone()).or_default() += 1;
    let page = pages.lock().unwrap().get(&path).cloned();
    let tag = page.as_ref().map(|body| format!("\"{}-{:x}\"", body.len(), xxhash_rust::xxh3::xxh3_64(body.as_bytes())));
    if tag.as_ref().is_some_and(|tag| *tag == known) {
        return write!(stream, "HTTP/1.1 304 Not Modified\r\nETag: {known}\r\nConnection: close\r\n\r\n");
    }
    let (status, body) = page.map_or(("404 Not Found", "absent".to_owned()), |body| ("200 OK", body));
    let tag = tag.map(|tag| format!("\r\nETag: {tag}")).unwrap_or_default();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}{tag}", body.len());
    write!(stream, "{head}\r\nConnection: close\r\n\r\n{body}")
}

/// A builder for a quick crawl of a site into the store in a folder.
pub fn crawl(folder: &tempfile::TempDir, site: &Site) -> Builder {
    let builder = Crawler::builder(folder.path().join("pages.fm")).unwrap();
    builder.seed(site.url("/")).rate(0.0).allow_private()
}

/// Opens the store of that crawl for reading.
pub fn store(folder: &tempfile::TempDir) -> PageStore {
    PageStore::open_read_only(folder.path().join("pages.fm"), Options::new()).unwrap()
}

/// Returns the stored page and the fields next to it.
pub fn page(store: &PageStore, url: &str) -> (Option<Page>, crawl::hooks::Fields) {
    let note = store.get_beside(url, RecordKind::Metadata).unwrap();
    (store.get(url).unwrap(), note.map(|note| crawl::record::fields_in(&note)).unwrap_or_default())
}
