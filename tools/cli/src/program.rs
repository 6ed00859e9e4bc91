//! A program from its arguments to its exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::outcome::{Failure, Outcome};
use crate::words;

/// Parses the arguments of the program `name`, runs it, prints its failure and returns its exit
/// code.
///
/// Help, the version and bad arguments end the program before `run`; if they cannot be written,
/// with exit code 2. A closed pipe is not an error.
pub fn main<P: Parser>(name: &'static str, run: impl FnOnce(&P) -> Result<Outcome, Failure>) -> ExitCode {
    words::set_program(name);
    let arguments = match P::try_parse() {
        Ok(arguments) => arguments,
        Err(message) => return ExitCode::from(print(&message)),
    };
    match run(&arguments) {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(failure) => {
            if !matches!(failure, Failure::PipeClosed) {
                words::complain(&failure);
            }
            ExitCode::from(failure.code())
        }
    }
}

fn print(message: &clap::Error) -> u8 {
    match message.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            words::complain(format_args!("cannot write to standard output: {error}"));
            2
        }
        _ => u8::try_from(message.exit_code()).unwrap_or(2),
    }
}
