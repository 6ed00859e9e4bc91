//! `fm-crawl`: a crawler over FileMap. Arguments in, pages into a store.
//!
//! A face of the library `crawl`: [`cli`] and `verbs` take arguments, [`face`] prints, logs and
//! writes what a crawl tells, [`failure`] gives its errors their exit codes.

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
