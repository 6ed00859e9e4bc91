//! `segments` of a bucket: live and dead bytes of each segment, by the index; and the checkpoints
//! that keep rewritten segments.

use filemap_cloud::{CloudCheckpoint, CloudSegment};
use fm_cli::words::count;
use fm_cli::{Failure, Outcome, Output, fields, sizes, times};
use serde_json::json;

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

/// Lists the checkpoints. Needs no right to write.
pub fn checkpoints(location: &str, shared: &Shared) -> Result<Outcome, Failure> {
    let found = to_read(location, shared)?.checkpoints()?;
    let mut out = Output::stdout(shared.flags);
    if !out.is_json() {
        out.line(checkpoint(&["NAME", "SHARD", "REFRESHED", "LIFETIME", "STATE"].map(str::to_owned)))?;
    }
    for CloudCheckpoint { name, shard, refreshed_ms, lifetime, is_live, .. } in &found {
        let refreshed = times::print(i64::try_from(*refreshed_ms).unwrap_or(i64::MAX));
        if out.is_json() {
            out.json(&json!({
                "name": name, "shard": shard, "refreshed": refreshed, "refreshed_ms": refreshed_ms,
                "lifetime_s": lifetime.as_secs_f64(), "live": is_live,
            }))?;
        } else {
            let state = if *is_live { "live" } else { "expired" };
            let lifetime = format!("{} s", lifetime.as_secs());
            out.line(checkpoint(&[name.clone(), shard.to_string(), refreshed, lifetime, state.to_owned()]))?;
        }
    }
    out.end(Outcome::Done)
}

fn checkpoint(cells: &[String; 5]) -> String {
    let [name, shard, refreshed, lifetime, state] = cells;
    format!("{name:<24} {shard:>5} {refreshed:<24} {lifetime:>9} {state}")
}

/// Removes the checkpoints of a name. Takes the store from no writer.
pub fn remove(location: &str, name: &str, shared: &Shared) -> Result<Outcome, Failure> {
    let removed = to_read(location, shared)?.remove_checkpoints(name)?;
    let mut out = Output::stdout(shared.flags);
    let words = format_args!("{} removed; a scan that has it fails", count(removed, "checkpoint"));
    out.report(&json!({ "removed": removed, "name": name }), words)?;
    out.end(if removed > 0 { Outcome::Done } else { Outcome::NotFound })
}

fn share(segment: &CloudSegment) -> Option<f64> {
    (segment.bytes > 0).then(|| segment.live_bytes as f64 / segment.bytes as f64)
}

fn row(cells: &[String; 6]) -> String {
    let [object, bytes, live, dead, tombstones, share] = cells;
    format!("{object:<32} {bytes:>9} {live:>9} {dead:>9} {tombstones:>10} {share:>5}")
}
