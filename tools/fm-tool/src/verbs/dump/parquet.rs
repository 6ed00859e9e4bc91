//! `dump --format parquet`: writes one Parquet file with every column of a table.

use std::path::{Path, PathBuf};
use std::time::Instant;

use filemap::PageStore;
use filemap::dump::{DumpReport, OutputFile};
use filemap::table::{Column, Records, TableEvent, TableOptions, TableReport, write_parquet_of_members};
use fm_cli::words::{self, count};
use fm_cli::{Failure, Outcome, Progress, interrupt};

use super::target::{Folder, WholeFile};
use super::{Args, Format, conclude, failure, stem, tell, value_bytes};
use crate::flags::Shared;

/// Refuses options that a table does not have.
pub(super) fn check(args: &Args) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    if args.format != [Format::Parquet] {
        return refuse("a Parquet file is written in its own pass; give --format parquet alone");
    }
    if args.compression.is_some() || args.roll.is_some() {
        return refuse("--compression and --roll are for WARC files; a Parquet file is compressed by zstd");
    }
    match &args.output {
        Some(path) if is_file(path) && args.name.is_some() => refuse("--name is for the files of a folder"),
        Some(path) if path != Path::new("-") => Ok(()),
        _ => refuse("a Parquet file is written to a file; give -o NAME.parquet or a folder"),
    }
}

/// Returns whether a path names the file itself, rather than a folder for it.
fn is_file(path: &Path) -> bool {
    !path.is_dir() && path.extension().is_some_and(|extension| extension == "parquet")
}

/// The file to write; its folder is made.
fn file(args: &Args) -> Result<PathBuf, Failure> {
    let path = args.output.clone().unwrap_or_default();
    if is_file(&path) {
        return Ok(path);
    }
    let stem = stem(args);
    Folder::open(&path, &stem, args.existing())?;
    Ok(path.join(format!("{stem}.parquet")))
}

/// Writes the file.
pub(super) fn run(args: &Args, stores: &[PageStore], shared: &Shared) -> Result<Outcome, Failure> {
    let path = file(args)?;
    let mut out = WholeFile::at(&path, args.existing())?;
    let options = TableOptions::new()
        .columns(&Column::ALL)
        // Ctrl-C waits for the end of a batch, so batches are small.
        .batch_bytes(4 << 20)
        .selection(args.selected.selection())
        .limit(args.selected.limit)
        .records(if args.newest { Records::Variants } else { Records::All });
    let options = if args.newest { options } else { options.all_versions() };
    let started = Instant::now();
    let bar = Progress::bytes(&shared.flags);
    let total_bytes = value_bytes(stores);
    let written = write_parquet_of_members(stores, &options, &mut out, &mut |event| {
        match event {
            TableEvent::Progress(report) => {
                bar.at(report.seen_bytes, total_bytes.max(report.seen_bytes), || count(report.rows, "row"));
            }
            TableEvent::Damage(error) => bar.aside(|| words::complain(error)),
            _ => {}
        }
        interrupt::go_on()
    });
    drop(bar);
    let written = written.map_err(failure)?;
    let mut report = report(&written);
    if !written.is_cancelled {
        Box::new(out).close().map_err(|error| failure(filemap::Error::Write(error)))?;
        report.files.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    tell(&report, started.elapsed().as_secs_f64(), shared)?;
    conclude(&report)
}

/// The table's report in the form of other dumps.
fn report(table: &TableReport) -> DumpReport {
    let mut report = DumpReport::default();
    (report.seen, report.written) = (table.seen, table.rows);
    (report.seen_bytes, report.is_cancelled) = (table.seen_bytes, table.is_cancelled);
    (report.damaged, report.bodiless) = (table.damaged, table.bodiless);
    report
}
