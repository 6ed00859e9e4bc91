//! `segments` of a bucket: live and dead bytes of each segment, by the index.

use filemap_cloud::CloudSegment;
use fm_cli::{Failure, Outcome, Output, fields, sizes};

use super::to_read;
use crate::flags::Shared;

/// Runs the verb.
pub fn run(location: &str, shared: &Shared) -> Result<Outcome, Failure> {
    let segments = to_read(location, shared)?.segments().map_err(filemap::Error::from)?;
    let mut out = Output::stdout(shared.flags);
    if !out.is_json() {
        out.line(row(&["OBJECT", "BYTES", "LIVE", "DEAD", "TOMBSTONES", "LIVE%"].map(str::to_owned)))?;
    }
    for segment in &segments {
        if out.is_json() {
            out.json(&fields!(segment; object, bytes, live_bytes, dead_bytes, tombstone_bytes = segment.note_bytes,
                live_share = share(segment)))?;
        } else {
            out.line(row(&[
                segment.object.clone(),
                sizes::print(segment.bytes),
                sizes::print(segment.live_bytes),
                sizes::print(segment.dead_bytes),
                sizes::print(segment.note_bytes),
                share(segment).map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share)),
            ]))?;
        }
    }
    out.end(Outcome::Done)
}

fn share(segment: &CloudSegment) -> Option<f64> {
    (segment.bytes > 0).then(|| segment.live_bytes as f64 / segment.bytes as f64)
}

fn row(cells: &[String; 6]) -> String {
    let [object, bytes, live, dead, tombstones, share] = cells;
    format!("{object:<32} {bytes:>9} {live:>9} {dead:>9} {tombstones:>10} {share:>5}")
}
