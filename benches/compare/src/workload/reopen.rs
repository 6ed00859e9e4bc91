//! `reopen`: time from a clean close until the store is open and the first get answered. The page
//! cache stays as the close left it.

use std::time::Instant;

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;

use super::Judge;
use crate::engine::Purpose;
use crate::measure::lines::{Figures, put};
use crate::turn::Turn;

/// Closes and opens.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    if !turn.kind.can.reopen {
        return turn.lines.skipped("reopen", "its index is in memory only");
    }
    turn.close()?;
    let probe = turn.pages.probe(turn.pages.count() / 2, &mut Page::default());
    let mut body = Vec::new();
    let begun = Instant::now();
    turn.open(Purpose::Use)?;
    let found = turn.engine()?.session()?.get_into(&probe.key, &mut body)?;
    let took = begun.elapsed();
    let judge = Judge::new(&turn.lines, "reopen");
    judge.check(&probe, found.then_some(&body[..]))?;
    judge.end()?;
    let mut figures = Figures::new();
    put(&mut figures, "clean_ms", took.as_secs_f64() * 1e3);
    turn.lines.result("reopen", figures)
}
