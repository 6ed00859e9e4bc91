//! `list`: prints the state of pages, the reason, and when they are requested next.

use std::path::PathBuf;

use clap::ValueEnum;
use crawl::failure::{kind_named, word};
use crawl::run::opening;
use fm_cli::{Failure, Flags, Outcome, Output, plain};
use frontier::{FailureKind, PageBrief, PageState, PageStatus};
use serde_json::json;

use crate::failure;

/// List pages by their state
#[derive(clap::Args)]
#[command(after_help = "\
Prints a line a page: URL, state, reason, and time of the next request, separated by tabs; with --json an object.
Without --state, all pages that were not fetched. Exits with 1 if there are none.

Example:
  fm-crawl list pages.fm --state given-up --host example.com")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Pages in this state; may be given again
    #[arg(long, value_enum, num_args = 1..)]
    state: Vec<State>,
    /// Pages of this host only
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Pages whose last failure has this name only
    #[arg(long, value_name = "NAME", value_parser = kind_named)]
    reason: Option<FailureKind>,
}

/// State of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// To be fetched; no attempt has failed
    Queued,
    /// Handed out
    InFlight,
    /// To be fetched again after the page or its host failed
    Failed,
    /// Given up
    GivenUp,
    /// Not to be fetched: by robots.txt, scope, a limit, another crawl
    Excluded,
    /// Fetched
    Fetched,
}

impl State {
    /// The state of a page.
    pub fn of(page: &PageBrief<'_>) -> State {
        match (page.status, page.last_failure) {
            (PageStatus::Queued | PageStatus::Due, None) => State::Queued,
            (PageStatus::Queued | PageStatus::Retrying, _) => State::Failed,
            (PageStatus::Due | PageStatus::Fetched, Some(_)) => State::Failed,
            (PageStatus::InFlight, _) => State::InFlight,
            (PageStatus::Gone, Some(kind)) if is_exclusion(kind) => State::Excluded,
            (PageStatus::Gone, _) => State::GivenUp,
            _ => State::Fetched,
        }
    }

    fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::InFlight => "in-flight",
            State::Failed => "failed",
            State::GivenUp => "given-up",
            State::Excluded => "excluded",
            State::Fetched => "fetched",
        }
    }
}

fn is_exclusion(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Robots | FailureKind::Refused | FailureKind::Limit | FailureKind::Elsewhere)
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store).map_err(failure::of)?;
    let frontier = opening::frontier_to_ask(&folder, &settings).map_err(failure::of)?;
    let is_wanted = |page: &PageBrief<'_>| {
        let state = State::of(page);
        let is_state = if args.state.is_empty() { state != State::Fetched } else { args.state.contains(&state) };
        let is_host = args.host.as_deref().is_none_or(|host| host == page.host);
        is_state && is_host && args.reason.is_none_or(|reason| page.last_failure == Some(reason))
    };
    let (mut out, mut count) = (Output::stdout(*flags), 0u64);
    for page in frontier.list(is_wanted) {
        out.bytes(line(&page.map_err(|error| failure::of(error.into()))?, flags).as_bytes())?;
        count += 1;
    }
    out.finish()?;
    Ok(if count > 0 { Outcome::Done } else { Outcome::NotFound })
}

fn line(page: &PageState, flags: &Flags) -> String {
    let brief =
        PageBrief { status: page.status, host: &page.host, is_seed: page.is_seed, last_failure: page.last_failure };
    let state = State::of(&brief).name();
    let why = page.last_failure.map(word);
    let rests = page.host_failing.filter(|_| page.status != PageStatus::Gone);
    let next_ms = page.due_ms.into_iter().chain(rests.map(|rests| rests.until_ms)).max().filter(|ms| *ms > 0);
    let next = next_ms.map(filemap::date::format);
    let silent = rests.map(|rests| filemap::date::format(rests.since_ms));
    if flags.json {
        let line = json!({
            "url": page.url, "canonical": page.key, "host": page.host, "state": state, "why": why, "next": next,
            "host_silent_since": silent, "failed_attempts": page.failed_attempts, "depth": page.depth, "is_seed": page.is_seed,
        });
        return format!("{line}\n");
    }
    let why = match (why, silent) {
        (Some(why), Some(silent)) => format!("{why}, no answer from its host since {silent}"),
        (None, Some(silent)) => format!("no answer from its host since {silent}"),
        (why, None) => why.unwrap_or_else(|| "-".to_owned()),
    };
    format!("{}\t{state}\t{why}\t{}\n", plain(page.url.as_bytes()), next.unwrap_or_else(|| "-".to_owned()))
}
