//! `order`: keys in order. What they cost a load, beside a store without; how long the first URLs
//! of a host take, cold, warm, and with both memtables full; bytes on disk, written, read.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use filemap::access::Scope;
use filemap::store::page_options;
use filemap::{Options, PageStore};
use filemap_benches::device::drop_caches;
use filemap_benches::drive::Outcome;
use filemap_benches::random::Random;
use filemap_benches::report::{Bar, Report, median};
use filemap_core::{Record, Store};

/// Arguments of `fm-bench order`.
#[derive(Args)]
pub struct OrderArgs {
    /// A directory to create, for two stores
    dir: PathBuf,
    /// Keys
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Bytes of a body
    #[arg(long, default_value_t = 16)]
    body: usize,
    /// Hosts listed in each state
    #[arg(long, default_value_t = 200)]
    lists: u64,
    /// URLs taken of each
    #[arg(long, default_value_t = 100)]
    urls: usize,
    /// Parts of the load, put into both stores in turn
    #[arg(long, default_value_t = 20)]
    parts: u64,
}

/// Hosts: a few have most pages, as in a crawl.
const HOSTS: u64 = 200_000;

fn host(number: u64) -> u64 {
    let unit = Random::of(5, number).unit();
    (HOSTS as f64 * unit * unit * unit * unit) as u64
}

fn url(number: u64) -> String {
    let mut random = Random::of(6, number);
    let (section, name) = (random.below(40), random.next() >> 40);
    format!("https://www.site{}.example/section-{section}/{name:06x}-{number}.html", host(number))
}

fn options() -> Options {
    Options::new().canonicalizer("exact", 1).keep_versions(Some(1)).compression_level(0)
}

pub fn run(args: &OrderArgs) -> Outcome<Report> {
    let mut report = Report::default();
    std::fs::create_dir(&args.dir)?;
    let (ordered, plain) = (args.dir.join("ordered.fm"), args.dir.join("plain.fm"));
    load(args, &mut report, (&ordered, &plain))?;
    sizes(args, &mut report, &ordered)?;
    lists(args, &mut report, &ordered)?;
    full(args, &mut report, &ordered)?;
    Ok(report)
}

/// Puts keys of a range; the time that it took.
fn put(store: &Store, args: &OrderArgs, keys: std::ops::Range<u64>) -> Outcome<Duration> {
    let body = vec![7; args.body];
    let begun = Instant::now();
    for number in keys {
        let url = url(number);
        store.put(&Record::new(url.as_bytes(), &body).time(number as i64))?;
    }
    Ok(begun.elapsed())
}

fn load(args: &OrderArgs, report: &mut Report, (ordered, plain): (&PathBuf, &PathBuf)) -> Outcome<()> {
    let ordered = Store::create(ordered, page_options(options()))?;
    let plain = Store::create(plain, page_options(options().end_key_order()))?;
    let part = args.keys / args.parts;
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for nth in 0..args.parts {
        let mut times = [Duration::ZERO; 2];
        // Each with its checkpoint, so that neither pays for the other's.
        for at in [nth % 2, (nth + 1) % 2] {
            let store = if at == 0 { &ordered } else { &plain };
            let begun = Instant::now();
            put(store, args, nth * part..(nth + 1) * part)?;
            store.checkpoint()?;
            times[at as usize] = begun.elapsed();
        }
        ratios.push(times[1].as_secs_f64() / times[0].as_secs_f64());
        rates.push(part as f64 / times[0].as_secs_f64());
    }
    report.section(format!("load of {} keys, in {} parts in turn", args.keys, args.parts));
    report.number("puts in order", median(&rates), "1/s");
    report.against("rate by that without an order, median", median(&ratios), "", Bar::AtLeast(0.95));
    // What is due is joined in the background.
    let mut before = u64::MAX;
    while std::mem::replace(&mut before, ordered.stats().key_run_bytes_written) != before {
        std::thread::sleep(Duration::from_secs(2));
    }
    let stats = ordered.stats();
    let written = stats.key_run_bytes_written as f64 / stats.key_run_bytes as f64;
    report.against("each key written", written, "times", Bar::AtMost(4.0));
    ordered.close()?;
    Ok(plain.close()?)
}

