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
mod settings;
mod verbs;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match parse() {
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

/// The arguments; or the exit code of what is said in their place: help, the version, what is wrong with them.
fn parse() -> Result<cli::Cli, ExitCode> {
    cli::Cli::try_parse().map_err(|said| {
        let printed = said.print().and_then(|()| io::stdout().flush());
        let code = match printed {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                words::complain(format_args!("cannot write to standard output: {error}"));
                2
            }
            _ => said.exit_code(),
        };
        ExitCode::from(u8::try_from(code).unwrap_or(2))
    })
}
