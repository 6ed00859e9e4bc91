//! Problems in WARC files, with their positions: damage is data, not an error.

use std::fmt;

/// A position in a WARC file.
///
/// ```
/// # fn main() -> filemap::Result<()> {
/// use filemap::warc::Spool;
/// use filemap::warc::{Item, Place, Reader};
///
/// let file = b"WARC/1.1\r\nWARC-Type: warcinfo\r\nContent-Length: 2\r\n\r\nok\r\n\r\n";
/// let mut reader = Reader::new(&file[..], "file.warc", Spool::default())?;
/// let Some(Item::Record(record)) = reader.next_item()? else { panic!("a record") };
/// assert_eq!(record.place, Place { offset: 0, inner: None });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Byte offset in the file: of the record, or of the compressed member that holds it.
    pub offset: u64,
    /// Byte offset inside the decompressed member; `None` in plain files.
    pub inner: Option<u64>,
}

/// Kind of a problem.
///
/// ```
/// use filemap::import::ImportReport;
/// use filemap::warc::ProblemKind;
///
/// fn damaged_places(report: &ImportReport) -> Vec<u64> {
///     let damage = report.problems.iter().filter(|problem| problem.kind == ProblemKind::Damage);
///     damage.map(|problem| problem.place.offset).collect()
/// }
/// assert!(damaged_places(&ImportReport::default()).is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Bytes of the file are damaged or missing; incomplete records were left out.
    Damage,
    /// The record is whole but cannot be kept: no URL, or over a limit.
    Unusable,
    /// The answer to a request other than a plain `GET` was stored as the page of its URL, because
    /// the request came too late in the file.
    Misplaced,
    /// A segment of a record that its writer split. The first becomes a page marked truncated, the
    /// others are left out.
    Segment,
    /// Nothing is lost, but something was corrected by a rule, such as an invalid date.
    Warning,
}

/// One problem, with its position.
///
/// ```
/// # fn main() -> filemap::Result<()> {
/// use filemap::warc::Spool;
/// use filemap::warc::{Item, Reader};
///
/// let mut reader = Reader::new(&b"no WARC file"[..], "file.warc", Spool::default())?;
/// let Some(Item::Problem(problem)) = reader.next_item()? else { panic!("no record") };
/// assert!(problem.to_string().starts_with("file.warc: offset 0: 12 bytes here are not a WARC record"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file's name, as given to the import.
    pub file: String,
    /// Position in the file.
    pub place: Place,
    /// Kind of the problem.
    pub kind: ProblemKind,
    /// Description of the problem, and of what was lost.
    pub what: String,
}

impl Problem {
    /// A problem at this position of this file.
    pub fn new(file: &str, place: Place, kind: ProblemKind, what: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), place, kind, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: offset {}", self.file, self.place.offset)?;
        if let Some(inner) = self.place.inner.filter(|&inner| inner > 0) {
            write!(f, " (+{inner} decompressed)")?;
        }
        write!(f, ": {}", self.what)
    }
}
