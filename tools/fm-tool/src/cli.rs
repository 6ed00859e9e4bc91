//! The command line: the verbs, and the function that runs each.
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
A server's address, such as http://127.0.0.1:8640, stands for a store where pages are read, put or
removed; FILEMAP_TOKEN has its token, FILEMAP_CA_FILE a file of certificates to trust.

shards:/disk1/a.fm,/disk2/b.fm is one store over several folders, by the host of a page.

s3://bucket/prefix is a store in object storage, in programs built with feature `cloud`:
AWS_ENDPOINT, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY give its address and the
credentials. FILEMAP_CACHE_DIR names a folder for a cache of what is read, FILEMAP_CACHE_SIZE its
size (1GiB if not given). A verb that does not support it says what to do instead.

Ctrl-C stops long work at a safe place and says how to continue; a second Ctrl-C ends it at once,
which is safe too.

Example:
  fm-tool import pages.fm crawl.warc.gz
  fm-tool get pages.fm https://example.com/ > page.html";

/// The verbs, in the order of the help, with the module of each.
macro_rules! verbs {
    ($($verb:ident $module:ident),*; made of the description: $($page:ident $pages:ident),*) => {
        #[derive(Subcommand)]
        enum Verb {
            $($verb(verbs::$module::Args),)*
            $($page(verbs::$pages::Args),)*
        }

        impl Verb {
            fn run(&self, shared: &Shared) -> Result<Outcome, Failure> {
                match self {
                    $(Verb::$verb(args) => verbs::$module::run(args, shared),)*
                    $(Verb::$page(args) => verbs::$pages::run(args, Cli::command(), shared),)*
                }
            }
        }
    };
}

#[rustfmt::skip]
verbs!(
    Import import, Get get, Put put, Rm rm, Has has, Head head, History history, Ls ls, Count count, Top top,
    Stat stat, Verify verify, Repair repair, Train train, Recompress recompress, Dump dump, Load load,
    Segments segments, Archives archives, Compact compact, Prune prune, Erase erase, Backup backup, Copy copy, Merge merge,
    Seen seen, Inspect inspect; made of the description: Completions completions, Man man
);

impl Cli {
    /// Runs the verb. Missing files of a store that it read count as damage.
    pub fn run(&self) -> Result<Outcome, Failure> {
        Ok(self.verb.run(&self.shared)?.and(absence::outcome()))
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
