//! Detects a change of a user's file without reading it again.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// Size, time and identity of a file. Equal stamps mean equal bytes, unless the file was changed
/// twice within the resolution of the file system's clock: trust a stamp only if its time is some
/// seconds ago.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::Stamp;
/// let path = temp.path().join("list");
/// std::fs::write(&path, "a")?;
/// let before = Stamp::of(&path)?;
/// std::fs::write(&path, "ab")?;
/// assert_ne!(Stamp::of(&path)?, before);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    modified: SystemTime,
    bytes: u64,
    /// Device and inode.
    identity: (u64, u64),
}

impl Stamp {
    /// Takes the stamp of the file at a path, following links.
    ///
    /// # Errors
    /// I/O errors, such as [`io::ErrorKind::NotFound`].
    pub fn of(path: &Path) -> io::Result<Stamp> {
        let about = std::fs::metadata(path)?;
        Ok(Stamp { modified: about.modified()?, bytes: about.len(), identity: (about.dev(), about.ino()) })
    }

    /// Time of the last change, by the file system's clock.
    pub fn modified(&self) -> SystemTime {
        self.modified
    }
}
