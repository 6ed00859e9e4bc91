//! The seen set of a crawl: every discovered URL, for other programs and for `why`.
//!
//! The frontier's journal is the truth. A URL enters the set only after the commit that discovered
//! it, and opening enters again what may have been lost since the last sync: the set is never
//! ahead. Whether a link is new is decided by the frontier, which knows every page exactly.

use std::ffi::OsStr;
use std::path::Path;

use filemap::canonical::Canonicalizer;
use fm_cli::Failure;
use frontier::{Frontier, PageId};
use urlindex::{DiskOptions, NewSet, SeenSet, StoredSet};

use crate::failure::of_frontier;

/// Memory of the set.
const MEMORY_BYTES: u64 = 16 << 20;
/// URLs entered in a batch.
const BATCH: usize = 10_000;

/// A failure of the set at `path`.
pub fn failure(path: &Path, error: urlindex::Error) -> Failure {
    let files = path.display();
    Failure::from(error)
        .at(path, &format!("Remove {files} and {files}.*: the next run makes the set again from the frontier"))
}

/// Removes the remaining files of a set whose main file is lost.
fn remove_rest(path: &Path) -> Result<(), Failure> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else { return Ok(()) };
    let unreadable = |error| Failure::io("read", folder, &error);
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let is_part = file
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(|part| part.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')));
        if is_part {
            std::fs::remove_file(&file).map_err(|error| Failure::io("remove", &file, &error))?;
        }
    }
    Ok(())
}

/// The set, and how many of the frontier's pages it has.
pub struct Seen {
    set: StoredSet,
    entered: u32,
}

impl Seen {
    /// Opens or creates the set, and brings it up to date with the frontier.
    ///
    /// # Errors
    /// Those of the set and the frontier.
    pub fn open(path: &Path, canonicalizer: &dyn Canonicalizer, frontier: &Frontier) -> Result<Seen, Failure> {
        let disk = || DiskOptions::new().memory_bytes(MEMORY_BYTES);
        let set = match StoredSet::open_with(path, disk()) {
            Err(urlindex::Error::Storage(error)) if error.is_absent() && !path.exists() => {
                remove_rest(path)?;
                StoredSet::create(path, NewSet::Disk(disk()), canonicalizer)?
            }
            opened => opened.map_err(|error| failure(path, error))?,
        };
        // URLs are entered in order, each once: the set has at least the first `len`. Two with one
        // fingerprint count once, and one more URL is then entered again.
        let entered = u32::try_from(set.len()).unwrap_or(u32::MAX).min(frontier.pages());
        let mut seen = Seen { set, entered };
        seen.catch_up(frontier)?;
        Ok(seen)
    }

    /// Enters the pages that a commit of the frontier made durable.
    ///
    /// # Errors
    /// Those of the set and the frontier.
    pub fn catch_up(&mut self, frontier: &Frontier) -> Result<(), Failure> {
        let mut verdicts = Vec::new();
        while self.entered < frontier.pages() {
            let some = frontier.urls_from(PageId::new(self.entered)).take(BATCH);
            let urls =
                some.map(|page| page.map(|(_, url)| url)).collect::<Result<Vec<String>, _>>().map_err(of_frontier)?;
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
    /// Those of the set.
    pub fn sync(&self) -> Result<(), Failure> {
        Ok(self.set.sync()?)
    }

    /// Closes the set.
    ///
    /// # Errors
    /// Those of the set.
    pub fn close(self) -> Result<(), Failure> {
        Ok(self.set.close()?)
    }
}
