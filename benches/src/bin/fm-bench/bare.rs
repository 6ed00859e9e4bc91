//! `bare`: the baseline by itself, and the figures that every load prints.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use filemap_benches::bare::BareLoop;
use filemap_benches::device::Device;
use filemap_benches::drive::{Cause, Driven, Outcome, Plan, drive};
use filemap_benches::report::Report;
use filemap_benches::source::Source;

use crate::puts::PutArgs;

/// Arguments of `fm-bench bare`.
#[derive(Args)]
pub struct BareArgs {
    /// The file to write; it is removed afterwards
    file: PathBuf,
    #[command(flatten)]
    put: PutArgs,
}

/// A bare run and what it wrote.
pub struct Bare {
    pub driven: Driven,
    pub stored_bytes: u64,
    /// From the first put to the end of the last sync, in s.
    pub durable_s: f64,
}

/// Puts the plan's pages into `file` and removes it.
pub fn measure(file: &std::path::Path, put: &PutArgs, source: &Source, plan: &Plan) -> Outcome<Bare> {
    let bare = BareLoop::create(file, put.level, put.durability)?;
    let start = Instant::now();
    let driven = drive(source, &bare, plan)?;
    let stored_bytes = bare.finish()?;
    let durable_s = start.elapsed().as_secs_f64();
    std::fs::remove_file(file)?;
    Ok(Bare { driven, stored_bytes, durable_s })
}

pub fn run(args: &BareArgs) -> Outcome<Report> {
    let source = args.put.source()?;
    let plan = args.put.plan(&source, 0);
    let device = Device::under(&args.file)?;
    device.settle()?;
    let before = device.traffic()?;
    let bare = measure(&args.file, &args.put, &source, &plan)?;
    let written = device.traffic()?.since(before).written_bytes;
    let mut report = Report::default();
    report.section(format!("bare loop, {}, {} threads, level {}", source.describe(), plan.threads, args.put.level));
    account(&mut report, &bare.driven, &plan);
    report.number("throughput until durable", bare.driven.body_bytes as f64 / 1e6 / bare.durable_s, "MB/s");
    report.number("compression", bare.driven.body_bytes as f64 / bare.stored_bytes as f64, "x");
    report.number("stored", bare.stored_bytes as f64 / 1e9, "GB");
    report.number("written to the device per stored byte", written as f64 / bare.stored_bytes as f64, "");
    Ok(report)
}

/// Figures of every load.
pub fn account(report: &mut Report, driven: &Driven, plan: &Plan) {
    report.count("pages", driven.pages);
    report.number("body bytes", driven.body_bytes as f64 / 1e9, "GB");
    report.number("time", driven.wall.as_secs_f64(), "s");
    report.number("pages per second", driven.pages as f64 / driven.wall.as_secs_f64(), "");
    report.number("throughput", driven.megabytes_per_s(), "MB/s");
    let marks = driven.pages_per_s(plan.mark_every);
    if marks.len() > 1 {
        let rounded: Vec<u64> = marks.iter().map(|rate| *rate as u64).collect();
        report.note(format!("pages/s in each {} pages", plan.mark_every), rounded);
        report.number("last of them by first", marks[marks.len() - 1] / marks[0], "");
    }
    report.latencies("put", &driven.latency);
    if plan.explain {
        report.latencies("put less waiting for a core", &driven.with_a_core);
        explain(report, driven);
    }
}

/// Reports puts over 1 ms, by cause and by background work in progress.
fn explain(report: &mut Report, driven: &Driven) {
    report.count("puts over 1 ms", driven.slow.len() as u64);
    let causes = [
        (Cause::HeldUp, "held up by growth, a checkpoint or back-pressure"),
        (Cause::Running, "compressing a large page"),
        (Cause::NoCore, "no core was free"),
        (Cause::Blocked, "blocked in a lock or in the kernel"),
    ];
    for (cause, words) in causes {
        for (busy, during) in [(true, ", during a checkpoint"), (false, "")] {
            let of_cause = driven.slow.iter().filter(|put| put.cause() == cause && put.busy == busy);
            let (count, worst) = of_cause.fold((0, 0), |(n, worst), put| (n + 1, put.latency_ns.max(worst)));
            if count > 0 {
                report.note(format!("  {words}{during}"), format!("{count}, worst {:.2} ms", worst as f64 / 1e6));
            }
        }
    }
}
