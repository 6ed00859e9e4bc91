//! `load`: the old name of `import` for JSON Lines, from standard input unless files are named.

use std::path::PathBuf;

use fm_cli::{Failure, Outcome};

use super::import;
use super::import::report::Form;
use crate::flags::Shared;
use crate::stores::opening::NewStore;

/// Import JSON Lines: `import`, but from standard input by default
#[derive(clap::Args)]
#[command(after_help = "`import` does the same; loading again adds nothing.\n\n\
    Examples:\n  fm-tool dump old.fm | fm-tool load new.fm\n  zcat pages.jsonl.gz | fm-tool load pages.fm")]
pub struct Args {
    /// The store's folder, shards: with several, or an s3:// location, made if missing; or a
    /// server's address
    store: PathBuf,
    /// The files; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    new: NewStore,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let args = import::Args {
        store: args.store.clone(),
        files: args.files.clone(),
        as_received: false,
        keep: Vec::new(),
        from: None,
        shared: false,
        in_place: false,
        archive: None,
        adopt: false,
        new: args.new.clone(),
        form: Form::Load,
    };
    import::run(&args, shared)
}
