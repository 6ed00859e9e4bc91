//! A writer killed with SIGKILL at random moments, also while it creates or recovers the store.
//! What returned is not lost, no page is wrong, and what was removed stays removed. A reader in
//! this process follows it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use filemap_core::Store;
use filemap_oracle::Bounds;

use crate::ops::{self, Op};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::writer::{Work, Writer};

/// Cycles after which a new store is begun, so that creation is hit too.
const CYCLES_PER_STORE: u64 = 40;
/// A writer's longest life.
const LIFE_US: u64 = 40_000;

/// Report of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Writers that were killed.
    pub cycles: u64,
    /// Of them, those that had not opened the store yet.
    pub before_open: u64,
    /// Operations that were reported.
    pub operations: u64,
    /// Times that the store was recovered and checked in this process.
    pub checks: u64,
}

/// Kills writers in stores below `folder`; `program` is this package's.
///
/// # Errors
/// The first violation, with the cycle in which it was found.
pub fn run(program: &Path, folder: &Path, cycles: u64, seed: u64) -> Result<Report, String> {
    let mut report = Report::default();
    let mut round = 0;
    while report.cycles < cycles {
        let wanted = CYCLES_PER_STORE.min(cycles - report.cycles);
        let store = folder.join(format!("round{round}"));
        let mut run = Round::new(program, store, seed + round);
        for _ in 0..wanted {
            run.cycle(&mut report).map_err(|e| format!("cycle {} of seed {seed}: {e}", report.cycles))?;
        }
        let path = run.work.store.clone();
        drop(run);
        std::fs::remove_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        round += 1;
    }
    Ok(report)
}

struct Round<'a> {
    program: &'a Path,
    work: Work,
    random: Random,
    oracle: Oracle,
    /// All operations below are done; the one that begins here may be.
    certain: u64,
    reader: Option<Store>,
}

impl Round<'_> {
    fn new(program: &Path, store: PathBuf, seed: u64) -> Round<'_> {
        let work = Work { store, seed, from: 1, until: u64::MAX, wait: false, lie: false };
        let random = Random::new(seed, 0x6b69_6c6c);
        Round { program, work, random, oracle: Oracle::new(seed, 1), certain: 1, reader: None }
    }

    fn cycle(&mut self, report: &mut Report) -> Result<(), String> {
        self.work.from = self.oracle.next();
        let writer = Writer::start(self.program, &self.work).map_err(|e| format!("start: {e}"))?;
        let life = Duration::from_micros(self.random.below(LIFE_US));
        let reached = writer.kill_after(life, self.random.one_in(2))?;
        report.cycles += 1;
        let Some(reached) = reached else {
            report.before_open += 1;
            return self.check_now_and_then(report);
        };
        self.oracle.learn_below(reached);
        report.operations += reached - self.work.from;
        if reached > self.certain {
            self.certain = reached;
        }
        // The operation after the last reported one may have happened or not, wholly or in part.
        self.oracle.learn();
        self.read_along()?;
        self.settle(report)
    }

    fn bounds(&self) -> Bounds {
        Bounds { certain: self.certain, possible: self.oracle.next() }
    }

    /// The reader sees, without any recovery, all that was reported.
    fn read_along(&mut self) -> Result<(), String> {
        let options = ops::options(self.work.seed);
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Store::open_read_only(&self.work.store, options).map_err(|e| format!("reader: {e}"))?,
        };
        reader.refresh().map_err(|e| format!("refresh: {e}"))?;
        let result = self.oracle.check(&reader, self.bounds(), &mut self.random);
        self.reader = Some(reader);
        result.map_err(|e| format!("as a reader sees it, {e}"))
    }

    /// Finds out what the cut off operation did, and takes it for done from here on. The reader is
    /// asked: it sees what a recovery will keep.
    fn settle(&mut self, report: &mut Report) -> Result<(), String> {
        let bounds = self.bounds();
        let reader = self.reader.as_ref().ok_or("no reader")?;
        self.oracle.settle(reader, bounds)?;
        self.certain = self.oracle.next();
        self.check_now_and_then(report)
    }

    /// Recovers and checks the store in this process in one of three cycles: in the others the
    /// next writer recovers it, and may be killed in the midst of that.
    fn check_now_and_then(&mut self, report: &mut Report) -> Result<(), String> {
        if !self.random.one_in(3) || self.reader.is_none() {
            return Ok(());
        }
        let options = ops::options(self.work.seed);
        let store = Store::open(&self.work.store, options.clone()).map_err(|e| format!("open: {e}"))?;
        report.checks += 1;
        self.oracle.check(&store, self.bounds(), &mut self.random)?;
        if report.checks % 10 == 1 {
            crate::oracle::verify(&store)?;
        }
        // One operation, and no close: a drop without a checkpoint would be the
        // writer's end too.
        let op: Op = self.oracle.learn();
        let store = op.run(store, &self.work.store, &options).map_err(|e| format!("{:?}: {e}", op.what))?;
        self.certain = self.oracle.next();
        store.close().map_err(|e| format!("close: {e}"))
    }
}
