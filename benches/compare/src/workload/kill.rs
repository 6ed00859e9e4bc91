//! `kill`: a child process puts new pages one by one and syncs every thousand, until kill -9.
//! Measured, with the page cache dropped: time until the store is open and the first get answered.
//! Then every page that a sync covered is read.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use filemap_benches::drive::Outcome;
use filemap_benches::generate::Page;

use super::{Judge, get_all};
use crate::engine::{Kind, Purpose};
use crate::measure::lines::{Figures, put};
use crate::turn::Turn;
use crate::turn::plan::Plan;

/// Puts between two syncs.
const SYNC_EVERY: u64 = 1000;
const PROBES: u64 = 20_000;

/// Input of the child process.
pub struct Child {
    /// The engine.
    pub kind: &'static Kind,
    /// Number of the first page to put.
    pub first: u64,
    /// The run.
    pub plan: Plan,
}

/// Kills, opens and checks.
pub fn run(turn: &mut Turn<'_>) -> Outcome<()> {
    if !turn.kind.can.recover {
        return turn.lines.skipped("kill", "its index is in memory until it is closed");
    }
    if let Err(error) = turn.drop_caches() {
        return turn.lines.skipped("kill", &error.to_string());
    }
    turn.close()?;
    let first = turn.pages.next();
    let most = turn.plan.kill_puts(turn.pages.count()) * 2;
    let synced = put_and_kill(turn, first)?;
    for _ in 0..most {
        turn.pages.take_new();
    }
    for number in first..synced {
        turn.pages.finish(number, turn.pages.begin(number));
    }

    let probe = turn.pages.probe(first, &mut Page::default());
    let mut body = Vec::new();
    turn.drop_caches()?;
    let begun = Instant::now();
    turn.open(Purpose::Use)?;
    let found = turn.engine()?.session()?.get_into(&probe.key, &mut body)?;
    let took = begun.elapsed();
    let judge = Judge::new(&turn.lines, "kill");
    judge.check(&probe, found.then_some(&body[..]))?;
    let numbers: Vec<u64> = (first + 1..synced).collect();
    for numbers in numbers.chunks(PROBES as usize) {
        let probes = turn.pages.probes(numbers.iter().copied());
        get_all(turn.engine()?, &probes, turn.plan.threads, &judge)?;
    }
    let lost = judge.end()?;
    let mut figures = Figures::new();
    put(&mut figures, "open_ms", took.as_secs_f64() * 1e3);
    put(&mut figures, "lost", lost as f64);
    put(&mut figures, "synced", (synced - first) as f64);
    turn.lines.result("kill", figures)
}

/// Runs the child until it has put and synced enough, and kills it. Returns the end of the numbers
/// that its syncs covered.
fn put_and_kill(turn: &Turn<'_>, first: u64) -> Outcome<u64> {
    let target = first + turn.plan.kill_puts(turn.pages.count());
    let mut child = Command::new(std::env::current_exe()?)
        .args(["kill-child", "--engine", turn.kind.name, "--first", &first.to_string()])
        .args(&turn.plan.arguments)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut pipe = child.stdout.take().ok_or("the child has no pipe")?;
    let (mut synced, mut number) = (first, [0; 8]);
    while synced < target && pipe.read_exact(&mut number).is_ok() {
        synced = u64::from_le_bytes(number);
    }
    // In the middle of the puts after the last sync it reported.
    child.kill()?;
    // A sync reported meanwhile counts too.
    while pipe.read_exact(&mut number).is_ok() {
        synced = u64::from_le_bytes(number);
    }
    let status = child.wait()?;
    if synced < target {
        return Err(format!("the putting child stopped by itself: {status}").into());
    }
    Ok(synced)
}

/// Puts and syncs; after each sync writes the end of the synced numbers to the pipe.
pub fn child(child: &Child) -> Outcome<ExitCode> {
    let Child { kind, first, plan } = child;
    let (source, count) = plan.source()?;
    let pipe = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let engine = (kind.open)(&plan.store_dir(kind), &plan.settings(), Purpose::Use)?;
    let mut session = engine.session()?;
    let mut page = Page::default();
    let puts = plan.kill_puts(count);
    let every = SYNC_EVERY.min(puts);
    for number in *first..first + puts * 2 {
        source.page(number, &mut page);
        session.put(&page)?;
        let done = number + 1 - first;
        if done.is_multiple_of(every) {
            engine.sync()?;
            (&pipe).write_all(&(number + 1).to_le_bytes())?;
        }
    }
    // Room for the kill to come late.
    std::thread::sleep(std::time::Duration::from_secs(60));
    Err("the child came to the end of its pages before it was killed".into())
}
