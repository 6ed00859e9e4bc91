//! `train`: trains dictionaries on a store's pages now; pages that are put or recompressed later
//! use them.

use std::path::PathBuf;

use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, fields, sizes};

#[cfg(feature = "cloud")]
use super::in_bucket;
use crate::flags::Shared;
#[cfg(feature = "cloud")]
use crate::stores::bucket;
use crate::stores::{opening, shards};

/// Train dictionaries on the store's pages
#[derive(clap::Args)]
#[command(
    after_help = "A store trains dictionaries by itself while pages are put; this trains them on pages from the whole store and keeps \
    those that pay. New pages use them at once, existing pages after `recompress`.\n\n\
    A store in object storage trains none by itself. The first one there lets older builds refuse the store; a writer \
    elsewhere loses it, and must open it again.\n\n\
    Example:\n  fm-tool train pages.fm && fm-tool recompress pages.fm"
)]
pub struct Args {
    /// The store's folder, or an s3:// location
    store: PathBuf,
    /// Train none: list the existing ones
    #[arg(long)]
    list: bool,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        return in_bucket::train::run(location, args.list, shared);
    }
    if let Some(members) = shards::checked(&args.store)? {
        return shards::each(&members, shared, |_, store| {
            run(&Args { store: store.to_owned(), list: args.list }, shared)
        });
    }
    let mut out = Output::stdout(shared.flags);
    let facts = if args.list {
        opening::engine_to_read(&args.store, shared)?.dictionaries()
    } else {
        let store = opening::local_to_change(&args.store, shared)?;
        let made = store.engine().train()?;
        store.close()?;
        made
    };
    for d in &facts {
        let group = String::from_utf8_lossy(&d.group);
        if out.is_json() {
            out.json(&fields!(d;
                id, group = group, created_ms, bytes = d.body_bytes, meta_bytes, pages, body_ratio, meta_ratio,
                is_current,
            ))?;
        } else {
            let group = if group.is_empty() { "all pages".into() } else { group };
            let bytes = sizes::print(d.body_bytes as u64);
            out.line(format!("{}\t{group}\t{bytes}\t{} pages\t{:.3}", d.id, d.pages, d.body_ratio))?;
        }
    }
    out.finish()?;
    if facts.is_empty() && !shared.flags.quiet {
        words::say(if args.list {
            "no dictionaries"
        } else {
            "no dictionary pays yet: too few pages, or too few alike"
        });
    } else if !args.list && !shared.flags.quiet {
        words::say(format_args!("{} made", count(facts.len() as u64, "dictionary")));
    }
    Ok(Outcome::Done)
}
