//! A whole record of a WARC or ARC file, as the reader hands it out.

use std::io::Read;

use crate::error::Result;
use crate::spool::Payload;
use crate::warc::header::RecordHeader;
use crate::warc::problem::{Place, Problem};

/// A whole record.
pub struct Record {
    /// Its header.
    pub header: RecordHeader,
    /// Where it stands.
    pub place: Place,
    /// What is wrong with it although it is whole: a length or a digest that does not agree with
    /// its block.
    pub problem: Option<Problem>,
    pub(crate) block: Payload,
}

impl Record {
    /// The block's length in bytes.
    pub fn block_bytes(&self) -> u64 {
        self.block.len()
    }

    /// Reads the block, from its start.
    ///
    /// # Errors
    ///
    /// [`Error::Spool`](crate::Error::Spool) if a block set aside on disk cannot be read back.
    pub fn block(&mut self) -> Result<impl Read + '_> {
        self.block.reader()
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("header", &self.header).field("place", &self.place).finish_non_exhaustive()
    }
}

/// What stands next in a WARC file.
#[derive(Debug)]
pub enum Item {
    /// A whole record.
    Record(Record),
    /// Something that is none.
    Problem(Problem),
}
