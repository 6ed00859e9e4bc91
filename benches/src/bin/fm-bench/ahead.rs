//! `ahead`: random gets of a store of pages by `get_ahead`, nothing cached: the figure that reads
//! over HTTP are measured against.
//!
//! `benches/serving.py --only cold` lets a server answer for the same URLs in the same order.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use filemap::{Options, PageStore};
use filemap_benches::device::drop_caches;
use filemap_benches::drive::Outcome;
use filemap_benches::generate::{Generator, Page};
use filemap_benches::random::Random;
use filemap_benches::report::{Bar, Report};
use xxhash_rust::xxh3::xxh3_64;

/// Arguments of `fm-bench ahead`.
#[derive(Args)]
pub struct AheadArgs {
    /// A store that `load --as-pages` made; it is read only
    store: PathBuf,
    /// Pages of the store
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pages: u64,
    /// Gets
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    gets: u64,
    /// Gets that are ahead, of all threads together
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// Threads that get
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seed of the choice of pages
    #[arg(long, default_value_t = 99)]
    choice: u64,
    /// Seed of the generated pages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the page cache; otherwise it is dropped first, which needs root
    #[arg(long)]
    warm: bool,
    /// Only write the URLs of the gets to this file, one a line
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
}

/// Result of one thread.
#[derive(Default)]
struct Got {
    bytes: u64,
    missing: u64,
    /// Place of each page found, and a hash of its body.
    bodies: Vec<(usize, u64)>,
}

pub fn run(args: &AheadArgs) -> Outcome<Report> {
    let generator = Generator::new(args.seed);
    let mut random = Random::of(args.choice, 0);
    let numbers: Vec<u64> = (0..args.gets).map(|_| random.below(args.pages)).collect();
    let urls: Vec<Vec<u8>> = numbers.iter().map(|number| url(&generator, *number)).collect();
    if let Some(path) = &args.list {
        let mut file = BufWriter::new(File::create(path)?);
        for url in &urls {
            file.write_all(url)?;
            file.write_all(b"\n")?;
        }
        file.flush()?;
        return Ok(Report::default());
    }
    if !args.warm {
        drop_caches()?;
    }
    let store = PageStore::open_read_only(&args.store, Options::new())?;
    let (store, urls, threads) = (&store, &urls, args.threads.max(1));
    let begun = Instant::now();
    let got = std::thread::scope(|scope| {
        let thread = |first| scope.spawn(move || get(store, urls, (first, threads), args.depth / threads));
        let running: Vec<_> = (0..threads).map(thread).collect();
        running.into_iter().map(|one| one.join().map_err(|_| "a thread panicked")?).collect::<Outcome<Vec<Got>>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut report = Report::default();
    report.section("get_ahead");
    report.count("gets", args.gets);
    report.number("gets a second", args.gets as f64 / seconds, "");
    report.number("bodies", got.iter().map(|got| got.bytes).sum::<u64>() as f64 / 1e6 / seconds, "MB/s");
    let missing: u64 = got.iter().map(|got| got.missing).sum();
    report.against("pages missing", missing as f64, "", Bar::AtMost(0.0));
    let wrong = wrong(&generator, &numbers, &got);
    report.against("bodies wrong", wrong as f64, "", Bar::AtMost(0.0));
    Ok(report)
}

fn url(generator: &Generator, number: u64) -> Vec<u8> {
    let mut url = Vec::new();
    generator.url(number, &mut url);
    url
}

/// Gets every `step`th URL, beginning with number `first`.
fn get(store: &PageStore, urls: &[Vec<u8>], (first, step): (usize, usize), depth: usize) -> Outcome<Got> {
    let mut got = Got::default();
    let mine = (first..urls.len()).step_by(step);
    for (at, (_, page)) in mine.clone().zip(store.get_ahead(mine.map(|at| &urls[at]), depth.max(1))) {
        match page? {
            Some(page) => {
                got.bytes += page.body.len() as u64;
                got.bodies.push((at, xxh3_64(&page.body)));
            }
            None => got.missing += 1,
        }
    }
    Ok(got)
}

/// Number of bodies that are not those that the load put.
fn wrong(generator: &Generator, numbers: &[u64], got: &[Got]) -> u64 {
    let mut page = Page::default();
    let mut wrong = 0;
    for (at, hash) in got.iter().flat_map(|got| &got.bodies) {
        generator.page(numbers[*at], &mut page);
        wrong += u64::from(xxh3_64(&page.body) != *hash);
    }
    wrong
}