/// Bytes a key, beside what front-coding in one full sort leaves: a list gives the keys in order.
fn sizes(args: &OrderArgs, report: &mut Report, path: &PathBuf) -> Outcome<()> {
    let store = PageStore::open(path, options())?;
    let (mut last, mut least, mut listed, begun) = (Vec::new(), 0, 0u64, Instant::now());
    for url in store.urls() {
        let url = url?;
        // Hosts are not reversed here, which changes the bytes of few keys.
        let shared = url.iter().zip(&last).take_while(|(a, b)| a == b).count();
        least += url.len() - shared;
        listed += 1;
        last = url;
    }
    let elapsed = begun.elapsed().as_secs_f64();
    if listed != args.keys / args.parts * args.parts {
        return Err(format!("{listed} URLs are listed").into());
    }
    let stats = store.engine().stats();
    let bytes = stats.key_run_bytes as f64 / listed as f64;
    report.section("size");
    report.count("runs", stats.key_runs);
    report.number("on disk a key", bytes, "B");
    report.number("front-coded in one sort", least as f64 / listed as f64, "B");
    report.against("above that", bytes - least as f64 / listed as f64, "B", Bar::AtMost(12.0));
    report.number("all listed", listed as f64 / elapsed / 1e6, "M/s");
    Ok(store.close()?)
}

/// Times of lists of some hosts' first URLs, in ms, and bytes read by bytes of these URLs.
fn first_urls(store: &PageStore, args: &OrderArgs, from: u64) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let (mut times, mut read) = (Vec::new(), Vec::new());
    for nth in from..from + args.lists {
        let name = format!("www.site{}.example", host(nth * 7919));
        let (before, begun) = (store.engine().stats().key_run_bytes_read, Instant::now());
        let urls: Vec<Vec<u8>> = store.urls_of_host(&name).take(args.urls).collect::<Result<_, _>>()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        let printed: usize = urls.iter().map(|url| url.len() + 1).sum();
        let more = (store.engine().stats().key_run_bytes_read - before).saturating_sub(64 << 10);
        read.push(more as f64 / printed as f64);
    }
    Ok((times, read))
}

fn lists(args: &OrderArgs, report: &mut Report, path: &PathBuf) -> Outcome<()> {
    drop_caches()?;
    let store = PageStore::open(path, options())?;
    report.section(format!("the first {} URLs of {} hosts", args.urls, args.lists));
    let (cold, _) = first_urls(&store, args, 0)?;
    report.number("cold: the first of all", cold[0], "ms");
    report.against("cold", median(&cold), "ms", Bar::AtMost(5.0));
    let (warm, read) = first_urls(&store, args, 0)?;
    report.against("warm", median(&warm), "ms", Bar::AtMost(0.2));
    report.against("read a byte printed, beyond 64 KiB", median(&read), "", Bar::AtMost(3.0));
    let mut counts = Vec::new();
    for nth in 0..args.lists {
        let scope = Scope::new().host(format!("www.site{}.example", host(nth * 7919)));
        let begun = Instant::now();
        store.count(&scope)?;
        counts.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    report.number("count of a host, warm", median(&counts), "ms");
    Ok(store.close()?)
}

/// Lists while keys are put so fast that a checkpoint merges one memtable as the next one fills.
fn full(args: &OrderArgs, report: &mut Report, path: &PathBuf) -> Outcome<()> {
    let engine = Store::open(path, page_options(options()))?;
    let store = PageStore::over(engine.clone())?;
    let (mut number, mut times, mut first) = (args.keys, Vec::new(), None);
    while times.len() < args.lists as usize {
        put(&engine, args, number..number + 1000)?;
        number += 1000;
        // Both are in use from the freeze until the checkpoint ends.
        if engine.stats().memtable_bytes < 120 << 20 {
            continue;
        }
        let name = format!("www.site{}.example", host(number));
        let begun = Instant::now();
        store.urls_of_host(&name).take(args.urls).try_for_each(|url| url.map(drop))?;
        let elapsed = begun.elapsed().as_secs_f64() * 1e3;
        match first {
            None => first = Some(elapsed),
            Some(_) => times.push(elapsed),
        }
    }
    report.section("the same, with both memtables full, amid puts");
    report.against("the first", first.unwrap_or_default(), "ms", Bar::AtMost(5.0));
    report.against("then", median(&times), "ms", Bar::AtMost(5.0));
    drop(engine);
    Ok(store.close()?)
}
