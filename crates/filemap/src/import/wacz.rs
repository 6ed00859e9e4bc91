//! Imports a WACZ file (Web Archive Collection Zipped 1.1.1): a zip file with WARC files in its
//! folder `archive/`.
//!
//! The index and the list of pages are not read: the WARC files contain everything in them. An
//! entry may be stored or deflated, its WARC file is read like any other, and problems name both
//! files. An archive elsewhere in the zip file is not read: it is a problem with its name. The two
//! headers of each entry in a zip file are compared (`layout`, `header`); the bytes of an entry
//! are checked as they are read (`entry`).
//!
//! Invariants: memory is bounded by the central directory, whose size is bounded, and by that of
//! an import; every byte of the file belongs to exactly one entry, to the central directory, or to
//! a problem. A damaged zip file is a problem in the report, never an error.

use std::io::{Read, Seek};
use std::ops::ControlFlow;

use super::options::ImportOptions;
use super::report::ImportReport;
use super::warc::import_into;
use super::watch::{ImportProgress, ImportWatch, ImportedRecord};
use crate::error::{Error, Result};
use crate::names;
use crate::store::PageStore;
use crate::warc::wacz::entry::{EntryReader, Verdict};
use crate::warc::wacz::layout::{self, Entry, Layout, Wrong};
use crate::warc::{Place, Problem, ProblemKind};

/// Returns whether a file with these first bytes is a zip file.
pub fn is_zip(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(b"PK\x03\x04") || first_bytes.starts_with(b"PK\x05\x06")
}

/// Imports the WARC files in the WACZ file `source`, each as [`import`](super::import()) does; the
/// report covers all of them. `file` is the name of the WACZ file in the report.
///
/// # Errors
///
/// As [`import`](super::import()).
pub fn import_wacz<R: Read + Seek + Send>(
    store: &PageStore,
    file: &str,
    source: R,
    options: &ImportOptions,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<ImportReport> {
    import_wacz_into(&mut |_| Ok(store.clone()), file, source, options, &mut |at: ImportProgress| progress(at))
}

/// As [`import_wacz`], into the store that `stores` returns, as [`import_into`] does.
///
/// # Errors
///
/// As [`import_into`].
pub fn import_wacz_into<R: Read + Seek + Send>(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    file: &str,
    source: R,
    options: &ImportOptions,
    watch: &mut dyn ImportWatch,
) -> Result<ImportReport> {
    let mut source = source;
    let mut total = ImportReport::default();
    let read = layout::read(&mut source);
    let layout = match read.map_err(|source| Error::Read { what: file.to_owned(), offset: 0, source })? {
        Ok(layout) => layout,
        Err(why) => {
            total.tell(problem(file, 0, ProblemKind::Damage, why), watch);
            return Ok(total);
        }
    };
    tell(file, &layout, &mut total, watch);
    let mut found = false;
    for entry in &layout.entries {
        let name = match archive_name(entry, file) {
            Ok(None) => continue,
            Ok(Some(name)) => name,
            Err(unread) => {
                total.tell(unread, watch);
                continue;
            }
        };
        found = true;
        let verdict = Verdict::default();
        let reader = EntryReader::open(entry, &mut source, &verdict);
        let reader = match reader.map_err(|source| Error::Read { what: name.clone(), offset: entry.offset, source })? {
            Ok(reader) => reader,
            Err(why) => {
                total.tell(problem(&name, entry.offset, ProblemKind::Unusable, why), watch);
                continue;
            }
        };
        let imported = import_into(stores, &name, reader, options, &mut After(&total, watch));
        let mut report = match imported {
            // The other entries can still be imported.
            Err(Error::Packed { form, .. }) => {
                let what = format!(
                    "it is compressed with {form}, which is not supported: extract it, unpack it with `{}`, and import that",
                    form.command()
                );
                total.tell(problem(&name, entry.offset, ProblemKind::Unusable, what), watch);
                continue;
            }
            imported => imported?,
        };
        if let Some(what) = verdict.damage() {
            report.tell(problem(&name, entry.offset, ProblemKind::Damage, what), watch);
        }
        total.add(report);
        total.unresolved.keep_bounded_in(stores)?;
        if total.is_cancelled {
            break;
        }
    }
    if !found {
        let what = "not a WACZ file: the zip file has no WARC files in a folder archive/";
        total.tell(problem(file, 0, ProblemKind::Unusable, what.to_owned()), watch);
    }
    Ok(total)
}

/// Watches the import of an entry: progress covers all entries.
struct After<'a>(&'a ImportReport, &'a mut dyn ImportWatch);

impl ImportWatch for After<'_> {
    fn progress(&mut self, at: ImportProgress) -> ControlFlow<()> {
        self.1.progress(at.after(self.0))
    }

    fn record(&mut self, record: &ImportedRecord<'_>) {
        self.1.record(record);
    }
}

/// Adds the problems of the zip file to the report.
fn tell(file: &str, layout: &Layout, report: &mut ImportReport, watch: &mut dyn ImportWatch) {
    for Wrong { offset, name, what } in &layout.problems {
        let name = name.as_ref().map(|name| format!("{file}: {}", String::from_utf8_lossy(name)));
        report.tell(problem(name.as_deref().unwrap_or(file), *offset, ProblemKind::Damage, what.clone()), watch);
    }
    if layout.untold > 0 {
        let what = format!("the zip file is damaged in {} more places", layout.untold);
        report.tell(problem(file, 0, ProblemKind::Damage, what), watch);
    }
}

/// The name of an entry to import, after the name of the WACZ file; `None` if the entry is a
/// folder or not an archive. An entry with two names is an archive if either name says so.
///
/// # Errors
///
/// The problem of an archive that is not read.
fn archive_name(entry: &Entry, file: &str) -> std::result::Result<Option<String>, Problem> {
    let mut left_out = None;
    for name in [Some(&entry.header.name), entry.other_name.as_ref()].into_iter().flatten() {
        let name = String::from_utf8_lossy(name);
        let shown = format!("{file}: {name}");
        // Some writers use backslashes or a leading `./`.
        let path = name.replace('\\', "/");
        let path = path.trim_start_matches("./");
        if path.ends_with('/') && entry.data.is_empty() {
            continue;
        }
        if names::is_in_archive(path) {
            return Ok(Some(shown));
        }
        if names::is_archive(path) {
            let what = "an archive outside the folder archive/ is not read: extract it and import that";
            left_out.get_or_insert(problem(&shown, entry.offset, ProblemKind::Unusable, what.to_owned()));
        }
    }
    left_out.map_or(Ok(None), Err)
}

fn problem(file: &str, offset: u64, kind: ProblemKind, what: String) -> Problem {
    Problem::new(file, Place { offset, inner: None }, kind, what)
}
