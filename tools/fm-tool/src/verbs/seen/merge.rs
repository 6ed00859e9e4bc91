//! `seen merge`: adds the URLs of other sets to one set.

use std::path::{Path, PathBuf};

use fm_cli::{Failure, Outcome, Output, interrupt, words};
use serde_json::json;
use urlindex::SeenSet;
use urlindex::stored::StoredSet;

use super::sets::{self, CanonicalArg, MemoryArg};
use crate::flags::Shared;
use fm_cli::canonical;

/// Add the URLs of other sets
#[derive(clap::Args)]
#[command(
    after_help = "A bitmap takes bitmaps with the same number of slots, a Bloom filter those of the same shape, hash and seed, a set on disk \
    those with the same length and seed of fingerprints, and every set takes tries. All must have the same canonicaliser. All sets \
    are checked before anything is changed; an interrupted merge continues when it is run again. For filters the number of added \
    URLs is an estimate.\n\n\
    Example:\n  fm-tool seen merge all.bits monday.bits tuesday.bits"
)]
pub struct Args {
    /// The set to add to
    set: PathBuf,
    /// The sets to add
    #[arg(required = true)]
    from: Vec<PathBuf>,
    #[command(flatten)]
    canonical: CanonicalArg,
    #[command(flatten)]
    memory: MemoryArg,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let fail = |error| sets::failure(&args.set, error);
    let set = sets::to_change_within(&args.set, &args.memory)?;
    let ours = sets::canonicalizer(&set, &args.set, args.canonical.canonical.as_ref())?;
    for path in &args.from {
        let from = sets::to_read(path)?;
        let theirs = sets::canonicalizer(&from, path, args.canonical.canonical.as_ref())?;
        if !sets::is_same(&*ours, &*theirs) {
            return Err(Failure::Usage(format!(
                "the URLs of {} were made canonical by `{}`, those of {} by `{}`: together they would be called new again",
                args.set.display(),
                canonical::words(&*ours),
                path.display(),
                canonical::words(&*theirs)
            )));
        }
        set.check_mergeable(&from).map_err(fail)?;
    }
    sets::noted_canonicalizer(&set, &args.set, args.canonical.canonical.as_ref())?;
    interrupt::listen();
    let mut out = Output::stdout(shared.flags);
    let mut merged = 0;
    let done = args.from.iter().take_while(|_| !interrupt::asked()).try_for_each(|path| {
        merged += 1;
        merge(&set, path, args, &mut out)
    });
    // Merged sets stay merged, whatever stopped the others.
    let closed = set.close().map_err(fail);
    done.and(closed)?;
    out.finish()?;
    let sets = args.from.len();
    if interrupt::asked() && merged < sets {
        return Ok(interrupt::stopped(format_args!("{merged} of {sets} sets were merged and stay so")));
    }
    Ok(Outcome::Done)
}

fn merge(set: &StoredSet, path: &Path, args: &Args, out: &mut Output) -> Result<(), Failure> {
    let from = sets::to_read(path)?;
    let merged = set.merge(&from).map_err(|error| sets::failure(&args.set, error))?;
    set.sync().map_err(|error| sets::failure(&args.set, error))?;
    let line = json!({ "set": path.display().to_string(), "urls": from.len(), "added": merged.added });
    let urls = words::count(from.len(), "URL");
    out.report(&line, format_args!("{}: {urls}, {} of them added", path.display(), merged.added))
}
