//! What can be wrong in a WARC file, and where: damage is data, not an error.

use std::fmt;

/// A place in a WARC file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Byte offset in the file: of the record, or of the compressed member that holds it.
    pub offset: u64,
    /// Byte offset inside the decompressed member, where there is one.
    pub inner: Option<u64>,
}

/// What kind of problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// Bytes of the file are wrong or missing; records that are not whole were left out.
    Damage,
    /// The record is whole, but cannot be kept: no URL, or beyond a limit.
    Unusable,
    /// The answer to a request other than a plain `GET` is in the store as the page of its URL:
    /// the request came too late in the file for it.
    Misplaced,
    /// A segment of a record that its writer has cut into several. The first makes a page that is
    /// marked truncated, the others are left out.
    Segment,
    /// Nothing is lost, but something was taken otherwise than it stands there, such as a date by
    /// a rule.
    Warning,
}

/// One thing that was wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file's name, as given to the import.
    pub file: String,
    /// Where in it.
    pub place: Place,
    /// Damage or not.
    pub kind: ProblemKind,
    /// What is wrong, and what that cost.
    pub what: String,
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
