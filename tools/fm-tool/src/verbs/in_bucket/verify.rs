//! `verify` of a bucket: compares the index with a listing of the segments, or with their
//! contents.

use filemap_cloud::VerifyReport;
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Output, fields, sizes};
use serde_json::Value;

use super::{damaged, to_read};
use crate::flags::Shared;

/// Runs the verb.
pub fn run(location: &str, is_full: bool, shared: &Shared) -> Result<Outcome, Failure> {
    let store = to_read(location, shared)?;
    let report = if is_full { store.verify() } else { store.verify_quick() }.map_err(filemap::Error::from)?;
    let mut out = Output::stdout(shared.flags);
    let mut outcome = damaged(&report.damage, &mut out)?;
    out.report(&summary(&report, is_full), in_words(&report, is_full))?;
    out.flush()?;
    if report.orphans > 0 && shared.flags.says() {
        let orphans = count(report.orphans, "segment");
        let what = "no index names: of a writer that lost the store, of one at work now, or the committed end of an \
                    index that has lost its log";
        let how = "`fm-tool repair --in-place --uncommitted` takes them in, before any `fm-tool compact`, which deletes \
                   the old ones";
        words::say(format_args!("{orphans} that {what}; in the last case {how}"));
    }
    if report.gone > 0 {
        let gone = count(report.gone, "segment");
        words::complain(format_args!(
            "missing, with their pages: {gone}. If there is a copy of these objects, put them back; else `fm-tool repair \
             --in-place` makes an index without them"
        ));
    }
    if report.changed && is_full {
        let (why, how) = match (report.gone, report.damage.is_empty()) {
            (0, true) => ("a writer was at work: verify again without one", Outcome::Incomplete),
            (0, false) => ("a writer was at work: verify again without one", Outcome::Damaged),
            _ => ("segments are missing: verify again after that", Outcome::Damaged),
        };
        words::complain(format_args!("versions were not compared with the index: {why}"));
        outcome = how;
    }
    out.end(outcome)
}

fn summary(report: &VerifyReport, is_full: bool) -> Value {
    fields!(report;
        full = is_full, segments, bytes, versions, orphans, lost_rows, gone, dictionaries, changed,
        problems = report.damage.len(),
    )
}

fn in_words(report: &VerifyReport, is_full: bool) -> String {
    let found = match (report.damage.len() as u64, report.lost_rows) {
        (0, _) => "no damage".to_owned(),
        (places, 0) => format!("damage in {}", count(places, "place")),
        (places, lost) => format!(
            "damage in {}, {} of them versions that the index has lost: `fm-tool repair --in-place` brings them back",
            count(places, "place"),
            lost
        ),
    };
    let (bytes, segments) = (sizes::print(report.bytes), count(report.segments, "segment"));
    if is_full {
        format!("{bytes} read in {segments}, {}: {found}", count(report.versions, "version"))
    } else {
        format!("{segments} of {bytes} are named by the index, and compared with a listing: {found}")
    }
}
