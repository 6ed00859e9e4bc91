//! `completions`: prints a shell script that completes verbs and flags.

use clap::Command;
use clap_complete::Shell;
use fm_cli::{Failure, Flags, Outcome, Output};

use crate::flags::Shared;

/// Print the completions of a shell
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool completions bash > ~/.local/share/bash-completion/completions/fm-tool")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the verb.
pub fn run(args: &Args, mut program: Command, _: &Shared) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "fm-tool", &mut script);
    let mut out = Output::stdout(Flags::default());
    out.bytes(&script)?;
    out.end(Outcome::Done)
}
