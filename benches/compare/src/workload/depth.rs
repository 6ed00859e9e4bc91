//! `depth`: cold gets with a given number under way: by two callers of `get_ahead` with half the
//! depth each where the engine has it, else by that many threads. Beside FileMap, fio measures the
//! device at that depth.

use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use filemap_benches::random::Random;

use super::{Judge, cold, fio, get_all, in_threads};
use crate::engine::Engine;
use crate::measure::latency::Latencies;
use crate::measure::lines::{Figures, put};
use crate::pages::{Probe, distinct};
use crate::turn::Turn;

const DEPTHS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// All depths, each with cold caches and other pages; again with the index cached, where it has
/// its own files.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    if let Err(error) = turn.drop_caches() {
        return turn.lines.skipped("depth", &error.to_string());
    }
    let mut figures = Figures::new();
    let indexed = turn.kind.is_index_file.map(|is_index| ("indexed", Some(is_index)));
    for (what, cached) in [("depth", None)].into_iter().chain(indexed) {
        for (i, depth) in DEPTHS.into_iter().enumerate() {
            let count = turn.plan.depth_gets.min(turn.pages.count());
            let numbers = distinct(&mut Random::of(turn.plan.seed, 100 + i as u64), turn.pages.count(), count);
            let probes = turn.pages.probes(numbers);
            turn.reopen_cold(cached)?;
            let took = gets(turn, &probes, depth)?;
            put(&mut figures, format!("{what}_{depth}"), count as f64 / took.as_secs_f64());
        }
    }
    turn.lines.result("depth", figures)?;
    if turn.kind.name != "filemap" {
        return Ok(());
    }
    let bytes_a_get = cold::bytes_a_get(turn)?;
    fio::run(turn, &DEPTHS, bytes_a_get)
}

fn gets(turn: &Turn<'_>, probes: &[Probe], depth: usize) -> Outcome<Duration> {
    let (engine, judge) = (turn.engine()?, Judge::new(&turn.lines, "depth"));
    let begun = Instant::now();
    let gets = if turn.kind.can.get_ahead { get_ahead } else { get_all };
    gets(engine, probes, depth, &judge)?;
    let took = begun.elapsed();
    judge.end()?;
    Ok(took)
}

/// Concurrent callers, each with its share of the depth: one a processor of the measured machines.
const CALLERS: usize = 2;

fn get_ahead(engine: &dyn Engine, probes: &[Probe], depth: usize, judge: &Judge<'_>) -> Outcome<Latencies> {
    let callers = CALLERS.min(depth);
    let parts: Vec<&[Probe]> = probes.chunks(probes.len().div_ceil(callers).max(1)).collect();
    in_threads(parts.len(), |caller| {
        let mut session = engine.session()?;
        session.get_ahead(parts[caller], depth / callers, &mut |probe, body| judge.check(probe, body))?;
        Ok(Latencies::new())
    })
}
