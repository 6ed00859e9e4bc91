//! `pause` and `resume`: a running crawl hands out no more pages, and goes on.

use std::path::PathBuf;

use crawl::run::control::{self, Request};
use crawl::settings::Folder;
use fm_cli::{Failure, Flags, Outcome};

use super::{not_running, print};
use crate::failure;

/// Let a running crawl hand out no more pages
#[derive(clap::Args)]
#[command(after_help = "\
What is in flight ends, and is committed. The crawl keeps its lock and goes on with fm-crawl resume.

Example:
  fm-crawl pause pages.fm")]
pub struct Pause {
    /// The store's folder
    store: PathBuf,
}

/// Let a paused crawl go on
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-crawl resume pages.fm")]
pub struct Resume {
    /// The store's folder
    store: PathBuf,
}

/// Runs `pause`.
pub fn pause(args: &Pause, flags: &Flags) -> Result<Outcome, Failure> {
    ask(&args.store, &Request::Pause, flags)
}

/// Runs `resume`.
pub fn resume(args: &Resume, flags: &Flags) -> Result<Outcome, Failure> {
    ask(&args.store, &Request::Resume, flags)
}

fn ask(store: &std::path::Path, request: &Request, flags: &Flags) -> Result<Outcome, Failure> {
    let mut lines = String::new();
    let is_running = control::ask(Folder::of(store).path(), request, |answer| {
        lines += &match (flags.json, answer["is_paused"].as_bool()) {
            (true, _) => format!("{answer}\n"),
            (false, Some(true)) => "paused\n".to_owned(),
            (false, _) => "it goes on\n".to_owned(),
        };
    });
    let is_running = is_running.map_err(failure::of)?;
    print(&lines)?;
    if is_running { Ok(Outcome::Done) } else { Ok(not_running(store)) }
}
