//! `overwrite`: every page of a store is put again and again at full speed: space, write
//! amplification, latencies of puts and gets meanwhile.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use filemap_benches::bare::BareLoop;
use filemap_benches::device::directory_bytes;
use filemap_benches::drive::{Outcome, Plan, drive};
use filemap_benches::generate::Page;
use filemap_benches::process::device_written_bytes;
use filemap_benches::report::{Bar, Report};
use filemap_benches::source::Source;
use filemap_core::{Record, Stats, Store};
use hdrhistogram::Histogram;

use crate::load;
use crate::puts::PutArgs;
use crate::store::{self, Log, StoreArgs};

/// Bytes of a page of address.idx.
const INDEX_PAGE_BYTES: u64 = 4096;

/// Arguments of `fm-bench overwrite`.
#[derive(Args)]
pub struct OverwriteArgs {
    /// The store to create
    dir: PathBuf,
    /// Rounds: how often every page is put again
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Order of the puts in a round
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

/// Watched while the rounds run.
#[derive(Default)]
struct Seen {
    /// Greatest length of the value log, in bytes.
    value_bytes: u64,
    /// Greatest difference between the store's own count of its space and the file system's, in
    /// parts per million.
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
    drive(&source, &store::Loading { store: &store, log: &log }, &plan)?;
    store.checkpoint()?;
    let before = store.stats();
    let own = device_written_bytes()?;
    let rounds = rounds(args, &store, &source, &plan)?;
    let stats = store.stats();
    let written = device_written_bytes()? - own;
    let mut report = Report::default();
    let pages = plan.pages.end;
    let order = if args.order == Order::Load { "load" } else { "random" };
    report.section(format!("{} rounds over {pages} pages in {order} order, bound {}", args.rounds, args.bound));
    report.number("time", rounds.elapsed.as_secs_f64(), "s");
    report.number("puts", (args.rounds * pages) as f64 / rounds.elapsed.as_secs_f64(), "pages/s");
    space(args, &mut report, (&before, &stats), &rounds.seen, written);
    report.latencies("put", &rounds.puts);
    report.latencies("get", &rounds.gets);
    let start = Instant::now();
    let freed = store.compact()?;
    report.number("then compacted wholly", start.elapsed().as_secs_f64(), "s");
    report.number("space amplification then", store.stats().space_amplification_permille as f64 / 1e3, "");
    report.number("given back", (freed.removed_bytes - freed.copied_bytes.min(freed.removed_bytes)) as f64 / 1e9, "GB");
    load::engine(&mut report, &stats);
    store.close()?;
    let (puts, gets) = bare(args, &source, &plan)?;
    report
        .section("the bare loop: the pages of the load compressed and appended to one file, read at random meanwhile");
    report.latencies("put", &puts);
    report.latencies("get", &gets);
    report.section("the store's beside the bare loop's, or 2.5 ms if that is more");
    let by = |ours: &Histogram<u64>, theirs: &Histogram<u64>| {
        ours.value_at_quantile(0.9999) as f64 / theirs.value_at_quantile(0.9999).max(2_500_000) as f64
    };
    report.against("put p99.99", by(&rounds.puts, &puts), "x", Bar::AtMost(2.0));
    report.against("get p99.99", by(&rounds.gets, &gets), "x", Bar::AtMost(2.0));
    Ok(report)
}

/// Results of all rounds.
struct Rounds {
    elapsed: Duration,
    seen: Seen,
    puts: Histogram<u64>,
    gets: Histogram<u64>,
}

/// All rounds: writers, a reader, and a watcher of the files.
fn rounds(args: &OverwriteArgs, store: &Store, source: &Source, plan: &Plan) -> Outcome<Rounds> {
    let (pages, threads) = (plan.pages.end, plan.threads as u64);
    let (puts, gets) = (Mutex::new(Histogram::<u64>::new(3)?), Mutex::new(Histogram::<u64>::new(3)?));
    let done = AtomicBool::new(false);
    let seen = Mutex::new(Seen::default());
    let start = Instant::now();
    std::thread::scope(|scope| -> Outcome<()> {
        scope.spawn(|| watch(store, &args.dir, &done, &seen));
        scope.spawn(|| read(store, source, pages, &done, &gets));
        let puts = &puts;
        let start = |lane| scope.spawn(move || overwrite(args, store, source, pages, (lane, threads), puts));
        let writers: Vec<_> = (0..threads).map(start).collect();
        let ends: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::Release);
        for end in ends {
            end.map_err(|_| "a writer panicked")??;
        }
        Ok(())
    })?;
    Ok(Rounds {
        elapsed: start.elapsed(),
        seen: seen.into_inner().expect("no watcher panicked"),
        puts: puts.into_inner().expect("no writer panicked"),
        gets: gets.into_inner().expect("no reader panicked"),
    })
}

