//! `backup`: a copy of a store that is a store, made while another process may write it; what never changes is shared.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use filemap_core::{BackedUp, BackupOptions, Error};
use serde_json::json;

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::target;
use crate::words::{count, size};
use crate::{interrupt, opening, words};

/// Back a store up, while others may write it
#[derive(clap::Args)]
#[command(
    after_help = "The backup is an ordinary store. Where the file system can, it shares the segments that never change with the\n\
    store (hard links), which takes no space and no time; on another file system it shares them with --base, an\n\
    earlier backup there. What is shared is not safe from a failing disk: keep one backup on another. Nothing is\n\
    written to the store, and no lock is taken.\n\n\
    Example:\n  fm-tool backup pages.fm /backup/monday.fm --base /backup/sunday.fm"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The backup's folder, which must be absent or empty
    to: PathBuf,
    /// An earlier backup of the store, to share what it has already
    #[arg(long, value_name = "BACKUP")]
    base: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let options = BackupOptions { base: args.base.clone(), copy_all: false };
    back_up(&args.store, &args.to, &options, shared)
}

/// Makes a backup, and shows how far it is.
pub fn back_up(from: &Path, to: &Path, options: &BackupOptions, shared: &Shared) -> Result<Outcome, Failure> {
    target::refuse_store(target::folder_of(to))?;
    target::refuse_link(to)?;
    let store = opening::engine_to_read(from, shared)?;
    interrupt::listen();
    let bar = Progress::bytes(shared);
    let done = store.backup(to, options, &mut |progress| {
        bar.at(progress.done_bytes, progress.total_bytes, || progress.file.clone());
        if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    drop(bar);
    let done = match done {
        Err(Error::Stopped) => return Ok(interrupt::outcome("nothing was made; begin again")),
        done => done?,
    };
    let mut out = Output::stdout(shared.json);
    tell(&done, to, shared, &mut out)?;
    out.finish()?;
    Ok(Outcome::Done)
}

fn tell(done: &BackedUp, to: &Path, shared: &Shared, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.json(&json!({
            "files": done.files,
            "bytes": done.bytes,
            "linked_bytes": done.linked_bytes,
            "reused_bytes": done.reused_bytes,
            "copied_bytes": done.copied_bytes,
        }));
    }
    if !shared.quiet {
        words::say(format_args!(
            "{} in {}: {} shared with the store, {} with the earlier backup, {} copied",
            to.display(),
            count(done.files, "file"),
            size(done.linked_bytes),
            size(done.reused_bytes),
            size(done.copied_bytes),
        ));
    }
    Ok(())
}
