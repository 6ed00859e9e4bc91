//! `versions`: one key with very many versions among others, beside a store of as many keys with
//! one version each: the same bytes, and the time of each verb on both.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args;
use filemap_benches::drive::Outcome;
use filemap_benches::random::Random;
use filemap_benches::report::{Bar, Report};
use filemap_core::compact::CompactionGoal;
use filemap_core::prune::PruneRule;
use filemap_core::{Options, Record, Store};

/// One record in this many is removed, so that there is something to compact.
const REMOVED: u64 = 4;

/// Arguments of `fm-bench versions`.
#[derive(Args)]
pub struct VersionsArgs {
    /// A directory that is created, for two stores
    dir: PathBuf,
    /// Versions of the one key
    #[arg(long, default_value_t = 1_000_000)]
    versions: u64,
    /// Other keys
    #[arg(long, default_value_t = 100_000)]
    others: u64,
    /// Bytes of a body
    #[arg(long, default_value_t = 500)]
    bytes: usize,
    /// Gets
    #[arg(long, default_value_t = 200_000)]
    gets: u64,
    /// Size of a segment in MiB
    #[arg(long, default_value_t = 256)]
    segment_mib: u64,
}

/// The kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OneKey,
    Distinct,
}

/// Time of each verb, in order.
type Times = Vec<(&'static str, Duration)>;

pub fn run(args: &VersionsArgs) -> Outcome<Report> {
    std::fs::create_dir(&args.dir)?;
    let distinct = times(args, &args.dir.join("distinct"), Kind::Distinct)?;
    let one = times(args, &args.dir.join("one"), Kind::OneKey)?;
    let mut report = Report::default();
    report.section(format!("{} versions of one key among {} others", args.versions, args.others));
    for ((name, took), (_, beside)) in one.iter().zip(&distinct) {
        report.number(*name, took.as_secs_f64(), "s");
        if *name != CLOSE {
            let ratio = took.as_secs_f64() / beside.as_secs_f64();
            report.against("  beside distinct keys", ratio, "x", Bar::AtMost(2.0));
        } else {
            report.against("  at most", took.as_secs_f64(), "s", Bar::AtMost(0.1));
        }
    }
    report.section("as many distinct keys");
    for (name, took) in &distinct {
        report.number(*name, took.as_secs_f64(), "s");
    }
    Ok(report)
}

const CLOSE: &str = "a compaction ends after close";

fn key(kind: Kind, number: u64) -> Vec<u8> {
    match kind {
        Kind::OneKey => format!("http://example.com/page/{:012}", u64::MAX >> 32).into_bytes(),
        Kind::Distinct => format!("http://example.com/page/{number:012}").into_bytes(),
    }
}

fn other(number: u64) -> Vec<u8> {
    format!("http://example.org/page/{number:012}").into_bytes()
}

fn body(number: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::of(1, number);
    let mut body = Vec::with_capacity(bytes + 8);
    while body.len() < bytes {
        body.extend_from_slice(&random.next().to_le_bytes());
    }
    body.truncate(bytes);
    body
}

fn timed<T>(times: &mut Times, name: &'static str, what: impl FnOnce() -> filemap_core::Result<T>) -> Outcome<T> {
    let start = Instant::now();
    let done = what()?;
    times.push((name, start.elapsed()));
    eprintln!("{name}: {:?}", start.elapsed());
    Ok(done)
}

fn times(args: &VersionsArgs, dir: &Path, kind: Kind) -> Outcome<Times> {
    let mut times = Times::new();
    // Background upkeep would be measured at random.
    let options = || Options::new().compression_level(0).segment_bytes(args.segment_mib << 20).space_bound(None);
    let store = Store::create(dir, options())?;
    let all = args.versions + args.others + args.versions / REMOVED;
    let time_ms = |n: u64| n as i64;
    timed(&mut times, "put", || {
        let (mut others, mut removed) = (0, 0);
        for n in 0..args.versions {
            store.put(&Record::new(&key(kind, n), &body(n, args.bytes)).time(time_ms(n)))?;
            while others * args.versions < n * args.others {
                store.put(&Record::new(&other(others), &body(n, args.bytes)).time(time_ms(n)))?;
                others += 1;
            }
            if n % REMOVED == 0 {
                store.put(&Record::new(&other(all + removed), &body(n, args.bytes)).time(time_ms(n)))?;
                removed += 1;
            }
        }
        store.checkpoint()
    })?;
    timed(&mut times, "get", || {
        let mut random = Random::of(2, 0);
        for _ in 0..args.gets {
            store.get(&key(kind, random.below(args.versions)))?;
        }
        Ok(())
    })?;
    let met = timed(&mut times, "history by pages", || match kind {
        Kind::OneKey => store.history_iter(&key(kind, 0)).try_fold(0, |met, head| head.map(|_| met + 1)),
        Kind::Distinct => (0..args.versions).try_fold(0, |met, n| Ok(met + store.history(&key(kind, n))?.len() as u64)),
    })?;
    assert_eq!(met, args.versions, "all versions are met");
    (0..args.versions.div_ceil(REMOVED)).try_for_each(|n| store.remove(&other(all + n)).map(|_| ()))?;
    store.checkpoint()?;
    timed(&mut times, "compact", || store.compact())?;
    let go_on = &mut |_| ControlFlow::Continue(());
    let rule = PruneRule { since_ms: Some(time_ms(args.versions / 2)), ..PruneRule::default() };
    let pruned = timed(&mut times, "prune", || store.prune(rule, go_on))?;
    assert!(pruned.versions >= args.versions / 2, "half of them go");
    let live = store.stats().live_bytes;
    let rule = PruneRule { max_live_bytes: Some(live / 2), ..PruneRule::default() };
    timed(&mut times, "prune by size", || store.prune(rule, &mut |_| ControlFlow::Continue(())))?;
    let report = timed(&mut times, "verify", || store.verify())?;
    assert_eq!(report.problems, [], "nothing is wrong");
    timed(&mut times, "all versions", || store.version_heads().try_for_each(|head| head.map(|_| ())))?;
    times.push((CLOSE, close_beside_compaction(store)?));
    Ok(times)
}

/// Time that a compaction continues after the store is closed beside it.
fn close_beside_compaction(store: Store) -> Outcome<Duration> {
    let clone = store.clone();
    let (told, begun) = mpsc::channel();
    let compaction = std::thread::spawn(move || {
        let result = clone.compact_with(CompactionGoal::NoGarbage, &mut |_| {
            let _ = told.send(());
            ControlFlow::Continue(())
        });
        drop((result, told));
        Instant::now()
    });
    // It may have nothing to do.
    let _ = begun.recv();
    let start = Instant::now();
    store.close()?;
    let ended = compaction.join().map_err(|_| "the compaction panicked")?;
    Ok(ended.saturating_duration_since(start))
}
