//! Callbacks of a running import: progress, and the outcome for each record.

use std::ops::ControlFlow;

use filemap_core::Put;

use super::report::ImportReport;
use crate::warc::{Place, Problem, RecordHeader};

/// Progress of an import.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::import::{ImportOptions, import};
/// # use filemap::{Options, PageStore};
/// use std::ops::ControlFlow;
///
/// use filemap::import::ImportProgress;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// // At most 1000 pages.
/// let progress = &mut |at: ImportProgress| match at.pages {
///     1000.. => ControlFlow::Break(()),
///     _ => ControlFlow::Continue(()),
/// };
/// assert!(!import(&store, "empty.warc", &b""[..], &ImportOptions::new(), progress)?.is_cancelled);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportProgress {
    /// Bytes read from the file.
    pub bytes_read: u64,
    /// Number of whole records.
    pub records: u64,
    /// Versions stored. For an index it includes those about to be stored, which may yet be
    /// refused.
    pub pages: u64,
    /// Problems so far.
    pub problems: u64,
}

impl ImportProgress {
    pub(super) fn of(report: &ImportReport) -> ImportProgress {
        let problems = report.losses();
        ImportProgress { bytes_read: report.bytes_read, records: report.records, pages: report.stored, problems }
    }

    /// This progress plus that of other files.
    pub(super) fn after(&self, others: &ImportReport) -> ImportProgress {
        let others = ImportProgress::of(others);
        ImportProgress {
            bytes_read: others.bytes_read + self.bytes_read,
            records: others.records + self.records,
            pages: others.pages + self.pages,
            problems: others.problems + self.problems,
        }
    }
}

/// Watches an import. Any function of [`ImportProgress`] implements it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
///
/// use filemap::import::{Fate, ImportOptions, ImportProgress, ImportWatch, ImportedRecord, import_into};
/// use filemap::{Options, PageStore};
///
/// struct Types(Vec<String>);
///
/// impl ImportWatch for Types {
///     fn progress(&mut self, _: ImportProgress) -> ControlFlow<()> {
///         ControlFlow::Continue(())
///     }
///
///     fn record(&mut self, record: &ImportedRecord<'_>) {
///         assert!(matches!(record.fate, Fate::Ignored));
///         self.0.push(record.record_type.to_owned());
///     }
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let file = b"WARC/1.1\r\nWARC-Type: warcinfo\r\nContent-Length: 2\r\n\r\nok\r\n\r\n";
/// let mut types = Types(Vec::new());
/// import_into(&mut |_| Ok(store.clone()), "a.warc", &file[..], &ImportOptions::new(), &mut types)?;
/// assert_eq!(types.0, ["warcinfo"]);
/// # Ok(())
/// # }
/// ```
pub trait ImportWatch {
    /// Called before every record and at the end; `Break` cancels the import there.
    fn progress(&mut self, at: ImportProgress) -> ControlFlow<()>;

    /// Called once for each record, in the order of the file; and once for each [`Fate::Problem`],
    /// before its record if there is one. A record that waits for its request delays those after
    /// it.
    fn record(&mut self, _: &ImportedRecord<'_>) {}
}

impl<F: FnMut(ImportProgress) -> ControlFlow<()>> ImportWatch for F {
    fn progress(&mut self, at: ImportProgress) -> ControlFlow<()> {
        self(at)
    }
}

/// A record of a file, or bytes that are not a record, and the outcome.
///
/// ```
/// use filemap::import::{Fate, ImportedRecord};
/// use filemap::warc::Place;
///
/// let place = Place { offset: 512, inner: None };
/// let record = ImportedRecord::new("a.warc", place, Fate::AlreadyThere);
/// assert_eq!((record.file, record.place.offset, record.time_ms), ("a.warc", 512, None));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImportedRecord<'a> {
    /// The name of the file, as given to the import.
    pub file: &'a str,
    /// Position in the file.
    pub place: Place,
    /// The record's type, as written; empty if the bytes are not a record.
    pub record_type: &'a str,
    /// Its URL, as written; empty if it has none.
    pub url: &'a [u8],
    /// Its time, in ms since 1970; for a page, the time under which it is kept.
    pub time_ms: Option<i64>,
    /// The outcome.
    pub fate: Fate<'a>,
}

impl<'a> ImportedRecord<'a> {
    /// The outcome for the bytes at a position of a file; the other fields are empty.
    pub fn new(file: &'a str, place: Place, fate: Fate<'a>) -> ImportedRecord<'a> {
        ImportedRecord { file, place, record_type: "", url: b"", time_ms: None, fate }
    }
}

/// Outcome for a record.
///
/// ```
/// use filemap::import::Fate;
///
/// fn is_kept(fate: Fate<'_>) -> bool {
///     matches!(fate, Fate::Stored(_) | Fate::AlreadyThere)
/// }
/// assert!(is_kept(Fate::AlreadyThere) && !is_kept(Fate::Ignored));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Fate<'a> {
    /// The record was put: whole, or as a reference to an earlier body.
    Stored(Put),
    /// The store already had the record.
    AlreadyThere,
    /// The record is of a kind that is not kept.
    Ignored,
    /// The record cannot be kept.
    Failed(&'a Problem),
    /// Something is wrong with bytes that are not a record, or with a record, which then has its
    /// own outcome: see [`Problem::kind`].
    Problem(&'a Problem),
}

/// Description of a record for its watcher.
#[derive(Clone, Debug, Default)]
pub(super) struct Of {
    record_type: String,
    url: Vec<u8>,
    time_ms: Option<i64>,
}

impl Of {
    pub(super) fn header(header: &RecordHeader) -> Of {
        let url = header.target_uri().map(<[u8]>::to_vec).unwrap_or_default();
        Of { record_type: header.record_type().to_owned(), url, time_ms: header.date_ms() }
    }

    /// The record at a position of a file, with its outcome.
    pub(super) fn record<'a>(&'a self, file: &'a str, place: Place, fate: Fate<'a>) -> ImportedRecord<'a> {
        let Of { record_type, url, time_ms } = self;
        ImportedRecord { file, place, record_type, url, time_ms: *time_ms, fate }
    }
}

impl ImportReport {
    /// Adds a problem that belongs to no record, and reports it.
    pub(super) fn tell(&mut self, problem: Problem, watch: &mut dyn ImportWatch) {
        watch.record(&ImportedRecord::new(&problem.file, problem.place, Fate::Problem(&problem)));
        self.problem(problem);
    }
}
