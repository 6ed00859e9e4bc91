//! `fm-tool`: FileMap's command line. Arguments in, printed values of the crates out.
//!
//! [`cli`] has the list of verbs; what a verb does is in its own file under `verbs`, and what it knows of pages and
//! stores is in the crates. Data goes to standard output, words to standard error, and no reading verb ever creates a
//! store.

mod absence;
mod address;
mod amount;
mod canonical;
mod cli;
mod disk;
mod hosts;
mod interrupt;
mod json;
mod lines;
mod load;
mod opening;
mod openmetrics;
mod outcome;
mod output;
mod progress;
mod quantity;
mod seen_set;
mod selection;
mod target;
mod time;
mod urls;
mod variant;
mod verbs;
mod words;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::outcome::Failure;

fn main() -> ExitCode {
    let cli: Cli = match terminal::parse("fm-tool") {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let end = cli.run();
    match &end {
        Ok(_) | Err(Failure::PipeClosed) => {}
        Err(failure) => words::complain(failure),
    }
    outcome::exit_code(&end)
}
