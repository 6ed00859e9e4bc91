//! A whole record of a WARC or ARC file, as the reader returns it.

use std::io::Read;

use crate::error::Result;
use crate::spool::Payload;
use crate::warc::header::RecordHeader;
use crate::warc::problem::{Place, Problem};

/// A whole record.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::Read;
///
/// use filemap::warc::{Item, Reader};
///
/// let file = b"WARC/1.1\r\nWARC-Type: warcinfo\r\nContent-Length: 2\r\n\r\nok\r\n\r\n";
/// let mut reader = Reader::new(&file[..], "file.warc", filemap::warc::Spool::default())?;
/// let Some(Item::Record(mut record)) = reader.next_item()? else { panic!("a record") };
/// let mut block = String::new();
/// record.block()?.read_to_string(&mut block)?;
/// assert_eq!((block.as_str(), record.problem), ("ok", None));
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct Record {
    /// Its header.
    pub header: RecordHeader,
    /// Its position in the file.
    pub place: Place,
    /// Problem of a record that is whole, such as a length or digest that does not match its
    /// block.
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

filemap_io::debug_fields!(Record: header, place);

/// The next item of a WARC file.
///
/// ```
/// # fn main() -> filemap::Result<()> {
/// use filemap::warc::{Item, Reader};
///
/// let mut reader = Reader::new(&b""[..], "empty.warc", filemap::warc::Spool::default())?;
/// while let Some(item) = reader.next_item()? {
///     match item {
///         Item::Record(record) => println!("{}", record.header.record_type()),
///         Item::Problem(problem) => println!("{problem}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Item {
    /// A whole record.
    Record(Record),
    /// A problem in place of a record.
    Problem(Problem),
}
