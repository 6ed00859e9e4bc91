//! The process that works: this program with the command `writer`. It runs the workload from a
//! number on and reports progress on a pipe.
//!
//! A line `123` says that all operations with numbers below 123 have returned (or, when it waits,
//! are durable). When it waits, the writer stops after each line until its reader has sent one
//! back, so that earlier and later writes are not confused.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use filemap_core::{Result, Store};

use crate::ops::{self, Op};

/// Arguments of a writer.
#[derive(Clone, Debug, clap::Args)]
pub struct Work {
    /// The store's folder; it is created if it is missing.
    #[arg(long)]
    pub store: PathBuf,
    /// The seed of the workload.
    #[arg(long)]
    pub seed: u64,
    /// The number of the first operation.
    #[arg(long)]
    pub from: u64,
    /// Stop before this number.
    #[arg(long)]
    pub until: u64,
    /// Report only what is durable, and wait for an answer.
    #[arg(long)]
    pub wait: bool,
    /// Report what is not durable as if it were: a planted fault.
    #[arg(long)]
    pub lie: bool,
}

/// Does the work.
///
/// # Errors
/// Those of the store.
pub fn work(work: &Work) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut answers = std::io::stdin().lock().lines();
    let mut report = |number: u64| {
        // A reader that is gone ends the writer too.
        let written = writeln!(out, "{number}").and_then(|()| out.flush());
        if written.is_err() || (work.wait && answers.next().is_none()) {
            std::process::exit(0);
        }
    };
    let options = ops::options(work.seed);
    let mut store = Store::open_or_create(&work.store, options.clone())?;
    report(work.from);
    let mut op = Op::at(work.seed, work.from);
    while op.first < work.until {
        let is_lie = work.lie && op.is_sync();
        if !is_lie {
            store = op.run(store, &work.store, &options)?;
        }
        if !work.wait || op.is_sync() || (ops::always_syncs(work.seed) && !work.lie) {
            report(op.end());
        }
        op = Op::at(work.seed, op.end());
    }
    // Not closed: what was not synced shall not be.
    std::process::exit(0);
}

/// The operation that nearly fills the index pages of a new store with keys:
/// the workload after it splits some.
pub fn filling(seed: u64) -> Op {
    Op { seed, first: 1, what: ops::What::Bulk(28_500) }
}

/// A running writer; it is killed when this is dropped.
pub struct Writer {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts one from the given program (that of this package).
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, work: &Work) -> std::io::Result<Writer> {
        let mut command = Command::new(program);
        command.arg("writer").arg("--store").arg(&work.store);
        for (name, number) in [("--seed", work.seed), ("--from", work.from), ("--until", work.until)] {
            command.arg(name).arg(number.to_string());
        }
        command.args(work.wait.then_some("--wait")).args(work.lie.then_some("--lie"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or_else(|| std::io::Error::other("no pipe"))?);
        Ok(Writer { child, lines })
    }

    /// The next number that it reports; `None` when it has ended.
    pub fn report(&mut self) -> Option<u64> {
        let mut line = String::new();
        self.lines.read_line(&mut line).ok()?;
        // A line that was cut off by a kill says nothing.
        line.strip_suffix('\n')?.parse().ok()
    }

    /// Lets a waiting writer continue.
    pub fn answer(&mut self) {
        if let Some(pipe) = &mut self.child.stdin {
            let _ = pipe.write_all(b"\n");
        }
    }

    /// Kills it after a time, which begins when it has opened the store if `opened` says so; the
    /// last number that it reported, if any.
    ///
    /// # Errors
    /// What it said, when it ended by itself: one that works without end ends only by a failure.
    pub fn kill_after(mut self, life: Duration, opened: bool) -> std::result::Result<Option<u64>, String> {
        let mut last = if opened { self.report() } else { None };
        std::thread::sleep(life);
        let _ = self.child.kill();
        while let Some(number) = self.report() {
            last = Some(number);
        }
        let status = self.child.wait().map_err(|e| e.to_string())?;
        if status.code().is_some() { self.finish().map(|()| last) } else { Ok(last) }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What it said when it failed, or the signal that ended it.
    pub fn finish(&mut self) -> std::result::Result<(), String> {
        let status = self.child.wait().map_err(|e| e.to_string())?;
        let mut words = String::new();
        if let Some(pipe) = &mut self.child.stderr {
            let _ = std::io::Read::read_to_string(pipe, &mut words);
        }
        if status.success() { Ok(()) } else { Err(format!("the writer: {status}: {}", words.trim())) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
