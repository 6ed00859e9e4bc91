//! `retry`: queues pages again that were given up, and ends the rests of their hosts.

use std::path::PathBuf;

use fm_cli::{Failure, Flags, Outcome, words};
use frontier::{FailureKind, PageBrief, PageId, PageStatus};
use serde_json::json;

use super::{list, opening, print};
use crate::failure::{is_lost, of_frontier};

/// Queue pages again that were given up
#[derive(clap::Args)]
#[command(after_help = "\
Without --reason: pages that were given up because their host or the network failed, not those that their site
answers with 4xx, that robots.txt forbids or that a limit has refused. Pages that wait for another attempt are
tried now. The next `fm-crawl run` fetches them. Exits with 1 if there is none.

Example:
  fm-crawl retry pages.fm --host example.com")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Pages of this host only
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Pages whose last failure has this name only
    #[arg(long, value_name = "NAME", value_parser = list::reason)]
    reason: Option<FailureKind>,
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store)?;
    let mut frontier = opening::frontier_to_ask(&folder, &settings)?;
    let is_wanted = |page: &PageBrief<'_>| {
        let is_reason =
            page.last_failure.is_some_and(|kind| args.reason.map_or_else(|| is_lost(kind), |one| one == kind));
        let is_host = args.host.as_deref().is_none_or(|host| host == page.host);
        matches!(page.status, PageStatus::Gone | PageStatus::Retrying) && is_reason && is_host
    };
    let pages: Result<Vec<PageId>, _> = frontier.list(is_wanted).map(|page| page.map(|page| page.page)).collect();
    let retried = frontier.retry(&pages.map_err(of_frontier)?).map_err(of_frontier)?;
    frontier.close().map_err(of_frontier)?;
    let lines = match flags.json {
        true => format!("{}\n", json!({ "retried": retried })),
        false => format!("{} queued again\n", words::count(u64::from(retried), "page")),
    };
    print(&lines)?;
    Ok(if retried > 0 { Outcome::Done } else { Outcome::NotFound })
}
