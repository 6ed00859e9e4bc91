//! `fm-serve`: a store over HTTP. Arguments in, a server of `filemap-http` out.
//!
//! [`cli`] has the arguments and opens the files that they name; `files` reads the token file and
//! the certificate; `redis` has the seen sets on Redis.

mod cli;
mod files;
mod redis;

use std::process::ExitCode;

fn main() -> ExitCode {
    fm_cli::main("fm-serve", cli::Cli::run)
}
