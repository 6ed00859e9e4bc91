//! Imports a WACZ file (Web Archive Collection Zipped 1.1.1): a zip file with WARC files in its
//! folder `archive/`.
//!
//! The index and the list of pages beside them say nothing that the WARC files do not: they are
//! not read. An entry is read as it lies, stored or deflated, and its WARC file as any other;
//! problems name both files. An archive elsewhere in the zip file, a WACZ file among them, is not
//! read: it is a problem with its name. What the zip file says of its entries is read twice and
//! compared (`layout`, of `header`s); the bytes of an entry are checked as they come (`entry`).
//!
//! Invariants: memory is bounded by the list of entries, whose bytes are bounded, and by that of
//! an import; no byte of the file belongs to two entries, and each to one, to the list, or to a
//! problem. A zip file that is damaged is a problem of the report, never an error.

use std::io::{Read, Seek};

use super::options::ImportOptions;
use super::report::ImportReport;
use super::warc::{ImportProgress, import_into};
use crate::error::{Error, Result};
use crate::store::PageStore;
use crate::warc::wacz::entry::{EntryReader, Verdict};
use crate::warc::wacz::layout::{self, Entry, Layout, Wrong};
use crate::warc::{Place, Problem, ProblemKind};

/// The folder of the WARC files.
const ARCHIVE: &str = "archive/";
/// Ends of the names of archives, and of packed files.
const FORMS: [&str; 3] = [".warc", ".arc", ".wacz"];
const PACKINGS: [&str; 4] = [".gz", ".zst", ".xz", ".bz2"];

/// Whether a file that begins so is a zip file.
pub fn is_zip(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(b"PK\x03\x04") || first_bytes.starts_with(b"PK\x05\x06")
}

/// Imports the WARC files in the WACZ file `source`, as [`import`](crate::import) does each; the
/// report is of all together. `file` is its name in the report.
///
/// # Errors
///
/// As [`import`](crate::import).
pub fn import_wacz<R: Read + Seek + Send>(
    store: &PageStore,
    file: &str,
    source: R,
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress),
) -> Result<ImportReport> {
    import_wacz_into(&mut |_| Ok(store.clone()), file, source, options, progress)
}

/// As [`import_wacz`], into the store that `stores` gives, as [`import_into`] does.
///
/// # Errors
///
/// As [`import_into`].
pub fn import_wacz_into<R: Read + Seek + Send>(
    stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>,
    file: &str,
    source: R,
    options: &ImportOptions,
    progress: &mut dyn FnMut(&ImportProgress),
) -> Result<ImportReport> {
    let mut source = source;
    let mut total = ImportReport::default();
    let read = layout::read(&mut source);
    let layout = match read.map_err(|source| Error::Read { what: file.to_owned(), offset: 0, source })? {
        Ok(layout) => layout,
        Err(why) => {
            total.problem(problem(file, 0, ProblemKind::Damage, why));
            return Ok(total);
        }
    };
    tell(file, &layout, &mut total);
    let mut found = false;
    for entry in &layout.entries {
        let name = match archive_name(entry, file) {
            Ok(None) => continue,
            Ok(Some(name)) => name,
            Err(unread) => {
                total.problem(unread);
                continue;
            }
        };
        found = true;
        let verdict = Verdict::default();
        let reader = EntryReader::open(entry, &mut source, &verdict);
        let reader = match reader.map_err(|source| Error::Read { what: name.clone(), offset: entry.offset, source })? {
            Ok(reader) => reader,
            Err(why) => {
                total.problem(problem(&name, entry.offset, ProblemKind::Unusable, why));
                continue;
            }
        };
        let imported = import_into(stores, &name, reader, options, &mut |at| progress(&at.after(&total)));
        let mut report = match imported {
            // The others are none the worse for it.
            Err(Error::Packed { form, .. }) => {
                let what = format!(
                    "it is compressed by {form}, which is not read: take it out, unpack it by `{}`, and import that",
                    form.command()
                );
                total.problem(problem(&name, entry.offset, ProblemKind::Unusable, what));
                continue;
            }
            imported => imported?,
        };
        if let Some(what) = verdict.damage() {
            report.problem(problem(&name, entry.offset, ProblemKind::Damage, what));
        }
        total.add(report);
        if total.stopped {
            break;
        }
    }
    if !found {
        let what = "a zip file without WARC files in a folder archive/: no WACZ";
        total.problem(problem(file, 0, ProblemKind::Unusable, what.to_owned()));
    }
    Ok(total)
}

/// Puts what is wrong with the zip file into the report.
fn tell(file: &str, layout: &Layout, report: &mut ImportReport) {
    for Wrong { offset, name, what } in &layout.problems {
        let name = name.as_ref().map(|name| format!("{file}: {}", String::from_utf8_lossy(name)));
        report.problem(problem(name.as_deref().unwrap_or(file), *offset, ProblemKind::Damage, what.clone()));
    }
    if layout.untold > 0 {
        let what = format!("the zip file is damaged in {} places more", layout.untold);
        report.problem(problem(file, 0, ProblemKind::Damage, what));
    }
}

/// The name of an entry to import, after the name of the WACZ file; `None` if the entry is a
/// folder or no archive. Of two names the one that is an archive's counts.
///
/// # Errors
///
/// The problem of an archive that is left out.
fn archive_name(entry: &Entry, file: &str) -> std::result::Result<Option<String>, Problem> {
    let mut left_out = None;
    for name in [Some(&entry.header.name), entry.other_name.as_ref()].into_iter().flatten() {
        let name = String::from_utf8_lossy(name);
        let shown = format!("{file}: {name}");
        // As some writers have it.
        let path = name.replace('\\', "/");
        let path = path.trim_start_matches("./");
        if path.ends_with('/') && entry.data.is_empty() {
            continue;
        }
        if path.starts_with(ARCHIVE) {
            return Ok(Some(shown));
        }
        if is_archive(path) {
            let what = "an archive outside the folder archive/ is not read: take it out, and import that";
            left_out.get_or_insert(problem(&shown, entry.offset, ProblemKind::Unusable, what.to_owned()));
        }
    }
    left_out.map_or(Ok(None), Err)
}

/// Whether a file is an archive by its name.
fn is_archive(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let unpacked = PACKINGS.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(&path);
    FORMS.iter().any(|end| unpacked.ends_with(end))
}

fn problem(file: &str, offset: u64, kind: ProblemKind, what: String) -> Problem {
    Problem { file: file.to_owned(), place: Place { offset, inner: None }, kind, what }
}
