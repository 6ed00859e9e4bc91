//! `warm` and `miss`: gets of pages that were all read before, and of URLs that were never put.
//!
//! Of a set of over a million pages, a million random ones are read before and measured: the
//! others would take longer to read cold than everything else here.

use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use filemap_benches::random::Random;
use filemap_benches::report::median;

use super::{Judge, get_all, in_threads};
use crate::measure::lines::{Figures, put};
use crate::measure::usage::Memory;
use crate::pages::distinct;
use crate::turn::Turn;

const READ_BEFORE_MAX: u64 = 1_000_000;
/// Probes that are made at a time, to bound memory.
const PROBES: usize = 50_000;

/// Random gets of pages that are there.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    let mut random = Random::of(turn.plan.seed, 2);
    let chosen = distinct(&mut random, turn.pages.count(), READ_BEFORE_MAX.min(turn.pages.count()));
    let judge = Judge::new(&turn.lines, "warm");
    let engine = turn.engine()?;
    for numbers in chosen.chunks(PROBES) {
        get_all(engine, &turn.pages.probes(numbers.iter().copied()), turn.plan.threads, &judge)?;
    }
    let mut latencies = crate::measure::latency::Latencies::new();
    let mut left = turn.plan.gets;
    while left > 0 {
        let count = left.min(PROBES as u64);
        let numbers = (0..count).map(|_| chosen[random.below(chosen.len() as u64) as usize]);
        let probes = turn.pages.probes(numbers.collect::<Vec<_>>());
        latencies.add(&get_all(engine, &probes, turn.plan.threads, &judge)?)?;
        left -= count;
    }
    judge.end()?;
    let memory = Memory::now()?.since(turn.baseline);
    let mut figures = Figures::new();
    put(&mut figures, "per_s", latencies.per_s(turn.plan.threads));
    latencies.quantiles(&mut figures, "", &["p50", "p99", "p999"]);
    put(&mut figures, "anonymous_bytes", memory.anonymous_bytes as f64);
    put(&mut figures, "mapped_bytes", memory.mapped_bytes as f64);
    turn.lines.result("warm", figures)
}

/// Rounds of `miss`; the median counts: at least this many, and as many as fit into
/// `MISS_TIME`. A round is short, and a busy host doubles times for tenths of a second.
const MISS_ROUNDS: u64 = 5;
const MISS_TIME: Duration = Duration::from_secs(10);

/// Gets absent URLs, each once, by one thread under one clock: reading the clock each time costs
/// as much as some engines take.
pub fn miss(turn: &mut Turn<'_>) -> Outcome<()> {
    let gets = turn.plan.gets;
    let judge = Judge::new(&turn.lines, "miss");
    let engine = turn.engine()?;
    let (start, mut seconds) = (Instant::now(), Vec::new());
    for round in 0.. {
        if round > MISS_ROUNDS && start.elapsed() > MISS_TIME {
            break;
        }
        let absent = turn.pages.absent(round * gets, gets);
        let begun = Instant::now();
        in_threads(1, |_| {
            let mut session = engine.session()?;
            let mut body = Vec::new();
            for key in absent.iter() {
                if session.get_into(key, &mut body)? {
                    judge.wrong(&format!("a URL that was never put was found: {}", String::from_utf8_lossy(key)))?;
                }
            }
            Ok(crate::measure::latency::Latencies::new())
        })?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    // The first round brings the index into the caches.
    let seconds = median(&seconds[1..]);
    judge.end()?;
    let mut figures = Figures::new();
    put(&mut figures, "us", seconds * 1e6 / gets as f64);
    put(&mut figures, "per_s", gets as f64 / seconds);
    turn.lines.result("miss", figures)
}
