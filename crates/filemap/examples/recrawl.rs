//! A second visit to pages of a store, in its own store: what has not changed takes a
//! reference, not a body; both visits are in the page's history; and what was synced survives a
//! crash.
//!
//! ```text
//! cargo run --release --package filemap --example recrawl -- pages.fm
//! ```

use std::error::Error;

use filemap::{Options, PageStore, Put};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: recrawl STORE")?;
    let source = PageStore::open_read_only(&path, Options::new())?;
    let folder = tempfile::tempdir()?;
    let store = PageStore::create(folder.path().join("recrawl.fm"), Options::new().keep_versions(Some(2)))?;

    let mut urls = Vec::new();
    for page in source.pages().take(50) {
        let mut page = page?;
        page.fetched_at_ms = 1_700_000_000_000;
        store.put_page(&page)?;
        urls.push(page.url);
    }
    store.sync()?;

    let (mut unchanged, mut stored) = (0, 0);
    for (nth, url) in urls.iter().enumerate() {
        let mut page = store.get(url)?.ok_or("a page that was just put")?;
        page.fetched_at_ms += 86_400_000;
        if nth % 5 == 0 {
            page.body.extend_from_slice(b"<!-- one day later -->");
        }
        match store.put_page_if_changed(&page)? {
            Put::Unchanged(_) => unchanged += 1,
            Put::Stored(_) => stored += 1,
        }
    }
    store.sync()?;
    println!("{unchanged} pages are as they were, {stored} have changed");

    let url = urls.first().ok_or("the store is empty")?;
    for visit in store.history(url)? {
        println!("{}\t{}\t{} bytes", String::from_utf8_lossy(url), visit.page.fetched_at_ms, visit.body_bytes);
    }
    store.close()?;
    Ok(())
}
