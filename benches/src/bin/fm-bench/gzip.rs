//! `gzip`: the store beside the same store with `gzip -6` per page in place of its own
//! compression: bytes, puts, gets.
//!
//! Invariants: both sides take turns, put the same pages in the same order from as many threads
//! and get the same pages warm; every page read is compared; figures are medians of the rounds.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use filemap_benches::drive::{Outcome, Plan, Sink, drive};
use filemap_benches::generate::Page;
use filemap_benches::random::Random;
use filemap_benches::report::{Bar, Report};
use filemap_benches::source::Source;
use filemap_core::dictionaries::Dictionaries;
use filemap_core::{Record, Store};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use rustix::time::{ClockId, clock_gettime};

use crate::puts::PutArgs;
use crate::store::{self, Loading, Log, StoreArgs};

/// Arguments of `fm-bench gzip`.
#[derive(Args)]
pub struct GzipArgs {
    /// A directory for both stores, which must not exist
    dir: PathBuf,
    /// Random gets of each side in each round
    #[arg(long, default_value_t = 20_000)]
    gets: u64,
    /// Rounds
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    #[command(flatten)]
    put: PutArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// A store that gets gzip members.
struct Gzipped<'a>(&'a Store);

impl Sink for Gzipped<'_> {
    type Lane = ();

    fn lane(&self) -> Outcome<()> {
        Ok(())
    }

    fn put(&self, (): &mut (), page: &Page) -> Outcome<()> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(&page.body)?;
        self.0.put(&Record::new(&page.url, &encoder.finish()?).time(page.time_ms))?;
        Ok(())
    }
}

/// One side of one round.
struct Side {
    put_mbps: f64,
    /// By processor time of all threads, background included: other programs do not count.
    put_cpu_mbps: f64,
    get_mbps: f64,
    payload_bytes: f64,
}

struct Bench<'a> {
    args: &'a GzipArgs,
    source: Source,
    plan: Plan,
}

impl Bench<'_> {
    fn side(&self, dir: &Path, gzipped: bool) -> Outcome<Side> {
        let log = Log::new();
        let mut options = store::options(&self.args.put, &self.args.store, &log);
        if gzipped {
            options = options.compression_level(0).dictionaries(Dictionaries::Off);
        }
        let store = Store::create(dir, options.clone())?;
        let (start, cpu) = (Instant::now(), cpu_s());
        let driven = if gzipped {
            drive(&self.source, &Gzipped(&store), &self.plan)?
        } else {
            drive(&self.source, &Loading { store: &store, log: &log }, &self.plan)?
        };
        let put_mbps = driven.body_bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
        let put_cpu_mbps = driven.body_bytes as f64 / 1e6 / (cpu_s() - cpu);
        let payload_bytes = store.stats().payload_bytes as f64;
        store.close()?;
        let store = Store::open(dir, options)?;
        self.gets(&store, gzipped)?;
        let get_mbps = self.gets(&store, gzipped)?;
        store.close()?;
        std::fs::remove_dir_all(dir)?;
        Ok(Side { put_mbps, put_cpu_mbps, get_mbps, payload_bytes })
    }

    /// MB/s of bodies.
    fn gets(&self, store: &Store, gzipped: bool) -> Outcome<f64> {
        let mut random = Random::of(self.args.put.seed, 7);
        let (mut page, mut body) = (Page::default(), Vec::new());
        let (mut bytes, mut seconds) = (0, 0.0);
        for _ in 0..self.args.gets {
            self.source.page(random.below(self.plan.pages.end), &mut page);
            let start = Instant::now();
            let found = store.get(&page.url)?.ok_or("a page is not there")?;
            body.clear();
            let got = if gzipped {
                GzDecoder::new(&found.body[..]).read_to_end(&mut body)?;
                &body
            } else {
                &found.body
            };
            seconds += start.elapsed().as_secs_f64();
            if *got != page.body {
                return Err("a page came back changed".into());
            }
            bytes += got.len();
        }
        Ok(bytes as f64 / 1e6 / seconds)
    }
}

pub fn run(args: &GzipArgs) -> Outcome<Report> {
    let source = args.put.source()?;
    let plan = args.put.plan(&source, 0);
    let bench = Bench { args, source, plan };
    std::fs::create_dir(&args.dir)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        ours.push(bench.side(&args.dir.join("ours"), false)?);
        theirs.push(bench.side(&args.dir.join("gzip"), true)?);
    }
    std::fs::remove_dir(&args.dir)?;
    let mut report = Report::default();
    report.section(format!("beside gzip -6, {}, level {}", bench.source.describe(), args.put.level));
    let put = (median(&ours, |s| s.put_mbps), median(&theirs, |s| s.put_mbps));
    let get = (median(&ours, |s| s.get_mbps), median(&theirs, |s| s.get_mbps));
    let payload = (median(&ours, |s| s.payload_bytes), median(&theirs, |s| s.payload_bytes));
    report.number("put", put.0, "MB/s");
    report.number("put, gzip", put.1, "MB/s");
    report.against("put by gzip", put.0 / put.1, "x", Bar::AtLeast(2.5));
    let cpu = (median(&ours, |s| s.put_cpu_mbps), median(&theirs, |s| s.put_cpu_mbps));
    report.number("put, by processor time", cpu.0, "MB/s");
    report.number("put, gzip, by processor time", cpu.1, "MB/s");
    report.number("put by gzip, by processor time", cpu.0 / cpu.1, "x");
    report.number("warm get", get.0, "MB/s");
    report.number("warm get, gzip", get.1, "MB/s");
    report.against("warm get by gzip", get.0 / get.1, "x", Bar::AtLeast(1.5));
    report.number("payload", payload.0 / 1e6, "MB");
    report.number("payload, gzip", payload.1 / 1e6, "MB");
    report.against("payload by gzip", payload.0 / payload.1, "", Bar::AtMost(0.78));
    Ok(report)
}

/// Processor time of this process so far, in s.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn median(sides: &[Side], of: impl Fn(&Side) -> f64) -> f64 {
    let mut all: Vec<f64> = sides.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
