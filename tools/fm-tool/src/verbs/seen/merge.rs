//! `seen merge`: takes up the URLs of other sets.

use std::path::{Path, PathBuf};

use serde_json::json;
use urlindex::{SeenSet, StoredSet};

use crate::canonical;
use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::seen_set::{self, CanonicalArg, MemoryArg};
use crate::{interrupt, words};

/// Take up the URLs of other sets
#[derive(clap::Args)]
#[command(
    after_help = "A bitmap takes bitmaps of as many slots, a Bloom filter those of the same shape, hash and seed, a set on disk those with fingerprints \
    of the same length and seed, and every set takes tries. All \
    must have URLs of one canonicaliser. All sets are looked at before anything is changed; a merge that was stopped goes on when \
    it is run again. The number that is added is an estimate for filters.\n\n\
    Example:\n  fm-tool seen merge all.bits monday.bits tuesday.bits"
)]
pub struct Args {
    /// The set to add to
    set: PathBuf,
    /// The sets that are added
    #[arg(required = true)]
    from: Vec<PathBuf>,
    #[command(flatten)]
    canonical: CanonicalArg,
    #[command(flatten)]
    memory: MemoryArg,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let fail = |error| seen_set::failure(&args.set, error);
    let set = seen_set::to_change_within(&args.set, &args.memory)?;
    let ours = seen_set::canonicalizer(&set, &args.set, args.canonical.canonical.as_ref())?;
    for path in &args.from {
        let from = seen_set::to_read(path)?;
        let theirs = seen_set::canonicalizer(&from, path, args.canonical.canonical.as_ref())?;
        if !seen_set::is_same(&*ours, &*theirs) {
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
    seen_set::noted_canonicalizer(&set, &args.set, args.canonical.canonical.as_ref())?;
    interrupt::listen();
    let mut out = Output::stdout(shared.json);
    let mut merged = 0;
    let done = args.from.iter().take_while(|_| !interrupt::asked()).try_for_each(|path| {
        merged += 1;
        merge(&set, path, args, shared, &mut out)
    });
    // What was taken up is there, whatever stopped the rest.
    let closed = set.close().map_err(fail);
    done?;
    closed?;
    out.finish()?;
    if interrupt::asked() && merged < args.from.len() {
        return Ok(interrupt::outcome(format_args!(
            "{merged} of {} sets were taken up, which stays so",
            args.from.len()
        )));
    }
    Ok(Outcome::Done)
}

fn merge(set: &StoredSet, path: &Path, args: &Args, shared: &Shared, out: &mut Output) -> Result<(), Failure> {
    let from = seen_set::to_read(path)?;
    let merged = set.merge(&from).map_err(|error| seen_set::failure(&args.set, error))?;
    set.sync().map_err(|error| seen_set::failure(&args.set, error))?;
    if out.is_json() {
        return out.json(&json!({ "set": path.display().to_string(), "urls": from.len(), "added": merged.added }));
    }
    if !shared.quiet {
        let urls = words::count(from.len(), "URL");
        words::say(format_args!("{}: {urls}, {} of them added", path.display(), merged.added));
    }
    Ok(())
}
