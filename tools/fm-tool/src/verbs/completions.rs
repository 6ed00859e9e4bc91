//! `completions`: what a shell needs to complete verbs and flags.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;

/// Print the completions of a shell
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool completions bash > ~/.local/share/bash-completion/completions/fm-tool")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fm-tool", &mut script);
    let mut out = Output::stdout(false);
    out.bytes(&script)?;
    out.finish()?;
    Ok(Outcome::Done)
}
