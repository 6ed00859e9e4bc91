//! The workloads, in the order in which a store goes through them: first those that leave it as loaded, last those that do
//! not.

pub mod cold;
pub mod delete;
pub mod depth;
pub mod durable;
mod fio;
pub mod kill;
pub mod load;
pub mod overwrite;
pub mod reopen;
pub mod squeeze;
pub mod warm;
pub mod ycsb;

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;

use crate::cli::RunArgs;
use crate::engine::{Engine, Session};
use crate::lines::Lines;
use crate::measure::Latencies;
use crate::pages::{Pages, Probe};
use crate::turn::Turn;

/// Failures of one workload that are told one by one; those after them are only counted.
const FAILURES_TOLD: u64 = 5;

/// A workload by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Load,
    Reopen,
    Warm,
    Miss,
    Cold,
    Depth,
    Squeeze,
    Ycsb,
    Kill,
    Durable,
    Overwrite,
    Delete,
}

impl Workload {
    /// All of them in their order.
    pub const ALL: [Workload; 12] = [
        Workload::Load,
        Workload::Reopen,
        Workload::Warm,
        Workload::Miss,
        Workload::Cold,
        Workload::Depth,
        Workload::Squeeze,
        Workload::Ycsb,
        Workload::Kill,
        Workload::Durable,
        Workload::Overwrite,
        Workload::Delete,
    ];

    /// As on the command line and in the lines.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Load => "load",
            Workload::Reopen => "reopen",
            Workload::Warm => "warm",
            Workload::Miss => "miss",
            Workload::Cold => "cold",
            Workload::Depth => "depth",
            Workload::Squeeze => "squeeze",
            Workload::Ycsb => "ycsb",
            Workload::Kill => "kill",
            Workload::Durable => "durable",
            Workload::Overwrite => "overwrite",
            Workload::Delete => "delete",
        }
    }

    /// Runs it and writes its lines.
    pub fn run(self, turn: &mut Turn<'_>) -> Outcome<()> {
        match self {
            Workload::Load => load::run(turn),
            Workload::Reopen => reopen::run(turn),
            Workload::Warm => warm::run(turn),
            Workload::Miss => warm::miss(turn),
            Workload::Cold => cold::run(turn),
            Workload::Depth => depth::run(turn),
            Workload::Squeeze => squeeze::run(turn),
            Workload::Ycsb => ycsb::run(turn),
            Workload::Kill => kill::run(turn),
            Workload::Durable => durable::run(turn),
            Workload::Overwrite => overwrite::run(turn),
            Workload::Delete => delete::run(turn),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Workload, String> {
        let found = Workload::ALL.into_iter().find(|workload| workload.name() == name);
        found.ok_or_else(|| format!("is one of {}", Workload::ALL.map(Workload::name).join(", ")))
    }
}

/// How many new pages the workloads of a run may put.
pub fn new_pages(args: &RunArgs, count: u64) -> u64 {
    // YCSB D inserts one in twenty; twice that is never reached by chance.
    args.operations / 10 + 1000 + 2 * args.kill_puts(count)
}

/// Counts wrong answers and tells the first few.
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

/// Gets every probe from as many threads, each its share, and checks every answer outside the clock.
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

/// Runs a closure on as many threads and adds up what they measured.
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

/// Does something while another thread syncs the store every second: what every engine then promises of its puts.
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

/// Puts one page's next version through a session: how long that took.
pub fn put_next(pages: &Pages, session: &mut dyn Session, number: u64, page: &mut Page) -> Outcome<Duration> {
    let version = pages.begin(number);
    pages.page(number, version, page);
    let begun = Instant::now();
    session.put(page)?;
    let took = begun.elapsed();
    pages.finish(number, version);
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_workloads_are_read_back() {
        for workload in Workload::ALL {
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
        assert!("none".parse::<Workload>().unwrap_err().contains("squeeze"));
    }
}
