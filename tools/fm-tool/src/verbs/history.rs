//! `history`: a page's versions, a line each, the newest first.

use std::path::PathBuf;

use filemap::PageHead;

use crate::address::Address;
use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::{json, opening, time, words};

/// List a page's versions, the newest first
#[derive(clap::Args)]
#[command(after_help = "Columns: time, status, bytes of the body, kind, remarks; tabs between them.\n\n\
    Example:\n  fm-tool history pages.fm https://example.com/")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The page's URL
    url: Address,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    let versions = store.history(&args.url)?;
    if versions.is_empty() {
        words::complain(format_args!("{} is not in {}", args.url, args.store.display()));
        return Ok(Outcome::NotFound);
    }
    let mut out = Output::stdout(shared.json);
    for version in &versions {
        if out.is_json() {
            out.json(&json::head(version)?)?;
        } else {
            out.line(row(version))?;
        }
    }
    out.finish()?;
    Ok(Outcome::Done)
}

fn row(version: &PageHead) -> String {
    let page = &version.page;
    let status = page.status.map_or("-".to_owned(), |status| status.to_string());
    let mut row =
        format!("{}\t{status}\t{}\t{}", time::print(page.fetched_at_ms), version.body_bytes, page.kind.name());
    if version.unchanged_since.is_some() {
        row.push_str("\tbody unchanged");
    }
    row
}
