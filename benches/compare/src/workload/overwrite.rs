//! `overwrite`: every page is put three more times with other bodies, each time in another random
//! order; then space is reclaimed the way the engine's users do. The store is synced every second;
//! written bytes are the device's until everything is durable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use filemap_benches::random::Random;

use super::{Judge, get_all, in_threads, syncing};
use crate::engine::After;
use crate::engine::codec::Codec;
use crate::measure::latency::Latencies;
use crate::measure::lines::{Figures, put};
use crate::measure::usage::disk_bytes;
use crate::pages::distinct;
use crate::turn::Turn;

const TIMES: u64 = 3;
const SAMPLE: u64 = 2000;

/// Overwrites, compacts and checks a sample.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    if !turn.kind.can.update || !turn.kind.can.delete {
        return turn.lines.skipped("overwrite", "it gives no space back");
    }
    let stored_before = turn.engine()?.facts()?.stored_bytes.unwrap_or(0);
    let before = turn.traffic()?;
    let begun = Instant::now();
    syncing(turn.engine()?, || (0..TIMES).try_for_each(|time| overwrite(turn, time)))?;
    turn.engine()?.sync()?;
    let puts_took = begun.elapsed();
    let stored = turn.engine()?.facts()?.stored_bytes.map(|bytes| bytes - stored_before);
    turn.engine_mut()?.reclaim(After::Overwrite)?;
    turn.engine()?.sync()?;
    let took = begun.elapsed();
    let written = turn.written_since(before)?;
    let put_bytes = match stored {
        Some(bytes) => bytes,
        None => estimate(turn)? * TIMES,
    };

    let mut figures = Figures::new();
    put(&mut figures, "seconds", took.as_secs_f64());
    put(&mut figures, "puts_per_s", (turn.pages.count() * TIMES) as f64 / puts_took.as_secs_f64());
    if let Some(written) = written {
        put(&mut figures, "written_bytes", written as f64);
        put(&mut figures, "write_amplification", written as f64 / put_bytes as f64);
    }
    put(&mut figures, "put_bytes", put_bytes as f64);
    put(&mut figures, "disk_bytes", disk_bytes(&turn.dir)? as f64);
    let live = turn.engine()?.facts()?.live_bytes.unwrap_or(put_bytes / TIMES);
    put(&mut figures, "live_bytes", live as f64);
    turn.lines.result("overwrite", figures)?;

    let numbers = distinct(&mut Random::of(turn.plan.seed, 5), turn.pages.count(), SAMPLE);
    let judge = Judge::new(&turn.lines, "overwrite");
    get_all(turn.engine()?, &turn.pages.probes(numbers), turn.plan.threads, &judge)?;
    judge.end()?;
    Ok(())
}

/// Every page once, in its own order.
fn overwrite(turn: &Turn<'_>, time: u64) -> Outcome<()> {
    let (engine, pages) = (turn.engine()?, &turn.pages);
    let mut order: Vec<u32> = (0..pages.count() as u32).collect();
    Random::of(turn.plan.seed, 200 + time).shuffle(&mut order);
    let batch = turn.kind.batch;
    let next = AtomicU64::new(0);
    in_threads(turn.plan.threads, |_| {
        let mut session = engine.session()?;
        let mut made = vec![Page::default(); batch];
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(numbers) = order.chunks(batch).nth(at) else { return Ok(Latencies::new()) };
            for (number, page) in numbers.iter().zip(&mut made) {
                let number = u64::from(*number);
                pages.page(number, pages.begin(number), page);
            }
            session.put_batch(&made[..numbers.len()])?;
            for number in numbers {
                let (_, version) = pages.versions(u64::from(*number));
                pages.finish(u64::from(*number), version);
            }
        }
    })?;
    Ok(())
}

/// Estimates the compressed bytes of all bodies from a sample, for engines that do not report
/// them.
fn estimate(turn: &Turn<'_>) -> Outcome<u64> {
    let mut codec = Codec::new(turn.plan.level)?;
    let mut page = Page::default();
    let numbers = distinct(&mut Random::of(turn.plan.seed, 6), turn.pages.count(), SAMPLE);
    let sampled = numbers.len() as u64;
    for number in numbers {
        turn.pages.page(number, 1, &mut page);
        codec.compress(&page.body)?;
    }
    Ok(codec.take_stored_bytes() * turn.pages.count() / sampled.max(1))
}
