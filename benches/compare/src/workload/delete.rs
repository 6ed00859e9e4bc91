//! `delete`: half of the pages, drawn at random, are deleted and their space is reclaimed.

use std::time::Instant;

use filemap_benches::drive::Outcome;
use filemap_benches::random::Random;

use super::{Judge, get_all};
use crate::engine::After;
use crate::measure::lines::{Figures, put};
use crate::measure::usage::disk_bytes;
use crate::pages::distinct;
use crate::turn::Turn;

const SAMPLE: u64 = 2000;

/// Deletes, gives back and checks a sample of both halves.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    if !turn.kind.can.delete {
        return turn.lines.skipped("delete", "it gives no space back");
    }
    let disk_before = disk_bytes(&turn.dir)?;
    let mut order: Vec<u32> = (0..turn.pages.count() as u32).collect();
    Random::of(turn.plan.seed, 7).shuffle(&mut order);
    let half = &order[..order.len() / 2];
    let begun = Instant::now();
    delete(turn, half)?;
    turn.engine_mut()?.reclaim(After::Delete)?;
    turn.engine()?.sync()?;
    let took = begun.elapsed();
    for number in half {
        turn.pages.forget(u64::from(*number));
    }
    turn.settle()?;
    let mut figures = Figures::new();
    put(&mut figures, "seconds", took.as_secs_f64());
    put(&mut figures, "disk_before_bytes", disk_before as f64);
    put(&mut figures, "disk_after_bytes", disk_bytes(&turn.dir)? as f64);
    turn.lines.result("delete", figures)?;

    let numbers = distinct(&mut Random::of(turn.plan.seed, 8), turn.pages.count(), SAMPLE);
    let judge = Judge::new(&turn.lines, "delete");
    get_all(turn.engine()?, &turn.pages.probes(numbers), turn.plan.threads, &judge)?;
    judge.end()?;
    Ok(())
}

fn delete(turn: &Turn<'_>, numbers: &[u32]) -> Outcome<()> {
    let mut session = turn.engine()?.session()?;
    let mut urls = vec![Vec::new(); turn.kind.batch];
    for batch in numbers.chunks(turn.kind.batch) {
        for (number, url) in batch.iter().zip(&mut urls) {
            turn.pages.url(u64::from(*number), url);
        }
        let keys: Vec<&[u8]> = urls[..batch.len()].iter().map(Vec::as_slice).collect();
        session.delete(&keys)?;
    }
    Ok(())
}
