//! `compare`: load and bare loop in turn, so that the ratio is of one run.

use std::path::PathBuf;

use clap::Args;
use filemap_benches::device::Device;
use filemap_benches::drive::{Driven, Outcome};
use filemap_benches::report::{Bar, Report, median};

use crate::puts::PutArgs;
use crate::store::StoreArgs;
use crate::{bare, load};

/// Arguments of `fm-bench compare`.
#[derive(Args)]
pub struct CompareArgs {
    /// Directory to work in; what the runs write there is removed
    dir: PathBuf,
    /// Runs of each
    #[arg(long, default_value_t = 3)]
    runs: usize,
    #[command(flatten)]
    put: PutArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// One run of either.
struct Timed {
    driven: Driven,
    durable_s: f64,
}

impl Timed {
    fn percentile_us(&self, percentile: f64) -> f64 {
        self.driven.latency.value_at_percentile(percentile) as f64 / 1e3
    }
}

type Figure = fn(&Timed) -> f64;

/// The figures compared: name, unit, target of the ratio, and the function that reads it from a
/// run.
const FIGURES: [(&str, &str, Option<Bar>, Figure); 7] = [
    ("throughput", "MB/s", Some(Bar::AtLeast(0.9)), |run| run.driven.megabytes_per_s()),
    ("throughput until durable", "MB/s", None, |run| run.driven.body_bytes as f64 / 1e6 / run.durable_s),
    ("put p50", "us", None, |run| run.percentile_us(50.0)),
    ("put p99", "us", None, |run| run.percentile_us(99.0)),
    ("put p99.9", "us", None, |run| run.percentile_us(99.9)),
    ("put p99.99", "us", None, |run| run.percentile_us(99.99)),
    ("put max", "us", Some(Bar::AtMost(1.0)), |run| run.driven.latency.max() as f64 / 1e3),
];

pub fn run(args: &CompareArgs) -> Outcome<Report> {
    let source = args.put.source()?;
    let plan = args.put.plan(&source, 0);
    let device = Device::of(&args.dir)?;
    let (file, dir) = (args.dir.join("bare.dat"), args.dir.join("compare.fm"));
    let (mut bares, mut stores) = (Vec::new(), Vec::new());
    for run in 0..args.runs {
        device.settle()?;
        let bare = bare::measure(&file, &args.put, &source, &plan)?;
        device.settle()?;
        let load = load::measure(&dir, &args.put, &args.store, load::Form::Records, &source, &plan)?;
        std::fs::remove_dir_all(&dir)?;
        let (bare_rate, load_rate) = (bare.driven.megabytes_per_s(), load.driven.megabytes_per_s());
        eprintln!("run {}: bare {bare_rate:.1} MB/s, store {load_rate:.1} MB/s", run + 1);
        bares.push(Timed { driven: bare.driven, durable_s: bare.durable_s });
        stores.push(Timed { driven: load.driven, durable_s: load.durable_s });
    }
    let mut report = Report::default();
    report.section(format!(
        "store by bare loop, {}, {} threads, level {}, medians of {} runs each",
        source.describe(),
        plan.threads,
        args.put.level,
        args.runs
    ));
    for (name, unit, bar, figure) in FIGURES {
        let of = |runs: &[Timed]| runs.iter().map(figure).collect::<Vec<_>>();
        let (bare, store) = (of(&bares), of(&stores));
        report.number(format!("{name}: bare loop"), median(&bare), unit);
        report.number(format!("{name}: store"), median(&store), unit);
        // Neighbouring runs see the same machine: the ratio is taken within each pair.
        let ratios: Vec<f64> = store.iter().zip(&bare).map(|(store, bare)| store / bare).collect();
        let label = format!("{name}: store by bare loop");
        match bar {
            Some(bar) => report.against(label, median(&ratios), "", bar),
            None => report.number(label, median(&ratios), ""),
        }
    }
    Ok(report)
}
