//! A file that a repair identified as a segment of the value log, whatever its name.

use crate::format::header::FileHeader;
use crate::format::names;

/// An identified segment.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Name of the file, which may differ from the segment's.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) header: FileHeader,
    /// True if the header was damaged. Only its ordinal is then known, from a record's checksum.
    pub(crate) is_guessed: bool,
}

impl Found {
    /// The name that the segment should have.
    pub(crate) fn proper_name(&self) -> String {
        names::segment(self.header.ordinal as u16)
    }
}
