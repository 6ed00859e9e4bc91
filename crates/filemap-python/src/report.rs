//! Results of long calls: plain objects with the numbers as attributes.

use filemap_core::compact::Compacted;
use pyo3::prelude::*;

/// A class of read-only attributes with a `repr` that names them.
macro_rules! report {
    ($($(#[doc = $doc:literal])+ $name:ident { $($field:ident: $type:ty),* $(,)? })+) => {$(
        $(#[doc = $doc])+
        #[pyclass(frozen, get_all, module = "filemap")]
        #[derive(Debug)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        #[pymethods]
        impl $name {
            fn __repr__(slf: &Bound<'_, $name>) -> PyResult<String> {
                let mut fields: Vec<String> = Vec::new();
                $(fields.push(format!("{}={}", stringify!($field), slf.getattr(stringify!($field))?.repr()?));)*
                Ok(format!("{}({})", stringify!($name), fields.join(", ")))
            }
        }
    )+};
}

impl From<Compacted> for CompactReport {
    fn from(done: Compacted) -> CompactReport {
        CompactReport {
            removed_segments: done.removed_segments,
            read_bytes: done.read_bytes,
            copied_bytes: done.copied_bytes,
            removed_bytes: done.removed_bytes,
            stuck_segments: done.stuck_segments,
            unexpanded_records: done.unexpanded_records,
            seconds: done.elapsed.as_secs_f64(),
        }
    }
}

report! {
    /// A file that is missing or shorter than it was.
    Absent { file: String, why: String, live_bytes: u64, accepted: bool }

    /// Result of a compaction or recompression.
    CompactReport {
        removed_segments: u64, read_bytes: u64, copied_bytes: u64, removed_bytes: u64,
        stuck_segments: u64, unexpanded_records: u64, seconds: f64,
    }

    /// A damaged place.
    Problem { file: String, offset: u64, bytes: u64, what: String, keys: Vec<String> }

    /// Result of a verification.
    VerifyReport {
        complete: bool, files: u64, bytes: u64, value_records: u64, key_records: u64,
        index_pages: u64, indexed_keys: u64, problems: Vec<Py<Problem>>, absent: Vec<Py<Absent>>,
    }

    /// Result of a backup.
    BackupReport { files: u64, bytes: u64, linked_bytes: u64, reused_bytes: u64, copied_bytes: u64 }

    /// Versions that a prune dropped, or would drop.
    PruneReport { urls: u64, versions: u64, bytes: u64, live_bytes: u64, hidden: u64 }

    /// Result of an erasure, and what is left.
    EraseReport {
        complete: bool, rules: Vec<u32>, versions: u64, urls: u64, segments: u64, left: Vec<String>,
        unreadable_keys: u64, mentions: u64, shared_files: Vec<String>, archives: Vec<String>,
        strangers: Vec<String>,
    }

    /// Result of an import.
    ImportReport {
        bytes_read: u64, records: u64, stored: u64, beside: u64, unchanged: u64, variants: u64, already_there: u64,
        ignored: u64, damaged: u64, unusable: u64, misplaced: u64, segments: u64, refused: u64, warnings: u64,
        kept_as_received: u64, without_request: u64, unanswered: u64, mended_dates: u64, revisits: u64, unresolved_revisits: u64,
        problems: Vec<String>,
    }

    /// Result of an export.
    ExportReport { seen: u64, written: u64, damaged: u64, bodiless: u64, inexact: u64, without_place: u64, files: Vec<String> }
}

#[pymethods]
impl VerifyReport {
    /// True if the pass completed and found no damage.
    #[getter]
    fn ok(&self) -> bool {
        self.complete && self.problems.is_empty() && self.absent.is_empty()
    }
}

#[pymethods]
impl CompactReport {
    /// True if no damage interfered: no segment had to stay, no record was moved unchanged.
    #[getter]
    fn ok(&self) -> bool {
        self.stuck_segments == 0 && self.unexpanded_records == 0
    }
}

#[pymethods]
impl PruneReport {
    /// True if damage hid no versions from the prune; hidden versions stay.
    #[getter]
    fn ok(&self) -> bool {
        self.hidden == 0
    }
}

#[pymethods]
impl ExportReport {
    /// True if damage left no version out.
    #[getter]
    fn ok(&self) -> bool {
        self.damaged == 0
    }
}

#[pymethods]
impl ImportReport {
    /// True if all records of the file are in the store, except kinds that are not kept.
    #[getter]
    fn ok(&self) -> bool {
        self.losses() == 0
    }

    /// Number of records of the file that are not in the store.
    #[getter]
    fn losses(&self) -> u64 {
        self.damaged + self.unusable + self.misplaced + self.segments
    }
}

impl From<filemap_core::recovery::Absent> for Absent {
    fn from(absent: filemap_core::recovery::Absent) -> Absent {
        Absent { file: absent.file, why: absent.why, live_bytes: absent.live_bytes, accepted: absent.is_accepted }
    }
}
