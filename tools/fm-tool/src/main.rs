//! `fm-tool`: FileMap's command line. Arguments in, printed values of the crates out.
//!
//! [`cli`] lists the verbs; each is one file or folder of `verbs`. Several verbs share `arguments`
//! with the same meaning, `stores` and how they are opened, `input` that Ctrl-C ends, and `json`.
//! The crate `fm-cli` has what all command lines share. Data goes to standard output, messages to
//! standard error, and no reading verb ever creates a store.

mod arguments;
mod cli;
mod flags;
mod input;
mod json;
mod revisits;
mod stores;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    fm_cli::main("fm-tool", cli::Cli::run)
}
