//! The command line: what can be run and how much of it, with the defaults of a measured run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use filemap_benches::drive::Outcome;

use crate::workload::Workload;
use crate::{run, turn, workload};

/// FileMap beside other stores, on the same pages.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run workloads over engines that take turns, and append the figures to a file
    Run(RunArgs),
    /// One engine's turn of one round
    #[command(hide = true)]
    Turn(turn::TurnArgs),
    /// Puts and syncs until it is killed
    #[command(hide = true)]
    KillChild(workload::kill::ChildArgs),
    /// Gets under a limit on memory
    #[command(hide = true)]
    SqueezeChild(workload::squeeze::ChildArgs),
}

/// What to run.
#[derive(Args, Clone)]
pub struct RunArgs {
    /// A directory on the disk to measure; stores are made and removed in it
    #[arg(long)]
    pub dir: PathBuf,
    /// Put the corpus under this directory (see benches/corpus.sh)
    #[arg(long, required_unless_present = "pages", conflicts_with = "pages")]
    pub corpus: Option<PathBuf>,
    /// Put so many generated pages
    #[arg(long, value_parser = clap::value_parser!(u64).range(16..1 << 32))]
    pub pages: Option<u64>,
    /// Engines in the order of their turns [default: all that are built in]
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Workloads; they run in an order of their own, and `load` always runs
    #[arg(long, value_delimiter = ',', default_values_t = Workload::ALL)]
    pub workloads: Vec<Workload>,
    /// Rounds of turns
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Number of the first round, to go on with a file
    #[arg(long, default_value_t = 1)]
    pub first_round: u32,
    /// Gets of `warm` and `miss`
    #[arg(long, default_value_t = 200_000)]
    pub gets: u64,
    /// Gets of `cold`
    #[arg(long, default_value_t = 20_000)]
    pub cold_gets: u64,
    /// Gets at each depth of `depth`
    #[arg(long, default_value_t = 4_000)]
    pub depth_gets: u64,
    /// Operations of each mix of `ycsb`
    #[arg(long, default_value_t = 200_000)]
    pub operations: u64,
    /// Puts of `durable` by one thread, and again by eight; each stops after ten seconds
    #[arg(long, default_value_t = 5_000)]
    pub durable_puts: u64,
    /// Puts of `kill` until the kill [default: a fifth of the pages, at most 200,000]
    #[arg(long)]
    pub kill_puts: Option<u64>,
    /// Gets of `squeeze` at each limit
    #[arg(long, default_value_t = 10_000)]
    pub squeeze_gets: u64,
    /// Threads that put and get
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Memory for the cache of each engine that has one of its own
    #[arg(long, default_value_t = 1 << 30)]
    pub cache_bytes: u64,
    /// zstd level of every engine but the WARC, whose gzip level is 6
    #[arg(long, default_value_t = 3)]
    pub level: i32,
    /// Seed of the generated pages
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// An existing memory cgroup for `squeeze`, below the mount point of its controller
    #[arg(long)]
    pub cgroup: Option<String>,
    /// File to append the lines to
    #[arg(long)]
    pub out: PathBuf,
    /// Leave the page cache as it is where it would be dropped, which needs root: for tests, nothing is cold then
    #[arg(long, hide = true)]
    pub keep_page_cache: bool,
}

impl RunArgs {
    /// How many puts precede the kill.
    pub fn kill_puts(&self, pages: u64) -> u64 {
        self.kill_puts.unwrap_or((pages / 5).min(200_000)).max(1)
    }
}

/// Does what the command line asks for.
pub fn main() -> Outcome<ExitCode> {
    match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Turn(args) => turn::run(&args),
        Command::KillChild(args) => workload::kill::child(&args),
        Command::SqueezeChild(args) => workload::squeeze::child(&args),
    }
}
