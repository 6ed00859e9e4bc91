//! The verbs, one file each: their arguments, what they do, what they print.

pub mod add;
pub mod backup;
pub mod fetch;
pub mod list;
pub mod pause;
pub mod retry;
pub mod run;
pub mod status;
pub mod why;

use fm_cli::{Failure, Flags, Outcome, Output, words};

/// Says that no crawl runs which could be asked.
fn not_running(store: &std::path::Path) -> Outcome {
    words::complain(format_args!("{}: no crawl is running", store.display()));
    Outcome::NotFound
}

/// Prints what was asked for.
fn print(lines: &str) -> Result<(), Failure> {
    let mut out = Output::stdout(Flags::default());
    out.bytes(lines.as_bytes())?;
    out.finish()
}
