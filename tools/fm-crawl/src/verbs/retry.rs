//! `retry`: queues given-up pages again, and ends the pauses of their hosts.

use std::path::PathBuf;

use crawl::failure::{kind_named, word};
use crawl::run::control::{self, Request};
use crawl::run::{opening, retry};
use fm_cli::{Failure, Flags, Outcome, words};
use frontier::{FailureKind, Frontier};
use serde_json::json;

use super::print;
use crate::{bucket, failure};

/// Queue given-up pages again
#[derive(clap::Args)]
#[command(after_help = "\
Without --reason: pages that were given up because their host or the network failed, not those that their host
answers with 4xx, that robots.txt forbids or that a limit has refused. Pages that wait for another attempt are
tried now. A running crawl fetches them, otherwise the next run. Exits with 1 if there are none. If the pages are in
object storage and no crawl runs here, the shard is taken as by a run: a crawl that has it elsewhere ends.

Example:
  fm-crawl retry pages.fm --host example.com")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Pages of this host only
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Pages whose last failure has this name only
    #[arg(long, value_name = "NAME", value_parser = kind_named)]
    reason: Option<FailureKind>,
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store).map_err(failure::of)?;
    let request = Request::Retry { host: args.host.clone(), reason: args.reason.map(word) };
    let mut retried = 0;
    if !control::ask(folder.path(), &request, |answer| retried = answer["retried"].as_u64().unwrap_or(0))
        .map_err(failure::of)?
    {
        let queue = |frontier: &mut Frontier| retry(frontier, args.host.as_deref(), args.reason);
        retried = u64::from(match &settings.bucket {
            Some(of_crawl) => {
                let depot = bucket::depot(&args.store, of_crawl, (None, false))?;
                opening::change_kept(&args.store, depot, queue).map_err(failure::of)?
            }
            None => {
                let mut frontier = opening::frontier_to_ask(&folder, &settings).map_err(failure::of)?;
                let retried = queue(&mut frontier).map_err(failure::of)?;
                frontier.close().map_err(|error| failure::of(error.into()))?;
                retried
            }
        });
    }
    let lines = match flags.json {
        true => format!("{}\n", json!({ "retried": retried })),
        false => format!("{} queued again\n", words::count(retried, "page")),
    };
    print(&lines)?;
    Ok(if retried > 0 { Outcome::Done } else { Outcome::NotFound })
}
