//! `has`: which URLs are pages of the store. Reads the index and key records, no page.

use std::path::PathBuf;

use filemap::Lookup;
use fm_cli::{Failure, Outcome, Output, Progress, interrupt};
use serde_json::Value;

use crate::arguments::urls::UrlArgs;
use crate::arguments::variant::VariantArgs;
use crate::flags::Shared;
use crate::json;
use crate::stores::opening;

/// Check whether pages are in the store
#[derive(clap::Args)]
#[command(
    after_help = "Prints the URLs that are in the store, as given; with -q nothing. Exits with 0 if all are, else with 1.\n\n\
    Example:\n  fm-tool has pages.fm --from frontier.txt --missing > to-fetch.txt"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    #[command(flatten)]
    urls: UrlArgs,
    #[command(flatten)]
    variant: VariantArgs,
    /// Print those that are not in the store
    #[arg(long, conflicts_with = "json")]
    missing: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let variant = args.variant.of(&args.urls)?;
    let urls = args.urls.open()?;
    let store = opening::to_read(&args.store, shared)?;
    interrupt::listen();
    let mut out = Output::stdout(shared.flags.json);
    let progress = Progress::records(&shared.flags, None, "URLs").unless_printing(out.is_terminal());
    let mut outcome = Outcome::Done;
    let mut asked = 0_u64;
    for url in urls {
        let url = url?;
        if interrupt::asked() {
            break;
        }
        asked += 1;
        match store.contains(Lookup::new(&url).variant(variant.as_ref())).map_err(Failure::from) {
            Ok(is_there) => {
                if !is_there {
                    outcome = outcome.and(Outcome::NotFound);
                }
                print(args, shared, url.bytes(), is_there, &mut out)?;
            }
            Err(failure) => progress.pass_over(failure, &mut outcome)?,
        }
        progress.add();
    }
    drop(progress);
    out.finish()?;
    if interrupt::asked() {
        outcome = outcome.and(interrupt::stopped(format_args!("{asked} URLs were looked for")));
    }
    Ok(outcome)
}

fn print(args: &Args, shared: &Shared, url: &[u8], is_there: bool, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        let fields = [json::field("url", url), ("is_there".to_owned(), Value::from(is_there))];
        return out.json(&Value::Object(fields.into_iter().collect()));
    }
    if shared.flags.quiet || is_there == args.missing {
        return Ok(());
    }
    out.shown(url)?;
    out.line("")
}
