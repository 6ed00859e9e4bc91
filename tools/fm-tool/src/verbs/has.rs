//! `has`: tells which URLs are pages of the store. Reads the index and key records, no page.

use filemap::Lookup;
use fm_cli::{Failure, Outcome, Output, Progress, interrupt};
use serde_json::json;

use crate::arguments::pages::{Asked, PageArgs};
use crate::flags::Shared;
use crate::json;

/// Check whether pages are in the store
#[derive(clap::Args)]
#[command(
    after_help = "Prints the URLs that are in the store, as given; with -q nothing. Exits with 0 if all are, else with 1.\n\n\
    Example:\n  fm-tool has pages.fm --from frontier.txt --missing > to-fetch.txt"
)]
pub struct Args {
    #[command(flatten)]
    pages: PageArgs,
    /// Print those that are not in the store
    #[arg(long, conflicts_with = "json")]
    missing: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let Asked { store, variant, urls } = args.pages.open(shared)?;
    let mut out = Output::stdout(shared.flags);
    let progress = Progress::records(&shared.flags, None, "URLs").unless_printing(out.is_terminal());
    let (mut asked, mut missed) = (0_u64, Outcome::Done);
    let outcome = progress.each(urls, |url| {
        asked += 1;
        let is_there = store.contains(&Lookup::new(&url).variant(variant.as_ref()))?;
        if !is_there {
            missed = Outcome::NotFound;
        }
        if out.is_json() {
            return out.json(&json::of_url(url.bytes(), json!({ "is_there": is_there })));
        }
        if shared.flags.quiet || is_there == args.missing { Ok(()) } else { out.row("", url.bytes()) }
    })?;
    out.finish()?;
    let stopped = || interrupt::stopped(format_args!("{asked} URLs were checked"));
    // An interrupted list ends early.
    Ok(outcome.filter(|_| !interrupt::asked()).unwrap_or_else(stopped).and(missed))
}
