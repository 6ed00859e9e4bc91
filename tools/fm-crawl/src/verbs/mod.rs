//! The verbs, one file each: their arguments, what they do, what they print.

pub mod list;
mod opening;
pub mod retry;
pub mod run;
pub mod status;
pub mod why;

use fm_cli::{Failure, Flags, Output};

/// Prints what was asked for.
fn print(lines: &str) -> Result<(), Failure> {
    let mut out = Output::stdout(Flags::default());
    out.bytes(lines.as_bytes())?;
    out.finish()
}
