//! The verbs, and the flags that all of them have.
//!
//! Owns the way from arguments to a verb. What a verb does is in its own file under `verbs`.

use clap::{Parser, Subcommand};

use crate::outcome::{Failure, Outcome};
use crate::verbs;

/// Crawls the web into a store of pages.
///
/// The store is that of fm-tool; what the crawl itself has to remember stands beside it, in STORE.crawl. A crawl that was stopped, killed or
/// cut off goes on when it is run again.
#[derive(Parser)]
#[command(name = "fm-crawl", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 not found, 2 usage or I/O, 3 damage found, 4 locked, 130 interrupted (143 by SIGTERM).

Example:
  fm-crawl run pages.fm --seed https://example.com/ --contact mailto:me@example.com
  fm-crawl why pages.fm https://example.com/missing";

/// Flags that every verb has.
#[derive(clap::Args)]
pub struct Shared {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Say nothing but errors and results
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

#[derive(Subcommand)]
enum Verb {
    Run(Box<verbs::run::Args>),
    Status(verbs::status::Args),
    Why(verbs::why::Args),
}

impl Cli {
    /// Runs the verb that was asked for.
    pub fn run(&self) -> Result<Outcome, Failure> {
        match &self.verb {
            Verb::Run(args) => verbs::run::run(args, &self.shared),
            Verb::Status(args) => verbs::status::run(args, &self.shared),
            Verb::Why(args) => verbs::why::run(args, &self.shared),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_fit_together_and_every_verb_has_an_example() {
        Cli::command().debug_assert();
        for verb in Cli::command().get_subcommands() {
            let example = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(example.contains(&format!("fm-crawl {} ", verb.get_name())), "{}", verb.get_name());
        }
    }
}
