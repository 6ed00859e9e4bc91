//! `add`: more start pages, for a crawl that runs or stands still.

use std::collections::HashSet;
use std::path::PathBuf;

use fm_cli::times::now_ms;
use fm_cli::{Failure, Flags, Outcome, words};
use serde_json::json;

use super::{opening, print, starts};
use crate::crawl::control::{self, Request};
use crate::failure::of_frontier;
use crate::links::Link;

/// Give a crawl more start pages
#[derive(clap::Args)]
#[command(after_help = "\
They are remembered, and widen the scope as `run --seed` does. A crawl that runs takes them at once.

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
    let (folder, settings) = opening::settings(&args.store)?;
    let mut added = 0;
    let request = Request::Add { urls: args.urls.clone() };
    if !control::ask(folder.path(), &request, |answer| added = answer["added"].as_u64().unwrap_or(0))? {
        let (store, is_as_far) = opening::store_to_read(&args.store, &folder)?;
        is_as_far?;
        let links = starts::links(&args.urls, &**store.canonicalizer(), settings.limits.url_bytes)?;
        let mut frontier = opening::frontier_to_ask(&folder, &settings)?;
        let texts: Vec<_> = links.iter().map(Link::text).collect();
        added = frontier.seed(&texts, now_ms()).map_err(of_frontier)?;
        // Nobody runs: the frontier is ours. The settings as they are now.
        let (_, mut settings) = opening::settings(&args.store)?;
        let mut known: HashSet<String> = settings.starts().cloned().collect();
        settings.seeds.extend(links.iter().map(|link| link.url.clone()).filter(|url| known.insert(url.clone())));
        folder.keep(&settings)?;
        frontier.close().map_err(of_frontier)?;
    }
    let lines = match flags.json {
        true => format!("{}\n", json!({ "added": added })),
        false => format!("{} added\n", words::count(added, "start page")),
    };
    print(&lines)?;
    Ok(Outcome::Done)
}
