//! `list`: prints the state of pages, the reason, and when they are requested next.

use std::ops::Range;
use std::path::PathBuf;

use clap::ValueEnum;
use crawl::failure::{kind_named, word};
use crawl::run::control::{self, Request};
use crawl::run::list::{self, Slice, Wanted};
use crawl::run::opening;
use crawl::settings::{Folder, Settings};
use fm_cli::{Failure, Flags, Outcome, Output, plain};
use frontier::{FailureKind, Frontier};
use serde_json::Value;

use crate::failure;

/// List pages by their state
#[derive(clap::Args)]
#[command(after_help = "\
Prints a line a page: URL, state, reason, and time of the next request, separated by tabs; with --json an object.
Without --state, all pages that were not fetched. Exits with 1 if there are none. A running crawl is asked for its
pages, a part at a time: a page whose state changes meanwhile is listed as it was when its part was read, and those
discovered meanwhile are not listed.

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

impl From<State> for list::State {
    fn from(state: State) -> list::State {
        match state {
            State::Queued => list::State::Queued,
            State::InFlight => list::State::InFlight,
            State::Failed => list::State::Failed,
            State::GivenUp => list::State::GivenUp,
            State::Excluded => list::State::Excluded,
            State::Fetched => list::State::Fetched,
        }
    }
}

/// A crawl: the one that runs, which is asked, or its frontier, which is read.
struct Source {
    folder: Folder,
    settings: Settings,
    frontier: Option<Frontier>,
}

impl Source {
    /// The slice of the list that begins with the first of these pages.
    fn slice(&mut self, left: Range<u32>, wanted: &Wanted) -> Result<Slice, Failure> {
        let frontier = match &mut self.frontier {
            Some(frontier) => frontier,
            none => {
                if let Some(slice) = asked(&self.folder, &left, wanted)? {
                    return Ok(slice);
                }
                // A crawl that has ended meanwhile numbers its pages as before.
                let opened = opening::frontier_to_ask(&self.folder, &self.settings).map_err(failure::of)?;
                none.insert(opened)
            }
        };
        list::slice(frontier, left, wanted).map_err(failure::of)
    }
}

/// The slice that the running crawl returns; `None` if none runs.
fn asked(folder: &Folder, left: &Range<u32>, wanted: &Wanted) -> Result<Option<Slice>, Failure> {
    let request = Request::List { left: left.clone(), wanted: wanted.clone() };
    let mut answer = None;
    control::ask(folder.path(), &request, |told| answer = Some(told.clone())).map_err(failure::of)?;
    let Some(answer) = answer else { return Ok(None) };
    let slice = serde_json::from_value(answer);
    slice.map(Some).map_err(|error| Failure::Io(format!("the crawl has answered something else: {error}")))
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store).map_err(failure::of)?;
    let mut source = Source { folder, settings, frontier: None };
    let states = args.state.iter().copied().map(list::State::from).collect();
    let wanted = Wanted { states, host: args.host.clone(), reason: args.reason.map(word) };
    let (mut out, mut count, mut next) = (Output::stdout(*flags), 0, Some(0..u32::MAX));
    while let Some(left) = next {
        let slice = source.slice(left, &wanted)?;
        for page in &slice.pages {
            out.bytes(line(page, flags).as_bytes())?;
        }
        (count, next) = (count + slice.pages.len(), slice.next);
    }
    out.finish()?;
    Ok(if count > 0 { Outcome::Done } else { Outcome::NotFound })
}

fn line(page: &Value, flags: &Flags) -> String {
    if flags.json {
        return format!("{page}\n");
    }
    let text = |name: &str| page[name].as_str();
    let why = match (text("why"), text("host_silent_since")) {
        (Some(why), Some(silent)) => format!("{why}, no answer from its host since {silent}"),
        (None, Some(silent)) => format!("no answer from its host since {silent}"),
        (why, None) => why.unwrap_or("-").to_owned(),
    };
    let url = plain(text("url").unwrap_or_default().as_bytes());
    format!("{url}\t{}\t{why}\t{}\n", text("state").unwrap_or("-"), text("next").unwrap_or("-"))
}
