//! The location of a page's record in an archive.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// Identifies an archive file: a hash (XXH3-64) of the name under which it was imported. The store
/// keeps name and location of the file once for all pages ([`crate::store::Archive`]).
///
/// ```
/// use filemap::page::ArchiveId;
///
/// let id = ArchiveId::of("crawl-00000.warc.gz");
/// assert_eq!(id.to_string().len(), 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArchiveId(pub u64);

impl ArchiveId {
    /// The id of a file of this name.
    pub fn of(name: &str) -> ArchiveId {
        ArchiveId(xxh3_64(name.as_bytes()))
    }
}

/// Formats the id as 16 hexadecimal digits.
impl fmt::Display for ArchiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The location of a page's record whose body stays in the archive.
///
/// ```
/// use filemap::Page;
/// use filemap::page::{ArchiveId, InPlace};
///
/// let place = InPlace { archive: ArchiveId::of("a.warc.gz"), offset: 1024, length: 0 };
/// let page = Page { in_place: Some(place), ..Page::new("http://example.com/", 1_700_000_000_000, 200, "") };
/// assert!(page.body.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InPlace {
    /// The file.
    pub archive: ArchiveId,
    /// Offset of the record in the file, in bytes.
    pub offset: u64,
    /// Length of the record in the file, in bytes; 0 if unknown.
    pub length: u64,
}
