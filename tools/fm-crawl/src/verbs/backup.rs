//! `backup`: copies a store and its crawl as of one moment.

use std::path::PathBuf;

use crawl::run::control::{self, Request};
use crawl::run::{back_up, opening};
use crawl::settings::Folder;
use fm_cli::{Failure, Flags, Outcome, words};
use serde_json::json;

use super::print;
use crate::failure;

/// Copy a store and its crawl as they are now
#[derive(clap::Args)]
#[command(after_help = "\
Makes TO, a store, and TO.crawl, the state of its crawl: `fm-crawl run TO` continues from there. A running crawl
continues meanwhile; it waits only while the files beside the store are copied. Immutable files are shared by hard
links if the file system supports them: to be safe from a failing disk, back up to another one. The seen set is left
out, and rebuilt by the next run. A crawl of a fleet is refused.

Example:
  fm-crawl backup pages.fm /mnt/backup/pages-1.fm")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Path of the copy, which must not exist
    to: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, settings) = opening::settings(&args.store).map_err(failure::of)?;
    let absolute = std::path::absolute(&args.to).map_err(|error| Failure::io("find", &args.to, &error))?;
    let request = Request::Backup { to: absolute };
    let is_running = control::ask(folder.path(), &request, |_| ()).map_err(failure::of)?;
    if !is_running {
        back_up(&args.store, &args.to).map_err(failure::of)?;
    }
    let crawl = Folder::of(&args.to);
    if settings.seen.is_some() {
        words::complain(
            "it shares a seen set: pages claimed there from now on are not in the copy, and a crawl of the copy does not fetch them",
        );
    }
    print(&match flags.json {
        true => format!("{}\n", json!({ "store": args.to, "crawl": crawl.path(), "is_running": is_running })),
        false => format!("copied to {} and {}\n", args.to.display(), crawl.path().display()),
    })?;
    Ok(Outcome::Done)
}
