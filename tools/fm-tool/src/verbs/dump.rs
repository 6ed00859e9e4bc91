//! `dump`: prints pages as JSON Lines, bodies included, in the order of the log.
//!
//! A damaged page is reported and passed over; every page that is whole is printed.

use std::path::PathBuf;

use clap::ValueEnum;
use filemap::Page;

use crate::cli::Shared;
use crate::outcome::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Progress;
use crate::{interrupt, json, opening, words};

/// Print pages with their bodies
#[derive(clap::Args)]
#[command(after_help = "A dump can be imported into another store.\n\n\
    Example:\n  fm-tool dump pages.fm --all-versions -o pages.jsonl")]
pub struct Args {
    /// The store's folder
    store: PathBuf,
    /// The form of the dump
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Every version, and the records beside a page, as stored: what moving a store needs
    #[arg(long)]
    all_versions: bool,
}

/// The forms of a dump.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A JSON object a line: text as text, other bytes as base64
    Jsonl,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    let store = opening::to_read(&args.store, shared)?;
    let mut out = Output::file_or_stdout(args.output.as_deref(), shared.json)?;
    let Format::Jsonl = args.format;
    interrupt::listen();
    let stats = store.engine().stats();
    let expected = if args.all_versions { stats.indexed_versions } else { stats.indexed_keys } + stats.recent_entries;
    let progress = Progress::records(shared, Some(expected), "pages").unless_printing(out.is_terminal());
    let outcome = if args.all_versions {
        print(store.versions(), &progress, &mut out)?
    } else {
        print(store.pages(), &progress, &mut out)?
    };
    drop(progress);
    out.finish()?;
    Ok(outcome)
}

fn print(
    pages: impl Iterator<Item = filemap::Result<Page>>,
    progress: &Progress,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::Done;
    for (printed, page) in pages.enumerate() {
        if interrupt::asked() {
            let printed = words::count(printed as u64, "page");
            let mut end = Outcome::Done;
            progress.aside(|| end = interrupt::outcome(format_args!("the dump has {printed}, not all; dump again")));
            return Ok(outcome.and(end));
        }
        progress.add();
        match page.map_err(Failure::from) {
            Ok(page) => out.line(json::page(&page)?)?,
            Err(failure) => progress.pass_over(failure, &mut outcome)?,
        }
    }
    Ok(outcome)
}
