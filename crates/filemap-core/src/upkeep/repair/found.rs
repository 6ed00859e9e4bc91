//! A file that a repair has found to be a segment of the value log, whatever it is called.

use crate::format::header::FileHeader;
use crate::format::names;

/// A segment that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The file's name, which may not be the segment's.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) header: FileHeader,
    /// Whether the header was damaged. Of what it said only the ordinal is known: a record's checksum tells.
    pub(crate) is_guessed: bool,
}

impl Found {
    /// The name that the segment should have.
    pub(crate) fn proper_name(&self) -> String {
        names::segment(self.header.ordinal as u16)
    }
}
