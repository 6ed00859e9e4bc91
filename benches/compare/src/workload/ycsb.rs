//! `ycsb`: mixes A, B, C, D and F of the Yahoo! Cloud Serving Benchmark (Cooper and others, SoCC
//! 2010), with pages as records and Zipfian keys. E scans, which no hash index does.
//!
//! Invariants:
//! - every answer is checked; while another thread puts the same page, the outcome of that put is
//!   right too;
//! - puts of one page do not overlap: a thread takes the page's stripe first, outside the clock;
//! - a thread syncs the store every second, so that all engines promise the same of a put.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;
use filemap_benches::random::Random;
use xxhash_rust::xxh3::xxh3_64;

use super::{Judge, in_threads, put_next, syncing};
use crate::engine::Session;
use crate::measure::latency::Latencies;
use crate::measure::lines::{Figures, put};
use crate::pages::Pages;
use crate::pages::zipf::Zipf;
use crate::turn::Turn;

const STRIPES: usize = 1024;

/// The effect of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Read,
    Update,
    Insert,
    ReadModifyWrite,
}

/// A mix: how many of a hundred operations are reads, and what the others are.
struct Mix {
    name: &'static str,
    reads: u64,
    others: Operation,
    latest: bool,
}

const MIXES: [Mix; 5] = [
    Mix { name: "ycsb-a", reads: 50, others: Operation::Update, latest: false },
    Mix { name: "ycsb-b", reads: 95, others: Operation::Update, latest: false },
    Mix { name: "ycsb-c", reads: 100, others: Operation::Read, latest: false },
    Mix { name: "ycsb-d", reads: 95, others: Operation::Insert, latest: true },
    Mix { name: "ycsb-f", reads: 50, others: Operation::ReadModifyWrite, latest: false },
];

/// Uncounted reads before the first mix: `cold` and `depth` leave the page cache empty, and kernel
/// read-ahead would favour some engines.
const WARM_UP: Mix = Mix { name: "ycsb", reads: 100, others: Operation::Read, latest: false };

/// All mixes.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    run_mix(turn, &WARM_UP)?;
    for mix in &MIXES {
        if mix.reads < 100 && !turn.kind.can.update {
            turn.lines.skipped(mix.name, "it is written once: no put of a single page")?;
        } else {
            let figures = run_mix(turn, mix)?;
            turn.lines.result(mix.name, figures)?;
        }
    }
    Ok(())
}

fn run_mix(turn: &Turn<'_>, mix: &Mix) -> Outcome<Figures> {
    let judge = Judge::new(&turn.lines, mix.name);
    let stripes: Vec<Mutex<()>> = (0..STRIPES).map(|_| Mutex::new(())).collect();
    let (reads, writes) = (Mutex::new(Latencies::new()), Mutex::new(Latencies::new()));
    let engine = turn.engine()?;
    let threads = turn.plan.threads;
    // Each mix asks for pages in its own order.
    let letter = mix.name.strip_prefix("ycsb-").map_or(0, |letter| u64::from(letter.as_bytes()[0]));
    let all = syncing(engine, || {
        in_threads(threads, |thread| {
            let share = turn.plan.operations / threads as u64;
            let mut client = Client {
                pages: &turn.pages,
                session: engine.session()?,
                judge: &judge,
                stripes: &stripes,
                zipf: Zipf::new(turn.pages.count()),
                random: Random::of(turn.plan.seed, 1000 * (thread as u64 + 1) + letter),
                page: Page::default(),
                body: Vec::new(),
                reads: Latencies::new(),
                writes: Latencies::new(),
                all: Latencies::new(),
            };
            for _ in 0..share {
                client.operate(mix)?;
            }
            reads.lock().expect("no thread panicked with it").add(&client.reads)?;
            writes.lock().expect("no thread panicked with it").add(&client.writes)?;
            Ok(client.all)
        })
    })?;
    judge.end()?;
    let mut figures = Figures::new();
    put(&mut figures, "per_s", all.per_s(threads));
    all.quantiles(&mut figures, "", &["p50", "p99", "p999"]);
    reads.into_inner().expect("no thread panicked with it").quantiles(&mut figures, "read_", &["p999"]);
    let writes = writes.into_inner().expect("no thread panicked with it");
    if writes.len() > 0 {
        writes.quantiles(&mut figures, "write_", &["p999"]);
    }
    Ok(figures)
}

/// One thread's part of a mix.
struct Client<'a> {
    pages: &'a Pages,
    session: Box<dyn Session + 'a>,
    judge: &'a Judge<'a>,
    stripes: &'a [Mutex<()>],
    zipf: Zipf,
    random: Random,
    page: Page,
    body: Vec<u8>,
    reads: Latencies,
    writes: Latencies,
    all: Latencies,
}

impl Client<'_> {
    fn operate(&mut self, mix: &Mix) -> Outcome<()> {
        let mut operation = if self.random.below(100) < mix.reads { Operation::Read } else { mix.others };
        if operation == Operation::Insert && self.pages.room() < 64 {
            operation = Operation::Read;
        }
        let number = match operation {
            Operation::Insert => self.pages.take_new(),
            _ if mix.latest => self.latest(),
            _ => self.zipf.scrambled(&mut self.random),
        };
        match operation {
            Operation::Read => {
                let read = self.read(number)?;
                self.all.record(read, 1)
            }
            Operation::Update | Operation::Insert => {
                let written = self.write(number)?;
                self.all.record(written, 1)
            }
            Operation::ReadModifyWrite => {
                let took = self.read(number)? + self.write(number)?;
                self.all.record(took, 1)
            }
        }
    }

    /// A page that was put lately: popularity falls with age.
    fn latest(&mut self) -> u64 {
        let next = self.pages.next();
        next - 1 - self.zipf.rank(&mut self.random).min(next - 1)
    }

    fn read(&mut self, number: u64) -> Outcome<Duration> {
        let (low, _) = self.pages.versions(number);
        self.pages.url(number, &mut self.page.url);
        let begun = Instant::now();
        let found = self.session.get_into(&self.page.url, &mut self.body)?;
        let took = begun.elapsed();
        self.reads.record(took, 1)?;
        let (_, high) = self.pages.versions(number);
        let digest = found.then(|| xxh3_64(&self.body));
        let is_right = (low..=high).any(|version| match digest {
            None => version == 0,
            Some(digest) => version > 0 && digest == self.pages.digest(number, version, &mut self.page),
        });
        if !is_right {
            let what = if found { "came back with another body" } else { "is missing" };
            self.judge.wrong(&format!("page {number} {what}; it has version {low} to {high}"))?;
        }
        Ok(took)
    }

    fn write(&mut self, number: u64) -> Outcome<Duration> {
        let _alone = self.stripes[number as usize % STRIPES].lock().expect("no thread panicked with it");
        let took = put_next(self.pages, &mut *self.session, number, &mut self.page)?;
        self.writes.record(took, 1)?;
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_those_of_the_paper() {
        let reads: Vec<u64> = MIXES.iter().map(|mix| mix.reads).collect();
        assert_eq!(reads, [50, 95, 100, 95, 50]);
        assert!(MIXES.iter().all(|mix| mix.name.starts_with("ycsb-")));
    }
}
