//! Links per second through a mailbox: posted in batches by one client, read and dropped by
//! another, both over HTTP on the loopback.
//!
//! `cargo run --release -p filemap-http --example links -- FOLDER [LINKS] [BATCH]`

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use filemap::{Options, PageStore};
use filemap_http::server::{LinkBoxes, Server, ServerOptions};
use filemap_http::{ClientOptions, LinksClient, Mailed};
use mailbox::{Link, MailboxOptions};

fn done<T: std::fmt::Debug>(mailed: Mailed<T>) -> Result<T, String> {
    match mailed {
        Mailed::Done(done) => Ok(done),
        other => Err(format!("{other:?}")),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("give a folder")?);
    let all: u64 = arguments.next().map_or(Ok(1_000_000), |links| links.parse())?;
    let batch: u64 = arguments.next().map_or(Ok(1_000), |links| links.parse())?;
    let store = PageStore::open_or_create(folder.join("pages.fm"), Options::new())?;
    let boxes = LinkBoxes::open(&folder.join("links"), MailboxOptions::new())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let location = format!("http://{}/v1/links", listener.local_addr()?);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = Server::new(store, ServerOptions::new().writes().links(boxes));
    let serving = runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));

    let client = LinksClient::open(&location, 1, &ClientOptions::new())?;
    let epoch = done(client.take(0, 1)?)?;
    let begun = Instant::now();
    for first in (0..all).step_by(batch as usize) {
        let url = |number: u64| format!("http://host-{}.example/some/path/page-{number}.html", number % 1_000);
        let link = |number| Link { url: url(number), depth: 5, is_seed: false };
        let links = (first..all.min(first + batch)).map(link).collect();
        done(client.post(0, 2, first, links)?)?;
    }
    let posted = begun.elapsed().as_secs_f64();
    let (begun, mut read, mut cursor) = (Instant::now(), 0, None);
    while read < all {
        let part = done(client.read(0, cursor, epoch)?)?;
        read += part.links.len() as u64;
        cursor = Some(part.cursor);
        done(client.drop_to(0, part.cursor, epoch)?)?;
    }
    let taken = begun.elapsed().as_secs_f64();
    println!(
        "{all} links in batches of {batch}: posted {:.0}/s, taken {:.0}/s",
        all as f64 / posted,
        all as f64 / taken
    );
    drop(stop);
    runtime.block_on(serving)??;
    Ok(())
}
