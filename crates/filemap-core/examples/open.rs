//! Opens a store as a crawler does after a crash, and prints what recovery found and how long opening took.
//!
//!     cargo run --release -p filemap-core --example open -- pages.fm

use std::time::Instant;

use filemap_core::{Event, Options, Store};

fn main() -> filemap_core::Result<()> {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: open STORE");
        std::process::exit(2);
    };
    let start = Instant::now();
    let options = Options::new().on_event(|event| {
        if let Event::Recovered(report) = event {
            println!("{}", Event::Recovered(report.clone()));
        }
    });
    let store = Store::open(path, options)?;
    println!(
        "open after {:.1} ms, {} keys in the index",
        start.elapsed().as_secs_f64() * 1e3,
        store.stats().indexed_keys
    );
    Ok(())
}
