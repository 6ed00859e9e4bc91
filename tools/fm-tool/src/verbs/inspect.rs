//! `inspect`: prints the contents of one file of a store, field by field, without opening the
//! store.

use std::ops::ControlFlow;
use std::path::PathBuf;

use filemap_core::check::Inspected;
use fm_cli::{Failure, Outcome, Output, fields, plain};
use serde_json::{Map, Value};

use crate::flags::Shared;
use crate::stores::{bucket, shards};

/// Print the contents of one file of a store, field by field
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fm-tool inspect pages.fm/value0.dat | head")]
pub struct Args {
    /// A superblock, segment, index or key file
    file: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let words = "the objects of a bucket are not files here: `fm-tool segments LOCATION` lists them, `fm-tool verify \
                 LOCATION` reads them";
    bucket::refuse_as(&args.file, words)?;
    shards::refuse_as(&args.file, "this verb prints a file: give its path in the folder that has it")?;
    let mut out = Output::stdout(shared.flags);
    let mut end = Ok(Outcome::Done);
    filemap_core::check::inspect(&args.file, &mut |item| {
        if item.problem.is_some() {
            end = Ok(Outcome::Damaged);
        }
        match print(&mut out, &item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                end = Err(failure);
                ControlFlow::Break(())
            }
        }
    })?;
    let outcome = end?;
    out.end(outcome)
}

fn print(out: &mut Output, item: &Inspected) -> Result<(), Failure> {
    if out.is_json() {
        let fields: Map<String, Value> =
            item.fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect();
        return out.json(&fields!(item; offset, bytes, kind, fields = fields, problem));
    }
    out.line(format!("offset {}  {}  {} bytes", item.offset, item.kind, item.bytes))?;
    if let Some(problem) = &item.problem {
        out.line(format!("    PROBLEM            {problem}"))?;
    }
    for (name, value) in &item.fields {
        out.line(format!("    {name:18} {}", plain(value.as_bytes())))?;
    }
    Ok(())
}
