//! `verify`: reads everything, reports every damaged place, and stops at none.

use std::path::PathBuf;

use filemap_core::{VerifyProgress, VerifyReport};
use serde_json::json;

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::words::{count, size};
use crate::{interrupt, opening, words};

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
    interrupt::listen();
    let bar = Progress::bytes(shared);
    let report = store.verify(&mut |progress| {
        bar.at(progress.done_bytes, progress.total_bytes, || progress.file.clone());
        if interrupt::asked() {
            bar.aside(|| stop(&progress));
        }
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

/// Ends the program in the middle of a verification: the engine has nothing open that would need an end.
fn stop(progress: &VerifyProgress) -> ! {
    let (done, total) = (size(progress.done_bytes), size(progress.total_bytes));
    let found = match progress.problems {
        0 => "no damage so far".to_owned(),
        number => format!("damage in {} so far, which a whole run lists", count(number, "place")),
    };
    let outcome = interrupt::outcome(format_args!("{done} of {total} were read: {found}; run it again to be certain"));
    std::process::exit(i32::from(outcome.code()))
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
