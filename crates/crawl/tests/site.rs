//! A site of the loopback: pages by their paths, and how often each was asked for.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crawl::{Builder, Crawler};
use filemap::page::RecordKind;
use filemap::{Options, Page, PageStore};

/// A running site. Its threads end with the test's process.
pub struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<HashMap<String, u32>>>,
}

impl Site {
    /// A site of these HTML pages; all others are absent.
    pub fn of(pages: &[(&str, &str)]) -> Site {
        let pages: Arc<HashMap<String, String>> =
            Arc::new(pages.iter().map(|(path, body)| ((*path).to_owned(), (*body).to_owned())).collect());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let site = Site { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let asked = Arc::clone(&site.asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (pages, asked) = (Arc::clone(&pages), Arc::clone(&asked));
                std::thread::spawn(move || drop(answer(stream, &pages, &asked)));
            }
        });
        site
    }

    /// A URL of the site.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How often a path was asked for.
    pub fn asked(&self, path: &str) -> u32 {
        self.asked.lock().unwrap().get(path).copied().unwrap_or(0)
    }
}

fn answer(
    mut stream: TcpStream,
    pages: &HashMap<String, String>,
    asked: &Mutex<HashMap<String, u32>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    *asked.lock().unwrap().entry(path.clone()).or_default() += 1;
    let (status, body) = pages.get(&path).map_or(("404 Not Found", "absent"), |body| ("200 OK", body.as_str()));
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}", body.len());
    write!(stream, "{head}\r\nConnection: close\r\n\r\n{body}")
}

/// A builder of a quick crawl of a site into a folder's store.
pub fn crawl(folder: &tempfile::TempDir, site: &Site) -> Builder {
    let builder = Crawler::builder(folder.path().join("pages.fm")).unwrap();
    builder.seed(site.url("/")).rate(0.0).allow_private(true)
}

/// The store of that crawl, to read.
pub fn store(folder: &tempfile::TempDir) -> PageStore {
    PageStore::open_read_only(folder.path().join("pages.fm"), Options::new()).unwrap()
}

/// The stored page, and the fields beside it.
pub fn page(store: &PageStore, url: &str) -> (Option<Page>, crawl::Fields) {
    let note = store.get_beside(url, RecordKind::Metadata).unwrap();
    (store.get(url).unwrap(), note.map(|note| crawl::record::fields_in(&note)).unwrap_or_default())
}
