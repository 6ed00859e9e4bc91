//! Where the record of a page lies that was left in its archive.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// A file of an archive: a hash (XXH3-64) of the name that it was imported under. The store keeps
/// the name, and where the file is, once for all pages ([`crate::store::Archive`]).
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
    /// That of a file of this name.
    pub fn of(name: &str) -> ArchiveId {
        ArchiveId(xxh3_64(name.as_bytes()))
    }
}

/// In 16 hexadecimal digits.
impl fmt::Display for ArchiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The record of a page that the store describes and whose body it leaves in the file.
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
    /// Where its record begins, in bytes of the file.
    pub offset: u64,
    /// The length of the record in the file, in bytes; 0 if it is not known.
    pub length: u64,
}
