//! `segments`: prints live and dead bytes of each segment of the value log, as of the last
//! checkpoint. Reads no page.

use std::path::PathBuf;

use filemap_core::compact::SegmentInfo;
use fm_cli::{Failure, Outcome, Output, fields, sizes, times};

#[cfg(feature = "cloud")]
use super::in_bucket;
use crate::flags::Shared;
use crate::stores::{bucket, opening, shards};

/// List the segments of the value log with their live and dead bytes
#[derive(clap::Args)]
#[command(
    after_help = "Bytes that no checkpoint has counted are `new`; LIVE% is of the rest. Compaction takes the segments with the \
    smallest LIVE% first.\n\nIn object storage a checkpoint keeps rewritten segments while a scan reads them: --checkpoints lists \
    them, with the time of their last refresh. One expires a lifetime after that; a compaction deletes it.\n\nExample:\n  fm-tool segments pages.fm"
)]
pub struct Args {
    /// The store's folder, or an s3:// location
    store: PathBuf,
    /// List the checkpoints of a store in object storage instead
    #[arg(long)]
    checkpoints: bool,
    /// Remove the checkpoints of this name: scans that have one fail
    #[arg(long, value_name = "NAME", requires = "checkpoints")]
    remove: Option<String>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    #[cfg(feature = "cloud")]
    if let Some(location) = bucket::location(&args.store) {
        return match (&args.remove, args.checkpoints) {
            (Some(name), _) => in_bucket::segments::remove(location, name, shared),
            (None, true) => in_bucket::segments::checkpoints(location, shared),
            (None, false) => in_bucket::segments::run(location, shared),
        };
    }
    if (args.checkpoints || args.remove.is_some()) && !bucket::is_bucket(&args.store) {
        let path = args.store.display();
        return Err(Failure::Usage(format!(
            "{path}: --checkpoints is for a store in object storage, an s3:// location"
        )));
    }
    if let Some(members) = shards::checked(&args.store)? {
        return shards::each(&members, shared, |_, store| {
            run(&Args { store: store.to_owned(), checkpoints: false, remove: None }, shared)
        });
    }
    let store = opening::engine_to_read(&args.store, shared)?;
    let segments = store.segments();
    let mut out = Output::stdout(shared.flags);
    if !out.is_json() {
        let head = ["FILE", "ORDINAL", "KIND", "BYTES", "LIVE", "DEAD", "TOMBSTONES", "NEW", "LIVE%", "BEGUN"];
        out.line(row(&head.map(str::to_owned)))?;
    }
    for segment in &segments {
        if out.is_json() {
            out.json(&fields!(segment;
                segment = segment.id, ordinal, kind = kind(segment), bytes, live_bytes, dead_bytes,
                tombstone_bytes, unindexed_bytes, live_share = share(segment),
                begun = times::print(segment.begun_ms), begun_ms,
            ))?;
        } else {
            out.line(row(&[
                format!("value{}.dat", segment.id),
                segment.ordinal.to_string(),
                kind(segment).to_owned(),
                sizes::print(segment.bytes),
                sizes::print(segment.live_bytes),
                sizes::print(segment.dead_bytes),
                sizes::print(segment.tombstone_bytes),
                sizes::print(segment.unindexed_bytes),
                share(segment).map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share)),
                times::print(segment.begun_ms),
            ]))?;
        }
    }
    out.end(Outcome::Done)
}

fn kind(segment: &SegmentInfo) -> &'static str {
    if segment.is_compacted { "compacted" } else { "log" }
}

/// The live share of the bytes that a checkpoint has counted.
fn share(segment: &SegmentInfo) -> Option<f64> {
    let seen = segment.live_bytes + segment.dead_bytes + segment.tombstone_bytes;
    (seen > 0).then(|| segment.live_bytes as f64 / seen as f64)
}

fn row(cells: &[String; 10]) -> String {
    let [file, ordinal, kind, bytes, live, dead, tombstones, new, share, begun] = cells;
    format!(
        "{file:<14} {ordinal:>7} {kind:<9} {bytes:>9} {live:>9} {dead:>9} {tombstones:>10} {new:>9} {share:>5} {begun}"
    )
}