/// Space and written bytes of the rounds.
fn space(args: &OverwriteArgs, report: &mut Report, (before, after): (&Stats, &Stats), seen: &Seen, written: u64) {
    report.number("live", after.live_bytes as f64 / 1e9, "GB");
    // Live bytes stay the same, apart from chance in the sizes of bodies.
    let live = before.live_bytes.max(after.live_bytes) as f64;
    report.number("greatest space amplification", seen.value_bytes as f64 / live, "");
    let over = (seen.value_bytes as f64 - args.bound * live) / (args.segment_mib << 20) as f64;
    report.against("beyond the bound, at most", over, "segments", Bar::AtMost(1.0));
    let since = |of: fn(&Stats) -> u64| (of(after) - of(before)) as f64;
    let appended = since(|s| s.appended_bytes);
    let log = appended + since(|s| s.compaction_copied_bytes);
    let limit = if args.order == Order::Load { 1.1 } else { 2.5 };
    report.against("write amplification of the value log", log / appended, "", Bar::AtMost(limit));
    let beside = since(|s| s.key_bytes_written) + INDEX_PAGE_BYTES as f64 * since(|s| s.index_pages_written);
    report.number("write amplification with keys and index", (log + beside) / appended, "");
    report.number("dirtied by this process, by what was put", written as f64 / appended, "");
    report.against("space misreported, at most", seen.misreported_ppm as f64 / 1e4, "%", Bar::AtMost(1.0));
}

/// Latencies of puts and gets of the same pages without a store: the bare loop's.
fn bare(args: &OverwriteArgs, source: &Source, plan: &Plan) -> Outcome<(Histogram<u64>, Histogram<u64>)> {
    let path = args.dir.with_extension("bare");
    let bare = BareLoop::create(&path, args.put.level, args.put.durability)?;
    let file = std::fs::File::open(&path)?;
    let done = AtomicBool::new(false);
    let (puts, gets) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_bare(&file, &done));
        let driven = drive(source, &bare, plan);
        done.store(true, Ordering::Release);
        (driven, reader.join())
    });
    bare.finish()?;
    std::fs::remove_file(&path)?;
    Ok((puts?.latency, gets.map_err(|_| "the reader panicked")??))
}

/// Reads page-sized pieces at random offsets of a file that is appended to.
fn read_bare(file: &std::fs::File, done: &AtomicBool) -> Outcome<Histogram<u64>> {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut gets = Histogram::<u64>::new(3)?;
    let mut page = [0; 2048];
    while !done.load(Ordering::Acquire) {
        let at = rng.u64(..file.metadata()?.len().max(1));
        let start = Instant::now();
        let _ = file.read_at(&mut page, at)?;
        gets.record(start.elapsed().as_nanos() as u64)?;
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(gets)
}

/// One writer's share of all rounds.
fn overwrite(
    args: &OverwriteArgs,
    store: &Store,
    source: &Source,
    pages: u64,
    (lane, lanes): (u64, u64),
    puts: &Mutex<Histogram<u64>>,
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
        // Leave most of the core to the writers, which are measured.
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Watches the files until the writers are done.
fn watch(store: &Store, dir: &Path, done: &AtomicBool, seen: &Mutex<Seen>) {
    while !done.load(Ordering::Acquire) {
        let value_bytes = store::log_bytes(dir, "value").unwrap_or(0);
        // Files come and go between the two readings: only a lasting difference is an error.
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
