//! `library`: what crate `filemap` does in this process with a store of pages: the figures that
//! bindings of other languages are measured against.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use filemap::{Options, Page, PageStore};
use filemap_benches::drive::Outcome;
use filemap_benches::report::Report;

/// Arguments of `fm-bench library`.
#[derive(Args)]
pub struct LibraryArgs {
    /// A store of pages; it is read only
    store: PathBuf,
    /// Passes over all pages; each figure is the fastest's
    #[arg(long, default_value_t = 3)]
    passes: u32,
    /// Pages of `get_many` in a call
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Put all pages into a new store here, too
    #[arg(long)]
    put: Option<PathBuf>,
}

/// The seconds of the fastest pass.
fn fastest<E>(passes: u32, mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut best = f64::INFINITY;
    for _ in 0..passes.max(1) {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Reads all pages in each way, and puts them.
pub fn run(args: &LibraryArgs) -> Outcome<Report> {
    let store = PageStore::open_read_only(&args.store, Options::new())?;
    let urls = store.urls().collect::<Result<Vec<_>, _>>()?;
    let mut bytes = 0;
    let get = fastest(args.passes, || {
        bytes = 0;
        for url in &urls {
            bytes += store.get(url)?.map_or(0, |page| page.body.len());
        }
        Ok::<(), filemap::Error>(())
    })?;
    let many = fastest(args.passes, || urls.chunks(args.batch).try_for_each(|some| store.get_many(some).map(|_| ())))?;
    let pages = fastest(args.passes, || store.pages().try_for_each(|page| page.map(|_| ())))?;
    let heads = fastest(args.passes, || store.heads().try_for_each(|head| head.map(|_| ())))?;
    let each = |seconds: f64| seconds * 1e6 / urls.len() as f64;
    let mut report = Report::default();
    report.section("library");
    report.count("count", urls.len() as u64);
    report.number("a page", bytes as f64 / urls.len() as f64, "B");
    for (name, seconds) in [("get", get), ("get_many", many), ("pages", pages), ("heads", heads)] {
        report.number(name, each(seconds), "us");
    }
    if let Some(path) = &args.put {
        let all = store.pages().collect::<Result<Vec<Page>, _>>()?;
        let to = PageStore::create(path, Options::new())?;
        let start = Instant::now();
        for page in &all {
            to.put_page(page)?;
        }
        report.number("put", each(start.elapsed().as_secs_f64()), "us");
        to.close()?;
    }
    Ok(report)
}
