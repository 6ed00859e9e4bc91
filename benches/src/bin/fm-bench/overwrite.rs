//! `overwrite`: every page of a store put again and again at full speed: space and write amplification, and how long puts and
//! gets take meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use filemap_benches::device::directory_bytes;
use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use filemap_benches::process::device_written_bytes;
use filemap_benches::report::{Bar, Report};
use filemap_benches::source::Source;
use filemap_core::{Record, Store};
use hdrhistogram::Histogram;

use crate::PutArgs;
use crate::load;
use crate::store::{self, Log, StoreArgs};

/// Arguments of `fm-bench overwrite`.
#[derive(Args)]
pub struct OverwriteArgs {
    /// The store to create
    dir: PathBuf,
    /// How often every page is put again
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// The order in which they are
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,
    /// Bound on space amplification
    #[arg(long, default_value_t = 1.25)]
    bound: f64,
    /// Size of a segment in MiB
    #[arg(long, default_value_t = 1024)]
    segment_mib: u64,
    #[command(flatten)]
    put: PutArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// The order of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// That of the load.
    Load,
    /// Another one in each round.
    Random,
}

/// What is looked at while the rounds run.
#[derive(Default)]
struct Seen {
    /// Greatest length of the value log, in bytes.
    value_bytes: u64,
    /// Greatest difference between what the store says that it takes and what the file system says, in millionths.
    misreported_ppm: u64,
}

pub fn run(args: &OverwriteArgs) -> Outcome<Report> {
    let source = args.put.source()?;
    let plan = args.put.plan(&source, 0);
    let log = Log::new();
    let options = store::options(&args.put, &args.store, &log)
        .keep_versions(Some(1))
        .space_bound(Some(args.bound))
        .segment_bytes(args.segment_mib << 20);
    let store = Store::create(&args.dir, options)?;
    filemap_benches::drive::drive(&source, &store::Loading { store: &store, log: &log }, &plan)?;
    store.checkpoint()?;
    let before = store.stats();
    let own = device_written_bytes()?;
    let pages = plan.pages.end;
    let (puts, gets) = (Mutex::new(Histogram::<u64>::new(3)?), Mutex::new(Histogram::<u64>::new(3)?));
    let (done, body_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen = Mutex::new(Seen::default());
    let start = Instant::now();
    std::thread::scope(|scope| -> Outcome<()> {
        scope.spawn(|| watch(&store, &args.dir, &done, &seen));
        scope.spawn(|| read(&store, &source, pages, &done, &gets));
        let writers: Vec<_> = (0..plan.threads as u64)
            .map(|lane| {
                let (store, source, puts, body_bytes) = (&store, &source, &puts, &body_bytes);
                let threads = plan.threads as u64;
                scope.spawn(move || overwrite(args, store, source, pages, (lane, threads), puts, body_bytes))
            })
            .collect();
        let ends: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::Release);
        for end in ends {
            end.map_err(|_| "a writer panicked")??;
        }
        Ok(())
    })?;
    let elapsed = start.elapsed();
    let stats = store.stats();
    let appended = stats.appended_bytes - before.appended_bytes;
    let seen = seen.into_inner().expect("no watcher panicked");
    let mut report = Report::default();
    let order = if args.order == Order::Load { "load" } else { "random" };
    report.section(format!("{} rounds over {pages} pages in {order} order, bound {}", args.rounds, args.bound));
    report.number("time", elapsed.as_secs_f64(), "s");
    report.number("puts", (args.rounds * pages) as f64 / elapsed.as_secs_f64(), "pages/s");
    report.number("live", stats.live_bytes as f64 / 1e9, "GB");
    // What lives does not change but for what chance makes of the bodies' sizes.
    let live = before.live_bytes.max(stats.live_bytes) as f64;
    report.number("greatest space amplification", seen.value_bytes as f64 / live, "");
    let segment = (args.segment_mib << 20) as f64;
    let over = (seen.value_bytes as f64 - args.bound * live) / segment;
    report.against("beyond the bound, at most", over, "segments", Bar::AtMost(1.0));
    let moved = (stats.compaction_copied_bytes - before.compaction_copied_bytes) as f64;
    let limit = if args.order == Order::Load { 1.1 } else { 2.5 };
    let amplification = (appended as f64 + moved) / appended as f64;
    report.against("write amplification of the value log", amplification, "", Bar::AtMost(limit));
    let written = (device_written_bytes()? - own) as f64;
    report.number("written by this process, by what was put", written / appended as f64, "");
    report.number("space misreported, at most", seen.misreported_ppm as f64 / 1e4, "%");
    report.latencies("put", &puts.into_inner().expect("no writer panicked"));
    report.latencies("get", &gets.into_inner().expect("no reader panicked"));
    let start = Instant::now();
    let freed = store.compact(false)?;
    report.number("then compacted wholly", start.elapsed().as_secs_f64(), "s");
    report.number("space amplification then", store.stats().space_amplification_permille as f64 / 1e3, "");
    report.number("given back", (freed.removed_bytes - freed.copied_bytes.min(freed.removed_bytes)) as f64 / 1e9, "GB");
    load::engine(&mut report, &stats);
    store.close()?;
    Ok(report)
}

