//! `fm-crawl`: a crawler over FileMap. Arguments in, pages into a store.
//!
//! The command line of the library `crawl`: [`cli`] and `verbs` handle arguments, [`face`] prints
//! and logs a crawl's events, [`failure`] gives errors their exit codes.

mod bucket;
mod cli;
mod coverage;
mod edges;
mod face;
mod failure;
mod lines;
mod log;
mod progress;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    fm_cli::main("fm-crawl", cli::Cli::run)
}
