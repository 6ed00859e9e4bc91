//! `seen`: URL seen sets on the command line, one file a verb. The sets themselves are in
//! [`urlindex`].

mod ask;
mod asked;
mod create;
mod explain;
mod export;
mod forget;
mod lines;
mod merge;
mod redis;
mod sets;
mod stat;

use clap::Subcommand;
use fm_cli::{Failure, Outcome};

use crate::flags::Shared;

/// Tell new URLs from URLs seen before
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "A seen set is a separate file, not part of a store; its kind is recorded in the file. docs/SEEN.md helps to choose one. create, add, check and stat take redis://HOST:PORT/NAME too, for a set that many crawlers share; its password comes from REDISCLI_AUTH.\n\n\
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
