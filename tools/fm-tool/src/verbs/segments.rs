//! `segments`: what of each segment of the value log lives, as the last checkpoint knows it. Reads no page.

use std::path::PathBuf;

use filemap_core::SegmentInfo;
use serde_json::json;

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::words::size;
use crate::{opening, time};

/// List the segments of the value log and what lives in them
#[derive(clap::Args)]
#[command(
    after_help = "What no checkpoint has seen yet counts as `new`; `live` is in per cent of the rest. Compaction takes the\n\
    segments of which least lives first.\n\nExample:\n  fm-tool segments pages.fm"
)]
pub struct Args {
    /// The store's folder
    store: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::engine_to_read(&args.store, shared)?;
    let segments = store.segments();
    let mut out = Output::stdout(shared.json);
    if !out.is_json() {
        let head = ["FILE", "ORDINAL", "KIND", "BYTES", "LIVE", "DEAD", "REMOVALS", "NEW", "LIVE%", "BEGUN"];
        out.line(row(&head.map(str::to_owned)))?;
    }
    for segment in &segments {
        if out.is_json() {
            out.json(&json!({
                "segment": segment.id,
                "ordinal": segment.ordinal,
                "kind": kind(segment),
                "bytes": segment.bytes,
                "live_bytes": segment.live_bytes,
                "dead_bytes": segment.dead_bytes,
                "removal_bytes": segment.removal_bytes,
                "unindexed_bytes": segment.unindexed_bytes,
                "live_share": share(segment),
                "begun": time::print(segment.begun_ms),
                "begun_ms": segment.begun_ms,
            }))?;
        } else {
            out.line(row(&[
                format!("value{}.dat", segment.id),
                segment.ordinal.to_string(),
                kind(segment).to_owned(),
                size(segment.bytes),
                size(segment.live_bytes),
                size(segment.dead_bytes),
                size(segment.removal_bytes),
                size(segment.unindexed_bytes),
                share(segment).map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share)),
                time::print(segment.begun_ms),
            ]))?;
        }
    }
    out.finish()?;
    Ok(Outcome::Done)
}

fn kind(segment: &SegmentInfo) -> &'static str {
    if segment.is_compacted { "compacted" } else { "log" }
}

/// How much of what a checkpoint has seen lives.
fn share(segment: &SegmentInfo) -> Option<f64> {
    let seen = segment.live_bytes + segment.dead_bytes + segment.removal_bytes;
    (seen > 0).then(|| segment.live_bytes as f64 / seen as f64)
}

fn row(cells: &[String; 10]) -> String {
    let [file, ordinal, kind, bytes, live, dead, removals, new, share, begun] = cells;
    format!(
        "{file:<14} {ordinal:>7} {kind:<9} {bytes:>9} {live:>9} {dead:>9} {removals:>9} {new:>9} {share:>5} {begun}"
    )
}
