//! Standard output: what was asked for, and nothing else.

use std::io::{self, ErrorKind, Write};

use crate::outcome::Failure;

/// Writes lines that are whole.
///
/// # Errors
/// [`Failure::PipeClosed`] when nobody reads any more; the system's.
pub fn print(lines: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::Io(format!("cannot write to standard output: {error}")),
    })
}
