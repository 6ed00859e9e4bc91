//! `load`: every page once, in the order of a crawl, by all threads, in batches as the engine's
//! documentation advises.
//!
//! The clock runs from the first put until everything is durable, making pages included. In
//! batches, a page's latency is its share of the batch; the maximum is the longest call.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use filemap_benches::random::Random;

use super::{Judge, get_all, in_threads};
use crate::engine::Purpose;
use crate::measure::latency::Latencies;
use crate::measure::lines::{Figures, put};
use crate::measure::usage::{Memory, disk_bytes};
use crate::pages::distinct;
use crate::turn::Turn;

/// Pages that are got and compared after the load.
const SAMPLE: u64 = 2000;

/// Loads, then opens the store for use.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    let before = turn.traffic()?;
    turn.open(Purpose::Load)?;
    let begun = Instant::now();
    let (latencies, longest, raw_bytes) = put_all(turn)?;
    turn.engine()?.sync()?;
    let took = begun.elapsed();
    turn.lines.raw_bytes = raw_bytes;
    let written = turn.written_since(before)?;
    let memory = Memory::now()?.since(turn.baseline);

    let mut figures = Figures::new();
    put(&mut figures, "seconds", took.as_secs_f64());
    put(&mut figures, "mb_per_s", raw_bytes as f64 / 1e6 / took.as_secs_f64());
    put(&mut figures, "pages_per_s", turn.pages.count() as f64 / took.as_secs_f64());
    latencies.quantiles(&mut figures, "put_", &["p50", "p99", "p999", "p9999"]);
    put(&mut figures, "put_max_ms", longest.as_secs_f64() * 1e3);
    if let Some(written) = written {
        put(&mut figures, "written_bytes", written as f64);
    }
    put(&mut figures, "disk_bytes", disk_bytes(&turn.dir)? as f64);
    put(&mut figures, "anonymous_bytes", memory.anonymous_bytes as f64);
    put(&mut figures, "mapped_bytes", memory.mapped_bytes as f64);
    if let Some(bytes) = turn.engine()?.facts()?.value_log_bytes {
        put(&mut figures, "value_log_bytes", bytes as f64);
    }
    turn.lines.result("load", figures)?;
    verify(turn)?;
    turn.reopen(Purpose::Use)
}

fn put_all(turn: &Turn<'_>) -> Outcome<(Latencies, Duration, u64)> {
    let (engine, pages) = (turn.engine()?, &turn.pages);
    let batch = (turn.kind.batch as u64).min(pages.count().div_ceil(turn.plan.threads as u64)).max(1);
    let (next, raw_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let longest = Mutex::new(Duration::ZERO);
    let latencies = in_threads(turn.plan.threads, |_| {
        let mut latencies = Latencies::new();
        let mut session = engine.session()?;
        let mut made = vec![Page::default(); batch as usize];
        let mut longest_own = Duration::ZERO;
        loop {
            let first = next.fetch_add(batch, Ordering::Relaxed);
            if first >= pages.count() {
                break;
            }
            let numbers = first..(first + batch).min(pages.count());
            let share = numbers.end - numbers.start;
            for (number, page) in numbers.clone().zip(&mut made) {
                pages.page(number, pages.begin(number), page);
                raw_bytes.fetch_add(page.body.len() as u64, Ordering::Relaxed);
            }
            let begun = Instant::now();
            session.put_batch(&made[..share as usize])?;
            let took = begun.elapsed();
            longest_own = longest_own.max(took);
            latencies.record(took, share)?;
            numbers.for_each(|number| pages.finish(number, 1));
        }
        let mut longest = longest.lock().expect("no thread panicked with it");
        *longest = longest.max(longest_own);
        Ok(latencies)
    })?;
    Ok((latencies, longest.into_inner().expect("no thread panicked with it"), raw_bytes.into_inner()))
}

fn verify(turn: &Turn<'_>) -> Outcome<()> {
    let numbers = distinct(&mut Random::of(turn.plan.seed, 1), turn.pages.count(), SAMPLE);
    let judge = Judge::new(&turn.lines, "load");
    get_all(turn.engine()?, &turn.pages.probes(numbers), turn.plan.threads, &judge)?;
    judge.end()?;
    Ok(())
}
