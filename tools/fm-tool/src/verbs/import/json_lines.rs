//! JSON Lines into a store: how pages move between stores, machines and canonicalisers.
//!
//! A line that is not a page is reported with its number and offset and skipped; a version that
//! the store has adds nothing, so that an interrupted import continues when it is run again. A
//! line is held in memory whole.

use std::io::{BufRead, BufReader, Read};

use filemap::Put;
use filemap::dump::jsonl;
use filemap::store::Loader;
use fm_cli::{Failure, interrupt};

use crate::stores::opening::ToFill;

/// Bad lines that are listed; more are counted.
pub const LISTED_LINES: usize = 1_000;

/// A line that is not a page.
pub struct BadLine {
    /// Its number, from 1 on.
    pub line: u64,
    /// Its byte offset.
    pub offset: u64,
    /// What is wrong with it.
    pub what: String,
    /// A page that this store cannot keep, rather than damage.
    pub unusable: bool,
}

/// What an import of JSON Lines did.
#[derive(Default)]
pub struct LoadReport {
    /// Bytes read.
    pub bytes_read: u64,
    /// Lines that are pages.
    pub records: u64,
    /// Versions stored, those of `unchanged` included.
    pub stored: u64,
    /// Of these: versions whose body was the same as before and was not stored again.
    pub unchanged: u64,
    /// Versions that the store had already.
    pub already_there: u64,
    /// Bytes of the bodies stored.
    pub body_bytes: u64,
    /// Whether a signal stopped it before the end.
    pub stopped: bool,
    /// Lines that are not pages, and were skipped.
    pub damaged: u64,
    /// Pages that this store cannot keep.
    pub unusable: u64,
    /// Of these: pages refused by a rule of an erasure.
    pub refused: u64,
    /// The first of both.
    pub bad_lines: Vec<BadLine>,
}

/// Imports every line of `source` into `stores`; calls `progress` after each.
pub fn import(
    stores: &mut ToFill<'_>,
    name: &str,
    source: impl Read,
    progress: &mut dyn FnMut(&LoadReport),
) -> Result<LoadReport, Failure> {
    let mut source = BufReader::with_capacity(1 << 20, source);
    let mut report = LoadReport::default();
    let (mut line, mut loader) = (Vec::new(), Loader::default());
    for number in 1.. {
        line.clear();
        let length = source.read_until(b'\n', &mut line);
        let length = length.map_err(|error| Failure::Io(format!("reading {name} failed: {error}")))?;
        // Interrupted input ends anywhere in a line.
        report.stopped = interrupt::asked();
        if length == 0 || report.stopped {
            break;
        }
        if !line.trim_ascii().is_empty() {
            take(stores, &mut loader, &line, number, &mut report)?;
        }
        report.bytes_read += length as u64;
        progress(&report);
    }
    Ok(report)
}

fn take(
    stores: &mut ToFill<'_>,
    loader: &mut Loader,
    line: &[u8],
    number: u64,
    report: &mut LoadReport,
) -> Result<(), Failure> {
    let (page, form) = match jsonl::read_stored(line) {
        Ok(read) => read,
        Err(error) => {
            bad(report, number, error.to_string(), false);
            return Ok(());
        }
    };
    report.records += 1;
    // A line without `unchanged` is a visit like any other.
    let put = stores.store_for(&page.url).and_then(|store| match form {
        Some(form) => loader.put_stored_if_new(&store, &page, form),
        None => loader.put_page_if_new(&store, &page),
    });
    match put {
        Ok(None) => report.already_there += 1,
        Ok(Some(put)) => {
            report.stored += 1;
            report.unchanged += u64::from(matches!(put, Put::Unchanged(_)));
            report.body_bytes += page.body.len() as u64;
        }
        Err(error) if error.concerns_one_page() => {
            report.refused += u64::from(error.refused_by().is_some());
            bad(report, number, error.to_string(), true);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn bad(report: &mut LoadReport, line: u64, what: String, unusable: bool) {
    *if unusable { &mut report.unusable } else { &mut report.damaged } += 1;
    if report.bad_lines.len() < LISTED_LINES {
        report.bad_lines.push(BadLine { line, offset: report.bytes_read, what, unusable });
    }
}
