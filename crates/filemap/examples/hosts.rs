//! Hosts of a store by how many pages they have, with the bytes of their bodies: read while a
//! crawler writes, without a lock and without a body being expanded.
//!
//! ```text
//! cargo run --release --package filemap --example hosts -- pages.fm
//! ```

use std::collections::HashMap;
use std::error::Error;

use filemap::{Options, PageStore};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: hosts STORE")?;
    let store = PageStore::open_read_only(&path, Options::new())?;
    let mut hosts: HashMap<Vec<u8>, (u64, u64)> = HashMap::new();
    for head in store.heads() {
        // Damage is reported, and does not end the list.
        let head = match head {
            Ok(head) => head,
            Err(e) => {
                eprintln!("hosts: {e}");
                continue;
            }
        };
        let host = urlindex::host(&head.page.url).unwrap_or_default().to_vec();
        let (pages, bytes) = hosts.entry(host).or_default();
        *pages += 1;
        *bytes += head.body_bytes;
    }
    let mut hosts: Vec<_> = hosts.into_iter().collect();
    hosts.sort_by(|a, b| (b.1.0, &a.0).cmp(&(a.1.0, &b.0)));
    for (host, (pages, bytes)) in hosts.iter().take(20) {
        println!("{pages}\t{bytes}\t{}", String::from_utf8_lossy(host));
    }
    Ok(())
}
