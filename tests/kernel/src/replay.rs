//! Power losses on a real file system. A writer works in a store on ext4 or XFS on a recording
//! disk, which notes every block write and flush and how far the writer was durable.
//!
//! At points of that record the disk is made as a power loss may leave it; the kernel mounts it,
//! the store recovers, the oracle judges. Work continues, and a second power loss may strike in
//! the recovery or after it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use filemap_core::Store;
use filemap_oracle::Bounds;

use crate::disk::Tape;
use crate::image::Fate;
use crate::ops;
use crate::oracle::{self, Oracle};
use crate::random::Random;
use crate::system::{FileSystem, Machine, Result, unique_name};
use crate::writer::{self, Work, Writer};

/// States that are made from one record.
const STATES_PER_RECORD: u64 = 40;
/// Numbers of operations in one record.
const RECORD_LENGTH: u64 = 1500;
/// Operations after a recovery.
const AFTERWARDS: u64 = 15;

/// Disks of violations that are kept in the folder for temporary files.
const KEPT_IMAGES: usize = 3;

/// A fault that is planted to see whether it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// The writer says that it has synced, and has not.
    NoSync,
    /// The disk answers flushes, and keeps nothing of the last few.
    LostFlushes,
}

/// Report of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// States that were mounted, opened and checked.
    pub states: u64,
    /// Of them, those of a second power loss.
    pub second: u64,
    /// Block writes that were recorded.
    pub writes: u64,
    /// Flushes that were recorded.
    pub flushes: u64,
    /// The most segments that a store had.
    pub segments: u64,
    /// The most leaf pages that an index had; over 128, pages were split.
    pub leaves: u64,
    /// Violations, each with the command that reproduces it.
    pub violations: Vec<String>,
}

/// Checks `states` states on a file system.
///
/// # Errors
/// When the harness itself fails. Violations are in the report.
pub fn run(program: &Path, system: FileSystem, states: u64, seed: u64, fault: Option<Fault>) -> Result<Report> {
    let machine = Machine::new(program, system)?;
    let mut report = Report::default();
    let mut round = seed;
    while report.states < states {
        let record = Record::make(program, &machine, round, fault)?;
        report.writes += record.tape.events - record.tape.flushes;
        report.flushes += record.tape.flushes;
        let wanted = STATES_PER_RECORD.min(states - report.states);
        record.replay(&machine, wanted, fault, &mut report)?;
        round += 1;
    }
    Ok(report)
}

/// Operations of one workload; the commands to the disk are on its tape.
struct Record {
    seed: u64,
    tape: Tape,
    /// Positions on the tape at which the writer had said that all below a number is durable.
    acks: Vec<(u64, u64)>,
    oracle: Oracle,
}

impl Record {
    fn make(program: &Path, machine: &Machine, seed: u64, fault: Option<Fault>) -> Result<Record> {
        machine.format()?;
        let mounted = machine.mount()?;
        let store = mounted.path().join("pages.fm");
        let mut oracle = Oracle::new(seed, 1);
        let mut acks = Vec::new();
        if seed.is_multiple_of(3) {
            let op = writer::filling(seed);
            let options = ops::options(seed).memtable_bytes(64 << 20).checkpoint_bytes(64 << 20);
            let filled = Store::create(&store, options.clone()).and_then(|s| op.run(s, &store, &options));
            filled.and_then(Store::close).map_err(|e| format!("filling a store: {e}"))?;
            oracle.learn_op(op);
            // From here on it is as if it had always been there.
            rustix::fs::sync();
            acks.push((0, oracle.next()));
        }
        machine.disk().record()?;
        let from = oracle.next();
        let until = from + RECORD_LENGTH;
        let work = Work { store, seed, from, until, wait: true, lie: fault == Some(Fault::NoSync) };
        let mut writer = Writer::start(program, &work).map_err(|e| format!("start of a writer: {e}"))?;
        while let Some(number) = writer.report() {
            acks.push((machine.disk().position()?, number));
            writer.answer();
        }
        writer.finish()?;
        let tape = machine.disk().keep_tape()?;
        mounted.unmount()?;
        oracle.learn_below(until);
        Ok(Record { seed, tape, acks, oracle })
    }

    /// Progress of the work when `events` events of the tape had happened.
    fn bounds(&self, events: u64) -> Bounds {
        let durable = self.acks.iter().rev().find(|(at, _)| *at <= events);
        let begun = self.acks.iter().find(|(at, _)| *at > events);
        Bounds { certain: durable.map_or(0, |a| a.1), possible: begun.map_or(self.oracle.next(), |a| a.1) }
    }

