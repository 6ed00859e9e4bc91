//! `fm-bench`: the big runs, each figure beside its target.
//!
//! Every subcommand prints a table, or with `--json` one JSON object. docs/BENCHMARKS.md has
//! command lines and figures.

mod ahead;
mod bare;
mod compare;
mod dictionaries;
mod get;
mod gzip;
mod library;
mod links;
mod load;
mod order;
mod overwrite;
mod puts;
mod reopen;
mod scale;
mod seen;
mod served;
mod small;
mod store;
mod versions;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// FileMap's big benchmark runs.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Print one JSON object, no table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    run: Run,
}

#[derive(Subcommand)]
enum Run {
    /// Baseline: compress and append to one file
    Bare(bare::BareArgs),
    /// Load pages: throughput, latencies, growth, memory, write amplification
    Load(load::LoadArgs),
    /// Load and bare loop in turn
    Compare(compare::CompareArgs),
    /// Random gets, cold and warm
    Get(get::GetArgs),
    /// Random gets of a store of pages, many ahead: what `fm-serve` is compared with
    Ahead(ahead::AheadArgs),
    /// Crate `filemap` on a store of pages, for comparison with bindings of other languages
    Library(library::LibraryArgs),
    /// Kill a load, reopen and check; then clean opens
    Reopen(reopen::ReopenArgs),
    /// Compression dictionaries on the corpus, for docs/DICTIONARIES.md
    Dictionaries(dictionaries::DictionariesArgs),
    /// The store and the same store with `gzip -6` per page, in turn
    Gzip(gzip::GzipArgs),
    /// Overwrite every page: space, write amplification, latencies
    Overwrite(overwrite::OverwriteArgs),
    /// Tables of the model in docs/SCALE.md
    Scale(scale::ScaleArgs),
    /// One key with many versions, and as many keys
    Versions(versions::VersionsArgs),
    /// Many keys with small records: what one costs as a store grows
    Small(small::SmallArgs),
    /// Keys in order: what they cost a load, and lists of a host
    Order(order::OrderArgs),
    /// URL-seen sets: error rates, bytes, speed
    Seen(seen::SeenArgs),
    /// A frontier over a simulated web: links a second, memory, kills
    Frontier(links::FrontierArgs),
    /// A seen set behind a server: URLs a second, by many clients
    Served(served::ServedArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let report = match &cli.run {
        Run::Bare(args) => bare::run(args),
        Run::Load(args) => load::run(args),
        Run::Compare(args) => compare::run(args),
        Run::Get(args) => get::run(args),
        Run::Ahead(args) => ahead::run(args),
        Run::Library(args) => library::run(args),
        Run::Reopen(args) => reopen::run(args),
        Run::Dictionaries(args) => dictionaries::run(args),
        Run::Gzip(args) => gzip::run(args),
        Run::Overwrite(args) => overwrite::run(args),
        Run::Versions(args) => versions::run(args),
        Run::Seen(args) => seen::run(args),
        Run::Frontier(args) => links::run(args),
        Run::Served(args) => served::run(args),
        Run::Small(args) => small::run(args),
        Run::Order(args) => order::run(args),
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

/// Prints; a closed pipe is not an error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
