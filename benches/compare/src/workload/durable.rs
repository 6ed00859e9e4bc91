//! `durable`: new pages into an empty store, each on the device when its put returns; one thread,
//! then eight.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;

use super::{Judge, get_all, in_threads};
use crate::engine::{Engine, Purpose};
use crate::measure::latency::Latencies;
use crate::measure::lines::{Figures, put};
use crate::turn::Turn;

const AT_MOST: Duration = Duration::from_secs(10);

/// Both numbers of threads, each with its own store.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    if !turn.kind.can.update {
        return turn.lines.skipped("durable", "it is written once: no put of a single page");
    }
    // Close the loaded store: its background work would count.
    if turn.kind.can.reopen {
        turn.close()?;
    }
    turn.settle()?;
    let mut figures = Figures::new();
    for threads in [1, 8] {
        let dir = turn.plan.durable_dir(turn.kind);
        let measured = in_store(turn, &dir, threads);
        std::fs::remove_dir_all(&dir)?;
        let (latencies, per_s) = measured?;
        put(&mut figures, format!("per_s_{threads}"), per_s);
        put(&mut figures, format!("p50_us_{threads}"), latencies.us(0.5));
        put(&mut figures, format!("p99_us_{threads}"), latencies.us(0.99));
    }
    if turn.kind.can.reopen {
        turn.open(Purpose::Use)?;
    }
    turn.lines.result("durable", figures)
}

fn in_store(turn: &Turn<'_>, dir: &Path, threads: usize) -> Outcome<(Latencies, f64)> {
    let engine = (turn.kind.open)(dir, &turn.settings, Purpose::Durable)?;
    let count = turn.plan.durable_puts.min(turn.pages.count());
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let latencies = in_threads(threads, |_| {
        let mut latencies = Latencies::new();
        let mut session = engine.session()?;
        let mut page = Page::default();
        while begun.elapsed() < AT_MOST {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            turn.pages.page(number, 1, &mut page);
            latencies.time(|| session.put(&page))?;
        }
        Ok(latencies)
    })?;
    let per_s = latencies.len() as f64 / begun.elapsed().as_secs_f64();
    check(turn, &*engine, latencies.len())?;
    engine.close()?;
    Ok((latencies, per_s))
}

/// Checks that what was put is there. A thread that stopped took one number more, which is not
/// checked.
fn check(turn: &Turn<'_>, engine: &dyn Engine, puts: u64) -> Outcome<()> {
    let mut page = Page::default();
    let first = |number| crate::pages::Probe {
        number,
        digest: Some(turn.pages.digest(number, 1, &mut page)),
        key: {
            turn.pages.url(number, &mut page.url);
            page.url.as_slice().into()
        },
    };
    let probes: Vec<_> = (0..puts.min(1000)).map(first).collect();
    let judge = Judge::new(&turn.lines, "durable");
    get_all(engine, &probes, 1, &judge)?;
    judge.end()?;
    Ok(())
}
