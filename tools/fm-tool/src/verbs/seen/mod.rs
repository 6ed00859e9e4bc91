//! `seen`: the URL-seen test on the command line, one file for each thing that can be done with a set.
//!
//! The sets are those of [`urlindex`]; nothing here knows how one works.

mod ask;
mod create;
mod explain;
mod export;
mod forget;
mod merge;
mod stat;

use clap::Subcommand;

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};

/// Tell new URLs from those that were met before
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "A seen set is a file of its own, no part of a store; of which kind it is, is told by the file. docs/SEEN.md says which to choose.\n\n\
    Example:\n  fm-tool seen create seen.bloom --kind bloom --urls 100000000 --rate 1e-4\n  \
    fm-tool seen add seen.bloom --new-only < links.txt > frontier.txt"
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Create(create::Args),
    Add(ask::AddArgs),
    Check(ask::CheckArgs),
    Stat(stat::Args),
    Explain(explain::Args),
    Merge(merge::Args),
    Export(export::Args),
    Forget(forget::Args),
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    match &args.verb {
        Verb::Create(args) => create::run(args, shared),
        Verb::Add(args) => ask::add(args, shared),
        Verb::Check(args) => ask::check(args, shared),
        Verb::Stat(args) => stat::run(args, shared),
        Verb::Explain(args) => explain::run(args, shared),
        Verb::Merge(args) => merge::run(args, shared),
        Verb::Export(args) => export::run(args, shared),
        Verb::Forget(args) => forget::run(args, shared),
    }
}
