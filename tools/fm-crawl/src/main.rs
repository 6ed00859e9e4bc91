//! `fm-crawl`: a crawler over FileMap. Arguments in, pages into a store.
//!
//! From the top down: [`cli`] and `verbs` take arguments; [`crawl`] hands out pages, has them visited and makes durable what came of it;
//! a visit uses [`robots`], [`fetch`], [`links`] and [`record`], none of which knows another but `robots`, which fetches; [`settings`],
//! [`scope`], [`limits`] and [`failure`] are what all of them speak of. Which page is next is the frontier's matter, what a URL's canonical
//! form is `urlindex`'s, and how pages are kept the store's.
//!
//! Invariants: nothing is fetched from an address that was not checked; every limit that is met has a name in [`failure`]; what the
//! frontier calls done is in the store.

mod after;
mod amount;
mod bodies;
mod cli;
mod clock;
mod crawl;
mod failure;
mod fetch;
mod interrupt;
mod limits;
mod links;
mod outcome;
mod output;
mod progress;
mod record;
mod robots;
mod scope;
mod seen;
mod sequence;
mod settings;
mod verbs;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli: cli::Cli = match terminal::parse("fm-crawl") {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let end = cli.run();
    if let Err(failure) = &end
        && failure.code() > 0
    {
        words::complain(failure);
    }
    outcome::exit_code(&end)
}
