//! Counts of the rows and of the damage of a table; readable while the table is owned elsewhere.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;

/// Numbers of rows returned and left out so far.
///
/// ```
/// let report = filemap::table::TableReport::default();
/// assert_eq!((report.rows, report.left_out()), (0, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableReport {
    /// Number of rows in the batches so far.
    pub rows: u64,
    /// Number of versions read, beyond key and time.
    pub seen: u64,
    /// Bytes of these versions in the value log.
    pub seen_bytes: u64,
    /// Number of versions, parts of the log and missing files that cannot be read: they have no
    /// row.
    pub damaged: u64,
    /// Number of rows whose body is null because the version that holds it cannot be read.
    pub bodiless: u64,
    /// The first of these errors.
    pub first_error: Option<String>,
    /// True if the progress callback cancelled the work: rows are missing.
    pub is_cancelled: bool,
}

impl TableReport {
    /// Number of versions, files and bodies that cannot be read.
    pub fn left_out(&self) -> u64 {
        self.damaged + self.bodiless
    }

    /// This report and that of another table.
    #[cfg(feature = "parquet")]
    pub(super) fn and(&self, other: &TableReport) -> TableReport {
        TableReport {
            rows: self.rows + other.rows,
            seen: self.seen + other.seen,
            seen_bytes: self.seen_bytes + other.seen_bytes,
            damaged: self.damaged + other.damaged,
            bodiless: self.bodiless + other.bodiless,
            first_error: self.first_error.as_ref().or(other.first_error.as_ref()).cloned(),
            is_cancelled: self.is_cancelled || other.is_cancelled,
        }
    }

    pub(super) fn note(&mut self, error: &Error) {
        self.first_error.get_or_insert_with(|| error.to_string());
    }

    /// The error that ends a table with damage.
    pub(super) fn error(&self) -> Option<Error> {
        let first = self.first_error.clone().filter(|_| self.left_out() > 0)?;
        Some(Error::LeftOut { damaged: self.damaged, bodiless: self.bodiless, first })
    }
}

/// The report of a table, wherever the table is.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let table = store.table(&Default::default())?;
/// let watch = table.watch();
/// table.for_each(drop);
/// assert_eq!(watch.report().rows, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TableWatch(Arc<Mutex<TableReport>>);

impl TableWatch {
    /// The report as of the last batch.
    pub fn report(&self) -> TableReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, report: &TableReport) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(report);
    }
}
