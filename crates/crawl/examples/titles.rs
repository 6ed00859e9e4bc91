//! Crawls a small local web site and stores the title of each page next to it.
//!
//! `cargo run -p crawl --example titles`

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use crawl::{Capture, Crawler, Reply, record};
use filemap::page::RecordKind;
use filemap::{Options, PageStore};

/// Returns the text between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let rest = &text[text.find(from)? + from.len()..];
    Some(&rest[..rest.find(to)?])
}

/// Answers one request; only the start page has links.
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or("/");
    let (status, body) = match path {
        "/" => ("200 OK", "<title>Home</title><a href=/a>a</a> <a href=/b>b</a>".to_owned()),
        "/a" | "/b" => ("200 OK", format!("<title>Page {path}</title>")),
        _ => ("404 Not Found", String::new()),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let start = format!("http://{}/", listener.local_addr()?);
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(serve(stream))));

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pages.fm");
    let title = |capture: &Capture<'_>| {
        let body = String::from_utf8_lossy(&capture.page.body);
        Ok(Reply::new().field("title", between(&body, "<title>", "</title>").unwrap_or("none")))
    };
    let crawler = Crawler::builder(&path)?.seed(&start).rate(0.0).allow_private().on_page(title).build()?;
    let summary = crawler.run()?;
    println!("{} pages: {}", summary.tally.fetched, summary.end.name());

    let store = PageStore::open_read_only(&path, Options::new())?;
    for url in [start.clone(), format!("{start}a"), format!("{start}b")] {
        let note = store.get_beside(&url, RecordKind::Metadata)?;
        let fields = note.map(|note| record::fields_in(&note)).unwrap_or_default();
        println!("{url}: {}", fields.get("title").map_or("no title", String::as_str));
    }
    Ok(())
}
