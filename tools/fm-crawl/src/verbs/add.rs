//! `add`: adds start pages to a crawl, whether it is running or not.

use std::collections::HashSet;
use std::path::PathBuf;

use crawl::Link;
use crawl::run::control::{self, Request};
use crawl::run::{opening, starts};
use fm_cli::times::now_ms;
use fm_cli::{Failure, Flags, Outcome, words};
use serde_json::json;

use super::print;
use crate::failure;

/// Give a crawl more start pages
#[derive(clap::Args)]
#[command(after_help = "\
Start pages are remembered, and widen the scope as `run --seed` does. A running crawl takes them at once.

Example:
  fm-crawl add pages.fm https://example.org/ https://example.net/")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Start pages
    #[arg(required = true, num_args = 1..)]
    urls: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store).map_err(failure::of)?;
    let mut added = 0;
    let request = Request::Add { urls: args.urls.clone() };
    if !control::ask(folder.path(), &request, |answer| added = answer["added"].as_u64().unwrap_or(0))
        .map_err(failure::of)?
    {
        let instead = "no crawl runs here: give start pages to `fm-crawl run --seed`";
        opening::not_in_bucket(&settings, "`add`", instead).map_err(failure::of)?;
        let (store, is_as_far) = opening::store_to_read(&args.store, &folder).map_err(failure::of)?;
        is_as_far.map_err(failure::of)?;
        let links =
            starts::links(&args.urls, &**store.canonicalizer(), settings.limits.url_bytes).map_err(failure::of)?;
        let mut frontier = opening::frontier_to_ask(&folder, &settings).map_err(failure::of)?;
        let texts: Vec<_> = links.iter().map(Link::text).collect();
        added = frontier.seed(&texts, now_ms()).map_err(|error| failure::of(error.into()))?;
        // No crawl is running, so the frontier is free. Reads the current settings.
        let (_, mut settings) = opening::settings(&args.store).map_err(failure::of)?;
        let mut known: HashSet<String> = settings.starts().cloned().collect();
        settings.seeds.extend(links.iter().map(|link| link.url.clone()).filter(|url| known.insert(url.clone())));
        folder.keep(&settings).map_err(failure::of)?;
        frontier.close().map_err(|error| failure::of(error.into()))?;
    }
    let lines = match flags.json {
        true => format!("{}\n", json!({ "added": added })),
        false => format!("{} added\n", words::count(added, "start page")),
    };
    print(&lines)?;
    Ok(Outcome::Done)
}
