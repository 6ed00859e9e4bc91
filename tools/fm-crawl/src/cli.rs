//! The command line: the verbs, each in a file of `verbs`.

use clap::{Parser, Subcommand};
use fm_cli::{Failure, Flags, Outcome, VALUES_AND_EXIT_CODES};

use crate::verbs;

/// Crawl the web into a store of pages.
///
/// `fm-tool` reads the store. The crawl's own state is beside it, in STORE.crawl. A crawl that was
/// stopped, killed or cut off continues when it is run again.
#[derive(Parser)]
#[command(name = "fm-crawl", version, arg_required_else_help = true, after_help = after_help())]
pub struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    verb: Verb,
}

fn after_help() -> String {
    format!("{VALUES_AND_EXIT_CODES}\n\n{EXAMPLE}")
}

const EXAMPLE: &str = "\
Example:
  fm-crawl run pages.fm --seed https://example.com/ --contact mailto:me@example.com
  fm-crawl why pages.fm https://example.com/missing";

#[derive(Subcommand)]
enum Verb {
    Run(Box<verbs::run::Args>),
    Status(verbs::status::Args),
    Why(verbs::why::Args),
    List(verbs::list::Args),
    Retry(verbs::retry::Args),
    Add(verbs::add::Args),
    Fetch(verbs::fetch::Args),
    Backup(verbs::backup::Args),
    Pause(verbs::pause::Pause),
    Resume(verbs::pause::Resume),
}

impl Cli {
    /// Runs the verb.
    pub fn run(&self) -> Result<Outcome, Failure> {
        match &self.verb {
            Verb::Run(args) => verbs::run::run(args, &self.flags),
            Verb::Status(args) => verbs::status::run(args, &self.flags),
            Verb::Why(args) => verbs::why::run(args, &self.flags),
            Verb::List(args) => verbs::list::run(args, &self.flags),
            Verb::Retry(args) => verbs::retry::run(args, &self.flags),
            Verb::Add(args) => verbs::add::run(args, &self.flags),
            Verb::Fetch(args) => verbs::fetch::run(args, &self.flags),
            Verb::Backup(args) => verbs::backup::run(args, &self.flags),
            Verb::Pause(args) => verbs::pause::pause(args, &self.flags),
            Verb::Resume(args) => verbs::pause::resume(args, &self.flags),
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