/// One writer's share of all rounds.
fn overwrite(
    args: &OverwriteArgs,
    store: &Store,
    source: &Source,
    pages: u64,
    (lane, lanes): (u64, u64),
    puts: &Mutex<Histogram<u64>>,
    body_bytes: &AtomicU64,
) -> Outcome<()> {
    let mut latency = Histogram::<u64>::new(3)?;
    let (mut page, mut url) = (Page::default(), Vec::new());
    for round in 1..=args.rounds {
        let mut order: Vec<u64> = (0..pages).filter(|n| n % lanes == lane).collect();
        if args.order == Order::Random {
            fastrand::Rng::with_seed(round << 8 | lane).shuffle(&mut order);
        }
        for number in order {
            source.url(number, &mut url);
            source.page(round * pages + number, &mut page);
            let start = Instant::now();
            store.put(&Record::new(&url, &page.body).time(page.time_ms.max(0) + round as i64))?;
            latency.record(start.elapsed().as_nanos() as u64)?;
            body_bytes.fetch_add(page.body.len() as u64, Ordering::Relaxed);
        }
    }
    puts.lock().expect("no writer panicked").add(&latency)?;
    Ok(())
}

/// Gets pages at random until the writers are done.
fn read(store: &Store, source: &Source, pages: u64, done: &AtomicBool, gets: &Mutex<Histogram<u64>>) {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut gets = gets.lock().expect("the only reader");
    let (mut url, mut body) = (Vec::new(), Vec::new());
    while !done.load(Ordering::Acquire) {
        source.url(rng.u64(..pages), &mut url);
        let start = Instant::now();
        let found = store.get_into(&url, &mut body).expect("a get during compaction").is_some();
        let _ = gets.record(start.elapsed().as_nanos() as u64);
        assert!(found, "a page was lost");
        // Not all of a core: the writers are what is measured.
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Looks at the files until the writers are done.
fn watch(store: &Store, dir: &Path, done: &AtomicBool, seen: &Mutex<Seen>) {
    while !done.load(Ordering::Acquire) {
        let value_bytes = store::log_bytes(dir, "value").unwrap_or(0);
        // The two looks are not one, and files come and go between them: a misreport is what stays.
        let off = (0..3).map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let there = directory_bytes(dir).map(|b| b.1).unwrap_or(0);
            store.stats().disk_bytes.abs_diff(there) * 1_000_000 / there.max(1)
        });
        let off = off.min().unwrap_or(0);
        let mut seen = seen.lock().expect("the only watcher");
        seen.value_bytes = seen.value_bytes.max(value_bytes);
        seen.misreported_ppm = seen.misreported_ppm.max(off);
        drop(seen);
        std::thread::sleep(Duration::from_millis(40));
    }
}
