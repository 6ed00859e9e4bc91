//! `train`: makes dictionaries of a store's own pages now, for pages that are put or compressed again later.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::words::{count, size};
use crate::{opening, words};

/// Make dictionaries of the store's own pages
#[derive(clap::Args)]
#[command(
    after_help = "A store makes dictionaries by itself while pages are put; this makes them of pages from the whole store, where\n\
    they pay. New pages use them at once, those that are there after `recompress`.\n\n\
    Example:\n  fm-tool train pages.fm && fm-tool recompress pages.fm"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// Make none: list those that there are
    #[arg(long)]
    list: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(shared.json);
    let facts = if args.list {
        opening::engine_to_read(&args.store, shared)?.dictionaries()
    } else {
        let store = opening::to_change(&args.store, shared)?;
        let made = store.engine().train()?;
        store.close()?;
        made
    };
    for d in &facts {
        let group = String::from_utf8_lossy(&d.group);
        if out.is_json() {
            out.json(&json!({
                "id": d.id,
                "group": group,
                "created_ms": d.created_ms,
                "bytes": d.body_bytes,
                "meta_bytes": d.meta_bytes,
                "pages": d.pages,
                "body_ratio": d.body_ratio,
                "meta_ratio": d.meta_ratio,
                "is_current": d.is_current,
            }))?;
        } else {
            let group = if group.is_empty() { "all pages".into() } else { group };
            let bytes = size(d.body_bytes as u64);
            out.line(format!("{}\t{group}\t{bytes}\t{} pages\t{:.3}", d.id, d.pages, d.body_ratio))?;
        }
    }
    out.finish()?;
    if facts.is_empty() && !shared.quiet {
        words::say(if args.list {
            "no dictionaries"
        } else {
            "no dictionary pays yet: too few pages, or none that are alike"
        });
    } else if !args.list && !shared.quiet {
        words::say(format_args!("{} made", count(facts.len() as u64, "dictionary")));
    }
    Ok(Outcome::Done)
}
