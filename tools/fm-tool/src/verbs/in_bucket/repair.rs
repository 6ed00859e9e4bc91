//! `repair` of a bucket: makes a new index from the segments alone, and leaves them unchanged.

use filemap_cloud::{CloudOptions, RepairReport};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, fields, sizes};
use serde_json::Value;

use super::damaged;
use crate::flags::Shared;

/// Runs the verb.
pub fn run(location: &str, counts_uncommitted: bool, shared: &Shared) -> Result<Outcome, Failure> {
    if shared.flags.says() {
        words::say("every segment is read; if this is interrupted, no writer opens the store until a repair has ended");
    }
    let options = CloudOptions::new();
    let options = if counts_uncommitted { options.repair_uncommitted() } else { options };
    let report = filemap_cloud::repair(location, &options).map_err(filemap::Error::from)?;
    let mut out = Output::stdout(shared.flags);
    let outcome = damaged(&report.damage, &mut out)?;
    out.report(&summary(&report), in_words(&report))?;
    out.finish()?;
    if report.may_return {
        words::complain("tombstones may be among what could not be read: removed pages may have come back");
    }
    if report.uncommitted > 0 {
        let records = count(report.uncommitted, "record");
        words::complain(format_args!(
            "{records} left out, as no index knows them to be committed: of a writer that had lost the store, or of an \
             index that has lost the end of its log; in that case repair again with --uncommitted, before any \
             compaction or erasure, which deletes them"
        ));
    }
    if let Some(why) = &report.unknown_segments {
        words::complain(format_args!(
            "the old index could not be read: segments may be missing, and it is unknown which: {why}"
        ));
    }
    if report.kept_lost {
        words::complain(
            "the state of a crawl, kept in the old index, is lost with it: the crawl begins anew, with `fm-crawl run` and its \
             start pages, and asks for stored pages with their ETag or date",
        );
    }
    Ok(if report.is_complete() && !report.may_return { outcome } else { Outcome::Damaged })
}

fn summary(report: &RepairReport) -> Value {
    fields!(report;
        complete = report.is_complete() && !report.may_return, segments, versions, uncommitted, lost_bytes, may_return,
        unknown_segments, kept_lost,
        problems = report.damage.len(),
    )
}

fn in_words(report: &RepairReport) -> String {
    let lost = match report.damage.len() as u64 {
        0 if report.unknown_segments.is_some() => "all that is there was read".to_owned(),
        0 => "all of it was read".to_owned(),
        places => format!("{} in {} cannot be read", sizes::print(report.lost_bytes), count(places, "place")),
    };
    let (versions, segments) = (count(report.versions, "version"), count(report.segments, "segment"));
    format!("the new index has {versions}, from {segments}: {lost}")
}
