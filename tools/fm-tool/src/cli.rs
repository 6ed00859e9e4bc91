//! The list of verbs, and the flags that all of them have.
//!
//! Owns the way from arguments to a verb. Help, completions and man pages are all made from the one description here.

use clap::{Parser, Subcommand};

use crate::outcome::{Failure, Outcome};
use crate::{absence, verbs};

/// Stores web pages by URL, and gets them back.
///
/// Data goes to standard output, words and progress to standard error. A time is given as 2024-05-01T12:00:00Z,
/// 2024-05-01, 20240501120000 or milliseconds since 1970.
#[derive(Parser)]
#[command(name = "fm-tool", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 not found, 2 usage or I/O, 3 damage found, 4 locked, 130 interrupted (143 by SIGTERM).

Ctrl-C stops long work at a safe place and says how to go on; a second one ends it at once, which loses nothing either.

Example:
  fm-tool import pages.fm crawl.warc.gz
  fm-tool get pages.fm https://example.com/ > page.html";

/// Flags that every verb has.
#[derive(clap::Args)]
pub struct Shared {
    /// Print JSON Lines: text as text, other bytes as base64 in a field NAME_base64
    #[arg(long, global = true)]
    pub json: bool,
    /// Say nothing but errors; what was asked for is printed all the same
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Open a store for writing though files of it are gone: the loss is noted in it, and accepted from then on
    #[arg(long, global = true)]
    pub accept_loss: bool,
}

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
    /// Runs the verb that was asked for. Whatever it read, absent files of a store are damage.
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
            Verb::Completions(args) => verbs::completions::run(args),
            Verb::Man(args) => verbs::man::run(args, shared),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_words_and_an_example() {
        fn check(verb: &clap::Command, name: &str) {
            assert!(verb.get_about().is_some(), "{name} says nothing of itself");
            let example = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(example.contains(&format!("{name} ")), "{name} has no example");
            verb.get_subcommands().for_each(|verb| check(verb, &format!("{name} {}", verb.get_name())));
        }
        Cli::command().get_subcommands().for_each(|verb| check(verb, &format!("fm-tool {}", verb.get_name())));
    }
}
