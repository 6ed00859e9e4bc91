//! `load`: loads pages into a store: latencies, growth, memory, space, write amplification.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use filemap::PageStore;
use filemap::store::page_options;
use filemap_benches::device::{Device, directory_bytes};
use filemap_benches::drive::{Driven, Outcome, Plan, drive};
use filemap_benches::process::{MemoryWatch, anonymous_bytes, device_written_bytes};
use filemap_benches::report::{Bar, Report};
use filemap_benches::source::Source;
use filemap_core::{Options, StatValue, Store};

use crate::bare;
use crate::puts::PutArgs;
use crate::store::{self, GrowthWatch, IndexSample, Loading, LoadingPages, Log, StoreArgs};

/// Arguments of `fm-bench load`.
#[derive(Args)]
pub struct LoadArgs {
    /// The store to create, or with --from to continue
    dir: PathBuf,
    /// Number of the first page; the store exists and holds those before it
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Estimate at the end what recompression at this level would save
    #[arg(long)]
    try_level: Option<i32>,
    /// Make a store of pages, as fm-serve and `ahead` read it; without this only the engine's
    /// keys and bodies
    #[arg(long)]
    as_pages: bool,
    #[command(flatten)]
    put: PutArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// A load and what surrounds it.
pub struct Load {
    pub driven: Driven,
    empty_bytes: Option<u64>,
    /// From the first put to the end of the last sync, in s.
    pub durable_s: f64,
    close_s: f64,
    memory_peak_bytes: u64,
    memory_before_bytes: u64,
    samples: Vec<IndexSample>,
    stats: filemap_core::Stats,
    slowed_down: u64,
}

/// Contents of a store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Keys and bodies.
    Records,
    /// Pages by URL, with status and headers.
    Pages,
}

/// Loads the plan's pages into the store at `dir` and closes it.
pub fn measure(dir: &Path, put: &PutArgs, args: &StoreArgs, form: Form, source: &Source, plan: &Plan) -> Outcome<Load> {
    let log = Log::new();
    let memory_before_bytes = anonymous_bytes()?;
    let memory = MemoryWatch::start()?;
    let options = store::options(put, args, &log);
    let is_new = plan.pages.start == 0;
    let pages = match form {
        Form::Records => None,
        Form::Pages if is_new => Some(PageStore::create(dir, options.clone())?),
        Form::Pages => Some(PageStore::open(dir, options.clone())?),
    };
    let store = match &pages {
        Some(pages) => pages.engine().clone(),
        None if is_new => Store::create(dir, options)?,
        None => Store::open(dir, options)?,
    };
    let empty_bytes = if is_new { Some(directory_bytes(dir)?.1) } else { None };
    let growth = GrowthWatch::start(&store);
    let start = Instant::now();
    let plain = Loading { store: &store, log: &log };
    let driven = match &pages {
        Some(pages) => drive(source, &LoadingPages { pages, plain }, plan)?,
        None => drive(source, &plain, plan)?,
    };
    store.sync()?;
    let durable_s = start.elapsed().as_secs_f64();
    let samples = growth.samples();
    drop(growth);
    let stats = store.stats();
    let closing = Instant::now();
    store.close()?;
    Ok(Load {
        driven,
        empty_bytes,
        durable_s,
        close_s: closing.elapsed().as_secs_f64(),
        memory_peak_bytes: memory.peak_bytes(),
        memory_before_bytes,
        samples,
        stats,
        slowed_down: log.count("slow"),
    })
}

impl LoadArgs {
    fn form(&self) -> Form {
        if self.as_pages { Form::Pages } else { Form::Records }
    }
}

pub fn run(args: &LoadArgs) -> Outcome<Report> {
    let source = args.put.source()?;
    let plan = args.put.plan(&source, args.from);
    let device = Device::under(&args.dir)?;
    let before_bytes = if args.from == 0 { 0 } else { store::log_bytes(&args.dir, "value")? };
    device.settle()?;
    let (before, own) = (device.traffic()?, device_written_bytes()?);
    let load = measure(&args.dir, &args.put, &args.store, args.form(), &source, &plan)?;
    device.settle()?;
    let written = device.traffic()?.since(before).written_bytes;
    let log_bytes = store::log_bytes(&args.dir, "value")? - before_bytes;
    let mut report = Report::default();
    report.section(format!("load, {}, {} threads, level {}", source.describe(), plan.threads, args.put.level));
    bare::account(&mut report, &load.driven, &plan);
    report.number("throughput until durable", load.driven.body_bytes as f64 / 1e6 / load.durable_s, "MB/s");
    report.number("close", load.close_s * 1e3, "ms");
    report.count("times puts were slowed down", load.slowed_down);
    space(&mut report, args, &load, &plan)?;
    report.section("device");
    let limit = if args.put.corpus.is_some() { 1.1 } else { 1.3 };
    report.number("value log", log_bytes as f64 / 1e9, "GB");
    report.number("written", written as f64 / 1e9, "GB");
    report.against("write amplification", written as f64 / log_bytes as f64, "", Bar::AtMost(limit));
    let own_written = device_written_bytes()? - own;
    report.number("the same, of this process alone", own_written as f64 / log_bytes as f64, "");
    engine(&mut report, &load.stats);
    packing(&mut report, args, &load.stats)?;
    Ok(report)
}

