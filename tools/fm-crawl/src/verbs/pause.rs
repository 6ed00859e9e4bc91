//! `pause` and `resume`: stop a running crawl from handing out pages, and let it continue.

use std::path::PathBuf;

use crawl::run::control::{self, Request};
use crawl::settings::Folder;
use fm_cli::{Failure, Flags, Outcome};

use super::{not_running, print};
use crate::failure;

/// Stop a running crawl from handing out pages
#[derive(clap::Args)]
#[command(after_help = "\
Pages in flight are completed and committed. The crawl keeps its lock and continues with fm-crawl resume.

Example:
  fm-crawl pause pages.fm")]
pub struct Pause {
    /// The store's folder
    store: PathBuf,
}

/// Let a paused crawl continue
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
            (false, _) => "it continues\n".to_owned(),
        };
    });
    let is_running = is_running.map_err(failure::of)?;
    print(&lines)?;
    if is_running { Ok(Outcome::Done) } else { Ok(not_running(store)) }
}
