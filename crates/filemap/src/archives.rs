//! Access to the archive files of pages in place.

use std::fmt::Debug;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use filemap_io::File;
use filemap_io::system::open_to_inspect;

/// Opens the archive files whose records a store leaves in place.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use std::io::Read;
///
/// use filemap::archives::{Archives, LocalArchives};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("a.warc");
/// std::fs::write(&path, "0123456789")?;
/// let mut record = String::new();
/// LocalArchives.open(&path.to_string_lossy(), 3, Some(4))?.read_to_string(&mut record)?;
/// assert_eq!(record, "3456");
/// # Ok(())
/// # }
/// ```
pub trait Archives: Debug + Send + Sync {
    /// Opens the file at `location` for reading from `offset`: `length` bytes if given, else to
    /// its end. A caller may stop earlier.
    ///
    /// # Errors
    ///
    /// The error of opening; `NotFound` if the file is missing.
    fn open(&self, location: &str, offset: u64, length: Option<u64>) -> io::Result<Box<dyn Read + Send>>;
}

/// Opens files of this machine. An address of another machine is an error.
///
/// ```
/// use filemap::archives::{Archives, LocalArchives};
///
/// let elsewhere = LocalArchives.open("https://example.com/a.warc", 0, None).err();
/// assert_eq!(elsewhere.map(|error| error.kind()), Some(std::io::ErrorKind::Unsupported));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalArchives;

impl Archives for LocalArchives {
    fn open(&self, location: &str, offset: u64, length: Option<u64>) -> io::Result<Box<dyn Read + Send>> {
        if is_remote(location) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this program reads no archives of other machines"));
        }
        let part = Part { file: open_to_inspect(Path::new(location))?, at: offset };
        Ok(Box::new(part.take(length.unwrap_or(u64::MAX))))
    }
}

/// A file from an offset on.
#[derive(Debug)]
struct Part {
    file: Arc<dyn File>,
    at: u64,
}

impl Read for Part {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(out, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Returns whether a location is an address on another machine, not a path.
pub fn is_remote(location: &str) -> bool {
    let scheme = |scheme: &str| location.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    scheme("http://") || scheme("https://")
}