fn space(report: &mut Report, args: &LoadArgs, load: &Load, plan: &Plan) -> Outcome<()> {
    const MIB: f64 = (1 << 20) as f64;
    report.section("memory and space");
    // The corpus is in this program's memory, not in the store's.
    report.number("anonymous memory before", load.memory_before_bytes as f64 / MIB, "MiB");
    let own = load.memory_peak_bytes - load.memory_before_bytes;
    report.against("anonymous memory, peak less before", own as f64 / MIB, "MiB", Bar::AtMost(256.0));
    if let Some(bytes) = load.empty_bytes {
        report.against("empty store", bytes as f64 / MIB, "MiB", Bar::AtMost(1.0));
    }
    let (apparent, allocated) = directory_bytes(&args.dir)?;
    report.number("store, length of files", apparent as f64 / 1e9, "GB");
    report.number("store, allocated", allocated as f64 / 1e9, "GB");
    report.number("raw by stored", load.driven.body_bytes as f64 / allocated as f64, "x");
    let keys = plan.pages.end as f64;
    report.number("key log per key", store::log_bytes(&args.dir, "key")? as f64 / keys, "B");
    let index = store::file_bytes(&args.dir, "address.idx") as f64;
    report.number("address.idx per key at the end", index / keys, "B");
    let from = plan.pages.end / 10;
    if let Some(mean) = store::mean_bytes_per_key(&load.samples, from, plan.pages.end) {
        report.against("address.idx per key, mean of growth by ten", mean, "B", Bar::AtMost(28.0));
    }
    let curve = load.samples.iter().filter(|sample| sample.keys >= from);
    let curve: Vec<String> =
        curve.map(|sample| format!("{}: {:.1}", sample.keys, sample.index_bytes as f64 / sample.keys as f64)).collect();
    let step = curve.len().div_ceil(12).max(1);
    report.note("keys: bytes per key", curve.iter().step_by(step).cloned().collect::<Vec<_>>());
    Ok(())
}

/// Compression of the bodies, dictionaries used, and the estimate of recompression.
fn packing(report: &mut Report, args: &LoadArgs, stats: &filemap_core::Stats) -> Outcome<()> {
    report.section("compression");
    let raw = stats.body_bytes as f64;
    report.number("payload by body", stats.payload_bytes as f64 / raw, "");
    report.number("payload", stats.payload_bytes as f64 / 1e6, "MB");
    let options = match args.form() {
        Form::Records => Options::new().dictionary_group(store::site),
        Form::Pages => page_options(Options::new()),
    };
    let store = Store::open(&args.dir, options)?;
    for d in store.dictionaries() {
        let facts = format!(
            "{} KiB and {} KiB for metas, of {} pages: {:.4} of bodies, {:.4} of metas{}",
            d.body_bytes >> 10,
            d.meta_bytes >> 10,
            d.pages,
            d.body_ratio,
            d.meta_ratio,
            if d.is_current { ", current" } else { "" }
        );
        report.note(format!("dictionary {} {}", d.id, String::from_utf8_lossy(&d.group)), facts);
    }
    if let Some(level) = args.try_level {
        for trained in [false, true] {
            let start = Instant::now();
            if trained {
                report.count("dictionaries made by train", store.train()?.len() as u64);
                report.number("time of train", start.elapsed().as_secs_f64(), "s");
            }
            let start = Instant::now();
            let e = store.try_recompression(level)?;
            let name = if trained { "then recompressed" } else { "recompressed" };
            report.number(format!("{name} at {level}: payload"), e.recompressed_payload_bytes as f64 / 1e6, "MB");
            report.number(
                format!("{name} at {level}: by before"),
                e.recompressed_payload_bytes as f64 / e.payload_bytes as f64,
                "",
            );
            report.number(
                format!("{name} at {level}: records by before"),
                e.recompressed_stored_bytes as f64 / e.stored_bytes as f64,
                "",
            );
            report.number(
                format!("{name} at {level}: speed"),
                e.body_bytes as f64 / 1e6 / start.elapsed().as_secs_f64(),
                "MB/s",
            );
        }
    }
    store.close()?;
    Ok(())
}

/// The engine's own counters.
pub fn engine(report: &mut Report, stats: &filemap_core::Stats) {
    report.section("the store's counters before close");
    for (name, value, _) in stats.fields() {
        match value {
            StatValue::Counter(number) | StatValue::Gauge(number) => report.count(name, number),
            StatValue::Text(text) => report.note(name, text),
        }
    }
}
