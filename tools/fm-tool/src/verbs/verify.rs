//! `verify`: reads everything, reports every damaged place, and stops at none.

use std::path::PathBuf;

use filemap_core::VerifyReport;
use serde_json::json;

use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::words::{Bar, count, size};
use crate::{Shared, opening, words};

/// Read everything and report every damaged place
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool verify pages.fm")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::engine_to_read(&args.store, shared)?;
    let bar = Bar::new(shared.quiet);
    let report = store.verify(&mut |progress| {
        bar.show(progress.done_bytes, progress.total_bytes, || progress.file);
    })?;
    drop(bar);
    let mut out = Output::stdout(shared.json);
    for problem in &report.problems {
        if out.is_json() {
            out.json(&json!({ "file": problem.file, "offset": problem.offset, "what": problem.what }))?;
        } else {
            out.line(format!("{}: offset {}: {}", problem.file, problem.offset, problem.what))?;
        }
    }
    if out.is_json() {
        out.json(&summary(&report))?;
    } else if !shared.quiet {
        out.flush()?;
        say(&report);
    }
    out.finish()?;
    Ok(if report.problems.is_empty() { Outcome::Done } else { Outcome::Damaged })
}

fn summary(report: &VerifyReport) -> serde_json::Value {
    json!({
        "files": report.files,
        "bytes": report.bytes,
        "value_records": report.value_records,
        "key_records": report.key_records,
        "index_pages": report.index_pages,
        "indexed_keys": report.indexed_keys,
        "problems": report.problems.len(),
    })
}

fn say(report: &VerifyReport) {
    let found = match report.problems.len() as u64 {
        0 => "no damage".to_owned(),
        number => format!("damage in {}", count(number, "place")),
    };
    words::say(format_args!(
        "{} read in {}, {}, {}: {found}",
        size(report.bytes),
        count(report.files, "file"),
        count(report.value_records, "value record"),
        count(report.indexed_keys, "key"),
    ));
}
