//! The crawl's seen set: every discovered URL, for other programs and for `why`.
//!
//! The frontier's journal is the truth, and decides whether a link is new. A URL enters the set
//! after the commit that discovered it, so the set is never ahead. A crash may lose any URLs since
//! the last sync. A note says how many the set certainly has; opening enters the later ones again.

use std::path::Path;

use filemap::canonical::Canonicalizer;
use filemap_io::{Dir as _, OsDir};
use frontier::{Frontier, PageId};
use urlindex::stored::{NewSet, StoredSet};
use urlindex::{DiskOptions, SeenSet};

use crate::error::Error;
use crate::files;
use crate::files::sequence::SequenceNote;

/// Memory of the set.
const MEMORY_BYTES: u64 = 16 << 20;
/// URLs entered in a batch.
const BATCH: usize = 10_000;

/// An error of the set at `path`.
pub fn failure(path: &Path, error: urlindex::Error) -> Error {
    let files = path.display();
    Error::from(error)
        .at(path, &format!("Remove {files} and {files}.*: the next run rebuilds the set from the frontier"))
}

/// Removes the side files of a set whose main file is lost.
fn remove_rest(dir: &OsDir) -> Result<(), Error> {
    let all = dir.list().map_err(|error| Error::io("read", dir.path(), error))?;
    all.iter()
        .filter(|name| files::is_beside_seen(name))
        .try_for_each(|name| filemap_io::files::remove(dir, name))
        .map_err(|error| Error::files(dir.path(), error))
}

/// The seen set, and the number of frontier pages it has.
///
/// ```
/// use crawl::files::seen::Seen;
/// use frontier::{Frontier, FrontierOptions};
/// use urlindex::SeenSet;
/// use urlindex::stored::StoredSet;
/// # let place = tempfile::tempdir()?;
/// let mut frontier = Frontier::create(place.path().join("frontier"), FrontierOptions::new())?;
/// frontier.seed(&["http://example.com/"], 7)?;
/// frontier.commit()?;
/// let dir = filemap_io::OsDir::open(place.path())?;
/// Seen::open(&dir, &urlindex::Whatwg, &frontier)?.close()?;
/// assert_eq!(StoredSet::open(place.path().join("seen"))?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Seen {
    set: StoredSet,
    entered: u32,
    note: SequenceNote,
}

impl Seen {
    /// Opens or creates the set in the folder of a crawl, and brings it up to date with the
    /// frontier.
    ///
    /// # Errors
    /// Errors of the set and the frontier.
    pub fn open(dir: &OsDir, canonicalizer: &dyn Canonicalizer, frontier: &Frontier) -> Result<Seen, Error> {
        let path = &dir.path().join(files::SEEN);
        let disk = || DiskOptions::new().memory_bytes(MEMORY_BYTES);
        let set = match StoredSet::open_with(path, disk()) {
            Err(urlindex::Error::Storage(error)) if error.is_absent() && !path.exists() => {
                remove_rest(dir)?;
                filemap_io::files::remove(dir, files::SEEN_NOTE).map_err(|error| Error::files(dir.path(), error))?;
                StoredSet::create(path, NewSet::Disk(disk()), canonicalizer)?
            }
            opened => opened.map_err(|error| failure(path, error))?,
        };
        let note = SequenceNote::named(dir, files::SEEN_NOTE)?;
        // A set restored from an older copy has fewer than noted.
        let noted = if set.len() >= note.get() { note.get() } else { 0 };
        let entered = u32::try_from(noted).unwrap_or(u32::MAX).min(frontier.pages());
        let mut seen = Seen { set, entered, note };
        seen.catch_up(frontier)?;
        Ok(seen)
    }

    /// Enters the pages that a commit of the frontier made durable.
    ///
    /// # Errors
    /// Errors of the set and the frontier.
    pub fn catch_up(&mut self, frontier: &Frontier) -> Result<(), Error> {
        let mut verdicts = Vec::new();
        while self.entered < frontier.pages() {
            let some = frontier.urls_from(PageId::new(self.entered)).take(BATCH);
            let urls = some.map(|page| page.map(|(_, url)| url)).collect::<Result<Vec<String>, _>>()?;
            if urls.is_empty() {
                break;
            }
            let bytes: Vec<&[u8]> = urls.iter().map(String::as_bytes).collect();
            self.set.check_and_insert_batch(&bytes, &mut verdicts)?;
            self.entered += u32::try_from(urls.len()).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// Makes entries durable; lost ones are entered again on opening.
    ///
    /// # Errors
    /// Errors of the set.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.set.sync()?;
        self.note.note(u64::from(self.entered))
    }

    /// Closes the set.
    ///
    /// # Errors
    /// Errors of the set.
    pub fn close(mut self) -> Result<(), Error> {
        self.sync()?;
        Ok(self.set.close()?)
    }
}
