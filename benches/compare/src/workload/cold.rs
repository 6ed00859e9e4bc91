//! `cold`: gets of distinct random pages by one thread with nothing in the page cache, and again
//! with only the index there.

use std::time::Instant;

use filemap_benches::drive::Outcome;
use filemap_benches::random::Random;

use super::{Judge, get_all};
use crate::measure::latency::Latencies;
use crate::measure::lines::{Figures, put};
use crate::pages::distinct;
use crate::turn::Turn;

struct Measured {
    latencies: Latencies,
    per_s: f64,
    reads_per_get: Option<f64>,
    bytes_per_get: Option<f64>,
}

/// Both states.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    if let Err(error) = turn.drop_caches() {
        return turn.lines.skipped("cold", &error.to_string());
    }
    let cold = measure(turn, 3, None)?;
    let mut figures = Figures::new();
    put(&mut figures, "per_s", cold.per_s);
    if let (Some(reads), Some(bytes)) = (cold.reads_per_get, cold.bytes_per_get) {
        put(&mut figures, "reads_per_get", reads);
        put(&mut figures, "bytes_per_get", bytes);
    }
    cold.latencies.quantiles(&mut figures, "", &["p50", "p99"]);
    if let Some(is_index) = turn.kind.is_index_file {
        let indexed = measure(turn, 4, Some(is_index))?;
        if let Some(reads) = indexed.reads_per_get {
            put(&mut figures, "index_cached_reads_per_get", reads);
        }
        put(&mut figures, "index_cached_per_s", indexed.per_s);
    }
    turn.lines.result("cold", figures)
}

/// Device bytes of a get with the index cached: the value, and what the kernel reads with it.
pub fn bytes_a_get(turn: &mut Turn<'_>) -> Outcome<Option<f64>> {
    let is_index = turn.kind.is_index_file;
    Ok(measure(turn, 9, is_index)?.bytes_per_get)
}

fn measure(turn: &mut Turn<'_>, seed: u64, warm: Option<fn(&str) -> bool>) -> Outcome<Measured> {
    let count = turn.plan.cold_gets.min(turn.pages.count());
    let numbers = distinct(&mut Random::of(turn.plan.seed, seed), turn.pages.count(), count);
    let probes = turn.pages.probes(numbers);
    turn.reopen_cold(warm)?;
    let before = turn.traffic()?;
    let judge = Judge::new(&turn.lines, "cold");
    let begun = Instant::now();
    let latencies = get_all(turn.engine()?, &probes, 1, &judge)?;
    let took = begun.elapsed();
    let read = before.zip(turn.traffic()?).map(|(before, now)| now.since(before));
    judge.end()?;
    let gets = count as f64;
    Ok(Measured {
        latencies,
        per_s: gets / took.as_secs_f64(),
        reads_per_get: read.map(|read| read.reads as f64 / gets),
        bytes_per_get: read.map(|read| read.read_bytes as f64 / gets),
    })
}
