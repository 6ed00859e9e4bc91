//! The command line: arguments with their defaults, parsed into plain values for the floors below.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use filemap_benches::drive::Outcome;

use crate::engine::{Kind, Settings, registry};
use crate::run;
use crate::turn::plan::{Plan, Workload};
use crate::workload::{kill, squeeze};

/// FileMap beside other stores, on the same pages.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run workloads on engines that take turns; append the figures to a file
    Run(RunArgs),
    /// One engine's turn of one round
    #[command(hide = true)]
    Turn(TurnArgs),
    /// Put and sync until killed
    #[command(hide = true)]
    KillChild(KillArgs),
    /// Get under a memory limit
    #[command(hide = true)]
    SqueezeChild(SqueezeArgs),
}

/// The plan of a run, from the command line.
#[derive(Args)]
struct RunArgs {
    /// Directory on the disk to measure; stores are made and removed in it
    #[arg(long)]
    dir: PathBuf,
    /// Put the corpus in this directory (made by benches/corpus.sh)
    #[arg(long, required_unless_present = "pages", conflicts_with = "pages")]
    corpus: Option<PathBuf>,
    /// Put this many generated pages
    #[arg(long, value_parser = clap::value_parser!(u64).range(16..1 << 32))]
    pages: Option<u64>,
    /// Engines, in the order of their turns [default: all that are built in]
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Workloads; the order is fixed, and `load` always runs
    #[arg(long, value_delimiter = ',', default_values_t = Workload::ALL)]
    workloads: Vec<Workload>,
    /// Rounds of turns
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Number of the first round, to continue a file of results
    #[arg(long, default_value_t = 1)]
    first_round: u32,
    /// Gets of `warm` and `miss`
    #[arg(long, default_value_t = 200_000)]
    gets: u64,
    /// Gets of `cold`
    #[arg(long, default_value_t = 20_000)]
    cold_gets: u64,
    /// Gets at each depth of `depth`
    #[arg(long, default_value_t = 4_000)]
    depth_gets: u64,
    /// Operations of each mix of `ycsb`
    #[arg(long, default_value_t = 200_000)]
    operations: u64,
    /// Puts of `durable` by one thread, and again by eight; each stops after ten seconds
    #[arg(long, default_value_t = 5_000)]
    durable_puts: u64,
    /// Puts of `kill` until the kill [default: a fifth of the pages, at most 200,000]
    #[arg(long)]
    kill_puts: Option<u64>,
    /// Gets of `squeeze` at each limit
    #[arg(long, default_value_t = 10_000)]
    squeeze_gets: u64,
    /// Threads that put and get
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Bytes for each engine's own cache, if it has one
    #[arg(long, default_value_t = 1 << 30)]
    cache_bytes: u64,
    /// zstd level of every engine but the WARC, whose gzip level is 6
    #[arg(long, default_value_t = 3)]
    level: i32,
    /// Seed of the generated pages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// An existing memory cgroup for `squeeze`, below the mount point of its controller
    #[arg(long)]
    cgroup: Option<String>,
    /// File to append the lines to
    #[arg(long)]
    out: PathBuf,
    /// Never drop the page cache (which needs root): for tests; nothing is cold then
    #[arg(long, hide = true)]
    keep_page_cache: bool,
}

/// A turn: a run, whose turn it is, and the round.
#[derive(Args)]
struct TurnArgs {
    #[arg(long)]
    engine: String,
    #[arg(long)]
    round: u32,
    #[command(flatten)]
    run: RunArgs,
}

/// A run, the engine, and the number of the first page to put.
#[derive(Args)]
struct KillArgs {
    #[arg(long)]
    engine: String,
    #[arg(long)]
    first: u64,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Args)]
struct SqueezeArgs {
    #[arg(long)]
    engine: String,
    #[arg(long)]
    store: PathBuf,
    #[arg(long)]
    cgroup: String,
    #[arg(long)]
    probes: PathBuf,
    #[arg(long)]
    timed: usize,
    #[arg(long)]
    cache_bytes: u64,
    #[arg(long)]
    memory_bytes: u64,
    #[arg(long)]
    level: i32,
}

impl RunArgs {
    fn kinds(&self) -> Outcome<Vec<&'static Kind>> {
        if self.engines.is_empty() {
            return Ok(registry::kinds());
        }
        self.engines.iter().map(|name| registry::kind(name)).collect()
    }

    /// `skip` is the number of this process's arguments before those of the run: program,
    /// subcommand, options of a turn.
    fn plan(self, skip: usize) -> Plan {
        let arguments: Vec<OsString> = std::env::args_os().skip(skip).collect();
        let rounds = self.first_round..self.first_round + self.rounds;
        Plan {
            dir: self.dir,
            corpus: self.corpus,
            pages: self.pages,
            workloads: self.workloads,
            gets: self.gets,
            cold_gets: self.cold_gets,
            depth_gets: self.depth_gets,
            operations: self.operations,
            durable_puts: self.durable_puts,
            kill_puts: self.kill_puts,
            squeeze_gets: self.squeeze_gets,
            threads: self.threads,
            cache_bytes: self.cache_bytes,
            level: self.level,
            seed: self.seed,
            cgroup: self.cgroup,
            out: self.out,
            keep_page_cache: self.keep_page_cache,
            rounds,
            arguments,
        }
    }
}

/// Does what the command line asks for.
pub fn main() -> Outcome<ExitCode> {
    match Cli::parse().command {
        Command::Run(args) => {
            let kinds = args.kinds()?;
            run::run(&args.plan(2), &kinds)
        }
        Command::Turn(args) => run::turn(&args.run.plan(6), registry::kind(&args.engine)?, args.round),
        Command::KillChild(args) => {
            let kind = registry::kind(&args.engine)?;
            kill::child(&kill::Child { kind, first: args.first, plan: args.run.plan(6) })
        }
        Command::SqueezeChild(args) => {
            let SqueezeArgs { store, cgroup, probes, timed, cache_bytes, memory_bytes, level, .. } = args;
            let settings = Settings { cache_bytes, memory_bytes, level, threads: 1 };
            let kind = registry::kind(&args.engine)?;
            squeeze::child(&squeeze::Child { kind, store, cgroup, probes, timed, settings })
        }
    }
}
