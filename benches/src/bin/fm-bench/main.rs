//! The big runs: loads, random gets, reopens, each against its bar.
//!
//! Every subcommand prints a table, or with `--json` one JSON object. docs/BENCHMARKS.md has the command lines and the
//! figures that they gave.

mod bare;
mod chart;
mod compare;
mod dictionaries;
mod disk;
mod get;
mod gzip;
mod load;
mod overwrite;
mod reopen;
mod scale;
mod seen;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod table;
mod versions;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use filemap_benches::bare::SyncEvery;
use filemap_benches::drive::{Outcome, Plan};
use filemap_benches::source::Source;

/// FileMap's big benchmark runs.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Print one JSON object and no table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    run: Run,
}

#[derive(Subcommand)]
enum Run {
    /// The baseline: compress and append to one file
    Bare(bare::BareArgs),
    /// Pages into a store: throughput, latencies, growth, memory, write amplification
    Load(load::LoadArgs),
    /// The load beside the bare loop, taking turns
    Compare(compare::CompareArgs),
    /// Random accesses, cold and warm
    Get(get::GetArgs),
    /// A load killed in the middle, reopened and checked; then clean opens
    Reopen(reopen::ReopenArgs),
    /// What dictionaries do for the corpus, for docs/DICTIONARIES.md
    Dictionaries(dictionaries::DictionariesArgs),
    /// The store beside itself with `gzip -6` a page, taking turns
    Gzip(gzip::GzipArgs),
    /// Every page put again and again: space, write amplification, latencies
    Overwrite(overwrite::OverwriteArgs),
    /// The model's tables for docs/SCALE.md
    Scale(scale::ScaleArgs),
    /// One key with very many versions beside as many keys
    Versions(versions::VersionsArgs),
    /// The URL-seen sets: rates, bytes and speed
    Seen(seen::SeenArgs),
}

/// Where pages come from and how they are put.
#[derive(Args, Clone)]
struct PutArgs {
    /// Pages to put [default: a million, or the whole corpus once]
    #[arg(long)]
    pages: Option<u64>,
    /// Put the corpus under this directory (see benches/corpus.sh) and not generated pages
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Seed of the generated pages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that put
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// zstd level
    #[arg(long, default_value_t = 1)]
    level: i32,
    /// `buffered`, `sync`, or the milliseconds between two syncs
    #[arg(long, default_value = "1000", value_parser = durability)]
    durability: SyncEvery,
    /// Explain every put over 1 ms; costs about 4 us a put
    #[arg(long)]
    explain: bool,
    /// Take throughput every so many pages
    #[arg(long, default_value_t = 1_000_000)]
    mark_every: u64,
}

impl PutArgs {
    fn source(&self) -> Outcome<Source> {
        Ok(Source::open(self.corpus.as_deref(), self.seed)?)
    }

    fn plan(&self, source: &Source, first: u64) -> Plan {
        let pages = self.pages.unwrap_or(match source {
            Source::Generated(_) => 1_000_000,
            Source::Corpus(corpus) => corpus.len(),
        });
        Plan { pages: first..pages, threads: self.threads, mark_every: self.mark_every, explain: self.explain }
    }
}

fn durability(text: &str) -> Result<SyncEvery, String> {
    match text {
        "buffered" => Ok(SyncEvery::Never),
        "sync" => Ok(SyncEvery::Put),
        ms => ms
            .parse()
            .map(|ms| SyncEvery::Interval(Duration::from_millis(ms)))
            .map_err(|_| "is `buffered`, `sync` or a number of milliseconds".into()),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let report = match &cli.run {
        Run::Bare(args) => bare::run(args),
        Run::Load(args) => load::run(args),
        Run::Compare(args) => compare::run(args),
        Run::Get(args) => get::run(args),
        Run::Reopen(args) => reopen::run(args),
        Run::Dictionaries(args) => dictionaries::run(args),
        Run::Gzip(args) => gzip::run(args),
        Run::Overwrite(args) => overwrite::run(args),
        Run::Versions(args) => versions::run(args),
        Run::Seen(args) => seen::run(args),
        Run::Scale(args) => {
            print(&scale::run(args));
            return ExitCode::SUCCESS;
        }
    };
    match report {
        Ok(report) => {
            print(&if cli.json { format!("{}\n", report.to_json()) } else { report.to_text() });
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("fm-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A reader that has seen enough and closed the pipe is not an error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
