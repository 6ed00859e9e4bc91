//! The command of the crash tests: `hunt`, `small`, `fail`, `faults`, and `soak` for all of them.
//! It prints the counts and, for a violation, the command that repeats it; then the exit code is
//! 1.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::{Parser, Subcommand};
use filemap_core::sim::Fault;
use filemap_crash::{Count, Violation, each, failing, hunt, small};

/// Crash tests of FileMap on a simulated disk.
#[derive(Parser)]
#[command(name = "filemap-crash")]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Threads.
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
}

#[derive(Subcommand)]
enum What {
    /// Random strings of operations, over three generations of crashes.
    Hunt {
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of seeds; without it, as many as `--states` take.
        #[arg(long)]
        runs: Option<u64>,
        /// Minimum number of states.
        #[arg(long, default_value_t = 200_000)]
        states: u64,
    },
    /// Every string of up to four operations.
    Small {
        /// Only this string.
        #[arg(long)]
        string: Option<String>,
    },
    /// Every call fails, one run a call.
    Fail {
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of strings.
        #[arg(long, default_value_t = 40)]
        runs: u64,
    },
    /// All of it, for hours if so wished: millions of states of random strings, every small one,
    /// thousands of failing calls, and the planted faults.
    Soak {
        /// The first seed of the random strings.
        #[arg(long, default_value_t = 1_000_000)]
        seed: u64,
        /// Minimum number of states.
        #[arg(long, default_value_t = 5_000_000)]
        states: u64,
    },
    /// Plants each fault in turn, and says after how many states it was caught.
    Faults {
        /// Maximum number of states until the fault is caught.
        #[arg(long, default_value_t = 40_000)]
        states: u64,
        /// Only the faults whose names have this in them.
        #[arg(long, default_value = "")]
        only: String,
    },
}

fn main() -> ExitCode {
    // Panics of the engine are violations, and are reported as such.
    std::panic::set_hook(Box::new(|_| {}));
    let arguments = Arguments::parse();
    let threads = arguments.threads;
    let is_clean = match arguments.what {
        What::Hunt { seed, runs: Some(runs), .. } => random(threads, seed..seed + runs, u64::MAX),
        What::Hunt { seed, runs: None, states } => random(threads, seed..u64::MAX, states),
        What::Small { string: Some(string) } => report("this string", || small::run(&string)),
        What::Small { string: None } => every_small(threads),
        What::Fail { seed, runs } => failures(threads, seed..seed + runs),
        What::Soak { seed, states } => {
            let parts = [
                random(threads, seed..u64::MAX, states),
                every_small(threads),
                failures(threads, seed..seed + 1000),
                faults(threads, 40_000, ""),
            ];
            parts.iter().all(|&is_clean| is_clean)
        }
        What::Faults { states, only } => faults(threads, states, &only),
    };
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn random(threads: usize, seeds: Range<u64>, states: u64) -> bool {
    report("random strings", || each(threads, seeds, states, |seed| hunt::run(seed, None)))
}

fn every_small(threads: usize) -> bool {
    report("small worlds", || each(threads, 0..small::strings(), u64::MAX, |n| small::run(&small::string(n))))
}

fn failures(threads: usize, seeds: Range<u64>) -> bool {
    // Seed by seed the longest string would end alone.
    let ways = failing::WAYS.len() as u64;
    let one = |number| failing::run(number / ways, &failing::WAYS[(number % ways) as usize..][..1]);
    report("failing calls", || each(threads, seeds.start * ways..seeds.end * ways, u64::MAX, one))
}

/// Runs something, prints what it has looked at, and says whether it found nothing.
fn report(what: &str, run: impl FnOnce() -> Result<Count, Violation>) -> bool {
    let start = Instant::now();
    match run() {
        Ok(c) => {
            println!(
                "{what}: {} runs, {} states judged ({} of them crashes in a recovery), {} failed calls, {} passed over, 0 violations, {:.1} s",
                c.runs,
                c.states,
                c.in_recovery,
                c.failures,
                c.passed_over,
                start.elapsed().as_secs_f64()
            );
            true
        }
        Err(violation) => {
            println!("{what}: VIOLATION: {violation}");
            false
        }
    }
}

/// Returns whether every planted fault was caught.
fn faults(threads: usize, states: u64, only: &str) -> bool {
    let planted: Vec<Fault> = Fault::ALL.into_iter().filter(|f| format!("{f:?}").contains(only)).collect();
    let missed = AtomicU64::new(0);
    let all = each(threads, 0..planted.len() as u64, u64::MAX, |number| {
        let fault = planted[number as usize];
        match hunt::catch(fault, 1, states) {
            Some(caught) => {
                let what: String = caught.violation.what.chars().take(90).collect();
                println!("{fault:?}: caught after {} states by seed {}: {what}", caught.states, caught.seed);
            }
            None => {
                missed.fetch_add(1, Ordering::Relaxed);
                println!("{fault:?}: NOT CAUGHT in {states} states");
            }
        }
        Ok(Count::default())
    });
    let missed = missed.load(Ordering::Relaxed);
    println!("{} faults planted, {} caught", planted.len(), planted.len() as u64 - missed);
    all.is_ok() && missed == 0 && !planted.is_empty()
}
