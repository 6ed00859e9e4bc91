//! Code shared by the workloads: checked gets, threads, syncs. One file below for each workload.

pub mod cold;
pub mod delete;
pub mod depth;
pub mod durable;
pub mod fio;
pub mod kill;
pub mod load;
pub mod overwrite;
pub mod reopen;
pub mod squeeze;
pub mod warm;
pub mod ycsb;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;

use crate::engine::{Engine, Session};
use crate::measure::latency::Latencies;
use crate::measure::lines::Lines;
use crate::pages::{Pages, Probe};

/// Failures of one workload that get a line each; the others are counted.
const FAILURES_TOLD: u64 = 5;

/// Counts wrong answers and records the first few.
pub struct Judge<'a> {
    lines: &'a Lines,
    workload: String,
    wrong: std::sync::atomic::AtomicU64,
}

impl<'a> Judge<'a> {
    /// Of a workload.
    pub fn new(lines: &'a Lines, workload: &str) -> Judge<'a> {
        Judge { lines, workload: workload.into(), wrong: 0.into() }
    }

    /// Compares an answer with what it must be.
    pub fn check(&self, probe: &Probe, found: Option<&[u8]>) -> Outcome<()> {
        if probe.is_right(found) { Ok(()) } else { self.wrong(&probe.complaint(found)) }
    }

    /// A wrong answer.
    pub fn wrong(&self, what: &str) -> Outcome<()> {
        if self.wrong.fetch_add(1, Ordering::Relaxed) < FAILURES_TOLD {
            self.lines.failure(&self.workload, what)?;
        }
        Ok(())
    }

    /// Ends it: how many wrong answers there were.
    pub fn end(self) -> Outcome<u64> {
        let wrong = self.wrong.into_inner();
        if wrong > FAILURES_TOLD {
            self.lines.failure(&self.workload, &format!("{wrong} wrong answers in all"))?;
        }
        Ok(wrong)
    }
}

/// Gets all probes, split over the threads, and checks every answer outside the clock.
pub fn get_all(engine: &dyn Engine, probes: &[Probe], threads: usize, judge: &Judge<'_>) -> Outcome<Latencies> {
    let share = probes.len().div_ceil(threads).max(1);
    let parts: Vec<&[Probe]> = probes.chunks(share).collect();
    in_threads(parts.len(), |thread| {
        let mut latencies = Latencies::new();
        let mut session = engine.session()?;
        let mut body = Vec::new();
        for probe in parts[thread] {
            let found = latencies.time(|| session.get_into(&probe.key, &mut body))?;
            judge.check(probe, found.then_some(&body[..]))?;
        }
        Ok(latencies)
    })
}

/// Runs a closure on each thread and adds up the latencies.
pub fn in_threads(threads: usize, work: impl Fn(usize) -> Outcome<Latencies> + Sync) -> Outcome<Latencies> {
    let work = &work;
    let parts: Vec<Outcome<Latencies>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    let mut all = Latencies::new();
    for part in parts {
        all.add(&part?)?;
    }
    Ok(all)
}

/// Does some work while another thread syncs the store every second, so that all engines promise
/// the same of a put.
pub fn syncing<T>(engine: &dyn Engine, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let syncer = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                std::thread::park_timeout(Duration::from_secs(1));
                engine.sync()?;
            }
            Ok(())
        });
        let worked = work();
        done.store(true, Ordering::Release);
        syncer.thread().unpark();
        let synced: Outcome<()> = syncer.join().unwrap_or_else(|_| Err("the syncing thread panicked".into()));
        worked.and_then(|value| synced.map(|()| value))
    })
}

/// Puts the next version of a page and returns how long that took.
pub fn put_next(pages: &Pages, session: &mut dyn Session, number: u64, page: &mut Page) -> Outcome<Duration> {
    let version = pages.begin(number);
    pages.page(number, version, page);
    let begun = Instant::now();
    session.put(page)?;
    let took = begun.elapsed();
    pages.finish(number, version);
    Ok(took)
}
