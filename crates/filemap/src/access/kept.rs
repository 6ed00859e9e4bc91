//! Files that a caller keeps with a store in object storage, committed in one step with its pages:
//! the terms that the store and a crawl share, so that neither depends on the other.

use filemap_io::File;

/// The difference of a file from its last kept version.
///
/// ```
/// use filemap::access::kept::Change;
/// fn is_uploaded(change: Change) -> bool {
///     change != Change::Same
/// }
/// assert!(is_uploaded(Change::Appended) && !is_uploaded(Change::Same));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Unchanged: it is not read.
    Same,
    /// Appended to: the old bytes are unchanged.
    Appended,
    /// Changed in any way: it is read, and changed pieces are uploaded.
    Replaced,
}

/// A file kept with a store.
///
/// ```
/// use filemap::access::kept::{Change, KeptFile};
/// use filemap_io::{Access, Dir, OsDir};
/// # let place = tempfile::tempdir()?;
/// let file = OsDir::open(place.path())?.open("seeds", Access::Create)?;
/// file.write_at(b"http://example.com/\n", 0)?;
/// let kept = KeptFile { name: "seeds", file: &*file, change: Change::Replaced };
/// assert_eq!((kept.name, kept.file.len()?), ("seeds", 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeptFile<'a> {
    /// Its name: letters, digits, `.`, `_`, `-`, with `/` between folders.
    pub name: &'a str,
    /// Its bytes, which must not change while it is read.
    pub file: &'a dyn File,
    /// The change since this handle last kept the file. A file that the handle has not kept yet is
    /// compared completely.
    pub change: Change,
}
