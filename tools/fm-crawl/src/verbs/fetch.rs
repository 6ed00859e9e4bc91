//! `fetch`: has a running crawl fetch pages at once, before its queue.

use std::path::PathBuf;

use crawl::run::control::{self, Request};
use crawl::run::opening;
use fm_cli::{Failure, Flags, Outcome, plain, words};
use serde_json::Value;

use super::{not_running, print};
use crate::failure;

/// Have a running crawl fetch pages now
#[derive(clap::Args)]
#[command(after_help = "\
These pages come before all others, as soon as their hosts' delays and robots.txt allow; known pages are fetched again. Prints a line \
for each page once it is fetched. Exits with 1 if one was not fetched. If no crawl is running: `fm-crawl run STORE --fetch URL`.

Example:
  fm-crawl fetch pages.fm https://example.com/news")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The pages
    #[arg(required = true, num_args = 1..)]
    urls: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let (folder, _) = opening::settings(&args.store).map_err(failure::of)?;
    let (mut outcome, mut printed, mut count) = (Outcome::Done, Ok(()), 0);
    let request = Request::Fetch { urls: args.urls.clone() };
    let is_running = control::ask(folder.path(), &request, |answer| {
        count += 1;
        if answer["event"] != "fetched" {
            outcome = Outcome::NotFound;
        }
        let line = if flags.json { format!("{answer}\n") } else { in_words(answer) };
        if printed.is_ok() {
            printed = print(&line);
        }
    });
    let is_running = is_running.map_err(failure::of)?;
    printed?;
    if is_running && count < args.urls.len() {
        words::complain(format_args!("the crawl has ended before it had {} of them", args.urls.len() - count));
        outcome = Outcome::NotFound;
    }
    if is_running { Ok(outcome) } else { Ok(not_running(&args.store)) }
}

fn in_words(answer: &Value) -> String {
    let url = plain(answer["url"].as_str().unwrap_or_default().as_bytes());
    match answer["event"].as_str() {
        Some("fetched") => format!("{url}: status {}, {} bytes\n", answer["status"], answer["body_bytes"]),
        _ => {
            let words = |name: &str| plain(answer[name].as_str().unwrap_or_default().as_bytes());
            format!("{url}: {} {}\n", words("reason"), words("detail"))
        }
    }
}
