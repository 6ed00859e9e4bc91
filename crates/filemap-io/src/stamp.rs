//! Whether a file of the user's has changed since it was read, without reading it again.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// How a file was at a moment. Equal stamps are of equal bytes, unless the file was changed twice
/// within the grain of the file system's clock: trust one only if its time is some seconds ago.
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
    /// The stamp of the file at a path, links followed.
    ///
    /// # Errors
    /// I/O errors, such as [`io::ErrorKind::NotFound`].
    pub fn of(path: &Path) -> io::Result<Stamp> {
        let about = std::fs::metadata(path)?;
        Ok(Stamp { modified: about.modified()?, bytes: about.len(), identity: (about.dev(), about.ino()) })
    }

    /// When the file was changed last, by its file system's clock.
    pub fn modified(&self) -> SystemTime {
        self.modified
    }
}
