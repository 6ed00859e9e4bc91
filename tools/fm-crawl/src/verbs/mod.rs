//! The verbs, one file each: arguments, work and output.

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

/// Reports that no crawl is running.
fn not_running(store: &std::path::Path) -> Outcome {
    words::complain(format_args!("{}: no crawl is running", store.display()));
    Outcome::NotFound
}

/// Prints the result.
fn print(lines: &str) -> Result<(), Failure> {
    let mut out = Output::stdout(Flags::default());
    out.bytes(lines.as_bytes())?;
    out.finish()
}