    fn replay(&self, machine: &Machine, states: u64, fault: Option<Fault>, report: &mut Report) -> Result<()> {
        let mut random = Random::new(self.seed, 0x7265);
        let mut points: Vec<u64> = (0..states).map(|_| random.below(self.tape.events + 1)).collect();
        points.sort_unstable();
        for (nth, point) in points.into_iter().enumerate() {
            let mut fate = Fate::draw(&mut random);
            let mut lost = 0;
            if fault == Some(Fault::LostFlushes) {
                // As if the power had been lost some flushes earlier.
                (lost, fate) = (20, Fate::Lost);
            }
            machine.disk().lose_power(point, lost, fate, &mut random)?;
            let keep = fault.is_none();
            let mut state = State { machine, random: &mut random, report, oracle: self.oracle.clone(), keep };
            if let Err(what) = state.check_twice(self.bounds(point)) {
                let words = format!("record of seed {}, state {nth} (event {point}, {fate:?}): {what}", self.seed);
                report.violations.push(words);
            }
        }
        Ok(())
    }
}

/// One state: a disk after a power loss.
struct State<'a> {
    machine: &'a Machine,
    random: &'a mut Random,
    report: &'a mut Report,
    oracle: Oracle,
    /// True if the disk of a violation is worth keeping.
    keep: bool,
}

/// Progress of a session after a power loss, with the content at each moment.
struct Session {
    /// Position in the record, and what is known of the store from there on.
    known: Vec<(u64, Oracle, Bounds)>,
}

impl State<'_> {
    fn check_twice(&mut self, bounds: Bounds) -> Result<()> {
        let session = self.session(bounds)?;
        if !self.random.one_in(4) {
            return Ok(());
        }
        let disk = self.machine.disk();
        let point = self.random.below(disk.position()? + 1);
        let fate = Fate::draw(self.random);
        disk.lose_power_again(point, fate, self.random)?;
        let known = session.known.into_iter().rev().find(|(at, ..)| *at <= point);
        let (_, oracle, bounds) = known.ok_or("a session without a beginning")?;
        self.oracle = oracle;
        self.report.second += 1;
        self.session(bounds).map_err(|e| format!("second power loss (event {point}, {fate:?}): {e}")).map(drop)
    }

    /// Keeps the disk of a violation: the same seed gives the same work, but the kernel does not
    /// write it in the same order again.
    fn keep(&self, what: String) -> String {
        if !self.keep || self.report.violations.len() >= KEPT_IMAGES {
            return what;
        }
        let path = std::env::temp_dir().join(format!("{}.img", unique_name()));
        match self.machine.disk().save(&path) {
            Ok(()) => format!("{what}; the disk is in {}", path.display()),
            Err(e) => format!("{what}; the disk could not be kept: {e}"),
        }
    }

    /// Mounts a disk and works with its store.
    fn session(&mut self, bounds: Bounds) -> Result<Session> {
        self.report.states += 1;
        self.mounted_session(bounds).map_err(|e| self.keep(e))
    }

    fn mounted_session(&mut self, bounds: Bounds) -> Result<Session> {
        let mounted = self.machine.mount()?;
        let path = mounted.path().join("pages.fm");
        let worked = catch_unwind(AssertUnwindSafe(|| self.work(&path, bounds)));
        let worked = worked.unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<String>().cloned();
            Err(format!("a panic: {}", words.unwrap_or_else(|| "no words".into())))
        });
        mounted.unmount()?;
        worked
    }

    fn work(&mut self, path: &Path, bounds: Bounds) -> Result<Session> {
        let options = ops::options(self.random.number());
        let mut known = vec![(0, self.oracle.clone(), bounds)];
        let mut store = Store::open_or_create(path, options.clone()).map_err(|e| format!("open: {e}; {bounds:?}"))?;
        let opened = self.machine.disk().position()?;
        self.oracle.check(&store, bounds, self.random)?;
        self.oracle.settle(&store, bounds)?;
        let settled = self.oracle.next();
        let reserve = {
            let mut longer = self.oracle.clone();
            for _ in 0..AFTERWARDS {
                longer.learn();
            }
            longer
        };
        known.push((opened, reserve.clone(), Bounds { certain: settled, possible: reserve.next() }));
        oracle::verify(&store)?;
        let stats = store.stats();
        self.report.segments = self.report.segments.max(stats.segments);
        self.report.leaves = self.report.leaves.max(stats.index_leaves);
        while self.oracle.next() < reserve.next() {
            let op = self.oracle.learn();
            store = op.run(store, path, &options).map_err(|e| format!("{:?} after recovery: {e}", op.what))?;
        }
        store.sync().map_err(|e| format!("sync after recovery: {e}"))?;
        let all = Bounds { certain: reserve.next(), possible: reserve.next() };
        known.push((self.machine.disk().position()?, reserve, all));
        store.close().map_err(|e| format!("close after recovery: {e}"))?;
        let store = Store::open(path, options).map_err(|e| format!("second open: {e}"))?;
        self.oracle.check(&store, all, self.random).map_err(|e| format!("opened again: {e}"))?;
        oracle::verify(&store)?;
        store.close().map_err(|e| format!("second close: {e}"))?;
        Ok(Session { known })
    }
}
