//! Files edited by people while a crawl runs: their text, and when to reload it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use filemap_io::Stamp;
use filemap_io::system::open_to_inspect;

/// Within this time a file may change again without a change of its stamp.
const SETTLES: Duration = Duration::from_secs(3);

/// Watches a file for changes, and waits until nobody is still writing it.
///
/// ```
/// use crawl::files::watched::Watch;
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("list");
/// std::fs::write(&path, "old")?;
/// let mut watch = Watch::new(&path);
/// std::fs::write(&path, "new text")?;
/// // It has changed, but somebody may still write it; now it rests.
/// assert!(!watch.is_due() && watch.is_due());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    /// The stamp when the file was read, and whether that was older than `SETTLES`. `None` if the
    /// file could not be examined.
    read: Option<(Stamp, bool)>,
    /// The stamp at the last look.
    seen: Option<Stamp>,
}

impl Watch {
    /// Begins to watch a file that is read now.
    pub fn new(path: &Path) -> Watch {
        let read = look(path);
        Watch { path: path.to_owned(), read, seen: read.map(|(stamp, _)| stamp) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether to reload the file: it may have changed since it was read, and has not
    /// changed since the last look.
    pub fn is_due(&mut self) -> bool {
        let now = look(&self.path);
        let stamp = now.map(|(stamp, _)| stamp);
        let rests = std::mem::replace(&mut self.seen, stamp) == stamp;
        let is_as_read = now.is_some_and(|(_, has_settled)| has_settled) && now == self.read;
        if !rests || is_as_read {
            return false;
        }
        self.read = now;
        true
    }
}

/// A file's stamp, and whether it is older than [`SETTLES`].
fn look(path: &Path) -> Option<(Stamp, bool)> {
    let stamp = Stamp::of(path).ok()?;
    Some((stamp, stamp.modified().elapsed().is_ok_and(|age| age > SETTLES)))
}

/// Reads a text file; refuses pipes and devices.
///
/// # Errors
/// I/O errors; `InvalidData` if it is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let file = open_to_inspect(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_due_when_it_has_changed_and_rests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("old");
        let mut watch = Watch::new(&path);
        // An editor rewrites it: it is empty first.
        write("");
        assert!(!watch.is_due());
        write("new text");
        assert!(!watch.is_due());
        assert!(watch.is_due());
        std::fs::remove_file(&path).unwrap();
        assert!(!watch.is_due() && watch.is_due(), "whoever reads it says that it is gone");
        write("new text");
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(60);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        assert!(!watch.is_due() && watch.is_due() && !watch.is_due(), "it has settled");
    }
}
