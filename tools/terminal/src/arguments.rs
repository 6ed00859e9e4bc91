//! A program's arguments; help, its version and what is wrong with them are said in their place.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

/// The arguments of the program `name`.
///
/// # Errors
///
/// The exit code to end with, once help, the version, or what is wrong with the arguments was said: 2 too when that could not
/// be written. A reader that has closed the pipe is no error.
pub fn parse<P: Parser>(name: &str) -> Result<P, ExitCode> {
    P::try_parse().map_err(|said| {
        let printed = said.print().and_then(|()| io::stdout().flush());
        let code = match printed {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                crate::say(format_args!("{name}: cannot write to standard output: {error}"));
                2
            }
            _ => said.exit_code(),
        };
        ExitCode::from(u8::try_from(code).unwrap_or(2))
    })
}
