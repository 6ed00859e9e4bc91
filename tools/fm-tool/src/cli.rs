//! The command line: the list of verbs, and which function runs each.
//!
//! Help, completions and man pages are generated from this description.

use clap::{CommandFactory, Parser, Subcommand};
use fm_cli::{Failure, Outcome, VALUES_AND_EXIT_CODES};

use crate::flags::Shared;
use crate::stores::absence;
use crate::verbs;

/// Store web pages by URL, and get them back.
///
/// Data goes to standard output, messages and progress to standard error.
#[derive(Parser)]
#[command(name = "fm-tool", version, arg_required_else_help = true, after_help = after_help())]
pub struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    verb: Verb,
}

fn after_help() -> String {
    format!("{VALUES_AND_EXIT_CODES}\n\n{AFTER_HELP}")
}

const AFTER_HELP: &str = "\
Ctrl-C stops long work at a safe place and says how to continue; a second Ctrl-C ends it at once,
which is safe too.

Example:
  fm-tool import pages.fm crawl.warc.gz
  fm-tool get pages.fm https://example.com/ > page.html";

#[derive(Subcommand)]
enum Verb {
    Import(verbs::import::Args),
    Get(verbs::get::Args),
    Put(verbs::put::Args),
    Rm(verbs::rm::Args),
    Has(verbs::has::Args),
    Head(verbs::head::Args),
    History(verbs::history::Args),
    Ls(verbs::ls::Args),
    Count(verbs::count::Args),
    Top(verbs::top::Args),
    Stat(verbs::stat::Args),
    Verify(verbs::verify::Args),
    Repair(verbs::repair::Args),
    Train(verbs::train::Args),
    Recompress(verbs::recompress::Args),
    Dump(verbs::dump::Args),
    Load(verbs::load::Args),
    Segments(verbs::segments::Args),
    Compact(verbs::compact::Args),
    Prune(verbs::prune::Args),
    Erase(verbs::erase::Args),
    Backup(verbs::backup::Args),
    Copy(verbs::copy::Args),
    Merge(verbs::merge::Args),
    Seen(verbs::seen::Args),
    Inspect(verbs::inspect::Args),
    Completions(verbs::completions::Args),
    Man(verbs::man::Args),
}

impl Cli {
    /// Runs the verb; absent files of a store that it read count as damage.
    pub fn run(&self) -> Result<Outcome, Failure> {
        Ok(self.verb()?.and(absence::outcome()))
    }

    fn verb(&self) -> Result<Outcome, Failure> {
        let shared = &self.shared;
        match &self.verb {
            Verb::Import(args) => verbs::import::run(args, shared),
            Verb::Get(args) => verbs::get::run(args, shared),
            Verb::Put(args) => verbs::put::run(args, shared),
            Verb::Rm(args) => verbs::rm::run(args, shared),
            Verb::Has(args) => verbs::has::run(args, shared),
            Verb::Head(args) => verbs::head::run(args, shared),
            Verb::History(args) => verbs::history::run(args, shared),
            Verb::Ls(args) => verbs::ls::run(args, shared),
            Verb::Count(args) => verbs::count::run(args, shared),
            Verb::Top(args) => verbs::top::run(args, shared),
            Verb::Stat(args) => verbs::stat::run(args, shared),
            Verb::Verify(args) => verbs::verify::run(args, shared),
            Verb::Repair(args) => verbs::repair::run(args, shared),
            Verb::Train(args) => verbs::train::run(args, shared),
            Verb::Recompress(args) => verbs::recompress::run(args, shared),
            Verb::Dump(args) => verbs::dump::run(args, shared),
            Verb::Load(args) => verbs::load::run(args, shared),
            Verb::Segments(args) => verbs::segments::run(args, shared),
            Verb::Compact(args) => verbs::compact::run(args, shared),
            Verb::Prune(args) => verbs::prune::run(args, shared),
            Verb::Erase(args) => verbs::erase::run(args, shared),
            Verb::Backup(args) => verbs::backup::run(args, shared),
            Verb::Copy(args) => verbs::copy::run(args, shared),
            Verb::Merge(args) => verbs::merge::run(args, shared),
            Verb::Seen(args) => verbs::seen::run(args, shared),
            Verb::Inspect(args) => verbs::inspect::run(args, shared),
            Verb::Completions(args) => verbs::completions::run(args, Cli::command()),
            Verb::Man(args) => verbs::man::run(args, Cli::command(), shared),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_words_and_an_example() {
        fn check(verb: &clap::Command, name: &str) {
            assert!(verb.get_about().is_some(), "{name} has no help");
            let example = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(example.contains(&format!("{name} ")), "{name} has no example");
            verb.get_subcommands().for_each(|verb| check(verb, &format!("{name} {}", verb.get_name())));
        }
        Cli::command().get_subcommands().for_each(|verb| check(verb, &format!("fm-tool {}", verb.get_name())));
    }
}
