//! `rm`: removes pages with all their versions. A page that is not there is said, and the others are removed all the
//! same.

use std::path::PathBuf;

use serde_json::Value;

use crate::address::Address;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::{Shared, json, opening, words};

/// Remove pages, with all their versions
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool rm pages.fm https://example.com/old")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The pages' URLs
    #[arg(value_name = "URL", required = true)]
    urls: Vec<Address>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_change(&args.store, shared)?;
    let mut out = Output::stdout(shared.json);
    let mut outcome = Outcome::Done;
    for url in &args.urls {
        let removed = store.remove(url)?;
        if !removed {
            words::complain(format_args!("{url} is not in {}", args.store.display()));
            outcome = outcome.and(Outcome::NotFound);
        }
        if out.is_json() {
            let fields = [json::field("url", url.bytes()), ("removed".to_owned(), Value::from(removed))];
            out.json(&Value::Object(fields.into_iter().collect()))?;
        } else if removed && !shared.quiet {
            words::say(format_args!("removed {url}"));
        }
    }
    store.close()?;
    out.finish()?;
    Ok(outcome)
}
