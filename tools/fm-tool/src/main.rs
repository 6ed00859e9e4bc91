//! `fm-tool`: FileMap's command line. Arguments in, printed values of the crates out.
//!
//! [`cli`] lists the verbs, each of which is one file or folder of `verbs`. Beside them stands
//! what several verbs share: `arguments` that mean the same in each, `stores` and how they are
//! opened, `input` that Ctrl-C ends, `json`. What every command line shares is the crate `fm-cli`.
//! Data goes to standard output, messages to standard error, and no reading verb ever creates a
//! store.

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
